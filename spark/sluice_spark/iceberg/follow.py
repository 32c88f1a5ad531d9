"""Brings the Iceberg table beside a copy-on-write Hudi table up to its newest commit.

What a snapshot holds follows from Hudi's timeline and the listing of the folder alone, and is written after the commit:
a run that died between the two is made good by the next look. Only the lane's holder writes. A version is put under a
name that nobody has used, then named by the version hint, so readers see one snapshot or the next.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable

from sluice.catalog.columns import META_COLUMNS
from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig
from sluice.hudi.timeline import Timeline
from sluice.iceberg import metadata as tables
from sluice.iceberg.columns import columns_after
from sluice.iceberg.manifests import DATA, DELETES, Entry, added, carried, manifest_file, owner, rows_of
from sluice_aws.s3.objects import Objects
from sluice_spark.errors import IcebergRaced
from sluice_spark.hudi.slices import data_files, newest_slices_of
from sluice_spark.hudi.table_files import (
    files_below,
    read_file,
    read_file_or_none,
    remove_file,
    write_file,
    write_new_file,
)
from sluice_spark.iceberg.avro_files import manifest_bytes, manifest_list_bytes, records_of
from sluice_spark.iceberg.base_files import seen_file, stem_of

FILES_AT_ONCE = 8
_KINDS = {DATA: tables.FILES, DELETES: tables.ROWS_DELETED}
_HIDDEN = (*META_COLUMNS, *hidden.NAMES, hidden.ROW)


@dataclass(frozen=True)
class Followed:
    """What a look at an Iceberg table wrote: the instant that it shows, and the files that came and went."""

    instant: str
    version: int
    added: int = 0
    removed: int = 0
    deletes: int = 0


@dataclass(frozen=True)
class _Version:
    """The newest metadata of a table, and its number; 0 and None before the first."""

    number: int = 0
    metadata: Mapping[str, Any] | None = None


class IcebergTable:
    """The Iceberg table beside the Hudi table at `uri`. For the lane's holder.

    `check_held` raises LaneLost. It is called between the look at the newest version and the next one's name, which
    nobody else then has: a driver that lost its lane can't show an older commit after a newer one.
    """

    def __init__(
        self, objects: Objects, uri: str, config: TableConfig, check_held: Callable[[], None] = lambda: None
    ) -> None:
        self._check_held = check_held
        self._objects = objects
        self._uri = uri.rstrip("/")
        self._config = config
        self._location = f"{self._uri}/{tables.FOLDER}"
        self._folder = f"{self._location}/{tables.METADATA}"

    def follow(
        self, timeline: Timeline, types: Mapping[str, str], *, now_ms: int, rebuild: bool = False
    ) -> Followed | None:
        """Show the newest commit of a timeline without a pending write; None where that is shown already.

        `types` are the table's columns with Spark's types. With `rebuild`, nothing but the columns' ids is taken over
        from what is there. Raises IcebergRaced.
        """
        newest = timeline.newest
        if newest is None:
            return None
        version = self._newest(rebuild=rebuild)
        before = version.metadata or tables.new_metadata(self._location, str(uuid.uuid4()), self._config.table)
        rebuild = rebuild or before["location"] != self._location  # a copy of a table names the files of the first
        if not rebuild and tables.is_up_to_date(version.metadata, timeline):
            return None
        if rebuild:
            before = {**before, "snapshots": [], "location": self._location}  # ids of columns stay
        held, held_deletes = self._entries(before)
        listed = data_files(self._objects, self._uri, partitioned=bool(self._config.partition_by))
        slices = newest_slices_of(listed, self._objects, self._uri, timeline)
        present = {f"{self._uri}/{item.base.path}": item.base for item in slices if item.base is not None}
        columns = columns_after(version.metadata, types, hidden=_HIDDEN)
        names = self._config.partition_columns  # by which readers may skip files
        bounded = {item["name"]: (item["id"], item["type"]) for item in columns.fields if item["name"] in names}

        def look(path: str) -> Any:
            return seen_file(self._objects, self._uri, present[path], bounded=bounded, metadata_uri=self._folder)

        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            new = list(pool.map(look, sorted(present.keys() - held.keys())))
        files = [entry for path, entry in held.items() if path in present] + [added(file) for file in new]
        deletes = [entry for path, entry in held_deletes.items() if path in present]
        deletes += [added(file.deletes, of=file.path) for file in new if file.deletes is not None]
        gone = len(held.keys() - present.keys())
        made = tables.NextSnapshot(
            newest.time,
            f"{self._folder}/{tables.snapshot_file(tables.LIST, newest.time, version.number + 1)}",
            "overwrite" if held else "append",
            {
                "added-data-files": len(new),
                "deleted-data-files": gone,
                "total-data-files": len(files),
                "total-records": rows_of(files),
                "total-delete-files": len(deletes),
                "total-position-deletes": rows_of(deletes),
                "total-equality-deletes": 0,
            },
        )
        after = tables.with_snapshot(
            before,
            made,
            columns,
            timeline=timeline,
            now_ms=now_ms,
            complete=held.keys() <= {f"{self._uri}/{file.path}" for file in listed},
        )
        self._write_manifests(after, {DATA: files, DELETES: deletes}, version.number + 1)
        self._publish(version.number, after)
        return Followed(newest.time, version.number + 1, len(new), gone, sum(f.deletes is not None for f in new))

    def before_cleaning(self, instant: str, horizon: str) -> None:
        """Take out the snapshots whose files a cleaning at `instant` may delete, then files that no snapshot names.

        The cleaning keeps what is read as of `horizon` or later. Raises IcebergRaced.
        """
        version = self._newest()
        if version.metadata is None or not version.metadata["snapshots"]:
            return
        after = tables.before_cleaning(version.metadata, instant=instant, horizon=horizon)
        self._publish(version.number, after)
        self._remove_unnamed(after)

    def remove(self) -> None:
        """Delete all metadata: nothing keeps it up to date any more, and it may bound files by values of any row."""
        for name in self._names():
            remove_file(self._objects, f"{self._folder}/{name}")

    def _newest(self, *, rebuild: bool = False) -> _Version:
        """The version of the hint, or a later one, which is then named. `rebuild`: unreadable ones are skipped."""
        hint = read_file_or_none(self._objects, f"{self._folder}/{tables.VERSION_HINT}")
        if rebuild or hint is None:
            numbers = [tables.version_of(name) or 0 for name in self._names()]
            number = max(numbers, default=0)
        else:
            number = int(hint)
        hinted = number
        metadata = self._metadata(number, unreadable_is_none=rebuild)
        while (later := self._metadata(number + 1, unreadable_is_none=rebuild)) is not None:
            number, metadata = number + 1, later
        if metadata is not None and (hint is None or number != hinted):
            self._name(number)
        return _Version(number, metadata)

    def _metadata(self, number: int, *, unreadable_is_none: bool) -> Mapping[str, Any] | None:
        body = read_file_or_none(self._objects, f"{self._folder}/{tables.metadata_name(number)}")
        try:
            metadata: Mapping[str, Any] | None = None if body is None else json.loads(body)
        except ValueError:
            if not unreadable_is_none:
                raise
            return None
        return metadata

    def _names(self) -> list[str]:
        return [path for path, _ in files_below(self._objects, self._folder, partitioned=False)]

    def _manifests(self, snapshot: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return records_of(read_file(self._objects, snapshot["manifest-list"]))

    def _entries(self, metadata: Mapping[str, Any]) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """The base files of the current snapshot and its position deletes, by the base file's URI."""
        snapshot = tables.current_snapshot(metadata)
        by_content: dict[int, dict[str, Entry]] = {DATA: {}, DELETES: {}}
        for manifest in [] if snapshot is None else self._manifests(snapshot):
            for entry in records_of(read_file(self._objects, manifest["manifest_path"])):
                by_content[manifest["content"]][owner(entry)] = carried(entry, manifest)
        return by_content[DATA], by_content[DELETES]

    def _write_manifests(
        self, metadata: Mapping[str, Any], contents: Mapping[int, Sequence[Entry]], number: int
    ) -> None:
        """Write the manifests of the current snapshot, and their list."""
        snapshot = metadata["snapshots"][-1]
        schema = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
        place = {"snapshot": snapshot["snapshot-id"], "sequence": snapshot["sequence-number"]}
        manifests = []
        for content, entries in contents.items():
            if entries:
                instant = snapshot["summary"][tables.INSTANT]
                path = f"{self._folder}/{tables.snapshot_file(_KINDS[content], instant, number)}"
                body = manifest_bytes(entries, content=content, schema=schema)
                write_file(self._objects, path, body)
                manifests.append(manifest_file(path, len(body), entries, content=content, **place))
        write_file(self._objects, snapshot["manifest-list"], manifest_list_bytes(manifests, **place))

    def _publish(self, number: int, metadata: Mapping[str, Any]) -> None:
        """Write the version after `number`, and name it. Raises IcebergRaced where somebody else has written it."""
        body = json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode()
        self._check_held()
        if not write_new_file(self._objects, f"{self._folder}/{tables.metadata_name(number + 1)}", body):
            raise IcebergRaced(
                f"Somebody else wrote version {number + 1} of the Iceberg table of {self._config.table}",
                table=self._config.table,
            )
        self._name(number + 1)

    def _name(self, number: int) -> None:
        write_file(self._objects, f"{self._folder}/{tables.VERSION_HINT}", str(number).encode())

    def _remove_unnamed(self, metadata: Mapping[str, Any]) -> None:
        """Delete the metadata files that nobody needs any more, also those of a run that died while it wrote."""
        listed = data_files(self._objects, self._uri, partitioned=bool(self._config.partition_by))
        for name in tables.unnamed(self._names(), metadata, {stem_of(file) for file in listed}):
            remove_file(self._objects, f"{self._folder}/{name}")
