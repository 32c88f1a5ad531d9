"""Large parts, truncates and dumps go by Arrow, and leave what Spark leaves."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from driving.mortality import Killed, Mortality
from support.builders import avro_object, flattened
from support.extent import WHOLE
from support.workbench import MOR, SCHEMA, Workbench, params, row, table, told

from sluice.batch.dumps import as_dump
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMITTED
from sluice.config.rules.snapshot import SnapshotRule
from sluice.config.table import TableConfig
from sluice_spark.hudi import table_files
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge import commit as commits
from sluice_spark.merge import driver_limits
from sluice_spark.merge.by_arrow import attempt, covers, driver_read, rewrite, table_plans
from sluice_spark.merge.by_arrow.large import plan as large_plan

STORED = ("id", "place", "name", "__deleted", "_sluice_position", "_sluice_op", "_sluice_offset")
ROWS = 60
NULLABLE = flattened({name: ["null", kind] for name, kind in (("id", "int"), ("place", "string"), ("name", "string"))})
OF_FILES = dict.fromkeys(("rewritten", "files_written"))  # where many rows change, a slice gets no log here


@pytest.fixture(params=["tasks", pytest.param("driver", marks=pytest.mark.whole)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where large parts are merged. Those of more than a few changes are large."""
    monkeypatch.setattr(covers, "MOST_CHANGES", 20)
    if request.param == "tasks":
        monkeypatch.setattr(driver_limits, "OBJECTS_IN_DRIVER", 0)
        monkeypatch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)
    return str(request.param)


def backlog(bench: Workbench, draw: random.Random) -> list[list[ManifestObject]]:
    """Two batches: the rows of a snapshot; then updates, moves, deletes and new rows, some of them late."""
    first = [row("r", 1, id, draw.choice("ABC")) for id in range(ROWS)]
    later = [
        row(draw.choice("uuuudc"), 10 + number, draw.randint(0, 2 * ROWS), draw.choice(("A", "B", "C", "D", None)))
        for number in range(3 * ROWS)
    ]
    draw.shuffle(later)
    late = [row("u", 0, id, "A", "late") for id in range(0, ROWS, 5)]
    return [[bench.put(first, SCHEMA)], [bench.put(later[:99], SCHEMA), bench.put(later[99:] + late, SCHEMA)]]


PLACED, UNPLACED = [(kind, ("place",)) for kind in ("cow", "mor")], [(kind, ()) for kind in ("cow", "mor")]
IN_COW, IN_MOR = (
    pytest.mark.parametrize(("table_type", "partition_by"), params([*PLACED, *UNPLACED], short=[shape]))
    for shape in PLACED
)


def merged_as_by_spark(bench: Workbench, batches: list[list[ManifestObject]], **settings: Any) -> TableConfig:
    """Merge batches by Arrow, and compare rows and counts with those of Spark's way."""
    arrow, spark = table("here", **settings), table("there", topic="src.public.here", **settings)
    bench.services.tables.leave_to_spark(spark)
    for items in batches:
        here, told_of_spark = bench.merge(arrow, items), bench.left_to_spark()
        there = bench.merge(spark, items)
        assert told_of_spark is None
        assert told(here)["counts"] | OF_FILES == told(there)["counts"] | OF_FILES
        assert len(here.notes) == len(there.notes)
        rows = bench.rows_by_hudi_rs(arrow, *STORED)
        assert rows == bench.rows_by_hudi_rs(spark, *STORED)
        assert rows == bench.rows(arrow, *STORED)
    return arrow


@IN_MOR
def test_a_backlog_in_two_batches_leaves_nothing_to_spark(
    bench: Workbench, way: str, table_type: str, partition_by: tuple[str, ...]
) -> None:
    settings: dict[str, Any] = {"table_type": table_type, "partition_by": partition_by}
    batches = backlog(bench, random.Random(3))
    arrow = merged_as_by_spark(bench, [*batches, batches[1]], **settings)
    few = [bench.put([row("u", 900, 1, "D"), row("d", 901, 2), row("c", 902, 900, "E")], SCHEMA)]
    bench.merge(arrow, few)  # by single keys, into what large merges wrote
    assert bench.left_to_spark() is None
    assert bench.rows(arrow, *STORED) == bench.rows_by_hudi_rs(arrow, *STORED)


@pytest.mark.whole
@IN_COW
def test_a_truncate_among_changes_leaves_nothing_to_spark(
    bench: Workbench, way: str, table_type: str, partition_by: tuple[str, ...]
) -> None:
    first, second = backlog(bench, random.Random(4))
    truncate = [row("t", 100, 0, None, None) | {"id": None}, row("c", 101, 1, "A"), row("u", 99, 2, "B")]
    late = [bench.put([row("u", 50, id, "C", "late") for id in range(0, 30)], SCHEMA)]
    merged_as_by_spark(
        bench, [first, [bench.put(truncate, NULLABLE)], second, late], table_type=table_type, partition_by=partition_by
    )


def test_a_truncate_below_a_row_that_owes_a_value_counts_no_lost_change(bench: Workbench) -> None:
    unavailable = "__debezium_unavailable_value"
    owing = [row("u", 60, id, "A", unavailable) for id in (1, 2)] + [row("c", 10, 3)]
    truncate = [row("t", 50, 0, None, None) | {"id": None}, row("u", 40, 2, "B"), row("u", 70, 3, "C", unavailable)]
    merged_as_by_spark(bench, [[bench.put(owing, SCHEMA)], [bench.put(truncate, NULLABLE)]])


def test_texts_that_compress_well_make_more_parts(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_limits, "OBJECTS_IN_DRIVER", 0)
    monkeypatch.setattr(table_plans, "LoadPlan", partial(large_plan.LoadPlan, most_part_bytes=30_000))
    config = table()
    bench.apply(config, *(row("c", 1, id, name="x" * 1_000) for id in range(ROWS)))
    assert bench.left_to_spark() is None and len(bench.rows(config, "id")) == ROWS


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Objects of some kilobytes are read in pieces: the number of these, by part."""
    monkeypatch.setattr(driver_limits, "OBJECTS_IN_DRIVER", 0)
    monkeypatch.setattr(covers, "MOST_CHANGES", 20)
    numbers: list[int] = []
    divided = attempt.divided_objects

    def counted(*items: Any, **how: Any) -> Any:
        made = divided(*items, **how, piece_bytes=1_500)
        numbers.append(len(made[0]))
        return made

    monkeypatch.setattr(attempt, "divided_objects", counted)
    return numbers


def in_blocks(bench: Workbench, changes: list[dict[str, Any]], *, spoilt: bool = False) -> ManifestObject:
    """An object of many blocks, `spoilt` in the last one."""
    body = bytearray(avro_object(SCHEMA, changes, block=300, marker=b"marker of blocks"))
    if spoilt:
        body[-60:-20] = bytes([255]) * 40
    return bench.put_bytes(bytes(body), schema=bench.put([], SCHEMA).schema)


@MOR
def test_large_objects_are_merged_from_their_pieces(bench: Workbench, pieces: list[int], table_type: str) -> None:
    draw = random.Random(5)
    first = [row("r", 1, id, draw.choice("ABC")) for id in range(5 * ROWS)]
    later = [row(draw.choice("uud"), 10 + number, draw.randint(0, 9 * ROWS), "D") for number in range(5 * ROWS)]
    batches = [[in_blocks(bench, first), bench.put([row("c", 1, 9_999, "A")], SCHEMA)], [in_blocks(bench, later)]]
    merged_as_by_spark(bench, batches, table_type=table_type, partition_by=("place",))
    assert len(pieces) == 2 and min(pieces) > 4


def test_pieces_of_a_table_with_a_history_make_its_history(bench: Workbench, pieces: list[int]) -> None:
    changes = [row(op, offset, id, "A") for id in range(3 * ROWS) for offset, op in ((1, "c"), (2, "u"))]
    merged_as_by_spark(bench, [[in_blocks(bench, changes)]], history=True)
    here, there = (table(name, history=True).history_table for name in ("here", "there"))
    rows = bench.rows_by_hudi_rs(here, *STORED)
    assert pieces and min(pieces) > 4
    assert len(rows) == len(changes) and rows == bench.rows_by_hudi_rs(there, *STORED)


def test_an_object_whose_blocks_cannot_be_looked_for_is_read_whole(
    bench: Workbench, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **how: Any) -> Any:
        raise OSError("connection reset by peer")

    monkeypatch.setattr(attempt, "divided_objects", broken)
    config, ids = table(), range(1_000, 1_000 + 5 * ROWS)
    bench.merge(config, [in_blocks(bench, [row("c", 1, id, "A") for id in ids])])
    assert bench.left_to_spark() is None
    assert bench.rows(config, "id") == [(id,) for id in ids]


def test_a_defect_in_a_piece_sets_its_whole_object_aside(bench: Workbench, pieces: list[int]) -> None:
    spoilt = in_blocks(bench, [row("c", 1, id, "A") for id in range(5 * ROWS)], spoilt=True)
    good = in_blocks(bench, [row("c", 1, id, "A") for id in range(1_000, 1_000 + 5 * ROWS)])
    config = table()
    outcome = bench.merge(config, [spoilt, good])
    assert pieces and pieces[0] > 8 and bench.left_to_spark() is None
    assert [error.object for error in outcome.quarantined] == [spoilt.id.hash]
    assert bench.rows(config, "id") == [(id,) for id in range(1_000, 1_000 + 5 * ROWS)]


def test_objects_of_a_small_truncate_are_read_once(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    config, read, bodies = table(), [], driver_read.bodies
    bench.apply(config, row("c", 1, 1))

    def counted(objects: Any, items: Any, limit: int) -> Any:
        read.extend(items)
        return bodies(objects, items, limit)

    monkeypatch.setattr(driver_read, "bodies", counted)
    truncate = bench.put([row("t", 2, 0, None, None) | {"id": None}, row("c", 3, 2)], NULLABLE)
    bench.merge(config, [truncate])
    assert read == [truncate] and bench.rows(config, "id", "__deleted") == [(1, True), (2, False)]


@pytest.mark.whole
@pytest.mark.parametrize("partition_by", [("place",), ()])
def test_a_backlog_of_a_table_with_a_history_leaves_nothing_to_spark(
    bench: Workbench, way: str, partition_by: tuple[str, ...]
) -> None:
    first, second = backlog(bench, random.Random(5))
    merged_as_by_spark(bench, [first, second, first], partition_by=partition_by, history=True)
    here, there = (table(name, history=True).history_table for name in ("here", "there"))
    rows = bench.rows_by_hudi_rs(here, *STORED)
    assert len(rows) > 3 * ROWS and rows == bench.rows_by_hudi_rs(there, *STORED)


def killable(patch: pytest.MonkeyPatch, mortality: Mortality) -> None:
    """Count each step by which a large merge changes a table, and end the process behind the chosen one."""
    owners: tuple[tuple[Any, str], ...] = (
        (table_files, "write_file"),
        (rewrite, "write_file"),
        (HudiTable, "raise_floors"),
        (HudiJvm, "begin_write"),
        (HudiJvm, "commit_files"),
        (commits, "remember_columns"),
    )
    for owner, name in owners:
        whole: Callable[..., Any] = getattr(owner, name)
        step = lambda *given, _name=name, _whole=whole, **more: mortality.step(  # noqa: E731
            _name, lambda: _whole(*given, **more)
        )
        patch.setattr(owner, name, step)


def commits_of(bench: Workbench, config: TableConfig, batch: str) -> int:
    """How many completed commits of a table are the batch's."""
    folder = bench.local_path(config) / ".hoodie"
    files = [path for path in folder.iterdir() if path.suffix in (".commit", ".deltacommit")]
    return sum(batch in json.dumps(json.loads(path.read_text())["extraMetadata"]) for path in files)


def of_kind(bench: Workbench, kind: str, **settings: Any) -> tuple[TableConfig, list[list[ManifestObject]]]:
    """A table's settings, and batches of it: a first load and a large part of one kind."""
    config = table("here", history=kind == "history", **settings)
    if kind != "dump":
        first, second = backlog(bench, random.Random(6))
        truncate = [bench.put([row("t", 90, 0, None, None) | {"id": None}], NULLABLE)] if kind == "truncate" else []
        return config, [first, truncate + second]
    rule = SnapshotRule("object", most_deleted=100)
    config = replace(config, snapshot=rule, key_pattern="drop/.*", json_types={"id": "long"})

    def dump(place: str, ids: range, at: int) -> ManifestObject:
        body = "id,place,name\n" + "".join(f"{id},{place},n\n" for id in ids)
        return as_dump(bench.put_file(body.encode(), f"drop/{place}.csv", modified_at=at, format="csv"), config)

    return config, [[dump("A", range(ROWS), 1_000)], [dump("B", range(20, ROWS + 20), 2_000)]]


EVERY = product(("cow", "mor"), (("place",), ()), ("backlog", "truncate", "dump", "history"))


@pytest.mark.parametrize(("table_type", "partition_by", "kind"), params(EVERY, short={("mor", ("place",), "truncate")}))
def test_a_large_merge_that_dies_behind_any_step_is_made_once(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, table_type: str, partition_by: tuple[str, ...], kind: str
) -> None:
    monkeypatch.setattr(covers, "MOST_CHANGES", 20)
    made, (first, second) = of_kind(bench, kind, table_type=table_type, partition_by=partition_by)

    def life(name: str, mortality: Mortality) -> TableConfig:
        config = replace(made, name=name, table=f"db.{name}")
        load = bench.merge(config, first)
        manifest = bench.manifest(config, second, after=load)
        with monkeypatch.context() as patch:
            killable(patch, mortality)
            try:
                bench.merge_manifest(manifest, config)
            except Killed:
                assert mortality.dead
        assert bench.left_to_spark() is None
        bench.new_run()
        settled = bench.resolve(manifest, config) or bench.merge_manifest(manifest, config)
        assert settled.state == COMMITTED and settled.instant is not None
        tables = [config, *([config.history_table] if config.history else [])]
        assert [commits_of(bench, one, manifest.batch) for one in tables] == [1] * len(tables)
        again = bench.merge(config, second, after=settled)
        assert (again.no_change, again.instant) == (True, None)
        return config

    whole = Mortality()
    wanted = life("whole", whole)
    read = ("id", "place", "name", "__deleted", "_sluice_position")
    rows = bench.rows_by_hudi_rs(wanted, *read)
    assert {"write_file", "begin_write", "commit_files", "remember_columns"} <= set(whole.steps)
    every, of_each = range(1, len(whole.steps) + 1), {whole.steps.index(step) + 1 for step in whole.steps}
    for dies_at in every if WHOLE else sorted(of_each):
        config = life(f"died_{dies_at}", Mortality(dies_at))
        assert bench.rows_by_hudi_rs(config, *read) == rows, whole.steps[:dies_at]
        assert bench.rows(config, *read) == rows, whole.steps[:dies_at]
