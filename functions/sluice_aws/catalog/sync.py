"""Brings the Glue catalog up to a table's newest commit: reads both, plans the smallest change, and applies it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from sluice.catalog.columns import columns_of_commit, shown_columns
from sluice.catalog.partitions import PartitionChange, partition_change, partition_input, retyped, touched, values_of
from sluice.catalog.plan import CatalogPlan, TablePlan
from sluice.catalog.table_change import is_current, synced_until, table_change
from sluice.catalog.tables import LAST_COMMIT, METADATA_LOCATION, Wish, iceberg_table, names_of, wished_table
from sluice.catalog.views import wished_view
from sluice.config.catalog import CatalogNames
from sluice.config.table import TableConfig
from sluice.hudi.timeline import Commit, Instant, Timeline
from sluice.iceberg import metadata as iceberg
from sluice_aws.catalog.glue import GlueCatalog
from sluice_aws.errors import CatalogRaced, IcebergBehind
from sluice_aws.s3.iceberg_metadata import newest_metadata
from sluice_aws.s3.schemas import CommentStore
from sluice_aws.s3.timelines import TimelineReader

ATTEMPTS = 3  # of a sync that races with somebody else's change
MOST_COMMITS = 50  # that are read for their partitions; if more are new, the folders are listed instead
COMMITS_AT_ONCE = 8

Found = Mapping[str, Mapping[str, Any]]


class CatalogSync:
    """Syncs tables of one silver bucket. Deletes only partitions that have become empty."""

    def __init__(
        self, *, catalog: GlueCatalog, timelines: TimelineReader, comments: CommentStore, silver_bucket: str
    ) -> None:
        self._catalog = catalog
        self._timelines = timelines
        self._comments = comments
        self._silver = silver_bucket

    def sync(self, config: TableConfig, instant: str | None = None) -> CatalogPlan:
        """Bring the catalog up to the newest commit, and return the applied plan.

        With `instant`, a catalog that already shows that commit is left alone. Raises CatalogRaced if others keep
        changing the same table, IcebergBehind, after the sync, if a run could not write that commit's metadata, and the
        errors of `plan`.
        """
        for attempt in range(ATTEMPTS):
            try:
                # The first attempt assumes that tables are missing, and fails with a race if they aren't.
                plan = self.plan(config, instant, sure=attempt > 0)
                self._apply(plan)
                _require_iceberg(plan, names_of(config).iceberg, instant)
                return plan
            except CatalogRaced:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def plan(self, config: TableConfig, instant: str | None = None, *, sure: bool = True) -> CatalogPlan:
        """Plan a sync without applying it.

        Without `sure`, it takes fewer calls, and the plan may create a table or view that exists. Raises
        InvalidConfiguration (impossible names), NameTaken, PartitionKeysDiffer, UnusableCommitSchema and NoSuchCommit.
        """
        names = names_of(config)
        if not config.catalog.sync:
            return CatalogPlan(config.table, names.database, None)
        present = self._catalog.tables(names.database, names.all, sure=sure)
        stored = present or {}
        synced = [synced_until(stored.get(entry.table)) for entry in names.entries]
        since = min((one for one in synced if one), default=None) if all(synced) else None
        if (
            instant is not None
            and since is not None
            and since >= instant
            and self._current(config, names, stored, since)
        ):
            return CatalogPlan(config.table, names.database, since)
        timeline = self._timelines.timeline(config.table, since=since)
        if since is not None and not timeline.holds(since):  # archived, or rolled back
            timeline = self._timelines.timeline(config.table)
        newest = timeline.newest
        if newest is None or self._current(config, names, stored, newest.time):
            return CatalogPlan(config.table, names.database, None if newest is None else newest.time)
        return self._planned(config, names, present, timeline, newest)

    def found(self, config: TableConfig) -> Found | None:
        """The tables and views of a table in the catalog, by name; None if their database doesn't exist."""
        names = names_of(config)
        return self._catalog.tables(names.database, names.all)

    def wish(self, config: TableConfig) -> Wish | None:
        """The state of a table that the catalog should show, None before its first commit."""
        timeline = self._timelines.timeline(config.table)
        return None if timeline.newest is None else self._wish(config, names_of(config), timeline, timeline.newest)

    def _current(self, config: TableConfig, names: CatalogNames, present: Found, instant: str) -> bool:
        """True if all tables and views are as the last sync left them, and that sync showed this commit."""
        return (
            all(entry.table in present and is_current(present[entry.table], config, instant) for entry in names.entries)
            and all(
                entry.view in present and is_current(present[entry.view], config, None)
                for entry in names.entries
                if entry.view
            )
            and (names.iceberg is None or self._names_newest(config, present.get(names.iceberg), instant))
        )

    def _names_newest(self, config: TableConfig, present: Mapping[str, Any] | None, instant: str) -> bool:
        """True if an Iceberg table shows a commit by its newest metadata: a cleaning writes some without a commit."""
        if present is None or not is_current(present, config, instant):
            return False
        newest = newest_metadata(self._timelines.files, config.table)
        return newest is None or present["Parameters"][METADATA_LOCATION].endswith(f"/{newest[0]}")

    def _planned(
        self, config: TableConfig, names: CatalogNames, present: Found | None, timeline: Timeline, newest: Instant
    ) -> CatalogPlan:
        stored = present or {}
        wish = self._wish(config, names, timeline, newest)
        if not {column.glue_name for column in shown_columns(wish.columns)} <= _known_columns(names, stored):
            wish = self._wish(config, names, timeline, newest, self._comments.of(config.table))
        listed: dict[str, tuple[str, ...]] = {}  # the folders: one listing for both tables of merge-on-read
        tables: list[TablePlan] = []
        for entry in names.entries:
            before = stored.get(entry.table)
            change = table_change(wished_table(wish, entry.table, entry.kind, synced=newest.time), before, config)
            table = dict(before or {}) if change is None else change.table
            partitions = PartitionChange({})
            if config.partition_by:
                partitions = self._partitions(
                    config, names.database, wish.location, entry.table, before, timeline, listed
                )
                stale = (
                    self._staying(names.database, entry.table, partitions)
                    if change is not None and change.retyped
                    else partitions.update
                )
                partitions = replace(partitions, update=tuple(retyped(table, partition) for partition in stale))
            tables.append(TablePlan(table, change, partitions))
        tables += self._iceberg(config, names, wish.location, stored)
        views = (
            table_change(wished_view(wish, entry, entry.view), stored.get(entry.view), config)
            for entry in names.entries
            if entry.view
        )
        return CatalogPlan(
            config.table,
            names.database,
            newest.time,
            present is None,
            tuple(tables),
            tuple(view for view in views if view is not None),
        )

    def _iceberg(self, config: TableConfig, names: CatalogNames, location: str, stored: Found) -> list[TablePlan]:
        """The plan of the Iceberg table: its newest metadata, which was looked for after the catalog was read.

        Nothing where a run has yet to write metadata.
        """
        if names.iceberg is None or (newest := newest_metadata(self._timelines.files, config.table)) is None:
            return []
        name, metadata = newest
        wished = iceberg_table(
            config,
            names.iceberg,
            location=f"{location}/{iceberg.FOLDER}",
            metadata_location=f"{location}/{iceberg.FOLDER}/{iceberg.METADATA}/{name}",
            metadata=metadata,
        )
        before = stored.get(names.iceberg)
        change = table_change(wished, before, config)
        table = dict(before or {}) if change is None else change.table
        return [TablePlan(table, change, PartitionChange({}), (before or {}).get("VersionId"))]

    def _wish(
        self,
        config: TableConfig,
        names: CatalogNames,
        timeline: Timeline,
        newest: Instant,
        comments: Mapping[str, str] | None = None,
    ) -> Wish:
        """The wish with the schema of the newest commit that has one. A deletion of partitions has none."""
        schema = next(
            (
                commit.schema
                for commit in (self._timelines.commit(config.table, instant) for instant in reversed(timeline.commits))
                if commit.schema
            ),
            "",
        )
        return Wish(
            config,
            names,
            f"s3://{self._silver}/{config.database}/{config.name}",
            columns_of_commit(config.table, schema, comments),
            newest.time,
        )

    def _partitions(
        self,
        config: TableConfig,
        database: str,
        location: str,
        name: str,
        before: Mapping[str, Any] | None,
        timeline: Timeline,
        listed: dict[str, tuple[str, ...]],
    ) -> PartitionChange:
        """The change by the commits since the last sync or, if some are missing or too many, by the folders."""
        synced = synced_until(before)
        if (
            before is not None
            and synced is not None
            and timeline.holds(synced)
            and len(timeline.after(synced)) <= MOST_COMMITS
        ):
            written, gone = touched(self._commits(config.table, timeline.after(synced)))
            wanted = [values_of(config.table, path, config.partition_columns) for path in (*written, *gone)]
            there = self._catalog.partitions_of(database, name, wanted) if wanted else []
            return partition_change(
                config.table, config.partition_columns, location, stored=written, gone=gone, listed=there, whole=False
            )
        if "" not in listed:
            listed[""] = tuple(self._timelines.partition_paths(config.table, config.partition_columns))
        there = [] if before is None else self._catalog.partitions(database, name)
        return partition_change(
            config.table, config.partition_columns, location, stored=listed[""], listed=there, whole=True
        )

    def _staying(self, database: str, name: str, change: PartitionChange) -> list[Mapping[str, Any]]:
        """All partitions of the catalog that aren't dropped, at their right locations."""
        moved = {tuple(partition["Values"]): partition for partition in change.update}
        return [
            moved.get(tuple(one["Values"]), one)
            for one in self._catalog.partitions(database, name, columns=True)
            if tuple(one["Values"]) not in change.drop
        ]

    def _commits(self, table: str, instants: tuple[Instant, ...]) -> list[Commit]:
        if len(instants) < 2:
            return [self._timelines.commit(table, instant) for instant in instants]
        with ThreadPoolExecutor(COMMITS_AT_ONCE) as threads:
            return list(threads.map(lambda instant: self._timelines.commit(table, instant), instants))

    def _apply(self, plan: CatalogPlan) -> None:
        """Apply in an order that is safe to interrupt: the last commit is written last."""
        if plan.create_database:
            self._catalog.create_database(plan.database)
        for table in plan.tables:
            self._apply_table(plan.database, table)
        for view in plan.views:
            (self._catalog.create_table if view.create else self._catalog.update_table)(plan.database, view.table)

    def _apply_table(self, database: str, plan: TablePlan) -> None:
        creates = plan.change is not None and plan.change.create
        if creates:
            self._catalog.create_table(database, plan.table if plan.partitions.nothing else _unsynced(plan.table))
        self._catalog.update_partitions(database, plan.name, plan.partitions.update)
        self._catalog.add_partitions(
            database,
            plan.name,
            [partition_input(plan.table, values, path) for values, path in sorted(plan.partitions.add.items())],
        )
        self._catalog.drop_partitions(database, plan.name, plan.partitions.drop)
        if plan.change is not None and not (creates and plan.partitions.nothing):
            self._catalog.update_table(database, plan.table, version=plan.version)


def _require_iceberg(plan: CatalogPlan, name: str | None, instant: str | None) -> None:
    """Raise IcebergBehind where the Iceberg table of a plan is older than a commit that a run has ended with.

    A later commit may still be in the making, and one that was undone is required of nobody.
    """
    required = min(instant or "", plan.instant or "")
    for table in plan.tables:
        if table.name == name and (shown := synced_until(table.table) or "") < required:
            raise IcebergBehind(
                f"The Iceberg table of {plan.table} shows commit {shown}, not yet {required}",
                table=plan.table,
                instant=required,
                shown=shown,
            )


def _known_columns(names: CatalogNames, present: Found) -> set[str]:
    """The columns that all tables and views of the catalog have. Any other column may need a comment."""
    columns_by_name = [
        {
            str(column["Name"])
            for column in (
                *((present.get(name) or {}).get("StorageDescriptor") or {}).get("Columns", ()),
                *(present.get(name) or {}).get("PartitionKeys", ()),
            )
        }
        for name in names.all
    ]
    return set.intersection(*columns_by_name)


def _unsynced(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table before its partitions exist. A sync that finds it in this state lists the folders."""
    return {**table, "Parameters": {name: value for name, value in table["Parameters"].items() if name != LAST_COMMIT}}
