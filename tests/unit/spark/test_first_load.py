"""First loads by Arrow: what is left to Spark, and how changes are divided, counted and written, without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.shapes import config

from sluice.catalog.partitions import values_of
from sluice.changes import hidden_columns as hidden
from sluice.schema.columns import Column, array_column, plain_column
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.arrow_batches import batch_schema
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.merge.by_arrow.base_file import key_text, partition_paths
from sluice_spark.merge.by_arrow.large.destinations import NEW as NEW_FILE
from sluice_spark.merge.by_arrow.large.destinations import Destination, destinations, tasks_of
from sluice_spark.merge.by_arrow.large.merge import _counted, _placed_rows
from sluice_spark.merge.by_arrow.large.messages import messages_of
from sluice_spark.merge.by_arrow.large.plan import LoadPlan, check_first_load
from sluice_spark.merge.by_arrow.large.write import routed_rows, rows_to_store, written_files
from sluice_spark.merge.rows import LeftToSpark

ID, NAME = plain_column("id", "int", False, "int"), plain_column("name", "string", True, "string")
NEW = NewFiles("20261122205211687", '{"type": "record"}', ".hoodie/20261122205211687.inflight")


@pytest.fixture(autouse=True)
def begun(tmp_path: Path) -> None:
    """The instant is begun."""
    (tmp_path / NEW.inflight).parent.mkdir()
    (tmp_path / NEW.inflight).touch()


def load_plan(*columns: Column, uri: str = "s3://silver/db/t", settings: Any = None, **more: Any) -> LoadPlan:
    reader = ReaderPlan(config(**(settings or {})), batch="b-1", columns=columns or (ID, NAME), inferred={})
    target = {column.name: column.spark_type for column in (*reader.columns, *hidden.HIDDEN)}
    return LoadPlan(reader, target, uri, ObjectSource("eu-west-1", "silver"), False, hidden.LINEAGE_WORDS, **more)


def batch(plan: LoadPlan, *rows: tuple[int, str | None, str, str | None], **more: Any) -> pa.RecordBatch:
    """A decoded batch of (id, name, position, operation)."""
    schema = batch_schema(plan.reader)
    names = ("id", "name", hidden.POSITION, hidden.OP, hidden.DELETED)
    values = [{**dict.fromkeys(schema.names), **dict(zip(names, (*row, row[3] == "d"))), **more} for row in rows]
    return pa.RecordBatch.from_pylist(values, schema=schema)


def written(messages: list[Any], plan: LoadPlan, part: int) -> list[Any]:
    """The files of a part of a load without a second shuffle."""
    return written_files(routed_rows(messages, plan, {}), plan, NEW, number=part, token=f"{part}-1-2", places={})


@pytest.mark.parametrize(
    "reason, settings, facts",
    [
        ("instants", {}, {"newest": "20260101000000000"}),
        ("floor", {}, {"purged": "0"}),
        ("index", {"index": "record"}, {}),
        ("options", {"hudi": {"hoodie.parquet.compression.codec": "gzip"}}, {}),
    ],
)
def test_a_table_that_needs_more_is_left_to_spark(reason: str, settings: dict[str, Any], facts: dict[str, Any]) -> None:
    empty = TableFacts(**{"newest": None, "schema": None, "commits": 0, "rows": 0, **facts})
    with pytest.raises(LeftToSpark) as left:
        check_first_load(config(**settings), empty, load_plan(settings=settings))
    assert left.value.reason == reason


@pytest.mark.parametrize("kind", ["double", "bytes", "float"])
def test_a_key_whose_text_hudi_makes_in_its_own_way_is_left_to_spark(kind: str) -> None:
    empty = TableFacts(newest=None, schema=None, commits=0)
    with pytest.raises(LeftToSpark, match="key"):
        check_first_load(config(), empty, load_plan(plain_column("id", kind, False, kind), NAME))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.int32(), pa.string(), pa.bool_()], ids=str)
def test_a_truncate_beside_rows_has_no_key_of_any_type(kind: pa.DataType) -> None:
    rows = pa.table({"at": pa.array([None, 1], pa.int32()).cast(pa.int64() if "time" in str(kind) else pa.int32())})
    keys = key_text(pa.table({"at": rows.column(0).cast(kind), "id": pa.array([None, 2])}), ("at", "id")).to_pylist()
    assert keys[0] is None and keys[1] is not None


def test_plain_tables_and_lists_are_loaded() -> None:
    empty = TableFacts(newest=None, schema=None, commits=0)
    check_first_load(config(), empty, load_plan())
    check_first_load(config(table_type="mor"), empty, load_plan(settings={"table_type": "mor"}))
    check_first_load(config(), empty, load_plan(ID, array_column("names", NAME, True)))


def test_each_key_is_in_one_part_and_its_newest_change_is_written(tmp_path: Any) -> None:
    plan = load_plan(uri=f"file://{tmp_path}")
    batches = [batch(plan, *[(id, f"{round}", f"{round}", "u") for id in range(20)]) for round in (3, 5, 4)]
    parts: dict[int, list[Any]] = {part: [] for part in range(6)}
    for part, message in messages_of(batches, plan, 3):
        parts[part].append((part, message))
    counts = [_counted(parts[part], plan)[0][0].counts for part in (3, 4, 5)]
    assert [sum(one[name] for one in counts) for name in ("read", "winning", "deleted", "inexact")] == [60, 20, 0, 0]

    files = [written(parts[part], plan, part)[0] for part in range(3)]

    assert [file.rows for file in files] == [one["winning"] for one in counts]
    rows = [row for file in files for row in pq.read_table(tmp_path / file.name).to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(20)) and {row["name"] for row in rows} == {"5"}
    assert {row[hidden.BATCH] for row in rows} == {"b-1"}
    assert {row["_hoodie_record_key"] for row in rows} == {str(id) for id in range(20)}
    assert len({row["_hoodie_commit_seqno"] for row in rows}) == 20
    markers = {path.name for path in (tmp_path / ".hoodie/.temp" / NEW.instant).iterdir()}
    assert markers == {f"{file.name}.marker.CREATE" for file in files}
    assert all(file.file_id + f"_{part}-1-2_{NEW.instant}.parquet" == file.name for part, file in enumerate(files))


def test_a_partition_of_usual_size_gets_one_file_and_a_large_one_several(tmp_path: Any) -> None:
    settings = {"partition_by": ("name",)}
    plan = load_plan(uri=f"file://{tmp_path}", settings=settings)
    moved = [(1, "large", "8", "u"), (2, "small", "8", "u"), (3, "large", "9", "d"), (4, None, "8", "u")]
    batches = [batch(plan, *[(id, "large", "1", "c") for id in range(50)]), batch(plan, *moved)]
    first: dict[int, list[Any]] = {part: [] for part in range(4)}
    for part, message in messages_of(batches, plan, 2):
        first[part].append((part, message))
    parts = [_counted(first[part], plan)[0] for part in (2, 3)]
    places = destinations(_placed_rows([placed for _, placed in parts]), (), in_logs=False, rows_stored=None, parts=2)
    assert sum(part.counts["winning"] for part, _ in parts) == 50
    nulls = "name=__HIVE_DEFAULT_PARTITION__"
    tasks = {nulls: range(0, 1), "name=large": range(1, 3), "name=small": range(3, 4)}
    assert places == {(name, NEW_FILE): Destination(name, NEW_FILE, False, own) for name, own in tasks.items()}

    second: dict[int, list[Any]] = {task: [] for task in range(4)}
    for part in first:
        for share in routed_rows(first[part], plan, places):
            second[share.task].append(share)
    files = [
        file
        for task in second
        for file in written_files(second[task], plan, NEW, number=task, token=f"{task}-1-2", places=places)
    ]

    assert sorted(file.partition for file in files) == [nulls, "name=large", "name=large", "name=small"]
    made = [pq.ParquetFile(tmp_path / file.path).read().to_pylist() for file in files]
    rows = {row["id"]: row for of_file in made for row in of_file}
    assert len(rows) == sum(map(len, made)) == 50
    assert len({row["_hoodie_commit_seqno"] for row in rows.values()}) == 50
    assert [(id, rows[id]["name"]) for id in range(1, 6)] == [
        *[(1, "large"), (2, "small"), (3, None), (4, None), (5, "large")]
    ]
    for file, of_file in zip(files, made):
        assert {row["_hoodie_partition_path"] for row in of_file} == {file.partition}
        written = (tmp_path / file.partition / ".hoodie_partition_metadata").read_text()
        assert written == f"#partition metadata\ncommitTime={NEW.instant}\npartitionDepth=1\n"
        assert (tmp_path / f".hoodie/.temp/{NEW.instant}/{file.path}.marker.CREATE").exists()


def test_small_partitions_share_a_task_and_too_many_files_are_left_to_spark() -> None:
    assert tasks_of({"a": 5, "b": 3, "c": 4}, 2) == {"a": range(0, 1), "b": range(1, 2), "c": range(2, 3)}
    assert tasks_of({str(number): 1 for number in range(6)}, 2)["2"] == range(0, 1)
    assert tasks_of({"a": 1, "z": 100}, 4) == {"a": range(0, 1), "z": range(1, 5)}
    assert tasks_of({"a": 1, "z": 100}, 4, whole=("z",)) == {"a": range(0, 1), "z": range(1, 2)}
    with pytest.raises(LeftToSpark, match="partitions: 5,001 files"):
        tasks_of({str(number): 1 for number in range(5_001)}, 2)


@pytest.mark.parametrize("kind", ["double", "boolean", "timestamp_micros", "bytes", "float"])
def test_partitions_whose_text_hudi_makes_in_its_own_way_are_left_to_spark(kind: str) -> None:
    empty = TableFacts(newest=None, schema=None, commits=0)
    plan = load_plan(ID, plain_column("at", kind, True, kind))
    with pytest.raises(LeftToSpark, match="partitions"):
        check_first_load(config(partition_by=("at",)), empty, plan)


def test_a_partition_path_is_escaped_text_and_reads_back() -> None:
    texts = ["A", "", None, "a/b", "50%", "é ü", "x=y:z", "\t\x7f{[^]}#?*'\"\\"]
    days = pa.array([0, None, -719_529, 2_932_897, *[20_000] * 4], pa.date32())
    rows = pa.table({"name": texts, "day": days, "n": pa.array([-5, 2**40, None, *[0] * 5], pa.int64())})
    paths = partition_paths(rows, ("name", "day", "n")).to_pylist()
    assert paths[:4] == [
        "name=A/day=1970-01-01/n=-5",
        "name=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__/n=1099511627776",
        "name=__HIVE_DEFAULT_PARTITION__/day=-0001-12-31/n=__HIVE_DEFAULT_PARTITION__",
        "name=a%2Fb/day=+10000-01-01/n=0",
    ]
    assert [values_of("t", path, ("name", "day", "n"))[0] for path in paths[3:]] == texts[3:]


def test_a_change_of_an_unknown_partition_ends_the_reading() -> None:
    plan = load_plan(settings={"partition_by": ("name",)})
    unknown = batch(plan, (1, None, "1", "u"), **{hidden.UNCHANGED: ["name"]})
    assert list(messages_of([unknown, batch(plan, (9, "n", "9", "c"))], plan, 2)) == [(2, "unchanged")]


def test_rows_follow_from_the_histories_of_their_keys() -> None:
    changes = [(1, "a", "1", "c"), (2, "b", "1", "c"), (3, None, "2", "d"), (2, None, "3", "d"), (4, "d", "1", "c")]
    left_out = [(1, None, "4", "u"), (5, None, "4", "u")]
    for ignore, rows, deleted in (
        (False, {1: "a", 2: None, 3: None, 4: "d", 5: None}, 2),
        (True, {1: "a", 2: "b", 3: None, 4: "d", 5: None}, 1),
    ):
        plan = load_plan(ignore_deletes=ignore)
        batches = [batch(plan, *changes), batch(plan, *left_out, **{hidden.UNCHANGED: ["name"]})]
        messages = list(messages_of(batches, plan, 1))
        ((part, _),) = _counted([message for message in messages if message[0] == 1], plan)
        lacking = 2 if ignore else 1
        assert [part.counts[name] for name in ("winning", "deleted", "owed")] == [5, deleted, lacking]
        (newest,) = (share.rows for share in routed_rows([one for one in messages if one[0] == 0], plan, {}))
        assert dict(zip(*(newest.column(name).to_pylist() for name in ("id", "name")))) == rows
        assert newest.column(hidden.UNCHANGED).null_count == 5
        (owed,) = newest.filter(pc.equal(newest.column("id"), 1)).column(hidden.OWED).to_pylist()
        assert owed == '{"name":"1"}'


@pytest.mark.parametrize("op", ["r", None])
def test_rows_that_a_snapshot_may_have_read_under_one_key_are_left_to_spark(op: str | None) -> None:
    plan = load_plan()
    messages = messages_of([batch(plan, (1, "a", "1", op), (1, "b", "2", op))], plan, 1)
    assert _counted([message for message in messages if message[0]], plan) == ["shared_keys"]


def test_a_part_beyond_its_bound_is_left_to_spark_before_it_is_sent() -> None:
    plan = load_plan(most_part_bytes=500)
    messages = list(messages_of([batch(plan, *[(id, "n", "1", "c") for id in range(20)])], plan, 1))
    assert messages == [(1, "size")]
    assert _counted(messages, plan) == ["size"]


def test_of_a_deleted_row_its_key_and_hidden_columns_are_stored() -> None:
    plan = load_plan()
    rows = pa.Table.from_batches([batch(plan, (1, "gone", "1", "d"), (2, "here", "2", "c"))])
    assert rows_to_store(rows, plan).select(["id", "name", hidden.DELETED, hidden.POSITION]).to_pylist() == [
        {"id": 1, "name": None, hidden.DELETED: True, hidden.POSITION: "1"},
        {"id": 2, "name": "here", hidden.DELETED: False, hidden.POSITION: "2"},
    ]
