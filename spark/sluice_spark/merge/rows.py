"""Makes rows in the table's columns and types of decoded Arrow batches. Times are UTC, cut below the microsecond."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.errors import Incompatible
from sluice.schema import columns as kinds
from sluice.schema.columns import Column, stored_column
from sluice.schema.evolution import NARROWER, SAME, widen
from sluice.schema.meaning import CLOCK, DAY, MEANINGS, Meaning, time_text
from sluice.schema.temporal import BELOW_A_MICROSECOND, day_of, micros_of
from sluice_formats.arrow_columns import arrow_type
from sluice_formats.records import ReaderPlan

# Counts of values without an exact stored form, one per row.
_COUNT = pa.int64()
_NAMES = pa.list_(pa.string())
ROWS_AT_ONCE = 1_000


class LeftToSpark(Exception):
    """A part, or a column of it, that the Arrow path doesn't cover. The Spark path merges it.

    `reason` is one word for log events. `read` are the part's decoded objects, where they were at hand.
    """

    read: Any = None

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


def arrow_rows(batches: Iterable[pa.RecordBatch], *, plan: ReaderPlan, target: Mapping[str, str]) -> pa.Table:
    """The changes of decoded batches under the table's names, types and order; a column that they lack is null.

    `target` are the table's columns after this batch, name -> Spark's type name (`column_types`). Keeps UNCHANGED, and
    adds INEXACT, which counts infinite dates and timestamps (stored as null, since any date would be wrong) and those
    with digits below a microsecond (cut). Raises LeftToSpark for a column without a conversion to the table's type.
    """
    check_columns(plan, target)
    return pa.Table.from_batches(stored_batches(batches, plan=plan, target=target), schema=rows_schema(target))


def stored_batches(
    batches: Iterable[pa.RecordBatch], *, plan: ReaderPlan, target: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The batches of `arrow_rows`."""
    schema, written = rows_schema(target), {column.name: column for column in plan.columns}
    return (_rows(batch, written, schema) for batch in _joined(batches))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Those of small objects together: a call takes as long for a row as for a hundred."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_AT_ONCE:
            yield from held if len(held) == 1 else pa.Table.from_batches(held).combine_chunks().to_batches()
            held, rows = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def rows_schema(target: Mapping[str, str]) -> pa.Schema:
    """The schema of `arrow_rows`."""
    fields = [pa.field(name, stored_arrow_type(kind)) for name, kind in target.items()]
    return pa.schema([*fields, pa.field(hidden.UNCHANGED, _NAMES), pa.field(hidden.INEXACT, _COUNT)])


def stored_arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a stored type (Spark's name). A timestamp has microseconds, in UTC."""
    if kind == "timestamp":
        return _TIMESTAMP
    if kind == "date":
        return pa.date32()
    column = stored_column("", kind)
    if column.kind == kinds.ARRAY and column.element is not None:
        return pa.list_(stored_arrow_type(column.element.spark_type))
    return arrow_type(column)


def check_columns(plan: ReaderPlan, target: Mapping[str, str]) -> None:
    """Raise LeftToSpark for a column of the plan without a conversion to the table's type."""
    for column in plan.columns:
        try:
            widening = widen(column.name, target[column.name], column.spark_type)
        except (Incompatible, KeyError) as error:
            raise LeftToSpark("column", f"{column.name} is {column.spark_type}") from error
        if widening.change not in (SAME, NARROWER):
            raise LeftToSpark("column", f"{column.name} becomes {widening.type}")


def _rows(batch: pa.RecordBatch, written: Mapping[str, Column], schema: pa.Schema) -> pa.RecordBatch:
    count = batch.num_rows
    present = {name: batch.column(number) for number, name in enumerate(batch.schema.names)}
    arrays: list[pa.Array] = []
    inexact = pa.array([0] * count, _COUNT)
    for field in schema:
        if field.name == hidden.INEXACT:
            arrays.append(inexact)
        elif field.name in written:
            values, lost = stored_values(present[field.name], written[field.name])
            arrays.append(values if values.type == field.type else values.cast(field.type))
            if lost is not None:
                inexact = pc.add(inexact, lost)
        elif field.name in present:
            arrays.append(present[field.name].cast(field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


Stored = tuple[pa.Array, Any]


def stored_values(raw: pa.Array, column: Column) -> Stored:
    """The stored values of raw ones, and how many of each value are set to null or cut (None: none of any)."""
    if column.kind == kinds.ARRAY and column.element is not None:
        return _lists(raw, column.element)
    meaning = MEANINGS[column.kind]
    if meaning.form == CLOCK:
        return _of_each(raw, lambda count: time_text(count, column.kind), pa.string()), None
    if meaning.form is None:
        return raw, None
    values, lost = (_days if meaning.form == DAY else _moments)(raw, meaning)
    if not pc.any(lost).as_py():
        return values, None
    return values, pc.fill_null(lost, False).cast(_COUNT)


def _lists(raw: pa.Array, element: Column) -> Stored:
    items, lost = stored_values(raw.values, element)
    made = pa.Array.from_buffers(
        pa.list_(items.type), len(raw), raw.buffers()[:2], raw.null_count, raw.offset, children=[items]
    )
    if lost is None:
        return made, None
    so_far = [0]
    for count in lost.to_pylist():
        so_far.append(so_far[-1] + count)
    offsets, present = raw.offsets.to_pylist(), raw.is_valid().to_pylist()
    counts = [so_far[end] - so_far[start] if valid else 0 for start, end, valid in zip(offsets, offsets[1:], present)]
    return made, pa.array(counts, _COUNT)


Converted = tuple[pa.Array, pa.Array]  # values, and which of them are set to null or cut


def _days(raw: pa.Array, meaning: Meaning) -> Converted:
    if meaning.is_parsed:
        values = _of_each(raw, day_of, pa.int32()).cast(pa.date32())
        return values, pc.and_(pc.is_valid(raw), pc.is_null(values))
    real = _within(raw, meaning)
    return _real(raw, real).cast(pa.date32()), pc.invert(real)


def _moments(raw: pa.Array, meaning: Meaning) -> Converted:
    if meaning.nanos is None:
        return _of_text(raw)
    real = _within(raw, meaning)
    lost = pc.invert(real)
    if meaning.is_cut:
        # Rounded down; Arrow's division rounds towards zero.
        micros = pc.divide(raw, _THOUSAND)
        rest = pc.subtract(raw, pc.multiply(micros, _THOUSAND))
        micros = pc.subtract(micros, pc.less(rest, pa.scalar(0, rest.type)).cast(pa.int64()))
        lost = pc.or_(lost, pc.not_equal(rest, pa.scalar(0, rest.type)))
    else:
        micros = pc.multiply(raw, pa.scalar(meaning.nanos // 1_000, pa.int64()))
    return _real(micros, real).cast(_TIMESTAMP), lost


def _within(raw: pa.Array, meaning: Meaning) -> pa.Array:
    low, high = (pa.scalar(bound, raw.type) for bound in meaning.real or ())
    return pc.and_(pc.greater_equal(raw, low), pc.less_equal(raw, high))


def _real(raw: pa.Array, real: pa.Array) -> pa.Array:
    return pc.if_else(real, raw, pa.scalar(None, raw.type))


def _of_text(raw: pa.Array) -> Converted:
    """Timestamps of text in any zone. Arrow parses the usual ones, Python the years that Arrow can't hold."""
    below = pc.match_substring_regex(raw, BELOW_A_MICROSECOND)
    usual = pc.match_substring_regex(raw, _USUAL_TIMESTAMP)
    if pc.all(usual, min_count=0).as_py():
        cut = pc.replace_substring_regex(raw, r"(\.\d{6})\d+", r"\1")
        try:
            return cut.cast(_TIMESTAMP), below
        except pa.ArrowInvalid:  # a day that no month has
            pass
    values = _of_each(raw, micros_of, pa.int64()).cast(_TIMESTAMP)
    return values, pc.or_(pc.and_(pc.is_valid(raw), pc.is_null(values)), pc.fill_null(below, False))


def _of_each(raw: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Each value converted by Python, equal ones once."""
    encoded = raw.dictionary_encode()
    made = pa.array([None if value is None else convert(value) for value in encoded.dictionary.to_pylist()], kind)
    return made.take(encoded.indices)


_TIMESTAMP = pa.timestamp("us", "UTC")
_THOUSAND = 1_000
_USUAL_TIMESTAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
