"""Rows of captures other than Debezium: which are deletions by the rule's `delete_when`, and the place of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.capture_marks import is_before_image
from sluice.config.table import TableConfig
from sluice.errors import Unordered
from sluice.schema.avro import WriterSchema
from sluice.schema.capture_order import before_capture, encode_capture_order, encode_load_order
from sluice.schema.columns import Column

_EMPTY = (None, "", b"")
_LACKS_PLACE = (
    "Let the capture write a column of its own with every change, deletions included (AWS DMS: transact_seq), and "
    "name it in the rule's `position`: `sluice config push` says how a table with data is rebuilt"
)


@dataclass(frozen=True)
class MarkedRows:
    """What the column of `delete_when` says of each row.

    A row before an update (`before`) is a deletion as well: an update of the key writes none of the former key. At its
    place in the log it comes before the row after the update. `loaded` rows are those of a full load, or have no mark.
    """

    deleted: Sequence[bool]
    before: Sequence[bool]
    loaded: Sequence[bool]


def marked_rows(
    rows: Sequence[Any], ops: Sequence[Any] | None, writer: WriterSchema, config: TableConfig
) -> MarkedRows | None:
    """What the column that marks deletions says of rows, or of their operations; None where no column does."""
    rule = config.marks_of_rows
    if config.append_only or not rule.marks or rule.column is None:
        return None
    name, marks = rule.column, ops
    if ops is None or writer.dialect.holds_rows or rule.column != writer.meta.op:
        column = writer.row.column(rule.column)
        name = rule.column if column is None else column.written_name
        marks = [None if column is None or row is None else row[name] for row in rows]
    assert marks is not None
    before = [
        mark is not None and isinstance(row, Mapping) and is_before_image(name, mark, row, config.position_columns)
        for mark, row in zip(marks, rows)
    ]
    return MarkedRows(
        [row is not None and (early or rule.is_deletion(mark)) for mark, row, early in zip(marks, rows, before)],
        before,
        [rule.is_loaded(mark) for mark in marks],
    )


def capture_positions(
    places: Sequence[tuple[Any, ...]],
    offsets: Sequence[int],
    ordering: Sequence[Column],
    config: TableConfig,
    marks: MarkedRows | None,
    *,
    of_loads: Sequence[bool],
) -> list[str]:
    """The stored positions of rows by their values in the position columns, `ordering`.

    Rows of a full load come before every change: those without a value, and all of an object of one (`of_loads`), whose
    values are of the time at which it was written. Raises Unordered for a row that has no place.
    """
    if marks is None:
        return [encode_capture_order(config.generation, ordering, place, at) for place, at in zip(places, offsets)]
    positions = []
    of_rows = zip(places, offsets, marks.deleted, marks.before, marks.loaded, of_loads)
    for place, offset, deleted, before, is_loaded, of_load in of_rows:
        loaded = is_loaded or of_load
        lacking = [column.name for column, value in zip(ordering, place) if value in _EMPTY]
        if loaded and not deleted and lacking:
            positions.append(before_capture(config.generation, len(ordering), offset))
        elif loaded and not deleted and of_load:
            positions.append(encode_load_order(config.generation, ordering, place, offset))
        elif deleted and lacking:
            raise Unordered(
                f"A deletion has no value of the position column {lacking[0]}, so nothing says which changes of its "
                "row it follows",
                field=lacking[0],
                value="null",
                next_step=_LACKS_PLACE,
            )
        else:
            positions.append(encode_capture_order(config.generation, ordering, place, offset, before=before))
    return positions
