"""Restores a table's lost `hoodie.properties`, from its backup and from what ledger, configuration and commits know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.config.table import TableConfig
from sluice.hudi.java_properties import parse_properties, properties_text
from sluice.hudi.own_metadata import kept_in_commits
from sluice.hudi.table_properties import BACKUP_FILE, PROPERTIES_FILE, names_table, restored_properties
from sluice.hudi.timeline import Commit, Timeline
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.silver_files import SilverFiles
from sluice_aws.s3.timelines import TimelineReader, table_prefix

_METADATA = ".hoodie/metadata/"


def lost_properties(files: SilverFiles, table: str) -> bool:
    """True for a table with commits whose `hoodie.properties` is gone, or empty as a stopped writer leaves it."""
    properties = TimelineReader(files).properties(table)
    return not names_table(properties or {}) and bool(TimelineReader(files).timeline(table).commits)


def restored_content(files: SilverFiles, config: TableConfig, *, floors: Mapping[str, str]) -> bytes:
    """What a table's lost `hoodie.properties` must hold.

    `config` has the settings that the table's data was written with, `floors` are the ledger's purge floors. Raises
    UnreadableCommit, NoSuchCommit.
    """
    reader, prefix = TimelineReader(files), table_prefix(config.table)
    timeline = reader.timeline(config.table)
    commits = [Commit.of(instant, reader.content(config.table, instant)).extra for instant in timeline.commits]
    wanted = restored_properties(
        config,
        own=kept_in_commits(commits, floors),
        metadata=_metadata_partitions(files, prefix),
        backup=parse_properties((files.read(prefix + BACKUP_FILE) or b"").decode("utf-8", "replace")),
    )
    return properties_text(wanted).encode("ascii")


def restore_properties(
    s3: Any, bucket: str, files: SilverFiles, config: TableConfig, *, floors: Mapping[str, str]
) -> bool:
    """Write the `restored_content` of a table; False where another writer wrote the file meanwhile."""
    objects, key = Objects(s3), table_prefix(config.table) + PROPERTIES_FILE
    there = objects.get(bucket, key)
    content = restored_content(files, config, floors=floors)
    replaces = None if there is None else there.etag
    return objects.put_if(bucket, key, content, replaces=replaces, content_type="text/plain")


def _metadata_partitions(files: SilverFiles, prefix: str) -> list[str]:
    """The partitions of the table's metadata table, none where it has no commit."""
    if not Timeline.of(files.names(f"{prefix}{_METADATA}.hoodie/")).commits:
        return []
    return [name for name in files.folders(prefix + _METADATA) if not name.startswith(".")]
