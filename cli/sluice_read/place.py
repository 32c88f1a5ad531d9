"""The place of silver tables, a bucket or a folder, and the files of one table in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from sluice.changes.hidden_columns import POSITION
from sluice.config.table import HISTORY
from sluice.errors import UnreadableHistory
from sluice.hudi.table_properties import PROPERTIES_FILE, record_key_of
from sluice.hudi.timeline import Instant, Timeline
from sluice.names import COLUMN, did_you_mean
from sluice.schema.history import StoredColumns, stored_key
from sluice_aws.s3.lost_properties import lost_properties
from sluice_aws.s3.silver_files import SilverBucket, SilverFiles, StoredFile, read_if_allowed
from sluice_aws.s3.timelines import TimelineReader, table_prefix
from sluice_read.errors import FilesMissing, UnknownTable

READ_OPTIMIZED, REAL_TIME, PLAIN = "_ro", "_rt", ""  # the view that a name's end chooses
AT_ONCE = 16  # tables that are looked for at a time
OWN_FOLDER = "_sluice"  # manifests, outcomes and schemas; no database


class SilverPlace(Protocol):
    """A place of silver tables and the access to it; `sluice_aws.stack.Target` is one."""

    @property
    def silver_url(self) -> str:
        """`s3://bucket`, or `file:///folder`."""

    def storage_options(self) -> Mapping[str, str]:
        """The object store's settings: endpoint, region, credentials."""

    def client(self, service: str) -> Any:
        """A boto3 client; needed only where `silver_url` is S3's."""


class SilverFolder:
    """SilverFiles on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, key: str) -> bytes | None:
        path = self._root / key
        return path.read_bytes() if path.is_file() else None

    def exists(self, key: str) -> bool:
        return (self._root / key).is_file()

    def under(self, prefix: str) -> Iterator[StoredFile]:
        root = self._root / prefix
        for path in sorted(item for item in root.rglob("*") if item.is_file()):
            status = path.stat()
            yield StoredFile(path.relative_to(root).as_posix(), status.st_size, status.st_mtime_ns // 1_000_000)

    def names(self, prefix: str, since: str = "") -> Iterator[str]:
        return iter(sorted(item.name for item in self._children(prefix) if item.is_file() and item.name > since))

    def folders(self, prefix: str, starting: str = "") -> Iterator[str]:
        names = (item.name for item in self._children(prefix) if item.is_dir())
        return iter(sorted(name for name in names if name.startswith(starting)))

    def _children(self, prefix: str) -> list[Path]:
        folder = self._root / prefix
        return list(folder.iterdir()) if folder.is_dir() else []


def files_of(place: SilverPlace) -> SilverFiles:
    """The files of a place, in a bucket or on disk."""
    parts = urlsplit(place.silver_url)
    if parts.scheme == "file":
        return SilverFolder(Path(unquote(parts.path)))
    return SilverBucket(place.client("s3"), parts.netloc)


@dataclass(frozen=True)
class TableFolder:
    """The folder of one table, in a bucket or on disk. `table_folder` has checked the name."""

    place: SilverPlace
    table: str

    @property
    def url(self) -> str:
        """The URL of the table's folder, for hudi-rs."""
        return f"{self.place.silver_url}/{table_prefix(self.table).rstrip('/')}"

    def exists(self) -> bool:
        """Says whether the folder holds a table."""
        return files_of(self.place).exists(table_prefix(self.table) + PROPERTIES_FILE)

    def files(self) -> Iterator[StoredFile]:
        """List every file of the table. In S3's order the timeline comes first; one LIST per thousand files."""
        return files_of(self.place).under(table_prefix(self.table))

    def timeline(self) -> Timeline:
        """The active timeline as it is now."""
        return self._reader.timeline(self.table)

    def properties(self) -> Mapping[str, str]:
        """The table's own properties."""
        return self._reader.properties(self.table) or {}

    def content(self, instant: Instant) -> bytes:
        """Bytes of an instant's file. Raises NoSuchCommit."""
        return self._reader.content(self.table, instant)

    @cached_property
    def _reader(self) -> TimelineReader:
        return TimelineReader(files_of(self.place))


def table_folder(place: SilverPlace, database: str, table: str) -> TableFolder | None:
    """The folder of a table; None where there is none, or the name is not valid."""
    # Names come from command lines and SQL and become a path, so only valid names go further.
    if not (COLUMN.fullmatch(database) and COLUMN.fullmatch(table)):
        return None
    folder = TableFolder(place, f"{database}.{table}")
    return folder if folder.exists() else None


def history_folder(place: SilverPlace, name: str) -> TableFolder | None:
    """The folder of the history table of `database.table`; None where it has none."""
    database, _, table = name.partition(".")
    folder = table_folder(place, database, _history_name(place, name) or table + HISTORY)
    return folder if folder is not None and POSITION in record_key_of(folder.properties()) else None


def _history_name(place: SilverPlace, name: str) -> str | None:
    """The name of a table's history table, where it is not `<table>_history`."""
    document = read_if_allowed(files_of(place), stored_key(name))
    try:
        return StoredColumns.from_json(document.decode()).history if document is not None else None
    except (UnreadableHistory, UnicodeDecodeError):
        return None


def find_table(place: SilverPlace, name: str) -> tuple[TableFolder, str]:
    """Find the folder of a table, and the view ("", "_ro", "_rt") that the name chooses. Raises UnknownTable."""
    if not isinstance(name, str):  # of a Python caller
        raise _unknown(place, repr(name), f"A table's name is text, not {name!r}")
    for database, stored, view in _candidates(name):
        folder = table_folder(place, database, stored)
        if folder is not None:
            return folder, view
    for database, stored, _ in _candidates(name):
        if COLUMN.fullmatch(database) and COLUMN.fullmatch(stored):
            refuse_lost_properties(TableFolder(place, f"{database}.{stored}"))
    raise _unknown(place, name)


def refuse_lost_properties(folder: TableFolder) -> None:
    """Raise FilesMissing for a table with commits that lacks `hoodie.properties` alone, or has it without content."""
    if lost_properties(files_of(folder.place), folder.table):
        raise FilesMissing(
            f"{folder.table} can't be read: its file {PROPERTIES_FILE} is gone or empty",
            table=folder.table,
            files=(PROPERTIES_FILE,),
            next_step=f"`sluice table accept {folder.table}` restores it",
        )


def _candidates(name: str) -> Iterator[tuple[str, str, str]]:
    """The (database, table, view) that a name can mean, as written and then in lower case, as configured names are."""
    for spelled in dict.fromkeys((name, name.lower())):
        database, _, table = spelled.partition(".")
        yield database, table, PLAIN
        for view in (READ_OPTIMIZED, REAL_TIME):
            if table.endswith(view) and len(table) > len(view):
                yield database, table[: -len(view)], view


def tables_in(place: SilverPlace) -> tuple[str, ...]:
    """List every `database.table` in the place, sorted."""
    names = [(database, table) for database in _folders(place, "") for table in _folders(place, f"{database}/")]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tables") as pool:
        folders = pool.map(lambda name: table_folder(place, *name), names)
        return tuple(sorted(folder.table for folder in folders if folder is not None))


def _folders(place: SilverPlace, under: str) -> tuple[str, ...]:
    """List the valid names of databases or tables one level below `under`."""
    return tuple(name for name in files_of(place).folders(under) if COLUMN.fullmatch(name) and name != OWN_FOLDER)


def _unknown(place: SilverPlace, name: str, message: str = "") -> UnknownTable:
    tables = tables_in(place)
    gone = ". `sluice doctor` says which tables had commits that are gone"
    step = (
        f"Name one of these tables: {', '.join(tables[:20])}{' ...' if len(tables) > 20 else ''}{gone}"
        if tables
        else "Tables appear with their first commit: `sluice wait`; `sluice quarantine list` shows what can't be merged"
        f"{gone}"
    )
    return UnknownTable(
        message or f"No table {name!r} in {place.silver_url}{did_you_mean(name, tables)}",
        table=name,
        tables=tables,
        next_step=step,
    )
