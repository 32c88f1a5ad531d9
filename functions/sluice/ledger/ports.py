"""The ledger as its users see it: one Protocol for each kind of item, and `Ledger`, which holds them all.

Times are epoch milliseconds and always passed in. Reads are strongly consistent unless a method says otherwise.
Every method can raise LedgerBusy, which is retriable, and the errors of the database's client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from sluice.batch.claim import PendingObject, TableState
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.table import TableConfig
from sluice.errors import SluiceError
from sluice.lane.machine import LaneState
from sluice.ledger.records import (
    AdmittedObject,
    Decision,
    IgnoredPart,
    ManifestPointer,
    ObjectRecord,
    PendingCount,
    Requested,
)
from sluice.ledger.recovery import KnownTable, Recovered, Settled
from sluice.objects import ObjectId
from sluice.services import requests
from sluice.services.requests import ServiceError, ServiceReport, ServiceRequest


class ObjectLedger(Protocol):
    """Object items: admission, lookup, listing by state, and the ways from one state to another outside of batches."""

    def admit(self, admitted: AdmittedObject) -> str:
        """Write an object unless it is known; answers "new", "superseded", or "already_" and its state."""
        ...

    def get(self, ids: Iterable[ObjectId]) -> dict[ObjectId, ObjectRecord]:
        """The records of these objects; an object without a record is left out."""
        ...

    def versions(self, bucket: str, key: str) -> list[ObjectRecord]:
        """The records of every version of one key, oldest first."""
        ...

    def in_state(self, state: str, *, since: int | None = None) -> Iterator[ObjectRecord]:
        """Every object in a listed state, oldest first within each shard, optionally only those listed since a time."""
        ...

    def unpark(self, record: ObjectRecord, config: TableConfig, now: int) -> bool:
        """parked -> pending under this table; the caller wakes its lane. False when it is no longer parked."""
        ...

    def reroute(self, record: ObjectRecord, config: TableConfig, now: int) -> bool:
        """pending -> pending under another table or lane; the caller wakes that lane. False when it is not pending."""
        ...

    def quarantine_pending(self, record: ObjectRecord, code: str, reason: str, now: int) -> bool:
        """pending -> quarantined. False when it is no longer pending there."""
        ...

    def quarantine_parked(self, record: ObjectRecord, code: str, reason: str, now: int) -> bool:
        """parked -> quarantined. False when it is no longer parked."""
        ...

    def forget(self, record: ObjectRecord) -> bool:
        """Delete the record of an object that no longer exists; False while it waits: for a run, or for a decision."""
        ...


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

    def request_start(self, lane: str, run_id: str, now: int) -> LaneState | None:
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

    def pause(self, lane: str) -> LaneState:
        """Start no new run, and ask a running one to end."""
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


class PendingLedger(Protocol):
    """The pending objects of a lane, read fairly between its tables."""

    def oldest(self, lane: str, per_table: int) -> list[PendingObject]:
        """About `per_table` of the oldest pending objects of every table, oldest first; at least one of each table."""
        ...

    def oldest_of(self, lane: str, wanted: Mapping[str, int]) -> list[PendingObject]:
        """About so many of the oldest pending objects of each named table, oldest first."""
        ...

    def counts(self, lane: str) -> dict[str, PendingCount]:
        """Every table's backlog. Reads all of it: for people, not for decisions."""
        ...


class BatchLedger(Protocol):
    """Batch items: opening, claiming, settling and closing a batch, and announcing it."""

    def open(self, manifest: Manifest, manifest_s3_key: str, run_id: str, job_run_id: str) -> bool:
        """Note an unsettled manifest that is stored in S3. False when the run no longer holds the lane.

        Raises BatchTaken when the lane is held and the batch belongs to another run or is committed.
        """
        ...

    def claim(self, manifest: Manifest) -> list[ObjectId]:
        """pending -> claimed for each object of an open batch; gives those that the batch got. Repeatable."""
        ...

    def unsettled(self, lane: str) -> list[ManifestPointer]:
        """The lane's open batches, oldest first."""
        ...

    def get(self, batch: str) -> dict[str, Any] | None:
        """A batch's item as stored."""
        ...

    def parts(self, batch: str) -> dict[str, dict[str, Any]]:
        """A batch's parts by table, as stored."""
        ...

    def settle(
        self, lane: str, batch: str, outcome: Outcome, objects: Sequence[ObjectId], run_id: str, now: int
    ) -> bool:
        """Write a part's outcome, which is stored in S3. False when the part was settled before.

        Raises ForeignObjects when an object is not claimed by this batch.
        """
        ...

    def close(self, lane: str, batch: str, run_id: str, now: int) -> bool:
        """claimed -> committed or returned for a batch whose parts are all settled. False when it was closed before.

        Also notes the progress on the lane while this run holds it. Raises UnsettledParts while a part is claimed.
        """
        ...

    def return_to_pending(
        self,
        batch: str,
        table: str,
        objects: Sequence[ObjectId],
        lane: str,
        run_id: str,
        job_run_id: str,
        generation: int | None = None,
    ) -> list[ObjectId] | None:
        """claimed -> pending for objects of a part; gives those returned, None when the lane is lost. Repeatable."""
        ...

    def mark_announced(self, batch: str, now: int) -> bool:
        """Note that a committed batch was announced. False when it was before, or there is no such batch."""
        ...

    def unannounced(self, before: int) -> Iterator[dict[str, Any]]:
        """Batches, as stored and oldest first, that were committed before a time and not announced."""
        ...


class QuarantineLedger(Protocol):
    """Decisions about objects and rows that were set aside, and their audit trail."""

    def objects_with_rows(self) -> Iterator[ObjectRecord]:
        """Every committed object with quarantined rows."""
        ...

    def retry(self, record: ObjectRecord, routed: ObjectRecord, decision: Decision) -> bool:
        """Back to pending, as `routed` says where to. False when the object is no longer what `record` says."""
        ...

    def discard(self, record: ObjectRecord, decision: Decision) -> bool:
        """Ignore a quarantined or parked object, or give up quarantined rows. False when it is not as `record` says."""
        ...

    def decisions_about(self, identity: ObjectId) -> list[Decision]:
        """Every decision about one object, oldest first."""
        ...

    def decisions(self) -> Iterator[Decision]:
        """Every decision, oldest first within each shard. May lag by a second."""
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

    def block(self, table: str, error: SluiceError, now: int) -> TableState:
        """Count a failure, and keep the table from being written until `accept` or a rebuild."""
        ...

    def accept(self, table: str, instant: str | None, *, seen: str | None) -> bool:
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


class RebuildLedger(Protocol):
    """Writing a table anew from its objects. Every write is conditional on the lane being paused."""

    def begin(self, table: str, lane: str, mark: Mapping[str, Any]) -> dict[str, Any]:
        """Empty the table's item and mark it as being rebuilt; gives the mark that holds. Raises LaneNotPaused."""
        ...

    def replay(self, records: Sequence[ObjectRecord], lane: str, generations: Mapping[ObjectId, int], now: int) -> int:
        """committed or superseded -> pending; gives how many. Repeatable. Raises LaneNotPaused."""
        ...

    def end(self, table: str, lane: str) -> None:
        """Remove the mark, so that the table's objects may be claimed. Repeatable. Raises LaneNotPaused."""
        ...


class RecoveryLedger(Protocol):
    """Writing what manifests and outcomes say into a ledger that lost it."""

    def restore_objects(
        self, found: Sequence[Settled], etags: Mapping[ObjectId, str | None], *, dry_run: bool = False
    ) -> Recovered:
        """Add records that are missing, and correct those older than the object's last batch. Repeatable."""
        ...

    def restore_table(self, name: str, known: KnownTable, *, purge_floors: Mapping[str, str]) -> bool:
        """Write a table's item. False when the ledger knows of a later commit."""
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


class Ledger(Protocol):
    """The state of every object, table, batch, lane and run of one deployment.

    Every decision that two processes could make at once is a conditional write in one of these parts.
    """

    @property
    def objects(self) -> ObjectLedger: ...
    @property
    def lanes(self) -> LaneLedger: ...
    @property
    def pending(self) -> PendingLedger: ...
    @property
    def batches(self) -> BatchLedger: ...
    @property
    def quarantine(self) -> QuarantineLedger: ...
    @property
    def tables(self) -> TableLedger: ...
    @property
    def services(self) -> ServiceLedger: ...
    @property
    def rebuilds(self) -> RebuildLedger: ...
    @property
    def recovery(self) -> RecoveryLedger: ...
    @property
    def history(self) -> HistoryLedger: ...
