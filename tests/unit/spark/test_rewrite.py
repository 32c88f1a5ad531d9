"""Rewriting base files by pyarrow: where rows go, what stays, what an older file lacks, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.changes import hidden_columns as hidden
from sluice.hudi.file_slices import DataFile, FileSlice
from sluice_aws.s3.objects import ObjectSource
from sluice_spark.errors import RowsDiffer, WriteUndone
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.hudi.table_files import write_data_file
from sluice_spark.merge.by_arrow import base_file, covers, placement
from sluice_spark.merge.by_arrow.base_file import parquet_of, rewritten
from sluice_spark.merge.by_arrow.rewrite import FileRows, FileWork, Rewrite
from sluice_spark.merge.rows import LeftToSpark

FIRST, SECOND = "20261122205211687", "20261122205311687"
KINDS = {"id": "long", "name": ["null", "string"], hidden.POSITION: "string"}
AVRO = json.dumps({"fields": [{"name": name, "type": kind} for name, kind in KINDS.items()]})
NEW = NewFiles(SECOND, AVRO, f".hoodie/{SECOND}.inflight")


@pytest.fixture(autouse=True)
def begun(tmp_path: Path) -> None:
    """The instant is begun."""
    (tmp_path / NEW.inflight).parent.mkdir()
    (tmp_path / NEW.inflight).touch()


POOLS: list[pa.MemoryPool] = []  # never freed: what is allocated from one may outlive its test


def rows(*values: tuple[int, str | None], kind: str = "int64") -> pa.Table:
    """Rows of (id, name)."""
    ids, names = pa.array([id for id, _ in values], kind), pa.array([name for _, name in values], pa.string())
    return pa.table(
        {"id": ids, "name": names, hidden.POSITION: pa.array([f"{id:05d}" for id, _ in values], pa.string())}
    )


def keys(table: pa.Table) -> pa.Array:
    return table.column("id").cast(pa.string()).combine_chunks()


def stored(table: pa.Table, name: str = "a-0_0-1-2_20261122205211687.parquet") -> bytes:
    own = {"instant": FIRST, "file_name": name, "number": 0, "avro_schema": AVRO}
    return parquet_of(table, keys(table), **own).to_pybytes()


def rewrite(body: bytes, new: pa.Table) -> Any:
    return rewritten(body, new, keys(new), instant=SECOND, file_name="new", number=3, avro_schema=AVRO)


def after(body: bytes, new: pa.Table) -> tuple[list[dict[str, Any]], int]:
    """The rows of a rewritten file, and how many were replaced."""
    made = rewrite(body, new)
    read = pq.read_table(pa.BufferReader(made.body)).to_pylist()
    assert len(read) == made.rows
    return read, made.updated


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 100])
def test_a_row_takes_the_place_of_the_stored_one_and_new_rows_follow(rows_at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(base_file, "_ROWS_AT_ONCE", rows_at_once)
    body = stored(rows((5, "a"), (3, "b"), (9, "c"), (1, None)))
    outcome, updated = after(body, rows((8, "new"), (3, "B"), (1, "D"), (7, None)))
    assert updated == 2
    expected = [(5, "a"), (3, "B"), (9, "c"), (1, "D"), (8, "new"), (7, None)]
    assert [(row["id"], row["name"]) for row in outcome] == expected
    assert [row["_hoodie_record_key"] for row in outcome] == ["5", "3", "9", "1", "8", "7"]
    assert [row["_hoodie_commit_time"] for row in outcome] == [FIRST, SECOND, FIRST, SECOND, SECOND, SECOND]
    assert {row["_hoodie_file_name"] for row in outcome} == {"new"}
    assert len({row["_hoodie_commit_seqno"] for row in outcome}) == 6


def test_an_older_file_gets_the_tables_columns_and_types() -> None:
    old = rows((5, "a"), (3, "b"), kind="int32").drop_columns(["name"])
    outcome, updated = after(stored(old), rows((3, "B")))
    assert [(row["id"], row["name"]) for row in outcome] == [(5, None), (3, "B")]
    assert updated == 1


def test_a_file_is_written_in_row_groups_that_fit_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    many = rows(*[(id, "n" * 50) for id in range(1_000)])
    body = stored(many)
    monkeypatch.setattr(base_file, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(base_file, "_ROW_GROUP_BYTES", 50_000)
    made = rewrite(body, rows((7, "x")))
    file = pq.ParquetFile(pa.BufferReader(made.body))
    groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
    assert len(groups) > 3 and max(group.nbytes for group in groups) < 100_000
    assert sum(group.num_rows for group in groups) == 1_000


@pytest.mark.parametrize("changed", [(7, "x"), (2_000, "x")], ids=["in place", "at the end"])
def test_no_row_group_of_a_rewritten_file_is_empty(changed: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    body = stored(rows(*[(id, "n" * 50) for id in range(1_000)]))
    monkeypatch.setattr(base_file, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(base_file, "_ROW_GROUP_BYTES", 10_000)  # full after the last stored rows
    made = rewrite(body, rows(changed))
    metadata = pq.ParquetFile(pa.BufferReader(made.body)).metadata
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert min(groups) > 0 and sum(groups) == made.rows


def held_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of all batches that are held from now on, as they come."""
    held, as_now = list[int](), base_file._as_now

    def counted(batch: pa.RecordBatch, *more: Any) -> pa.Table:
        held.append(batch.nbytes)
        return as_now(batch, *more)

    monkeypatch.setattr(base_file, "_as_now", counted)
    return held


def test_fewer_rows_are_held_at_once_where_they_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    body = stored(rows(*[(id, f"{id:01000d}") for id in range(1_000)]))
    held = held_at_once(monkeypatch)
    monkeypatch.setattr(base_file, "_BYTES_AT_ONCE", 100_000)
    assert after(body, rows((3, "x")))[1] == 1
    assert len(held) > 5 and max(held) < 200_000


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.long
def test_long_texts_that_a_dictionary_repeats_are_held_in_parts(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, texts = 2_000, ["short", "l" * 20_000]
    many = rows(*[(id, texts[id // 1_000]) for id in range(count)])
    made = base_file._with_hudis_columns(many, keys(many), instant=FIRST, file_name="f", number=0)
    sink = pa.BufferOutputStream()
    pq.write_table(made, sink, version="1.0" if version == "1.0" else "2.6", data_page_version=version)
    body = sink.getvalue().to_pybytes()
    monkeypatch.setattr(base_file, "_BYTES_AT_ONCE", 200_000)
    monkeypatch.setattr(base_file, "_ROW_GROUP_BYTES", 2_000_000)
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        made = rewrite(body, many.slice(1_500, 1))
    finally:
        pa.set_memory_pool(usual)
    assert (made.rows, made.updated) == (count, 1)
    assert pool.max_memory() < 8_000_000 < many.nbytes / 2
    assert pq.read_table(pa.BufferReader(made.body)).column("name").equals(many.column("name"))


@pytest.mark.long
def test_many_short_columns_are_held_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    many = rows(*[(id, None) for id in range(count)])
    for number in range(100):
        many = many.append_column(f"n{number}", pa.array([1] * count, pa.int64()))
    body, held = stored(many), held_at_once(monkeypatch)
    monkeypatch.setattr(base_file, "_BYTES_AT_ONCE", 1_000_000)
    rewrite(body, many.slice(7, 1))
    assert sum(held) > 16_000_000 and max(held) < 2_000_000


def test_floats_of_an_older_file_become_doubles_as_hudi_makes_them() -> None:
    values = [0.1, 16777216.0, 3.4028235e38, -0.0, float("inf"), float("nan"), None]
    old, new = (
        rows(*[(id, None) for id in range(count)]).append_column("f", pa.array(item, kind))
        for count, item, kind in ((len(values), values, pa.float32()), (1, [0.2], pa.float64()))
    )
    new = new.set_column(0, "id", pa.array([99], pa.int64()))
    item, _ = after(stored(old), new)
    assert [str(row["f"]) for row in item] == [str(value) for value in (*values, 0.2)]


def work(tmp_path: Path, *files: FileRows) -> Rewrite:
    objects: Any = None  # files on disk need none
    spark: Any = None
    where = FileWork(spark, objects, ObjectSource("eu-west-1", "silver"), in_tasks=False)
    return Rewrite("db.t", f"file://{tmp_path}", files, where)


def test_files_keep_their_group_and_a_new_one_is_a_group_of_its_own(tmp_path: Path) -> None:
    name = f"group-0_0-1-2_{FIRST}.parquet"
    (tmp_path / name).write_bytes(stored(rows((1, "a"), (2, "b")), name))
    held, new = rows((2, "B"), (3, "c")), rows((4, "d"))
    files = FileRows(f"file:{tmp_path}/{name}", held, keys(held), 1), FileRows(None, new, keys(new), 0)
    made = work(tmp_path, *files).write(NEW)
    expected = [(name, 3, 1, 1), (None, 1, 0, 1)]
    assert [(file.before, file.rows, file.updated, file.inserted) for file in made] == expected
    assert made[0].file_id == "group-0" and made[1].file_id != "group-0"
    assert all(file.name.endswith(f"_{SECOND}.parquet") for file in made)
    assert all((tmp_path / file.name).stat().st_size == file.bytes for file in made)
    markers = sorted(path.name for path in (tmp_path / ".hoodie" / ".temp" / SECOND).iterdir())
    kinds = ("MERGE", "CREATE")
    assert markers == sorted(f"{file.name}.marker.{kind}" for file, kind in zip(made, kinds))
    schema = pq.read_schema(tmp_path / made[0].name)
    assert [schema.field(column).nullable for column in KINDS] == [False, True, False]


def test_rows_leave_a_file_for_a_partition_that_begins_and_may_leave_none_behind(tmp_path: Path) -> None:
    name, old, new = f"group-0_0-1-2_{FIRST}.parquet", "place=A", "place=B"
    (tmp_path / old).mkdir()
    (tmp_path / old / name).write_bytes(stored(rows((1, "a"), (2, "b")), name))
    path, none, moved = f"file:{tmp_path}/{old}/{name}", rows(), rows((1, "A"))
    emptied, begun = work(
        tmp_path,
        FileRows(path, none, keys(none), 0, old, removed=("2", "1")),
        FileRows(None, moved, keys(moved), 0, new, starts=True),
    ).write(NEW)
    assert (emptied.before, emptied.rows, emptied.removed, emptied.inserted) == (name, 0, 2, 0)
    assert (begun.partition, begun.rows, begun.removed, begun.inserted) == (new, 1, 0, 1)
    left = pq.ParquetFile(tmp_path / emptied.path)
    assert (left.metadata.num_row_groups, left.schema_arrow.names[5:]) == (0, list(KINDS))
    assert pq.ParquetFile(tmp_path / begun.path).read().column("_hoodie_partition_path").to_pylist() == [new]
    assert "partitionDepth=1\n" in (tmp_path / new / ".hoodie_partition_metadata").read_text()
    assert not (tmp_path / old / ".hoodie_partition_metadata").exists()

    third = NewFiles("20261122205411687", AVRO, NEW.inflight)
    (again,) = work(tmp_path, FileRows(f"file:{tmp_path}/{emptied.path}", moved, keys(moved), 0, old)).write(third)
    assert (again.rows, again.updated, again.inserted) == (1, 0, 1)
    with pytest.raises(RowsDiffer, match="1 rows of .* were to be updated or removed, and 0 were"):
        work(tmp_path, FileRows(path, none, keys(none), 0, old, removed=("3",))).write(NEW)


def test_a_file_without_a_row_that_was_found_in_it_is_not_written(tmp_path: Path) -> None:
    name = f"group-0_0-1-2_{FIRST}.parquet"
    (tmp_path / name).write_bytes(stored(rows((1, "a")), name))
    gone = rows((2, "B"))
    with pytest.raises(RowsDiffer):
        work(tmp_path, FileRows(f"file:{tmp_path}/{name}", gone, keys(gone), 1)).write(NEW)
    assert [path.name for path in tmp_path.glob("*.parquet")] == [name]


MIB = 1024**2


def slices(*sizes: int, logs: int = 0) -> list[FileSlice]:
    """A slice with a base file of each size, and logs of so many bytes."""
    names = [f"f{number}" for number in range(len(sizes))]
    bases = [DataFile(f"{name}.parquet", "", name, FIRST, size) for name, size in zip(names, sizes)]
    of_logs = [(DataFile("log", "", name, FIRST, logs, version=1),) if logs else () for name in names]
    return [FileSlice("", *parts) for parts in zip(names, bases, of_logs)]


@pytest.mark.parametrize(
    ("reason", "call"),
    [
        ("files", lambda: covers.check_rewritten([97 * MIB])),
        ("files", lambda: covers.check_slices([])),
        ("files", lambda: covers.check_slices(slices(*[MIB] * 5_001))),
        ("files", lambda: covers.check_slices(slices(5 * 1024 * MIB))),
        ("files", lambda: covers.check_slices([FileSlice("", "f", None)])),
        ("logs", lambda: covers.check_slices(slices(MIB, MIB, logs=129 * MIB))),
    ],
)
def test_what_pyarrow_does_not_read_or_write_is_left_to_spark(reason: str, call: Any) -> None:
    with pytest.raises(LeftToSpark) as left:
        call()
    assert left.value.reason == reason
    covers.check_slices(slices(60 * MIB, logs=MIB))
    covers.check_rewritten([])


def test_new_rows_go_into_the_smallest_file_that_is_rewritten_anyway() -> None:
    sizes = dict(enumerate([30 * MIB, 10 * MIB, 20 * MIB, 80 * MIB]))
    assert placement.file_for_new_rows(sizes, {0, 2, 3}, below=64 * MIB) == 2
    assert placement.file_for_new_rows(sizes, {3}, below=64 * MIB) == 1
    assert placement.file_for_new_rows({0: 80 * MIB}, {0}, below=64 * MIB) is None


def test_columns_have_a_dictionary_where_their_values_repeat() -> None:
    body = stored(rows(*[(id, "ab"[id % 2]) for id in range(1_000)]))
    group = pq.ParquetFile(pa.BufferReader(body)).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    without = {column.path_in_schema for column in columns if column.dictionary_page_offset is None}
    assert without == {"_hoodie_commit_seqno", "_hoodie_record_key", "id", hidden.POSITION}


def test_a_file_that_arrives_behind_the_roll_back_of_its_write_is_removed(tmp_path: Path) -> None:
    own: Any = {"objects": None, "table_uri": f"file:{tmp_path}", "body": b"rows", "new": NEW, "kind": "CREATE"}
    write_data_file(path="early.parquet", **own)
    (tmp_path / NEW.inflight).unlink()
    with pytest.raises(WriteUndone):
        write_data_file(path="late.parquet", **own)
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == ["early.parquet"]
