"""Tells the deployed rules that a job run changed state, in AWS's own shape.

An emulator refuses events of an aws.* source from outside, as AWS does. So this asks it which rules are deployed and
whether their patterns match, and calls the functions that they target.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import uuid
from datetime import datetime, timezone
from typing import Any, Mapping, Optional

from sluice_local.emr.job_runs import JobRun

_LOG = logging.getLogger(__name__)


def state_change(run: JobRun, previous: str, *, account: str, region: str) -> dict[str, Any]:
    """The event "EMR Serverless Job Run State Change" (EMR Serverless User Guide, "Monitoring with EventBridge")."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "EMR Serverless Job Run State Change",
        "source": "aws.emr-serverless",
        "account": account,
        "time": _iso(run.updated_at, fraction=False),
        "region": region,
        "resources": [],
        "detail": {
            "jobRunId": run.id,
            "applicationId": run.application.id,
            "arn": run.arn,
            "releaseLabel": run.application.release,
            "state": run.state,
            "previousState": previous,
            "createdBy": run.created_by,
            "updatedAt": _iso(run.updated_at),
            "createdAt": _iso(run.created_at),
        },
    }


def _iso(epoch_s: float, *, fraction: bool = True) -> str:
    moment = datetime.fromtimestamp(epoch_s, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if fraction else "%Y-%m-%dT%H:%M:%SZ")


class StateEvents:
    """Delivers events one after the other, off the path of the job; best effort, as in the cloud."""

    def __init__(self, events: Any, functions: Any) -> None:
        """`events` and `functions` are boto3 clients for EventBridge and Lambda."""
        self._events = events
        self._functions = functions
        self._queue: "queue.Queue[Optional[Mapping[str, Any]]]" = queue.Queue()
        self._thread = threading.Thread(target=self._deliver_all, name="emr-state-events", daemon=True)
        self._thread.start()

    def put(self, event: Mapping[str, Any]) -> None:
        """Queue one event."""
        self._queue.put(event)

    def close(self) -> None:
        """Deliver what is queued and stop."""
        self._queue.put(None)
        self._thread.join(10.0)

    def _deliver_all(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._deliver(event)
            except (
                Exception
            ):  # the emulator may be gone: the service's events are best effort too, and the schedule finds the run
                _LOG.exception("state change was not delivered", extra={"job_run": event["detail"]["jobRunId"]})

    def _deliver(self, event: Mapping[str, Any]) -> None:
        for page in self._events.get_paginator("list_rules").paginate():
            for rule in page["Rules"]:
                if (
                    rule.get("EventPattern")
                    and rule.get("State") == "ENABLED"
                    and self._matches(rule["EventPattern"], event)
                ):
                    for target in self._events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
                        if ":lambda:" in target["Arn"]:
                            self._functions.invoke(
                                FunctionName=target["Arn"], InvocationType="Event", Payload=json.dumps(event).encode()
                            )

    def _matches(self, pattern: str, event: Mapping[str, Any]) -> bool:
        return bool(self._events.test_event_pattern(EventPattern=pattern, Event=json.dumps(event))["Result"])
