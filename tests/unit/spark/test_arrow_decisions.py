"""Decisions by Arrow about small parts: the newest change per key, wins and losses by position, tombstones, lineage."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors
from sluice.config.table import TableConfig
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.logs import RECORD_KEY
from sluice_spark.merge.by_arrow.covers import check_changes, check_table
from sluice_spark.merge.by_arrow.decide import with_batch
from sluice_spark.merge.by_arrow.driver_merge import decided_by_key, with_keys
from sluice_spark.merge.by_arrow.keyed_rows import StoredRow, as_counts
from sluice_spark.merge.by_arrow.large.merge import total
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.by_arrow.large.write import rows_to_store
from sluice_spark.merge.by_arrow.stored import WantedKeys, by_key, rows_in
from sluice_spark.merge.driver_limits import MOST_CHANGES
from sluice_spark.merge.rows import LeftToSpark, rows_schema

NO_FLOOR = TableFacts(newest="1", schema=StructType(), commits=1, rows=10)
TARGET = {"id": "int", "part": "string", "tags": "array<int>", **{c.name: c.spark_type for c in hidden.HIDDEN}}


def table(**settings: Any) -> TableConfig:
    return TableConfig("db.t", "db", "t", "topic", **{"record_key": ("id", "part"), **settings})


def change(id: int, position: int, op: str | None = "u", **more: Any) -> dict[str, Any]:
    own = {hidden.POSITION: f"{position:05d}", hidden.DELETED: op == "d", hidden.OP: op, hidden.OBJECT: "o"}
    return {"id": id, "part": "a", "tags": [id], **own, hidden.INEXACT: 0, **more}


def rows(*changes: dict[str, Any], target: dict[str, str] = TARGET) -> pa.Table:
    schema = rows_schema(target)
    tables = [pa.Table.from_pylist([{name: row.get(name) for name in schema.names}], schema) for row in changes]
    return pa.concat_tables(tables)  # in chunks, as the batches of several objects are


def held(id: int, position: int, owed: str | None = None) -> dict[Any, StoredRow]:
    return {(id, "a"): StoredRow(f"{position:05d}", owed, f"id:{id},part:a", 0)}


def decided(*changes: dict[str, Any], stored: dict[Any, StoredRow] | None = None, **settings: Any) -> Any:
    keyed, wanted = with_keys(rows(*changes), ("id", "part"))
    plan = plan_of(**settings)
    present = {key: row for key, row in (stored or {}).items() if key in wanted.positions}
    merged = decided_by_key(keyed, wanted, present, plan, read_values=None)  # type: ignore[arg-type]
    return SimpleNamespace(rows=rows_to_store(merged.rows, plan), counts=total([merged.counts]))


def plan_of(*, lineage: Any = hidden.LINEAGE_WORDS, batch: str = "b-1", **settings: Any) -> LoadPlan:
    config = table(**settings)
    reader = ReaderPlan(config, batch=batch, columns=(), inferred={})
    source = ObjectSource("eu-west-1", "silver")
    return LoadPlan(reader, TARGET, "s3://silver/db/t", source, config.keep_deleted_values, lineage)


def left(*changes: dict[str, Any], stored: dict[Any, StoredRow] | None = None, **settings: Any) -> str:
    with pytest.raises(LeftToSpark) as error:
        decided(*changes, stored=stored, **settings)
    return error.value.reason


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_change_of_each_key_wins_where_it_is_newer_than_the_table(seed: int) -> None:
    draw = random.Random(seed)
    changes = [
        change(draw.randint(1, 5), position, draw.choice("cud"), part=draw.choice("ab"))
        for position in draw.sample(range(100), draw.randint(1, 30))
    ]
    stored = {
        (id, part): StoredRow(f"{draw.choice([position, draw.randint(0, 99)]):05d}", None, "k", 0)
        for id in range(1, 6)
        for part in "ab"
        for position in [max([int(c[hidden.POSITION]) for c in changes if (c["id"], c["part"]) == (id, part)] or [0])]
        if draw.random() < 0.4
    }
    newest: dict[Any, dict[str, Any]] = {}
    for row in sorted(changes, key=lambda row: row[hidden.POSITION]):
        newest[row["id"], row["part"]] = row
    wins = {key: row for key, row in newest.items() if key not in stored or row[hidden.POSITION] > stored[key].position}
    repeated = sum(key in stored and row[hidden.POSITION] == stored[key].position for key, row in newest.items())
    counts = {
        "read": len(changes),
        "winning": len(wins),
        "deleted": sum(row[hidden.DELETED] for row in wins.values()),
        "overtaken": len(changes) - len(newest),
        "losing": len(newest) - len(wins),
        "repeated": repeated,
    }
    merged = decided(*changes, stored=stored)
    assert merged.counts == counts
    assert merged.rows.schema.names == list(TARGET)
    assert sorted((row["id"], row["part"], row[hidden.POSITION], row["tags"]) for row in merged.rows.to_pylist()) == [
        (*key, wins[key][hidden.POSITION], None if wins[key][hidden.DELETED] else [key[0]]) for key in sorted(wins)
    ]


def test_a_deleted_row_keeps_its_values_where_the_table_wants_them() -> None:
    (row,) = decided(change(1, 1, "d"), keep_deleted_values=True).rows.to_pylist()
    assert row["tags"] == [1]


def test_inexact_values_are_counted_of_the_rows_that_win() -> None:
    changes = (change(1, 1, _sluice_inexact=2), change(1, 2, _sluice_inexact=3), change(2, 1, _sluice_inexact=4))
    assert decided(*changes, change(3, 1), stored=held(2, 1)).counts["inexact"] == 3


def test_what_needs_more_than_the_newest_change_is_left_to_spark() -> None:
    assert left(change(1, 1, "r"), change(1, 2, "r")) == "shared_keys"
    assert left(change(1, 1, None), change(1, 2, "r"), change(1, 3)) == "shared_keys"
    # None of these: one row of a snapshot.
    assert decided(change(1, 1, "r"), change(1, 2, "u"), change(2, 1, "r")).counts["winning"] == 2
    # Of a table that only appends: records whose identity came before, which may be others.
    assert left(change(1, 1, "r"), change(1, 2, "r"), append_only=True) == "came_before"
    assert left(change(1, 2, "r"), stored=held(1, 1), append_only=True) == "came_before"
    assert decided(change(1, 1, "r"), change(2, 1, "r"), append_only=True).counts["winning"] == 2


@pytest.mark.parametrize(
    "reason, settings, facts",
    [
        (None, {}, {"record_index": True}),
        (None, {"partition_by": ("part", "id")}, {}),
        ("partitions", {"partition_by": ("tags",)}, {}),
        ("record_index", {"partition_by": ("part",)}, {"record_index": True}),
    ],
)
def test_a_table_with_partitions_is_merged_where_hudis_paths_and_index_are_known(
    reason: str | None, settings: dict[str, Any], facts: dict[str, Any]
) -> None:
    table_facts = TableFacts(newest="1", schema=StructType(), commits=1, rows=10, **facts)
    config = table(index="record" if facts else "simple", **settings)
    with nullcontext() if reason is None else pytest.raises(LeftToSpark, match=reason):
        check_table(config, table_facts, TARGET)


def test_truncates_messages_and_many_changes_are_left_to_spark() -> None:
    one = rows(change(1, 1))
    many = one.take(pa.array([0] * (MOST_CHANGES + 1)))
    for some in (rows(change(1, 1), change(2, 2, "t")), rows(change(1, 1, "m")), many):
        with pytest.raises(LeftToSpark):
            check_changes(some, NO_FLOOR)
    for some in (rows(change(1, 1), change(2, 1, None)), one.slice(0, 0)):
        check_changes(some, NO_FLOOR)


@pytest.mark.parametrize(
    "floors",
    [{"floor": Floors("00002")}, {"floor": Floors("00001", {"public.t": "00002"})}, {"purged": "00002"}],
    ids=["truncated", "truncated by source", "purged"],
)
def test_changes_above_every_floor_are_merged_and_others_left_to_spark(floors: dict[str, Any]) -> None:
    facts = replace(NO_FLOOR, **floors)
    check_changes(rows(change(1, 3), change(2, 4)), facts)
    check_changes(rows(change(1, 3)).slice(0, 0), facts)
    with pytest.raises(LeftToSpark, match="floor"):
        check_changes(rows(change(1, 3), change(2, 2)), facts)


def test_lineage_is_written_as_configured_with_the_batchs_id() -> None:
    merged = decided(change(1, 1, _sluice_offset=7)).rows
    (row,) = with_batch(merged, lineage=("object", "batch"), batch="b-1").to_pylist()
    assert (row[hidden.OBJECT], row[hidden.BATCH], row[hidden.OFFSET], row[hidden.OP]) == ("o", "b-1", None, None)
    (row,) = with_batch(merged, lineage=("offset",), batch="b-1").to_pylist()
    assert (row[hidden.OBJECT], row[hidden.BATCH], row[hidden.OFFSET]) == (None, None, 7)


def base_file(*stored: tuple[Any, str, int]) -> bytes:
    """A base file of rows (id, part, position), whose id is of a narrower type than the table's."""
    body = pa.BufferOutputStream()
    columns = {
        "id": pa.array([id for id, _, _ in stored], pa.int32()),
        "part": [part for _, part, _ in stored],
        hidden.POSITION: [f"{position:05d}" for _, _, position in stored],
        hidden.OWED: pa.array(["{}" if position == 9 else None for _, _, position in stored], pa.string()),
        RECORD_KEY: [f"id:{id},part:{part}" for id, part, _ in stored],
    }
    pq.write_table(pa.table(columns), body, row_group_size=1)
    return body.getvalue().to_pybytes()


def test_stored_rows_are_found_in_every_file_by_their_whole_key() -> None:
    newest = rows(change(1, 1), change(2, 1), change(3, 1), target={**TARGET, "id": "bigint"})
    files = [base_file((1, "b", 4), (7, "a", 4)), base_file((5, "a", 4)), base_file((3, "a", 9), (2, "a", 5))]

    def stored(bodies: list[bytes]) -> dict[Any, StoredRow]:
        wanted = WantedKeys(newest, ("id", "part"))
        files = [pq.ParquetFile(pa.BufferReader(body)) for body in bodies]
        return by_key(row for number, file in enumerate(files) for row in rows_in(file, wanted, number))

    assert stored(files) == {
        (3, "a"): StoredRow("00009", "{}", "id:3,part:a", 2),
        (2, "a"): StoredRow("00005", None, "id:2,part:a", 2),
    }
    with pytest.raises(LeftToSpark) as twice:
        stored([*files, base_file((2, "a", 5))])
    assert "part:a" not in str(twice.value)  # which is logged


def test_row_groups_without_a_wanted_key_by_their_statistics_are_not_read() -> None:
    read: list[int] = []

    class Counted(pq.ParquetFile):
        def read_row_group(self, number: int, *given: Any, **more: Any) -> Any:
            read.append(number)
            return super().read_row_group(number, *given, **more)

    file = Counted(pa.BufferReader(base_file((0, "a", 4), (2, "a", 5), (2, "b", 4), (9, "a", 4))))
    wanted = WantedKeys(rows(change(1, 1), change(2, 1), change(3, 1)), ("id", "part"))
    ((key, _),) = rows_in(file, wanted, 0)
    assert (key, read) == ((2, "a"), [1])


@pytest.mark.parametrize(
    ("values", "kind", "counts"),
    [
        pytest.param([2_932_897, None], pa.date32(), [2_932_897, None], id="date"),
        pytest.param([253_402_300_800_000_000], pa.timestamp("us", "UTC"), [253_402_300_800_000_000], id="timestamp"),
        pytest.param([[1, None], None], pa.list_(pa.date32()), [[1, None], None], id="dates"),
        pytest.param(["a"], pa.string(), ["a"], id="text"),
    ],
)
def test_dates_and_times_beyond_pythons_are_compared_as_counts(values: Any, kind: Any, counts: Any) -> None:
    assert as_counts(pa.array(values, kind)).to_pylist() == counts


def test_merges_leave_pandas_out() -> None:
    """Importing them converts no value; the driver and its tasks have pandas left out before they do."""
    convert = "from sluice_spark.engine.tasks import leave_pandas_out; leave_pandas_out(); pyarrow.array([1])"
    code = "import sys, pyarrow, sluice_spark.merge.part; print('pandas' in sys.modules)"
    code += f"; {convert}; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr
