"""What a run may claim now, shared fairly between tables within a budget, and when the rest comes due.

How long what isn't committed in a lane has waited, and by how much that is too long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic, config_by_topic
from sluice.config.table import TableConfig, refuse_changes
from sluice.errors import ChangeRefused
from sluice.objects import ObjectId


@dataclass(frozen=True)
class PendingObject:
    """An object that waits. `size` in bytes, `admitted_at` epoch ms, `shard` the part of the lane it is listed under.

    `generation` is the one that it must be merged under where that isn't its table's: its table is being rebuilt.
    """

    id: ObjectId
    table: str
    size: int
    admitted_at: int
    schema: str | None
    format: str
    topic: str
    kafka_partition: int | None
    offset: int | None
    shard: int
    attempt: int = 0
    merged: bool = False
    rows_aside: str | None = None
    generation: int | None = None

    @property
    def age_order(self) -> tuple[int, str]:
        """Oldest first; the hash makes the order total."""
        return self.admitted_at, self.id.hash


@dataclass(frozen=True)
class TableState:
    """What the ledger knows of a table. Times are epoch ms; `pinned` is what its data was written with, None without data.

    `notes` are what an operator should look at: of the last batch that had any, until one has rows to write and none.
    `services` is by service when and where the last one ended well, and the totals when it began (since_service.since); `services_since` is when the table was first
    looked at for services, `catalog_failed` when (`at`) and of what (`error`) its last sync with the catalog failed, None after a good one. `rebuild` is set while `sluice rebuild table` moves its data away. `watch` is
    KafkaWatch.to_dict(). `purge_floors` is the highest position of a row that was removed for good, by generation.
    """

    table: str
    last_commit_at: int | None = None
    last_instant: str | None = None
    last_batch: str | None = None
    last_error: str | None = None
    failures: int = 0
    backoff_until: int | None = None
    paused: bool = False
    pinned: Mapping[str, Any] | None = field(default=None, hash=False)
    totals: Mapping[str, int] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()
    purge_floors: Mapping[str, str] = field(default_factory=dict, hash=False)
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    watch: Mapping[str, Any] = field(default_factory=dict, hash=False)
    services_since: int | None = None
    catalog_failed: Mapping[str, Any] | None = field(default=None, hash=False)
    rebuild: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Budget:
    """The most that one batch takes: objects, bytes as stored, and about so many rows (None: any number).

    Nothing tells an object's rows before it is read: they are estimated from what the table's objects held so far.
    """

    objects: int
    bytes: int
    rows: int | None = None


@dataclass(frozen=True)
class ClaimPlan:
    """What to claim now, by table, oldest first; `next_due_at` is when something that waits becomes claimable.

    It is now when the budget left claimable objects, and None when all that waits is paused or unconfigured.
    """

    objects: Mapping[str, tuple[PendingObject, ...]] = field(hash=False)
    next_due_at: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is claimable now."""
        return not self.objects

    def due_at_release(self, now: int) -> int | None:
        """The lane's `due_at` for a run that ends without claiming this plan: now if there is anything in it."""
        return now if self.objects else self.next_due_at


def claimable_at(config: TableConfig | None, state: TableState) -> int | None:
    """From when the pending objects of a table may be claimed (epoch ms); None while it is paused, unconfigured or being moved away."""
    if config is None or config.paused or state.paused or state.rebuild:
        return None
    fresh_at = 0 if state.last_commit_at is None else state.last_commit_at + config.freshness_s * 1000
    return max(fresh_at, state.backoff_until or 0)


def claimable(config: TableConfig | None, state: TableState, now: int) -> bool:
    """Whether a table's pending objects may be claimed now: configured, not paused, not in back-off, freshness elapsed."""
    at = claimable_at(config, state)
    return at is not None and at <= now


def configured_tables(
    configuration: Configuration, lane: str, pending: Iterable[PendingObject]
) -> dict[str, TableConfig]:
    """The configuration of each pending table, as far as its topic still goes to that table and this lane."""
    found: dict[str, TableConfig] = {}
    for topic, table in sorted({(item.topic, item.table) for item in pending}):
        config = config_by_topic(configuration, topic, table, lane=lane)
        if config is not None:
            found.setdefault(table, config)
    return found


def fed_by(
    configuration: Configuration, lane: str, configs: Mapping[str, TableConfig], states: Mapping[str, TableState]
) -> dict[str, TableConfig]:
    """Each table's configuration by the one topic that feeds it: the one its data came from, as long as that goes to it, else that of `configs`.

    A rule's expression may give the topics of two sources one table. Their rows would take each other's keys, and their positions are of two logs.
    """
    pinned = {table: state.pinned for table, state in states.items()}
    return {
        table: config_by_pinned_topic(configuration, table, pinned.get(table), lane=lane) or config
        for table, config in configs.items()
    }


def feeds(item: PendingObject, config: TableConfig | None) -> bool:
    """Whether an object is of the topic that feeds its table."""
    return config is not None and item.topic in ("", config.topic)  # a record of before topics were kept tells none


def claimable_tables(
    configuration: Configuration,
    lane: str,
    pending: Iterable[PendingObject],
    states: Mapping[str, TableState],
    now: int,
) -> tuple[str, ...]:
    """The tables of which a run would claim something now: what a sweep may start one for, or it would start them for ever."""
    waiting = list(pending)
    configs = fed_by(configuration, lane, configured_tables(configuration, lane, waiting), states)
    fed = {item.table for item in waiting if feeds(item, configs.get(item.table))}
    return tuple(
        table
        for table, config in configs.items()
        if table in fed
        and claimable(config, states.get(table, TableState(table)), now)
        and not _refused(config, states.get(table))
    )


def _refused(config: TableConfig, state: TableState | None) -> bool:
    try:
        refuse_changes(config, state.pinned if state else None)
    except ChangeRefused:
        return True
    return False


def still_wanted(found: Mapping[str, int], asked: Mapping[str, int], objects: int) -> dict[str, int]:
    """How many objects to read of which claimable tables so that a batch of so many can be filled in turns; empty: enough is read.

    `found` is how many were read of each when `asked` for so many: one that gave fewer has no more. Each further look gives those that have
    more equal parts of what the batch still lacks, so all looks together read about twice a batch, however long the backlogs are.
    """
    cut = [table for table, number in found.items() if number >= asked[table]]
    lacking = objects - sum(found.values())
    if not cut or lacking <= 0:
        return {}
    more = -(-lacking // len(cut))
    return {table: asked[table] + more for table in cut}


def plan_claim(
    pending: Iterable[PendingObject],
    configs: Mapping[str, TableConfig],
    states: Mapping[str, TableState],
    budget: Budget,
    now: int,
) -> ClaimPlan:
    """Take from the tables in turns, beginning with the one that waits longest, oldest first inside each.

    A table whose next object would burst the budget of bytes or rows takes nothing more in this batch; the very
    first object is always taken, or one larger than the budget would wait for ever. Of a table that is being rebuilt the
    objects of one generation are taken, the lowest. Objects of another topic than their table's own wait (`fed_by`).
    A table missing from `states` has never been committed.
    """
    waiting: dict[str, list[PendingObject]] = {}
    for item in pending:
        if feeds(item, configs.get(item.table)):
            waiting.setdefault(item.table, []).append(item)
    due = {table: claimable_at(configs.get(table), states.get(table, TableState(table))) for table in waiting}
    later = [at for at in due.values() if at is not None and at > now]
    queues: dict[str, deque[PendingObject]] = {}
    for table, items in waiting.items():
        at = due[table]
        if at is not None and at <= now:
            chosen = _of_one_generation(items, configs[table])
            queues[table] = deque(sorted(chosen, key=lambda item: item.age_order))
            if len(chosen) < len(items):
                later.append(now)
    taken = _in_turns(
        queues, budget, {table: rows_per_byte(states[table]) if table in states else 0.0 for table in queues}
    )
    if any(queues.values()):
        later.append(now)
    return ClaimPlan({table: tuple(items) for table, items in taken.items()}, min(later) if later else None)


def merged_as(config: TableConfig, items: Sequence[PendingObject]) -> TableConfig:
    """A table's configuration for a batch with these objects of it, which are of one generation."""
    generation = items[0].generation
    return config if generation is None else replace(config, generation=generation)


def _of_one_generation(items: Sequence[PendingObject], config: TableConfig) -> list[PendingObject]:
    """Those of the lowest: a part has one configuration, and its generation is the first part of every position."""
    numbers = [config.generation if item.generation is None else item.generation for item in items]
    lowest = min(numbers)
    return [item for item, number in zip(items, numbers) if number == lowest]


def rows_per_byte(state: TableState) -> float:
    """How many changes a byte of the table's objects held so far, by its totals; 0 where nothing is known yet."""
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
