"""The wait for every object in bronze to be settled: polls the ledger, and ends where no run will settle them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic
from sluice.ledger.keys import COMMITTED, IGNORED, PENDING
from sluice.ledger.keys import SUPERSEDED as SUPERSEDED_STATE
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import pages_of_bronze
from sluice_aws.stack import Target
from sluice_cli.account.lane import rebuilds_by_lane
from sluice_cli.account.table import BlockedTable, blocked_tables, error_in_backoff, fresh_at_once
from sluice_cli.ingest.survey import FAILED_RETRYING, FRESHNESS, Survey, describe_tables, progress_line, survey
from sluice_cli.terminal.words import human_age

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.3, 5.0
PAUSE_PER_POLL = 3  # a pause lasts three times as long as the poll before it
LISTING_EVERY_S = 10.0  # while objects are unseen, since their versions may have been deleted
NOTED_AFTER_S = 5.0  # of a wait for freshness alone
_FINAL = frozenset({COMMITTED, SUPERSEDED_STATE, IGNORED})  # states that an object only leaves by a command


@dataclass(frozen=True)
class WaitResult:
    """The result of a wait that began at `began` (epoch ms), and its seconds.

    `blocked` are tables whose objects no run will claim. `failing` says of tables that wait after a failure what their
    last error is, and when they are tried again. `resting` are lanes that a standstill paused, `rebuilds` tables being
    rebuilt, by lane. `unsynced` are tables whose last catalog sync failed, with its code.
    """

    survey: Survey
    seconds: float
    began: int
    blocked: tuple[BlockedTable, ...] = ()
    failing: tuple[str, ...] = ()
    resting: Collection[str] = ()
    rebuilds: Mapping[str, str] = field(default_factory=dict)
    unsynced: Mapping[str, str] = field(default_factory=dict)

    def succeeded(self, *, strict: bool) -> bool:
        """True if the command succeeds."""
        return self.survey.clean if strict else self.survey.settled


def identities_in(target: Target, configuration: Configuration | None = None) -> tuple[ObjectId, ...]:
    """Every object version in bronze by the identity that its notice has, one for each table that its topic feeds."""
    pages = pages_of_bronze(target.objects, target.bronze, configuration=configuration)
    return tuple(identity for page in pages for identity in page)


@dataclass(frozen=True)
class Waiter:
    """Polls the ledger about the objects that `listed` lists, and lists bronze once more before it ends."""

    ledger: Ledger
    listed: Callable[[], tuple[ObjectId, ...]]
    configuration: Callable[[], Configuration | None]
    show: Callable[[str], None]
    note: Callable[[str], None]
    is_local: bool
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], int] = epoch_ms

    def wait(self, timeout_s: float) -> WaitResult:
        """Wait until everything is settled, a lane is halted or paused, a table is blocked, or the timeout."""
        began, began_ms = self.clock(), self.now()
        listed, listed_at = self.listed(), began
        final: dict[ObjectId, ObjectRecord] = {}
        waited_for: frozenset[str] = frozenset()
        noted: set[str] = set()
        while True:
            polled_at = self.clock()
            # Read lanes first: a lane that is read after its objects may have settled them, and halted over others.
            lanes = self.ledger.lanes.all()
            records = self.ledger.objects.get([identity for identity in listed if identity not in final])
            final.update({identity: record for identity, record in records.items() if record.state in _FINAL})
            state = survey(listed, {**final, **records}, lanes)
            seconds = self.clock() - began
            if state.settled:
                again = self.listed()
                if set(again) <= set(listed):
                    return WaitResult(state, self.clock() - began, began_ms)
                listed, listed_at = again, self.clock()
                continue
            stopped = state.halted or state.paused
            blocked = blocked_tables(records.values(), self.configuration, self.ledger.tables.get_many)
            if stopped or blocked:
                resting = self.ledger.lanes.paused_for_standstill() if state.paused else ()
                rebuilds = rebuilds_by_lane(self.ledger.tables.all()) if stopped else {}
                return WaitResult(state, seconds, began_ms, blocked, resting=resting, rebuilds=rebuilds)
            if seconds >= timeout_s:
                return WaitResult(state, seconds, began_ms, failing=self._failing(state))
            # Only if every object is pending can freshness or a back-off be what delays them.
            held = (
                describe_tables(state, self.ledger.tables.all(), self.configuration(), self.now())
                if all(item.state == PENDING for item in state.waiting)
                else ()
            )
            waited_for |= state.waiting_tables
            for line in self._notes(state, held, seconds):
                if line not in noted:
                    noted.add(line)
                    self.note(line)
            parts = {lane.lane: self._parts(lane.lane) for lane in state.lanes if state.merging(lane.lane)}
            self.show(progress_line(state, self.now(), seconds, held, waited_for, parts))
            if state.counts.get("unseen") and self.clock() - listed_at > LISTING_EVERY_S:
                listed, listed_at = self.listed(), self.clock()
            pause = min(max(PAUSE_PER_POLL * (self.clock() - polled_at), SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
            self.sleep(max(0.0, min(pause, timeout_s - seconds)))

    def _parts(self, lane: str) -> list[Mapping[str, Any]]:
        """The parts of a lane's open batches, as stored."""
        batches = self.ledger.batches
        return [part for pointer in batches.unsettled(lane) for part in batches.parts(pointer.batch).values()]

    def _notes(self, state: Survey, held: Sequence[str], seconds: float) -> Iterator[str]:
        """What is worth a line that stays: the error of each table that failed, and how a local stack waits less."""
        if any(FAILED_RETRYING in reason for reason in held):
            yield from (f"{table} failed: {error}" for table, error, _ in self._in_backoff(state) if error)
        if self.is_local and seconds >= NOTED_AFTER_S and any(FRESHNESS in reason for reason in held):
            yield f"note: to try things out, {fresh_at_once()}"

    def _failing(self, state: Survey) -> tuple[str, ...]:
        """What was wrong with each waiting table in back-off, and when it is tried again."""
        return tuple(
            f"{table} {FAILED_RETRYING} {human_age(left_ms + 999)}. Its last error: {error or 'no error is recorded'}"
            for table, error, left_ms in self._in_backoff(state)
        )

    def _in_backoff(self, outlook: Survey) -> Iterator[tuple[str, str | None, int]]:
        """The waiting tables that are in back-off, each with its last error and what is left of it (ms)."""
        configuration, now = self.configuration(), self.now()
        for table, state in sorted(self.ledger.tables.get_many(sorted(outlook.waiting_tables)).items()):
            if state.backoff_until is None or state.backoff_until <= now:
                continue
            config = config_by_pinned_topic(configuration, table, state.pinned)
            yield table, error_in_backoff(state, config.lane if config else None), state.backoff_until - now
