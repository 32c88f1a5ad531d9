"""Finds what orders the changes of a topic whose records have no position of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluice.changes.position import OFFSET_ONLY
from sluice.errors import Incompatible, Unordered
from sluice.names import counted
from sluice.onboarding.keys import AMBIGUOUS, CERTAIN, LIKELY, SHOWN, Choice
from sluice.onboarding.samples import SampledRow, TopicSample, distinct_values, rows_of_keys
from sluice.schema.avro import WriterSchema
from sluice.schema.capture_order import check_position_column, encode_capture_order, is_change_sequence
from sluice.schema.columns import Column

_CLOCK_NAMES = (  # the best ones first
    *("_commit_version", "_ab_cdc_lsn", "_ab_cdc_updated_at", "_fivetran_synced"),
    *("last_update", "last_updated", "last_modified", "updated_at", "modified_at"),
    *("update_ts", "updated", "modified"),
)
_OFFSET = re.compile(r"_*(kafka_?)?offset", re.IGNORECASE)
_NOTHING = "nothing orders these rows, neither a log position nor an offset in the objects' names"


def lacks_order(sample: TopicSample, writer: WriterSchema) -> bool:
    """Whether nothing but a column can order the changes: neither a log's position nor the objects' names."""
    return writer.meta.position.kind == OFFSET_ONLY and not (sample.offsets_named and not sample.split_by)


def splits(sample: TopicSample, writer: WriterSchema, key: Sequence[str]) -> str | None:
    """Say by what folders split the Kafka partitions of changes that only offsets order; None where it doesn't matter.

    Rows of other values have other keys where the fields are columns of the key.
    """
    if writer.meta.position.kind != OFFSET_ONLY or set(sample.split_by) <= set(key):
        return None
    return (
        f"folders by {', '.join(sample.split_by)} split Kafka partitions, so offsets don't order the changes of a row"
    )


def order_of_split(sample: TopicSample, writer: WriterSchema, key: Sequence[str]) -> Choice | None:
    """The column that orders plain rows of split Kafka partitions: their own offset, or one to choose."""
    why = splits(sample, writer, key)
    if why is None or writer.of_changes:
        return None
    could = possible_positions(sample.rows, writer, key)
    for name in writer.row.names:
        if _OFFSET.fullmatch(name) and not_a_position((name,), sample.rows, writer) is None:
            return Choice((name,), LIKELY, (why, f"{name} seems to be a record's own"))
    return Choice((), AMBIGUOUS, (why,), tuple((name,) for name in could))


def order_of_operations(sample: TopicSample, writer: WriterSchema, key: Sequence[str]) -> Choice | None:
    """The column that orders rows which say what they do to a row; None where offsets order them."""
    sequence = _change_sequence(sample, writer)
    if sequence is not None:
        return Choice((sequence,), CERTAIN, ("the change sequence of AWS DMS",))
    if not lacks_order(sample, writer):
        return None
    could = possible_positions(sample.rows, writer, key)
    clock = _clock(could)
    if clock is not None:
        others = tuple((name,) for name in could if name != clock)
        return Choice((clock,), LIKELY, ("it is named as the order of a capture's changes",), others)
    return Choice((), AMBIGUOUS, (_NOTHING,), tuple((name,) for name in could))


def order_of_repeats(sample: TopicSample, writer: WriterSchema, key: Sequence[str]) -> Choice | None:
    """The column that is named as the time of a change, where objects repeat keys and nothing else orders them."""
    repeated = unordered_keys(sample, writer, key)
    orders = positions_of_keys(sample.rows, writer, key) if repeated else ()
    clock = _clock(orders)
    if clock is None:
        return None
    why = f"objects repeat {counted(repeated, 'value')} of {', '.join(key)}, and it is named as the time of a change"
    return Choice((clock,), LIKELY, (why,), tuple((name,) for name in orders if name != clock)[:SHOWN])


def unordered_keys(sample: TopicSample, writer: WriterSchema, key: Sequence[str]) -> int:
    """Count the values of the key that several objects have in different rows, which nothing orders."""
    if writer.of_changes or not key or not lacks_order(sample, writer) or set(key) - set(writer.row.names):
        return 0
    rows_by_key = rows_of_keys(key, sample.rows, writer.row.names)
    return sum(len({place for place, _ in rows}) > 1 and len({row for _, row in rows}) > 1 for rows in rows_by_key)


def positions_of_keys(
    rows: Sequence[SampledRow], writer: WriterSchema, key: Sequence[str], *, loaded: bool = False
) -> tuple[str, ...]:
    """The columns that tell the order of the rows of each key: whole numbers or points in time that differ.

    With `loaded`, rows of a full load may lack them.
    """
    several = [group for group in rows_of_keys(key, rows, writer.row.names) if len({row for _, row in group}) > 1]
    return tuple(
        column.name
        for at, column in enumerate(writer.row.columns)
        if column.name not in key
        and all(len({row[at] for _, row in group}) == len({row for _, row in group}) for group in several)
        and _orders(column, _having(column.name, rows) if loaded else rows)
    )


def possible_positions(rows: Sequence[SampledRow], writer: WriterSchema, key: Sequence[str]) -> tuple[str, ...]:
    """The columns that could order operations: whole numbers or points in time, in each another one, or of each key."""

    def fits(column: Column) -> bool:
        having = _having(column.name, rows)
        different = distinct_values(writer.row.names, having)
        return distinct_values((column.name,), having) == different > 1 and _orders(column, having)

    columns = tuple(column.name for column in writer.row.columns if column.name not in key and fits(column))
    repeated = distinct_values(key, rows) < distinct_values(writer.row.names, rows)
    return (columns or (positions_of_keys(rows, writer, key, loaded=True) if repeated else ()))[:SHOWN]


def _having(name: str, rows: Sequence[SampledRow]) -> Sequence[SampledRow]:
    """The rows that have a value of a column: those of a full load lack the position of its changes."""
    return [row for row in rows if row.values.get(name) not in (None, "")]


def not_a_position(names: Sequence[str], rows: Sequence[SampledRow], writer: WriterSchema) -> str | None:
    """Say why these columns can't be a table's `position`; None if they can. A full load may lack their values."""
    if writer.of_changes:
        return "changes of a log have a source position, and need none"
    for column in writer.row.columns:
        if column.name in names and not _orders(column, _having(column.name, rows)):
            return f"{column.name} holds other values than whole numbers, dates and timestamps"
    return None


def _orders(column: Column, rows: Sequence[SampledRow]) -> bool:
    try:
        check_position_column(column)
        for row in rows:
            encode_capture_order(0, [column], [row.values.get(column.name)], 0)
    except (Incompatible, Unordered, TypeError):  # of a value that another schema gives its own type
        return False
    return True


def _clock(names: Sequence[str]) -> str | None:
    """The one of these columns that is named as the time of a change."""
    clocks = [name for name in names if name.lower() in _CLOCK_NAMES]
    return min(clocks, key=lambda name: _CLOCK_NAMES.index(name.lower()), default=None)


def note_on_order(sample: TopicSample, writer: WriterSchema, key: Sequence[str]) -> str:
    """Say what orders rows without a position of a log, and what that needs."""
    sequence = _change_sequence(sample, writer)
    if sequence is not None:
        return f"position: {sequence} orders the rows, as AWS DMS's change sequence"
    repeated = unordered_keys(sample, writer, key)
    if repeated:
        could = positions_of_keys(sample.rows, writer, key)[:SHOWN]
        remedy = f"position: {' or '.join(could)} could" if could else "no column of whole numbers or times does"
        return (
            f"objects repeat {counted(repeated, 'value')} of {', '.join(key)}, and nothing orders these rows: {remedy}"
        )
    clock = _clock(writer.row.names)
    if clock is not None:
        return f"rows have no log position: if a query captured them, position: {clock} orders them"
    if sample.offsets_named and not sample.split_by:
        return (
            "rows have no log position: they are ordered by Kafka offset, which is right while a key stays in its "
            "Kafka partition"
        )
    return f"{_NOTHING}, but when the objects came: a column of times as `position` is the better order"


def _change_sequence(sample: TopicSample, writer: WriterSchema) -> str | None:
    """The column with AWS DMS's change sequence, which is empty in a full load."""
    for name in writer.row.names:
        values = [row.values.get(name) for row in sample.rows]
        texts = [value for value in values if value not in (None, "")]
        if texts and all(isinstance(text, str) and is_change_sequence(text) for text in texts):
            return name
    return None
