"""Tables of other tools are adopted: their rows are kept until a change of the source says otherwise."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from support.builders import change, flattened
from support.workbench import Died, Workbench, dies_at, row, table

from sluice.changes.forgotten import key_hash, with_mark
from sluice.changes.position import is_adopted
from sluice.config.table import TableConfig
from sluice.errors import NotAdoptable
from sluice.hudi.own_metadata import FORGOTTEN_PROPERTY
from sluice.services.requests import ADOPTION, SliceDone
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.table import HudiTable

COLUMNS = ("id", "place", "name", "__deleted")
VERSION_9 = Path(__file__).parents[1] / "data" / "hudi_tables" / "version_9" / "orders"
GENERATORS = "org.apache.hudi.keygen."
WRITE = "hoodie.datasource.write."
FIELDS = {
    "hoodie.table.name": "orders",
    f"{WRITE}recordkey.field": "id",
    f"{WRITE}partitionpath.field": "place",
    f"{WRITE}precombine.field": "updated_at",
    "hoodie.upsert.shuffle.parallelism": "1",
}
# What Hudi Streamer writes with its defaults: a partition per place, without its name in the path.
STREAMER = {
    **FIELDS,
    "hoodie.write.table.version": "6",
    f"{WRITE}keygenerator.class": GENERATORS + "SimpleKeyGenerator",
    f"{WRITE}hive_style_partitioning": "false",
    f"{WRITE}payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.index.type": "BLOOM",
    "hoodie.metadata.enable": "true",
}
# A log with a newer row, by the complex generator; version 8 as releases from 1.0 on make it.
COMPLEX = {**STREAMER, f"{WRITE}keygenerator.class": GENERATORS + "ComplexKeyGenerator"}
IN_LOGS = {**COMPLEX, f"{WRITE}table.type": "MERGE_ON_READ"}
VERSION_8 = {**IN_LOGS, "hoodie.write.table.version": "8"}
# What Flink hands to the same Hudi client for a table with `changelog.enabled` and a bucket index.
FLINK_PAYLOAD = "org.apache.hudi.common.model.EventTimeAvroPayload"
CHANGELOG = {
    **FIELDS,
    "hoodie.allow.operation.metadata.field": "true",
    f"{WRITE}operation": "upsert",
    f"{WRITE}table.type": "MERGE_ON_READ",
    f"{WRITE}payload.class": FLINK_PAYLOAD,
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
KINDS = {"streamer": STREAMER, "logs": IN_LOGS, "version-8": VERSION_8}

Old = tuple[int, str, str, int]


def written(bench: Workbench, *commits: Sequence[Old], options: Mapping[str, str] = STREAMER) -> str:
    """A table that another tool wrote, with one more column; its URI."""
    place = bench.services.tables_uri + "/old/orders"
    for rows in commits:
        frame = bench.spark.createDataFrame(list(rows), "id int, place string, name string, updated_at bigint")
        frame.write.format("hudi").options(**options).mode("append").save(place)
    return place


def written_as_changelog(bench: Workbench, version: str, *commits: Sequence[tuple[str, Old]]) -> str:
    """A merge-on-read table that keeps each row's operation, with one more column, of moments; its URI.

    Spark's data source can't write such rows. Hudi's client takes them, which Flink's writer uses too.
    """
    place = bench.services.tables_uri + "/old/orders"
    jvm = HudiTable(bench.spark, place, table()).jvm
    moment = {"type": "long", "logicalType": "local-timestamp-millis"}  # Flink's TIMESTAMP_LTZ
    fields = {"id": "int", "place": "string", "name": "string", "updated_at": "int", "seen": moment}
    described = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = json.dumps({"type": "record", "name": "orders", "fields": described})
    made = jvm.classes.common.table.HoodieTableMetaClient.newTableBuilder().setTableName("orders")
    made = made.setTableType("MERGE_ON_READ").setTableVersion(int(version)).setRecordKeyFields("id")
    made = made.setPartitionFields("place").setPreCombineField("updated_at").setPayloadClassName(FLINK_PAYLOAD)
    made.setKeyGeneratorClassProp(GENERATORS + "SimpleAvroKeyGenerator").initTable(jvm.storage_conf(), place)
    java, model, option = bench.spark._jvm, jvm.classes.common.model, jvm.classes.common.util.Option
    parsed = java.org.apache.avro.Schema.Parser().parse(schema)
    for commit in commits:
        options = {**CHANGELOG, "hoodie.write.table.version": version}
        client = jvm.write_client(place, "orders", options, schema)
        records = java.java.util.ArrayList()
        for operation, old in commit:
            values = java.org.apache.avro.generic.GenericData.Record(parsed)
            for name, value in zip(fields, (*old, 1_700_000_000_000)):
                values.put(name, value)
            key, payload = model.HoodieKey(str(old[0]), old[1]), model.EventTimeAvroPayload(option.of(values))
            records.add(model.HoodieAvroRecord(key, payload, model.HoodieOperation.fromName(operation)))
        instant = client.startCommit()
        statuses = client.upsert(bench.spark.sparkContext._jsc.parallelize(records, 1), instant)
        assert client.commit(instant, statuses)
        client.close()
    return place


def adopt(bench: Workbench, config: TableConfig, source: str, **given: Any) -> SliceDone:
    return bench.serve(config, ADOPTION, arguments={"source": source}, **given)


@pytest.mark.whole
@pytest.mark.parametrize("kind", [*KINDS])
def test_the_first_commit_keeps_the_rows_that_the_source_did_not_send(bench: Workbench, kind: str) -> None:
    old = [(1, "A", "old", 10), (2, "A", "old", 10), (3, "B", "old", 10), (4, "B", "old", 10)]
    source = written(bench, old, [(4, "B", "newer", 11)], options=KINDS[kind])
    config = table()
    bench.apply(config, row("u", 100, 1, "A", "new"), row("d", 101, 2))

    done = adopt(bench, config, source)

    expected = [(1, "A", "new", False), (2, None, None, True), (3, "B", "old", False), (4, "B", "newer", False)]
    assert bench.rows_by_both(config, *COLUMNS) == expected
    assert (done.report.rows, done.more) == (2, False)
    assert done.report.more == {"read": 4, "duplicates": 0, "known": 2, "columns_absent": 0, "columns_left": 1}
    assert [is_adopted(position) for (position,) in bench.rows(config, "_sluice_position")].count(True) == 2

    later = [row("u", 5, 3, "C", "changed"), row("d", 6, 4), row("c", 7, 5, "A", "made")]
    outcome = bench.apply(config, *later)

    assert outcome.counts["winning"] == 3, "any change wins, however low its position"
    unchanged, changed = expected[:2], [(3, "C", "changed", False), (4, None, None, True), (5, "A", "made", False)]
    assert bench.rows_by_both(config, *COLUMNS) == [*unchanged, *changed]

    again = adopt(bench, config, source)
    assert (again.report.rows, again.report.instant) == (0, None), "adopting again changes nothing"


def test_a_table_of_version_9_is_adopted_by_an_engine_that_reads_it(bench: Workbench, tmp_path: Path) -> None:
    folder = shutil.copytree(VERSION_9, tmp_path / "orders")
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(folder)).build().read())
    names = sorted(zip(read["id"].to_pylist(), read["name"].to_pylist()))
    assert names == [(1, "old"), (2, "old"), (3, "old"), (4, "newer")]
    config = table()
    bench.apply(config, row("u", 100, 1, "A", "new"))
    if HudiJvm(bench.spark).newest_table_version() >= 9:
        adopt(bench, config, folder.as_uri())
        assert bench.rows(config, "id", "name") == [(1, "new"), (2, "old"), (3, "old"), (4, "newer")]
    else:
        with pytest.raises(NotAdoptable, match="table version 9"):
            adopt(bench, config, folder.as_uri())
        assert bench.rows(config, "id", "name") == [(1, "new")]


@pytest.mark.whole
def test_an_adopted_row_supplies_what_a_change_left_unchanged(bench: Workbench) -> None:
    config = table(table_type="mor", partition_by=("place",))
    source = written(bench, [(1, "A", "long text", 10)])
    unchanged = row("u", 100, 1, "A", "__debezium_unavailable_value")
    bench.apply(config, unchanged, row("c", 101, 2))
    assert bench.rows(config, "id", "name")[0] == (1, None)

    adopt(bench, config, source)

    assert bench.rows(config, *COLUMNS)[0] == (1, "A", "long text", False)
    assert bench.rows_by_hudi_rs(config, "id", "name")[0] == (1, "long text")


@pytest.mark.whole
def test_of_a_key_in_two_partitions_the_row_written_last_is_kept(bench: Workbench) -> None:
    config = table()
    source = written(bench, [(1, "A", "before the move", 10)], [(1, "B", "after the move", 11)])
    bench.apply(config, row("c", 100, 9))

    done = adopt(bench, config, source)

    assert bench.rows(config, *COLUMNS)[0] == (1, "B", "after the move", False)
    assert done.report.more["duplicates"] == 1

    written(bench, [(1, "B", "written since", 12), (2, "A", "new there", 12)])
    assert adopt(bench, config, source).report.rows == 2, "what the other tool wrote since is added"
    assert bench.rows(config, "id", "name")[:2] == [(1, "written since"), (2, "new there")]


@pytest.mark.whole
def test_rows_below_a_truncate_are_not_adopted(bench: Workbench) -> None:
    config = table()
    source = written(bench, [(1, "A", "old", 10)])
    truncate = change("t", 100, id=0, place=None, name=None)
    bench.apply(config, row("c", 99, 8), truncate, row("c", 101, 9))

    assert adopt(bench, config, source).report.rows == 0


@pytest.mark.whole
def test_a_forgotten_row_is_not_adopted(bench: Workbench) -> None:
    config, source = table(), written(bench, [(1, "A", "old", 10), (2, "A", "old", 10)])
    bench.apply(config, row("c", 100, 9))
    hudi = bench.hudi(config)
    noted = with_mark(None, key_hash(config.table, ["1"]), "0000.1")
    assert noted is not None
    hudi.jvm.update_properties(hudi.meta_client(), {FORGOTTEN_PROPERTY: noted})

    assert adopt(bench, config, source).report.rows == 1

    assert [id for (id,) in bench.rows(config, "id")] == [2, 9]


@pytest.mark.whole
def test_a_table_without_a_commit_or_with_other_columns_refuses(bench: Workbench) -> None:
    config, source = table(), written(bench, [(1, "A", "old", 10)])

    with pytest.raises(NotAdoptable, match="no commit yet"):
        adopt(bench, config, source)
    numbers: dict[str, Any] = flattened({"id": "int", "name": ["null", "long"]})
    bench.apply(config, change("c", 100, id=9, name=1), schema=numbers)
    with pytest.raises(NotAdoptable, match="name is string, not bigint"):
        adopt(bench, config, source)


@pytest.mark.whole
def test_times_as_the_connector_counts_them_become_times(bench: Workbench) -> None:
    config = table()
    born = {"type": "int", "connect.name": "io.debezium.time.Date"}
    seen = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    schema = flattened({"id": "int", "born": ["null", born], "seen": ["null", seen]})
    bench.apply(config, change("c", 100, id=9, born=1, seen=1), schema=schema)
    source = bench.services.tables_uri + "/old/orders"
    columns = "id int, place string, born int, seen bigint, updated_at int"
    frame = bench.spark.createDataFrame([(1, "A", 19_000, 1_700_000_000_000_000, 1)], columns)
    frame.write.format("hudi").options(**STREAMER).mode("append").save(source)

    assert adopt(bench, config, source).report.rows == 1

    values = [(id, str(day), str(moment)) for id, day, moment in bench.rows(config, "id", "born", "seen")]
    assert values[0] == (1, "2022-01-08", "2023-11-14 22:13:20")


def test_times_in_texts_of_another_tool_become_times(bench: Workbench) -> None:
    config = table()
    seen = {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
    schema = flattened({"id": "int", "seen": ["null", seen]})
    bench.apply(config, change("c", 100, id=9, seen="2023-11-14T22:13:20Z"), schema=schema)
    source = bench.services.tables_uri + "/old/orders"
    texts = [
        "2023-11-14T22:13:20Z",
        "2023-11-14 22:13:20",
        "2023-11-14",
        "infinity",
        "+292278994-08-16T23:00:00Z",
        None,
    ]
    frame = bench.spark.createDataFrame(
        [(id, "A", text, 1) for id, text in enumerate(texts)], "id int, place string, seen string, updated_at int"
    )
    frame.write.format("hudi").options(**STREAMER).mode("append").save(source)

    assert adopt(bench, config, source).report.rows == len(texts)

    moment, day = "2023-11-14 22:13:20", "2023-11-14 00:00:00"
    assert [str(value) for _, value in bench.rows(config, "id", "seen")][:6] == [moment, moment, day, *["None"] * 3]


@pytest.mark.whole
@pytest.mark.timeout(900)
def test_an_adoption_that_died_before_any_of_its_writes_is_finished_later(bench: Workbench) -> None:
    source = written(bench, [(1, "A", "old", 10), (2, "A", "old", 10), (3, "B", "old", 10)])
    expected = [(1, "A", "new", False), (2, None, None, True), (3, "B", "old", False)]
    for at in count(1):
        config = table(f"t{at}")
        bench.apply(config, row("u", 100, 1, "A", "new"), row("d", 101, 2))
        try:
            adopt(bench, config, source, still_held=dies_at(at))
        except Died:
            adopt(bench, config, source)
            assert (at, bench.rows(config, *COLUMNS)) == (at, expected)
            assert (at, bench.rows_by_hudi_rs(config, *COLUMNS)) == (at, expected)
        else:
            assert at > 1, "it looks at the lane before it writes"
            break


@pytest.mark.whole
@pytest.mark.parametrize("version", ["6", "8"])
def test_rows_that_a_changelog_keeps_as_deleted_are_not_adopted(bench: Workbench, version: str) -> None:
    config = table()
    first = [("I", (1, "A", "old", 10)), ("I", (2, "A", "deleted", 10)), ("I", (3, "B", "before the move", 10))]
    gone = [("D", (2, "A", "deleted", 11)), ("-U", (3, "B", "before the move", 10))]
    later = [("U", (1, "A", "new", 11)), *gone, ("U", (3, "C", "moved", 11))]
    source = written_as_changelog(bench, version, first, later)
    seen = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    schema = flattened({"id": "int", "place": ["null", "string"], "name": ["null", "string"], "seen": ["null", seen]})
    bench.apply(config, change("c", 100, id=9, place="A", name="own", seen=1), schema=schema)
    shown = bench.spark.read.format("hudi").load(source)
    operations = sorted((tuple(row) for row in shown.select("id", "place", "_hoodie_operation").collect()), key=str)
    assert operations == [(1, "A", "U"), (2, "A", "D"), (3, "B", "-U"), (3, "C", None)]

    done = adopt(bench, config, source)

    expected = [(1, "A", "new", False), (3, "C", "moved", False), (9, "A", "own", False)]
    assert bench.rows_by_both(config, *COLUMNS) == expected
    moments = [str(moment) for (moment,) in bench.rows(config, "seen")]
    assert moments[1:] == ["2023-11-14 22:13:20"] * 2, "the other table counts another unit than the source"
    assert (done.report.more["read"], done.report.more["duplicates"]) == (3, 1)
