"""Converts raw columns, as they were decoded, to the values and types that the table stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Callable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns
from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.meaning import CLOCK, DAY, MEANINGS, MOMENT, NANOS, Meaning
from sluice.schema.temporal import BELOW_A_MICROSECOND
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
    of_kind = MEANINGS[column.kind]
    if of_kind.form is None:
        return raw
    stored = _BUILT_INS[of_kind.form](raw, of_kind)
    return F.when(raw.between(*of_kind.real), stored) if of_kind.real else stored


def quoted(name: str) -> SparkColumn:
    """A column by its exact name, which may hold dots or backticks."""
    return F.col("`" + name.replace("`", "``") + "`")


def table_columns(
    target: StructType, present: Collection[str], own: Mapping[str, SparkColumn] = MappingProxyType({})
) -> list[SparkColumn]:
    """A table's columns in their types: as in `own`, else those of a frame that has the `present` ones, else null."""
    chosen = {**{name: quoted(name) for name in present}, **own}
    return [chosen.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in target.fields]


def _has_meaning(column: Column) -> bool:
    element = _item(column)
    return MEANINGS[column.kind].form is not None if element is None else _has_meaning(element)


def _item(column: Column) -> Column | None:
    """The item column of an array. A map has one too, but is text by now."""
    return column.element if column.kind == kinds.ARRAY else None


def _may_be_inexact(column: Column) -> bool:
    """True for columns whose values may have no exact stored form: counts beyond any date, text that is none."""
    element = _item(column)
    of_kind = MEANINGS[column.kind]
    return of_kind.real is not None or of_kind.is_parsed if element is None else _may_be_inexact(element)


def _inexact(raw: SparkColumn, column: Column) -> SparkColumn:
    """How many values of one row's column `meaning` sets to null or cuts."""
    element = _item(column)
    if element is not None:
        zero = F.lit(0)
        return F.coalesce(F.aggregate(raw, zero, lambda so_far, item: so_far + _inexact(item, element)), zero)
    of_kind = MEANINGS[column.kind]
    lost = ~raw.between(*of_kind.real) if of_kind.real else meaning(raw, column).isNull()
    if of_kind.is_cut:
        lost = lost | (F.pmod(raw, F.lit(1_000)) != 0)
    elif of_kind.is_parsed and of_kind.form == MOMENT:
        lost = lost | F.when(F.length(raw) > _TO_THE_MICROSECOND, raw.rlike(BELOW_A_MICROSECOND)).otherwise(False)
    return F.when(raw.isNotNull() & lost, 1).otherwise(0)


def _day(raw: SparkColumn, of_kind: Meaning) -> SparkColumn:
    if of_kind.nanos:
        return F.date_from_unix_date(raw)
    return F.when(~raw.rlike(_INFINITE_DATE), F.regexp_replace(raw, _ZONE, "").cast("date"))


def _moment(raw: SparkColumn, of_kind: Meaning) -> SparkColumn:
    return F.timestamp_micros(_micros(raw, of_kind.nanos)) if of_kind.nanos else raw.cast("timestamp")


def _clock(raw: SparkColumn, of_kind: Meaning) -> SparkColumn:
    """A time as text. PostgreSQL's 24:00 and MySQL's times below zero or above a day need the slower expression."""
    nanos = of_kind.nanos or 1
    usual = F.date_format(F.timestamp_micros(_micros(raw, nanos)), "HH:mm:ss.SSSSSS")
    if nanos == 1:
        usual = F.concat(usual, F.lpad(F.pmod(raw, F.lit(1_000)).cast("string"), 3, "0"))
    return F.when(raw.between(0, _DAY_NANOS // nanos - 1), usual).otherwise(_long_time(raw, nanos))


def _long_time(count: SparkColumn, nanos: int) -> SparkColumn:
    """The same text as `sluice.schema.meaning.time_text` gives; null for null."""
    size, unit, digits = F.abs(count), 10**9 // nanos, 9 if nanos == 1 else 6
    seconds = _whole(size, unit)
    text = F.format_string(
        f"%s%02d:%02d:%02d.%0{digits}d",
        F.when(count < 0, "-").otherwise(""),
        _whole(seconds, 3600),
        F.pmod(_whole(seconds, 60), F.lit(60)),
        F.pmod(seconds, F.lit(60)),
        F.pmod(size, F.lit(unit)) * F.lit(10**digits // unit),
    )
    return F.when(count.isNotNull(), text)


def _micros(count: SparkColumn, nanos: int) -> SparkColumn:
    """A count of steps of so many nanoseconds in microseconds, rounded down."""
    return _whole(count, 1_000 // nanos) if nanos < 1_000 else count * F.lit(nanos // 1_000) if nanos > 1_000 else count


def _whole(count: SparkColumn, unit: int) -> SparkColumn:
    """A count in whole units, rounded down. In 64-bit integers: a double lacks the digits."""
    return F.call_function("div", count - F.pmod(count, F.lit(unit)), F.lit(unit))


_DAY_NANOS = NANOS[kinds.DATE]
_ZONE = r"(Z|[+-]\d\d:\d\d)$"  # Debezium's IsoDate ends with one
_INFINITE_DATE = r"^[+-]\d{7}"  # Spark's cast takes years of seven digits, in which Debezium writes an infinity
_TO_THE_MICROSECOND = len("2021-12-31T18:29:59.123456Z")  # only longer text can have more digits

_BUILT_INS: dict[str, Callable[[SparkColumn, Meaning], SparkColumn]] = {DAY: _day, MOMENT: _moment, CLOCK: _clock}
