"""Silver tables as Arrow batches, now, as of a moment or changed since one; merged by hudi-rs: no JVM, and no code shared with the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hudi import HudiReadConfig, HudiReadOptions, HudiTableBuilder

from sluice.changes import hidden_columns
from sluice.hudi import options as hudi_options
from sluice.hudi.timeline import FileSlice
from sluice_read.errors import UnknownColumn, UnknownTable, Unreadable
from sluice_read.moments import NOW, Span
from sluice_read.place import READ_OPTIMIZED, SilverPlace, TableFolder, find_table
from sluice_read.state import TableState, table_state

COMMIT_TIME, RECORD_KEY = "_hoodie_commit_time", "_hoodie_record_key"
BATCH_ROWS = 8_192  # of one batch of an answer
_META_PREFIX = "_hoodie_"
_LINEAGE_PREFIX = "_sluice_"


@dataclass(frozen=True)
class Shown:
    """What of a table's rows and columns a reader sees.

    `columns` are names in the order that they are wanted in, None for all that aren't hidden.
    """

    with_deleted: bool = False
    lineage: bool = False
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class SilverTable:
    """One opened table under the name it was asked for; `view` is "", "_ro" or "_rt", `instant` the commit that is seen."""

    table: str
    view: str
    span: Span
    hudi: Any
    state: TableState
    instant: str

    def schema(self, shown: Shown = Shown()) -> pa.Schema:
        """The columns that a reader sees, in the table's order or the wanted one. They are the newest commit's, whatever the moment. Raises Unreadable, UnknownColumn."""
        # Changes without their deletions would be no changes.
        with_deleted = shown.with_deleted or self.span.changes
        visible = [
            item for item in self.stored_schema if is_shown(item.name, with_deleted=with_deleted, lineage=shown.lineage)
        ]
        if shown.columns is None:
            return pa.schema(visible)
        return pa.schema([self._column(name, visible) for name in shown.columns])

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """All columns that are stored, hidden ones included. Raises Unreadable."""
        return self._guarded(self.hudi.get_schema_with_meta_fields)

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns that the table's key is made of."""
        return hudi_options.record_key_of(self.hudi.hudi_options())

    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices to read, those left out that can't hold a row of the span."""
        slices = self.state.slices(self.instant)
        if self.view == READ_OPTIMIZED:
            slices = tuple(
                FileSlice(item.partition, item.file_id, item.base) for item in slices if item.base is not None
            )
        since = self.span.since
        # A row carries the instant of its own last change, and a file nothing newer than itself. A log file's name tells only its base file's instant.
        return (
            slices
            if since is None
            else tuple(item for item in slices if item.logs or item.base is not None and item.base.instant > since)
        )

    def batches(self, shown: Shown = Shown(), *, slices: Sequence[FileSlice] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the span, as they are read, one file slice after the other; all batches have `schema`. Raises Unreadable.

        Each slice is merged whole, by position, before anything is left out of it, so a change that lost isn't taken for a row's last one.
        """
        schema = self.schema(shown)
        names = list(schema.names)
        stored = set(self.stored_schema.names)
        hide_deleted = hidden_columns.DELETED in stored and not shown.with_deleted and not self.span.changes
        needed = [
            *([hidden_columns.DELETED] if hide_deleted else []),
            *([COMMIT_TIME] if self.span.since is not None else []),
        ]
        options = (
            self._options()
            .with_projection([*names, *(name for name in needed if name not in names)])
            .with_batch_size(BATCH_ROWS)
        )
        reader = self._guarded(lambda: self.hudi.create_file_group_reader_with_options(self._options()))
        for item in self.slices() if slices is None else slices:
            base = item.base.path if item.base is not None else ""
            stream = self._guarded(
                lambda: reader.read_file_slice_from_paths_stream(base, [log.path for log in item.logs], options)
            )
            while (batch := self._guarded(lambda: next(stream, None))) is not None:
                if hide_deleted:
                    batch = batch.filter(pc.invert(pc.fill_null(batch.column(hidden_columns.DELETED), False)))
                if self.span.since is not None:
                    batch = batch.filter(pc.greater(batch.column(COMMIT_TIME), self.span.since))
                if batch.num_rows:
                    yield batch.select(names).cast(schema)

    def reader(self, shown: Shown = Shown(), *, slices: Sequence[FileSlice] | None = None) -> pa.RecordBatchReader:
        """`batches` in the form that Arrow's consumers take; it can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema(shown), self.batches(shown, slices=slices))

    def _options(self) -> HudiReadOptions:
        return HudiReadOptions().with_as_of_timestamp(self.instant)

    def _column(self, name: str, visible: Sequence[pa.Field]) -> pa.Field:
        found = next((item for item in visible if item.name == name), None)
        if found is None:
            names = tuple(item.name for item in visible)
            raise UnknownColumn(
                f"{self.table} shows no column {name!r}",
                table=self.table,
                column=name,
                columns=names,
                next_step=f"Its columns: {', '.join(names[:40])}. _sluice_* and _hoodie_* need --lineage, {hidden_columns.DELETED} needs --with-deleted",
            )
        return found

    def _guarded(self, read: Callable[[], Any]) -> Any:
        return _guarded(self.table, read)


def is_shown(column: str, *, with_deleted: bool, lineage: bool) -> bool:
    """Whether a reader sees a column: `_hoodie_*` and where a row came from on demand only."""
    if column == hidden_columns.DELETED:
        return with_deleted or lineage
    return lineage or not column.startswith((_META_PREFIX, _LINEAGE_PREFIX))


def read_table(
    place: SilverPlace, name: str, *, with_deleted: bool = False, lineage: bool = False, span: Span = NOW
) -> pa.Table:
    """All rows of `database.table` (merge-on-read also `_ro` and `_rt`). Raises what `open_table` does."""
    return open_table(place, name, span=span).reader(Shown(with_deleted=with_deleted, lineage=lineage)).read_all()


def open_table(place: SilverPlace, name: str, *, span: Span = NOW) -> SilverTable:
    """Find a table by the name a reader uses; a table that is really called so wins over a suffix.

    Merge-on-read: the plain name and `_rt` are the merged state, `_ro` the base files alone.
    Raises UnknownTable, Unreadable, NoCommit, NotRetained, UnsettledMoment.
    """
    folder, view = find_table(place, name)
    opened = _guarded(folder.table, _builder(folder, view).build)
    if view and not opened.is_mor:
        raise UnknownTable(
            f"{folder.table} is copy-on-write and has no view {view}", table=name, next_step=f"Ask for {folder.table}"
        )
    version = hudi_options.version_of(opened.hudi_options())
    if version != str(hudi_options.TABLE_VERSION):
        raise Unreadable(
            f"{folder.table} is of Hudi's table version {version or 'none'}, not {hudi_options.TABLE_VERSION}",
            table=folder.table,
            next_step="Read it with Spark",
        )
    state = table_state(folder)
    return SilverTable(
        table=folder.table, view=view, span=span, hudi=opened, state=state, instant=state.newest_until(span.as_of)
    )


def _builder(folder: TableFolder, view: str) -> HudiTableBuilder:
    builder = HudiTableBuilder.from_base_uri(folder.url).with_storage_options(dict(folder.place.storage_options()))
    return (
        builder.with_hudi_option(HudiReadConfig.USE_READ_OPTIMIZED_MODE, "true") if view == READ_OPTIMIZED else builder
    )


def _guarded(table: str, read: Callable[[], Any]) -> Any:
    """Call hudi-rs. Its error class can't be imported, so whatever it raises is taken for its error."""
    try:
        return read()
    except Exception as error:
        raise Unreadable(
            f"{table} could not be read: {error}",
            table=table,
            next_step="If it has no commit yet, `sluice wait`; else `sluice doctor`",
        ) from error
