"""Examples of what raw values mean: kind of column, raw value, what `sluice query --json` shows of it, its text.

The text is that of hashes and masks. `lost` marks what a table stores as null, or cut below a microsecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.schema import columns as kinds
from sluice.schema.columns import Column, plain_column

LATE, EARLY = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000


@dataclass(frozen=True)
class Example:
    """A raw value, the stored one in its JSON form, and its text."""

    kind: str
    raw: Any
    stored: Any
    text: str
    lost: bool = False

    @property
    def column(self) -> Column:
        """A column of the kind."""
        return plain_column("c", self.kind, True, self.kind)


EXAMPLES = [
    Example(*example)
    for example in (
        (kinds.BOOLEAN, True, True, "true"),
        (kinds.INT, -7, -7, "-7"),
        (kinds.LONG, 2**63 - 1, 2**63 - 1, "9223372036854775807"),
        (kinds.DURATION_MICROS, -1, -1, "-1"),
        (kinds.DOUBLE, 0.1, 0.1, "0.1"),
        (kinds.STRING, "ž\n", "ž\n", "ž\n"),
        (kinds.BYTES, b"\0\xff", "AP8=", "AP8="),
        (kinds.DATE, 0, "1970-01-01", "1970-01-01"),
        (kinds.DATE, -719_834, "-0001-03-01", "-0001-03-01"),
        (kinds.DATE, 2_932_897, "10000-01-01", "10000-01-01"),
        (kinds.DATE, -622_191_234, None, "-1701532-04-05", True),
        (kinds.DATE, 2**31 - 1, None, "5881580-07-11", True),
        (kinds.ISO_DATE, "2021-03-01", "2021-03-01", "2021-03-01"),
        (kinds.ISO_DATE, "1999-12-31Z", "1999-12-31", "1999-12-31Z"),
        (kinds.ISO_DATE, "2021-03-01+02:00", "2021-03-01", "2021-03-01+02:00"),
        (kinds.ISO_DATE, "2023-02-30", None, "2023-02-30", True),
        (kinds.ISO_DATE, "-infinity", None, "-infinity", True),
        (kinds.ISO_DATE, "+292278994-08-17Z", None, "+292278994-08-17Z", True),
        (kinds.TIME_MILLIS, 45_296_789, "12:34:56.789000", "12:34:56.789000"),
        (kinds.TIME_MICROS, 86_400_000_000, "24:00:00.000000", "24:00:00.000000"),
        (kinds.TIME_MICROS, -3_020_399_000_001, "-838:59:59.000001", "-838:59:59.000001"),
        (kinds.TIME_NANOS, 86_399_999_999_999, "23:59:59.999999999", "23:59:59.999999999"),
        (kinds.TIME_NANOS, -1, "-00:00:00.000000001", "-00:00:00.000000001"),
        (kinds.TIMESTAMP_MILLIS, -1, "1969-12-31T23:59:59.999000Z", "1969-12-31T23:59:59.999000Z"),
        (kinds.TIMESTAMP_MILLIS, 253_402_300_800_000, "10000-01-01T00:00:00.000000Z", "+10000-01-01T00:00:00.000000Z"),
        (kinds.TIMESTAMP_MILLIS, LATE, None, "infinity", True),
        (kinds.TIMESTAMP_MICROS, -62_135_596_800_000_000, *["0001-01-01T00:00:00.000000Z"] * 2),
        (kinds.TIMESTAMP_MICROS, EARLY, None, "-infinity", True),
        (kinds.TIMESTAMP_NANOS, 1_000, *["1970-01-01T00:00:00.000001Z"] * 2),
        (kinds.TIMESTAMP_NANOS, 1_999, "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000001999Z", True),
        (kinds.TIMESTAMP_NANOS, -1, "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999999Z", True),
        (kinds.TIMESTAMP_NANOS, 2**63 - 1, None, "infinity", True),
        *(
            (kinds.ZONED_TIMESTAMP, raw, stored, raw, lost)
            for raw, stored, lost in (
                ("2008-10-29T18:59:59.99906Z", "2008-10-29T18:59:59.999060Z", False),
                ("2021-12-31T18:29:59.123456700Z", "2021-12-31T18:29:59.123456Z", True),
                ("2008-10-29T01:30:00+02:00", "2008-10-28T23:30:00.000000Z", False),
                ("2008-12-31T23:30:00.5-01:30", "2009-01-01T01:00:00.500000Z", False),
                ("+10000-01-01T00:00:00Z", "10000-01-01T00:00:00.000000Z", False),
                ("2023-02-29T00:00:00Z", None, True),
                ("2023-11-15T00:13:20-18:01", None, True),
                ("+294276-12-31T23:59:59.999999Z", None, True),
                ("infinity", None, True),
            )
        ),
    )
]
