"""Hudi options that the design owns can't be overridden; the others can."""

import pytest

from sluice.config.hudi_overrides import NAMESPACE, refusal


@pytest.mark.parametrize(
    "option",
    [
        "datasource.write.recordkey.field",
        "table.recordkey.fields",
        "datasource.write.precombine.field",
        "table.precombine.field",
        "table.ordering.fields",
        "datasource.write.partitionpath.field",
        "datasource.write.keygenerator.class",
        "table.keygenerator.type",
        "write.table.version",
        "table.version",
        "write.auto.upgrade",
        "timeline.timezone",
        "table.timeline.timezone",
        "datasource.write.payload.class",
        "compaction.payload.class",
        "record.merge.mode",
        "write.record.merge.mode",
        "index.type",
        "index.class",
        "simple.index.update.partition.path",
        "datasource.write.table.type",
        "datasource.write.operation",
        "cleaner.hours.retained",
        "clean.policy",
        "clean.async.enabled",
        "keep.max.commits",
        "archive.automatic",
        "compact.inline",
        "clustering.inline",
        "write.lock.provider",
        "metadata.index.async",
    ],
)
def test_an_option_that_the_design_owns_is_refused_with_its_owner(option):
    assert refusal(f"{NAMESPACE}.{option}")


@pytest.mark.parametrize(
    "option",
    [
        "parquet.max.file.size",
        "parquet.compression.codec",
        "upsert.shuffle.parallelism",
        "memory.merge.fraction",
        "simple.index.parallelism",
        "metadata.enable",
    ],
)
def test_an_option_of_size_and_speed_is_allowed(option):
    assert refusal(f"{NAMESPACE}.{option}") is None


@pytest.mark.parametrize("option", ["spark.executor.memory", NAMESPACE, NAMESPACE + ".", "", "fs.s3.impl"])
def test_what_is_no_hudi_option_is_refused(option):
    assert refusal(option)
