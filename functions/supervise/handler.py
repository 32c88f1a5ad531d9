"""supervise: takes lanes back from runs that ended without releasing them, and starts the lanes that are due."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

from sluice.lane.supervision import concerned, finally_billed, read_event
from sluice_aws.announce import announcer_of
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.gauges import Gauges, spark_prices
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.lanes.start import starter_of
from sluice_aws.lanes.supervise import Supervisor
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.price_list import ENDPOINT_REGION
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, observed

NEEDED = ("region", "ledger_table", "artifact_bucket", "application_id")


@observed("supervise")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry: a job run's end concerns the lanes it may hold, its final bill none, any other event all lanes."""
    parts = parts_of(telemetry)
    billed = finally_billed(event)
    if billed is not None:
        parts.gauges.publish_cost(billed)
        return {"lanes": 0, "steps": 0}
    change = read_event(event)
    if change is not None and not change.terminal:
        telemetry.event("job_run_in_progress", job_run=change.job_run_id, state=change.state)
        return {"lanes": 0, "steps": 0}
    configuration = parts.config_store.load_or_last(telemetry)
    lanes = parts.supervisor.lanes(configuration)
    if change is None:
        parts.gauges.publish(lanes, configuration)
    else:
        parts.gauges.publish_cost(change.job_run_id)
        lanes = concerned(lanes, change, epoch_ms())
        telemetry.event(
            "job_run_ended", job_run=change.job_run_id, state=change.state, lanes=[lane.lane for lane in lanes]
        )
    steps = parts.supervisor.supervise(lanes, configuration)
    return {"lanes": len(lanes), "steps": steps}


@dataclass(frozen=True)
class SuperviseParts:
    """The adapters of supervise, made once per process."""

    supervisor: Supervisor
    gauges: Gauges
    config_store: ConfigStore


@functools.lru_cache(maxsize=1)
def parts_of(telemetry: Telemetry) -> SuperviseParts:
    """Make the adapters from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    ledger = Ledger(clients.dynamodb, settings.ledger_table)
    job_runs = JobRuns(clients.emr_serverless, settings.application_id)
    starter = starter_of(settings, clients, ledger=ledger, report=telemetry)
    return SuperviseParts(
        supervisor=Supervisor(ledger=ledger, job_runs=job_runs, starter=starter, report=telemetry, now=epoch_ms),
        gauges=Gauges(
            ledger=ledger,
            job_runs=job_runs,
            architecture=settings.architecture,
            prices=functools.cache(
                lambda: spark_prices(
                    lambda: Clients(region=ENDPOINT_REGION).client("pricing"),
                    settings.region,
                    settings.architecture,
                    telemetry,
                )
            ),
            report=telemetry,
            now=epoch_ms,
            announcer=announcer_of(settings, clients, ledger=ledger, report=telemetry),
            late_after_s=settings.late_after_s,
            table_metrics=settings.table_metrics,
        ),
        config_store=ConfigStore(Objects(clients.s3), settings.artifact_bucket, history=ledger.history),
    )
