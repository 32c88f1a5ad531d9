"""What raw columns mean, by Spark: dates, times and timestamps, the ones that no type holds among them."""
from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sluice.column_types import Column, RowSchema, array_column, as_raw, json_column, plain_column
from sluice.hidden_columns import UNCHANGED
from sluice_spark.normalizing import UNHELD, normalized
from sluice_spark.raw_columns import spark_type
from sluice_spark.reader_plan import data_type
from sluice_spark.task_plan import ReaderPlan

LATE, EARLY = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000


def plain(name: str, kind: str) -> Column:
    return plain_column(name, kind, True, kind)


COLUMNS = RowSchema((
    plain("day", "date"), plain("ms", "timestamp_millis"), plain("us", "timestamp_micros"), plain("ns", "timestamp_nanos"), plain("zoned", "zoned_timestamp"), plain("iso", "iso_date"),
    plain("t", "time_micros"), plain("tn", "time_nanos"), array_column("days", plain("days", "date"), True), json_column("m", True, "map", element=plain("value", "date")),
)).columns
ROWS = [
    (0, -1, -62_135_596_800_000_000, 1_000, "2021-12-31T18:29:59.123456Z", "1999-12-31Z", 0, 86_399_999_999_999, [0, None], '{"a":"1970-01-01"}'),
    (-622_191_234, LATE, EARLY, 1_999, "infinity", "-infinity", 86_400_000_000, -1, [-622_191_234, 1, -2_147_472_692], None),
    (2_147_483_647, EARLY, LATE, -1, "2021-12-31T18:29:59.123456700Z", "+292278994-08-17Z", -3_020_399_000_001, 0, None, None),
    (None,) * 10,
]


def meant(spark: Any, columns: tuple[Column, ...], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    raw = spark.createDataFrame(rows, ", ".join(f"{column.name} {spark_type(column)}" for column in columns))
    target = StructType([StructField(column.name, data_type(column.spark_type)) for column in columns])
    plan = ReaderPlan("b", "db.t", ("day",), 0, columns)
    found = normalized(raw.withColumn(UNCHANGED, F.lit(None)), plan=plan, target=target).drop(UNCHANGED)
    as_text = [f"cast({name} as string) {name}" for name in found.columns if name not in ("days", UNHELD)]  # Python's own types end at year 9999
    return [tuple(row) for row in found.selectExpr(*as_text, "days", UNHELD).collect()]


def test_what_a_date_or_timestamp_does_not_hold_is_null_or_cut_and_counted(spark: Any) -> None:
    first, infinite, more, empty = meant(spark, COLUMNS, ROWS)
    assert first == ("1970-01-01", "1969-12-31 23:59:59.999", "0001-01-01 00:00:00", "1970-01-01 00:00:00.000001", "2021-12-31 18:29:59.123456", "1999-12-31", "00:00:00.000000",
                     "23:59:59.999999999", '{"a":"1970-01-01"}', [dt.date(1970, 1, 1), None], 0)
    assert infinite == (None, None, None, "1970-01-01 00:00:00.000001", None, None, "24:00:00.000000", "-00:00:00.000000001", None, [None, dt.date(1970, 1, 2), None], 8)
    assert more == (None, None, None, "1969-12-31 23:59:59.999999", "2021-12-31 18:29:59.123456", None, "-838:59:59.000001", "00:00:00.000000000", None, None, 6)
    assert empty == (None,) * 10 + (0,)


def test_raw_columns_are_what_came(spark: Any) -> None:
    columns = tuple(as_raw(column) for column in COLUMNS)
    second = meant(spark, columns, ROWS)[1]
    assert second == ("-622191234", str(LATE), str(EARLY), "1999", "infinity", "-infinity", "86400000000", "-1", None, [-622_191_234, 1, -2_147_472_692], 0)
