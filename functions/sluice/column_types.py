"""What a column of a writer schema is stored as: kinds, Spark types, decimals."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from sluice.errors import UnsupportedType

BOOLEAN, INT, LONG, FLOAT, DOUBLE = "boolean", "int", "long", "float", "double"
STRING, BYTES, DECIMAL, DATE, ARRAY = "string", "bytes", "decimal", "date", "array"
TIME_MILLIS, TIME_MICROS, TIME_NANOS = "time_millis", "time_micros", "time_nanos"
TIMESTAMP_MILLIS, TIMESTAMP_MICROS, TIMESTAMP_NANOS = "timestamp_millis", "timestamp_micros", "timestamp_nanos"
ZONED_TIMESTAMP = "zoned_timestamp"

MAX_PRECISION = 38  # Spark's and Parquet's widest decimal

SPARK_TYPES: Dict[str, str] = {
    BOOLEAN: "boolean", INT: "int", LONG: "bigint", FLOAT: "float", DOUBLE: "double",
    STRING: "string", BYTES: "binary", DATE: "date",
    # Spark has no time of day: ISO 8601 text keeps it readable everywhere.
    TIME_MILLIS: "string", TIME_MICROS: "string", TIME_NANOS: "string",
    TIMESTAMP_MILLIS: "timestamp", TIMESTAMP_MICROS: "timestamp", TIMESTAMP_NANOS: "timestamp",
    ZONED_TIMESTAMP: "timestamp",
}

# The semantic types that Debezium and Kafka Connect name on top of an Avro type, and what each is.
# https://debezium.io/documentation/reference/3.5/connectors/postgresql.html#postgresql-temporal-types
_NAMED: Dict[Tuple[str, str], str] = {
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
    ("int", "io.debezium.time.Year"): INT,
}

# Avro's own logical types. https://avro.apache.org/docs/1.12.0/specification/#logical-types
_LOGICAL: Dict[Tuple[str, str], str] = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME_MILLIS,
    ("long", "time-micros"): TIME_MICROS,
    ("long", "timestamp-millis"): TIMESTAMP_MILLIS,
    ("long", "timestamp-micros"): TIMESTAMP_MICROS,
    ("long", "timestamp-nanos"): TIMESTAMP_NANOS,
    ("long", "local-timestamp-millis"): TIMESTAMP_MILLIS,
    ("long", "local-timestamp-micros"): TIMESTAMP_MICROS,
    ("long", "local-timestamp-nanos"): TIMESTAMP_NANOS,
    ("string", "uuid"): STRING,
}

_PRIMITIVES = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, BYTES)


@dataclass(frozen=True)
class Column:
    """One column of a row. `nullable` is what the source says; stored columns are all nullable but the key.

    `element` is the item column of an array. `source_type` tells the writer's own type, for messages.
    """

    name: str
    kind: str
    spark_type: str
    nullable: bool = True
    precision: Optional[int] = None
    scale: Optional[int] = None
    source_type: str = ""
    element: Optional[Column] = None


@dataclass(frozen=True)
class RowSchema:
    """The data columns of a table's rows, in the writer's order; `merge_schemas` makes unions of them."""

    columns: Tuple[Column, ...]

    @property
    def names(self) -> Tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Optional[Column]:
        """The column of that very name."""
        return next((column for column in self.columns if column.name == name), None)


def plain_column(name: str, kind: str, nullable: bool, source_type: str) -> Column:
    """A column whose kind alone decides its Spark type (everything but decimals and arrays)."""
    return Column(name, kind, SPARK_TYPES[kind], nullable, source_type=source_type)


def decimal_column(name: str, precision: int, scale: int, nullable: bool, source_type: str) -> Column:
    """An exact decimal. Raises UnsupportedType where no engine stores that many digits."""
    if not 0 < precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise UnsupportedType(f"Column {name} is {source_type}; decimals hold at most {MAX_PRECISION} digits", column=name, source_type=source_type)
    return Column(name, DECIMAL, f"decimal({precision},{scale})", nullable, precision, scale, source_type)


def array_column(name: str, element: Column, nullable: bool) -> Column:
    """An array of what `element` is."""
    return Column(name, ARRAY, f"array<{element.spark_type}>", nullable, source_type=f"array of {element.source_type}", element=element)


def column_of(name: str, avro_type: Mapping[str, Any], nullable: bool) -> Column:
    """The column of a resolved, non-union Avro type (a mapping with `type`).

    Raises UnsupportedType, naming column and type, for everything that has no faithful stored form:
    a number or byte string under a semantic name that isn't known is not stored by its raw value,
    since the column would have to change type once the name is. Unknown strings stay strings.
    """
    base = avro_type["type"]
    named, logical = _text(avro_type.get("connect.name")), _text(avro_type.get("logicalType"))
    told = f"{base} {named or logical or ''}".strip()
    if base == "fixed" and logical == "decimal" or base == "bytes" and (logical == "decimal" or named == "org.apache.kafka.connect.data.Decimal"):
        return _decimal(name, avro_type, nullable)
    if base == "array":
        raise ValueError("arrays are resolved by the caller, which knows the named types")
    if base == "enum":
        return plain_column(name, STRING, nullable, told)
    if base == "fixed" and not named and not logical:
        return plain_column(name, BYTES, nullable, told)
    if base in _PRIMITIVES:
        kind = _NAMED.get((base, named)) if named else _LOGICAL.get((base, logical)) if logical else base
        if kind is None and base == STRING:
            kind = STRING
        if kind is not None:
            return plain_column(name, kind, nullable, told)
    raise UnsupportedType(f"Column {name} is {told}, which this release can't store", column=name, source_type=told)


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _decimal(name: str, avro_type: Mapping[str, Any], nullable: bool) -> Column:
    parameters = avro_type.get("connect.parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    precision = avro_type.get("precision", parameters.get("connect.decimal.precision"))
    scale = avro_type.get("scale", parameters.get("scale", 0))
    try:
        digits, places = int(precision), int(scale)  # type: ignore[arg-type]  # None is one of the mistakes caught
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedType(f"Column {name} is a decimal without a precision", column=name, source_type="decimal") from error
    return decimal_column(name, digits, places, nullable, f"decimal({digits},{places})")
