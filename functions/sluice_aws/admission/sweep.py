"""Drops ledger records whose object is gone, some pages of the ledger at a time.

A listing can't show what is missing from it, so S3 is asked about each record's own version.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.admission.verdict import MAX_REASON
from sluice.ledger.keys import CLAIMED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice.ports import Report
from sluice_aws.errors import ObjectGone, facts_of
from sluice_aws.ledger import expressions as codec
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.ledger.objects import record_of
from sluice_aws.s3.objects import Objects

SWEEP_CHECKPOINT = "sweep"
PAGE_ITEMS = 500  # of the ledger, and so HEAD calls
#: A round over the ledger takes about so long, however large the ledger is: each record costs one HEAD call a round.
ROUND_MS = 7 * 86_400_000
MOST_S = 60.0  # of one invocation
THREADS = 16
LOST = ObjectGone.code


class ObjectScan:
    """Pages of object records, in the order of DynamoDB's scan."""

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def page(
        self, after: Mapping[str, str] | None, items: int = PAGE_ITEMS
    ) -> tuple[list[ObjectRecord], dict[str, str] | None]:
        """The object records among the next `items` items, and the key to resume after (None at the end)."""
        start = {"ExclusiveStartKey": codec.item(after)} if after else {}
        answer = self._dynamodb.scan(
            TableName=self._table,
            Limit=items,
            FilterExpression="begins_with(pk, :object)",
            ExpressionAttributeValues={":object": {"S": "object#"}},
            **start,
        )
        last = answer.get("LastEvaluatedKey")
        return [record_of(codec.values(stored)) for stored in answer["Items"]], codec.values(last) if last else None


@dataclass(frozen=True)
class Sweep:
    """Counts of one invocation."""

    looked_at: int = 0
    forgotten: int = 0
    lost: int = 0

    def plus(self, other: Sweep) -> Sweep:
        """The sum of both."""
        return Sweep(self.looked_at + other.looked_at, self.forgotten + other.forgotten, self.lost + other.lost)


@dataclass(frozen=True)
class SweepRound:
    """How far a round over the ledger has come: its pages so far, and those of the round before (0: unknown).

    `after` is the key of the ledger to resume after, `began_at` in epoch ms.
    """

    began_at: int
    after: Mapping[str, str] | None = None
    pages: int = 0
    last_pages: int = 0

    def pages_due(self, now: int) -> int | None:
        """The pages to look at now, to end the round within ROUND_MS; None for as many as there is time for.

        At least one. A ledger that grew since the last round is looked at faster, the longer the round takes.
        """
        if not self.last_pages:
            return None
        wanted = max(self.last_pages, self.pages) * (now - self.began_at) / ROUND_MS
        return max(1, ceil(wanted) - self.pages)

    def behind(self, after: Mapping[str, str] | None, now: int) -> SweepRound:
        """The round behind one more page, or a new one behind the last."""
        if after is None:
            return SweepRound(now, last_pages=self.pages + 1)
        return replace(self, after=after, pages=self.pages + 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "after": dict(self.after) if self.after else None}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None, now: int) -> SweepRound:
        """Read the result of `to_dict`; a new round for anything else."""
        if not stored or "began_at" not in stored:
            return cls(now)
        return cls(**stored)


@dataclass(frozen=True)
class Sweeper:
    """Drops old records of objects that are gone, and quarantines pending and parked objects that are.

    The record of a commit must live as long as its object, and may live longer. It is dropped only when it is older
    than the longest time that a notice can wait in the queues, so that a late notice still finds it. The
    record of a quarantined object stays until it is discarded, since nothing else lists the object.
    """

    ledger: Ledger
    scan: ObjectScan
    objects: Objects
    report: Report
    bucket: str
    grace_ms: int
    forget_after_ms: int
    now: Callable[[], int]

    def run(self, seconds_left: Callable[[], float] = lambda: MOST_S) -> Sweep:
        """Check the pages of the ledger that are due, as far as there is time; at least one."""
        round_ = SweepRound.from_dict(self.ledger.history.checkpoint(SWEEP_CHECKPOINT), self.now())
        due = round_.pages_due(self.now())
        until = seconds_left() - MOST_S
        total = Sweep()
        while True:
            swept, after = self._page(round_.after)
            total = total.plus(swept)
            round_ = round_.behind(after, self.now())
            self.ledger.history.put_checkpoint(round_.to_dict(), self.now(), SWEEP_CHECKPOINT)
            due = None if due is None else due - 1
            if after is None or due == 0 or seconds_left() <= max(until, 0.0):
                return total

    def _page(self, start: Mapping[str, str] | None) -> tuple[Sweep, Mapping[str, str] | None]:
        records, after = self.scan.page(start)
        due = [record for record in records if self._due(record)]
        with ThreadPoolExecutor(THREADS, thread_name_prefix="sweep") as pool:
            answers = list(pool.map(self._ask, due))
        gone = []
        for record, answer in zip(due, answers):
            if isinstance(answer, Exception):
                # The next round checks it again: one such object must not end every pass at its page.
                self.report.warn("record_not_checked", **facts_of(record.id), error=str(answer)[:500])
                self.report.count("RecordsNotChecked")
            elif not answer:
                gone.append(record)
        forgotten = lost = 0
        for record in gone:
            if record.state in (PENDING, PARKED):
                lost += self._lose(record)
            elif self.ledger.objects.forget(record):
                forgotten += 1
                self.report.event("record_forgotten", **facts_of(record.id), state=record.state, batch=record.batch)
        if lost:
            self.report.count("ObjectsLostBeforeRead", lost)
        if forgotten:
            self.report.count("RecordsForgotten", forgotten)
        return Sweep(len(due), forgotten, lost), after

    def _ask(self, record: ObjectRecord) -> bool | Exception:
        """True if the object exists; an error if S3 didn't answer (access denied, a customer's own key)."""
        try:
            return self.objects.exists(record.id)
        except (ClientError, BotoCoreError) as error:
            return error

    def _due(self, record: ObjectRecord) -> bool:
        """True if the object of this record is to be checked. Claimed objects are left to their run."""
        if record.id.bucket != self.bucket or record.state == CLAIMED:
            return False
        if record.state == QUARANTINED or record.quarantined_rows:
            return False  # it waits for a decision, and only this record says so
        age = self.now() - record.admitted_at
        return age > (self.grace_ms if record.state in (PENDING, PARKED) else self.forget_after_ms)

    def _lose(self, record: ObjectRecord) -> bool:
        """Quarantine the object, so that it stays listed and is reported once."""
        if record.state == PARKED:
            reason = f"the object was gone while it was parked: {record.reason}"[:MAX_REASON]
            lost = self.ledger.objects.quarantine_parked(record, LOST, reason, self.now())
        else:
            reason = "the object was gone before it could be read"
            lost = self.ledger.objects.quarantine_pending(record, LOST, reason, self.now())
        if lost:
            told = {"table": record.table, "topic": record.topic, "was": record.state}
            self.report.warn("object_lost", **facts_of(record.id), **told)
        return lost
