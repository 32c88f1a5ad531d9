"""Tells the event bus and the metrics that a batch is committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.errors import SluiceError
from sluice.ledger.announcement import DETAIL_TYPE, SOURCE, announcement, batch_seconds, lane_metrics, newly_committed
from sluice.ledger.ports import BatchLedger
from sluice_aws.errors import AnnouncementRefused
from sluice_aws.ledger import expressions as codec
from sluice_aws.telemetry import Report

FORGOTTEN_AT_ONCE = 100  # of one pass of the schedule: a few seconds


class Announcer:
    """Announces at least once: a consumer tells a repetition by the batch id."""

    def __init__(self, *, batches: BatchLedger, events: Any, bus: str, report: Report, now: Callable[[], int]) -> None:
        self._batches = batches
        self._events = events
        self._bus = bus
        self._report = report
        self._now = now

    def tell(self, change: Mapping[str, Any]) -> bool:
        """Announce the batch that a change of the ledger (a stream record's "dynamodb") committed; False if it is none.

        Raises AnnouncementRefused, and botocore's errors; the record comes again then.
        """
        new = codec.values(change.get("NewImage") or {})
        name = newly_committed(codec.values(change.get("OldImage") or {}), new)
        if name is None:
            return False
        self._announce(name, new)
        return True

    def tell_forgotten(self, before: int, *, most: int = FORGOTTEN_AT_ONCE) -> int:
        """Announce batches that were committed before that time (epoch ms) and never announced; returns how many.

        The stream gives a record up after some retries. One batch that can't be announced now keeps no other waiting.
        """
        described = 0
        for batch in islice(self._batches.unannounced(before), most):
            try:
                self._announce(batch["batch"], batch)
            except (SluiceError, ClientError, BotoCoreError) as error:
                self._report.warn("batch_not_announced", batch=batch["batch"], error=str(error)[:500])
                self._report.count("BatchesNotAnnounced")
                continue
            described += 1
        if described:
            self._report.count("BatchesAnnouncedLate", described)
        return described

    def _announce(self, name: str, batch: Mapping[str, Any]) -> None:
        parts = self._batches.parts(name)
        detail = announcement(batch, parts)
        entry = {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": json.dumps(detail), "EventBusName": self._bus}
        answer = self._events.put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            refused = answer["Entries"][0]
            raise AnnouncementRefused(
                f"Event bus {self._bus} refused to take batch {name}", batch=name, bus=self._bus,
                cause=refused.get("ErrorCode"), described=refused.get("ErrorMessage"),
            )  # fmt: skip
        self._batches.mark_announced(name, self._now())
        self._report.event("batch_committed", **detail)
        lane = str(detail["lane"])
        for metric, n in lane_metrics(batch, parts).items():
            self._report.count(metric, n, lane=lane)
        seconds = batch_seconds(batch)
        if seconds is not None:
            self._report.count("BatchSeconds", seconds, unit="Seconds", lane=lane)
