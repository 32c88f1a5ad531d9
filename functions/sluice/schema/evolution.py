"""Additive union of row schemas: which types become which wider ones, and which can't.

What a stored column's type may become: the same, a wider one in place, a wider one by rewriting the table, or nothing.

What a writer schema means for a table: column by column, the table's types after it, and the verdict on it.

The columns that a table takes of a writer's row, and what they mean for the columns that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

from sluice.changes.hidden_columns import NAMES, ROW
from sluice.changes.position import MONGODB
from sluice.config.table import TableConfig
from sluice.errors import Incompatible
from sluice.schema import columns as kinds
from sluice.schema.avro import WriterSchema
from sluice.schema.capture_order import check_position_column
from sluice.schema.columns import (
    ARRAY,
    BYTES,
    JSON,
    MAX_PRECISION,
    STRING,
    Column,
    RowSchema,
    array_column,
    decimal_column,
    plain_column,
    row_as_configured,
    stored_column,
)

# The kind that keeps every value of both, by the pair of kinds.
_WIDER: dict[frozenset[str], str] = {
    frozenset((kinds.INT, kinds.LONG)): kinds.LONG,
    frozenset((kinds.FLOAT, kinds.DOUBLE)): kinds.DOUBLE,
    frozenset((kinds.DATE, kinds.ISO_DATE)): kinds.DATE,
    frozenset((kinds.TIMESTAMP_MILLIS, kinds.TIMESTAMP_MICROS)): kinds.TIMESTAMP_MICROS,
}
# Any two others of these meet as text: nanoseconds have not the years of the others, and they not its digits, which are cut and counted only later.
_TIMESTAMPS = frozenset((kinds.TIMESTAMP_MILLIS, kinds.TIMESTAMP_MICROS, kinds.TIMESTAMP_NANOS, kinds.ZONED_TIMESTAMP))


def merge_schemas(first: RowSchema, second: RowSchema) -> RowSchema:
    """Every column of both by name: the first's order, then what only the second has.

    A column of both gets the type that holds both; one that only one of them has is nullable.
    Raises Incompatible naming the first column for which there is none, also when names differ in
    case only.
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
            raise Incompatible(
                f"Columns {same} and {column.name} differ in case only", column=column.name, types=[same, column.name]
            )
    return RowSchema(tuple(merged))


def union_of(schemas: Iterable[RowSchema]) -> RowSchema:
    """`merge_schemas` over all of them; the result's types don't depend on their order."""
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
    if (
        first.kind in kinds.TEXT_KINDS and second.kind in kinds.TEXT_KINDS
    ):  # times of day, too: each value has the text that it has alone
        return plain_column(first.name, kinds.STRING, nullable, first.source_type)
    pair = frozenset((first.kind, second.kind))
    wider = _WIDER.get(pair)
    if wider is not None:
        return replace(first if first.kind == wider else second, nullable=nullable)
    if pair <= _TIMESTAMPS:
        return plain_column(first.name, kinds.ZONED_TIMESTAMP, nullable, first.source_type)
    raise _incompatible(first, second)


def _wider_decimal(first: Column, second: Column, nullable: bool) -> Column:
    """Room for the longer integer part and the longer fraction."""
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


SAME, NARROWER, PROMOTED, REWRITTEN = "same", "narrower", "promoted", "rewritten"  # from least to most work
_WORK = (SAME, NARROWER, PROMOTED, REWRITTEN)

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.*)>")
_PROMOTIONS = {("int", "bigint"), ("float", "double")}
_RAW_PAIRS = (
    {"timestamp", "bigint"},
    {"timestamp", "string"},
    {"date", "int"},
    {"string", "bigint"},
    {"string", "int"},
)


@dataclass(frozen=True)
class Widening:
    """The type (Spark's name of it) that holds what is stored and what was written, and what becoming it takes."""

    type: str
    change: str


def widen(name: str, stored: str, written: str) -> Widening:
    """The type that a column of type `stored` becomes when values of type `written` come. Raises Incompatible.

    Both are Spark's names of types ("bigint", "decimal(18,4)", "array<int>").
    """
    if stored == written:
        return Widening(stored, SAME)
    if (stored, written) in _PROMOTIONS:
        return Widening(written, PROMOTED)
    if (written, stored) in _PROMOTIONS:
        return Widening(stored, NARROWER)
    old, new = _decimal(stored), _decimal(written)
    if old and new:
        return _wider_stored_decimal(name, stored, written, old, new)
    items, new_items = _ARRAY.fullmatch(stored), _ARRAY.fullmatch(written)
    if items and new_items:
        inner = widen(name, items[1], new_items[1])
        # Of a column Hudi's reader casts what an older file has; of a list's items it doesn't ("Nested types with type changes").
        return Widening(f"array<{inner.type}>", REWRITTEN if inner.change == PROMOTED else inner.change)
    raise incompatible(name, stored, written)


def worst(changes: tuple[str, ...]) -> str:
    """The one of several changes that takes the most work."""
    return max(changes, key=_WORK.index, default=SAME)


def incompatible(name: str, stored: str, written: str, why: str = "", next_step: str | None = None) -> Incompatible:
    """The verdict on a column: its name, its old and new type, and what to do."""
    if next_step is None:
        next_step = _next_step(stored, written)
    described = f": {why}" if why else ""
    return Incompatible(
        f"Column {name} is {written} and the table has {stored}{described}",
        next_step=next_step,
        column=name,
        types=[stored, written],
    )


def _decimal(type_name: str) -> tuple[int, int] | None:
    matched = _DECIMAL.fullmatch(type_name)
    return (int(matched[1]), int(matched[2])) if matched else None


def _wider_stored_decimal(name: str, stored: str, written: str, old: tuple[int, int], new: tuple[int, int]) -> Widening:
    """Room for the longer integer part and the longer fraction.

    Stored decimals are fixed-length bytes without their scale. A file that Hudi 1.0 rewrites on the way keeps the bytes: with
    another scale it silently makes 0.125 of 1.25, and another length it refuses. So all files have to be written anew, in one commit.
    """
    scale = max(old[1], new[1])
    precision = max(old[0] - old[1], new[0] - new[1]) + scale
    if (precision, scale) == old:
        return Widening(stored, NARROWER)
    if precision > MAX_PRECISION:
        raise incompatible(
            name, stored, written, f"together they need {precision} digits, and a decimal has {MAX_PRECISION}"
        )
    in_place = scale == old[1] and _bytes(precision) == _bytes(old[0])
    return Widening(f"decimal({precision},{scale})", PROMOTED if in_place else REWRITTEN)


def _bytes(precision: int) -> int:
    """Bytes of the shortest two's complement number of so many digits."""
    return ((10**precision - 1).bit_length() + 8) // 8


def _next_step(stored: str, written: str) -> str:
    step = f"Change it back to {stored} at the source"
    if {stored, written} in _RAW_PAIRS:
        step += ", or take back what was changed in the table's `raw` or in the connector's handling mode of this type"
    return (
        step
        + ", and retry what waits; or give the topic a table of another name, which takes the new type from the start"
    )


NEW_TABLE, ADDED, DROPPED, INCOMPATIBLE = "new_table", "added", "dropped", "incompatible"
# A schema's verdict is the strongest of its columns': in this order.
_STRENGTH = (SAME, DROPPED, NARROWER, ADDED, PROMOTED, REWRITTEN, NEW_TABLE, INCOMPATIBLE)

_TOLD = {
    ADDED: "{column} is new ({new}): null in rows from before",
    DROPPED: "{column} ({old}) is no longer sent: kept, null in rows that change from now on",
    NARROWER: "{column} comes as {new}: kept as {old}",
    PROMOTED: "{column} becomes {to} ({new} came, {old} was stored)",
    REWRITTEN: "{column} becomes {to} ({new} came, {old} was stored): the whole table is written anew in the commit that brings it",
}


@dataclass(frozen=True)
class ColumnChange:
    """What a writer schema changes about one column. Types are Spark's names; None where the column isn't.

    `to` is the stored type afterwards.
    """

    column: str
    change: str
    old: str | None
    new: str | None
    to: str | None
    described: str


@dataclass(frozen=True)
class Evolution:
    """A writer schema seen from a table: its verdict, the columns that are not the same, and the table's types after it."""

    verdict: str
    changes: tuple[ColumnChange, ...]
    target: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the target."""
        return {"verdict": self.verdict, "changes": [asdict(change) for change in self.changes]}


def evolve(
    stored: Mapping[str, str] | None,
    written: RowSchema,
    *,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
) -> Evolution:
    """Compare a schema with the table's columns (name -> Spark's type name; None while there is no table).

    Raises Incompatible naming the first column that keeps it from going on. Sluice's own columns are left alone.
    """
    for name in record_key:
        if written.column(name) is None:
            raise Incompatible(
                f"The record key {name} is not a column of this schema",
                column=name,
                types=[(stored or {}).get(name, ""), "absent"],
                next_step="Let the connector send the key's columns, or give the topic a table with a key that it has",
            )
    types = {column.name: column.spark_type for column in written.columns}
    if stored is None:
        return Evolution(NEW_TABLE, (), types)
    _same_case(stored, types)
    target: dict[str, str] = {}
    changes: list[ColumnChange] = []
    for name, old in stored.items():
        new = types.pop(name, None)
        if new is None:
            target[name] = old
            if name not in NAMES:
                changes.append(_change(name, DROPPED, old, None, old))
            continue
        found = widen(name, old, new)
        if found.type != old and name in record_key + partition_by and found.type != "bigint":
            raise incompatible(
                name,
                old,
                new,
                "it is part of the table's key or of its folders",
                "Change it back at the source, or give the topic a table of another name",
            )
        target[name] = found.type
        if found.change != SAME:
            changes.append(_change(name, found.change, old, new, found.type))
    for name, new in types.items():
        target[name] = new
        changes.append(_change(name, ADDED, None, new, new))
    return Evolution(
        max((change.change for change in changes), key=_STRENGTH.index, default=SAME), tuple(changes), target
    )


def compare(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[ColumnChange, ...]:
    """Every column that differs between two schemas (name -> Spark's type name), incompatible ones among them."""
    changes: list[ColumnChange] = []
    for name, kind in old.items():
        if name not in new:
            changes.append(_change(name, DROPPED, kind, None, kind))
            continue
        try:
            found = widen(name, kind, new[name])
        except Incompatible as error:
            changes.append(ColumnChange(name, INCOMPATIBLE, kind, new[name], None, str(error)))
            continue
        if found.change != SAME:
            changes.append(_change(name, found.change, kind, new[name], found.type))
    return (*changes, *(_change(name, ADDED, None, kind, kind) for name, kind in new.items() if name not in old))


def refused(error: Incompatible) -> Evolution:
    """The verdict on a schema that `evolve` refused."""
    old, new = (error.facts.get("types") or [None, None])[:2]
    change = ColumnChange(str(error.facts.get("column", "")), INCOMPATIBLE, old, new, None, str(error))
    return Evolution(INCOMPATIBLE, (change,), {})


def rewritten_columns(stored: Mapping[str, str], target: Mapping[str, str]) -> tuple[str, ...]:
    """The stored columns whose type in `target` needs every file of the table written anew."""
    return tuple(
        name for name, old in stored.items() if name in target and widen(name, old, target[name]).change == REWRITTEN
    )


def _change(column: str, change: str, old: str | None, new: str | None, to: str) -> ColumnChange:
    return ColumnChange(column, change, old, new, to, _TOLD[change].format(column=column, old=old, new=new, to=to))


def _same_case(stored: Mapping[str, str], written: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in stored}
    for name in written:
        same = known.get(name.lower(), name)
        if same != name:
            raise Incompatible(
                f"Columns {same} and {name} differ in case only",
                column=name,
                types=[same, name],
                next_step="Name the column at the source as the table does, or give the topic a table of another name",
            )


def row_for_table(row: RowSchema, config: TableConfig) -> RowSchema:
    """A writer's columns as its table has them: raw where it wants them so, and with a key of the table's own where rows have none.

    Bytes in the key or in a folder's name are their base64 text, as `binary.handling.mode=base64` has them: Hudi makes keys of texts, and of
    bytes now a hexadecimal number and now the name of a place in memory.
    """
    wanted = row_as_configured(row, config.raw)
    named = {*config.record_key, *config.partition_by}
    columns = tuple(_describe_as_text(column) if column.name in named else column for column in wanted.columns)
    return RowSchema((*columns, plain_column(ROW, STRING, False, "row")) if config.append_only else columns)


def _describe_as_text(column: Column) -> Column:
    return (
        replace(plain_column(column.name, STRING, column.nullable, column.source_type), field=column.field)
        if column.kind == BYTES
        else column
    )


def row_with_types(writer: WriterSchema, config: TableConfig, known: Mapping[str, str]) -> RowSchema:
    """`row_for_table` of a writer's row, columns of which its schema tells no type as they are `known` (Spark's names of types).

    MongoDB's documents have no schema: for a null the connector writes text, for an empty array one of texts. A value that is there
    and isn't what is known costs its row. https://github.com/debezium/debezium, connector/mongodb/transforms/MongoDataConverter.java
    """
    row = row_for_table(writer.row, config)
    if writer.meta.position.kind != MONGODB:
        return row
    fixed = {*config.record_key, *config.partition_by}
    return RowSchema(
        tuple(
            replace(stored_column(column.name, known[column.name]), field=column.field)
            if column.name in known
            and column.name not in fixed
            and _untold(column)
            and not _untold_as(known[column.name])
            else column
            for column in row.columns
        )
    )


def types_describe(writers: Sequence[WriterSchema], config: TableConfig) -> Mapping[str, str]:
    """The types (Spark's names) of all columns of which some schema does tell one, of several the first; none where every schema tells all types."""
    described: dict[str, str] = {}
    for writer in writers if any(writer.meta.position.kind == MONGODB for writer in writers) else ():
        for column in row_for_table(writer.row, config).columns:
            if not _untold(column):
                described.setdefault(column.name, column.spark_type)
    return described


def _untold(column: Column) -> bool:
    return (
        column.kind == STRING or column.kind == ARRAY and column.element is not None and column.element.kind == STRING
    )


def _untold_as(spark_type: str) -> bool:
    return spark_type in ("string", "array<string>")


def evolve_nothing(before: Mapping[str, str]) -> Evolution:
    """What a schema without any column means for a table that is there."""
    return Evolution(SAME, (), before)


def evolve_table(before: Mapping[str, str] | None, row: RowSchema, config: TableConfig) -> Evolution:
    """As table_evolution.evolve, for a row of `row_for_table`. Raises Incompatible, also where the position column is missing.

    For a table that would have more columns than its limits allow: objects of one record's width each can bring other names each. And for a column of the key or of folders' names that is an array or a map, whose text is not the same each time.
    """
    for name in config.record_key + config.partition_by:
        column = row.column(name)
        if column is not None and (column.kind == ARRAY or column.kind == JSON and column.element is not None):
            raise Incompatible(
                f"The column {name} of the key or of folders' names is {column.source_type}",
                column=name,
                types=[column.source_type, "a single value"],
                next_step="Give the topic a table with a record_key and partition_by of numbers, texts or times",
            )
    if config.position is not None:
        column = row.column(config.position)
        if column is None:
            raise Incompatible(
                f"The position column {config.position} is not a column of this schema",
                column=config.position,
                types=["", "absent"],
            )
        check_position_column(column)
    found = evolve(before, row, record_key=config.record_key, partition_by=config.partition_by)
    width = len(found.target.keys() - set(NAMES))
    if width > config.limits.schema_columns and len(found.target) > len(before or ()):
        new = next(name for name in found.target if name not in (before or ()))
        raise Incompatible(
            f"The table would have {width:,} columns, {new[:100]} among the new ones",
            column=new[:100],
            types=["", found.target[new]],
            next_step="Let the source write what it has no fixed names for as one column of JSON text or a map, or raise the table's limit schema_columns",
        )
    return found
