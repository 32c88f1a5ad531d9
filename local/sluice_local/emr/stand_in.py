"""The whole stand-in: a server, its runs and its events, in threads of the owning process.

An emulator refuses events with an aws.* source from outside, as AWS does. So the stand-in asks the emulator which
deployed rules match a job run's state change, and calls the functions that the rules target.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from http.server import ThreadingHTTPServer
from typing import Any

from sluice_local import processes as children
from sluice_local.emr.api import serve
from sluice_local.emr.job_runs import LocalJobRun
from sluice_local.emr.service import Runner, Service
from sluice_local.emr.spark_runner import RunnerSettings, SparkRunner
from sluice_local.emr.work_directory import Fetcher


@dataclass
class StandIn:
    """A running stand-in. `host` is the address at which this machine reaches it."""

    host: str
    port: int
    service: Service
    _server: ThreadingHTTPServer
    _events: StateEvents
    _stop_runs: Callable[[], None]

    @property
    def endpoint(self) -> str:
        """The value for AWS_ENDPOINT_URL_EMR_SERVERLESS."""
        return f"http://{self.host}:{self.port}"

    def stop(self) -> None:
        """End every run, deliver the events of their ends, then end the server."""
        self._stop_runs()
        self._events.close()
        self._server.shutdown()
        self._server.server_close()


def start_stand_in(
    settings: RunnerSettings,
    *,
    s3: Any,
    events: Any,
    functions: Any,
    account: str,
    port: int | None = None,
    bind: str = children.LOOPBACK,
) -> StandIn:
    """Start a stand-in on the IPv4 address `bind`. `s3`, `events` and `functions` are boto3 clients of the emulator."""
    fetcher = Fetcher(s3, settings.home / "archives")
    (settings.home / "archives").mkdir(parents=True, exist_ok=True)
    delivery = StateEvents(events, functions)
    region = settings.cloud.region

    def changed(run: LocalJobRun, previous: str) -> None:
        delivery.put(state_change(run, previous, account=account, region=region))

    runners: list[SparkRunner] = []

    def runner(service: Service) -> Runner:
        runners.append(SparkRunner(service, settings, fetcher))
        return runners[0]

    service = Service(runner, account=account, region=region, changed=changed)
    server = serve(service, port or children.free_port(), bind)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="emr-stand-in", daemon=True
    ).start()
    return StandIn(children.reached_at(bind), int(server.server_address[1]), service, server, delivery, runners[0].stop)


_LOG = logging.getLogger(__name__)


def state_change(run: LocalJobRun, previous: str, *, account: str, region: str) -> dict[str, Any]:
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
    """Delivers events one after the other in the background: best effort, as in the cloud."""

    def __init__(self, events: Any, functions: Any) -> None:
        """`events` and `functions` are boto3 clients for EventBridge and Lambda."""
        self._events = events
        self._functions = functions
        self._queue: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
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
            except Exception:  # the emulator may have ended: events are best effort, and the schedule finds the run
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
