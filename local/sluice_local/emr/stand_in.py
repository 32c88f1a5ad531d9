"""The stand-in as a whole: a server, its runs and its events, in threads of the process that owns it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any, Callable

from sluice_local import children
from sluice_local.emr.api import serve
from sluice_local.emr.job_runs import JobRun
from sluice_local.emr.service import Runner, Service
from sluice_local.emr.spark_runner import RunnerSettings, SparkRunner
from sluice_local.emr.state_events import StateEvents, state_change
from sluice_local.emr.work_directory import Fetcher


@dataclass
class StandIn:
    """A running stand-in."""

    port: int
    service: Service
    _server: ThreadingHTTPServer
    _events: StateEvents
    _stop_runs: Callable[[], None]

    @property
    def endpoint(self) -> str:
        """What AWS_ENDPOINT_URL_EMR_SERVERLESS names."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End every run, then the server. Events of the ends go out first."""
        self._stop_runs()
        self._events.close()
        self._server.shutdown()
        self._server.server_close()


def start_stand_in(
    settings: RunnerSettings, *, s3: Any, events: Any, functions: Any, account: str, port: int | None = None
) -> StandIn:
    """Start one on 127.0.0.1; `s3`, `events` and `functions` are boto3 clients of the emulator."""
    fetcher = Fetcher(s3, settings.home / "archives")
    (settings.home / "archives").mkdir(parents=True, exist_ok=True)
    delivery = StateEvents(events, functions)
    region = settings.cloud.region

    def changed(run: JobRun, previous: str) -> None:
        delivery.put(state_change(run, previous, account=account, region=region))

    runners: list[SparkRunner] = []

    def runner(service: Service) -> Runner:
        runners.append(SparkRunner(service, settings, fetcher))
        return runners[0]

    service = Service(runner, account=account, region=region, changed=changed)
    server = serve(service, port or children.free_port())
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="emr-stand-in", daemon=True
    ).start()
    return StandIn(int(server.server_address[1]), service, server, delivery, runners[0].stop)
