"""The fields of a table's partition path: columns of the row, and columns that Sluice makes of one by a transform.

A transform's column is stored in the table beside the source's own: `day(ordered_at)` is the column `ordered_at_day`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from sluice.names import COLUMN

YEAR, MONTH, DAY, HOUR, BUCKET = "year", "month", "day", "hour", "bucket"
MOST_BUCKETS = 10_000
_TIMES = (YEAR, MONTH, DAY, HOUR)
_OF_TIME = re.compile(rf"({'|'.join(_TIMES)})\(\s*([^()\s,]+)\s*\)")
_OF_KEY = re.compile(rf"{BUCKET}\(\s*([1-9][0-9]{{0,4}})\s*\)")
TRANSFORMS = ", ".join(f"{name}(column)" for name in _TIMES) + f" or {BUCKET}(number)"


@dataclass(frozen=True)
class PartitionField:
    """One field of the path: `column` is the table's column that holds its values.

    `transform` makes them of the column `source`, and `bucket` of the record key: there are `buckets` of them. Without
    a transform the column is the source's own.
    """

    column: str
    source: str | None
    transform: str | None = None
    buckets: int = 0


@lru_cache(maxsize=1024)
def partition_field(written: str) -> PartitionField:
    """The field that a rule writes as a column or a transform. Raises ValueError, as a `Value` does."""
    of_time, of_key = _OF_TIME.fullmatch(written), _OF_KEY.fullmatch(written)
    if of_time is not None:
        return PartitionField(f"{of_time[2]}_{of_time[1]}", of_time[2], of_time[1])
    if of_key is not None and int(of_key[1]) <= MOST_BUCKETS:
        return PartitionField(f"key_{BUCKET}", None, BUCKET, int(of_key[1]))
    if "(" in written or ")" in written:
        most = f", and at most {MOST_BUCKETS:,} buckets"
        raise ValueError(f"is a column, {TRANSFORMS}{most if of_key else ''}, and not {written!r}")
    return PartitionField(written, written)


def columns_read(partition_by: Iterable[str]) -> tuple[str, ...]:
    """The source's columns that the fields are made of; buckets are made of the record key."""
    return tuple(field.source for field in map(partition_field, partition_by) if field.source is not None)


def impossible_column(written: str) -> str | None:
    """The name of a field's column, or of the one that it is made of, if no column can have it; else None."""
    try:
        field = partition_field(written)
    except ValueError:
        return written
    return next((name for name in (field.source, field.column) if name and not COLUMN.fullmatch(name)), None)
