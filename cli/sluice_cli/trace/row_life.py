"""The life of one row as its table shows it: the versions that time travel still reads, each with its change."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import Row
from sluice.errors import SluiceError
from sluice.hudi.file_slices import FileSlice
from sluice_cli.trace.row_changes import FoundChange, key_text
from sluice_read.moments import Span
from sluice_read.place import SilverPlace
from sluice_read.reading import COMMIT_TIME, Shown, SilverTable, open_table
from sluice_read.values import rows_of

VERSIONS = 100  # of one row: each costs a read of a file slice


@dataclass(frozen=True)
class RowVersion:
    """The row from the commit at `instant` on.

    `values` has the columns that readers see, the key included. `change` is None where the table has no lineage.
    """

    instant: str
    row: Row
    values: Mapping[str, Any] = field(hash=False)
    change: FoundChange | None = None


@dataclass(frozen=True)
class RowLife:
    """The versions of a row, oldest first.

    They are complete from the instant `known_from` on; None: the table shows nothing. `reason` says why it shows no
    more.
    """

    versions: tuple[RowVersion, ...] = ()
    known_from: str | None = None
    reason: str | None = None

    def knows(self, instant: str | None) -> bool:
        """Says whether the table shows the row as of an instant."""
        return instant is not None and self.known_from is not None and instant >= self.known_from

    def knows_before(self, instant: str | None) -> bool:
        """Says whether the table shows the row right before the commit at an instant."""
        return instant is not None and self.known_from is not None and instant > self.known_from

    def at(self, instant: str) -> RowVersion | None:
        """The row as of an instant that `knows` covers; None where the table held nothing of it."""
        return max((item for item in self.versions if item.instant <= instant), key=_instant, default=None)

    def before(self, instant: str) -> RowVersion | None:
        """The row right before the commit at an instant."""
        return max((item for item in self.versions if item.instant < instant), key=_instant, default=None)

    def written(self, instant: str | None) -> RowVersion | None:
        """The version that the commit at an instant wrote; None where it left the row as it was."""
        version = next((item for item in self.versions if item.instant == instant), None)
        earlier = self.before(instant) if version is not None and instant is not None else None
        # A commit that rewrites the whole table, for a wider column, writes each row at the position that it had.
        return None if version and earlier and version.row == earlier.row else version


UNKNOWN = RowLife()


def row_life(
    place: SilverPlace,
    table: str,
    key: Sequence[str],
    instants: Iterable[str],
    *,
    purged: bool,
    tick: Callable[[str], None],
) -> RowLife:
    """Read a row's versions from its table, the newest first, each as of the last commit before the version after it.

    `key` has the text of every column of the record key. `instants` are the commits of the table's batches. `purged`
    says that table services remove deleted rows, so that an absent row may have been there before. `tick` gets each
    instant before it is read. Where the table can't be read, the life ends, and its `reason` says why.
    """
    commits = sorted(set(instants))
    versions: list[RowVersion] = []
    known_from = None
    earlier = len(commits)
    try:
        if commits:
            opened = open_table(place, table, span=Span(as_of=commits[-1]))
            reader = _RowReader(opened, key)
        while earlier:
            moment = commits[earlier - 1]
            tick(moment)
            version = reader.as_of(moment)
            if version is None:
                return RowLife(tuple(reversed(versions)), moment if purged else opened.listing.earliest)
            versions.append(version)
            known_from = version.instant
            if len(versions) == VERSIONS:
                return RowLife(tuple(reversed(versions)), known_from, f"only its newest {VERSIONS} versions are read")
            earlier = bisect_left(commits, version.instant)
    except SluiceError as error:
        return RowLife(tuple(reversed(versions)), known_from, error.message)
    return RowLife(tuple(reversed(versions)), known_from)


class _RowReader:
    """Reads one row of an open table as of several instants, first in the file group that held it last."""

    def __init__(self, opened: SilverTable, key: Sequence[str]) -> None:
        self._opened = opened
        self._key = key
        self._file_id = ""

    def as_of(self, moment: str) -> RowVersion | None:
        """Raises NotRetained, UnsettledMoment, Unreadable."""
        seen = replace(self._opened, instant=self._opened.listing.newest_until(moment))
        record_key = seen.record_key
        for item in sorted(seen.slices(), key=lambda item: item.file_id != self._file_id):
            if item.file_id == self._file_id or self._holds(seen, item, record_key):
                for batch in seen.batches(Shown(with_deleted=True, lineage=True), slices=[item]):
                    found = batch.filter(_mask(batch, record_key, self._key))
                    if found.num_rows:
                        self._file_id = item.file_id
                        return _version(seen, found)
        return None

    def _holds(self, seen: SilverTable, item: FileSlice, record_key: tuple[str, ...]) -> bool:
        """Reads the columns of the key alone."""
        shown = Shown(with_deleted=True, lineage=True, columns=record_key)
        return any(pc.any(_mask(batch, record_key, self._key)).as_py() for batch in seen.batches(shown, slices=[item]))


def _instant(version: RowVersion) -> str:
    return version.instant


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


def _version(seen: SilverTable, found: pa.RecordBatch) -> RowVersion:
    return next(row_versions(seen, found))


def row_versions(seen: SilverTable, batch: pa.RecordBatch) -> Iterator[RowVersion]:
    """The rows of a batch that was read with all columns."""
    names = seen.schema(Shown()).names
    for values_of_row in rows_of(batch):
        stored = dict(zip(batch.schema.names, values_of_row, strict=True))
        shown = {name: stored[name] for name in names}
        values = {name: value for name, value in shown.items() if name not in seen.record_key}
        owed = json.loads(stored.get(hidden.OWED) or "{}")
        deleted = bool(stored.get(hidden.DELETED))
        row = Row(stored[hidden.POSITION], deleted, {} if deleted else values, owed)
        yield RowVersion(stored[COMMIT_TIME], row, shown, _change(stored, row))


def _change(stored: Mapping[str, Any], row: Row) -> FoundChange | None:
    """The change that the row is, by its lineage columns."""
    named, offset = stored.get(hidden.OBJECT), stored.get(hidden.OFFSET)
    if named is None or offset is None:
        return None
    path, _, version = named.rpartition("?versionId=")
    return FoundChange(
        key=path.partition("/")[2],
        version=version,
        offset=offset,
        partition=stored.get(hidden.PARTITION),
        position=row.position,
        op=stored.get(hidden.OP),
        deleted=row.deleted,
        source_ts_ms=stored.get(hidden.SOURCE_TS_MS),
        values={name: value for name, value in row.values.items() if name not in row.owed},
        unchanged=frozenset(row.owed),
    )
