"""Union of the row schemas of one batch: the columns of all, each with a type that holds the values of all.

Raises Incompatible where two types have no common type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from sluice.errors import PUSH_AND_RETRY, Incompatible
from sluice.schema import columns as kinds
from sluice.schema.columns import Column, RowSchema, array_column, decimal_column, plain_column
from sluice.schema.evolution import differ_in_case

# The kind that holds the values of both, by pair of kinds.
_WIDER: dict[frozenset[str], str] = {
    frozenset((kinds.INT, kinds.LONG)): kinds.LONG,
    frozenset((kinds.FLOAT, kinds.DOUBLE)): kinds.DOUBLE,
    frozenset((kinds.DATE, kinds.ISO_DATE)): kinds.DATE,
    frozenset((kinds.TIMESTAMP_MILLIS, kinds.TIMESTAMP_MICROS)): kinds.TIMESTAMP_MICROS,
}
# Other pairs of these meet as text: nanoseconds lack the years of the others, and the others lack its digits. What a
# timestamp can't hold is cut and counted later.
_TIMESTAMPS = frozenset((kinds.TIMESTAMP_MILLIS, kinds.TIMESTAMP_MICROS, kinds.TIMESTAMP_NANOS, kinds.ZONED_TIMESTAMP))


def merge_schemas(first: RowSchema, second: RowSchema) -> RowSchema:
    """Every column of both: the first's, in its order, then those that only the second has.

    A column of both gets a type that holds the values of both. A column of one only is nullable. Raises Incompatible
    for the first column without such a type, and for names that differ in case only.
    """
    by_name = {column.name: column for column in second.columns}
    folded = {column.name.lower(): column.name for column in first.columns}
    merged: list[Column] = []
    for column in first.columns:
        other = by_name.get(column.name)
        merged.append(replace(column, nullable=True) if other is None else merge_columns(column, other))
    for column in second.columns:
        same = folded.get(column.name.lower())
        if same is None:
            merged.append(replace(column, nullable=True))
        elif same != column.name:
            where = f"into the table's rule, or the reverse, {PUSH_AND_RETRY}"
            raise differ_in_case(same, column.name, where)
    return RowSchema(tuple(merged))


def union_of(schemas: Iterable[RowSchema]) -> RowSchema:
    """`merge_schemas` of all. The types of the result don't depend on the order of the schemas."""
    return reduce(merge_schemas, schemas)


def merge_columns(first: Column, second: Column) -> Column:
    """The column that holds the values of both. Raises Incompatible."""
    nullable = first.nullable or second.nullable
    if first.kind == second.kind == kinds.DECIMAL:
        return _wider_decimal(first, second, nullable)
    if first.kind == second.kind == kinds.ARRAY and first.element is not None and second.element is not None:
        return array_column(first.name, merge_columns(first.element, second.element), nullable)
    if first.kind == second.kind:
        return replace(first, nullable=nullable)
    # Times of day too: each value keeps the text that it has alone.
    if first.kind in kinds.TEXT_KINDS and second.kind in kinds.TEXT_KINDS:
        return plain_column(first.name, kinds.STRING, nullable, first.source_type)
    pair = frozenset((first.kind, second.kind))
    wider = _WIDER.get(pair)
    if wider is not None:
        return replace(first if first.kind == wider else second, nullable=nullable)
    if pair <= _TIMESTAMPS:
        return plain_column(first.name, kinds.ZONED_TIMESTAMP, nullable, first.source_type)
    raise _incompatible(first, second)


def _wider_decimal(first: Column, second: Column, nullable: bool) -> Column:
    """A decimal with the longer integer part and the longer fraction."""
    scale = max(first.places, second.places)
    whole = max((first.precision or 0) - first.places, (second.precision or 0) - second.places)
    if whole + scale > kinds.MAX_PRECISION:
        raise _incompatible(first, second)
    return decimal_column(first.name, whole + scale, scale, nullable, f"decimal({whole + scale},{scale})")


def _incompatible(first: Column, second: Column) -> Incompatible:
    types = [first.source_type or first.spark_type, second.source_type or second.spark_type]
    return Incompatible(
        f"Column {first.name} is {types[0]} in one schema and {types[1]} in another", column=first.name, types=types
    )
