"""The details of a table that `sluice table` shows: schema, commits and their cost, files and their statistics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sluice.changes import hidden_columns
from sluice.hudi.own_metadata import BATCH_KEY
from sluice.hudi.table_properties import is_merge_on_read, partition_fields_of, record_key_of
from sluice.hudi.timeline import CLEAN, COMPLETED, Commit, FileWritten, Instant
from sluice_read.listing import AT_ONCE, TableListing
from sluice_read.moments import moment_of
from sluice_read.place import TableFolder

_SERVICES = frozenset(("compact", "log_compact", "cluster"))  # Hudi's names for them, in lower case
SMALL_FILE_BYTES = 100 * 1024**2  # Hudi's default: its writer fills smaller files first


@dataclass(frozen=True)
class CommitRow:
    """One instant of the active timeline.

    `inserted`, `updated` and `deleted` are Hudi's counts of rows in files: a row that moved to another partition is
    deleted there and inserted here, and a deletion by the source is an update, since the row stays and is hidden.
    `bytes_changed` is the changed rows' share of the bytes of their files, and `write_amplification` the bytes written
    for each of them; None where no row changed (compaction, clustering, cleaning).
    """

    instant: str
    at: str
    action: str
    state: str
    operation: str = ""
    batch: str | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    bytes_changed: int = 0
    files_written: int = 0
    files_deleted: int = 0
    partitions: int = 0
    write_amplification: float | None = None

    @property
    def changed(self) -> int:
        """The number of rows that changed."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class FileRow:
    """A file group as readers see it now: its base file, the instant of it, and its log files. Sizes are bytes."""

    partition: str
    file_id: str
    base: str | None
    instant: str | None
    bytes: int
    logs: int
    log_bytes: int
    small: bool


@dataclass(frozen=True)
class FileSizes:
    """The number of files, and their sizes in bytes: total, least, median and greatest."""

    files: int
    bytes: int
    least: int = 0
    median: int = 0
    greatest: int = 0

    @classmethod
    def of(cls, sizes: Iterable[int]) -> FileSizes:
        """Summarize sizes."""
        rising = sorted(sizes)
        return cls(len(rising), sum(rising), rising[0], rising[len(rising) // 2], rising[-1]) if rising else cls(0, 0)


@dataclass(frozen=True)
class TableStats:
    """Statistics of a table's files and of the cost of its active commits."""

    table: str
    partitions: int
    base: FileSizes
    pending_logs: FileSizes
    file_groups_with_logs: int
    small_files: int
    older_versions: FileSizes
    commits: int
    rows_changed: int
    rows_written: int
    bytes_written: int
    write_amplification: float | None
    by_operation: dict[str, dict[str, int]] = field(default_factory=dict)


def commit_rows(
    listing: TableListing, *, newest: int | None = None, tick: Callable[[int], None] = lambda done: None
) -> list[CommitRow]:
    """Read the active timeline, newest first: all of it, or the `newest`. `tick` gets the number read so far.

    Raises UnreadableCommit, Damaged.
    """
    instants = list(reversed(listing.timeline.instants))[:newest]
    rows: list[CommitRow] = []
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commits") as pool:
        for row in pool.map(lambda instant: _row(listing, instant), instants):
            rows.append(row)
            tick(len(rows))
    return rows


def _row(listing: TableListing, instant: Instant) -> CommitRow:
    if instant.writes:
        return _written(instant, listing.commit(instant))
    deleted = (
        int(listing.record(instant).get("totalFilesDeleted") or 0)
        if (instant.action, instant.state) == (CLEAN, COMPLETED)
        else 0
    )
    return CommitRow(instant.time, moment_of(instant.time), instant.action, instant.state, files_deleted=deleted)


def _written(instant: Instant, commit: Commit) -> CommitRow:
    inserted, updated, deleted = (
        sum(getattr(file, name) for file in commit.files) for name in ("inserts", "updates", "deletes")
    )
    services = commit.compacted or commit.operation.lower() in _SERVICES
    if services:  # Hudi counts rows that earlier commits changed
        inserted = updated = deleted = 0
    written = sum(file.written_bytes for file in commit.files)
    changed = 0 if services else sum(_changed_bytes(file) for file in commit.files)
    return CommitRow(
        instant=instant.time,
        at=moment_of(instant.time),
        action=instant.action,
        state=instant.state,
        operation=commit.operation.lower(),
        batch=commit.extra.get(BATCH_KEY),
        inserted=inserted,
        updated=updated,
        deleted=deleted,
        rows_written=sum(file.rows for file in commit.files),
        bytes_written=written,
        bytes_changed=changed,
        files_written=len(commit.files),
        files_deleted=sum(len(ids) for ids in commit.replaced.values()),
        partitions=len(commit.partitions),
        write_amplification=round(written / changed, 2) if changed else None,
    )


def _changed_bytes(file: FileWritten) -> int:
    changed = file.inserts + file.updates + file.deletes
    # A block of deletions has no rows, and is all change.
    return file.written_bytes if changed >= file.rows else file.written_bytes * changed // file.rows


def file_rows(listing: TableListing) -> list[FileRow]:
    """List the file groups that readers see now, by partition."""
    rows = []
    for item in listing.slices(listing.newest_until(None)):
        base, logs = item.base, item.logs
        path, instant, size = (None, None, 0) if base is None else (base.path, base.instant, base.size)
        small, log_bytes = base is not None and size < SMALL_FILE_BYTES, sum(log.size for log in logs)
        rows.append(FileRow(item.partition, item.file_id, path, instant, size, len(logs), log_bytes, small))
    return rows


def table_stats(listing: TableListing, commits: Sequence[CommitRow]) -> TableStats:
    """Compute statistics of the files that readers see now, of those kept for time travel, and of commits."""
    slices = listing.slices(listing.newest_until(None))
    seen = {file.path for item in slices for file in item.files}
    writes = [row for row in commits if row.state == COMPLETED and row.operation]
    written, changed_bytes = sum(row.bytes_written for row in writes), sum(row.bytes_changed for row in writes)
    by_operation: dict[str, dict[str, int]] = {}
    for row in writes:
        counts = by_operation.setdefault(
            row.operation, {"commits": 0, "rows_changed": 0, "rows_written": 0, "bytes_written": 0}
        )
        counts["commits"] += 1
        counts["rows_changed"] += row.changed
        counts["rows_written"] += row.rows_written
        counts["bytes_written"] += row.bytes_written
    return TableStats(
        table=listing.table,
        partitions=len({item.partition for item in slices}),
        base=FileSizes.of(item.base.size for item in slices if item.base is not None),
        pending_logs=FileSizes.of(log.size for item in slices for log in item.logs),
        file_groups_with_logs=sum(1 for item in slices if item.logs),
        small_files=sum(1 for item in slices if item.base is not None and item.base.size < SMALL_FILE_BYTES),
        older_versions=FileSizes.of(file.size for file in listing.files if file.path not in seen),
        commits=len(writes),
        rows_changed=sum(row.changed for row in writes),
        rows_written=sum(row.rows_written for row in writes),
        bytes_written=written,
        write_amplification=round(written / changed_bytes, 2) if changed_bytes else None,
        by_operation=by_operation,
    )


def describe_table(folder: TableFolder) -> dict[str, Any]:
    """The JSON form of a table's own properties."""
    properties = folder.properties()
    return {
        "table": folder.table,
        "type": "merge-on-read" if is_merge_on_read(properties) else "copy-on-write",
        "location": folder.url,
        "record_key": list(record_key_of(properties)),
        "partition_by": list(partition_fields_of(properties)),
        "properties": properties,
    }


def schema_rows(avro_schema: str) -> list[dict[str, Any]]:
    """The columns of a commit's schema: name, Avro type, whether it is nullable, comment, and whether it is hidden."""
    fields = json.loads(avro_schema).get("fields", ()) if avro_schema else ()
    return [
        {
            "name": item["name"],
            **_type(item["type"]),
            "comment": item.get("doc") or "",
            "hidden": item["name"] in hidden_columns.NAMES or item["name"] == hidden_columns.ROW,
        }
        for item in fields
    ]


def _type(avro: Any) -> dict[str, Any]:
    options = avro if isinstance(avro, list) else [avro]
    kinds = [item for item in options if item != "null"]
    return {"type": " or ".join(_type_name(item) for item in kinds), "nullable": len(kinds) < len(options)}


def _type_name(avro: Any) -> str:
    if isinstance(avro, str):
        return avro
    logical = avro.get("logicalType")
    if logical == "decimal":
        return f"decimal({avro.get('precision')},{avro.get('scale', 0)})"
    if logical:
        return str(logical)
    if avro.get("type") in ("array", "map"):
        return f"{avro['type']}<{_type(avro.get('items') or avro.get('values'))['type']}>"
    return str(avro.get("name") or avro.get("type"))
