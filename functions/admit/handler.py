"""admit: every announced object is in the ledger before its message leaves the queue, and idle lanes are started."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from sluice_aws.admission.admit import Admission, report_admissions
from sluice_aws.admission.heads import Heads
from sluice_aws.admission.inbox import IgnoredMessages, open_inbox, unfinished_messages
from sluice_aws.admission.schema_fit import schema_fit
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import MessageUnfinished
from sluice_aws.lanes.start import Waker, starter_of
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaStore
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, milliseconds_left, observed

NEEDED = ("region", "ledger_table", "silver_bucket", "artifact_bucket")
RESERVED_MS = 15_000  # of the invocation's time: for wake-ups, a start, and the answer


@observed("admit")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry: an SQS event in, the messages that must come again out."""
    parts = parts_of(telemetry)
    inbox = open_inbox(event)
    configuration = parts.config_store.load()
    left = milliseconds_left(context)
    admissions = parts.admission.admit_all(
        inbox.notices, configuration, seconds=None if left is None else max(left - RESERVED_MS, 1_000) / 1000
    )
    unrecorded = parts.ignored.record(inbox.messages)
    report_admissions(telemetry, admissions)
    parts.waker.wake(admissions.lanes, configuration)
    again = unfinished_messages(inbox, admissions.failed, unrecorded)

    def settle(record: SQSRecord) -> None:
        if record.message_id in again:
            raise MessageUnfinished(again[record.message_id], message=record.message_id)

    # An invocation that finished nothing answers like any other: the messages come again, and the metric tells.
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    return dict(process_partial_response(event=event, record_handler=settle, processor=processor, context=context))


@dataclass(frozen=True)
class Parts:
    """What admit works with, made once per process."""

    admission: Admission
    config_store: ConfigStore
    ignored: IgnoredMessages
    waker: Waker


@functools.lru_cache(maxsize=1)
def parts_of(telemetry: Telemetry) -> Parts:
    """Make the parts from the environment, on the first invocation."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients(settings)
    objects = Objects(clients.s3)
    ledger = Ledger(clients.dynamodb, settings.ledger_table)
    starter = starter_of(settings, clients, ledger=ledger, report=telemetry)
    return Parts(
        admission=Admission(
            ledger=ledger,
            heads=Heads(objects),
            schemas=SchemaStore(objects, settings.silver_bucket),
            fit=schema_fit(objects, settings.silver_bucket, epoch_ms),
            now=epoch_ms,
        ),
        config_store=ConfigStore(objects, settings.artifact_bucket, ledger=ledger),
        ignored=IgnoredMessages(ledger=ledger, report=telemetry, now=epoch_ms),
        waker=Waker(ledger=ledger, starter=starter, report=telemetry, now=epoch_ms),
    )
