"""Compares the bronze listing with the ledger, a page at a time, and goes on where the last pass stopped.

Goes through the ledger's object records and drops those whose object is gone, a page at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.admission.notices import Notice
from sluice.admission.verdict import MAX_REASON
from sluice.config.document import Configuration
from sluice.errors import UnidentifiedObject
from sluice.ledger.keys import CLAIMED, PARKED, PENDING, QUARANTINED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId, identify
from sluice_aws.admission.admit import Admission, report_admissions
from sluice_aws.errors import ObjectGone
from sluice_aws.lanes.start import Waker
from sluice_aws.ledger import expressions as codec
from sluice_aws.ledger.objects import record_of
from sluice_aws.s3.objects import ListedVersion, Objects
from sluice_aws.telemetry import Report

LISTING = "listing"  # an object's `via` when no notice announced it
CHECKPOINT = "listing"


@dataclass(frozen=True)
class Pass:
    """What one invocation's part of a pass came to; `complete` when the listing's end was reached."""

    listed: int
    missing: int
    admitted: int
    failed: int
    complete: bool


class Reconciler:
    """Passes over one bronze bucket. The checkpoint moves on only after a page's objects were written and their lanes woken."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        objects: Objects,
        admission: Admission,
        waker: Waker,
        report: Report,
        bucket: str,
        grace_ms: int,
        now: Callable[[], int],
    ) -> None:
        """`grace_ms`: a version younger than this is not missing, its notice may still be under way."""
        self._ledger = ledger
        self._objects = objects
        self._admission = admission
        self._waker = waker
        self._report = report
        self._bucket = bucket
        self._grace_ms = grace_ms
        self._now = now

    def run(self, configuration: Configuration | None, *, seconds_left: Callable[[], float]) -> Pass:
        """List from the checkpoint until the end or until the time is over.

        A page whose objects can't all be admitted doesn't hold the pass up: they are missing still
        when the next pass comes by.
        """
        versioned = self._objects.is_versioned(self._bucket)
        marker = _marker(self._ledger.history.checkpoint(CHECKPOINT))
        listed = missing = admitted = failed = 0
        while seconds_left() > 0:
            page = self._objects.version_page(self._bucket, marker)
            lost = self._missing(page.versions, versioned)
            if lost:
                admissions = self._admission.admit_all(lost, configuration, seconds=seconds_left())
                report_admissions(self._report, admissions)
                self._waker.wake(admissions.lanes, configuration)
                admitted += len(admissions.done)
                failed += len(admissions.failed)
            listed += len(page.versions)
            missing += len(lost)
            marker = page.next_marker
            self._ledger.history.put_checkpoint(
                {"key": marker[0], "version": marker[1]} if marker else {}, self._now(), CHECKPOINT
            )
            if marker is None:
                return Pass(listed, missing, admitted, failed, True)
        return Pass(listed, missing, admitted, failed, False)

    def _missing(self, versions: tuple[ListedVersion, ...], versioned: bool) -> list[Notice]:
        old = self._now() - self._grace_ms
        due: dict[ObjectId, Notice] = {}
        for version in versions:
            if version.modified_at <= old:
                notice = self._notice(version, versioned)
                if notice is not None:
                    due[notice.id] = notice
        known = self._ledger.objects.get(due) if due else {}
        return [notice for id, notice in due.items() if id not in known]

    def _notice(self, version: ListedVersion, versioned: bool) -> Notice | None:
        """A listed version as the notice that should have come."""
        try:
            id = identify(version.bucket, version.key, version.version_id, version.etag, bucket_versioned=versioned)
        except UnidentifiedObject as error:
            self._report.warn("version_unidentified", reason=str(error), **error.facts)
            return None
        return Notice(
            id=id, size=version.size, sequencer=None, event_time_ms=version.modified_at,
            event_name="listed", via=LISTING, etag=version.etag,
        )  # fmt: skip


def _marker(stored: Mapping[str, Any] | None) -> tuple[str, str] | None:
    if not stored or not stored.get("key"):
        return None
    return stored["key"], stored.get("version", "")


SWEEP_CHECKPOINT = "sweep"
PAGE_ITEMS = 500  # at most so many HEAD calls an invocation: a million records are gone through in three weeks
THREADS = 16
LOST = ObjectGone.code


class ObjectScan:
    """Object records in the ledger's own order, which is no order of keys."""

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def page(
        self, after: Mapping[str, str] | None, items: int = PAGE_ITEMS
    ) -> tuple[list[ObjectRecord], dict[str, str] | None]:
        """The object records among the next `items` items, and where to go on (None: the end was reached)."""
        start = {"ExclusiveStartKey": codec.item(after)} if after else {}
        answer = self._dynamodb.scan(
            TableName=self._table, Limit=items, FilterExpression="begins_with(pk, :object)",
            ExpressionAttributeValues={":object": {"S": "object#"}}, **start,
        )  # fmt: skip
        last = answer.get("LastEvaluatedKey")
        return [record_of(codec.values(stored)) for stored in answer["Items"]], codec.values(last) if last else None


@dataclass(frozen=True)
class Sweep:
    """What one page came to."""

    looked_at: int
    forgotten: int
    lost: int


class Sweeper:
    """Asks S3 about each record's own version: a listing can't tell what it doesn't hold.

    The record that an object was committed lives as long as the object; a record that outlives its
    object is harmless, and so only old ones are dropped: a notice delayed in the queue for its
    longest, 14 days, must still find it.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        scan: ObjectScan,
        objects: Objects,
        report: Report,
        bucket: str,
        grace_ms: int,
        forget_after_ms: int,
        now: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._scan = scan
        self._objects = objects
        self._report = report
        self._bucket = bucket
        self._grace_ms = grace_ms
        self._forget_after_ms = forget_after_ms
        self._now = now

    def run(self) -> Sweep:
        """Go through one page of the ledger."""
        records, after = self._scan.page(self._ledger.history.checkpoint(SWEEP_CHECKPOINT) or None)
        due = [record for record in records if self._due(record)]
        with ThreadPoolExecutor(THREADS, thread_name_prefix="sweep") as pool:
            answers = list(pool.map(self._ask, due))
        gone = []
        for record, answer in zip(due, answers):
            if isinstance(
                answer, Exception
            ):  # looked for again in the next round; one such object must not end every pass at its page
                self._report.warn(
                    "record_not_checked",
                    bucket=record.id.bucket,
                    key=record.id.key,
                    version=record.id.version,
                    error=str(answer)[:500],
                )
                self._report.count("RecordsNotChecked")
            elif not answer:
                gone.append(record)
        forgotten = lost = 0
        for record in gone:
            if record.state in (PENDING, PARKED):
                lost += self._lose(record)
            elif self._ledger.objects.forget(record):
                forgotten += 1
                self._report.event(
                    "record_forgotten",
                    bucket=record.id.bucket,
                    key=record.id.key,
                    version=record.id.version,
                    state=record.state,
                    batch=record.batch,
                )
        self._ledger.history.put_checkpoint(after or {}, self._now(), SWEEP_CHECKPOINT)
        if lost:
            self._report.count("ObjectsLostBeforeRead", lost)
        if forgotten:
            self._report.count("RecordsForgotten", forgotten)
        return Sweep(len(due), forgotten, lost)

    def _ask(self, record: ObjectRecord) -> bool | Exception:
        """Whether the object is there, or why S3 didn't say (a key of the customer's own, an access that is denied)."""
        try:
            return self._objects.exists(record.id)
        except (ClientError, BotoCoreError) as error:
            return error

    def _due(self, record: ObjectRecord) -> bool:
        """Whether the object of this record is to be looked for. Claimed ones are the run's own business."""
        if record.id.bucket != self._bucket or record.state == CLAIMED:
            return False
        if record.state == QUARANTINED and record.code == LOST:
            return False  # its object is gone by definition, and the record is what says so
        if record.quarantined_rows:
            return False  # rows of it still wait for a decision, and the record is what says so
        age = self._now() - record.admitted_at
        return age > (self._grace_ms if record.state in (PENDING, PARKED) else self._forget_after_ms)

    def _lose(self, record: ObjectRecord) -> bool:
        """Quarantine it: so it stays listed, and is told once."""
        if record.state == PARKED:
            lost = self._ledger.objects.quarantine_parked(
                record, LOST, f"the object was gone while it was parked: {record.reason}"[:MAX_REASON], self._now()
            )
        else:
            lost = self._ledger.objects.quarantine_pending(
                record, LOST, "the object was gone before it could be read", self._now()
            )
        if lost:
            self._report.warn(
                "object_lost",
                bucket=record.id.bucket,
                key=record.id.key,
                version=record.id.version,
                table=record.table,
                topic=record.topic,
                was=record.state,
            )
        return bool(lost)
