"""Each function works with what its role allows, and with no action less."""
from types import SimpleNamespace

import pytest
from admit.handler import handler as admit
from announce.handler import handler as announce
from botocore.exceptions import ClientError
from function_world import ARTIFACTS, BRONZE, LEDGER, REGION, SILVER, avro, context, forget_processes, key, s3_body, sqs_event, world  # noqa: F401
from iam_enforcement import ACCOUNT, Role, enforced
from reconcile.handler import handler as reconcile
from supervise.handler import handler as supervise

from sluice import ledger_items as items
from sluice.errors import SluiceError
from sluice.identity import ObjectId
from sluice.table_config import TableRule

pytestmark = pytest.mark.integration
ROLES = ("AdmitRole", "SuperviseRole", "ReconcileRole", "AnnounceRole")
# Sid -> who uses it in the function's name, out of reach of its code.
BY_LAMBDA = {
    "TakeNotices": "the event source", "ReadStream": "the event source", "FindStream": "the event source", "KeepWhatTheStreamGaveUp": "the event source",
    "WriteLogs": "the runtime", "Trace": "the runtime's daemon",
}
# S3 answers a missing object with 403 where the bucket can't be listed. The emulator has no such answer: tests/unit/test_template_permissions.py holds these.
BY_S3 = {
    ("AdmitRole", "TellGoneFromForbidden", "s3:ListBucketVersions"),  # as ListBucket, where a version is named
    ("ReconcileRole", "ReadHeads", "s3:GetObject"),  # of a bucket that keeps no versions
} | {(role, sid, action) for role in ROLES for sid, action in [("TellGoneFromForbidden", "s3:ListBucket"), ("TellNoSchemaFromForbidden", "s3:ListBucket"), ("TellNoConfigurationFromForbidden", "s3:ListBucket")]}


def names(deployment):
    application = deployment.application
    return {
        "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::StackName": "s", "BronzeBucketName": BRONZE, "SilverBucketName": SILVER, "ArtifactBucketName": ARTIFACTS,
        "ApplicationId": application, "EventBusName": "default", "Ledger.Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{LEDGER}", "Ledger.StreamArn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{LEDGER}/stream/1",
        "Notices.Arn": "arn:aws:sqs:x", "Unannounced.Arn": "arn:aws:sqs:y", "JobRole.Arn": f"arn:aws:iam::{ACCOUNT}:role/sluice-job", **{f"{name}Logs.Arn": "arn:aws:logs:x" for name in ("Admit", "Supervise", "Reconcile", "Announce")},
        "Unannounced": "y",
    }  # fmt: skip


def lapsed(deployment):
    """A lane whose job run is over, and one that is due: supervise asks, takes back, starts."""
    deployment.ledger.wake("main")
    deployment.ledger.request_start("main", "run-1", 1)
    job_run = deployment.emr.start_job_run(applicationId=deployment.application, clientToken="t", name="run-1", executionRoleArn=f"arn:aws:iam::{ACCOUNT}:role/r")["jobRunId"]
    deployment.ledger.started("main", "run-1", job_run)
    deployment.job_runs()[-1].state = "FAILED"
    deployment.ledger.wake("lost")  # a start whose job run nobody knows any more is looked up by its name
    deployment.ledger.request_start("lost", "run-2", 1)
    deployment.ledger.wake("due")


def committed():
    stored = {name: {"S": value} for name, value in {"pk": "batch#b", "sk": "batch", "batch": "b", "lane": "main", "run": "r", "state": "committed"}.items()}
    return {"Records": [{"eventID": "1", "dynamodb": {"SequenceNumber": "1", "NewImage": stored, "OldImage": {**stored, "state": {"S": "claimed"}}}}]}


def story_of(name, deployment):
    """The calls that meet everything a role is for."""
    if name == "AnnounceRole":
        deployment.dynamodb.put_item(TableName=LEDGER, Item={"pk": {"S": "batch#b"}, "sk": {"S": "batch"}, "state": {"S": "committed"}, "batch": {"S": "b"}})
        return [lambda: announce(committed(), context())]
    if name == "SuperviseRole":
        lapsed(deployment)
        return [lambda: supervise({"detail-type": "Scheduled Event"}, context())]
    first = [deployment.land(key(n), avro()) for n in range(2)]
    gone = deployment.land(key(7), avro())
    if name == "AdmitRole":
        again = deployment.land(key(0), avro())  # the same bytes once more: the first is superseded, or this one is
        unversioned = ObjectId(BRONZE, key(0), f"etag:{deployment.s3.head_object(Bucket=BRONZE, Key=key(0))['ETag'].strip(chr(34))}")
        return [lambda: admit(sqs_event(s3_body(*first), "no json"), context()), lambda: admit(sqs_event(s3_body(again, unversioned)), context())]
    deployment.ledger.wake("due")
    admit(sqs_event(s3_body(gone)), context())
    batch = {"pk": "batch#b", "sk": "batch", "state": "committed", "batch": "b", "lane": "main", "listed_as": items.UNANNOUNCED, "listed_at": items.listed_at(1)}
    deployment.dynamodb.put_item(TableName=LEDGER, Item={**{name: {"S": value} for name, value in batch.items()}, "committed_at": {"N": "1"}})
    deployment.s3.delete_object(Bucket=BRONZE, Key=gone.key, VersionId=gone.version)
    return [lambda: reconcile({}, context(400_000)), lambda: reconcile({}, context(400_000))]


def play(name, deployment, without=None):
    """The role as it was used, and what surfaced: errors, and messages that come again."""
    deployment.configure(TableRule("public.orders", ("id",), topic="shop.public.orders"))
    steps = story_of(name, deployment)
    forget_processes()
    surfaced = []
    with enforced(Role(name, names(deployment), without)) as role:
        for step in steps:
            try:
                surfaced += step().get("batchItemFailures", [])
            except (ClientError, SluiceError) as error:
                surfaced.append(error)
    return role, surfaced


def grants(name):
    role = Role(name, {**names(SimpleNamespace(application="a"))})
    return [(sid, action) for sid, action in role.grants if sid not in BY_LAMBDA and (name, sid, action) not in BY_S3]


@pytest.mark.parametrize("name", ROLES)
def test_a_function_does_all_it_is_for_with_what_its_role_allows(world, name):  # noqa: F811
    role, surfaced = play(name, world)
    assert (role.denied, surfaced) == (set(), [])


@pytest.mark.parametrize("name, sid, action", [(name, sid, action) for name in ROLES for sid, action in grants(name)])
def test_without_one_action_that_it_allows_a_function_is_refused_and_says_so(world, name, sid, action, caplog):  # noqa: F811
    role, surfaced = play(name, world, without=(sid, action))
    assert role.denied == {action}
    assert surfaced or any("AccessDenied" in str(vars(line)) for line in caplog.records)
