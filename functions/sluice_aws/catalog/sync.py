"""Brings the Glue catalog up to a table's newest commit: looks at both, plans the smallest change, and makes it.

Answers a request to sync one table: finds its configuration, syncs, says what was done.

Finds the configuration of a table by the table's name: rules name tables by topic, so its topic must be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from sluice.catalog.partitions import PartitionChange, partition_change, partition_input, retyped, touched, values_of
from sluice.catalog.plan import CatalogPlan, TablePlan, is_current, synced_until, table_change
from sluice.catalog.tables import LAST_COMMIT, Wish, columns_of_commit, names_of, shown_columns, wished_table
from sluice.catalog.views import wished_view
from sluice.config.catalog import CatalogNames
from sluice.config.pinned_topic import config_in_force
from sluice.config.table import TableConfig
from sluice.hudi.timeline import Commit, Instant, Timeline
from sluice.ledger.ports import Ledger
from sluice_aws.catalog.glue import GlueCatalog
from sluice_aws.errors import CatalogRaced, UnusableCatalogRequest
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.schemas import CommentStore
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.telemetry import Report

ATTEMPTS = 3  # of a sync that somebody else's change crossed
MOST_COMMITS = 50  # read for the partitions they wrote; behind by more, the folders are listed
COMMITS_AT_ONCE = 8

Found = Mapping[str, Mapping[str, Any]]


class CatalogSync:
    """Syncs tables of one silver bucket. Deletes nothing but partitions that hold nothing any more."""

    def __init__(
        self, *, catalog: GlueCatalog, timelines: TimelineReader, comments: CommentStore, silver_bucket: str
    ) -> None:
        self._catalog = catalog
        self._timelines = timelines
        self._comments = comments
        self._silver = silver_bucket

    def sync(self, config: TableConfig, instant: str | None = None) -> CatalogPlan:
        """Bring the catalog up to the newest commit; what was done. With `instant`, one that shows that commit is left alone.

        Raises CatalogRaced when others change the same table again and again, and what `plan` raises.
        """
        for attempt in range(ATTEMPTS):
            try:
                plan = self.plan(
                    config, instant, sure=attempt > 0
                )  # what was taken not to be there crosses the first attempt
                self._apply(plan)
                return plan
            except CatalogRaced:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def plan(self, config: TableConfig, instant: str | None = None, *, sure: bool = True) -> CatalogPlan:
        """What a sync would do, without doing it; not `sure`, by fewer calls and with the chance that a table or view is there that it would make.

        Raises InvalidConfiguration for impossible names, NameTaken, PartitionKeysDiffer, UnusableCommitSchema, NoSuchCommit.
        """
        names = names_of(config)
        if not config.catalog.sync:
            return CatalogPlan(config.table, names.database, None)
        found = self._catalog.tables(names.database, names.all, sure=sure)
        had = found or {}
        synced = [synced_until(had.get(entry.table)) for entry in names.entries]
        since = min((one for one in synced if one), default=None) if all(synced) else None
        if instant is not None and since is not None and since >= instant and self._current(config, names, had, since):
            return CatalogPlan(config.table, names.database, since)
        timeline = self._timelines.timeline(config.table, since=since)
        if since is not None and not timeline.holds(since):  # archived, or rolled back
            timeline = self._timelines.timeline(config.table)
        newest = timeline.newest
        if newest is None or self._current(config, names, had, newest.time):
            return CatalogPlan(config.table, names.database, None if newest is None else newest.time)
        return self._planned(config, names, found, timeline, newest)

    def found(self, config: TableConfig) -> Found | None:
        """What the catalog has of a table, by name; None where its database isn't there."""
        names = names_of(config)
        return self._catalog.tables(names.database, names.all)

    def wish(self, config: TableConfig) -> Wish | None:
        """What the catalog should say of a table; None where it has no commit yet."""
        timeline = self._timelines.timeline(config.table)
        return None if timeline.newest is None else self._wish(config, names_of(config), timeline, timeline.newest)

    def _current(self, config: TableConfig, names: CatalogNames, found: Found, instant: str) -> bool:
        """Whether every table and view is as the last sync left it, and that showed this commit."""
        return all(
            entry.table in found and is_current(found[entry.table], config, instant) for entry in names.entries
        ) and all(
            entry.view in found and is_current(found[entry.view], config, None) for entry in names.entries if entry.view
        )

    def _planned(
        self, config: TableConfig, names: CatalogNames, found: Found | None, timeline: Timeline, newest: Instant
    ) -> CatalogPlan:
        had = found or {}
        wish = self._wish(config, names, timeline, newest)
        if not {column.glue_name for column in shown_columns(wish.columns)} <= _known_columns(names, had):
            wish = self._wish(config, names, timeline, newest, self._comments.of(config.table))
        listed: dict[str, tuple[str, ...]] = {}  # the folders, listed once for both tables of merge-on-read
        tables: list[TablePlan] = []
        for entry in names.entries:
            before = had.get(entry.table)
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
        views = (
            table_change(wished_view(wish, entry, entry.view), had.get(entry.view), config)
            for entry in names.entries
            if entry.view
        )
        return CatalogPlan(
            config.table,
            names.database,
            newest.time,
            found is None,
            tuple(tables),
            tuple(view for view in views if view is not None),
        )

    def _wish(
        self,
        config: TableConfig,
        names: CatalogNames,
        timeline: Timeline,
        newest: Instant,
        comments: Mapping[str, str] | None = None,
    ) -> Wish:
        """With the schema of the newest commit that tells one: a deletion of partitions tells none."""
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
        """By the commits since the last sync where those are all there, else by the folders."""
        synced = synced_until(before)
        if (
            before is not None
            and synced is not None
            and timeline.holds(synced)
            and len(timeline.after(synced)) <= MOST_COMMITS
        ):
            written, gone = touched(self._commits(config.table, timeline.after(synced)))
            wanted = [values_of(config.table, path, config.partition_by) for path in (*written, *gone)]
            there = self._catalog.partitions_of(database, name, wanted) if wanted else []
            return partition_change(
                config.table, config.partition_by, location, stored=written, gone=gone, found=there, whole=False
            )
        if "" not in listed:
            listed[""] = tuple(self._timelines.partition_paths(config.table, config.partition_by))
        there = [] if before is None else self._catalog.partitions(database, name)
        return partition_change(config.table, config.partition_by, location, stored=listed[""], found=there, whole=True)

    def _staying(self, database: str, name: str, change: PartitionChange) -> list[Mapping[str, Any]]:
        """Every partition of the catalog that isn't dropped, at its right place."""
        moved = {tuple(partition["Values"]): partition for partition in change.update}
        return [
            moved.get(tuple(one["Values"]), one)
            for one in self._catalog.whole_partitions(database, name)
            if tuple(one["Values"]) not in change.drop
        ]

    def _commits(self, table: str, instants: tuple[Instant, ...]) -> list[Commit]:
        if len(instants) < 2:
            return [self._timelines.commit(table, instant) for instant in instants]
        with ThreadPoolExecutor(COMMITS_AT_ONCE) as threads:
            return list(threads.map(lambda instant: self._timelines.commit(table, instant), instants))

    def _apply(self, plan: CatalogPlan) -> None:
        """In an order that leaves nothing wrong wherever it ends: which commit is shown is told last."""
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
            self._catalog.update_table(database, plan.table)


def _known_columns(names: CatalogNames, found: Found) -> set[str]:
    """The columns that every table and view of the catalog has: what is new to one of them may come with a comment."""
    known = [
        {
            str(column["Name"])
            for column in (
                *((found.get(name) or {}).get("StorageDescriptor") or {}).get("Columns", ()),
                *(found.get(name) or {}).get("PartitionKeys", ()),
            )
        }
        for name in names.all
    ]
    return set.intersection(*known)


def _unsynced(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table before its partitions are there: who finds it like this lists the folders."""
    return {**table, "Parameters": {name: value for name, value in table["Parameters"].items() if name != LAST_COMMIT}}


class CatalogRequests:
    """The requests of one function."""

    def __init__(self, *, sync: CatalogSync, configuration: ConfigStore, ledger: Ledger, report: Report) -> None:
        self._sync = sync
        self._configuration = configuration
        self._ledger = ledger
        self._report = report

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sync the table of `table`; the plan that was carried out, as JSON values.

        Raises UnusableCatalogRequest, NotConfigured, and what CatalogSync.sync raises; of those, the retriable are CatalogRaced and NoSuchCommit.
        """
        table, instant = request.get("table"), request.get("instant")
        if not isinstance(table, str) or not table or not (instant is None or isinstance(instant, str)):
            raise UnusableCatalogRequest("The request names no table", found=str(dict(request))[:200])
        configuration = self._configuration.load_or_last(self._report)
        config = config_in_force(configuration, table, self._ledger.tables.get(table).pinned)
        plan = self._sync.sync(config, instant)
        report = plan.to_dict()
        self._report.event("catalog_synced" if report["changed"] else "catalog_is_current", **report)
        if report["changed"]:
            self._report.count(
                "CatalogSyncs"
            )  # by table it stands in the event: a metric costs by its dimensions, and tables may be thousands
            added = sum(one["partitions"]["added"] for one in report["tables"])
            if added:
                self._report.count("PartitionsAdded", added)
        return report
