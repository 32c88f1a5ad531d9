"""First loads by Arrow: what is left to Spark, and how changes are divided, counted and written, without a JVM."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig
from sluice.schema.columns import Column, array_column, plain_column
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.arrow_batches import batch_schema
from sluice_formats.records import ReaderPlan, reader_plan
from sluice_spark.arrow.first_load import (
    LoadPlan,
    _counted,
    _messages,
    _written,
    check_first_load,
    stored_rows,
)
from sluice_spark.arrow.rows import LeftToSpark
from sluice_spark.hudi.base_files import NewFiles
from sluice_spark.hudi.facts import TableFacts

ID, NAME = plain_column("id", "int", False, "int"), plain_column("name", "string", True, "string")
NEW = NewFiles("20261122205211687", '{"type": "record"}')


def config(**settings: Any) -> TableConfig:
    return TableConfig(
        **{"table": "db.t", "name": "t", "database": "db", "topic": "t", "record_key": ("id",), **settings}
    )


def load_plan(*columns: Column, uri: str = "s3://silver/db/t", settings: Any = None, **more: Any) -> LoadPlan:
    reader: ReaderPlan = reader_plan(
        config(**(settings or {})), batch="b-1", columns=columns or (ID, NAME), inferred={}
    )
    target = {column.name: column.spark_type for column in (*reader.columns, *hidden.HIDDEN)}
    return LoadPlan(reader, target, uri, ObjectSource("eu-west-1", "silver"), False, hidden.LINEAGE_WORDS, **more)


def batch(plan: LoadPlan, *rows: tuple[int, str | None, str, str | None], **more: Any) -> pa.RecordBatch:
    """A decoded batch of (id, name, position, operation)."""
    schema = batch_schema(plan.reader)
    values = [
        {
            **dict.fromkeys(schema.names),
            "id": id,
            "name": name,
            hidden.POSITION: at,
            hidden.OP: op,
            hidden.DELETED: op == "d",
            **more,
        }
        for id, name, at, op in rows
    ]
    return pa.RecordBatch.from_pylist(values, schema=schema)


@pytest.mark.parametrize(
    "reason, settings, facts",
    [
        ("instants", {}, {"newest": "20260101000000000"}),
        ("floor", {}, {"floor": "0"}),
        ("floor", {}, {"purged": "0"}),
        ("partitions", {"partition_by": ("name",)}, {}),
        ("index", {"index": "record"}, {}),
        ("history", {"history": True}, {}),
        ("options", {"hudi": {"hoodie.parquet.compression.codec": "gzip"}}, {}),
        ("deletes", {"delete_mode": "ignore"}, {}),
    ],
)
def test_a_table_that_needs_more_is_left_to_spark(reason: str, settings: dict[str, Any], facts: dict[str, Any]) -> None:
    empty = TableFacts(**{"newest": None, "schema": None, "commits": 0, "rows": 0, **facts})
    with pytest.raises(LeftToSpark) as left:
        check_first_load(config(**settings), empty, load_plan(settings=settings))
    assert left.value.reason == reason


@pytest.mark.parametrize("kind", ["double", "boolean", "date", "timestamp_micros", "float"])
def test_a_key_whose_text_hudi_makes_in_its_own_way_is_left_to_spark(kind: str) -> None:
    empty = TableFacts(newest=None, schema=None, commits=0)
    with pytest.raises(LeftToSpark, match="key"):
        check_first_load(config(), empty, load_plan(plain_column("id", kind, False, kind), NAME))


def test_a_table_with_lists_is_left_to_spark_and_plain_ones_are_not() -> None:
    empty = TableFacts(newest=None, schema=None, commits=0)
    check_first_load(config(), empty, load_plan())
    check_first_load(config(table_type="mor"), empty, load_plan(settings={"table_type": "mor"}))
    with pytest.raises(LeftToSpark, match="lists"):
        check_first_load(config(), empty, load_plan(ID, array_column("names", NAME, True)))


def test_each_key_is_in_one_part_and_its_newest_change_is_written(tmp_path: Any) -> None:
    plan = load_plan(uri=f"file://{tmp_path}")
    batches = [batch(plan, *[(id, f"{round}", f"{round}", "u") for id in range(20)]) for round in (3, 5, 4)]
    parts: dict[int, list[Any]] = {part: [] for part in range(6)}
    for part, message in _messages(batches, plan, 3):
        parts[part].append((part, message))
    counts = [_counted(parts[part], plan)[0] for part in (3, 4, 5)]
    assert {name: sum(one[name] for one in counts) for name in counts[0]} == {
        "read": 60,
        "winning": 20,
        "deleted": 0,
        "inexact": 0,
    }

    files = [_written(parts[part], plan, NEW, number=part, token=f"{part}-1-2") for part in range(3)]

    assert [file.rows for file in files] == [one["winning"] for one in counts]
    made = [pq.read_table(tmp_path / file.name).to_pylist() for file in files]
    rows = [row for found in made for row in found]
    assert sorted(row["id"] for row in rows) == list(range(20)) and {row["name"] for row in rows} == {"5"}
    assert {row[hidden.BATCH] for row in rows} == {"b-1"}
    assert {row["_hoodie_record_key"] for row in rows} == {str(id) for id in range(20)}
    assert len({row["_hoodie_commit_seqno"] for row in rows}) == 20
    markers = {path.name for path in (tmp_path / ".hoodie/.temp" / NEW.instant).iterdir()}
    assert markers == {f"{file.name}.marker.CREATE" for file in files}
    assert all(file.file_id + f"_{part}-1-2_{NEW.instant}.parquet" == file.name for part, file in enumerate(files))


@pytest.mark.parametrize(
    "reason, rows, more",
    [
        ("no_row", [(1, "n", "1", "c"), (1, None, "2", "t")], {}),
        ("no_row", [(1, None, "2", "m")], {}),
        ("unchanged", [(1, None, "1", "u")], {hidden.UNCHANGED: ["name"]}),
    ],
)
def test_a_change_that_gives_no_whole_row_ends_the_reading(reason: str, rows: Any, more: Any) -> None:
    plan = load_plan()
    assert list(_messages([batch(plan, *rows, **more), batch(plan, (9, "n", "9", "c"))], plan, 2)) == [(2, reason)]


@pytest.mark.parametrize("op", ["r", None])
def test_rows_that_a_snapshot_may_have_read_under_one_key_are_left_to_spark(op: str | None) -> None:
    plan = load_plan()
    messages = [found for found in _messages([batch(plan, (1, "a", "1", op), (1, "b", "2", op))], plan, 1) if found[0]]
    assert _counted(messages, plan) == ["shared_keys"]


def test_a_part_beyond_its_bound_is_left_to_spark_before_it_is_sent() -> None:
    plan = load_plan(most_part_bytes=500)
    found = list(_messages([batch(plan, *[(id, "n", "1", "c") for id in range(20)])], plan, 1))
    assert found == [(1, "size")]
    assert _counted(found, plan) == ["size"]


def test_of_a_deleted_row_its_key_and_hidden_columns_are_stored() -> None:
    plan = load_plan()
    rows = pa.Table.from_batches([batch(plan, (1, "gone", "1", "d"), (2, "here", "2", "c"))])
    assert stored_rows(rows, plan).select(["id", "name", hidden.DELETED, hidden.POSITION]).to_pylist() == [
        {"id": 1, "name": None, hidden.DELETED: True, hidden.POSITION: "1"},
        {"id": 2, "name": "here", hidden.DELETED: False, hidden.POSITION: "2"},
    ]
