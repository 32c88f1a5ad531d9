"""Reads the active timelines of Hudi tables from their files, without a JVM.

reader = TimelineReader(SilverBucket(s3_client, silver_bucket))
timeline = reader.timeline("moma.artists")               # one LIST per 1,000 files
commit = reader.commit("moma.artists", timeline.newest)  # one GET, then cached
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from threading import Lock

from sluice.hudi.java_properties import parse_properties
from sluice.hudi.table_properties import PROPERTIES_FILE
from sluice.hudi.timeline import FOLDER, Commit, Instant, Timeline
from sluice_aws.errors import NoSuchCommit
from sluice_aws.s3.silver_files import SilverFiles

CACHED_COMMITS = 64  # per reader; a commit never changes and takes a few KB


class TimelineReader:
    """Timelines of silver tables, named `database.table`. Safe to use from several threads."""

    def __init__(self, files: SilverFiles) -> None:
        self.files = files
        self._cached: OrderedDict[tuple[str, str], Commit] = OrderedDict()
        self._lock = Lock()

    def timeline(self, table: str, *, since: str | None = None) -> Timeline:
        """The active timeline, or its instants from the time `since` on. Empty where there is no table.

        An instant has up to three files, and a timeline some hundreds of instants.
        """
        # An instant's file is named by its time and a suffix, so it sorts after the time alone.
        return Timeline.of(self.files.names(table_prefix(table) + FOLDER, since or ""))

    def commit(self, table: str, instant: Instant) -> Commit:
        """Metadata of a completed commit. Raises NoSuchCommit, UnreadableCommit."""
        place = (table, instant.file)
        with self._lock:
            if place in self._cached:
                self._cached.move_to_end(place)
                return self._cached[place]
        commit = Commit.of(instant, self.content(table, instant))
        with self._lock:
            self._cached[place] = commit
            while len(self._cached) > CACHED_COMMITS:
                self._cached.popitem(last=False)
        return commit

    def content(self, table: str, instant: Instant) -> bytes:
        """Bytes of an instant's file. Raises NoSuchCommit."""
        data = self.files.read(table_prefix(table) + FOLDER + instant.file)
        if data is None:
            raise NoSuchCommit(f"{table} has no commit {instant.time} any more", table=table, instant=instant.time)
        return data

    def properties(self, table: str) -> Mapping[str, str] | None:
        """The table's own properties (`hoodie.properties`); None where there is no table."""
        data = self.files.read(table_prefix(table) + PROPERTIES_FILE)
        return None if data is None else parse_properties(data.decode("utf-8"))

    def partition_paths(self, table: str, fields: tuple[str, ...]) -> Iterator[str]:
        """Folders of all partitions, in order: `nationality=German`, `year=2024/month=1`.

        `fields` are the table's partition columns. One LIST per thousand folders of each level above the last.
        """
        yield from self._below(table_prefix(table), "", fields)

    def _below(self, root: str, path: str, fields: tuple[str, ...]) -> Iterator[str]:
        for name in self.files.folders(root + path, f"{fields[0]}="):
            if len(fields) > 1:
                yield from self._below(root, f"{path}{name}/", fields[1:])
            else:
                yield path + name


def table_prefix(table: str) -> str:
    """Key prefix of every file of `database.table`."""
    database, _, name = table.partition(".")
    return f"{database}/{name}/"
