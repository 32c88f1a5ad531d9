"""Columns: how a writer encodes values (the kind), the Spark type that stores them, and the kinds of semantic types.

A new temporal type of Debezium goes into `SEMANTIC_TYPES`. If no kind fits it, add a kind with its type in
`SPARK_TYPES` and `RAW_KINDS`, what its values mean in `meaning.MEANINGS`, and its raw Arrow type in
`sluice_formats.arrow_columns`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.config.json_types import JSON_TEXT
from sluice.config.values import RAW_ALL
from sluice.errors import UnsupportedType

BOOLEAN, INT, LONG, FLOAT, DOUBLE = "boolean", "int", "long", "float", "double"
STRING, BYTES, DECIMAL, DATE, ARRAY = "string", "bytes", "decimal", "date", "array"
VARIABLE_DECIMAL = "variable_decimal"  # a scale per value
DECIMAL_TEXT = "decimal_text"  # more digits than any decimal type holds
JSON = "json"  # records and maps, as JSON text
ISO_DATE = "iso_date"
DURATION_MICROS, DURATION_NANOS = "duration_micros", "duration_nanos"
TIME_MILLIS, TIME_MICROS, TIME_NANOS = "time_millis", "time_micros", "time_nanos"
TIMESTAMP_MILLIS, TIMESTAMP_MICROS, TIMESTAMP_NANOS = "timestamp_millis", "timestamp_micros", "timestamp_nanos"
ZONED_TIMESTAMP = "zoned_timestamp"
INT96 = "sluice.parquet.Int96"  # semantic name of Parquet's older timestamps, whose raw form counts nanoseconds
TIME_KINDS = (TIME_MILLIS, TIME_MICROS, TIME_NANOS)
TIMESTAMP_KINDS = (TIMESTAMP_MILLIS, TIMESTAMP_MICROS, TIMESTAMP_NANOS)
DURATION_KINDS = (DURATION_MICROS, DURATION_NANOS)

MAX_PRECISION = 38  # Spark's and Parquet's widest decimal
# Precision that Confluent's converter writes where the source names none, as for PostgreSQL's money.
UNNAMED_PRECISION = 64

SPARK_TYPES: dict[str, str] = {
    BOOLEAN: "boolean",
    INT: "int",
    LONG: "bigint",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "binary",
    DATE: "date",
    # Spark has no time of day. ISO 8601 text is readable everywhere.
    **dict.fromkeys(TIME_KINDS, "string"),
    **dict.fromkeys((*TIMESTAMP_KINDS, ZONED_TIMESTAMP), "timestamp"),
    ISO_DATE: "date",
    # Text is exact, and every reader has it. Readers disagree on maps and structs, above all in log files.
    **dict.fromkeys((VARIABLE_DECIMAL, DECIMAL_TEXT, JSON), "string"),
    **dict.fromkeys(DURATION_KINDS, "bigint"),
}
TEXT_KINDS = frozenset((STRING, VARIABLE_DECIMAL, DECIMAL_TEXT, JSON, *TIME_KINDS))  # stored as text

# Kind of a column that its table wants raw: the number or text that the connector wrote.
RAW_KINDS: dict[str, str] = {
    **dict.fromkeys((DATE, TIME_MILLIS), INT),
    **dict.fromkeys((TIME_MICROS, TIME_NANOS, *TIMESTAMP_KINDS), LONG),
    **dict.fromkeys((ZONED_TIMESTAMP, ISO_DATE), STRING),
}

# Kinds of the semantic types that Debezium and Kafka Connect name on top of an Avro type.
# https://debezium.io/documentation/reference/3.5/connectors/postgresql.html#postgresql-temporal-types
SEMANTIC_TYPES: dict[tuple[str, str], str] = {
    ("int", "io.debezium.time.Date"): DATE,
    ("int", "org.apache.kafka.connect.data.Date"): DATE,
    ("int", "io.debezium.time.Time"): TIME_MILLIS,
    ("int", "org.apache.kafka.connect.data.Time"): TIME_MILLIS,
    ("long", "io.debezium.time.MicroTime"): TIME_MICROS,
    ("long", "io.debezium.time.NanoTime"): TIME_NANOS,
    ("long", "io.debezium.time.Timestamp"): TIMESTAMP_MILLIS,
    ("long", "org.apache.kafka.connect.data.Timestamp"): TIMESTAMP_MILLIS,
    ("long", "io.debezium.time.MicroTimestamp"): TIMESTAMP_MICROS,
    ("long", "io.debezium.time.NanoTimestamp"): TIMESTAMP_NANOS,
    ("string", "io.debezium.time.ZonedTimestamp"): ZONED_TIMESTAMP,
    ("string", "io.debezium.time.IsoTimestamp"): ZONED_TIMESTAMP,
    ("string", "io.debezium.time.IsoDate"): ISO_DATE,
    ("int", "io.debezium.time.Year"): INT,
    ("long", "io.debezium.time.MicroDuration"): DURATION_MICROS,
    ("long", "io.debezium.time.NanoDuration"): DURATION_NANOS,
    ("bytes", "io.debezium.data.Bits"): BYTES,
}

# Avro's own logical types. https://avro.apache.org/docs/1.12.0/specification/#logical-types
_LOGICAL_TYPES: dict[tuple[str, str], str] = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME_MILLIS,
    ("long", "time-micros"): TIME_MICROS,
    **{("long", f"{local}{kind.replace('_', '-')}"): kind for local in ("", "local-") for kind in TIMESTAMP_KINDS},
    ("string", "uuid"): STRING,
}

_CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_PRIMITIVES = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, BYTES)


@dataclass(frozen=True)
class Column:
    """One column of a row. `nullable` is the source's; stored columns are all nullable but the key.

    `element` is the item column of an array, or the value column of a map (kind JSON). `fields` are the columns of a
    record (kind JSON, or a kind of `temporal.STRUCTURED`). `source_type` is the writer's type, for messages. `field`
    is the writer's name of the column where the table can't use it (`names.stored_name`).
    """

    name: str
    kind: str
    spark_type: str
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    source_type: str = ""
    element: Column | None = None
    fields: tuple[Column, ...] = ()
    field: str | None = None

    @property
    def places(self) -> int:
        """Digits after the point of the stored decimal. The writer's `scale` may be negative."""
        return max(self.scale or 0, 0)

    @property
    def written_name(self) -> str:
        """The field of a record that holds the value."""
        return self.name if self.field is None else self.field


@dataclass(frozen=True)
class RowSchema:
    """The data columns of a row, in the writer's order."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        """The column of this exact name."""
        return next((column for column in self.columns if column.name == name), None)


def plain_column(name: str, kind: str, nullable: bool, source_type: str) -> Column:
    """A column whose kind alone decides its Spark type: any but a decimal, an array and JSON."""
    return Column(name, kind, SPARK_TYPES[kind], nullable, source_type=source_type)


def decimal_column(name: str, precision: int, scale: int, nullable: bool, source_type: str) -> Column:
    """An exact decimal, or text where no engine's decimal holds that many digits.

    A scale beyond the precision (PostgreSQL's numeric(2,5)) lengthens the decimal to its scale, and a negative scale
    (Oracle's NUMBER(20,-2)) to its numbers. Raises UnsupportedType for a precision below 1.
    """
    if precision <= 0:
        raise UnsupportedType(
            f"Column {name} is {source_type}; a decimal has digits", column=name, source_type=source_type
        )
    digits = max(precision - min(scale, 0), scale)
    if digits > MAX_PRECISION:
        return Column(name, DECIMAL_TEXT, SPARK_TYPES[DECIMAL_TEXT], nullable, None, scale, source_type)
    return Column(name, DECIMAL, f"decimal({digits},{max(scale, 0)})", nullable, digits, scale, source_type)


def json_column(
    name: str, nullable: bool, source_type: str, *, fields: tuple[Column, ...] = (), element: Column | None = None
) -> Column:
    """A record of `fields`, or a map from text to `element`, as JSON text."""
    return Column(name, JSON, SPARK_TYPES[JSON], nullable, source_type=source_type, element=element, fields=fields)


def array_column(name: str, element: Column, nullable: bool) -> Column:
    return Column(
        name,
        ARRAY,
        f"array<{element.spark_type}>",
        nullable,
        source_type=f"array of {element.source_type}",
        element=element,
    )


def stored_column(name: str, spark_type: str) -> Column:
    """A nullable column of a stored type (Spark's name), of which nothing else is known."""
    items, digits = _STORED_ARRAY.fullmatch(spark_type), _STORED_DECIMAL.fullmatch(spark_type)
    if items:
        return array_column(name, stored_column(name, items[1]), True)
    if digits:
        return decimal_column(name, int(digits[1]), int(digits[2]), True, spark_type)
    return plain_column(name, _STORED[spark_type], True, spark_type)


_STORED_ARRAY, _STORED_DECIMAL = re.compile(r"array<(.*)>"), re.compile(r"decimal\((\d+),(\d+)\)")
_STORED = {SPARK_TYPES[kind]: kind for kind in (*_PRIMITIVES, DATE, TIMESTAMP_MICROS)}


def holds_records(column: Column) -> bool:
    """Whether the values are records, maps or arrays, or text of JSON."""
    return column.kind in (JSON, ARRAY) or column.source_type.endswith(JSON_TEXT)


def as_raw(column: Column) -> Column:
    """The column as its connector wrote it: numbers and text instead of dates, times and timestamps."""
    if column.kind == ARRAY and column.element is not None:
        return array_column(column.name, as_raw(column.element), column.nullable)
    kind = RAW_KINDS.get(column.kind)
    return column if kind is None else plain_column(column.name, kind, column.nullable, column.source_type)


def row_as_configured(row: RowSchema, raw: tuple[str, ...]) -> RowSchema:
    """The row with the columns in `raw` as their connector wrote them; RAW_ALL names every column."""
    if not raw:
        return row
    return RowSchema(
        tuple(as_raw(column) if RAW_ALL in raw or column.name in raw else column for column in row.columns)
    )


def column_of(name: str, avro_type: Mapping[str, Any], nullable: bool) -> Column:
    """The column of a resolved, non-union Avro type (a mapping with `type`).

    Raises UnsupportedType for a type without a faithful stored form. A number or byte string under an unknown semantic
    name is not stored raw: the column would have to change its type once the name is known. Unknown strings stay
    strings.
    """
    base = avro_type["type"]
    type_name, logical = _text(avro_type.get("connect.name")), _text(avro_type.get("logicalType"))
    source_type = f"{base} {type_name or logical or ''}".strip()
    if base in ("fixed", "bytes") and logical == "decimal" or base == "bytes" and type_name == _CONNECT_DECIMAL:
        return _decimal(name, avro_type, nullable)
    if base in ("array", "record", "map"):
        raise ValueError(f"the caller resolves a {base}, since it knows the named types")
    if base == "enum":
        return plain_column(name, STRING, nullable, source_type)
    if base == "fixed" and not type_name and not logical:
        return plain_column(name, BYTES, nullable, source_type)
    if base in _PRIMITIVES:
        # Under an unknown semantic name a known logical type still defines the value.
        own = base if base == STRING or not (type_name or logical) else None
        kind = SEMANTIC_TYPES.get((base, type_name or "")) or _LOGICAL_TYPES.get((base, logical or "")) or own
        if kind is not None:
            return plain_column(name, kind, nullable, source_type)
    raise UnsupportedType(
        f"Column {name} is {source_type}, which this release can't store", column=name, source_type=source_type
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _decimal(name: str, avro_type: Mapping[str, Any], nullable: bool) -> Column:
    parameters = avro_type.get("connect.parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    # Connect's Decimal has a scale and no precision, and not every converter adds one.
    unnamed = UNNAMED_PRECISION if avro_type.get("connect.name") == _CONNECT_DECIMAL else None
    precision = avro_type.get("precision", parameters.get("connect.decimal.precision", unnamed))
    scale = avro_type.get("scale", parameters.get("scale", 0))
    try:
        digits, places = int(precision), int(scale)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedType(
            f"Column {name} is a decimal without a precision", column=name, source_type="decimal"
        ) from error
    if digits == UNNAMED_PRECISION and "connect.decimal.precision" not in parameters and places < MAX_PRECISION:
        return decimal_column(name, MAX_PRECISION, places, nullable, f"decimal(unnamed,{places})")
    return decimal_column(name, digits, places, nullable, f"decimal({digits},{places})")
