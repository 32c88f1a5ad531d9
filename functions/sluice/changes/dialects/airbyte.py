"""Records as Airbyte's S3 destination writes them: the row in a field, or with a rule's `format` beside the metadata.

https://docs.airbyte.com/integrations/destinations/s3, https://docs.airbyte.com/understanding-airbyte/airbyte-metadata-fields
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sluice.changes.dialects.nested import CaptureDialect, Reading, Record, TypedForm, change, nanos, placed, whole
from sluice.changes.hidden_columns import DELETE, SNAPSHOT_READ, UPDATE
from sluice.changes.position import NUMBER_FIELD, STEP_FIELD

_DATA = "_airbyte_data"
_METADATA, _CAPTURED = "_airbyte_", "_ab_cdc_"
_DELETED = f"{_CAPTURED}deleted_at"
_AT = ("_airbyte_extracted_at", "_airbyte_emitted_at")
_MOST_DIGITS, _LSN_DIGITS = 30, 20
_LOGS = {"log_file": ("file", "pos", "row"), "event_serial_no": ("commit_lsn", "change_lsn", "event_serial_no")}


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    """The source's place that a capture writes: MySQL's, SQL Server's, else a number that grows with each change."""
    file, pos = row.get(f"{_CAPTURED}log_file"), _number(row.get(f"{_CAPTURED}log_pos"))
    if isinstance(file, str) and pos is not None:
        return {"file": file, "pos": pos, "row": 0}
    commit, cursor = row.get(f"{_CAPTURED}lsn"), _number(row.get(f"{_CAPTURED}cursor"))
    if isinstance(commit, str) and commit.count(":") == 2:
        # Of a transaction's changes the cursor counts. The serial number doesn't: it is 2 for an update, 1 for others.
        digits = "" if cursor is None else f"{cursor:020x}"
        own = f"{digits[:8]}:{digits[8:16]}:{digits[16:]}" if len(digits) == _LSN_DIGITS else None
        return {"commit_lsn": commit, "change_lsn": own, "event_serial_no": None}
    number = _number(commit)
    return placed(cursor if number is None else number)


def _millis(value: Any) -> int | None:
    """Milliseconds since 1970 of a number of them, or of a point in time in ISO 8601."""
    number, time = whole(value), nanos(value)
    return time // 10**6 if number is None and time is not None else number


def _number(value: Any) -> int | None:
    """A whole number from 0, which Airbyte writes as a double: 24012656.0, or 2.4012656E7."""
    try:
        number = Decimal(str(value)) if isinstance(value, (str, int, float)) else Decimal("NaN")
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > _MOST_DIGITS or number < 0 or number != int(number):
        return None
    return int(number)


def _is_metadata(name: str) -> bool:
    return name.startswith((_METADATA, _CAPTURED))


@dataclass(frozen=True)
class Airbyte(CaptureDialect):
    """The dialect. Columns of Airbyte's own are left out of the row: its metadata, and what its capture adds."""

    name: str = "airbyte"
    shapes: tuple[frozenset[str], ...] = (frozenset((_DATA,)),)

    def typed(self, names: Collection[str]) -> TypedForm | None:
        """The columns beside the metadata."""
        if _DATA in names:
            return None
        named = (place for name, place in _LOGS.items() if f"{_CAPTURED}{name}" in names)
        of_log = next(named, (NUMBER_FIELD, STEP_FIELD))
        return TypedForm(("",), ("ts_ms", *of_log), own=_is_metadata)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record holds a row, also as text; if a rule `named` the dialect, or is one beside metadata."""
        if _DATA not in record:
            return named and any(name.startswith(_METADATA) for name in record)
        data = record[_DATA]
        return isinstance(data, dict) or isinstance(data, str) and data.startswith("{")

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        data = record.get(_DATA, record)
        captured = reading.parse(data) if isinstance(data, str) else data
        row = {name: value for name, value in captured.items() if not _is_metadata(name)}
        time = next((at for name in _AT if (at := _millis(record.get(name))) is not None), None)
        place, of_log = _place(captured), any(name.startswith(_CAPTURED) for name in captured)
        source = {**({} if time is None else {"ts_ms": time}), **(place or placed(0 if of_log else time))}
        if captured.get(_DELETED) is not None:
            return [change(DELETE, row, None, source)]
        # The first sync of a log's source has rows without a place in it: they come before all of its changes.
        return [change(SNAPSHOT_READ if of_log and not place else UPDATE, None, row, source)]


AIRBYTE = Airbyte()
