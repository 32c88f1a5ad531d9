"""Hudi options that the design owns can't be overridden; the others can."""

from pathlib import Path

import pytest

from sluice.config.hudi_overrides import ALLOWED, CHOICES, PREFIX, REASONS, are_of_files, refusal, unfit_value, unknown

# Every `hoodie.` option, with its alternatives, of the classes `Hoodie*Config`, `DataSource*Options` and their like in
# the bundle for Spark 3.5.
OPTIONS = (
    (Path(__file__).resolve().parents[3] / "data" / "hudi_1.0.2_options.txt").read_text(encoding="ascii").splitlines()
)


OWNED = """
    hoodie.archive.automatic hoodie.clean.async.enabled hoodie.clean.policy hoodie.cleaner.hours.retained
    hoodie.clustering.inline hoodie.compact.inline hoodie.compaction.payload.class hoodie.datasource.hive_sync.enable
    hoodie.datasource.write.keygenerator.class hoodie.datasource.write.operation
    hoodie.datasource.write.partitionpath.field hoodie.datasource.write.payload.class
    hoodie.datasource.write.precombine.field hoodie.datasource.write.recordkey.field
    hoodie.datasource.write.row.writer.enable hoodie.datasource.write.table.type hoodie.index.class hoodie.index.type
    hoodie.keep.max.commits hoodie.metadata.enable hoodie.metadata.index.async hoodie.partition.ttl.inline
    hoodie.record.merge.mode hoodie.simple.index.update.partition.path hoodie.table.cdc.enabled
    hoodie.table.keygenerator.type hoodie.table.ordering.fields hoodie.table.precombine.field
    hoodie.table.recordkey.fields hoodie.table.timeline.timezone hoodie.table.version hoodie.timeline.timezone
    hoodie.write.auto.upgrade hoodie.write.lock.provider hoodie.write.record.merge.mode hoodie.write.table.version"""


@pytest.mark.parametrize("option", OWNED.split())
def test_an_option_that_the_design_owns_is_refused_with_its_owner(option):
    assert refusal(option)


@pytest.mark.parametrize(
    "option",
    [
        "hoodie.parquet.max.file.size",
        "hoodie.parquet.compression.codec",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.memory.merge.fraction",
        "hoodie.simple.index.parallelism",
        "hoodie.clean.parallelism",
    ],
)
def test_an_option_of_size_and_speed_is_allowed(option):
    assert refusal(option) is None and unknown(option) is None


def test_an_option_that_breaks_or_does_nothing_is_refused_with_its_reason():
    assert refusal("hoodie.datasource.hive_sync.enable") == (
        "is decided by `catalog`, which follows each commit: Hudi's own sync throws after it"
    )
    assert "`sluice diff`" in refusal("hoodie.table.cdc.enabled")
    assert "record index alone" in refusal("hoodie.metadata.enable")


def test_every_option_of_the_pinned_hudi_is_allowed_by_name_or_refused():
    assert len(OPTIONS) > 600
    assert [option for option in OPTIONS if unknown(option)] == []
    allowed = {f"{start}.{end}" for start, ends in ALLOWED.items() for end in ends.split()}
    assert allowed <= set(OPTIONS), "an allowed option is one of Hudi's"


def test_no_name_is_in_two_groups():
    names = [name for listed in REASONS.values() for name in listed.split()]
    assert len(names) == len(set(names))


def test_an_unknown_option_is_passed_on_with_a_warning():
    written = "hoodie.parquet.max.file.sizes"
    assert refusal(written) is None
    assert "did you mean hoodie.parquet.max.file.size?" in unknown(written)
    assert unknown("hoodie.index.type") is None, "what is refused needs no warning"


@pytest.mark.parametrize("option", ["spark.executor.memory", "hoodie", PREFIX, "", "fs.s3.impl"])
def test_what_is_no_hudi_option_is_refused(option):
    assert refusal(option)


@pytest.mark.parametrize(
    ("option", "kind", "fit", "unfit"),
    [
        ("hoodie.parquet.max.file.size", "a whole number", "125829120", ("big", "1.5", "120MB", "")),
        ("hoodie.memory.merge.fraction", "a number", "0.6", ("half", "60%", ".", "")),
        ("hoodie.parquet.dictionary.enabled", "true or false", "true", ("yes", "1")),
    ],
)
def test_a_value_that_hudi_could_not_read_is_named_with_what_it_has_to_be(option, kind, fit, unfit):
    assert unfit_value(option, fit) is None
    assert {unfit_value(option, text) for text in unfit} == {kind}


@pytest.mark.parametrize(
    ("option", "fit", "unfit"),
    [
        ("hoodie.parquet.compression.codec", ("zstd", "ZSTD", "lz4_raw"), ("zstdd", "", "brotli")),
        ("hoodie.bulkinsert.sort.mode", ("GLOBAL_SORT", "none"), ("global", "sort")),
        ("hoodie.common.spillable.diskmap.type", ("BITCASK", "rocks_db"), ("rocksdb", "unknown")),
        ("hoodie.filesystem.view.type", ("MEMORY",), ("memory", "REMOTE_ONLY")),
        ("hoodie.write.status.storage.level", ("MEMORY_AND_DISK_SER",), ("memory_only", "DISK")),
    ],
)
def test_an_option_that_takes_one_of_a_few_values_takes_no_other(option, fit, unfit):
    assert [text for text in fit if unfit_value(option, text)] == []
    needed = f"one of {', '.join(CHOICES[option].split())}"
    assert {unfit_value(option, text) for text in unfit} == {needed}


def test_only_options_of_places_and_classes_take_any_text():
    options = {f"{start}.{end}" for start, ends in ALLOWED.items() for end in ends.split()}
    assert set(CHOICES) <= options
    free = {option.rpartition(".")[2] for option in options if unfit_value(option, "any") is None}
    assert free == {"dir", "exceptions", "path"}


def test_options_of_files_are_told_from_those_of_the_engine() -> None:
    of_engine = {"hoodie.upsert.shuffle.parallelism": "8", "hoodie.memory.merge.fraction": "0.6"}
    assert not are_of_files({}) and not are_of_files(of_engine)
    for option in ("hoodie.parquet.max.file.size", "hoodie.logfile.max.size", "hoodie.merge.unknown", "hoodie.unknown"):
        assert are_of_files({**of_engine, option: "1"})
