"""What one batch's part of a table is read as: the columns its objects agree on, and those the table will have."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from pyspark.sql.types import (
    ArrayType, BinaryType, BooleanType, DataType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType,
    StringType, StructField, StructType, TimestampType,
)

from sluice import column_types as kinds
from sluice import hidden_columns
from sluice.avro_schema import WriterSchema
from sluice.column_types import Column, RowSchema
from sluice.errors import Incompatible
from sluice.limits import DEFAULTS, Limits
from sluice.schema_evolution import merge_schemas
from sluice.table_config import TableConfig

_TYPES: Dict[str, DataType] = {
    "boolean": BooleanType(), "int": IntegerType(), "bigint": LongType(), "float": FloatType(), "double": DoubleType(),
    "string": StringType(), "binary": BinaryType(), "date": DateType(), "timestamp": TimestampType(),
}


@dataclass(frozen=True)
class ReaderPlan:
    """Pickled into read tasks. `columns` are the batch's, by name; order and nullability of a writer don't matter."""

    batch: str
    table: str
    record_key: Tuple[str, ...]
    generation: int
    columns: Tuple[Column, ...]
    limits: Limits = DEFAULTS


@dataclass(frozen=True)
class PlannedRead:
    """A plan, the schema the table has after this batch, and the writer schemas that fit neither.

    `refused` maps a writer schema's fingerprint to the reason. `widened` are columns of the table whose
    type changes.
    """

    plan: ReaderPlan
    target: StructType
    refused: Mapping[str, Incompatible]
    widened: Tuple[str, ...]


def plan_read(
    config: TableConfig, *, batch: str, writers: Sequence[WriterSchema], stored: Optional[StructType]
) -> PlannedRead:
    """Agree on columns, writer schema by writer schema in their order; one that doesn't fit is refused, the rest go on.

    `stored` is the table's schema, None before its first commit.
    """
    agreed: Optional[RowSchema] = None
    refused: Dict[str, Incompatible] = {}
    target = stored if stored is not None else StructType()
    for writer in writers:
        try:
            _has_keys(config, writer.row)
            merged = merge_schemas(agreed, writer.row) if agreed is not None else writer.row
            target = _target(config, stored, merged)
            agreed = merged
        except Incompatible as error:
            refused[writer.fingerprint] = error
    agreed = agreed if agreed is not None else RowSchema(())
    target = _target(config, stored, agreed)
    before = {field.name: field.dataType for field in stored.fields} if stored is not None else {}
    widened = tuple(field.name for field in target.fields if field.name in before and before[field.name] != field.dataType)
    plan = ReaderPlan(batch, config.table, config.record_key, config.generation, agreed.columns, config.limits)
    return PlannedRead(plan, target, refused, widened)


def stored_type(column: Column) -> DataType:
    """The Spark type that a column is stored as."""
    if column.kind == kinds.DECIMAL:
        return DecimalType(column.precision or 0, column.scale or 0)
    if column.element is not None:
        return ArrayType(stored_type(column.element))
    return _TYPES[column.spark_type]


def wider_type(name: str, stored: DataType, written: DataType) -> DataType:
    """The type that holds what is stored and what was written. Raises Incompatible naming the column."""
    if stored == written:
        return stored
    pair = {type(stored), type(written)}
    if pair == {IntegerType, LongType}:
        return LongType()
    if pair == {FloatType, DoubleType}:
        return DoubleType()
    if isinstance(stored, DecimalType) and isinstance(written, DecimalType):
        decimal = _wider_decimal(stored, written)
        if decimal is not None:
            return decimal
    if isinstance(stored, ArrayType) and isinstance(written, ArrayType):
        return ArrayType(wider_type(name, stored.elementType, written.elementType))
    raise Incompatible(
        f"Column {name} is {written.simpleString()} and the table has {stored.simpleString()}",
        column=name, types=[stored.simpleString(), written.simpleString()],
    )


def _wider_decimal(stored: DecimalType, written: DecimalType) -> Optional[DecimalType]:
    """The decimal that holds both, if the table can become it in place.

    Stored decimals are fixed-length bytes without their scale. A file that is rewritten keeps the bytes:
    with another scale Hudi 1.0 silently makes 0.125 of 1.25, and another length it refuses.
    """
    scale = max(stored.scale, written.scale)
    precision = max(stored.precision - stored.scale, written.precision - written.scale) + scale
    if (precision, scale) == (stored.precision, stored.scale):
        return stored
    if scale == stored.scale and precision <= kinds.MAX_PRECISION and _bytes(precision) == _bytes(stored.precision):
        return DecimalType(precision, scale)
    return None


def _bytes(precision: int) -> int:
    """Bytes of the shortest two's complement number of so many digits."""
    return ((10**precision - 1).bit_length() + 8) // 8


def _has_keys(config: TableConfig, row: RowSchema) -> None:
    for name in config.record_key:
        if row.column(name) is None:
            raise Incompatible(f"The record key {name} is not a column of this schema", column=name, types=["", "absent"])


def _target(config: TableConfig, stored: Optional[StructType], batch: RowSchema) -> StructType:
    """The table's columns in their order with room for the batch's values, then the batch's new ones.

    A column that the source dropped stays, and is null from then on. Everything is nullable: readers
    and releases differ in what they make of a column that isn't.
    """
    written = {column.name: stored_type(column) for column in batch.columns}
    if stored is None:
        own = [StructField(hidden.name, _TYPES[hidden.spark_type]) for hidden in hidden_columns.HIDDEN]
        return StructType([StructField(name, kind) for name, kind in written.items()] + own)
    _same_case(stored, written)
    fixed = set(config.record_key) | set(config.partition_by)
    fields: List[StructField] = []
    for field in stored.fields:
        kind = wider_type(field.name, field.dataType, written.pop(field.name, field.dataType))
        if field.name in fixed and kind != field.dataType and not isinstance(kind, LongType):
            raise Incompatible(
                f"Column {field.name} is part of the table's key or paths and can't become {kind.simpleString()}",
                column=field.name, types=[field.dataType.simpleString(), kind.simpleString()],
            )
        fields.append(StructField(field.name, kind))
    return StructType(fields + [StructField(name, kind) for name, kind in written.items()])


def _same_case(stored: StructType, written: Mapping[str, DataType]) -> None:
    known = {field.name.lower(): field.name for field in stored.fields}
    for name in written:
        same = known.get(name.lower(), name)
        if same != name:
            raise Incompatible(f"Columns {same} and {name} differ in case only", column=name, types=[same, name])
