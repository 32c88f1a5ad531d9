"""Which dates and timestamps are real: what a database's infinity arrives as is not."""

from __future__ import annotations

from typing import Dict, Tuple

from sluice import column_types as kinds

# PostgreSQL's driver counts an infinity in milliseconds; Debezium takes the same numbers for microseconds, for the
# milliseconds of a shorter timestamp, or wraps their days into 32 bits (-622191234 was seen for `infinity`, later
# releases send -2147472692). https://jdbc.postgresql.org/documentation/publicapi/org/postgresql/PGStatement.html
_POSITIVE, _NEGATIVE = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
INFINITE_COUNTS = frozenset((_POSITIVE, _NEGATIVE, 2**63 - 1, -(2**63)))

# No database here has an earlier day than 4714-11-24 BC (PostgreSQL, Oracle), or a later one than 5874898-06-03 (PostgreSQL).
# https://www.postgresql.org/docs/15/datatype-datetime.html
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_100_000
_FIRST_MILLIS = _FIRST_DAY * 86_400_000

# Kind -> the lowest and highest count that is a real date or timestamp.
REAL: Dict[str, Tuple[int, int]] = {
    kinds.DATE: (_FIRST_DAY, _LAST_DAY),
    kinds.TIMESTAMP_MILLIS: (_FIRST_MILLIS, _POSITIVE // 1000 - 1),
    kinds.TIMESTAMP_MICROS: (_FIRST_MILLIS * 1000, _POSITIVE - 1),
    kinds.TIMESTAMP_NANOS: (_NEGATIVE + 1, _POSITIVE - 1),
}
