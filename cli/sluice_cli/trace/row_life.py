"""The life of one row as its table shows it: the versions that time travel still reads, each with its change."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.forgotten import hashed_text, key_hash, marks
from sluice.changes.row_history import Row
from sluice.errors import SluiceError, UsageError
from sluice.hudi.file_slices import FileSlice
from sluice.hudi.own_metadata import FORGOTTEN_KEY, FORGOTTEN_PROPERTY, forgotten_counts
from sluice.hudi.table_properties import record_key_of
from sluice_cli.terminal.known_names import check_key
from sluice_cli.trace.row_changes import FoundChange, equal_number, key_text
from sluice_read.errors import NotRetained
from sluice_read.moments import NOW, Span, moment_of, ms_of
from sluice_read.past_states import PastStates, open_as_of
from sluice_read.place import SilverPlace, find_table, history_folder
from sluice_read.reading import COMMIT_TIME, Shown, SilverTable, open_table
from sluice_read.sql import load_past, opened_duckdb
from sluice_read.values import rows_of

VERSIONS = 100  # of one row: each costs a read of a file slice
CHANGES = 10_000  # of one row in a history table: of a row with more, objects are opened


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
class ForgottenRow:
    """A row that was forgotten: its changes until the position `until` stay out of the table.

    `instant` is the commit that removed it; None where that is archived.
    """

    until: str
    instant: str | None

    @property
    def at(self) -> int | None:
        """When it was removed (epoch ms)."""
        return None if self.instant is None else ms_of(self.instant)


@dataclass(frozen=True)
class RowLife:
    """The versions of a row, oldest first.

    They are complete from the instant `known_from` on; None: the table shows nothing. `reason` says why it shows no
    more. `changes` are all that the history table, `history`, has of the row; None where the table has none.
    `forgotten` is set of a row that was forgotten.
    """

    versions: tuple[RowVersion, ...] = ()
    known_from: str | None = None
    reason: str | None = None
    changes: tuple[FoundChange, ...] | None = None
    history: str | None = None
    forgotten: ForgottenRow | None = None

    def knows(self, instant: str | None) -> bool:
        """Says whether the table shows the row as of an instant."""
        return instant is not None and self.known_from is not None and instant >= self.known_from

    def knows_before(self, instant: str | None) -> bool:
        """Says whether the table shows the row right before the commit at an instant."""
        return instant is not None and self.known_from is not None and instant > self.known_from

    def at(self, instant: str) -> RowVersion | None:
        """The row as of an instant that `knows` covers; None where the table held nothing of it."""
        return max((item for item in self.versions if item.instant <= instant), key=attrgetter("instant"), default=None)

    def before(self, instant: str) -> RowVersion | None:
        """The row right before the commit at an instant."""
        return max((item for item in self.versions if item.instant < instant), key=attrgetter("instant"), default=None)

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
            opened = open_from(place, table, commits[-1])
            reader = _RowReader(opened, key)
            commits[-1] = max(commits[-1], opened.instant)
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
    except NotRetained as error:
        first = str(error.facts["earliest"])
        return RowLife(tuple(reversed(versions)), known_from, f"its files begin with {first} ({moment_of(first)})")
    except SluiceError as error:
        return RowLife(tuple(reversed(versions)), known_from, error.message)
    return RowLife(tuple(reversed(versions)), known_from)


def open_from(place: SilverPlace, table: str, instant: str) -> SilverTable:
    """Open a table as of an instant, or as of the earliest one that forgetting a row has left.

    Raises what `open_table` does.
    """
    try:
        return open_table(place, table, span=Span(as_of=instant))
    except NotRetained as refused:
        return open_table(place, table, span=Span(as_of=str(refused.facts["earliest"])))


def forgotten_row(place: SilverPlace, table: str, key: Sequence[str]) -> ForgottenRow | None:
    """The mark of a forgotten row, and the commit that removed it; None where the table has no such mark.

    Raises what `open_table` does where the table has any mark.
    """
    folder, _ = find_table(place, table)
    noted = marks(folder.properties().get(FORGOTTEN_PROPERTY))
    if not noted:
        return None
    opened = open_table(place, table, span=NOW)
    hash = stored_key_hash(opened, key)
    if hash not in noted:
        return None
    for instant in reversed(opened.listing.timeline.commits):
        if forgotten_counts(opened.listing.commit(instant).extra.get(FORGOTTEN_KEY), hash) is not None:
            return ForgottenRow(noted[hash], instant.time)
    return ForgottenRow(noted[hash], None)


def with_forgetting(life: RowLife, place: SilverPlace, table: str, key: Sequence[str]) -> RowLife:
    """The life with the mark of the row, if it was forgotten; the same where the table can't be read."""
    try:
        return replace(life, forgotten=forgotten_row(place, table, key))
    except SluiceError:
        return life


def stored_changes(place: SilverPlace, table: str, key: Sequence[str]) -> tuple[int, int]:
    """How many rows the table has of a key, deleted ones included, and how many changes its history table.

    Raises what `open_table` does.
    """
    rows = _RowReader(open_table(place, table, span=NOW), key).count()
    folder = history_folder(place, table)
    return rows, 0 if folder is None else _RowReader(open_table(place, folder.table, span=NOW), key).count()


def stored_key_hash(opened: SilverTable, key: Sequence[Any]) -> str:
    """The hash by which a row is forgotten. `key` has JSON values, or texts, in the order of the record key."""
    types = [opened.stored_schema.field(name).type for name in opened.record_key]
    texts = [hashed_text(key_text(value), _spark_type(kind)) for value, kind in zip(key, types, strict=True)]
    return key_hash(opened.table, texts)


def _spark_type(kind: pa.DataType) -> str:
    """Spark's name of a type, where the form of a key's text depends on it."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "timestamp" if pa.types.is_timestamp(kind) else ""


def with_history(life: RowLife, place: SilverPlace, table: str, key: Sequence[str]) -> RowLife:
    """The life with the changes that the table's history table has; the same where that can't be read."""
    try:
        folder = history_folder(place, table)
        if folder is None:
            return life
        opened = open_table(place, folder.table, span=NOW)
        versions = (
            version
            for batch in _RowReader(opened, key).batches(Shown(with_deleted=True, lineage=True))
            for version in row_versions(opened, batch)
        )
        changes = tuple(islice((version.change for version in versions if version.change is not None), CHANGES + 1))
    except SluiceError:
        return life
    return life if len(changes) > CHANGES else replace(life, changes=changes, history=opened.table)


def row_as_of(place: SilverPlace, table: str, key: Sequence[str], instant: str) -> tuple[dict[str, Any], str]:
    """Read a row as of an instant, from its table or, before that one's files begin, from the history table.

    Returns its JSON form, whose `row` is None where there was none, and where it is from. Raises what `open_table`
    does, and UsageError for a key of another length and for a history table.
    """
    refuse_history_table(place, table)
    opened = open_as_of(place, table, span=Span(as_of=instant))
    values: Mapping[str, Any] | None
    if isinstance(opened, PastStates):
        from_history, names, note = True, opened.now.record_key, opened.note
        values = _past_values(opened, key)
    else:
        from_history, names, instant = False, opened.record_key, opened.instant
        note = f"{opened.table} as of {instant} ({moment_of(instant)})"
        version = _RowReader(opened, key).as_of(instant)
        values = None if version is None or version.row.deleted else version.values
    named_key = dict(zip(names, key, strict=True))
    return {"table": table, "key": named_key, "as_of": instant, "from_history": from_history, "row": values}, note


def refuse_history_table(place: SilverPlace, table: str) -> None:
    """Raise UsageError for a history table, which has many rows of a key. Raises what `find_table` does."""
    folder, _ = find_table(place, table)
    if hidden.POSITION in record_key_of(folder.properties()):
        raise UsageError(
            f"{table} is a history table: it has a row for every change of a key",
            next_step="Ask for the row of the table whose history it is",
        )


def _past_values(past: PastStates, key: Sequence[str]) -> dict[str, Any] | None:
    """The values of one row as of a moment, by the changes of this row alone. Raises NotRetained."""

    def read(table: SilverTable, shown: Shown) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(table.schema(shown), _RowReader(table, key).batches(shown))

    with opened_duckdb() as connection:
        load_past(connection, past, "changes", "now", read)
        reader = connection.sql(past.select("changes")).to_arrow_reader()
        rows = [dict(zip(reader.schema.names, row, strict=True)) for batch in reader for row in rows_of(batch)]
    return rows[0] if rows else None


class _RowReader:
    """Reads one row of an open table as of several instants, first in the file group that held it last.

    Of a history table it reads every change of the row.
    """

    def __init__(self, opened: SilverTable, key: Sequence[str]) -> None:
        self._opened = opened
        self._record_key = tuple(name for name in opened.record_key if name != hidden.POSITION)
        self._key = key
        self._file_id = ""
        check_key(opened.table, self._record_key, key)

    def batches(self, shown: Shown) -> Iterator[pa.RecordBatch]:
        """The row's batches, of file slices that hold it; `shown` has the columns of the key. Raises Unreadable."""
        for item in self._opened.slices():
            if self._holds(self._opened, item):
                for batch in self._opened.batches(shown, slices=[item]):
                    yield batch.filter(_mask(batch, self._record_key, self._key))

    def as_of(self, moment: str) -> RowVersion | None:
        """Raises NotRetained, UnsettledMoment, Unreadable."""
        seen = replace(self._opened, instant=self._opened.listing.newest_until(moment))
        for item in sorted(seen.slices(), key=lambda item: item.file_id != self._file_id):
            if item.file_id == self._file_id or self._holds(seen, item):
                for batch in seen.batches(Shown(with_deleted=True, lineage=True), slices=[item]):
                    rows = batch.filter(_mask(batch, self._record_key, self._key))
                    if rows.num_rows:
                        self._file_id = item.file_id
                        return next(row_versions(seen, rows))
        return None

    def count(self) -> int:
        """How many rows have the key. Raises Unreadable."""
        shown = Shown(with_deleted=True, lineage=True, columns=self._record_key)
        batches = self._opened.batches(shown)
        return sum(pc.sum(_mask(batch, self._record_key, self._key)).as_py() or 0 for batch in batches)

    def _holds(self, seen: SilverTable, item: FileSlice) -> bool:
        """Reads the columns of the key alone."""
        shown = Shown(with_deleted=True, lineage=True, columns=self._record_key)
        batches = seen.batches(shown, slices=[item])
        return any(pc.any(_mask(batch, self._record_key, self._key)).as_py() for batch in batches)


def _mask(batch: pa.RecordBatch, record_key: Sequence[str], key: Sequence[str]) -> pa.Array:
    return reduce(
        pc.and_,
        [pc.fill_null(_equal(batch.column(name), text), False) for name, text in zip(record_key, key, strict=True)],
    )


def _equal(values: pa.Array, text: str) -> pa.Array:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.equal(values, text)
    if pa.types.is_integer(values.type):
        return equal_number(values, text)
    kind = _spark_type(values.type)
    wanted = hashed_text(text, kind)  # of the forms that mean the same
    rows = rows_of(pa.RecordBatch.from_arrays([values], names=["key"]))
    return pa.array([hashed_text(key_text(row[0]), kind) == wanted for row in rows])


def row_versions(seen: SilverTable, batch: pa.RecordBatch) -> Iterator[RowVersion]:
    """The rows of a batch that was read with all columns."""
    names = seen.schema(Shown()).names
    for values_of_row in rows_of(batch):
        stored = dict(zip(batch.schema.names, values_of_row, strict=True))
        shown = {name: stored[name] for name in names}
        values = {name: value for name, value in shown.items() if name not in seen.record_key}
        owed = json.loads(stored.get(hidden.OWED) or "{}")
        deleted = bool(stored.get(hidden.DELETED))
        row = Row(stored[hidden.POSITION], deleted, {} if deleted else values, owed, stored.get(hidden.SOURCE))
        yield RowVersion(stored[COMMIT_TIME], row, shown, _change(stored, row))


def _change(stored: Mapping[str, Any], row: Row) -> FoundChange | None:
    """The change that the row is, by its lineage columns."""
    object_name, offset = stored.get(hidden.OBJECT), stored.get(hidden.OFFSET)
    if object_name is None or offset is None:
        return None
    path, _, version = object_name.rpartition("?versionId=")
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
        source=row.source,
    )
