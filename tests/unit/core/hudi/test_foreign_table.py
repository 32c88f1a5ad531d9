"""Tables of other tools: what their properties say, and why their rows can't be adopted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.builders import avro_record
from support.shapes import config as table

from sluice.errors import NotAdoptable
from sluice.hudi.foreign_table import adopted_columns, check_adoptable, foreign_table, stated_moments
from sluice.schema.columns import DATE, TIMESTAMP_MICROS, TIMESTAMP_MILLIS, Column

# What Hudi Streamer writes for a table with defaults (release 0.15.0).
STREAMER = {
    "hoodie.table.name": "orders",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "place",
    "hoodie.table.precombine.field": "updated_at",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.table.metadata.partitions": "column_stats,files",
    "hoodie.datasource.write.hive_style_partitioning": "false",
}
# What Hudi's builder makes of the facts that Flink's writer gives it (release 1.0.2); no table of Flink's was at hand.
FLINK = {
    "hoodie.table.name": "orders",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "8",
    "hoodie.table.initial.version": "8",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "place",
    "hoodie.table.precombine.field": "ts",
    "hoodie.table.keygenerator.type": "SIMPLE_AVRO",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.EventTimeAvroPayload",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.layout.version": "2",
}


def test_the_properties_of_hudi_streamer_are_described() -> None:
    described = foreign_table(STREAMER, ["20240101000000000.commit", "20240101000000001.commit.requested"])

    assert described.to_dict() == {
        "version": "6",
        "type": "copy-on-write",
        "record_key": ["id"],
        "partition_by": ["place"],
        "ordering": "updated_at",
        "key_generator": "SimpleKeyGenerator",
        "payload": "OverwriteWithLatestAvroPayload",
        "metadata_table": ["column_stats", "files"],
        "pending": ["20240101000000001"],
    }


def test_the_properties_of_flink_in_version_8_are_described() -> None:
    names = [
        "20240101000000000_20240101000001000.deltacommit",
        "20240101000000000.deltacommit.requested",
        "20240101000000000.deltacommit.inflight",
        "20240101000000002.deltacommit.inflight",
        "hoodie.properties",
    ]
    described = foreign_table(FLINK, names)

    expected = ("8", True, "ts", "SIMPLE_AVRO")
    assert (described.version, described.merge_on_read, described.ordering, described.key_generator) == expected
    assert described.payload == "EventTimeAvroPayload" and described.pending == ("20240101000000002",)


@pytest.mark.parametrize("properties", [STREAMER, FLINK], ids=["streamer", "flink"])
def test_other_paths_orders_and_payloads_are_no_obstacle(properties: dict[str, str]) -> None:
    assert check_adoptable(properties, table()).record_key == ("id",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hoodie.table.version": "5"}, "table version 5"),
        ({"hoodie.table.version": "10"}, "table version 10"),
        ({"hoodie.table.version": ""}, "table version unknown"),
        ({"hoodie.table.recordkey.fields": "id,place"}, "record key is id, place, and the rule's is id"),
        ({"hoodie.table.recordkey.fields": ""}, "record key is generated"),
        ({"hoodie.table.precombine.field": "_sluice_position"}, "Sluice wrote it"),
        ({"hoodie.bootstrap.base.path": "s3://old/files"}, "bootstrapped"),
        ({"hoodie.populate.meta.fields": "false"}, "no columns of Hudi"),
    ],
    ids=["older", "newer", "no-version", "other-key", "no-key", "own", "bootstrapped", "no-meta-columns"],
)
def test_what_cannot_be_adopted_is_refused_with_the_reason(change: dict[str, str], reason: str) -> None:
    with pytest.raises(NotAdoptable, match=reason) as refused:
        check_adoptable({**STREAMER, **change}, table())

    assert refused.value.next_step


def test_a_version_that_the_runs_hudi_does_not_read_is_refused() -> None:
    properties = {**STREAMER, "hoodie.table.version": "9"}
    assert check_adoptable(properties, table()).version == "9"
    with pytest.raises(NotAdoptable, match="table version 9") as refused:
        check_adoptable(properties, table(), newest=8)
    assert "version 6 or 8, which this engine reads" in refused.value.next_step


def test_columns_are_compared_by_name_and_type() -> None:
    own = {"id": "bigint", "name": "string", "since": "date", "born": "date", "_sluice_position": "string"}
    source = {"born": Column("born", DATE, "date")}

    actual = {"_hoodie_commit_time": "string", "id": "int", "name": "string", "old": "int", "born": "int"}
    columns = adopted_columns(actual, own, table(), source)

    assert columns.both == ("id", "name", "born"), "a narrower type is cast"
    assert (columns.raw, columns.absent, columns.left) == (("born",), ("since",), ("old",))


@pytest.mark.parametrize(
    ("actual", "reason"),
    [
        ({"id": "bigint", "name": "string"}, "id is bigint, not int"),
        ({"id": "int", "name": "binary"}, "name is binary, not string"),
        ({"name": "string"}, "no column id"),
    ],
    ids=["wider", "other", "no-key"],
)
def test_columns_that_would_lose_values_are_refused(actual: dict[str, str], reason: str) -> None:
    with pytest.raises(NotAdoptable, match=reason):
        adopted_columns(actual, {"id": "int", "name": "string"}, table(), {})


def test_columns_that_sluice_stores_in_other_letters_are_refused() -> None:
    own = {"id": "int", "gr_u00f6_u00dfe": "string"}
    reason = "it has größe. Rename größe to gr_u00f6_u00dfe in a copy of the table, and adopt that"
    with pytest.raises(NotAdoptable) as refused:
        adopted_columns({"id": "int", "größe": "string", "höhe": "int"}, own, table(), {})
    assert reason in str(refused.value) and "höhe" not in str(refused.value)
    assert adopted_columns({"id": "int", "höhe": "int"}, own, table(), {}).left == ("höhe",), "no column takes it"
    key = replace(table(), record_key=("gr_u00f6_u00dfe",))
    with pytest.raises(NotAdoptable) as refused:
        check_adoptable({**STREAMER, "hoodie.table.recordkey.fields": "größe"}, key)
    assert reason in str(refused.value)


def test_the_unit_of_a_moment_is_the_other_tables_own() -> None:
    local = {"type": "long", "logicalType": "local-timestamp-millis"}
    fields = {"id": "long", "seen": ["null", local], "kept": local, "day": local, "at": {"type": "long"}, "gone": local}
    schema = json.dumps(avro_record(fields, name="r"))
    own = {"id": "bigint", "seen": "timestamp", "kept": "bigint", "day": "date", "at": "timestamp"}
    source = {name: Column(name, TIMESTAMP_MICROS, "timestamp") for name in ("seen", "at")}

    stated = stated_moments(schema, own)

    assert {name: column.kind for name, column in stated.items()} == {"seen": TIMESTAMP_MILLIS}
    assert stated_moments("", own) == {}
    actual = {"id": "bigint", "seen": "bigint", "at": "bigint"}
    assert adopted_columns(actual, own, table(), {**source, **stated}).raw == ("seen", "at")
    without_source = adopted_columns({"id": "bigint", "seen": "bigint"}, own, table(), stated)
    assert without_source.raw == ("seen",), "the source's type may be text, or unknown"
