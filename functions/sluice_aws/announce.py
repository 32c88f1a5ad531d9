"""Puts events on the bus: committed batches with their metrics, failures, quarantined objects, late tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.errors import SluiceError
from sluice.ledger.announcement import announcement, batch_seconds, lane_metrics, table_metrics
from sluice.ledger.events import (
    BATCH_COMMITTED,
    FRESHNESS_LATE,
    LANE_HALTED,
    OBJECT_QUARANTINED,
    SOURCE,
    TABLE_FAILED,
    LateTable,
    LedgerChange,
    batch_events,
    freshness_late,
    is_refused_object,
    lane_halted,
    newly_committed,
    objects_refused,
    table_failed,
)
from sluice.ports import Report
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import AnnouncementRefused
from sluice_aws.ledger import expressions as codec
from sluice_aws.ledger.batches import BatchLedger
from sluice_aws.ledger.history import HistoryLedger
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.settings import Settings

if TYPE_CHECKING:
    from sluice_aws.clients import Clients

MISSED_PER_PASS = 100  # batches per scheduled pass: a few seconds
ENTRIES = 10  # of one PutEvents
ENTRIES_BYTES = 250_000  # of one PutEvents, which takes 1 MB: a state machine as the target takes 256 KB


@dataclass(frozen=True)
class EventBus:
    """The bus of one stack. `stack` is the name that the events carry, and by which rules on a shared bus select."""

    events: Any
    bus: str
    stack: str

    def put(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Put events, each with its detail-type and detail. Raises AnnouncementRefused and botocore's errors."""
        group: list[dict[str, str]] = []
        size = 0
        for detail_type, detail in events:
            text = json.dumps(detail)
            if group and (len(group) == ENTRIES or size + len(text) > ENTRIES_BYTES):
                self._put(group)
                group, size = [], 0
            group.append({"Source": SOURCE, "DetailType": detail_type, "Detail": text, "EventBusName": self.bus})
            size += len(text)
        if group:
            self._put(group)

    def _put(self, entries: Sequence[Mapping[str, str]]) -> None:
        answer = self.events.put_events(Entries=entries)
        if answer["FailedEntryCount"]:
            place, refused = next((n, one) for n, one in enumerate(answer["Entries"]) if one.get("ErrorCode"))
            event_id = json.loads(entries[place]["Detail"])["id"]
            raise AnnouncementRefused(
                f"Event bus {self.bus} refused {entries[place]['DetailType']} of {event_id}",
                event=entries[place]["DetailType"],
                id=event_id,
                bus=self.bus,
                cause=refused.get("ErrorCode"),
                described=refused.get("ErrorMessage"),
            )


@dataclass(frozen=True)
class Announcer:
    """Sends each event at least once. What the ledger says was sent is not sent again; consumers know a repetition by
    its `id`.

    With `table_metrics`, a committed batch is also counted for each of its tables.
    """

    batches: BatchLedger
    history: HistoryLedger
    bus: EventBus
    report: Report
    now: Callable[[], int]
    table_metrics: bool = False

    def announce(self, changes: Sequence[LedgerChange]) -> list[str]:
        """Announce changes of the ledger; returns the ids of those to deliver again. Objects are announced together."""
        batches = [change for change in changes if newly_committed(change) is not None]
        rest = [change for change in changes if newly_committed(change) is None]
        sent = self.history.events_sent(change.id for change in rest) if rest else frozenset()
        rest = [change for change in rest if change.id not in sent]
        refused = [change for change in rest if is_refused_object(change)]
        failed = [change.id for change in batches if not self._done([change], self._announce_change)]
        failed += [change.id for change in rest if change not in refused and not self._done([change], self._tell)]
        if refused and not self._done(refused, self._tell_refused):
            failed += [change.id for change in refused]
        return failed

    def announce_late(self, late: Sequence[LateTable]) -> None:
        """Announce tables that are late, unless that was said before. A failure is logged; the next pass says it."""
        sent = self.history.events_sent(table.episode for table in late) if late else frozenset()
        for table in late:
            if table.episode in sent:
                continue
            try:
                self.bus.put([(FRESHNESS_LATE, freshness_late(table, stack=self.bus.stack))])
                self.history.note_event_sent(table.episode, self.now())
            except (SluiceError, ClientError, BotoCoreError) as error:
                self.report.warn("lateness_not_announced", table=table.table, error=str(error)[:500])

    def announce_missed(self, before: int, *, most: int = MISSED_PER_PASS) -> int:
        """Announce batches that were committed before `before` (epoch ms) and not announced; returns their number.

        The stream drops a record after some retries. A batch that can't be announced holds up no other.
        """
        announced = 0
        for batch in islice(self.batches.unannounced(before), most):
            try:
                self._announce_batch(batch["batch"], batch)
            except (SluiceError, ClientError, BotoCoreError) as error:
                self.report.warn("batch_not_announced", batch=batch["batch"], error=str(error)[:500])
                self.report.count("BatchesNotAnnounced")
                continue
            announced += 1
        if announced:
            self.report.count("BatchesAnnouncedLate", announced)
        return announced

    def _done(self, changes: Sequence[LedgerChange], announce: Callable[[Sequence[LedgerChange]], None]) -> bool:
        """Whether changes were announced. Any error is logged: the stream delivers its records again."""
        try:
            announce(changes)
        except Exception as error:
            for change in changes:
                self.report.warn("record_not_announced", event_id=change.id, error=str(error)[:500])
            self.report.count("RecordsNotAnnounced", len(changes))
            return False
        return True

    def _announce_change(self, changes: Sequence[LedgerChange]) -> None:
        for change in changes:
            name = newly_committed(change)
            # The stream repeats what follows a record that failed, and reconcile may have been first.
            if name is not None and not (self.batches.get(name) or {}).get("announced_at"):
                self._announce_batch(name, change.new or {})

    def _tell(self, changes: Sequence[LedgerChange]) -> None:
        stack = self.bus.stack
        for change in changes:
            for detail_type, detail in (
                (TABLE_FAILED, table_failed(change, stack=stack)),
                (LANE_HALTED, lane_halted(change, stack=stack)),
            ):
                if detail is not None:
                    self.bus.put([(detail_type, detail)])
                    self.history.note_event_sent(change.id, self.now())

    def _tell_refused(self, changes: Sequence[LedgerChange]) -> None:
        self.bus.put([(OBJECT_QUARANTINED, objects_refused(changes, stack=self.bus.stack))])
        for change in changes:
            self.history.note_event_sent(change.id, self.now())

    def _announce_batch(self, name: str, batch: Mapping[str, Any]) -> None:
        parts = self.batches.parts(name)
        detail = announcement(batch, parts, stack=self.bus.stack)
        self.bus.put([(BATCH_COMMITTED, detail), *batch_events(batch, parts, stack=self.bus.stack)])
        self.batches.mark_announced(name, self.now())
        self.report.event("batch_committed", **detail)
        lane = str(detail["lane"])
        for metric, n in lane_metrics(batch, parts).items():
            self.report.count(metric, n, lane=lane)
        for table, part in parts.items() if self.table_metrics else ():
            for metric, n in table_metrics(part).items():
                self.report.count(metric, n, table=table)
        seconds = batch_seconds(batch)
        if seconds is not None:
            self.report.count("BatchSeconds", seconds, unit="Seconds", lane=lane)


def announcer_of(settings: Settings, clients: Clients, *, ledger: Ledger, report: Report) -> Announcer:
    """The announcer of a deployment."""
    return Announcer(
        batches=ledger.batches,
        history=ledger.history,
        bus=EventBus(clients.events, bus=settings.event_bus, stack=settings.stack),
        report=report,
        now=epoch_ms,
        table_metrics=settings.table_metrics,
    )


def changes_of(records: Iterable[Mapping[str, Any]]) -> list[LedgerChange]:
    """The changes in records of the ledger's stream."""
    return [
        LedgerChange(
            str(record["eventID"]), _item(record["dynamodb"].get("OldImage")), _item(record["dynamodb"].get("NewImage"))
        )
        for record in records
    ]


def _item(image: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if image is None else codec.values(image)
