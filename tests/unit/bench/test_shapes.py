"""The benchmark of shapes: its matrix, the changes of its rows, and what it says of cells."""

import io
import os
from collections import Counter
from itertools import pairwise

import fastavro
import pyarrow.parquet as pq
from support.builders import avro_object, flattened

from sluice_bench.data.shaped_changes import COLUMNS, NESTED, ShapedChanges, encoded
from sluice_bench.measure.machine import forget_peaks, peaks_mb
from sluice_bench.tables.shape_cells import ROWS, ShapeCell, dear, matrix, neighbours, selected
from sluice_bench.tables.shapes import summary, way

SMALL, LARGE = ShapeCell("cow", 0, 10_000, 100), ShapeCell("mor", 120, 1_000_000, 5_000)


def test_cells_have_unique_names_and_are_chosen_by_text_and_rows():
    cells = matrix()
    assert len({cell.name for cell in cells}) == len(cells) and not any(cell.changes > cell.rows for cell in cells)
    assert all(cell.config().partition_by == (f"place{cell.partitions}",) for cell in cells if cell.partitions)
    assert {SMALL, LARGE} < set(selected()) and 20 <= len(selected()) <= 32
    assert {cell.rows for cell in selected("cow-120")} == set(ROWS[:2])
    assert {cell.rows for cell in selected(rows=ROWS[2])} == {ROWS[2]}
    assert len(selected("lists")) == 4 and selected() == sorted(selected(), key=lambda cell: cell.data)


def test_a_neighbour_is_simpler_in_one_respect_and_a_dear_cell_names_it():
    simpler = ("cow-120-1000000-5000", "mor-10-1000000-5000", "mor-120-10000-5000", "mor-120-1000000-100")
    assert [cell.name for cell in neighbours(LARGE)] == [f"{name}-plain-avro" for name in simpler]
    assert [*neighbours(ShapeCell("cow", 0, 10_000, 1))] == []
    other = next(neighbours(LARGE))
    assert dear({LARGE: 9.0, other: 3.0}, of="batch") == {LARGE: f"batch 3.0 of {other.name}"}
    assert dear({LARGE: 6.0, other: 3.0}, of="batch") == dear({LARGE: 0.9, other: 0.1}, of="batch") == {}


def test_rows_are_skewed_move_end_and_begin_and_are_counted():
    source = ShapedChanges(2_000, nested=True)
    (snapshot,) = source.snapshot()
    assert max(Counter(row["place120"] for row in snapshot).values()) > 3 * 2_000 / 120
    changes = source.batch(1_000)
    assert Counter(row["__op"] for row in changes) == {"c": 30, "d": 10, "u": 960} and 2_000 < source.living <= 2_030
    before = {row["id"]: row["place2000"] for row in (*changes, *snapshot)}
    assert 15 <= sum(row["place2000"] != before[row["id"]] for row in changes if row["__op"] == "u") <= 40
    assert all(row["__lsn"] < later["__lsn"] for row, later in pairwise((*snapshot, *changes)))
    schema = flattened({name: ["null", kind] for name, kind in {**COLUMNS, **NESTED}.items()})
    assert list(fastavro.reader(io.BytesIO(avro_object(schema, changes)))) == changes
    truncate, *after = source.batch(90, truncate=True)
    assert (truncate["__op"], truncate["id"]) == ("t", None) and source.living == len({row["id"] for row in after})


def test_every_format_has_the_same_rows():
    rows = ShapedChanges(10).batch(97)
    assert pq.read_table(io.BytesIO(encoded(rows, "parquet"))).to_pylist() == rows
    assert [len(encoded(rows, format).splitlines()) for format in ("json", "csv")] == [97, 98]


def test_a_part_that_is_left_has_its_reason_and_another_is_by_arrow():
    left = [
        (f"left_to_{to}", {"reason": "changes", "detail": detail}) for to, detail in (("tasks", None), ("spark", "9"))
    ]
    assert (way([("merged", {})]), way(left)) == ("arrow", "tasks: changes, spark: changes 9")


def test_a_summary_has_the_median_batch_and_why_a_cell_is_dear():
    def result(*seconds):
        step = dict.fromkeys("cpu_s bytes files rewritten requests driver_mb jvm_mb worker_mb way".split(), 1)
        return {"machine": {"load_1_5_15": [2.0]}, "steps": [{**step, "seconds": one} for one in seconds]}

    parted = ShapeCell("cow", 10, 10_000, 100)
    found = summary({SMALL: result(1, 9, 4, 2, 3), parted: result(5, 9)}, {parted.name: "ten files"})
    assert [found[SMALL.name][name] for name in ("load_s", "first_s", "s", "why")] == [1, 9, 3, ""]
    told = f"batch 3.0 of {SMALL.name}, load 5.0 of {SMALL.name}", "ten files"
    assert (found[parted.name]["times a neighbour's"], found[parted.name]["why"]) == told


def test_the_peak_of_memory_begins_anew():
    mine, held = os.getpid(), bytearray(64_000_000)
    before = peaks_mb([mine])[mine][1]
    del held
    forget_peaks([mine])
    assert 0 < peaks_mb([mine])[mine][1] <= before - 50
