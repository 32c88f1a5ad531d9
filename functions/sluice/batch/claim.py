"""Plans a claim: which pending objects a run takes now, fairly between tables, and when the others become due."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sluice.batch.isolation import Cohort
from sluice.batch.kafka_watch import KafkaWatch
from sluice.batch.manifest import ManifestObject
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic, config_by_topic
from sluice.config.table import TableConfig, refuse_changes
from sluice.errors import ChangeRefused


@dataclass(frozen=True)
class PendingObject(ManifestObject):
    """An object that waits to be claimed for `table`; `shard` is the part of the lane that lists it.

    `generation` is set while the table is being rebuilt: the object is merged under it instead of the table's own.
    `replayed_at` (epoch ms) is set with `first_batch`.
    """

    table: str = ""
    shard: int = 0
    generation: int | None = None
    replayed_at: int | None = None

    @property
    def waits_since(self) -> int:
        """The time (epoch ms) from which the object waits for a run: a replayed one was readable until then."""
        return self.admitted_at if self.replayed_at is None else self.replayed_at

    @property
    def age_order(self) -> tuple[int, str]:
        """Sort key for oldest first. The hash makes the order total."""
        return self.admitted_at, self.id.hash

    def in_manifest(self) -> ManifestObject:
        """The object as a batch's manifest has it once it is claimed."""
        return ManifestObject(**{of.name: getattr(self, of.name) for of in fields(ManifestObject)})


@dataclass(frozen=True)
class TableState:
    """The ledger's item of a table. Times are in epoch ms.

    - `last_commit_at`: when a part of it was last committed, though it changed nothing; freshness counts from it.
    - `last_instant`: its last Hudi commit, and `last_instant_at` when readers saw it; None of an earlier release's.
    - `history_instant`: the newest commit of its history table that an outcome named.
    - `pinned`: the settings its data was written with, None without data.
    - `notes`: remarks for the operator, kept until a later batch writes rows without any.
    - `services`: by service, when and where the last one succeeded, and the totals when it began.
    - `services_since`: when the table was first checked for services.
    - `catalog_failed`: when (`at`) and why (`error`) the last catalog sync failed, None after a success.
    - `blocked`: why (`code`, `error`, `next_step`) and since when (`at`) an operator must decide about the table.
    - `rebuild`: set while `sluice rebuild table` moves the data away.
    - `watch`: KafkaWatch.to_dict().
    - `purge_floors`: by generation, the highest position of a row that was purged.
    """

    table: str
    last_commit_at: int | None = None
    last_instant: str | None = None
    last_instant_at: int | None = None
    history_instant: str | None = None
    last_batch: str | None = None
    last_error: str | None = None
    failures: int = 0
    backoff_until: int | None = None
    pinned: Mapping[str, Any] | None = field(default=None, hash=False)
    totals: Mapping[str, int] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()
    purge_floors: Mapping[str, str] = field(default_factory=dict, hash=False)
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    watch: Mapping[str, Any] = field(default_factory=dict, hash=False)
    services_since: int | None = None
    catalog_failed: Mapping[str, Any] | None = field(default=None, hash=False)
    rebuild: Mapping[str, Any] | None = field(default=None, hash=False)
    blocked: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Budget:
    """The limits of one batch: objects, bytes as stored, and rows (None: any number).

    The rows of an object are known only once it is read, so they are estimated from the table's earlier objects.
    """

    objects: int
    bytes: int
    rows: int | None = None


@dataclass(frozen=True)
class Settling:
    """How long a run waits for more objects of a table without a commit, whose first load takes them best together.

    Until `quiet_ms` have passed without another object, and no longer than `most_ms` since the first one. A run whose
    clock is further than that behind the clock of admission doesn't wait.
    """

    quiet_ms: int
    most_ms: int

    def until(self, items: Iterable[PendingObject], now: int) -> int:
        """The time (epoch ms) from which these objects are claimed, at most `most_ms` after `now`."""
        arrived = [item.admitted_at for item in items]
        at = min(max(arrived) + self.quiet_ms, min(arrived) + self.most_ms)
        return at if at <= now + self.most_ms else now


@dataclass(frozen=True)
class ClaimPlan:
    """The objects to claim now, by table and oldest first, and when the next ones become claimable.

    `next_due_at` (epoch ms) is now when the budget left claimable objects behind, and None when only objects of paused
    or unconfigured tables are pending. `isolated`: the objects are a cohort, and are merged with nothing beside them.
    `unfinished` are the tables that the batch doesn't bring up to date: its limits leave objects of them, or it is the
    first one, during which the rest of a load arrives. What waits of them after it doesn't wait for their freshness.
    """

    objects: Mapping[str, tuple[PendingObject, ...]] = field(hash=False)
    next_due_at: int | None = None
    isolated: bool = False
    unfinished: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        return not self.objects

    def due_at_release(self, now: int) -> int | None:
        """The lane's `due_at` when a run ends without claiming this plan: now, unless the plan is empty."""
        return now if self.objects else self.next_due_at


def claimable_at(config: TableConfig | None, state: TableState, *, isolated: bool = False) -> int | None:
    """The time (epoch ms) from which a table's pending objects may be claimed.

    None while the table is paused, unconfigured, blocked or being rebuilt. `isolated` objects, those of a cohort, have
    waited long enough: they don't wait for the table's freshness.
    """
    if config is None or config.paused or state.blocked or state.rebuild:
        return None
    fresh_at = 0 if isolated or state.last_commit_at is None else state.last_commit_at + config.freshness_s * 1000
    return max(fresh_at, state.backoff_until or 0)


def configured_tables(
    configuration: Configuration, lane: str, pending: Iterable[PendingObject]
) -> dict[str, TableConfig]:
    """The configuration of each table with pending objects, as far as their topic feeds the table and lane now."""
    configs: dict[str, TableConfig] = {}
    for topic, table in sorted({(item.topic, item.table) for item in pending}):
        config = config_by_topic(configuration, topic, table, lane=lane)
        if config is not None:
            configs.setdefault(table, config)
    return configs


def fed_by(
    configuration: Configuration, lane: str, configs: Mapping[str, TableConfig], states: Mapping[str, TableState]
) -> dict[str, TableConfig]:
    """Each table's configuration by the topic that feeds it: its pinned topic if that still does, else `configs`.

    A rule's pattern may route the topics of two sources to one table. Their rows would overwrite each other, and their
    positions come from two logs, so only one topic feeds the table, unless its rule allows `several_topics`.
    """
    pinned = {table: state.pinned for table, state in states.items()}
    return {
        table: config_by_pinned_topic(configuration, table, pinned.get(table), lane=lane) or config
        for table, config in configs.items()
    }


def feeds(item: PendingObject, config: TableConfig | None) -> bool:
    """True if an object is of a topic that feeds its table, which its topic goes to (`still_routed`)."""
    if config is None:
        return False
    return config.several_topics or item.topic in ("", config.topic)  # "": a record made before topics were kept


def still_routed(configuration: Configuration, lane: str, pending: Iterable[PendingObject]) -> list[PendingObject]:
    """The pending objects whose topic goes to their table and lane now."""
    waiting = list(pending)
    routes = {(item.topic, item.table) for item in waiting}
    routed = {route for route in routes if not route[0] or config_by_topic(configuration, *route, lane=lane)}
    return [item for item in waiting if (item.topic, item.table) in routed]


def first_due_at(
    configuration: Configuration, lane: str, pending: Iterable[PendingObject], states: Mapping[str, TableState]
) -> int | None:
    """When (epoch ms) the first of a lane's pending objects may be claimed; None if none ever may, as things are."""
    waiting = still_routed(configuration, lane, pending)
    configs = fed_by(configuration, lane, configured_tables(configuration, lane, waiting), states)
    kinds = {(item.table, item.cohort is not None) for item in waiting if feeds(item, configs.get(item.table))}
    moments = [
        claimable_at(configs.get(table), states.get(table, TableState(table)), isolated=isolated)
        for table, isolated in kinds
    ]
    return min((at for at in moments if at is not None), default=None)


def claimable_tables(
    configuration: Configuration,
    lane: str,
    pending: Iterable[PendingObject],
    states: Mapping[str, TableState],
    now: int,
) -> tuple[str, ...]:
    """The tables from which a run would claim objects now.

    A sweep starts runs for these tables only; otherwise it would start runs that find nothing, without end.
    """
    waiting = still_routed(configuration, lane, pending)
    configs = fed_by(configuration, lane, configured_tables(configuration, lane, waiting), states)
    ready = ready_tables(waiting, configs, states, now)
    return tuple(
        table for table, config in configs.items() if table in ready and not _refused(config, states.get(table))
    )


def ready_tables(
    pending: Iterable[PendingObject],
    configs: Mapping[str, TableConfig],
    states: Mapping[str, TableState],
    now: int,
    settling: Settling | None = None,
    unfinished: Collection[str] = (),
) -> frozenset[str]:
    """The tables of which some pending object may be claimed now; the arguments are those of `plan_claim`."""
    kinds: dict[tuple[str, bool], list[PendingObject]] = {}
    for item in pending:
        if feeds(item, configs.get(item.table)):
            kinds.setdefault((item.table, item.cohort is not None), []).append(item)
    moments = {
        (table, isolated): _due_at(
            items, configs.get(table), states.get(table, TableState(table)), settling, now, table in unfinished
        )
        for (table, isolated), items in kinds.items()
    }
    return frozenset(table for (table, _), at in moments.items() if at is not None and at <= now)


def _due_at(
    items: Sequence[PendingObject],
    config: TableConfig | None,
    state: TableState,
    settling: Settling | None,
    now: int,
    unfinished: bool,
) -> int | None:
    """When (epoch ms) a run may claim these objects, all of one cohort or of none; None as `claimable_at` has it."""
    isolated = items[0].cohort is not None
    at = claimable_at(config, state, isolated=isolated or unfinished)
    if at is None or isolated or settling is None or state.last_commit_at is not None:
        return at
    return max(at, settling.until(items, now))


def refuse_settings(config: TableConfig, state: TableState | None, *, what: str = "data") -> None:
    """Refuse settings by which a table's objects can't be merged: changed ones that are fixed, and a lower generation.

    A configuration of before a generation rose gives a lower one, and every change would lose to the rows since then.
    `what` is that of `refuse_changes`. Raises ChangeRefused.
    """
    if state is None or not state.pinned:
        return
    refuse_changes(config, state.pinned, what=what)
    merged = KafkaWatch.from_dict(state.watch).generation
    if config.generation < merged:
        raise ChangeRefused(
            f"{config.table} has {what} of generation {merged}, and every change of generation {config.generation} "
            f"would lose to it: give it `generation: {merged}`",
            next_step="Raise `generation` in tables.yaml and run `sluice config push`",
            table=config.table,
            changes={"generation": (merged, config.generation)},
        )


def _refused(config: TableConfig, state: TableState | None) -> bool:
    try:
        refuse_settings(config, state)
    except ChangeRefused:
        return True
    return False


def still_wanted(available: Mapping[str, int], requested: Mapping[str, int], objects: int) -> dict[str, int]:
    """How many objects to read next of each claimable table to fill a batch of `objects`; empty when enough is read.

    `available` counts the objects read of each table so far, `requested` how many were requested: a table that returned
    fewer has no more. The others share equally what the batch still lacks, so that all reads together come to about
    twice a batch, however long the backlogs are.
    """
    cut = [table for table, number in available.items() if number >= requested[table]]
    lacking = objects - sum(available.values())
    if not cut or lacking <= 0:
        return {}
    more = -(-lacking // len(cut))
    return {table: requested[table] + more for table in cut}


def plan_claim(
    pending: Iterable[PendingObject],
    configs: Mapping[str, TableConfig],
    states: Mapping[str, TableState],
    budget: Budget,
    now: int,
    *,
    isolated_next: bool = False,
    settling: Settling | None = None,
    unfinished: Collection[str] = (),
) -> ClaimPlan:
    """Take objects from the tables in turns, starting with the table that has waited longest, oldest objects first.

    A table whose next object would exceed the budget of bytes or rows gets no further turn. The very first object is
    always taken: one larger than the budget would otherwise wait for ever. A table that is being rebuilt gives objects
    of its lowest generation only. Objects of a topic that doesn't feed their table stay pending (`fed_by`). A table
    missing from `states` was never committed: its objects are taken once no more of them come (`settling`). Of
    `unfinished` tables, by the plan before, objects are taken whatever their freshness.

    Objects of a cohort are taken with no others: where nothing else is claimable, or where it is their turn
    (`isolated_next`). The cohort that was divided least comes first, so that what is least suspect is merged first.
    """
    waiting: dict[tuple[str, str | None], list[PendingObject]] = {}
    for item in pending:
        if feeds(item, configs.get(item.table)):
            waiting.setdefault((item.table, item.cohort), []).append(item)
    later: list[int] = []
    groups: dict[tuple[str, str | None], deque[PendingObject]] = {}
    for (table, cohort), items in waiting.items():
        state = states.get(table, TableState(table))
        at = _due_at(items, configs.get(table), state, settling, now, table in unfinished)
        if at is not None and at > now:
            later.append(at)
        elif at is not None:
            chosen = _of_one_generation(items, configs[table])
            groups[table, cohort] = deque(sorted(chosen, key=lambda item: item.age_order))
            if len(chosen) < len(items):
                later.append(now)
    queues = {table: queue for (table, cohort), queue in groups.items() if cohort is None}
    cohorts = sorted((Cohort.from_text(cohort), table, cohort) for table, cohort in groups if cohort is not None)
    isolated = bool(cohorts) and (isolated_next or not queues)
    if isolated:
        _, table, cohort = cohorts[0]
        queues = {table: groups[table, cohort]}
    taken = _in_turns(
        queues, budget, {table: rows_per_byte(states[table]) if table in states else 0.0 for table in queues}
    )
    if any(groups.values()):
        later.append(now)
    objects = {table: tuple(items) for table, items in taken.items()}
    # A dump is claimed once it is complete, however it arrives.
    never = (table for table in objects if states.get(table, TableState(table)).last_commit_at is None)
    first = {table for table in never if not configs[table].snapshot.replace}
    unfinished = first.union(table for table, queue in queues.items() if queue)
    return ClaimPlan(objects, min(later) if later else None, isolated, frozenset(unfinished))


def merged_as(config: TableConfig, items: Sequence[PendingObject]) -> TableConfig:
    """A table's configuration for a batch with these objects, which are all of one generation."""
    generation = items[0].generation
    return config if generation is None else replace(config, generation=generation)


def _of_one_generation(items: Sequence[PendingObject], config: TableConfig) -> list[PendingObject]:
    """The objects of the lowest generation: a part has one configuration, and so one generation."""
    numbers = [config.generation if item.generation is None else item.generation for item in items]
    lowest = min(numbers)
    return [item for item, number in zip(items, numbers) if number == lowest]


def rows_per_byte(state: TableState) -> float:
    """The changes per byte of a table's objects so far, by its totals; 0 before the first batch."""
    read = state.totals.get("bytes_read", 0)
    return state.totals.get("read", 0) / read if read else 0.0


def _in_turns(
    queues: Mapping[str, deque[PendingObject]], budget: Budget, density: Mapping[str, float]
) -> dict[str, list[PendingObject]]:
    taken: dict[str, list[PendingObject]] = {}
    objects = total = 0
    rows = 0.0
    turns = deque(sorted(queues, key=lambda table: queues[table][0].age_order))
    while turns and objects < budget.objects:
        table = turns.popleft()
        size = queues[table][0].size
        more = size * density[table]
        if objects and (total + size > budget.bytes or budget.rows is not None and rows + more > budget.rows):
            continue
        taken.setdefault(table, []).append(queues[table].popleft())
        objects, total, rows = objects + 1, total + size, rows + more
        if queues[table]:
            turns.append(table)
    return taken
