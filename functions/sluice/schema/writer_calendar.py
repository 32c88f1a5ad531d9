"""Dates and timestamps of writers that used the hybrid calendar: Julian before 1582-10-15, Gregorian from then on.

Spark 2, Spark with a legacy rebase mode, and Hive wrote so, and say it in their files' metadata. Their counts before
that day are rebased: the day keeps its name. https://issues.apache.org/jira/browse/SPARK-31404
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable

from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.meaning import NANOS
from sluice.schema.temporal import NoTime, days_of_civil

# Keys of a file's metadata that tell its writer's calendar.
SPARK_VERSION, SPARK_ZONE = b"org.apache.spark.version", b"org.apache.spark.timeZone"
SPARK_DATETIME, SPARK_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
HIVE_DATE, HIVE_AVRO, HIVE_ZONE = b"writer.date.proleptic", b"writer.proleptic", b"writer.time.zone"
CALENDAR_KEYS = frozenset((SPARK_VERSION, SPARK_ZONE, SPARK_DATETIME, SPARK_INT96, HIVE_DATE, HIVE_AVRO, HIVE_ZONE))

_FIRST_GREGORIAN_DAY = -141_427  # 1582-10-15
_JULIAN_FROM_YEAR_0 = 719_470  # days from the Julian calendar's March 1 of year 0 to 1970-01-01
_UTC = re.compile(rb"(Etc/)?(UTC|UCT|GMT|Zulu|Universal)([+-]0{1,2}(:?00)?)?|Z|[+-]00:00")
_FIRST_RULED_DAY = -25_567  # 1900-01-01: before it, Java's old and new classes give most zones different offsets


@dataclass(frozen=True)
class WriterCalendar:
    """Which values of a file are of the hybrid calendar. `in_utc`: whether its writer's zone was UTC, or isn't said."""

    dates: bool = False
    timestamps: bool = False
    int96: bool = False
    in_utc: bool = True

    def __bool__(self) -> bool:
        return self.dates or self.timestamps or self.int96

    def of_int96(self) -> WriterCalendar:
        """The calendar of a column whose timestamps are of Parquet's type INT96."""
        return replace(self, timestamps=self.int96)

    def day(self, day: int) -> int:
        """A count of days since 1970-01-01, in the proleptic Gregorian calendar."""
        return proleptic_day(day) if self.dates and day < _FIRST_GREGORIAN_DAY else day

    def moment(self, count: int, kind: str) -> int:
        """A timestamp's count of a kind's units. Raises NoTime where it depends on the writer's zone."""
        a_day = NANOS[kinds.DATE] // NANOS[kind]
        day, rest = divmod(count, a_day)
        if not self.timestamps or day >= _FIRST_RULED_DAY:
            return count
        if not self.in_utc:
            raise NoTime("a timestamp before 1900 by the legacy calendar of a time zone other than UTC")
        return proleptic_day(day) * a_day + rest if day < _FIRST_GREGORIAN_DAY else count


PROLEPTIC = WriterCalendar()


def writer_calendar(metadata: Mapping[bytes, bytes]) -> WriterCalendar:
    """The calendar that a file's metadata tells. Without any, dates are proleptic, as both formats define them."""
    version = metadata.get(SPARK_VERSION)
    if version is not None:
        dates = version < b"3.0.0" or SPARK_DATETIME in metadata
        int96 = version < b"3.1.0" or SPARK_INT96 in metadata
        return WriterCalendar(dates, dates, int96, _is_utc(metadata.get(SPARK_ZONE)))
    hybrid = metadata.get(HIVE_AVRO) == b"false"
    dates = hybrid or metadata.get(HIVE_DATE) == b"false"
    return WriterCalendar(dates, hybrid, hybrid, _is_utc(metadata.get(HIVE_ZONE)))


def _is_utc(zone: bytes | None) -> bool:
    return zone is None or _UTC.fullmatch(zone) is not None


def proleptic_day(day: int) -> int:
    """The day of the same name in the proleptic Gregorian calendar, of a Julian day counted from 1970-01-01.

    February 29 of a year that is no leap year there becomes March 1.
    """
    cycle, of_cycle = divmod(day + _JULIAN_FROM_YEAR_0, 1_461)
    year = min(of_cycle // 365, 3)
    of_year = of_cycle - 365 * year
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    shifted_date = (4 * cycle + year + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1)
    return days_of_civil(shifted_date[0], month, 1) + shifted_date[2] - 1


def rebaser(column: Column, calendar: WriterCalendar) -> Callable[[Any], Any] | None:
    """What rebases a column's raw values that aren't null; None where the column holds no date and no timestamp."""
    kind = column.kind
    if kind == kinds.DATE:
        return calendar.day if calendar.dates else None
    if kind in kinds.TIMESTAMP_KINDS and "local-" not in column.source_type:  # Spark rebases none without a zone
        return (lambda value: calendar.moment(value, kind)) if calendar.timestamps else None
    if column.element is not None:
        inner = rebaser(column.element, calendar)
        if inner is None:
            return None
        if kind == kinds.ARRAY:
            return lambda value: [None if item is None else inner(item) for item in value]
        return lambda value: {name: None if item is None else inner(item) for name, item in value.items()}
    members = [(field.written_name, made) for field in column.fields if (made := rebaser(field, calendar)) is not None]
    if not members:
        return None

    def of_record(value: Any) -> Any:
        for name, made in members:
            if value.get(name) is not None:
                value[name] = made(value[name])
        return value

    return of_record
