"""The matrix of shapes: kinds of tables, their sizes, and the changes that they get, as pairs and singles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sluice.config.rules.columns import ColumnRules
from sluice.config.table import COW, FORMATS, HARD, MOR, TableConfig
from sluice_bench.data.shaped_changes import PARTITIONS, place_column

TYPES = (COW, MOR)
ROWS = (10_000, 1_000_000, 10_000_000)
CHANGES = (1, 100, 5_000, 100_000)
PLAIN, LISTS, TRUNCATE, NEW_COLUMN, PURGED = "plain", "lists", "truncate", "new-column", "purged"
RULES = ColumnRules(exclude=("credit",), rename={"name": "artist"}, mask={"medium": 3})
SETTINGS: Mapping[str, Mapping[str, object]] = {
    PLAIN: {},
    LISTS: {},
    "history": {"history": True},
    "columns": {"columns": RULES},
    NEW_COLUMN: {},
    TRUNCATE: {},
    PURGED: {"delete_mode": HARD},
    "hard-delete": {"delete_mode": HARD},
}
DEAR = 2.0  # times the seconds of a neighbour
_LEAST_S = 0.5  # below it, seconds say little
_SIZES = {"partitions": (0, *PARTITIONS), "rows": ROWS, "changes": CHANGES}  # each has the one before it as neighbour
_STEPS = {**_SIZES, "table_type": TYPES, "kind": tuple(SETTINGS), "format": FORMATS}  # these have the first


@dataclass(frozen=True)
class ShapeCell:
    """A shape: `partitions` 0 is a flat table. A batch has `changes` changes."""

    table_type: str
    partitions: int
    rows: int
    changes: int
    kind: str = PLAIN
    format: str = FORMATS[0]

    @property
    def name(self) -> str:
        """Its values in their order."""
        place = str(self.partitions or "flat")
        return f"{self.table_type}-{place}-{self.rows}-{self.changes}-{self.kind}-{self.format}"

    @property
    def data(self) -> tuple[int, str, bool]:
        """What decides about the objects of the first load, which cells share."""
        return self.rows, self.format, self.kind == LISTS

    def config(self) -> TableConfig:
        """The table's configuration."""
        return TableConfig(
            table="bench.shaped",
            database="bench",
            name="shaped",
            topic="src.public.t",
            record_key=("id",),
            partition_by=(place_column(self.partitions),) if self.partitions else (),
            table_type=self.table_type,
            **SETTINGS[self.kind],
        )


def matrix() -> Sequence[ShapeCell]:
    """Types, partitions, rows and changes of plain rows; kinds and formats of one small and one large table by type."""
    places = [
        ShapeCell(table_type, partitions, rows, changes)
        for rows in ROWS
        for table_type in TYPES
        for partitions in (0, *PARTITIONS)
        for changes in CHANGES
        if changes <= rows
    ]
    small_and_large = [
        cell
        for cell in places
        if (cell.partitions, *cell.data[:1], cell.changes) in ((0, ROWS[0], 100), (120, ROWS[1], 5_000))
    ]
    kinds = [replace(cell, kind=kind) for cell in small_and_large for kind in SETTINGS]
    formats = [replace(cell, format=format) for cell in small_and_large for format in FORMATS]
    return tuple(dict.fromkeys([*places, *kinds, *formats]))


def selected(only: str = "", rows: int | None = None) -> Sequence[ShapeCell]:
    """The cells whose names have this text and that have so many rows, ordered by their data.

    Without either, every place of a million rows, and every kind and format of ten thousand.
    """
    cells = [
        cell
        for cell in matrix()
        if only in cell.name
        and (cell.rows == rows if rows else cell.rows < ROWS[-1])
        and (only or rows or _is_default(cell))
    ]
    return sorted(cells, key=lambda cell: cell.data)


def _is_default(cell: ShapeCell) -> bool:
    if cell.rows == ROWS[1]:
        return cell.changes == 5_000 and cell.kind == PLAIN and cell.format == FORMATS[0]
    return (cell.partitions, cell.rows, cell.changes) == (0, ROWS[0], 100)


def neighbours(cell: ShapeCell) -> Iterator[ShapeCell]:
    """The cells that are one step simpler in one respect, whether the matrix has them or not."""
    for field in fields(ShapeCell):
        order, value = _STEPS[field.name], getattr(cell, field.name)
        if value != order[0]:
            simpler = order[order.index(value) - 1] if field.name in _SIZES else order[0]
            yield replace(cell, **{field.name: simpler})


def dear(seconds: Mapping[ShapeCell, float], *, of: str) -> Mapping[ShapeCell, str]:
    """The cells with more than DEAR times the seconds of a neighbour, and which neighbours those are."""
    dear_cells = {}
    for cell, own in seconds.items():
        times = {other.name: own / max(seconds[other], _LEAST_S) for other in neighbours(cell) if other in seconds}
        dearer = [f"{of} {ratio:.1f} of {name}" for name, ratio in times.items() if ratio > DEAR]
        if dearer:
            dear_cells[cell] = ", ".join(dearer)
    return dear_cells
