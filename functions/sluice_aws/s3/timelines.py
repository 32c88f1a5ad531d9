"""Reads a Hudi table's active timeline from S3, without a JVM.

    reader = TimelineReader(s3_client, silver_bucket)
    timeline = reader.timeline("moma.artists")             # one LIST per 1,000 files: sluice.timeline.Timeline
    commit = reader.commit("moma.artists", timeline.newest)  # one GET: sluice.timeline.Commit, kept for the next time

Whoever reads a table without Spark uses this: catalog sync, the reading and inspecting commands.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

from sluice.hudi.options import PROPERTIES_FILE
from sluice.hudi.timeline import FOLDER, Commit, Instant, Timeline
from sluice_aws.errors import NoSuchCommit
from sluice_aws.s3.objects import Objects

KEPT_COMMITS = 64  # of one process: a commit never changes, and a few KB is what it takes


class TimelineReader:
    """The timelines of the tables of one silver bucket, each under `database/table/` there. Safe to use from several threads."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._objects = Objects(s3)
        self._bucket = bucket
        self._kept: OrderedDict[tuple[str, str], Commit] = OrderedDict()
        self._lock = Lock()

    def timeline(self, table: str, *, since: str | None = None) -> Timeline:
        """The instants of `database.table`, or those from the time `since` on; empty where there is no table.

        One LIST for a thousand files. An instant has three, and the active timeline at most some hundreds of instants.
        """
        prefix = table_prefix(table) + FOLDER
        names: list[str] = []
        start = (
            {"StartAfter": prefix + since} if since else {}
        )  # an instant's file is its time and more, so it comes after
        for page in self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, Delimiter="/", **start
        ):
            names += [item["Key"][len(prefix) :] for item in page.get("Contents", ())]
        return Timeline.of(names)

    def commit(self, table: str, instant: Instant) -> Commit:
        """What a completed commit says. Raises NoSuchCommit, UnreadableCommit."""
        place = (table, instant.file)
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                return self._kept[place]
        document = self._objects.get(self._bucket, table_prefix(table) + FOLDER + instant.file)
        if document is None:
            raise NoSuchCommit(f"{table} has no commit {instant.time} any more", table=table, instant=instant.time)
        commit = Commit.of(instant, document.data)
        with self._lock:
            self._kept[place] = commit
            while len(self._kept) > KEPT_COMMITS:
                self._kept.popitem(last=False)
        return commit

    def properties(self, table: str) -> Mapping[str, str] | None:
        """The table's own properties (`hoodie.properties`); None where there is no table."""
        document = self._objects.get(self._bucket, table_prefix(table) + PROPERTIES_FILE)
        return None if document is None else properties_of(document.data.decode("utf-8"))

    def partition_paths(self, table: str, fields: tuple[str, ...]) -> Iterator[str]:
        """Every partition folder of a table that is partitioned by `fields`, in order: `nationality=German`, `year=2024/month=1`.

        One LIST per thousand folders of each level above the last.
        """
        yield from self._below(table_prefix(table), "", fields)

    def _below(self, root: str, path: str, fields: tuple[str, ...]) -> Iterator[str]:
        prefix = f"{root}{path}{fields[0]}="
        for page in self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, Delimiter="/"
        ):
            for item in page.get("CommonPrefixes", ()):
                found = item["Prefix"][len(root) :]
                if len(fields) > 1:
                    yield from self._below(root, found, fields[1:])
                else:
                    yield found.rstrip("/")


def table_prefix(table: str) -> str:
    """The key that every object of `database.table` begins with."""
    database, _, name = table.partition(".")
    return f"{database}/{name}/"


def properties_of(text: str) -> dict[str, str]:
    r"""Java's properties as Hudi writes them: name=value, with `\` before `:`, `=`, `#`, `!` and `\` itself."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[_unescaped(name.strip())] = _unescaped(value.strip())
    return found


def _unescaped(text: str) -> str:
    characters = iter(text)
    return "".join(next(characters, "") if character == "\\" else character for character in characters)
