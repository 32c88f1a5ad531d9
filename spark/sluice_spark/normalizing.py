"""Gives raw columns their meaning: from what Avro decodes to, to the types that the table stores."""
from __future__ import annotations

from typing import Callable, Dict

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice import column_types as kinds
from sluice.column_types import Column
from sluice_spark.reader_plan import ReaderPlan, stored_type


def normalized(raw: DataFrame, *, plan: ReaderPlan, target: StructType) -> DataFrame:
    """The raw columns as the table's: its names, types and order; a column that the batch lacks is null."""
    written: Dict[str, Column] = {column.name: column for column in plan.columns}
    present = set(raw.columns)
    chosen = []
    for field in target.fields:
        if field.name in written:
            column = written[field.name]
            value = meaning(quoted(field.name), column)
            if stored_type(column) != field.dataType:
                value = value.cast(field.dataType)
        elif field.name in present:
            value = quoted(field.name)
        else:
            value = F.lit(None).cast(field.dataType)
        chosen.append(value.alias(field.name))
    return raw.select(*chosen)


def meaning(raw: SparkColumn, column: Column) -> SparkColumn:
    """The stored value of a raw one, by Spark's built-ins. Times are UTC; what is below a microsecond is cut."""
    if column.element is not None:
        element = column.element
        return F.transform(raw, lambda item: meaning(item, element)) if _has_meaning(element) else raw
    built_in = _BUILT_INS.get(column.kind)
    return raw if built_in is None else built_in(raw)


def quoted(name: str) -> SparkColumn:
    """A column by its exact name, which may hold dots or backticks."""
    return F.col("`" + name.replace("`", "``") + "`")


def _has_meaning(column: Column) -> bool:
    return column.kind in _BUILT_INS or column.element is not None and _has_meaning(column.element)


def _time_of_day(micros: SparkColumn) -> SparkColumn:
    return F.date_format(F.timestamp_micros(micros), "HH:mm:ss.SSSSSS")


def _nanos_of_day(nanos: SparkColumn) -> SparkColumn:
    fraction = F.lpad(F.pmod(nanos, F.lit(1_000_000_000)).cast("string"), 9, "0")
    return F.concat(F.date_format(F.timestamp_seconds(_whole(nanos, 1_000_000_000)), "HH:mm:ss."), fraction)


def _whole(count: SparkColumn, unit: int) -> SparkColumn:
    """Whole units below a count, also before 1970; in 64-bit integers, since a double has not the digits."""
    return F.call_function("div", count - F.pmod(count, F.lit(unit)), F.lit(unit))


_BUILT_INS: Dict[str, Callable[[SparkColumn], SparkColumn]] = {
    kinds.DATE: F.date_from_unix_date,
    kinds.TIME_MILLIS: lambda raw: _time_of_day(raw * F.lit(1000)),
    kinds.TIME_MICROS: _time_of_day,
    kinds.TIME_NANOS: _nanos_of_day,
    kinds.TIMESTAMP_MILLIS: F.timestamp_millis,
    kinds.TIMESTAMP_MICROS: F.timestamp_micros,
    kinds.TIMESTAMP_NANOS: lambda raw: F.timestamp_micros(_whole(raw, 1_000)),
    kinds.ZONED_TIMESTAMP: lambda raw: raw.cast("timestamp"),
}
