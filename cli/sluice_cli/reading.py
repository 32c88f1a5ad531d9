"""Silver tables as Arrow batches, read by hudi-rs: no JVM, and no code shared with the writer."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from hudi import HudiReadConfig, HudiReadOptions, HudiTableBuilder

from sluice import hidden_columns
from sluice.table_config import COLUMN
from sluice_cli.failures import CommandFailed, UsageError

READ_OPTIMIZED, REAL_TIME, PLAIN = "_ro", "_rt", ""
_PROPERTIES = ".hoodie/hoodie.properties"  # Hudi's mark of a table, written when it is created
_META_PREFIX = "_hoodie_"
_LINEAGE_PREFIX = "_sluice_"


class SilverPlace(Protocol):
    """Where silver tables are and how to get at them; `Target` is one."""

    @property
    def silver_url(self) -> str:
        """`s3://bucket`, or `file:///folder`."""

    def storage_options(self) -> Mapping[str, str]:
        """The object store's settings: endpoint, region, credentials."""

    def client(self, service: str) -> Any:
        """A boto3 client; only asked for where `silver_url` is S3's."""


class UnknownTable(UsageError):
    """The name is no table that has a commit; facts: `table`, `tables`."""

    code = "unknown_table"


class Unreadable(CommandFailed):
    """hudi-rs could not read the table; facts: `table`."""

    code = "unreadable_table"


@dataclass(frozen=True)
class SilverTable:
    """One opened table under the name it was asked for; `view` is "", "_ro" or "_rt"."""

    table: str
    view: str
    hudi: Any

    def schema(self, *, with_deleted: bool = False, lineage: bool = False) -> pa.Schema:
        """The columns that a reader sees, in the table's order. Raises Unreadable."""
        whole = self._guarded(self.hudi.get_schema_with_meta_fields)
        return pa.schema([item for item in whole if is_shown(item.name, with_deleted=with_deleted, lineage=lineage)])

    def batches(self, *, with_deleted: bool = False, lineage: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of the newest commit, as they are read; all batches have `schema`. Raises Unreadable."""
        schema = self.schema(with_deleted=with_deleted, lineage=lineage)
        names = list(schema.names)
        stored = set(self._guarded(self.hudi.get_schema_with_meta_fields).names)
        marked = hidden_columns.DELETED in stored
        wanted = names if hidden_columns.DELETED in names or not marked else [*names, hidden_columns.DELETED]
        stream = self._guarded(lambda: self.hudi.read_stream(HudiReadOptions().with_projection(wanted)))
        while True:
            batch = self._guarded(lambda: next(stream, None))
            if batch is None:
                return
            if marked and not with_deleted:
                deleted = pc.fill_null(batch.column(hidden_columns.DELETED), False)
                batch = batch.filter(pc.invert(deleted))
            if batch.num_rows:
                yield batch.select(names).cast(schema)

    def reader(self, *, with_deleted: bool = False, lineage: bool = False) -> pa.RecordBatchReader:
        """`batches` in the form that Arrow's consumers take; it can be read once."""
        return pa.RecordBatchReader.from_batches(
            self.schema(with_deleted=with_deleted, lineage=lineage), self.batches(with_deleted=with_deleted, lineage=lineage)
        )

    def _guarded(self, read: Callable[[], Any]) -> Any:
        return _guarded(self.table, read)


def is_shown(column: str, *, with_deleted: bool, lineage: bool) -> bool:
    """Whether a reader sees a column: `_hoodie_*` and where a row came from on demand only."""
    if column == hidden_columns.DELETED:
        return with_deleted or lineage
    return lineage or not column.startswith((_META_PREFIX, _LINEAGE_PREFIX))


def read_table(place: SilverPlace, name: str, *, with_deleted: bool = False, lineage: bool = False) -> pa.Table:
    """All rows of `database.table` (merge-on-read also `_ro` and `_rt`). Raises UnknownTable, Unreadable."""
    return open_table(place, name).reader(with_deleted=with_deleted, lineage=lineage).read_all()


def open_table(place: SilverPlace, name: str) -> SilverTable:
    """Find a table by the name a reader uses; a table that is really called so wins over a suffix.

    Merge-on-read: the plain name and `_rt` are the merged state, `_ro` the base files alone.
    Raises UnknownTable, Unreadable.
    """
    for database, stored, view in _candidates(name):
        if not _exists(place, database, stored):
            continue
        opened = _open(place, f"{database}.{stored}", view)
        if view and not opened.hudi.is_mor:
            raise UnknownTable(
                f"{database}.{stored} is copy-on-write and has no view {view}", table=name, next_step=f"Ask for {database}.{stored}"
            )
        return opened
    raise _unknown(place, name)


def tables_in(place: SilverPlace) -> tuple[str, ...]:
    """Every `database.table` that silver holds, sorted."""
    found = _folders(place, "")
    return tuple(sorted(f"{database}.{table}" for database in found for table in _folders(place, f"{database}/") if _exists(place, database, table)))


def _candidates(name: str) -> Iterator[tuple[str, str, str]]:
    """The (database, table, view) that a name can mean, as it is written and then in lower case, which configured names have."""
    for spelled in dict.fromkeys((name, name.lower())):
        database, _, table = spelled.partition(".")
        yield database, table, PLAIN
        for view in (READ_OPTIMIZED, REAL_TIME):
            if table.endswith(view) and len(table) > len(view):
                yield database, table[: -len(view)], view


def _open(place: SilverPlace, table: str, view: str) -> SilverTable:
    builder = HudiTableBuilder.from_base_uri(f"{place.silver_url}/{table.replace('.', '/', 1)}")
    builder = builder.with_storage_options(dict(place.storage_options()))
    if view == READ_OPTIMIZED:
        builder = builder.with_hudi_option(HudiReadConfig.USE_READ_OPTIMIZED_MODE, "true")
    return SilverTable(table=table, view=view, hudi=_guarded(table, builder.build))


def _exists(place: SilverPlace, database: str, table: str) -> bool:
    # Names come from SQL and become a path: only what can be a table's name gets that far.
    if not (COLUMN.fullmatch(database) and COLUMN.fullmatch(table)):
        return False
    mark = f"{database}/{table}/{_PROPERTIES}"
    folder = _local_folder(place)
    if folder is not None:
        return (folder / mark).is_file()
    found = place.client("s3").list_objects_v2(Bucket=_bucket(place), Prefix=mark, MaxKeys=1)
    return any(item["Key"] == mark for item in found.get("Contents", ()))


def _folders(place: SilverPlace, under: str) -> tuple[str, ...]:
    """The names one level below `under` that can be a database's or a table's."""
    folder = _local_folder(place)
    if folder is not None:
        names = [item.name for item in (folder / under).iterdir() if item.is_dir()]
    else:
        pages = place.client("s3").get_paginator("list_objects_v2").paginate(Bucket=_bucket(place), Prefix=under, Delimiter="/")
        names = [item["Prefix"][len(under) : -1] for page in pages for item in page.get("CommonPrefixes", ())]
    # `_sluice` holds manifests and outcomes, not tables.
    return tuple(name for name in names if COLUMN.fullmatch(name) and name != "_sluice")


def _local_folder(place: SilverPlace) -> Path | None:
    parts = urlsplit(place.silver_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _bucket(place: SilverPlace) -> str:
    return urlsplit(place.silver_url).netloc


def _unknown(place: SilverPlace, name: str) -> UnknownTable:
    tables = tables_in(place)
    known = f"Tables: {', '.join(tables[:20])}{' ...' if len(tables) > 20 else ''}" if tables else "A table appears with its first commit: `sluice wait`"
    return UnknownTable(f"No table {name!r} in {place.silver_url}", table=name, tables=tables, next_step=known)


def _guarded(table: str, read: Callable[[], Any]) -> Any:
    """Call hudi-rs. Its error class can't be imported, so whatever it raises is taken for its error."""
    try:
        return read()
    except Exception as error:
        raise Unreadable(f"{table} could not be read: {error}", table=table, next_step="If it has no commit yet, `sluice wait`; else `sluice doctor`") from error
