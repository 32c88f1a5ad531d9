"""Dates and times that come as records of their calendar and clock components, as the ISO 8601 text of the same."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from sluice import column_types as kinds
from sluice.value_text import Unrepresentable

# Debezium's `time.precision.mode=structured`, from 3.7 on: what each record is, by its semantic name. A StructuredDuration stays a record.
# https://github.com/debezium/debezium, io/debezium/time/StructuredTemporal.java and those beside it
STRUCTURED: Dict[str, str] = {
    "io.debezium.time.StructuredDate": kinds.ISO_DATE,
    "io.debezium.time.StructuredTimestamp": kinds.ZONED_TIMESTAMP,
    "io.debezium.time.StructuredZonedTimestamp": kinds.ZONED_TIMESTAMP,
    "io.debezium.time.StructuredTime": kinds.STRING,
    "io.debezium.time.StructuredZonedTime": kinds.STRING,
}
_INFINITIES = {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}


def structured_text(value: Mapping[str, Any]) -> str:
    """A date, a time of day or both, by which components the record has; UTC where it names no zone.

    Raises Unrepresentable for a record that lacks a component, and for a zone that isn't whole minutes from UTC.
    """
    special = value.get("specialValue")
    try:
        if special is not None:
            return _INFINITIES[special]
        day = _day(value) if "year" in value else ""
        clock = _clock(value) if "hour" in value else ""
        return f"{day}{'T' if day and clock else ''}{clock}{_zone(value.get('offsetSeconds') or 0) if day or 'offsetSeconds' in value else ''}"
    except (KeyError, TypeError, ValueError) as error:
        raise Unrepresentable(f"the components {str(dict(value))[:200]}") from error


def _day(value: Mapping[str, Any]) -> str:
    year = value["year"]
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    return f"{sign}{abs(year):04d}-{value['month']:02d}-{value['day']:02d}"


def _clock(value: Mapping[str, Any]) -> str:
    micros, below = divmod(value.get("nanos") or 0, 1_000)
    return (
        f"{value['hour']:02d}:{value['minute']:02d}:{value['second']:02d}.{micros:06d}{f'{below:03d}' if below else ''}"
    )


def _zone(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    if rest:
        raise ValueError("not whole minutes")
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else "Z"
