"""A deployed stack for tests of the commands: S3, DynamoDB and SQS on an emulator, and answers of CloudFormation."""

import copyreg
import os
import pickle
import threading
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from xml.sax.saxutils import escape

from botocore.parsers import create_parser
from ministack.services import dynamodb, s3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.emrserverless.models import emrserverless_backends
from moto.sqs.models import sqs_backends

from emulation.aws import EMULATOR_VARIABLE, emulated_aws, emulated_session
from emulation.ledger_table_schema import create_ledger_table
from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.config.document import Configuration
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice.services.requests import ServiceError
from sluice.silver_keys import manifest_key, outcome_key
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.ledger.table import LedgerTable
from sluice_cli.terminal import stack as supervising

REGION = "eu-central-1"
NOW = 1_700_000_000_000
BUCKETS = {"BronzeBucket": "s-bronze", "SilverBucket": "s-silver", "ArtifactBucket": "s-artifacts"}


SHARED = emulated_session(REGION)


class CloudFormation:
    """Answers DescribeStacks as CloudFormation words it.

    An emulator of it is loaded longer than most tests of this folder run.
    """

    def __init__(self):
        self.outputs, self.parameters, self.tags = {}, {}, {}
        # Every client of the session has it.
        SHARED.events.register("before-call.cloudformation.DescribeStacks", self._answer)

    def _answer(self, model, params, **_):
        name = params["body"]["StackName"]
        if name == "s":
            lists = {"Output": self.outputs, "Parameter": self.parameters, "": self.tags}
            described = "".join(
                f"<{kind or 'Tag'}s>{_members(kind, values)}</{kind or 'Tag'}s>" for kind, values in lists.items()
            )
            status, body = (
                200,
                (
                    "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>s</StackName>"
                    "<StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2024-05-01T10:00:00.000Z</CreationTime>"
                    f"{described}</member></Stacks></DescribeStacksResult></DescribeStacksResponse>"
                ),
            )
        else:
            error = f"<Code>ValidationError</Code><Message>Stack with id {name} does not exist</Message>"
            status, body = 400, f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"
        about = {"headers": {}, "body": body.encode(), "context": {"operation_name": model.name}}
        answer = {"status_code": status, **about}
        return SimpleNamespace(status_code=status), create_parser("query").parse(answer, model.output_shape)


def _members(kind, values):
    return "".join(
        f"<member><{kind}Key>{name}</{kind}Key><{kind}Value>{escape(value)}</{kind}Value></member>"
        for name, value in values.items()
    )


@cache
def cloudformation():
    """Once for all, before the session makes a client."""
    return CloudFormation()


def _holders():
    """What the emulators hold."""
    yield from (
        holder._data
        for module in (dynamodb, s3)
        for _, holder in sorted(vars(module).items())
        if isinstance(getattr(holder, "_data", None), dict)
    )
    jobs = emrserverless_backends[DEFAULT_ACCOUNT_ID][REGION]
    yield from (sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues, jobs.applications, jobs.job_runs)
    yield cloudformation().outputs


def saved_state():
    """What the emulators hold, as bytes."""
    copyreg.pickle(type(threading.RLock()), lambda lock: (threading.RLock, ()))  # a queue has one
    return pickle.dumps(list(_holders()))


def restore_state(saved):
    """Have the emulators hold what they held."""
    for held, data in zip(_holders(), pickle.loads(saved), strict=True):
        held.clear()
        held.update(data)


RESTORES = os.environ.get(EMULATOR_VARIABLE) != "moto"
#: Of a stack in which nothing was done, once it was made in this process.
_new: list[bytes] = []


class Stack:
    """A deployed stack, and what its parts would have written. `anew`: by calls, with the next ids of emulators."""

    def __init__(self, anew=False):
        described = cloudformation()
        described.parameters, described.tags = {}, {}
        self.s3, self.dynamodb = SHARED.client("s3"), SHARED.client("dynamodb")
        self.ledger = Ledger(self.dynamodb, "s-ledger")
        if _new and not anew:
            restore_state(_new[0])
            return
        for bucket in BUCKETS.values():
            self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.s3.put_bucket_versioning(Bucket="s-bronze", VersioningConfiguration={"Status": "Enabled"})
        create_ledger_table(self.dynamodb, "s-ledger")
        queue = SHARED.client("sqs").create_queue(QueueName="dead-letters")["QueueUrl"]
        described.outputs = {
            **BUCKETS,
            "LedgerTable": "s-ledger",
            "Release": "none",
            "SuperviseFunction": "s-supervise",
            "DeadLetterQueueUrl": queue,
        }
        if not anew and RESTORES:
            _new.append(saved_state())

    def configure(self, *rules):
        """Have these rules in force, without a push."""
        configuration = Configuration(rules)
        self.s3.put_object(Bucket="s-artifacts", Key="config/tables.json", Body=configuration.to_json().encode())
        return configuration

    def write(self, key, body=b"x"):
        return ObjectId("s-bronze", key, self.s3.put_object(Bucket="s-bronze", Key=key, Body=body)["VersionId"])

    def admit(self, identity, state=items.PENDING, table="crm.user", topic="crm.public.user", lane="main", **more):
        more = {"format": "avro", "size": 1, **more}
        self.ledger.objects.admit(
            AdmittedObject(identity, state, NOW, table=table, topic=topic, lane=lane, noticed_at=NOW, **more),
            generation=0,
        )
        return identity

    def park(self, identity, topic="crm.public.user", **more):
        """Admit an object that no rule takes."""
        return self.admit(identity, items.PARKED, None, topic, None, **{"reason": "no rule", **more})

    def record(self, identity):
        """The ledger's record of an object."""
        return self.ledger.objects.get([identity])[identity]

    def batch(self, config, *objects, at=NOW):
        """The manifest of a batch of run-1, of objects as `listed` gives them."""
        return open_manifest("main", "run-1", at, "c", {config.table: TablePart(config.to_dict(), objects)})

    def listed(self, identity, topic="crm.public.user", **facts):
        """An object as a manifest lists it."""
        kafka = {"topic": topic, "kafka_partition": 0, "offset": 0}
        facts = {"size": 1, "schema": None, "format": "avro", "admitted_at": NOW, **kafka, **facts}
        return ManifestObject(identity.bucket, identity.key, identity.version, **facts)

    def hold(self, lane="main", job="job"):
        """Have run-1 hold a lane."""
        lanes = self.ledger.lanes
        lanes.wake(lane)
        assert lanes.request_start(lane, "run-1", NOW) and lanes.started(lane, "run-1", job)
        assert lanes.hold(lane, "run-1", job, 1, NOW)

    def put_documents(self, manifest, *outcomes):
        """The documents of a batch in silver, as a run writes them."""
        documents = {manifest_key(manifest.lane, manifest.batch): manifest}
        documents |= {outcome_key(outcome.batch, outcome.table): outcome for outcome in outcomes}
        for key, document in documents.items():
            self.s3.put_object(Bucket="s-silver", Key=key, Body=document.to_json().encode())

    def claim(self, manifest, job="job"):
        """Have run-1, which holds the lane, open the batch and claim its objects."""
        batches = self.ledger.batches
        assert batches.open(manifest, manifest_key(manifest.lane, manifest.batch), "run-1", job)
        assert sorted(batches.claim(manifest)) == sorted(listed.id for listed in manifest.objects)

    def serve(self, table, service, outcome):
        """Have run-1 of main do a requested service, by its report, or fail at it, by its error."""
        lanes, services = self.ledger.lanes, self.ledger.services
        lanes.request_start("main", "run-1", NOW)
        lanes.hold("main", "run-1", "job1", 1, NOW)
        begun = services.start(services.get("main", table, service), "run-1", "job1", 2 * NOW)
        end = services.fail if isinstance(outcome, ServiceError) else services.finish
        return end(begun, "run-1", outcome, 2 * NOW)

    def settle(self, manifest, outcome, objects, at=NOW):
        """Have run-1 end the batch with the outcome of its only table."""
        batches, lane = self.ledger.batches, manifest.lane
        assert batches.settle(lane, manifest.batch, outcome, objects, "run-1", at)
        assert batches.close(lane, manifest.batch, "run-1", at)


@contextmanager
def new_stack(monkeypatch, tmp_path, *, anew=False):
    """A stack in its region, and a folder of its own for what the commands write."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "SLUICE_STACK": "s",
        "SLUICE_CACHE": str(tmp_path / ".cache"),  # not the prices that this machine has read
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sluice_aws.clients.boto3", SimpleNamespace(Session=lambda **_: SHARED))
    # The emulator answers one call at a time, and each command would start threads of its own.
    monkeypatch.setattr(
        LedgerTable, "map", lambda self, function, arguments: [function(argument) for argument in arguments]
    )
    with emulated_aws():
        yield Stack(anew)


def record_invocations(monkeypatch):
    """The names of the functions that commands invoke, with the kind of invocation; the list grows."""
    names = []

    class Lambda:
        def invoke(self, FunctionName, InvocationType, Payload):
            names.append((FunctionName, InvocationType))

    whole = supervising.Target.client
    monkeypatch.setattr(
        supervising.Target, "client", lambda self, service: Lambda() if service == "lambda" else whole(self, service)
    )
    return names
