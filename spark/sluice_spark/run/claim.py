"""Claims the next batch: from the pending objects to a written manifest and claimed objects.

`ConfigurationInForce` is reloaded between batches; an invalid file is reported, and the old one stays in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from sluice.admission.routing import by_time
from sluice.batch.claim import (
    Budget,
    ClaimPlan,
    PendingObject,
    Settling,
    TableState,
    claimable_at,
    configured_tables,
    fed_by,
    feeds,
    merged_as,
    plan_claim,
    ready_tables,
    refuse_settings,
    still_routed,
    still_wanted,
)
from sluice.batch.manifest import Manifest, TablePart, open_manifest
from sluice.config.document import Configuration
from sluice.config.lane import STAY_FOR_FRESHNESS_S, LaneConfig
from sluice.config.table import TableConfig
from sluice.errors import ChangeRefused, SluiceError, TwoTopics
from sluice.lane.job_policy import scope_of
from sluice.objects import ObjectId
from sluice.ports import Log
from sluice_spark.errors import LaneLost
from sluice_spark.log import Profile, describe
from sluice_spark.ports import Configurations
from sluice_spark.run.dumps import DumpStep
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.step import Ports, RunStep

FIRST_LOOK = 100  # pending objects read of each table: nearly always all of them
# What comes of a snapshot behind its table's first commit is merged as changes: 25,000 rows took 14 s so, where a first
# load of 192,000 rows took 6 s (local, by Spark). The objects of a snapshot come within moments of each other.
SETTLING = Settling(quiet_ms=700, most_ms=5_000)
ASKED_AT_ONCE = 16  # times of objects


@dataclass(frozen=True)
class Claimed:
    """A batch ready to be merged. The manifest's parts have only the objects that were claimed."""

    manifest: Manifest
    objects: frozenset[ObjectId]
    oldest_admitted_at: int
    profile: Profile


@dataclass(frozen=True)
class NothingClaimable:
    """When waiting objects come due, and until when those that wait for freshness keep the run alive (epoch ms)."""

    next_due_at: int | None
    keep_alive_until: int | None


class ClaimStep(RunStep):
    """Claims the next batch of a lane.

    Between calls it remembers which refusals were reported, and whose turn is next: isolated objects take turns with
    all others.
    """

    def __init__(self, ports: Ports, hold: LaneHold, configuration: ConfigurationInForce) -> None:
        super().__init__(ports, hold)
        self._configuration = configuration
        self._dumps = DumpStep(ports, hold)
        self._refusals: set[tuple[str, str]] = set()
        self._isolated_next = False
        self._unfinished: frozenset[str] = frozenset()  # tables of the batch before this look, if one was

    def take(self, unresolved: frozenset[str]) -> Claimed | NothingClaimable:
        """Claim what is claimable. `unresolved` tables have a part that must be finished before they get another."""
        profile = Profile()
        lane_name = self._hold.identity.lane
        unfinished, self._unfinished = self._unfinished, frozenset()
        with profile.stage("pending"):
            # The configuration is reloaded while the pending objects are queried.
            refreshed = self._ports.background.submit(self._configuration.refresh)
            lane = self._configuration.current.lane(lane_name)
            pending = self._ledger.pending.oldest(lane_name, min(FIRST_LOOK, lane.batch_objects))
            configuration = refreshed.result()
        pending = [item for item in pending if item.table not in unresolved]
        if self._configuration.outgrown:  # what came since waits for the run that merges it by the newer one
            return NothingClaimable(None, None)
        if not pending:
            return NothingClaimable(None, None)
        with profile.stage("plan"):
            configs = configured_tables(configuration, lane_name, pending)
            states = self._ledger.tables.get_many(sorted(configs))
            configs = self._without_refused(fed_by(configuration, lane_name, configs, states), states)
            now = self._clock.now_ms()
        with profile.stage("pending"):
            most = configuration.lane(lane_name).batch_objects
            pending, cut = self._filled(pending, configs, states, most, now, unfinished)
        with profile.stage("plan"):
            budget = budget_of(configuration.lane(lane_name))
            routed = still_routed(configuration, lane_name, pending)
            plan = plan_claim(
                routed,
                configs,
                states,
                budget,
                now,
                isolated_next=self._isolated_next,
                settling=SETTLING,
                unfinished=unfinished,
            )
            plan = self._dumps.checked(plan, pending, configs, configuration)
            self._report_others(
                pending, {table: config for table, config in configs.items() if table not in plan.objects}
            )
        if plan.empty:
            return NothingClaimable(plan.next_due_at, stays_for(plan, pending, configs, states, now))
        self._isolated_next = not plan.isolated
        self._unfinished = unfinished if plan.isolated else plan.unfinished | (cut & plan.objects.keys())
        return self._open(plan, configs, states, configuration, now, profile)

    def _filled(
        self,
        pending: list[PendingObject],
        configs: Mapping[str, TableConfig],
        states: Mapping[str, TableState],
        objects: int,
        now: int,
        unfinished: frozenset[str],
    ) -> tuple[list[PendingObject], frozenset[str]]:
        """Read more of the tables that can be claimed now, up to what the batch can take.

        Of the other tables it is enough to know that objects wait. Returns the objects, and the tables that may have
        more.
        """
        by_table: dict[str, list[PendingObject]] = {}
        for item in pending:
            by_table.setdefault(item.table, []).append(item)
        ready = sorted(ready_tables(pending, configs, states, now, SETTLING, unfinished))
        requested = dict.fromkeys(ready, min(FIRST_LOOK, objects))
        while True:
            wanted = still_wanted({table: len(by_table[table]) for table in ready}, requested, objects)
            if not wanted:
                cut = frozenset(table for table in ready if len(by_table[table]) >= requested[table])
                return [item for listed in by_table.values() for item in listed], cut
            requested.update(wanted)
            by_table.update({table: [] for table in wanted})
            for item in self._ledger.pending.oldest_of(self._hold.identity.lane, wanted):
                by_table[item.table].append(item)

    def _open(
        self,
        plan: ClaimPlan,
        configs: Mapping[str, TableConfig],
        states: Mapping[str, TableState],
        configuration: Configuration,
        now: int,
        profile: Profile,
    ) -> Claimed:
        """Write the manifest to S3, then the batch's items on condition of the hold, then claim each object.

        In this order a crash at any point leaves a batch that a take-over can finish.
        """
        me = self._hold.identity
        parts = {
            table: TablePart(
                merged_as(configs[table], items).to_dict(),
                tuple(item.in_manifest() for item in self._timed(items, configs[table])),
                states[table].watch if table in states else {},
                states[table].last_instant if table in states else None,
                states[table].history_instant if table in states else None,
            )
            for table, items in plan.objects.items()
        }
        manifest = open_manifest(me.lane, me.run, now, configuration.version, parts)
        with profile.stage("manifest"):
            key = self._manifests.put_manifest(manifest, self._hold.still_held)
        with profile.stage("open"):
            opened = key is not None and self._ledger.batches.open(manifest, key, me.run, me.job_run_id)
        if not opened:
            self._hold.lose()
            raise LaneLost(
                "The batch could not be opened: the lane is no longer held",
                lane=me.lane,
                run=me.run,
                batch=manifest.batch,
            )
        with profile.stage("claim"):
            claimed = frozenset(self._ledger.batches.claim(manifest))
        self._log.event(
            "claimed",
            batch=manifest.batch,
            objects=len(claimed),
            bytes=sum(part.bytes for part in parts.values()),
            tables={table: len(part.objects) for table, part in parts.items()},
            isolated=plan.isolated or None,
            configuration=configuration.version,
        )
        oldest = min(item.admitted_at for item in manifest.objects)
        return Claimed(restricted(manifest, claimed), claimed, oldest, profile)

    def _timed(self, items: Sequence[PendingObject], config: TableConfig) -> Sequence[PendingObject]:
        """The objects with their times, where these order them and admission didn't ask.

        An object that an earlier release merged keeps the order that its rows have: by their place in it.
        """
        missing = [
            item
            for item in items
            if item.modified_at is None
            and by_time(item.offset, config)
            and not (item.merged or item.first_batch is not None)
        ]
        if not missing:
            return items
        with ThreadPoolExecutor(ASKED_AT_ONCE, thread_name_prefix="arrival") as pool:
            times = dict(zip(missing, pool.map(lambda item: self._ports.arrival(item.id), missing)))
        return [replace(item, modified_at=times[item]) if item in times else item for item in items]

    def _without_refused(
        self, configs: Mapping[str, TableConfig], states: Mapping[str, TableState]
    ) -> dict[str, TableConfig]:
        """Leave out, and report once, tables with a changed setting that can't change in place (`pinned-settings`)."""
        configs_left = {}
        for table, config in configs.items():
            try:
                refuse_settings(config, states.get(table))
            except ChangeRefused as refusal:
                self._report(table, refusal)
            else:
                configs_left[table] = config
        return configs_left

    def _report_others(self, pending: list[PendingObject], configs: Mapping[str, TableConfig]) -> None:
        """Report objects that wait for a table which another topic feeds.

        `configs` has no table that is about to commit: settling would clear the report again.
        """
        for table, topic in sorted(
            {
                (item.table, item.topic)
                for item in pending
                if item.table in configs and not feeds(item, configs[item.table])
            }
        ):
            own = configs[table].topic
            self._report(
                table,
                TwoTopics(
                    f"Objects of topic {topic} wait for {table}, which topic {own} feeds",
                    table=table,
                    topic=topic,
                    fed_by=own,
                ),
            )

    def _report(self, table: str, refusal: SluiceError) -> None:
        if (table, refusal.message) not in self._refusals:
            self._refusals.add((table, refusal.message))
            self._log.failure("table_refused", refusal, table=table)
            # No back-off: only a corrected configuration helps, and that counts as an arrival.
            self._ledger.tables.record_error(table, str(refusal), self._clock.now_ms())


def budget_of(lane: LaneConfig) -> Budget:
    """The largest batch that this lane takes."""
    return Budget(objects=lane.batch_objects, bytes=lane.batch_bytes, rows=lane.batch_rows)


def stays_for(
    plan: ClaimPlan,
    pending: list[PendingObject],
    configs: Mapping[str, TableConfig],
    states: Mapping[str, TableState],
    now: int,
) -> int | None:
    """Until when (epoch ms) objects that wait for freshness alone, or settle, keep the run alive; None without any.

    Only objects that come due within STAY_FOR_FRESHNESS_S: an idle run costs as much as a working one, and a later
    start costs little beside a freshness of hours. For the others, and for tables in back-off, `due_at` starts a run.
    """
    moments = []
    if plan.next_due_at is not None and now < plan.next_due_at <= now + SETTLING.most_ms:
        moments.append(plan.next_due_at)
    for table in {item.table for item in pending}:
        state = states.get(table, TableState(table))
        at = claimable_at(configs.get(table), state)
        if at is not None and now < at <= now + STAY_FOR_FRESHNESS_S * 1000 and (state.backoff_until or 0) <= now:
            moments.append(at)
    return max(moments) if moments else None


def restricted(manifest: Manifest, objects: frozenset[ObjectId]) -> Manifest:
    """The manifest with only these of its objects, under the same batch id."""
    return replace(
        manifest,
        tables={
            table: replace(part, objects=tuple(item for item in part.objects if item.id in objects))
            for table, part in manifest.tables.items()
        },
    )


class ConfigurationInForce:
    """The last valid configuration. Each manifest has its own copy of its tables' settings."""

    def __init__(self, source: Configurations, log: Log, *, lane: str, scope: str) -> None:
        """`scope` names the tables that the run's policy lets it write (`sluice.lane.job_policy`); empty for all."""
        self._source = source
        self._lane = lane
        self._scope = scope
        self._log = log
        self._reported: str | None = None
        self.current = Configuration()  # of no table, so that nothing is claimable before a file was read
        # A newer configuration gives the lane other tables than this run's policy covers, which ends the run.
        self.outgrown = False

    def refresh(self) -> Configuration:
        """Load the file if it changed. An invalid or missing file changes nothing and is reported once.

        Raises errors that aren't about the file's content (no connection, no permission).
        """
        try:
            changed = self._source.load_if_changed()
        except SluiceError as error:
            self._report(describe(error), error)
            return self.current
        if changed is not None:
            self.outgrown = bool(self._scope) and scope_of(changed, self._lane).name != self._scope
            if self.outgrown:
                self._log.event("configuration_outgrown", version=changed.version, in_force=self.current.version)
                return self.current
        if changed is not None and changed.version != self.current.version:
            self._log.event("configuration", version=changed.version, before=self.current.version)
            self.current = changed
        self._reported = None
        return self.current

    def _report(self, described: str, error: SluiceError) -> None:
        if described != self._reported:
            self._reported = described
            self._log.failure("configuration_broken", error, in_force=self.current.version)
