"""The public way to read silver tables: snapshot, as of a moment, changes, differences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sluice_aws.stack import find_target
from sluice_read.diff import RowDifference, differences
from sluice_read.moments import NOW, Span, moment_of, span_of
from sluice_read.place import SilverPlace, tables_in
from sluice_read.reading import Shown, SilverTable, open_table


class Silver:
    """The silver tables of one stack.

    Tables are named `database.table`; of a merge-on-read table `_rt` is the merged state, as is the plain name, and `_ro` its base files alone. A moment is an
    instant (17 digits, as `commits` gives them) or a time with its zone. Readers give Arrow batches, file after file, and are read once; rows come in no order,
    with the columns of the newest commit. Rows that the source deleted are left out, unless `with_deleted`; `lineage` adds `_sluice_*` and `_hoodie_*` columns.
    """

    def __init__(self, place: SilverPlace) -> None:
        self._place = place

    @classmethod
    def of_stack(cls, name: str, region: str | None = None) -> Silver:
        """A deployed stack, by boto3's own credentials. Raises NoTarget."""
        return cls(find_target(name, {**os.environ, **({"AWS_REGION": region} if region else {})}, Path.cwd()))

    @classmethod
    def local(cls, folder: Path | str = ".") -> Silver:
        """The local stack that runs in a folder or above it. Raises NoTarget."""
        return cls(
            find_target(
                None,
                {name: value for name, value in os.environ.items() if name != "SLUICE_STACK"},
                Path(folder).resolve(),
            )
        )

    def tables(self) -> tuple[str, ...]:
        """Every `database.table`, sorted."""
        return tables_in(self._place)

    def schema(self, table: str, *, with_deleted: bool = False, lineage: bool = False) -> pa.Schema:
        """The columns of a table, as readers give them. Raises UnknownTable, Unreadable, NoCommit."""
        return open_table(self._place, table).schema(Shown(with_deleted=with_deleted, lineage=lineage))

    def commits(self, table: str) -> tuple[tuple[str, str], ...]:
        """The instants of the active timeline's commits, oldest first, each with the time that it means in UTC. Raises UnknownTable, NoCommit."""
        return tuple(
            (instant.time, moment_of(instant.time)) for instant in open_table(self._place, table).state.timeline.commits
        )

    def earliest(self, table: str) -> str:
        """The earliest instant as of which a table can be read. Raises UnknownTable, NoCommit."""
        return open_table(self._place, table).state.earliest

    def snapshot(
        self, table: str, *, columns: Sequence[str] | None = None, with_deleted: bool = False, lineage: bool = False
    ) -> pa.RecordBatchReader:
        """The rows as of the newest commit. Raises UnknownTable, UnknownColumn, Unreadable, NoCommit."""
        return self._reader(table, NOW, columns, with_deleted, lineage)

    def as_of(
        self,
        table: str,
        moment: str,
        *,
        columns: Sequence[str] | None = None,
        with_deleted: bool = False,
        lineage: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows as they were at a moment.

        Raises NotRetained before the earliest moment that is kept (`facts["earliest"]`), UnsettledMoment, InvalidMoment, and what `snapshot` does.
        """
        return self._reader(table, span_of(as_of=moment), columns, with_deleted, lineage)

    def changes(
        self,
        table: str,
        *,
        since: str | None = None,
        until: str | None = None,
        columns: Sequence[str] | None = None,
        lineage: bool = False,
    ) -> pa.RecordBatchReader:
        """Rows whose last change until `until` (the newest commit if None) is after `since` (all if None), each once, as that change left it.

        Deleted ones are there, with `__deleted` true. Pass the newest commit of one call as `since` of the next to follow a table. Raises what `as_of` does.
        """
        return self._reader(table, replace(span_of(since=since, until=until), changes=True), columns, True, lineage)

    def differences(
        self, table: str, before: str, after: str | None = None
    ) -> AbstractContextManager[Iterator[RowDifference]]:
        """What differs between two moments (`after` None: the newest commit), readable inside the `with`. Raises what `as_of` does."""
        return differences(
            self._open(table, span_of(as_of=before)), self._open(table, NOW if after is None else span_of(as_of=after))
        )

    def _open(self, table: str, span: Span) -> SilverTable:
        return open_table(self._place, table, span=span)

    def _reader(
        self, table: str, span: Span, columns: Sequence[str] | None, with_deleted: bool, lineage: bool
    ) -> pa.RecordBatchReader:
        return self._open(table, span).reader(_shown(columns, with_deleted, lineage))


def _shown(columns: Sequence[str] | None, with_deleted: bool, lineage: bool) -> Shown:
    return Shown(with_deleted=with_deleted, lineage=lineage, columns=None if columns is None else tuple(columns))
