"""Parts of the ledger that say what may run: lanes, tables, requests for table services, and the history of runs.

Times are epoch milliseconds and always passed in. Reads are strongly consistent unless a method says otherwise. Every
method can raise LedgerBusy, which is retriable, and the errors of the database's client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from sluice.batch.claim import TableState
from sluice.errors import SluiceError
from sluice.lane.machine import LaneState
from sluice.ledger.records import IgnoredPart, Requested
from sluice.services import requests
from sluice.services.requests import ServiceError, ServiceReport, ServiceRequest


class LaneLedger(Protocol):
    """Lane items: the transitions of `sluice.lane.machine`, each applied by a conditional write."""

    def wake(self, lane: str) -> LaneState:
        """Count an arrival; gives the lane after it."""
        ...

    def get(self, lane: str) -> LaneState:
        """The lane's state; a lane without an item is idle."""
        ...

    def all(self) -> list[LaneState]:
        """Every lane that was ever woken or changed, by name."""
        ...

    def request_start(
        self,
        lane: str,
        run_id: str,
        now: int,
        *,
        application_id: str | None = None,
        time_limit_ms: int | None = None,
    ) -> LaneState | None:
        """idle -> starting. None when the lane is not idle or is in back-off."""
        ...

    def started(self, lane: str, run_id: str, job_run_id: str) -> bool:
        """Store the job run that StartJobRun answered. False when the lane belongs to another one."""
        ...

    def hold(self, lane: str, run_id: str, job_run_id: str, attempt: int, now: int) -> LaneState | None:
        """starting -> running: the driver's first act. On None the driver exits without effect."""
        ...

    def holds(self, lane: str, run_id: str, job_run_id: str) -> bool:
        """True if this job run holds the lane."""
        ...

    def accept_ledger(self, lane: str, run_id: str) -> bool:
        """Note that the ledger knows of the lane's manifests. False when the run no longer holds the lane."""
        ...

    def gave_sign(self, lane: str, run_id: str, now: int, idle_until: int | None = None) -> bool:
        """Note that the holder lives, and until when it waits for objects. False when the run no longer holds the lane.

        A batch that is opened and a slice that is started remove `idle_until` in their own transactions.
        """
        ...

    def progressed(self, lane: str, run_id: str) -> bool:
        """Note that the holder closed a batch. False when the run no longer holds the lane."""
        ...

    def release(self, lane: str, run_id: str, arrivals_seen: int, due_at: int | None, now: int) -> bool:
        """running -> idle. False when something arrived since `arrivals_seen`, or the lane was lost."""
        ...

    def lapse(
        self,
        lane: str,
        run_id: str,
        now: int,
        *,
        job_run_id: str | None,
        progressed: bool = False,
        capacity: bool = False,
        reason: str | None = None,
    ) -> LaneState | None:
        """Take the lane from a run that is over at EMR Serverless. None when the lane is no longer that run's."""
        ...

    def pause(self, lane: str, reason: str | None = None) -> LaneState:
        """Start no new run, and ask a running one to end. `reason` is why, if no operator decided it."""
        ...

    def resume(self, lane: str) -> LaneState:
        """Undo a pause or a halt; counts as an arrival."""
        ...

    def paused_for_standstill(self) -> list[str]:
        """The lanes that a standstill paused and that were not resumed since."""
        ...

    def note_standstill(self, lanes: Sequence[str]) -> None:
        """Replace the list of lanes that a standstill paused."""
        ...


class TableLedger(Protocol):
    """Table items: what pacing, back-off, table services and the check of pinned settings need to know."""

    def get(self, table: str) -> TableState:
        """One table's state; empty for a table without an item."""
        ...

    def get_many(self, tables: Iterable[str]) -> dict[str, TableState]:
        """The state of each named table."""
        ...

    def all(self) -> list[TableState]:
        """Every table that has an item, by name."""
        ...

    def record_error(self, table: str, error: str, backoff_until: int | None) -> TableState:
        """Count a failure, and keep the table from being claimed until `backoff_until`."""
        ...

    def end_backoff(self, table: str) -> None:
        """Let the table be claimed again at once."""
        ...

    def block(self, table: str, error: SluiceError, now: int) -> TableState:
        """Count a failure, and keep the table from being written until `accept` or a rebuild."""
        ...

    def accept(self, table: str, instant: str | None, history: str | None = None, *, seen: TableState) -> bool:
        """Make `instant` the table's last commit and unblock it; the caller wakes its lane.

        False when its last commit is no longer `seen`.
        """
        ...

    def pin(self, table: str, pinned: Mapping[str, Any]) -> bool:
        """Store the settings that a table's data is written with. False when others are stored already."""
        ...

    def raise_purge_floor(self, table: str, positions: Mapping[int, str]) -> None:
        """Store, by generation, the highest position of the rows that a purge removes. A floor never falls."""
        ...

    def set_paused(self, table: str, paused: bool) -> TableState:
        """Leave a table's objects pending, or no longer; after the latter the caller wakes its lane."""
        ...

    def clear_catalog_failure(self, table: str, failure: Mapping[str, Any]) -> None:
        """Remove a failed catalog sync after one that succeeded; a later failure stays."""
        ...

    def note_first_check(self, table: str, now: int) -> None:
        """Store when table services first looked at a table; later calls change nothing."""
        ...


class ServiceLedger(Protocol):
    """Requests for table services: the transitions of `sluice.services.requests`, each by a conditional write."""

    def request(
        self,
        lane: str,
        table: str,
        service: str,
        *,
        request: str,
        requested_by: str,
        now: int,
        min_interval_ms: int = requests.MIN_INTERVAL_MS,
        max_wait_ms: int = requests.MAX_WAIT_MS,
        arguments: Mapping[str, str] = MappingProxyType({}),
    ) -> Requested:
        """Write a request and wake the lane in one transaction, unless one is open. `request` is its new id."""
        ...

    def get(self, lane: str, table: str, service: str) -> ServiceRequest | None:
        """The open or last request."""
        ...

    def of_lane(self, lane: str) -> list[ServiceRequest]:
        """Every open and last request of a lane, oldest first."""
        ...

    def open_of_lane(self, lane: str) -> list[ServiceRequest]:
        """The open requests of a lane, oldest first."""
        ...

    def start(self, request: ServiceRequest, run_id: str, job_run_id: str, now: int) -> ServiceRequest | None:
        """requested -> running for one slice. None when the lane is not held or the request may not begin."""
        ...

    def slice_done(
        self, request: ServiceRequest, run_id: str, report: ServiceReport, now: int
    ) -> ServiceRequest | None:
        """running -> requested for the next slice. None when another run has begun it since."""
        ...

    def finish(self, request: ServiceRequest, run_id: str, report: ServiceReport, now: int) -> ServiceRequest | None:
        """running -> done. None when another run has begun it since."""
        ...

    def fail(self, request: ServiceRequest, run_id: str, error: ServiceError, now: int) -> ServiceRequest | None:
        """running -> requested after a back-off, or failed. None when another run has begun it since."""
        ...

    def interrupt(self, request: ServiceRequest, run_id: str, now: int) -> ServiceRequest | None:
        """running under a dead run -> requested after a back-off, or failed. `run_id` holds the lane now."""
        ...

    def withdraw(self, request: ServiceRequest, error: ServiceError, now: int) -> ServiceRequest | None:
        """requested -> failed, for what can't be done at all."""
        ...


class HistoryLedger(Protocol):
    """Runs, ignored messages, counters and checkpoints."""

    def run_started(self, run_id: str, lane: str, now: int, job_run_id: str | None = None) -> None:
        """Note that a run was requested or, with its job run, that it holds its lane."""
        ...

    def run_ended(self, run_id: str, state: str, reason: str | None, batches: int, now: int) -> None:
        """Note how a run ended and how many batches it closed."""
        ...

    def mark_billed(self, run_id: str, now: int) -> bool:
        """Note that a run's cost was reported. False when it was before, or the run is not of this ledger."""
        ...

    def run(self, run_id: str) -> dict[str, Any] | None:
        """A run's item as stored; runs are kept for 90 days."""
        ...

    def runs(self) -> Iterator[dict[str, Any]]:
        """The items of all runs that are kept, newest first. May lag by a second."""
        ...

    def events_sent(self, events: Iterable[str]) -> frozenset[str]:
        """Those of the events that were noted as sent within the last days."""
        ...

    def note_event_sent(self, event: str, now: int) -> None:
        """Note that an event was sent. `now` is epoch ms."""
        ...

    def count(self, name: str, n: int = 1) -> int:
        """Add to a counter and give its value."""
        ...

    def counter(self, name: str) -> int:
        """A counter's value."""
        ...

    def ignore_message(self, message_id: str, n: int, reason: str, excerpt: str, now: int) -> bool:
        """List the n-th part of a message that named no object. False when it is listed already."""
        ...

    def ignored_messages(self) -> Iterator[IgnoredPart]:
        """Every listed part of a message."""
        ...

    def gather_until(self, now: int, until: int) -> bool:
        """Begin to gather commits until a time. False while another caller gathers, who sees this caller's commits."""
        ...

    def checkpoint(self, name: str = "reconcile") -> dict[str, Any] | None:
        """Where a listing pass resumes; None at the beginning."""
        ...

    def put_checkpoint(self, at: Mapping[str, Any], now: int, name: str = "reconcile") -> None:
        """Store where a listing pass resumes, as plain JSON values."""
        ...
