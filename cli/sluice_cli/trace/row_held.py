"""What a table really held of one row after a commit, by reading the table as it was then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import Row
from sluice.errors import SluiceError
from sluice_cli.trace.row_changes import key_text
from sluice_read.moments import Span
from sluice_read.place import SilverPlace
from sluice_read.reading import Shown, SilverTable, open_table
from sluice_read.values import rows_of


@dataclass(frozen=True)
class Held:
    """One read. `row` has the table's columns, None where it holds none (`found` false) or could not be read (`reason`)."""

    found: bool = False
    position: str | None = None
    deleted: bool = False
    row: Mapping[str, Any] | None = None
    reason: str | None = None

    def agrees(self, described: Row | None) -> bool | None:
        """Whether the table held the change that its objects say it did; None when it could not be read. A deleted row may have been purged."""
        if self.reason is not None:
            return None
        if described is None or described.deleted and not self.found:
            return not self.found
        return self.found and self.position == described.position and self.deleted == described.deleted


def held_at(place: SilverPlace, table: str, key: Sequence[str], instant: str) -> Held:
    """Read the table as of an instant, until the row is found. A table that can't be read so any more is a reason, no error."""
    try:
        opened = open_table(place, table, span=Span(as_of=instant))
        for batch in opened.batches(Shown(with_deleted=True, lineage=True)):
            found = batch.filter(_mask(batch, opened.record_key, key))
            if found.num_rows:
                return _held(opened, found)
    except SluiceError as error:
        return Held(reason=error.message)
    return Held()


def _mask(batch: pa.RecordBatch, record_key: Sequence[str], key: Sequence[str]) -> pa.Array:
    return reduce(
        pc.and_,
        [pc.fill_null(_equal(batch.column(name), text), False) for name, text in zip(record_key, key, strict=True)],
    )


def _equal(values: pa.Array, text: str) -> pa.Array:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.equal(values, text)
    if pa.types.is_integer(values.type):
        try:
            return pc.equal(values, pa.scalar(int(text), values.type))
        except (ValueError, OverflowError, pa.ArrowInvalid):
            return pa.array([False] * len(values))
    return pa.array([key_text(row[0]) == text for row in rows_of(pa.RecordBatch.from_arrays([values], names=["key"]))])


def _held(opened: SilverTable, found: pa.RecordBatch) -> Held:
    described = dict(zip(found.schema.names, next(rows_of(found)), strict=True))
    shown = set(opened.schema(Shown()).names)
    return Held(
        True,
        described.get(hidden.POSITION),
        bool(described.get(hidden.DELETED)),
        {name: value for name, value in described.items() if name in shown},
    )
