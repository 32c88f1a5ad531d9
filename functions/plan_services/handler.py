"""plan_services: one step of table_services: gather commits, request what is due and start runs, or follow requests."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.start import Waker, new_entropy, starter_of
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.services.planner import ServicePlanner
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, observed

NEEDED = ("region", "ledger_table", "artifact_bucket", "application_id")


@observed("plan_services")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry, called by the state machine: takes a `step` (gather, plan or follow), and what is `followed`."""
    planner, configurations = parts_of(telemetry)
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "gather": planner.gather,
        "plan": lambda: planner.plan(configurations.load_or_last(telemetry)),
        "follow": lambda: planner.follow(event["followed"]),
    }
    return steps[event["step"]]()


@functools.lru_cache(maxsize=1)
def parts_of(telemetry: Telemetry) -> tuple[ServicePlanner, ConfigStore]:
    """Make the adapters from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    ledger = Ledger(clients.dynamodb, settings.ledger_table)
    starter = starter_of(settings, clients, ledger=ledger, report=telemetry)
    planner = ServicePlanner(
        ledger=ledger,
        waker=Waker(ledger=ledger, starter=starter, report=telemetry, now=epoch_ms),
        report=telemetry,
        now=epoch_ms,
        entropy=new_entropy,
        pause_s=settings.services_pause_s,
    )
    return planner, ConfigStore(Objects(clients.s3), settings.artifact_bucket)
