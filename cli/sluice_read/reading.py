"""Silver tables as Arrow batches: now, as of a moment, or the rows changed since one.

hudi-rs merges base and log files, so reading needs no JVM and shares no code with the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hudi import HudiReadConfig, HudiReadOptions, HudiTableBuilder

from sluice.changes import hidden_columns
from sluice.hudi import table_properties
from sluice.hudi.file_slices import FileSlice
from sluice.names import did_you_mean
from sluice_aws.clock import epoch_ms
from sluice_read.errors import InvalidMoment, UnknownColumn, UnknownTable, Unreadable
from sluice_read.listing import TableListing, readable_listing
from sluice_read.moments import NOW, Span, instant_of, refuse_future
from sluice_read.place import READ_OPTIMIZED, SilverPlace, TableFolder, find_table, refuse_lost_properties

COMMIT_TIME, RECORD_KEY = "_hoodie_commit_time", "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
BATCH_ROWS = 8_192  # of one batch of an answer
_META_PREFIX = "_hoodie_"
_LINEAGE_PREFIX = "_sluice_"
_NO_AVRO_NAME = "Invalid field name"  # hudi-rs, of a column whose name Avro doesn't allow


@dataclass(frozen=True)
class Shown:
    """The rows and columns that a reader sees.

    `columns` gives names and their order; None: all that aren't hidden.
    """

    with_deleted: bool = False
    lineage: bool = False
    columns: tuple[str, ...] | None = None


ALL = Shown()


@dataclass(frozen=True)
class SilverTable:
    """An open table. `view` is "", "_ro" or "_rt"; `instant` is the commit that readers see."""

    table: str
    view: str
    span: Span
    hudi: Any
    listing: TableListing
    instant: str

    def schema(self, shown: Shown = ALL) -> pa.Schema:
        """The columns that a reader sees: those of the newest commit, whatever the moment.

        Raises Unreadable, UnknownColumn.
        """
        # Changes without deletions would be incomplete.
        with_deleted = shown.with_deleted or self.span.changes
        visible = [
            item for item in self.stored_schema if is_shown(item.name, with_deleted=with_deleted, lineage=shown.lineage)
        ]
        return self.chosen(visible, shown.columns)

    def chosen(self, visible: Sequence[pa.Field], columns: Sequence[str] | None) -> pa.Schema:
        """These of the columns that a reader sees, in this order; None: all. Raises UnknownColumn."""
        return pa.schema(visible if columns is None else [self._column(name, visible) for name in columns])

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """All stored columns, hidden ones included. Raises Unreadable."""
        return self._guarded(self.hudi.get_schema_with_meta_fields)

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns of the table's key, in order."""
        return table_properties.record_key_of(self.hudi.hudi_options())

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The columns of the table's partition path."""
        return table_properties.partition_fields_of(self.hudi.hudi_options())

    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that can hold rows of the span."""
        slices = self.listing.slices(self.instant)
        if self.view == READ_OPTIMIZED:
            slices = tuple(
                FileSlice(item.partition, item.file_id, item.base) for item in slices if item.base is not None
            )
        since = self.span.since
        # A row carries the instant of its own last change, and a file nothing newer than itself. The name of a log file
        # has only the instant of its base file.
        return (
            slices
            if since is None
            else tuple(item for item in slices if item.logs or item.base is not None and item.base.instant > since)
        )

    def batches(self, shown: Shown = ALL, *, slices: Sequence[FileSlice] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of the span, one file slice after the other; all batches have `schema`. Raises Unreadable.

        Each slice is merged as a whole before rows are left out, so a change that lost is never shown as the last one.
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
            for batch in self._merged(reader, item, options):
                if hide_deleted:
                    batch = batch.filter(pc.invert(pc.fill_null(batch.column(hidden_columns.DELETED), False)))
                if self.span.since is not None:
                    batch = batch.filter(pc.greater(batch.column(COMMIT_TIME), self.span.since))
                if batch.num_rows:
                    yield batch.select(names).cast(schema)

    def reader(self, shown: Shown = ALL, *, slices: Sequence[FileSlice] | None = None) -> pa.RecordBatchReader:
        """`batches` as an Arrow reader, which can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema(shown), self.batches(shown, slices=slices))

    def _merged(self, reader: Any, item: FileSlice, options: HudiReadOptions) -> Iterator[pa.RecordBatch]:
        """Merge the base file and the logs of one slice. Raises Unreadable."""
        base = item.base.path if item.base is not None else ""
        logs = [log.path for log in item.logs]
        try:
            stream = self._guarded(lambda: reader.read_file_slice_from_paths_stream(base, logs, options))
            while (batch := self._guarded(lambda: next(stream, None))) is not None:
                yield batch
        except Unreadable as error:
            kinds = {field.name: field.type for field in self.stored_schema if pa.types.is_list(field.type)}
            lists = [name for name, kind in kinds.items() if pa.types.is_timestamp(kind.value_type)]
            if not (logs and lists):
                raise
            raise self._unmerged(lists) from error

    def _unmerged(self, columns: Sequence[str]) -> Unreadable:
        return Unreadable(
            f"{self.table} has changes in an Avro log that hudi-rs can't merge into a list of timestamps "
            f"({', '.join(columns)})",
            table=self.table,
            columns=tuple(columns),
            next_step=f"`sluice ops services run {self.table} --service compaction`; until then read {self.table}_ro, "
            "or the whole table with Spark",
        )

    def _options(self) -> HudiReadOptions:
        return HudiReadOptions().with_as_of_timestamp(self.instant)

    def _column(self, name: str, visible: Sequence[pa.Field]) -> pa.Field:
        column = next((item for item in visible if item.name == name), None)
        if column is None:
            names = tuple(item.name for item in visible)
            raise UnknownColumn(
                f"{self.table} shows no column {name!r}{did_you_mean(name, names)}",
                table=self.table,
                column=name,
                columns=names,
                next_step=f"Its columns: {', '.join(names[:40])}. "
                f"`lineage` shows _sluice_* and _hoodie_*, `with_deleted` shows {hidden_columns.DELETED}",
            )
        return column

    def _guarded(self, read: Callable[[], Any]) -> Any:
        return _guarded(self.table, read)


def first_rows(reader: pa.RecordBatchReader, count: int | None) -> pa.RecordBatchReader:
    """The first rows of a reader, whose batches behind them are not read. None: all rows."""
    if count is None:
        return reader

    def batches(left: int) -> Iterator[pa.RecordBatch]:
        while left and (batch := next(reader, None)) is not None:
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)

    return pa.RecordBatchReader.from_batches(reader.schema, batches(count))


def is_shown(column: str, *, with_deleted: bool, lineage: bool) -> bool:
    """Says whether a reader sees a column; `_hoodie_*` and `_sluice_*` need `lineage`."""
    if column == hidden_columns.DELETED:
        return with_deleted or lineage
    return lineage or not column.startswith((_META_PREFIX, _LINEAGE_PREFIX))


def read_table(
    place: SilverPlace, name: str, *, with_deleted: bool = False, lineage: bool = False, span: Span = NOW
) -> pa.Table:
    """Read all rows of `database.table` (merge-on-read also `_ro` and `_rt`). Raises what `open_table` does."""
    return open_table(place, name, span=span).reader(Shown(with_deleted=with_deleted, lineage=lineage)).read_all()


def open_table(place: SilverPlace, name: str, *, span: Span = NOW) -> SilverTable:
    """Open a table by the name that readers use; a table of exactly this name wins over a suffix.

    Merge-on-read: the plain name and `_rt` are the merged state, `_ro` the base files alone.
    A span that begins or ends in the future is refused; the table's newest commit never counts as that, even where its
    writer's clock is ahead. Raises UnknownTable, Unreadable, NoCommit, NotRetained, UnsettledMoment, InvalidMoment,
    FilesMissing.
    """
    folder, view = find_table(place, name)
    try:
        opened = _guarded(folder.table, _builder(folder, view).build)
    except Unreadable:
        refuse_lost_properties(folder)
        raise
    if view and not opened.is_mor:
        raise UnknownTable(
            f"{folder.table} is copy-on-write and has no view {view}", table=name, next_step=f"Ask for {folder.table}"
        )
    if view == READ_OPTIMIZED and span.since is not None:
        # Compaction brings a change into a base file with the instant that it had in the log: a follower who has seen
        # a later commit would never get it.
        raise InvalidMoment(
            f"{folder.table}{view} can't say what changed since {span.since}: its rows are those of base files, which "
            "changes enter later than they are committed",
            given=span.since,
            next_step=f"Ask {folder.table}, the merged state, for changes",
        )
    version = table_properties.version_of(opened.hudi_options())
    if version != str(table_properties.TABLE_VERSION):
        raise Unreadable(
            f"{folder.table} has Hudi's table version {version or 'none'}, not {table_properties.TABLE_VERSION}",
            table=folder.table,
            next_step="Read it with Spark",
        )
    listing, instant = readable_listing(folder, span.as_of)
    latest = max(instant_of(epoch_ms()), listing.newest_until(None))
    for given in (span.since, span.as_of):
        if given is not None:
            refuse_future(given, latest)
    return SilverTable(table=folder.table, view=view, span=span, hudi=opened, listing=listing, instant=instant)


def _builder(folder: TableFolder, view: str) -> HudiTableBuilder:
    builder = HudiTableBuilder.from_base_uri(folder.url).with_storage_options(dict(folder.place.storage_options()))
    if view != READ_OPTIMIZED:
        return builder
    return builder.with_hudi_option(HudiReadConfig.USE_READ_OPTIMIZED_MODE, "true")  # type: ignore[attr-defined]


def _guarded(table: str, read: Callable[[], Any]) -> Any:
    """Call hudi-rs. Its error class can't be imported, so every exception counts as its error. Raises Unreadable."""
    try:
        return read()
    except Exception as error:
        next_step = "If it has no commit yet, `sluice wait`; else `sluice doctor`"
        if _NO_AVRO_NAME in str(error):
            next_step = f"Read it with Spark; `sluice rebuild table {table}` stores the column under another name"
        raise Unreadable(f"{table} could not be read: {error}", table=table, next_step=next_step) from error
