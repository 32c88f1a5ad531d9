"""admit: writes every announced object to the ledger before its message leaves the queue, and starts idle lanes."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

from sluice.admission.sqs_event import failed_messages, open_inbox, partial_batch_response
from sluice_aws.admission.admit import Admission, open_admission, report_admissions
from sluice_aws.admission.ignored_messages import IgnoredMessages
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.start import Waker, starter_of
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, milliseconds_left, observed

NEEDED = ("region", "ledger_table", "silver_bucket", "artifact_bucket")
RESERVED_MS = 15_000  # kept of the invocation's time for waking lanes, starting a run and answering
LEAST_MS = 1_000  # given to the objects even when less than the reserve is left


@observed("admit")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry: takes an SQS event, returns the messages to deliver again.

    Objects that are unfinished shortly before the invocation's deadline are among them.
    """
    parts = parts_of(telemetry)
    inbox = open_inbox(event)
    configuration = parts.config_store.load()
    left = milliseconds_left(context)
    seconds = None if left is None else max(left - RESERVED_MS, LEAST_MS) / 1000
    admissions = parts.admission.admit_all(inbox.notices, configuration, seconds=seconds)
    unrecorded = parts.ignored.record(inbox.messages)
    report_admissions(telemetry, admissions)
    parts.waker.wake(admissions.lanes, configuration)
    failed = failed_messages(inbox, admissions.failed, unrecorded)
    for message in failed:
        telemetry.warn("message_failed", message_id=message.message_id, code=message.code, reason=message.reason)
    return partial_batch_response(failed)


@dataclass(frozen=True)
class AdmitParts:
    """The adapters of admit, made once per process."""

    admission: Admission
    config_store: ConfigStore
    ignored: IgnoredMessages
    waker: Waker


@functools.lru_cache(maxsize=1)
def parts_of(telemetry: Telemetry) -> AdmitParts:
    """Make the adapters from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    objects = Objects(clients.s3)
    ledger = Ledger(clients.dynamodb, settings.ledger_table)
    starter = starter_of(settings, clients, ledger=ledger, report=telemetry)
    return AdmitParts(
        admission=open_admission(
            objects,
            ledger=ledger,
            silver_bucket=settings.silver_bucket,
            now=epoch_ms,
            forget_after_ms=settings.forget_after_s * 1000,
        ),
        config_store=ConfigStore(objects, settings.artifact_bucket, history=ledger.history),
        ignored=IgnoredMessages(history=ledger.history, report=telemetry, now=epoch_ms),
        waker=Waker(ledger=ledger, starter=starter, report=telemetry, now=epoch_ms),
    )
