"""The benchmark of shapes: its matrix, the changes of its rows, and what it says of cells."""

import io
from collections import Counter
from itertools import pairwise

import fastavro
import pyarrow.parquet as pq
from support.builders import avro_object, flattened

from sluice_bench.data.shaped_changes import COLUMNS, NESTED, ShapedChanges, encoded
from sluice_bench.tables.shape_cells import ROWS, ShapeCell, matrix, selected

SMALL, LARGE = ShapeCell("cow", 0, 10_000, 100), ShapeCell("mor", 120, 1_000_000, 5_000)


def test_cells_have_unique_names_and_are_chosen_by_text_and_rows():
    cells = matrix()
    assert len({cell.name for cell in cells}) == len(cells) and not any(cell.changes > cell.rows for cell in cells)
    assert all(cell.config().partition_by == (f"place{cell.partitions}",) for cell in cells if cell.partitions)
    assert {SMALL, LARGE} < set(selected()) and 20 <= len(selected()) <= 32
    assert {cell.rows for cell in selected("cow-120")} == set(ROWS[:2])
    assert {cell.rows for cell in selected(rows=ROWS[2])} == {ROWS[2]}
    assert len(selected("lists")) == 4 and selected() == sorted(selected(), key=lambda cell: cell.data)


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
