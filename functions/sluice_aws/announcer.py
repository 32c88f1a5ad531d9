"""Tells the event bus and the metrics that a batch is committed."""
from __future__ import annotations

import json
from typing import Any, Mapping

from sluice.announcing import DETAIL_TYPE, SOURCE, announcement, batch_seconds, lane_metrics, newly_committed
from sluice.errors import SluiceError
from sluice_aws import ledger_codec as codec
from sluice_aws.telemetry import Report


class AnnouncementRefused(SluiceError):
    """The event bus didn't take the event; facts: `batch`, `bus`, and its own error code and message."""

    code = "announcement_refused"
    retriable = True


class Announcer:
    """Announces at least once: a consumer tells a repetition by the batch id."""

    def __init__(self, *, ledger: Any, events: Any, bus: str, report: Report) -> None:
        self._ledger = ledger
        self._events = events
        self._bus = bus
        self._report = report

    def tell(self, change: Mapping[str, Any]) -> bool:
        """Announce the batch that a change of the ledger (a stream record's "dynamodb") committed; False if it is none.

        Raises AnnouncementRefused, and botocore's errors; the record comes again then.
        """
        new = codec.values(change.get("NewImage") or {})
        name = newly_committed(codec.values(change.get("OldImage") or {}), new)
        if name is None:
            return False
        parts = self._ledger.batch_parts(name)
        detail = announcement(new, parts)
        entry = {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": json.dumps(detail), "EventBusName": self._bus}
        answer = self._events.put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            refused = answer["Entries"][0]
            raise AnnouncementRefused(
                f"Event bus {self._bus} refused to take batch {name}", batch=name, bus=self._bus,
                cause=refused.get("ErrorCode"), told=refused.get("ErrorMessage"),
            )  # fmt: skip
        self._report.event("batch_committed", **detail)
        lane = str(detail["lane"])
        for metric, n in lane_metrics(new, parts).items():
            self._report.count(metric, n, lane=lane)
        seconds = batch_seconds(new)
        if seconds is not None:
            self._report.count("BatchSeconds", seconds, unit="Seconds", lane=lane)
        return True
