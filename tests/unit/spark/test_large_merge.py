"""Large merges by Arrow give the rows of the definition, truncates among the changes, on disk and without a JVM."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import RDD, TaskContext
from support.builders import avro_record
from support.change_histories import COLUMNS, deliveries, history
from support.merge_cases import COLUMNS as SHOWN
from support.merge_cases import EMPTIED, EVERY, KEEPING, KEEPING_ALL, TRUNCATED_AT, Group, row_text

from sluice.catalog.columns import META_COLUMNS
from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import Change, Row, row_after
from sluice.changes.source_tables import Floors
from sluice.config.table import MOR, TableConfig
from sluice.hudi.file_slices import Committed, FileSlice, data_file, slices_as_of
from sluice.schema.columns import plain_column
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.arrow_batches import batch_schema
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.hudi.table_files import files_below
from sluice_spark.merge.by_arrow.decide import FILE, KEY
from sluice_spark.merge.by_arrow.keyed_rows import from_counts
from sluice_spark.merge.by_arrow.large import destinations
from sluice_spark.merge.by_arrow.large import merge as large
from sluice_spark.merge.by_arrow.large.merge import read_in_driver, read_in_tasks
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.by_arrow.large.stored_keys import stored_in_slice, stored_schema
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.by_arrow.stored import SliceFiles, WantedKeys, rows_of_slice
from sluice_spark.merge.rows import LeftToSpark, rows_schema

TYPES = {"id": "int", **dict.fromkeys(COLUMNS, "string")}
READER = tuple(plain_column(name, kind, name != "id", kind) for name, kind in TYPES.items())
TARGET = {**TYPES, **{column.name: column.spark_type for column in (*hidden.HIDDEN, hidden.SOURCE_COLUMN)}}
OF_AVRO = {"bigint": "long"}
KINDS = {**dict.fromkeys(META_COLUMNS, "string"), **TARGET}
AVRO = json.dumps(avro_record({name: ["null", OF_AVRO.get(kind, kind)] for name, kind in KINDS.items()}, name="t"))


class Shuffled(RDD[Any]):
    """Spark's RDD in this process, as far as a merge uses it."""

    def __init__(self, parts: list[list[Any]]) -> None:
        self.parts = parts

    def mapPartitions(self, f: Any, preservesPartitioning: bool = False) -> Shuffled:
        return Shuffled([list(f(part)) for part in self.parts])

    def partitionBy(self, numPartitions: int | None, partitionFunc: Any = None) -> Shuffled:
        parts: list[list[Any]] = [[] for _ in range(numPartitions or 0)]
        for message in (message for part in self.parts for message in part):
            parts[partitionFunc(message[0])].append(message)
        return Shuffled(parts)


class Context:
    """Spark's context in this process."""

    defaultParallelism = 2

    def parallelize(self, items: list[Any], count: int) -> Shuffled:
        return Shuffled([[item] for item in items])

    def runJob(self, parts: Shuffled, task: Any, numbers: Iterable[int]) -> list[Any]:
        return [result for number in numbers for result in task(parts.parts[number])]


SPARK: Any = SimpleNamespace(sparkContext=Context())
PARTITIONED = ("place",)


class Table:
    """A table on disk that large merges write, and that commits what they wrote."""

    def __init__(self, root: Path, *, parts: int = 0, **settings: Any) -> None:
        """With `parts` the merges are those of Spark's tasks, in so many parts."""
        self.config = TableConfig("db.t", "db", "t", "topic", ("id",), **settings)
        self.root, self.floors, self.parts = root, Floors(), parts
        self.instants: list[str] = []
        self.purged, self.history, self.replaced = "", False, (0, 0)
        self.dumps: frozenset[str] = frozenset()
        (root / ".hoodie").mkdir(parents=True)

    @property
    def committed(self) -> Committed:
        return Committed(frozenset(self.instants), min(self.instants, default=None))

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        jvm: Any = None
        files = (data_file(path, size) for path, size in files_below(jvm, self.root.as_uri(), partitioned=True))
        return slices_as_of([file for file in files if file is not None], "9" * 17, committed=self.committed)

    def merge(self, changes: Iterable[tuple[int | None, Change]]) -> dict[str, int]:
        """Merge changes of keys; of no key for truncates. Returns the counts. Raises LeftToSpark."""
        reader = ReaderPlan(self.config, batch="b-1", columns=READER, inferred={}, sources=True)
        ignore = self.config.delete_mode == "ignore"
        plan = LoadPlan(
            reader,
            TARGET,
            self.root.as_uri(),
            ObjectSource("eu-west-1", "silver"),
            self.config.keep_deleted_values,
            hidden.LINEAGE_WORDS,
            ignore_deletes=ignore,
            floors=self.floors,
            purged=self.purged or None,
            dumps=self.dumps,
            slices=self.slices,
            committed=self.committed,
            rows=0 if self.history else len(self.rows()),
            in_logs=self.config.table_type == MOR,
            history=self.history,
        )
        schema = batch_schema(reader)
        batch = pa.RecordBatch.from_pylist([_raw(key, change, schema.names) for key, change in changes], schema=schema)
        work = FileWork(SPARK, None, plan.source, in_tasks=False)  # type: ignore[arg-type]
        if self.parts:
            rows = [batch.slice(number, 1) for number in range(batch.num_rows)]
            shares: Any = [rows[:3], rows[3:]] if rows[3:] else [rows]
            made = read_in_tasks(SPARK, shares, iter, plan, parts=self.parts, work=work)
        else:
            made = read_in_driver(SPARK, [batch], plan, work=work)
        self.floors, self.replaced = self.floors.raised(made.truncates), made.replaced
        if made.rows:
            instant = f"202611221222{len(self.instants):05d}"
            new = NewFiles(instant, AVRO, f".hoodie/{instant}.inflight")
            (self.root / new.inflight).touch()
            made.write(new)
            self.instants.append(instant)
        return dict(made.counts)

    def rows(self) -> dict[int, dict[str, Any]]:
        """Every row by its key, read as the merge of single keys reads them. A key has one."""
        rows: dict[int, dict[str, Any]] = {}
        schema = rows_schema(TARGET)
        for number, item in enumerate(self.slices):
            keys = from_counts([{"id": id, hidden.POSITION: ""} for id in range(-1, 60)], schema)
            stored = rows_of_slice(
                None,  # type: ignore[arg-type]
                "",
                0,
                SliceFiles.of(number, item, self.root.as_uri()),
                wanted=WantedKeys(keys, ("id",)),
                committed=self.committed,
                columns=pa.schema([item for item in schema if item.name in TARGET]),
                most_bytes=2**30,
            )
            assert stored is not None
            for (id,), row in stored:
                assert id not in rows, "a key has one row"
                path = f"place={row.values['place'] or '__HIVE_DEFAULT_PARTITION__'}"
                assert item.partition == (path if self.config.partition_by else "")
                rows[id] = dict(row.values)
        return rows


def _raw(key: int | None, change: Change, names: Sequence[str]) -> dict[str, Any]:
    op = "u" if change.op == hidden.SNAPSHOT_READ else change.op  # rows of a snapshot that share a key are Spark's
    own: dict[str, Any] = {hidden.POSITION: change.position, hidden.DELETED: change.deleted, hidden.OP: op}
    own |= {hidden.SOURCE_TS_MS: 1, hidden.SOURCE: change.source, hidden.UNCHANGED: sorted(change.unchanged) or None}
    return {**dict.fromkeys(names), "id": key, **change.values, **own}


def _row(row: dict[str, Any]) -> Row:
    deleted, owed = row[hidden.DELETED], json.loads(row[hidden.OWED] or "{}")
    return Row(row[hidden.POSITION], deleted, {} if deleted else {name: row[name] for name in COLUMNS}, owed)


TASK = SimpleNamespace(partitionId=lambda: 0, stageId=lambda: 1, taskAttemptId=lambda: 2)


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called is called in a task of Spark's."""
    monkeypatch.setattr(TaskContext, "get", lambda: TASK)


SHAPES = pytest.mark.parametrize(
    ("table_type", "partition_by"), [("cow", ()), ("cow", PARTITIONED), ("mor", ()), ("mor", PARTITIONED)]
)


@SHAPES
@pytest.mark.parametrize("delete_mode", ["soft", "ignore"])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_batches_with_truncates_give_the_rows_of_the_definition(
    tmp_path: Path, seed: int, delete_mode: str, table_type: str, partition_by: tuple[str, ...], monkeypatch: Any
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(destinations, "ROWS_PER_LOGGED", draw.choice((0, 2)))
    settings: Any = {"table_type": table_type, "partition_by": partition_by, "delete_mode": delete_mode}
    table, wanted, floors = Table(tmp_path / "t", parts=seed % 3, **settings), dict[int, Row | None](), Floors()
    source = draw.choice((None, "db.public.topic"))
    for objects in deliveries(draw, history(draw, most=24)):
        batch = [
            (event.key, Change(**{**vars(event.change), "source": source})) for changes in objects for event in changes
        ]
        truncates = [(source, change.position) for key, change in batch if key is None]
        floors = floors.raised(truncates if delete_mode == "soft" else ())  # else they are ignored, too
        for key in {key for key, _ in batch if key is not None} | set(wanted):
            own = [change for of, change in batch if of == key]
            rules: Any = {"columns": COLUMNS, "floor": floors, "ignore_deletes": delete_mode == "ignore"}
            wanted[key] = row_after(wanted.get(key), own, **rules)
        try:
            counts = table.merge(batch)
        except LeftToSpark as left:
            assert str(left) == "empty"
            assert not any(wanted.values())
            table.floors = floors
            continue
        rows = {key: _row(row) for key, row in table.rows().items()}
        expected = {key: row for key, row in wanted.items() if row is not None}
        # A row that was deleted before a truncate keeps its position, and one that it deletes has it.
        for key in {key for key, row in expected.items() if row.deleted and row.position <= floors.highest}:
            assert rows.pop(key).deleted and expected.pop(key).deleted
        assert rows == expected
        assert counts["read"] == len(batch)
        keys = {key for key, _ in batch} - {None}
        assert counts["winning"] + counts["losing"] + counts.get("supplied", 0) >= len(keys)


@SHAPES
@pytest.mark.parametrize("group", [EVERY, KEEPING, EMPTIED, KEEPING_ALL], ids=["every", "ignored", "emptied", "kept"])
def test_every_example_has_its_row(tmp_path: Path, group: Group, table_type: str, partition_by: Any) -> None:
    table = Table(tmp_path / "t", table_type=table_type, delete_mode=group.settings.get("delete_mode", "soft"))
    histories = {id: group.changes_of(id) for id in range(len(group.examples))}
    for number in range(max(map(len, histories.values()))):
        changes: list[tuple[int | None, Change]] = [
            (id, change) for id, batches in histories.items() for change in batches[number]
        ]
        if group.truncated and number == 1:
            changes.append((None, Change(f"0000.{TRUNCATED_AT:020d}.{1_999:020d}", "t", False)))
        table.merge(changes)
    rows = {
        id: row_text(row[hidden.DELETED], [row[name] for name in SHOWN], row[hidden.POSITION], row[hidden.OWED])
        for id, row in table.rows().items()
    }
    assert group.by_name(rows) == group.rows


def at(number: int) -> str:
    return f"0000.{number:020d}.{number:020d}"


def write(number: int, *, op: str | None = "u", source: str | None = None, **values: Any) -> Change:
    return Change(at(number), op, op == "d", {"place": "A", "name": f"n{number}", **values}, source=source)


def truncate(number: int, source: str | None = None) -> tuple[None, Change]:
    return None, Change(at(number), "t", False, source=source)


def why_left(table: Table, *changes: tuple[int | None, Change]) -> str:
    with pytest.raises(LeftToSpark) as left:
        table.merge(changes)
    return left.value.reason


def test_what_spark_alone_does_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path / "t")
    table.merge([(1, write(10, source="db.a.x")), (2, write(11))])
    assert why_left(table, truncate(20, "db.b.x")) == "sources"  # of source tables, each of which has a floor
    assert why_left(table, truncate(20, "db.a.other")) == "sources"  # which may have been that of row 2
    assert why_left(table, (3, write(12, op=None)), (3, write(13, op=None))) == "shared_keys"  # rows of a snapshot
    assert why_left(Table(tmp_path / "e"), truncate(20)) == "empty"
    keeping = Table(tmp_path / "k", keep_deleted_values=True)
    keeping.merge([(1, write(10)), (2, write(30))])
    assert why_left(keeping, truncate(20)) == "kept_values"
    monkeypatch.setattr(large, "MOST_HISTORIES", 0)
    assert why_left(table, (2, Change(at(40), "u", False, {"place": "B"}, frozenset(("name",))))) == "unchanged"
    table.purged = at(50)
    assert why_left(table, (9, write(49))) == "purge_floor"
    assert table.merge([(9, write(51))])["winning"] == 1


@SHAPES
@pytest.mark.parametrize("late", [(), ((1, write(20)),)], ids=["whole", "late"])
def test_a_row_that_owes_across_a_truncate_is_written_once(
    tmp_path: Path, late: Any, table_type: str, partition_by: Any
) -> None:
    table = Table(tmp_path / "t", table_type=table_type, partition_by=partition_by)
    owing = Change(at(18), "u", False, {"place": "A"}, frozenset(("name",)))
    table.merge([(1, owing), (2, owing), (3, write(19))])
    counts = table.merge([truncate(12), (1, write(32)), *late])
    assert counts["winning"] == 1
    assert {id: (row["name"], row[hidden.POSITION]) for id, row in table.rows().items()} == {
        1: ("n32", at(32)),
        2: (None, at(18)),
        3: ("n19", at(19)),
    }


def test_messages_and_truncates_are_counted_apart_from_rows(tmp_path: Path) -> None:
    for parts in (0, 3):
        table = Table(tmp_path / f"{parts}", parts=parts)
        table.merge([(id, write(10 + id)) for id in range(6)])
        others = [(7, write(12)), (None, Change(at(31), "m", False)), (5, write(9)), (1, write(30))]
        counts = table.merge([truncate(13), *others, truncate(11)])
        own = {"read": 6, "winning": 1, "losing": 2, "deleted": 0, "overtaken": 0, "repeated": 0}
        beside = {"truncates": 2, "messages": 1, "truncated": 2, "supplied": 0, "owed": 0}
        assert counts == {**own, **beside}
        deleted = {id: row[hidden.POSITION] for id, row in table.rows().items() if row[hidden.DELETED]}
        assert deleted == {0: at(13), 2: at(13)}


def test_a_dump_tells_what_it_deletes_and_what_stays(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.merge([(id, write(10 + id, op="u")) for id in range(6)])
    table.dumps = frozenset((at(20),))
    table.merge([truncate(20), (1, write(21)), (8, write(22)), (9, write(19))])
    assert table.replaced == (6, 2)  # the five others, and the row of before that came with it


def test_logs_hold_newer_rows_than_their_base_file_and_remove_some(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", table_type="mor", partition_by=PARTITIONED)
    table.merge([(id, write(10 + id)) for id in range(50)])
    table.merge([(1, write(100)), (2, write(101, place="B")), (3, write(102, op="d"))])
    assert [bool(item.logs) for item in table.slices] == [True, False, False]
    schema = stored_schema(TARGET, ("id",))
    own: Any = {"schema": schema, "record_key": ("id",), "committed": table.committed}
    place = SliceFiles.of(4, table.slices[0], table.root.as_uri())
    rows = {row["id"]: row for row in stored_in_slice(None, place, **own).to_pylist()}  # type: ignore[arg-type]
    assert set(rows) == set(range(50)) - {2, 3} and {row[FILE] for row in rows.values()} == {4}
    assert (rows[1][hidden.POSITION], rows[4][hidden.POSITION]) == (at(100), at(14))
    assert (rows[1][KEY], rows[1][hidden.DELETED]) == ("1", False)

    base = table.root / next(file.path for file in table.slices[0].files if file.path.endswith(".parquet"))
    newer = pq.read_table(base)
    positions = [at(200) if id in (1, 2) else at(10 + id) for id in newer.column("id").to_pylist()]
    newer = newer.set_column(newer.schema.get_field_index(hidden.POSITION), hidden.POSITION, pa.array(positions))
    pq.write_table(newer, base)
    place = SliceFiles.of(4, table.slices[0], table.root.as_uri())
    rows = {row["id"]: row for row in stored_in_slice(None, place, **own).to_pylist()}  # type: ignore[arg-type]
    assert rows[1][hidden.POSITION] == at(200)  # the log's row is older
    assert set(rows) == set(range(50)) - {2, 3}  # a removal holds whatever the position


def test_of_a_history_table_every_change_is_a_row_once(tmp_path: Path) -> None:
    for parts in (0, 3):
        table = Table(tmp_path / f"{parts}", parts=parts)
        table.history = True
        first = [(1, write(10)), (1, write(11)), (2, write(12)), (2, write(13, op="d"))]
        assert table.merge(first)["winning"] == 4
        unchanged = Change(at(14), "u", False, {"place": "B"}, frozenset(("name",)))
        counts = table.merge([first[1], (1, unchanged), (3, write(15)), (None, Change(at(16), "m", False))])
        assert (counts["winning"], counts["losing"], counts["repeated"]) == (2, 1, 1)
        files = [pq.read_table(table.root / item.base.path).to_pylist() for item in table.slices if item.base]
        rows = sorted((row for rows in files for row in rows), key=lambda row: row[hidden.POSITION])
        assert [(row["id"], row["name"]) for row in rows] == [
            *[(1, "n10"), (1, "n11"), (2, "n12"), (2, None), (1, None), (3, "n15")]
        ]
        assert [row[hidden.OWED] for row in rows if row[hidden.OWED]] == ['{"name":""}']
        assert why_left(table, truncate(20)) == "truncate"
