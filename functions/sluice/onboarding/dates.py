"""Columns of untyped objects that look like dates and times: by their name and the size of their numbers, or as text.

Nothing is taken for certain: what looks so is proposed for the rule's `types`, and somebody decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.onboarding.samples import TopicSample
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import DOUBLE, FLOAT, INT, LONG, STRING

_NAMED = re.compile(
    r"date|time|(?:^|_)(?:day|at|ts|on|since|until|created|updated|modified)(?:_|$)|[a-z]At$|_?ts$", re.I
)
_DAY_NAMED = re.compile(r"date|(?:^|_)day(?:_|$)", re.I)
# Numbers by the type that counts so since 1970: days of 1980 to 2100, and instants of 1980 to 2200 in each unit.
_DAYS = range(3_652, 47_482)
_SECOND = 315_532_800, 7_258_118_400
_UNITS = {"timestamp_millis": 10**3, "timestamp_micros": 10**6, "timestamp_nanos": 10**9}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ZONED = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?")


def likely_types(sample: TopicSample, writer: WriterSchema) -> Mapping[str, str]:
    """Return the types, as `types` of a rule names them, of the columns that look like dates or times.

    Every value that the sample has of such a column fits. Objects that bring types of their own have no such columns.
    """
    if not sample.inferred:
        return {}
    types = {}
    for column in writer.row.columns:
        if column.kind in (INT, LONG, FLOAT, DOUBLE, STRING):
            values = [row.values[column.name] for row in sample.rows if row.values.get(column.name) not in (None, "")]
            likely = _likely_type(column.name, values)
            if likely is not None:
                types[column.name] = likely
    return types


def _likely_type(name: str, values: Sequence[Any]) -> str | None:
    if not values:
        return None
    if all(isinstance(value, str) for value in values):
        if all(map(_DATE.fullmatch, values)):
            return "date"
        return "zoned_timestamp" if all(map(_ZONED.fullmatch, values)) else None
    if not _NAMED.search(name) or not all(type(value) is int for value in values):
        return None
    if _DAY_NAMED.search(name) and all(value in _DAYS for value in values):
        return "date"
    first, last = _SECOND
    return next(
        (unit for unit, per_s in _UNITS.items() if all(first * per_s <= value <= last * per_s for value in values)),
        None,
    )
