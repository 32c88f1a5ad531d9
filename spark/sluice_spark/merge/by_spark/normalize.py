"""Converts raw columns, as they were decoded, to the values and types that the table stores."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Callable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns
from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.temporal import REAL_RANGES
from sluice_formats.records import ReaderPlan
from sluice_spark.merge.by_spark.working_columns import INEXACT
from sluice_spark.merge.plan import stored_type


def normalized(raw: DataFrame, *, plan: ReaderPlan, target: StructType) -> DataFrame:
    """The raw columns under the table's names, types and order; a column that the batch lacks is null.

    Keeps UNCHANGED and adds INEXACT, which counts infinite dates and timestamps (stored as null, since any date would
    be wrong) and those with digits below a microsecond (cut).
    """
    written: dict[str, Column] = {column.name: column for column in plan.columns}
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
    inexact = [_inexact(quoted(column.name), column) for column in plan.columns if _may_be_inexact(column)]
    return raw.select(
        *chosen, quoted(hidden_columns.UNCHANGED), (reduce(add, inexact) if inexact else F.lit(0)).alias(INEXACT)
    )


def meaning(raw: SparkColumn, column: Column) -> SparkColumn:
    """The stored value of a raw one, by Spark's built-ins. Times are UTC; digits below a microsecond are cut."""
    element = _item(column)
    if element is not None:
        return F.transform(raw, lambda item: meaning(item, element)) if _has_meaning(element) else raw
    built_in = _BUILT_INS.get(column.kind)
    if built_in is None:
        return raw
    return (
        F.when(raw.between(*REAL_RANGES[column.kind]), built_in(raw)) if column.kind in REAL_RANGES else built_in(raw)
    )


def quoted(name: str) -> SparkColumn:
    """A column by its exact name, which may hold dots or backticks."""
    return F.col("`" + name.replace("`", "``") + "`")


def _has_meaning(column: Column) -> bool:
    element = _item(column)
    return column.kind in _BUILT_INS or element is not None and _has_meaning(element)


def _item(column: Column) -> Column | None:
    """The item column of an array. A map has one too, but is text by now."""
    return column.element if column.kind == kinds.ARRAY else None


def _may_be_inexact(column: Column) -> bool:
    """True for columns whose values may have no exact stored form: counts beyond any date, text that is none."""
    element = _item(column)
    return column.kind in REAL_RANGES or column.kind in _PARSED or element is not None and _may_be_inexact(element)


def _inexact(raw: SparkColumn, column: Column) -> SparkColumn:
    """How many values of one row's column `meaning` sets to null or cuts."""
    element = _item(column)
    if element is not None:
        zero = F.lit(0)
        return F.coalesce(F.aggregate(raw, zero, lambda so_far, item: so_far + _inexact(item, element)), zero)
    lost = ~raw.between(*REAL_RANGES[column.kind]) if column.kind in REAL_RANGES else meaning(raw, column).isNull()
    if column.kind == kinds.TIMESTAMP_NANOS:
        lost = lost | (F.pmod(raw, F.lit(1_000)) != 0)
    elif column.kind == kinds.ZONED_TIMESTAMP:
        lost = lost | F.when(F.length(raw) > _TO_THE_MICROSECOND, raw.rlike(_BELOW_A_MICROSECOND)).otherwise(False)
    return F.when(raw.isNotNull() & lost, 1).otherwise(0)


def _time_of_day(micros: SparkColumn) -> SparkColumn:
    """A time as text. PostgreSQL's 24:00 and MySQL's times below zero or above a day need the slower expression."""
    usual = F.date_format(F.timestamp_micros(micros), "HH:mm:ss.SSSSSS")
    return F.when(micros.between(0, _DAY_MICROS - 1), usual).otherwise(_long_time(micros, 1_000_000, 6))


def _nanos_of_day(nanos: SparkColumn) -> SparkColumn:
    fraction = F.lpad(F.pmod(nanos, F.lit(1_000_000_000)).cast("string"), 9, "0")
    usual = F.concat(F.date_format(F.timestamp_seconds(_whole(nanos, 1_000_000_000)), "HH:mm:ss."), fraction)
    return F.when(nanos.between(0, _DAY_MICROS * 1000 - 1), usual).otherwise(_long_time(nanos, 1_000_000_000, 9))


def _long_time(count: SparkColumn, unit: int, digits: int) -> SparkColumn:
    """The same text as `sluice.schema.temporal.time_text` gives; null for null."""
    size = F.abs(count)
    seconds = _whole(size, unit)
    text = F.format_string(
        f"%s%02d:%02d:%02d.%0{digits}d",
        F.when(count < 0, "-").otherwise(""),
        _whole(seconds, 3600),
        F.pmod(_whole(seconds, 60), F.lit(60)),
        F.pmod(seconds, F.lit(60)),
        F.pmod(size, F.lit(unit)),
    )
    return F.when(count.isNotNull(), text)


def _whole(count: SparkColumn, unit: int) -> SparkColumn:
    """A count in whole units, rounded down. In 64-bit integers: a double lacks the digits."""
    return F.call_function("div", count - F.pmod(count, F.lit(unit)), F.lit(unit))


_DAY_MICROS = 86_400_000_000

_ZONE = r"(Z|[+-]\d\d:\d\d)$"  # Debezium's IsoDate ends with one
_INFINITE_DATE = r"^[+-]\d{7}"  # Spark's cast takes years of seven digits, in which Debezium writes an infinity
_TO_THE_MICROSECOND = len("2021-12-31T18:29:59.123456Z")  # only longer text can have more digits
_BELOW_A_MICROSECOND = r"\.\d{6}\d*[1-9]"
_PARSED = frozenset((kinds.ZONED_TIMESTAMP, kinds.ISO_DATE))  # text whose infinities have no form as a date

_BUILT_INS: dict[str, Callable[[SparkColumn], SparkColumn]] = {
    kinds.DATE: F.date_from_unix_date,
    kinds.TIME_MILLIS: lambda raw: _time_of_day(raw * F.lit(1000)),
    kinds.TIME_MICROS: _time_of_day,
    kinds.TIME_NANOS: _nanos_of_day,
    kinds.TIMESTAMP_MILLIS: F.timestamp_millis,
    kinds.TIMESTAMP_MICROS: F.timestamp_micros,
    kinds.TIMESTAMP_NANOS: lambda raw: F.timestamp_micros(_whole(raw, 1_000)),
    kinds.ZONED_TIMESTAMP: lambda raw: raw.cast("timestamp"),
    kinds.ISO_DATE: lambda raw: F.when(~raw.rlike(_INFINITE_DATE), F.regexp_replace(raw, _ZONE, "").cast("date")),
}
