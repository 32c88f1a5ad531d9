"""announce: puts events on the bus for committed batches, failures and quarantined objects in the ledger's stream.

The Spark job can't reach the event bus itself.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from sluice_aws.announce import Announcer, announcer_of, changes_of
from sluice_aws.clients import Clients
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, observed

NEEDED = ("region", "stack", "ledger_table", "event_bus")


@observed("announce")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry: takes records of the ledger's stream, returns those to deliver again."""
    records = event["Records"]
    failed = set(own_announcer(telemetry).announce(changes_of(records)))
    return {
        "batchItemFailures": [
            {"itemIdentifier": record["dynamodb"]["SequenceNumber"]}
            for record in records
            if str(record["eventID"]) in failed
        ]
    }


@functools.lru_cache(maxsize=1)
def own_announcer(telemetry: Telemetry) -> Announcer:
    """Make the announcer from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    ledger = Ledger(clients.dynamodb, settings.ledger_table)
    return announcer_of(settings, clients, ledger=ledger, report=telemetry)
