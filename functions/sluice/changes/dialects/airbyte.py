"""Records as Airbyte's S3 destination writes them: the row in a field, or with a rule's `format` beside the metadata.

https://docs.airbyte.com/integrations/destinations/s3, https://docs.airbyte.com/understanding-airbyte/airbyte-metadata-fields
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import Reading, Record, TypedForm, change, placed, whole
from sluice.changes.hidden_columns import DELETE, UPDATE
from sluice.changes.position import NUMBER_FIELD, STEP_FIELD

_DATA = "_airbyte_data"
_METADATA, _CAPTURED = "_airbyte_", "_ab_cdc_"
_DELETED = f"{_CAPTURED}deleted_at"
_AT = ("_airbyte_extracted_at", "_airbyte_emitted_at")


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    """The source's place that a capture writes: MySQL's, else a number that grows with each change."""
    file, pos = row.get(f"{_CAPTURED}log_file"), _number(row.get(f"{_CAPTURED}log_pos"))
    if isinstance(file, str) and pos is not None:
        return {"file": file, "pos": pos, "row": 0}
    commit, serial = row.get(f"{_CAPTURED}lsn"), _number(row.get(f"{_CAPTURED}event_serial_no"))
    if isinstance(commit, str) and commit.count(":") == 2:
        return {"commit_lsn": commit, "change_lsn": None, "event_serial_no": serial}
    number = _number(commit)
    return placed(_number(row.get(f"{_CAPTURED}cursor")) if number is None else number)


def _number(value: Any) -> int | None:
    """A whole number, which Airbyte writes with a fraction of zero."""
    text = str(value) if isinstance(value, (str, float)) else value
    return whole(text[:-2] if isinstance(text, str) and text.endswith(".0") else text)


def _is_metadata(name: str) -> bool:
    return name.startswith((_METADATA, _CAPTURED))


@dataclass(frozen=True)
class Airbyte:
    """The dialect. Columns of Airbyte's own are left out of the row: its metadata, and what its capture adds."""

    name: str = "airbyte"
    shapes: tuple[frozenset[str], ...] = (frozenset((_DATA,)),)

    def typed(self, names: Collection[str]) -> TypedForm | None:
        """The columns beside the metadata."""
        if _DATA in names:
            return None
        has_place = not {f"{_CAPTURED}lsn", f"{_CAPTURED}cursor"}.isdisjoint(names)
        of_log = ("file", "pos", "row") if f"{_CAPTURED}log_file" in names else (NUMBER_FIELD, STEP_FIELD)
        return TypedForm(("",), ("ts_ms", *(of_log if has_place else ())), own=_is_metadata)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record holds a row, also as text; if a rule `named` the dialect, or is one beside metadata."""
        if _DATA not in record:
            return named and any(name.startswith(_METADATA) for name in record)
        data = record[_DATA]
        return isinstance(data, dict) or isinstance(data, str) and data.startswith("{")

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The change."""
        data = record.get(_DATA, record)
        captured = reading.parse(data) if isinstance(data, str) else data
        row = {name: value for name, value in captured.items() if not _is_metadata(name)}
        time = next((at for name in _AT if (at := whole(record.get(name))) is not None), None)
        source = {**({} if time is None else {"ts_ms": time}), **_place(captured)}
        if captured.get(_DELETED) is not None:
            return [change(DELETE, row, None, source)]
        return [change(UPDATE, None, row, source)]


AIRBYTE = Airbyte()
