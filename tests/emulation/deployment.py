"""A deployment on the emulator for tests of the functions: buckets, ledger, bus, application, configuration."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.emrserverless.models import emrserverless_backends
from support.builders import avro_object

from emulation.aws import emulated_aws, emulated_session, observing
from emulation.ledger_table_schema import create_ledger_table
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.objects import ObjectId
from sluice_aws.ledger.ledger import Ledger

REGION = "us-west-2"
BRONZE, SILVER, ARTIFACTS = "sluice-bronze", "sluice-silver", "sluice-artifacts"
LEDGER = "sluice-ledger"
TOPIC = "shop.public.orders"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "shop.public.orders.Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "__lsn", "type": ["null", "long"], "default": None},
        {"name": "__deleted", "type": ["null", "string"], "default": None},
    ],
}


#: What all functions have in their environment, besides the names of what they use.
FUNCTIONS_SETTINGS = {
    "STACK_NAME": "s",
    "JOB_ROLE_ARN": f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/sluice-job",
    "RELEASE": "r1",
    "HUDI_JARS": "file:///usr/lib/hudi/hudi-spark-bundle.jar",
    "ARCHITECTURE": "X86_64",
    "EVENT_BUS": "default",
    "RECONCILE_GRACE_SECONDS": "0",
}
SHARED = emulated_session(REGION)


class Deployment:
    """What a test sees of the deployment, and what it changes in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.s3 = SHARED.client("s3")
        for bucket in (BRONZE, SILVER, ARTIFACTS):
            self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
        self.dynamodb = SHARED.client("dynamodb")
        create_ledger_table(self.dynamodb, LEDGER)
        self.ledger = Ledger(self.dynamodb, LEDGER)
        self.emr = SHARED.client("emr-serverless")
        self.application = self.emr.create_application(
            name="sluice", releaseLabel="emr-7.14.0", type="SPARK", clientToken="t"
        )["applicationId"]
        self.calls: list[str] = []
        buckets = {"BRONZE_BUCKET": BRONZE, "SILVER_BUCKET": SILVER, "ARTIFACT_BUCKET": ARTIFACTS}
        own = {"AWS_REGION": REGION, "LEDGER_TABLE": LEDGER, "APPLICATION_ID": self.application, **buckets}
        self.environment(**FUNCTIONS_SETTINGS, **own)

    def environment(self, **variables: str) -> None:
        """Set variables, and let the functions read them anew."""
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)
        forget_processes()

    def configure(self, *rules: TableRule, lanes: tuple[LaneConfig, ...] = (LaneConfig(),)) -> Configuration:
        """Push a configuration; without rules, one for the test topic."""
        configuration = Configuration(rules or (TableRule("public.orders", ("id",), topic=TOPIC),), lanes)
        self.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=configuration.to_json().encode())
        return configuration

    def land(self, key: str, body: bytes, bucket: str = BRONZE) -> ObjectId:
        """Put an object and give its identity."""
        answer = self.s3.put_object(Bucket=bucket, Key=key, Body=body)
        return ObjectId(bucket, key, answer.get("VersionId") or "etag:" + answer["ETag"].strip('"'))

    def admit(self, *keys: str) -> list[ObjectId]:
        """Put objects at these keys, and have admit take the message that announces them."""
        from admit.handler import handler

        ids = [self.land(key, avro()) for key in keys]
        assert failed_items(handler(sqs_event(s3_body(*ids)), context())) == []
        return ids

    def record(self, id: ObjectId) -> Any:
        """The ledger's record of an object, None when there is none."""
        return self.ledger.objects.get([id]).get(id)

    def job_runs(self) -> list[Any]:
        """The emulator's job runs, whose `state` and `state_details` a test may set."""
        return emrserverless_backends[DEFAULT_ACCOUNT_ID][REGION].job_runs.get(self.application, [])


class Bus:
    """An event bus that takes entries, or refuses those whose id is named."""

    def __init__(self, taken: list[tuple[Any, Any]], refuse: Collection[str]) -> None:
        self.taken, self.refuse = taken, refuse

    def put_events(self, Entries: Any) -> dict[str, Any]:
        entries = [(entry, json.loads(entry["Detail"])) for entry in Entries]
        slow = {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow"}
        answers = [slow if detail["id"] in self.refuse else {"EventId": "1"} for _, detail in entries]
        self.taken += [item for item, answer in zip(entries, answers) if "EventId" in answer]
        return {"FailedEntryCount": sum("ErrorCode" in answer for answer in answers), "Entries": answers}


def use_bus(
    monkeypatch: pytest.MonkeyPatch, taken: list[tuple[Any, Any]] | None = None, *, refuse: Collection[str] = ()
) -> list[tuple[Any, Any]]:
    """Have functions send to a bus of this process; gives the entries that it took and their details, which grow."""
    taken = [] if taken is None else taken
    monkeypatch.setattr("sluice_aws.clients.Clients.events", property(lambda _: Bus(taken, refuse)))
    return taken


def forget_processes() -> None:
    """As if every function started in a new process."""
    import admit.handler
    import announce.handler
    import plan_services.handler
    import reconcile.handler
    import supervise.handler
    import sync_catalog.handler

    from sluice_aws import telemetry

    for cached in (
        admit.handler.parts_of,
        supervise.handler.parts_of,
        reconcile.handler.parts_of,
        announce.handler.own_announcer,
        sync_catalog.handler.requests_of,
        plan_services.handler.parts_of,
        telemetry.telemetry_of,
    ):
        cached.cache_clear()
    # Powertools keeps the handler of a name's first logger, which writes to the standard output of that time.
    for handler in (admit, announce, plan_services, reconcile, supervise, sync_catalog):
        logging.Logger.manager.loggerDict.pop(handler.__name__, None)


@contextmanager
def new_deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """An empty deployment, and the names of the operations that are called on it."""
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    calls: list[str] = []
    monkeypatch.setattr("sluice_aws.clients.boto3", SimpleNamespace(Session=lambda **_: SHARED))
    keep_job_runs_submitted(SHARED, REGION)
    with emulated_aws(), observing(lambda model, params: calls.append(model.name)):
        made = Deployment(monkeypatch)
        made.calls = calls
        calls.clear()
        yield made
    forget_processes()


@cache
def keep_job_runs_submitted(session: Any, region: str) -> None:
    """The emulator's job runs end as they start; those of this session are ended by its tests."""

    def submitted(parsed: dict[str, Any], **_: Any) -> None:
        for run in emrserverless_backends[DEFAULT_ACCOUNT_ID][region].job_runs.get(parsed.get("applicationId", ""), []):
            if run.id == parsed["jobRunId"]:
                run.state = "SUBMITTED"

    session.events.register("after-call.emr-serverless.StartJobRun", submitted)


def avro(schema: dict[str, Any] = SCHEMA, rows: int = 1, codec: str = "null") -> bytes:
    """An Avro object of the test topic."""
    return avro_object(schema, [{"id": n} for n in range(rows)], codec=codec)


def key(offset: int, topic: str = TOPIC) -> str:
    """A key as Confluent's sink names them."""
    return f"topics/{topic}/partition=0/{topic}+0+{offset:010d}.avro"


def s3_body(*ids: ObjectId, size: int = 1000, age: timedelta = timedelta(0)) -> str:
    """The body of an S3 notification of this age."""
    from urllib.parse import quote_plus

    at = f"{datetime.now(timezone.utc) - age:%Y-%m-%dT%H:%M:%S}.000Z"
    about = {"eventVersion": "2.6", "eventSource": "aws:s3", "eventTime": at, "eventName": "ObjectCreated:Put"}

    def stored(id: ObjectId) -> dict[str, Any]:
        etag = id.etag or "d41d8cd98f00b204e9800998ecf8427e"
        version = {"versionId": id.version_id} if id.version_id else {}
        return {"key": quote_plus(id.key), "size": size, "eTag": etag, "sequencer": "0055AED6DCD90281E5", **version}

    records = [
        {**about, "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": id.bucket}, "object": stored(id)}} for id in ids
    ]
    return json.dumps({"Records": records})


def sqs_event(*bodies: str) -> dict[str, Any]:
    """The event that Lambda gets for messages; their ids are m0, m1 …"""
    about = {
        "receiptHandle": "r",
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-west-2:123456789012:notices",
        "awsRegion": REGION,
    }
    return {"Records": [{"messageId": f"m{n}", "body": body, **about} for n, body in enumerate(bodies)]}


def context(milliseconds: int = 60_000) -> Any:
    """A Lambda context with so much time left."""
    return SimpleNamespace(
        aws_request_id="request-1",
        function_name="f",
        memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:x",
        get_remaining_time_in_millis=lambda: milliseconds,
    )


def failed_items(answer: dict[str, Any]) -> list[str]:
    """The messages that an answer wants again."""
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


class Recorder:
    """A report that keeps what is reported."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.metrics: dict[str, float] = {}

    def event(self, name: str, /, **fields: Any) -> None:
        self.events.append((name, fields))

    warn = event

    def count(self, metric: str, n: float = 1, /, *, unit: str = "Count", **dimensions: str) -> None:
        self.metrics[metric] = self.metrics.get(metric, 0) + n

    def names(self) -> list[str]:
        return [name for name, _ in self.events]
