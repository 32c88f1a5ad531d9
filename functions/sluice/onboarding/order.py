"""Finds what orders the changes of a topic whose records have no position of a log."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.changes.position import OFFSET_ONLY
from sluice.errors import Incompatible, Unordered
from sluice.onboarding.keys import AMBIGUOUS, CERTAIN, SHOWN, Choice
from sluice.onboarding.samples import SampledRow, TopicSample, distinct_values
from sluice.schema.avro import WriterSchema
from sluice.schema.capture_order import check_position_column, encode_capture_order, is_change_sequence
from sluice.schema.columns import Column

_CLOCK_NAMES = (
    *("last_update", "last_updated", "last_modified", "updated_at", "modified_at"),
    *("update_ts", "updated", "modified"),
)
_NOTHING = "nothing orders these rows, neither a log position nor an offset in the objects' names"


def lacks_order(sample: TopicSample, writer: WriterSchema) -> bool:
    """Whether nothing but a column can order the changes: neither a log's position nor the objects' names."""
    return writer.meta.position.kind == OFFSET_ONLY and not sample.offsets_named


def order_of_operations(sample: TopicSample, writer: WriterSchema) -> Choice | None:
    """The column that orders rows which say what they do to a row; None where offsets order them."""
    sequence = _change_sequence(sample, writer)
    if sequence is not None:
        return Choice((sequence,), CERTAIN, ("the change sequence of AWS DMS",))
    if not lacks_order(sample, writer):
        return None
    return Choice((), AMBIGUOUS, (_NOTHING,), tuple((name,) for name in possible_positions(sample.rows, writer)))


def possible_positions(rows: Sequence[SampledRow], writer: WriterSchema) -> tuple[str, ...]:
    """The columns that could order rows: whole numbers or points in time, in each row another one."""
    different = distinct_values(writer.row.names, rows)
    return tuple(
        column.name
        for column in writer.row.columns
        if distinct_values((column.name,), rows) == different > 1 and _orders(column, rows)
    )[:SHOWN]


def _orders(column: Column, rows: Sequence[SampledRow]) -> bool:
    try:
        check_position_column(column)
        for row in rows:
            encode_capture_order(0, [column], [row.values.get(column.name)], 0)
    except (Incompatible, Unordered):
        return False
    return True


def note_on_order(sample: TopicSample, writer: WriterSchema) -> str:
    """Say what orders rows without a position of a log, and what that needs."""
    sequence = _change_sequence(sample, writer)
    if sequence is not None:
        return f"position: {sequence} orders the rows, as AWS DMS's change sequence"
    clock = next((column.name for column in writer.row.columns if column.name.lower() in _CLOCK_NAMES), None)
    if clock is not None:
        return f"rows have no log position: if a query captured them, position: {clock} orders them"
    if sample.offsets_named:
        return (
            "rows have no log position: they are ordered by Kafka offset, which is right while a key stays in its "
            "Kafka partition"
        )
    return f"{_NOTHING}: configure the sink, or name a position column"


def _change_sequence(sample: TopicSample, writer: WriterSchema) -> str | None:
    """The column with AWS DMS's change sequence, which is empty in a full load."""
    for name in writer.row.names:
        values = [row.values.get(name) for row in sample.rows]
        texts = [value for value in values if value not in (None, "")]
        if texts and all(isinstance(text, str) and is_change_sequence(text) for text in texts):
            return name
    return None
