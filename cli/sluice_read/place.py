"""Where silver tables are: a bucket or a folder, and the files of one table there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timezone
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from sluice.hudi.options import PROPERTIES_FILE
from sluice.hudi.timeline import FOLDER
from sluice.names import COLUMN
from sluice_read.errors import UnknownTable

READ_OPTIMIZED, REAL_TIME, PLAIN = "_ro", "_rt", ""  # the views that a name can end with
OWN_FOLDER = "_sluice"  # manifests, outcomes and schemas, not tables


class SilverPlace(Protocol):
    """Where silver tables are and how to get at them; `Target` is one."""

    @property
    def silver_url(self) -> str:
        """`s3://bucket`, or `file:///folder`."""

    def storage_options(self) -> Mapping[str, str]:
        """The object store's settings: endpoint, region, credentials."""

    def client(self, service: str) -> Any:
        """A boto3 client; only asked for where `silver_url` is S3's."""


@dataclass(frozen=True)
class StoredFile:
    """One file under a table's folder: its path there, bytes, and when it was written (epoch milliseconds)."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class TableFolder:
    """The files of one table, in a bucket or on disk. The name is one that a table can have: `table_folder` saw to that."""

    place: SilverPlace
    table: str

    @property
    def url(self) -> str:
        """The table's folder as hudi-rs names it."""
        return f"{self.place.silver_url}/{self._prefix.rstrip('/')}"

    @property
    def _prefix(self) -> str:
        return self.table.replace(".", "/", 1) + "/"

    def exists(self) -> bool:
        """Whether a table was created here."""
        mark = self._prefix + PROPERTIES_FILE
        folder = _local_folder(self.place)
        if folder is not None:
            return (folder / mark).is_file()
        found = self.place.client("s3").list_objects_v2(Bucket=_bucket(self.place), Prefix=mark, MaxKeys=1)
        return any(item["Key"] == mark for item in found.get("Contents", ()))

    def files(self) -> Iterator[StoredFile]:
        """Every file of the table, those of the timeline first in S3's order. One LIST for a thousand."""
        folder = _local_folder(self.place)
        if folder is not None:
            root = folder / self._prefix
            for path in sorted(item for item in root.rglob("*") if item.is_file()):
                status = path.stat()
                yield StoredFile(path.relative_to(root).as_posix(), status.st_size, status.st_mtime_ns // 1_000_000)
            return
        for page in (
            self.place.client("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=_bucket(self.place), Prefix=self._prefix)
        ):
            for item in page.get("Contents", ()):
                yield StoredFile(
                    item["Key"][len(self._prefix) :],
                    item["Size"],
                    int(item["LastModified"].astimezone(timezone.utc).timestamp() * 1000),
                )

    def timeline_files(self) -> tuple[str, ...]:
        """The names of the files right under the timeline's folder, as they are now."""
        folder = _local_folder(self.place)
        prefix = self._prefix + FOLDER
        if folder is not None:
            return tuple(item.name for item in (folder / prefix).iterdir() if item.is_file())
        pages = (
            self.place.client("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=_bucket(self.place), Prefix=prefix, Delimiter="/")
        )
        return tuple(item["Key"][len(prefix) :] for page in pages for item in page.get("Contents", ()))

    def read(self, path: str) -> bytes:
        """A small file's bytes: an instant's, the properties."""
        folder = _local_folder(self.place)
        if folder is not None:
            return (folder / self._prefix / path).read_bytes()
        body = self.place.client("s3").get_object(Bucket=_bucket(self.place), Key=self._prefix + path)["Body"]
        return bytes(body.read())


def table_folder(place: SilverPlace, database: str, table: str) -> TableFolder | None:
    """The folder of a table that exists; None for one that doesn't, or whose name can't be a table's."""
    # Names come from command lines and SQL and become a path: only what can be a table's name gets that far.
    if not (COLUMN.fullmatch(database) and COLUMN.fullmatch(table)):
        return None
    folder = TableFolder(place, f"{database}.{table}")
    return folder if folder.exists() else None


def find_table(place: SilverPlace, name: str) -> tuple[TableFolder, str]:
    """The folder of a table, and the view ("", "_ro", "_rt") that the name asks for. Raises UnknownTable."""
    for database, stored, view in _candidates(name):
        folder = table_folder(place, database, stored)
        if folder is not None:
            return folder, view
    raise _unknown(place, name)


def _candidates(name: str) -> Iterator[tuple[str, str, str]]:
    """The (database, table, view) that a name can mean, as it is written and then in lower case, which configured names have."""
    for spelled in dict.fromkeys((name, name.lower())):
        database, _, table = spelled.partition(".")
        yield database, table, PLAIN
        for view in (READ_OPTIMIZED, REAL_TIME):
            if table.endswith(view) and len(table) > len(view):
                yield database, table[: -len(view)], view


def tables_in(place: SilverPlace) -> tuple[str, ...]:
    """Every `database.table` that silver holds, sorted."""
    names = ((database, table) for database in _folders(place, "") for table in _folders(place, f"{database}/"))
    return tuple(
        sorted(f"{database}.{table}" for database, table in names if table_folder(place, database, table) is not None)
    )


def _folders(place: SilverPlace, under: str) -> tuple[str, ...]:
    """The names one level below `under` that can be a database's or a table's."""
    folder = _local_folder(place)
    if folder is not None:
        names = [item.name for item in (folder / under).iterdir() if item.is_dir()]
    else:
        pages = (
            place.client("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=_bucket(place), Prefix=under, Delimiter="/")
        )
        names = [item["Prefix"][len(under) : -1] for page in pages for item in page.get("CommonPrefixes", ())]
    return tuple(name for name in names if COLUMN.fullmatch(name) and name != OWN_FOLDER)


def _unknown(place: SilverPlace, name: str) -> UnknownTable:
    tables = tables_in(place)
    known = (
        f"Tables: {', '.join(tables[:20])}{' ...' if len(tables) > 20 else ''}"
        if tables
        else "A table appears with its first commit: `sluice wait`"
    )
    return UnknownTable(f"No table {name!r} in {place.silver_url}", table=name, tables=tables, next_step=known)


def _local_folder(place: SilverPlace) -> Path | None:
    parts = urlsplit(place.silver_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _bucket(place: SilverPlace) -> str:
    return urlsplit(place.silver_url).netloc
