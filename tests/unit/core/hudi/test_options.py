"""The Hudi options of a table."""

from __future__ import annotations

from support.shapes import config as table

from sluice.config import hudi_overrides as override_policy
from sluice.config.services import Pace, ServicePolicy
from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice.hudi import own_metadata, table_properties
from sluice.hudi.write_choices import COMMITS_PER_HOUSEKEEPING


def options(config: TableConfig) -> dict:
    return hudi_options.write_options(config, operation="upsert", parallelism=2)


def test_both_names_of_the_ordering_field_are_in_a_tables_properties() -> None:
    made = table_properties.creation_properties(table())
    assert made["hoodie.table.precombine.field"] == made["hoodie.table.ordering.fields"] == "_sluice_position"


def test_a_key_is_never_made_by_the_complex_generator() -> None:
    configs = [table(), table(partition_by=("a",)), table(partition_by=("a", "b")), table("id", "n")]
    expected = ["NonpartitionedKeyGenerator", "CustomKeyGenerator", "CustomKeyGenerator", "NonpartitionedKeyGenerator"]
    assert [hudi_options.key_generator(config).rsplit(".", 1)[1] for config in configs] == expected
    assert hudi_options.partition_fields(table(partition_by=("a", "b"))) == "a:SIMPLE,b:SIMPLE"


def test_rows_are_found_in_every_partition_where_there_are_partitions() -> None:
    assert options(table(partition_by=("a",)))["hoodie.index.type"] == "GLOBAL_SIMPLE"
    assert options(table(partition_by=("a",)))["hoodie.simple.index.update.partition.path"] == "true"
    assert options(table())["hoodie.index.type"] == "SIMPLE"


def test_a_timestamp_in_a_key_is_its_microseconds_whatever_the_table_configures() -> None:
    config = table(hudi={"hoodie.datasource.write.row.writer.enable": "true"})
    names = (
        "hoodie.datasource.write.row.writer.enable",
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
    )
    assert [
        hudi_options.write_options(config, operation="upsert", parallelism=1, timestamp_key=keyed)[name]
        for keyed in (False, True)
        for name in names
    ] == ["true", "true", "false", "false"]


def test_logs_of_a_table_with_a_list_of_timestamps_hold_parquet() -> None:
    name = "hoodie.logfile.data.block.format"

    def format_of(table_type: str, *kinds: str) -> str | None:
        made = hudi_options.write_options(table(table_type=table_type), operation="upsert", parallelism=1, kinds=kinds)
        return made.get(name)

    assert format_of("mor", "int", "array<timestamp>") == "parquet"
    assert [format_of("mor", "timestamp", "array<date>"), format_of("cow", "array<timestamp>")] == [None, None]
    assert override_policy.refusal(name), "no table's configuration can change it"


def test_a_tables_own_options_override_defaults_but_not_the_fixed_ones() -> None:
    own = {"hoodie.parquet.compression.codec": "snappy", "hoodie.write.table.version": "8"}
    made = options(table(hudi={**own, "hoodie.metadata.enable": "true"}))
    assert made["hoodie.parquet.compression.codec"] == "snappy"
    assert made["hoodie.write.table.version"] == "6"
    assert made["hoodie.metadata.enable"] == "false"


def test_no_service_runs_asynchronously_and_no_write_cleans_or_archives() -> None:
    for config in (table(), table(table_type="mor")):
        made = options(config)
        assert {name: value for name, value in made.items() if "async" in name and value != "false"} == {}
        assert (made["hoodie.clean.automatic"], made["hoodie.archive.automatic"]) == ("false", "false")
        assert {made[f"hoodie.datasource.{sync}.enable"] for sync in ("hive_sync", "meta.sync")} == {"false"}


def test_cleaning_plans_by_the_hours_of_time_travel() -> None:
    assert hudi_options.CLEANING_OPTIONS == {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS"}


def test_archival_keeps_far_more_commits_than_it_takes_to_find_a_batch_by_its_id() -> None:
    made = hudi_options.archival_options()
    fewest, most = int(made["hoodie.keep.min.commits"]), int(made["hoodie.keep.max.commits"])
    assert most > fewest >= 5 * COMMITS_PER_HOUSEKEEPING
    assert override_policy.refusal("hoodie.keep.min.commits"), "no table's configuration can lower it"


def test_a_write_compacts_only_where_no_service_does() -> None:
    unserved = (ServicePolicy(on=False), ServicePolicy(compaction=Pace(on=False)))
    assert [
        options(table(table_type="mor", services=policy))["hoodie.compact.inline"]
        for policy in (ServicePolicy(), *unserved)
    ] == ["false", "true", "true"]
    assert "hoodie.compact.inline" not in options(table())


def test_a_clustering_takes_all_or_one_slice_and_no_group_of_a_single_file() -> None:
    def groups(budget_mib: int, table_mib: int) -> tuple[int, int]:
        config = table(services=ServicePolicy(cluster_by=("a", "b")))
        made = hudi_options.clustering_options(config, budget_mib * 1024**2, table_mib * 1024**2)
        assert made["hoodie.clustering.plan.strategy.sort.columns"] == "a,b"
        most_bytes = int(made["hoodie.clustering.plan.strategy.max.bytes.per.group"])
        return int(made["hoodie.clustering.plan.strategy.max.num.groups"]), most_bytes // 1024**2

    assert groups(160, 100) == (1_000, 160) and groups(160, 5_000) == (1, 160)
    assert groups(5, 5_000) == (1, 128) and groups(6_144, 100_000) == (3, 2_048)


def test_differing_table_properties_are_distinguished_from_missing_ones() -> None:
    properties = table_properties.wanted_properties(table())
    whole = {**properties.fixed, **properties.readers}
    assert table_properties.differing(properties, whole) == {} and table_properties.absent(properties, whole) == {}
    old = {name: value for name, value in whole.items() if name != "hoodie.table.ordering.fields"}
    assert table_properties.differing(properties, old) == {}
    assert table_properties.absent(properties, old) == {"hoodie.table.ordering.fields": "_sluice_position"}
    other = {**whole, "hoodie.table.recordkey.fields": "key", "hoodie.table.precombine.field": "ts"}
    assert table_properties.differing(properties, other) == {
        "hoodie.table.recordkey.fields": ("key", "id"),
        "hoodie.table.precombine.field": ("ts", "_sluice_position"),
    }


def test_a_partitioned_tables_file_differs_from_a_table_without_partitions() -> None:
    parted = table_properties.wanted_properties(table(partition_by=("place",)))
    whole = table_properties.wanted_properties(table())
    actual = {**parted.fixed, **parted.readers}
    assert table_properties.differing(whole, actual) == {"hoodie.table.partition.fields": ("place", "")}


def test_a_rebuilt_table_keeps_sluices_notes_but_nothing_of_its_configuration() -> None:
    expected = {"sluice.truncated_at": "5", "hoodie.table.metadata.partitions": "files"}
    others = {"hoodie.table.recordkey.fields": "idd", "hoodie.table.type": "MERGE_ON_READ"}
    assert table_properties.kept_when_anew({**expected, **others}) == expected


def test_a_commit_carries_batch_table_and_run_under_the_prefix_that_hudi_copies() -> None:
    made = own_metadata.commit_metadata(batch="b-1", table="db.t", run="run-1")
    prefix = made.pop("hoodie.datasource.write.commitmeta.key.prefix")
    assert made == {"sluice.batch": "b-1", "sluice.table": "db.t", "sluice.run": "run-1"}
    assert all(name.startswith(prefix) for name in made)


def test_the_file_for_new_rows_of_a_merge_on_read_table_is_a_small_part_of_it():
    name = "hoodie.parquet.small.file.limit"
    config, counts = table(table_type="mor"), (0, 170_000, 10**6, 10**9, None)
    how = {"operation": hudi_options.UPSERT, "parallelism": 1}
    sizes = [int(hudi_options.write_options(config, **how, rows=rows)[name]) for rows in counts]
    assert sizes == [1024**2, 1024**2, 3_200_000, 100 * 1024**2, 100 * 1024**2]
    assert name not in options(table())
    assert options(table(table_type="mor", hudi={name: "0"}))[name] == "0"
