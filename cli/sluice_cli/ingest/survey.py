"""What `sluice wait` concludes from a listing of bronze, the ledger's records and the lanes.

Which tables no run will claim from as things are, though objects of theirs wait: what `sluice wait` would wait for in vain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.batch.claim import TableState, claimable_at, fed_by
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic
from sluice.errors import TwoTopics
from sluice.lane.machine import HALTED, IDLE, PAUSED, RUNNING, STARTING, LaneState, wants_run
from sluice.ledger.keys import CLAIMED, PARKED, PENDING, QUARANTINED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.terminal.output import counted, human_age

UNSEEN = "unseen"  # listed in bronze, not in the ledger: its notice is still on the way
UNSETTLED = (UNSEEN, PENDING, CLAIMED)
TABLES_TOLD = 2
_ORDER = ("committed", "claimed", "pending", UNSEEN, "ignored", "superseded", "parked", "quarantined")


@dataclass(frozen=True)
class WaitingObject:
    """An object that isn't settled: its state, and where it waits as far as the ledger knows."""

    id: ObjectId
    state: str
    lane: str | None
    table: str | None


@dataclass(frozen=True)
class Survey:
    """Where the listed objects are. `counts` by state; `halted` and `paused` are the lanes that hold some of what waits.

    `with_rows` are committed objects of which rows are quarantined.
    """

    counts: Mapping[str, int]
    waiting: tuple[WaitingObject, ...]
    parked: tuple[ObjectRecord, ...]
    quarantined: tuple[ObjectRecord, ...]
    halted: tuple[LaneState, ...]
    lanes: tuple[LaneState, ...]
    with_rows: tuple[ObjectRecord, ...] = ()
    paused: tuple[LaneState, ...] = ()

    def waiting_in(self, lane: str) -> int:
        """How many objects wait in a lane."""
        return sum(item.lane == lane for item in self.waiting)

    @property
    def quarantined_rows(self) -> int:
        """How many rows of committed objects are quarantined."""
        return sum(record.quarantined_rows for record in self.with_rows)

    @property
    def settled(self) -> bool:
        """Whether nothing is pending, claimed or unseen."""
        return not self.waiting

    @property
    def clean(self) -> bool:
        """Whether besides nothing is parked or quarantined, no row either."""
        return self.settled and not self.parked and not self.quarantined and not self.with_rows


def survey(listed: Iterable[ObjectId], records: Mapping[ObjectId, ObjectRecord], lanes: Iterable[LaneState]) -> Survey:
    """Compare a listing with the ledger's records of it; `lanes` are all that the ledger knows."""
    counts: Counter[str] = Counter()
    waiting: list[WaitingObject] = []
    parked: list[ObjectRecord] = []
    quarantined: list[ObjectRecord] = []
    with_rows: list[ObjectRecord] = []
    for identity in listed:
        record = records.get(identity)
        state = UNSEEN if record is None else record.state
        counts[state] += 1
        if state in UNSETTLED:
            waiting.append(
                WaitingObject(identity, state, record.lane if record else None, record.table if record else None)
            )
        elif record is not None and state == PARKED:
            parked.append(record)
        elif record is not None and state == QUARANTINED:
            quarantined.append(record)
        if record is not None and record.quarantined_rows:
            with_rows.append(record)
    concerned = {item.lane for item in waiting}
    known = tuple(lanes)
    return Survey(
        counts=dict(counts),
        waiting=tuple(waiting),
        parked=tuple(parked),
        quarantined=tuple(quarantined),
        halted=tuple(lane for lane in known if lane.state == HALTED and lane.lane in concerned),
        lanes=tuple(lane for lane in known if lane.lane in concerned or lane.state in (STARTING, RUNNING)),
        with_rows=tuple(with_rows),
        paused=tuple(lane for lane in known if lane.state == PAUSED and lane.lane in concerned),
    )


def describe_counts(counts: Mapping[str, int]) -> str:
    """`30 committed, 5 claimed, 2 pending`; what there is none of is left out."""
    names = [*_ORDER, *sorted(set(counts) - set(_ORDER))]
    return ", ".join(f"{counts[name]:,} {name}" for name in names if counts.get(name)) or "no objects"


def describe_lane(lane: LaneState, now: int) -> str:
    """What a lane is doing, in a few words. `now` is epoch ms."""
    if lane.state == STARTING:
        since = f" ({human_age(now - lane.start_requested_at)})" if lane.start_requested_at else ""
        return f"Spark is starting{since}" if lane.job_run_id else f"a run is requested{since}"
    if lane.state == RUNNING:
        ending = ", pauses after its batch" if lane.pause_requested else ""
        return f"Spark is running{f' for {human_age(now - lane.held_at)}' if lane.held_at else ''}{ending}"
    if lane.state == HALTED:
        return f"halted after {counted(lane.failures, 'failed run')}{f': {lane.reason}' if lane.reason else ''}"
    if lane.state == PAUSED:
        return "paused"
    if lane.state == IDLE and lane.backoff_until is not None and lane.backoff_until > now:
        failed = counted(lane.failures + lane.capacity_failures, "failed run")
        return f"backs off for {human_age(lane.backoff_until - now)} after {failed}{f': {lane.reason}' if lane.reason else ''}"
    if wants_run(lane, now):
        return "a run is due"
    if lane.due_at is not None:
        return f"idle, due in {human_age(lane.due_at - now)}"
    return "idle"


def describe_tables(
    found: Survey, states: Iterable[TableState], configuration: Configuration | None, now: int
) -> tuple[str, ...]:
    """Why tables whose objects are pending aren't claimed yet, in a few words each: freshness or back-off. `now` is epoch ms."""
    pending = {item.table for item in found.waiting if item.state == PENDING}
    summary = []
    for state in sorted((state for state in states if state.table in pending), key=lambda state: state.table):
        config = config_by_pinned_topic(configuration, state.table, state.pinned)
        if config is None:
            continue  # nothing of it was ever committed, so it waits for nothing, or no rule takes its topic now
        at = claimable_at(config, state)
        if at is not None and at > now:  # what nothing is claimed of at all ends the wait
            why = (
                f"{state.table} failed and backs off"
                if at == state.backoff_until
                else f"{state.table} is committed every {human_age(config.freshness_s * 1000)} at most (freshness)"
            )
            summary.append(f"{why}: next in {human_age(at - now + 999)}")
    return tuple(summary)


def progress_line(found: Survey, now: int, seconds: float, tables: Sequence[str] = ()) -> str:
    """One line that says how far things are; `tables` are what `told_tables` says."""
    parts = [
        describe_counts(found.counts),
        *(f"{lane.lane}: {describe_lane(lane, now)}" for lane in found.lanes),
        *tables[:TABLES_TOLD],
    ]
    if len(tables) > TABLES_TOLD:
        parts.append(f"{len(tables) - TABLES_TOLD:,} more tables wait so")
    return f"[{seconds:.0f} s] {' · '.join(parts)}"


@dataclass(frozen=True)
class StandingTable:
    """A table whose objects wait until somebody does something: how many wait, why, and what is to be done."""

    table: str
    lane: str
    objects: int
    reason: str
    next_step: str


def standing_tables(
    records: Iterable[ObjectRecord], configuration: Callable[[], Configuration | None], ledger: Ledger
) -> tuple[StandingTable, ...]:
    """The tables of these objects that stand still, by name. The configuration in force and the ledger are asked only while something is pending."""
    waiting: dict[tuple[str, str, str], int] = defaultdict(int)
    for record in records:
        if record.state == PENDING and record.table:
            waiting[(record.table, record.lane or "", record.topic or "")] += 1
    if not waiting:
        return ()
    in_force = configuration()
    states = ledger.tables.get_many(sorted({table for table, _, _ in waiting}))
    found = (
        _standing(table, lane, topic, count, in_force, states[table])
        for (table, lane, topic), count in sorted(waiting.items())
    )
    return tuple(item for item in found if item is not None)


def _standing(
    table: str, lane: str, topic: str, objects: int, configuration: Configuration | None, state: TableState
) -> StandingTable | None:
    config = configuration.table_for_topic(topic) if configuration is not None else None
    if state.rebuild:
        return StandingTable(
            table,
            lane,
            objects,
            "is being rebuilt",
            f"`sluice rebuild table {table}` goes on with it, then `sluice resume {lane}`",
        )
    if state.paused or (config is not None and config.paused):
        return StandingTable(
            table, lane, objects, "is paused", "Take `paused` out of its rule in tables.yaml, and `sluice config push`"
        )
    if configuration is not None and config is None:
        return StandingTable(
            table,
            lane,
            objects,
            f"is fed by topic {topic}, which no rule takes any more",
            "`sluice config push` a tables.yaml with a rule for it",
        )
    if configuration is not None and config is not None and config.table == table:
        own = fed_by(configuration, config.lane, {table: config}, {table: state})[table].topic
        if own != topic:
            return StandingTable(
                table, lane, objects, f"is fed by topic {own}, and these are of {topic}", TwoTopics.next_step
            )
    return None
