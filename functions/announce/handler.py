"""announce: puts an event on the bus for each batch that the ledger's stream shows as committed.

The Spark job can't reach the event bus itself.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from sluice_aws.announce import Announcer
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, observed

NEEDED = ("region", "stack", "ledger_table", "event_bus")


@observed("announce")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry: takes records of the ledger's stream, returns those to deliver again."""
    announcer = announcer_of(telemetry)

    def announce(record: DynamoDBRecord) -> None:
        try:
            announcer.announce(record.raw_event["dynamodb"])
        except Exception as error:
            # Powertools answers with the record and drops the reason.
            telemetry.warn("record_not_announced", event_id=record.event_id, error=str(error)[:500])
            telemetry.count("RecordsNotAnnounced")
            raise

    processor = BatchProcessor(event_type=EventType.DynamoDBStreams, raise_on_entire_batch_failure=False)
    return dict(process_partial_response(event=event, record_handler=announce, processor=processor, context=context))


@functools.lru_cache(maxsize=1)
def announcer_of(telemetry: Telemetry) -> Announcer:
    """Make the announcer from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    return Announcer(
        batches=DynamoDbLedger(clients.dynamodb, settings.ledger_table).batches,
        events=clients.events,
        bus=settings.event_bus,
        stack=settings.stack,
        report=telemetry,
        now=epoch_ms,
    )
