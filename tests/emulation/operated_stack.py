"""A stack with its functions, which the commands invoke and whose queues are handed to admit as Lambda does."""

from __future__ import annotations

import json
from contextlib import contextmanager

from reconcile.handler import handler as reconcile
from supervise.handler import handler as supervise

from emulation.deployment import FUNCTIONS_SETTINGS, context, forget_processes
from emulation.stack import REGION, SHARED, cloudformation
from sluice.batch.manifest import TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.lane.machine import RUNNING, STARTING
from sluice.silver_keys import manifest_key
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target

INSTANT = "20261121080015045"
FUNCTIONS = {"s-supervise": supervise, "s-reconcile": reconcile}


@contextmanager
def operated(stack, monkeypatch):
    """The stack with its functions: those that commands invoke run at once, and what they raise is kept."""
    emr = SHARED.client("emr-serverless")
    application = emr.create_application(name="s", releaseLabel="emr-7.14.0", type="SPARK", clientToken="o")
    sqs = SHARED.client("sqs")
    names = ("QueueUrl", "UnannouncedQueueUrl", "UnreconciledQueueUrl", "UndeliveredQueueUrl")
    queues = {output: sqs.create_queue(QueueName=output)["QueueUrl"] for output in names}
    outputs = {**cloudformation().outputs, **queues, "ReconcileFunction": "s-reconcile"}
    cloudformation().outputs = {**outputs, "ApplicationId": application["applicationId"]}
    buckets = {"BRONZE_BUCKET": "s-bronze", "SILVER_BUCKET": "s-silver", "ARTIFACT_BUCKET": "s-artifacts"}
    own = {"AWS_REGION": REGION, "LEDGER_TABLE": "s-ledger", "APPLICATION_ID": application["applicationId"], **buckets}
    for name, value in {**FUNCTIONS_SETTINGS, **own}.items():
        monkeypatch.setenv(name, value)
    forget_processes()

    class Lambda:
        def invoke(self, FunctionName, InvocationType, Payload):
            FUNCTIONS[FunctionName](json.loads(Payload), context(400_000))

    whole = Target.client
    monkeypatch.setattr(
        Target, "client", lambda self, service: Lambda() if service == "lambda" else whole(self, service)
    )
    yield stack
    forget_processes()


def merge(system, table, identity):
    """Have the run that was started for an object hold its lane, and merge it; the batch."""
    ledger = system.ledger
    record = ledger.objects.get([identity])[identity]
    lane = ledger.lanes.get(record.lane)
    if lane.state != RUNNING:
        assert ledger.lanes.hold(lane.lane, lane.run_id, lane.job_run_id, 1, 1)
    config = ConfigStore(Objects(system.s3), "s-artifacts").load().table_for_topic(record.topic)
    item = system.listed(identity, record.topic, schema=record.schema, offset=1, admitted_at=record.admitted_at)
    manifest = open_manifest(lane.lane, lane.run_id, 1, "c", {table: TablePart(config.to_dict(), (item,))})
    outcome = Outcome(manifest.batch, table, COMMITTED, 2, instant=INSTANT, counts={"read": 1, "objects": 1})
    system.put_documents(manifest, outcome)
    assert ledger.batches.open(manifest, manifest_key(lane.lane, manifest.batch), lane.run_id, lane.job_run_id)
    assert ledger.batches.claim(manifest)
    ledger.tables.pin(table, config.pinned)
    assert ledger.batches.settle(lane.lane, manifest.batch, outcome, [identity], lane.run_id, 2)
    assert ledger.batches.close(lane.lane, manifest.batch, lane.run_id, 3)
    return manifest.batch


def release(system, lane="main"):
    """Have the run of a lane end with nothing left to do."""
    held, now = system.ledger.lanes.get(lane), epoch_ms()
    if held.state == STARTING:
        assert system.ledger.lanes.hold(lane, held.run_id, held.job_run_id, 1, now)
    assert system.ledger.lanes.release(lane, held.run_id, held.arrivals, None, now)
    system.ledger.history.run_ended(held.run_id, "released", None, 1, now)
