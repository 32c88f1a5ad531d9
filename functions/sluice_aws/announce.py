"""Announces committed batches to the event bus and the metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.errors import SluiceError
from sluice.ledger.announcement import DETAIL_TYPE, SOURCE, announcement, batch_seconds, lane_metrics, newly_committed
from sluice.ledger.object_ports import BatchLedger
from sluice.ports import Report
from sluice_aws.errors import AnnouncementRefused
from sluice_aws.ledger import expressions as codec

MISSED_PER_PASS = 100  # batches per scheduled pass: a few seconds


class Announcer:
    """Announces each batch at least once. Consumers recognize a repetition by the batch id."""

    def __init__(
        self, *, batches: BatchLedger, events: Any, bus: str, stack: str, report: Report, now: Callable[[], int]
    ) -> None:
        """`stack` is the name that the events carry, and by which rules on a shared bus select them."""
        self._batches = batches
        self._events = events
        self._bus = bus
        self._stack = stack
        self._report = report
        self._now = now

    def announce(self, change: Mapping[str, Any]) -> bool:
        """Announce the batch that a change of the ledger commits; False if it commits none.

        `change` is the "dynamodb" member of a stream record. Raises AnnouncementRefused and botocore's errors, after
        which the stream delivers the record again.
        """
        new = codec.values(change.get("NewImage") or {})
        name = newly_committed(codec.values(change.get("OldImage") or {}), new)
        if name is None:
            return False
        self._announce(name, new)
        return True

    def announce_missed(self, before: int, *, most: int = MISSED_PER_PASS) -> int:
        """Announce batches that were committed before `before` (epoch ms) and not announced; returns their number.

        The stream drops a record after some retries. A batch that can't be announced holds up no other.
        """
        announced = 0
        for batch in islice(self._batches.unannounced(before), most):
            try:
                self._announce(batch["batch"], batch)
            except (SluiceError, ClientError, BotoCoreError) as error:
                self._report.warn("batch_not_announced", batch=batch["batch"], error=str(error)[:500])
                self._report.count("BatchesNotAnnounced")
                continue
            announced += 1
        if announced:
            self._report.count("BatchesAnnouncedLate", announced)
        return announced

    def _announce(self, name: str, batch: Mapping[str, Any]) -> None:
        parts = self._batches.parts(name)
        detail = announcement(batch, parts, stack=self._stack)
        entry = {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": json.dumps(detail), "EventBusName": self._bus}
        answer = self._events.put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            refused = answer["Entries"][0]
            raise AnnouncementRefused(
                f"Event bus {self._bus} refused the event of batch {name}",
                batch=name,
                bus=self._bus,
                cause=refused.get("ErrorCode"),
                described=refused.get("ErrorMessage"),
            )
        self._batches.mark_announced(name, self._now())
        self._report.event("batch_committed", **detail)
        lane = str(detail["lane"])
        for metric, n in lane_metrics(batch, parts).items():
            self._report.count(metric, n, lane=lane)
        seconds = batch_seconds(batch)
        if seconds is not None:
            self._report.count("BatchSeconds", seconds, unit="Seconds", lane=lane)
