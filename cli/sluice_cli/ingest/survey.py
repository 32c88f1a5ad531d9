"""The states of the objects in bronze, from a listing, the ledger's records and the lanes, and the progress line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sluice.batch.claim import TableState, claimable_at
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_topic
from sluice.lane.machine import HALTED, PAUSED, RUNNING, STARTING, LaneState
from sluice.ledger.keys import CLAIMED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.account.lane import describe_lane, progressed_at
from sluice_cli.terminal.words import counted, first_names, human_age

UNSEEN = "unseen"  # in bronze, but not in the ledger yet
FRESHNESS, FAILED_RETRYING = "(freshness)", "failed; retrying in"
UNSETTLED = (UNSEEN, PENDING, CLAIMED)
TABLES_SHOWN = 2
_ORDER = ("committed", "claimed", "pending", UNSEEN, "ignored", "superseded", "parked", "quarantined")


@dataclass(frozen=True)
class WaitingObject:
    """An object that is not settled: its state and, if the ledger knows them, its lane, table and topic."""

    id: ObjectId
    state: str
    lane: str | None
    table: str | None
    topic: str | None = None


@dataclass(frozen=True)
class Survey:
    """The states of the listed objects. `counts` is by state.

    `halted` and `paused` are lanes with waiting objects. `with_rows` are committed objects with quarantined rows.
    """

    counts: Mapping[str, int]
    waiting: tuple[WaitingObject, ...]
    parked: tuple[ObjectRecord, ...]
    quarantined: tuple[ObjectRecord, ...]
    halted: tuple[LaneState, ...]
    lanes: tuple[LaneState, ...]
    with_rows: tuple[ObjectRecord, ...] = ()
    paused: tuple[LaneState, ...] = ()

    @property
    def waiting_tables(self) -> frozenset[str]:
        """The tables with objects that wait, as far as the ledger knows the objects."""
        return frozenset(item.table for item in self.waiting if item.table)

    def merging(self, lane: str) -> Mapping[str, int]:
        """The tables of a lane's claimed objects, which its run merges now, with the number of objects."""
        return Counter(
            item.table for item in self.waiting if item.lane == lane and item.state == CLAIMED and item.table
        )

    @property
    def quarantined_rows(self) -> int:
        """The number of quarantined rows of committed objects."""
        return sum(record.quarantined_rows for record in self.with_rows)

    @property
    def settled(self) -> bool:
        """True if nothing is pending, claimed or unseen."""
        return not self.waiting

    @property
    def clean(self) -> bool:
        """True if everything is settled and nothing is parked or quarantined, including rows."""
        return self.settled and not self.parked and not self.quarantined and not self.with_rows


def survey(listed: Iterable[ObjectId], records: Mapping[ObjectId, ObjectRecord], lanes: Iterable[LaneState]) -> Survey:
    """Compare a listing with the ledger's records of it. `lanes` are all lanes of the ledger."""
    counts: Counter[str] = Counter()
    waiting: list[WaitingObject] = []
    parked: list[ObjectRecord] = []
    quarantined: list[ObjectRecord] = []
    with_rows: list[ObjectRecord] = []
    for identity in listed:
        record = records.get(identity)
        if record is None and identity.also_for:
            continue  # it came before the rule for this table
        state = UNSEEN if record is None else record.state
        counts[state] += 1
        if state in UNSETTLED:
            known_as = (record.lane, record.table, record.topic) if record else (None, None, None)
            waiting.append(WaitingObject(identity, state, *known_as))
        elif record is not None and state == PARKED:
            parked.append(record)
        elif record is not None and state == QUARANTINED:
            quarantined.append(record)
        if record is not None and record.quarantined_rows:
            with_rows.append(record)
    concerned = {item.lane for item in waiting}
    all_lanes = tuple(lanes)
    return Survey(
        counts=dict(counts),
        waiting=tuple(waiting),
        parked=tuple(parked),
        quarantined=tuple(quarantined),
        halted=tuple(lane for lane in all_lanes if lane.state == HALTED and lane.lane in concerned),
        lanes=tuple(lane for lane in all_lanes if lane.lane in concerned or lane.state in (STARTING, RUNNING)),
        with_rows=tuple(with_rows),
        paused=tuple(lane for lane in all_lanes if lane.state == PAUSED and lane.lane in concerned),
    )


def describe_counts(counts: Mapping[str, int]) -> str:
    """`30 committed, 5 claimed, 2 pending`, without states that have no objects."""
    names = [*_ORDER, *sorted(set(counts) - set(_ORDER))]
    return ", ".join(f"{counts[name]:,} {name}" for name in names if counts.get(name)) or "no objects"


def _merging(survey_: Survey, lane: LaneState, now: int, parts: Sequence[Mapping[str, Any]]) -> str:
    """What a run merges, how many tables of its batch are settled, and how long ago it last did something.

    `parts` are those of the lane's open batches, as stored.
    """
    tables = survey_.merging(lane.lane)
    if not tables or lane.state != RUNNING:  # a run that died left its objects claimed, and nothing merges them
        return ""
    settled = sum(part["state"] != CLAIMED for part in parts)
    progress = progressed_at(lane, parts)
    done = f", {settled} of {counted(len(parts), 'table')} settled" if len(parts) > 1 else ""
    last = "" if progress is None else f", last progress {human_age(max(0, now - progress))} ago"
    names = [f"{table} ({counted(tables[table], 'object')})" for table in sorted(tables)]
    return f", merging {first_names(names, TABLES_SHOWN)}{done}{last}"


def describe_tables(
    survey_: Survey, states: Iterable[TableState], configuration: Configuration | None, now: int
) -> tuple[str, ...]:
    """Why tables with pending objects are not claimed yet, one text each: freshness or back-off. `now` is epoch ms."""
    pending = {item.table: item.topic for item in survey_.waiting if item.state == PENDING}
    summary = []
    for state in sorted((state for state in states if state.table in pending), key=lambda state: state.table):
        config = config_by_topic(configuration, pending[state.table], state.table)
        # Without one no rule takes the topic now: only a back-off delays the table.
        at = claimable_at(config, state) if config is not None else state.backoff_until
        if at is not None and at > now:  # None: the table is blocked, which ends the wait
            due = human_age(at - now + 999)
            summary.append(
                f"{state.table} {FAILED_RETRYING} {due}"
                if config is None or at == state.backoff_until
                else f"{state.table} commits at most every {human_age(config.freshness_s * 1000)} {FRESHNESS};"
                f" next in {due}"
            )
    return tuple(summary)


def progress_line(
    survey_: Survey,
    now: int,
    seconds: float,
    tables: Sequence[str] = (),
    waited_for: Set[str] = frozenset(),
    parts: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({}),
) -> str:
    """One line of progress. `tables` are the texts of `describe_tables`.

    `waited_for` are the tables that have had waiting objects since the wait began, `parts` by lane those of its open
    batches.
    """
    settled = len(waited_for - survey_.waiting_tables)
    said = [
        *([f"{settled} of {counted(len(waited_for), 'table')}"] if len(waited_for) > 1 else []),
        describe_counts(survey_.counts),
        *(
            f"{lane.lane}: {describe_lane(lane, now)}{_merging(survey_, lane, now, parts.get(lane.lane, ()))}"
            for lane in survey_.lanes
        ),
        *tables[:TABLES_SHOWN],
    ]
    if len(tables) > TABLES_SHOWN:
        said.append(f"{counted(len(tables) - TABLES_SHOWN, 'more table')} waiting")
    return f"[{seconds:.0f} s] {' · '.join(said)}"
