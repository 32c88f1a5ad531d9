"""Parts of the ledger that hold objects: their items, what is pending, batches, quarantine, rebuild and recovery.

Times are epoch milliseconds and always passed in. Reads are strongly consistent unless a method says otherwise. Every
method can raise LedgerBusy, which is retriable, and the errors of the database's client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from sluice.batch.claim import PendingObject
from sluice.batch.isolation import Cohort
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.table import TableConfig
from sluice.ledger.records import AdmittedObject, Decision, ManifestPointer, ObjectRecord, PendingCount
from sluice.ledger.recovery import EndState, KnownTable, Recovered, Settled
from sluice.objects import ObjectId


class ObjectLedger(Protocol):
    """Object items: admission, lookup, listing by state, and the ways from one state to another outside of batches."""

    def admit(self, admitted: AdmittedObject, *, generation: int | None = None) -> str:
        """Write an object unless it is known; answers "new", "superseded", or "already_" and its state."""
        ...

    def get(self, ids: Iterable[ObjectId]) -> dict[ObjectId, ObjectRecord]:
        """The records of these objects; an object without a record is left out."""
        ...

    def versions(self, bucket: str, key: str, *, first_page: bool = False) -> list[ObjectRecord]:
        """The records of every version of one key, oldest first; those of one page of up to 1 MB if so asked."""
        ...

    def in_state(self, state: str, *, since: int | None = None) -> Iterator[ObjectRecord]:
        """Every object in a listed state, oldest first within each shard, optionally only those listed since a time."""
        ...

    def unlisted(self, records: Iterable[ObjectRecord]) -> Collection[ObjectId]:
        """Those of the records that are pending, though their lanes don't list them."""
        ...

    def list_again(self, record: ObjectRecord) -> bool:
        """List a pending object under its lane; the caller wakes it. False when it is no longer pending there."""
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


class PendingLedger(Protocol):
    """The pending objects of a lane, read fairly between its tables."""

    def oldest(self, lane: str, per_table: int) -> list[PendingObject]:
        """About `per_table` of the oldest pending objects of every table, oldest first; at least one of each table."""
        ...

    def oldest_of(self, lane: str, wanted: Mapping[str, int]) -> list[PendingObject]:
        """About so many of the oldest pending objects of each named table, oldest first."""
        ...

    def counts(self, lane: str) -> dict[str, PendingCount]:
        """Every table's backlog: for people, not for decisions. The bytes of a large one are estimated."""
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

        Also notes the progress on the lane while this run holds it, if a part was committed. Raises UnsettledParts
        while a part is claimed.
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
        cohorts: Mapping[ObjectId, Cohort] = MappingProxyType({}),
    ) -> list[ObjectId] | None:
        """claimed -> pending for objects of a part; gives those returned, None when the lane is lost. Repeatable.

        `cohorts` are those that the objects belong to from now on; the others keep theirs.
        """
        ...

    def begin_attempt(self, batch: str, table: str, now: int) -> None:
        """Count an attempt to finish a part that a dead run left."""
        ...

    def end_attempt(self, batch: str, table: str) -> None:
        """Take an attempt back that ended without settling the part, and without the death of its run."""
        ...

    def give_up(self, batch: str, table: str, reason: str) -> bool:
        """Ask the next run to quarantine a part's objects. False when the part is not open."""
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

    def decisions(self, *, since: int | None = None) -> Iterator[Decision]:
        """Every decision, oldest first within each shard; with `since` (epoch ms), from then on. May lag a second."""
        ...


class RebuildLedger(Protocol):
    """Writing a table anew from its objects, or merging them again. Every write of a rebuild needs a paused lane."""

    def begin(self, table: str, lane: str, mark: Mapping[str, Any]) -> dict[str, Any]:
        """Empty the table's item and mark it as being rebuilt; gives the mark that holds. Raises LaneNotPaused."""
        ...

    def replay(
        self,
        records: Sequence[ObjectRecord],
        lane: str,
        generations: Mapping[ObjectId, int],
        now: int,
        *,
        while_paused: bool = True,
    ) -> int:
        """committed or superseded -> pending; gives how many. Repeatable. `while_paused` raises LaneNotPaused."""
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

    def end_claim(self, record: ObjectRecord, end: EndState | None, now: int) -> bool:
        """claimed -> the end state by its batch's outcome, or pending without one; the caller wakes its lane.

        False when the object is no longer claimed by that batch, or the batch is open.
        """
        ...

    def restore_table(self, name: str, known: KnownTable, *, purge_floors: Mapping[str, str]) -> bool:
        """Write a table's item. False when the ledger knows of a later commit."""
        ...
