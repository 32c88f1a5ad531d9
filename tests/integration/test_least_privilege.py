"""Each function works with what its role allows, and with no action less."""

from types import SimpleNamespace

import pytest
from admit.handler import handler as admit
from announce.handler import handler as announce
from botocore.exceptions import ClientError
from emulation.catalog import ARTIST, artists, write_commit
from emulation.deployment import (
    ARTIFACTS,
    BRONZE,
    LEDGER,
    REGION,
    SHARED,
    SILVER,
    avro,
    context,
    forget_processes,
    key,
    new_deployment,
    s3_body,
    sqs_event,
)
from emulation.iam_enforcement import ACCOUNT, Role, enforced
from plan_services.handler import handler as plan_services
from reconcile.handler import handler as reconcile
from supervise.handler import handler as supervise
from support.builders import note_commit
from sync_catalog.handler import handler as sync_catalog

from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.rules.table_rule import TableRule
from sluice.config.services import Pace, ServicePolicy
from sluice.errors import SluiceError
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice.schema.history import SchemaVerdict, SeenSchema
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory, SchemaStore

NOTHING = tuple  # happens before a call
ROLES = ("AdmitRole", "SuperviseRole", "ReconcileRole", "AnnounceRole", "SyncCatalogRole", "PlanServicesRole")
# Sid -> who uses it in the function's name, out of reach of its code.
BY_LAMBDA = {
    "TakeNotices": "the event source",
    "ReadStream": "the event source",
    "FindStream": "the event source",
    "KeepWhatTheStreamGaveUp": "the event source",
    "KeepFailedCalls": "asynchronous invocation",
    "WriteLogs": "the runtime",
    "Trace": "the runtime's daemon",
}
# S3 answers 403 for a missing object where the bucket can't be listed. The emulator does not:
# tests/unit/docs/test_template_permissions.py covers these.
BY_S3 = {
    ("AdmitRole", "TellGoneFromForbidden", "s3:ListBucketVersions"),  # as ListBucket, where a version is named
    ("ReconcileRole", "ReadHeads", "s3:GetObject"),  # of a bucket that keeps no versions
} | {
    (role, f"Tell{what}FromForbidden", "s3:ListBucket")
    for role in ROLES
    for what in ("Gone", "NoSchema", "NoConfiguration")
}
BY_S3.discard(("SyncCatalogRole", "TellNoSchemaFromForbidden", "s3:ListBucket"))  # it lists timelines

# The price list is asked outside of the bundled prices' region alone: tests/emulated/functions/test_metrics.py.
BY_REGION = {("SuperviseRole", "ReadThePriceList", "pricing:GetProducts")}


def names(deployment):
    ledger = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{LEDGER}"
    functions = ("Admit", "Supervise", "Reconcile", "Announce", "SyncCatalog", "PlanServices")
    return {
        "AWS::Partition": "aws",
        "AWS::Region": REGION,
        "AWS::AccountId": ACCOUNT,
        "AWS::StackName": "s",
        "BronzeBucketName": BRONZE,
        "SilverBucketName": SILVER,
        "ArtifactBucketName": ARTIFACTS,
        "ApplicationId": deployment.application,
        "EventBusName": "default",
        "CatalogDatabases": "*",
        "Ledger.Arn": ledger,
        "Ledger.StreamArn": f"{ledger}/stream/1",
        "Notices.Arn": "arn:aws:sqs:x",
        "Unannounced.Arn": "arn:aws:sqs:y",
        "Unreconciled.Arn": "arn:aws:sqs:z",
        "Unannounced": "y",
        "JobRole.Arn": f"arn:aws:iam::{ACCOUNT}:role/sluice-job",
        **{f"{name}Logs.Arn": "arn:aws:logs:x" for name in functions},
    }


def lapsed(deployment):
    """Lanes whose job run is over or never begins, and one that is due: supervise asks, takes back, cancels, starts."""
    for lane, run, state in (("main", "run-1", "FAILED"), ("stuck", "run-0", "SCHEDULED")):
        deployment.ledger.lanes.wake(lane)
        deployment.ledger.lanes.request_start(lane, run, 1)
        role, application = f"arn:aws:iam::{ACCOUNT}:role/r", deployment.application
        job_run = deployment.emr.start_job_run(
            applicationId=application, clientToken=run, name=run, executionRoleArn=role
        )["jobRunId"]
        deployment.ledger.lanes.started(lane, run, job_run)
        deployment.job_runs()[-1].state = state
    deployment.ledger.lanes.wake("lost")  # a start whose job run nobody knows any more is looked up by its name
    deployment.ledger.lanes.request_start("lost", "run-2", 1)
    deployment.ledger.lanes.wake("due")
    of = {"table": "public.orders", "lane": "main", "topic": "shop.public.orders", "format": "avro"}
    # It waits since 1970: late for its table.
    deployment.ledger.objects.admit(AdmittedObject(ObjectId(BRONZE, "late", "v"), "pending", 1, **of))


def stored(**values):
    return {name: {"S": value} for name, value in values.items()}


def committed():
    batch = stored(pk="batch#b", sk="batch", batch="b", lane="main", run="r", state="committed")
    failing = {**stored(pk="table#a.x", sk="table"), "failures": {"N": "1"}}
    images = ({"NewImage": batch, "OldImage": {**batch, **stored(state="claimed")}}, {"NewImage": failing})
    return {
        "Records": [
            {"eventID": f"{number}", "dynamodb": {"SequenceNumber": f"{number}", **image}}
            for number, image in enumerate(images, 1)
        ]
    }


def table_that_changes(deployment):
    """A table of a rule with a pattern, synced at each step of its life.

    It is created, gets a partition, changes a type and loses a partition. Then its history is archived, and a user
    drops its view.
    """
    deployment.configure(TableRule("moma.{1}", ("artist_id",), topic="moma.public.*", partition_by=("nationality",)))
    deployment.ledger.tables.pin("moma.artists", {"topic": "moma.public.artists"})
    config = artists()
    fields = [{"name": "artist_id", "type": "long", "doc": "who"}]
    mark = SchemaStore(Objects(deployment.s3), SILVER).keep({"type": "record", "name": "Value", "fields": fields})
    verdict = SchemaVerdict(1, "", "new_table", ())
    SchemaHistory(Objects(deployment.s3), SILVER).note(SeenSchema("moma.artists", mark, (), (verdict,)))
    german, french = "nationality=German", "nationality=French"
    wider = [(column, "long" if column == "birth_year" else kind) for column, kind in ARTIST]

    def commit(number, *more, **how):
        return write_commit(deployment.s3, SILVER, config, number, *more, **how)

    without = {"replaced": {german: ["f"]}, "operation": "DELETE_PARTITION"}
    changes = [
        lambda: commit(1, partitions=[german]),
        lambda: commit(2, partitions=[french]),
        lambda: commit(3, wider, [french], **without),
        lambda: archived(deployment.s3, commit(4, wider, [french])),
        lambda: (SHARED.client("glue").delete_table(DatabaseName="moma", Name="artists"), commit(5, wider, [french])),
    ]
    return [(change, lambda: sync_catalog({"table": "moma.artists"}, context())) for change in changes]


def archived(s3, newest):
    """Of a table's timeline the newest commit alone is left."""
    for item in s3.list_objects_v2(Bucket=SILVER, Prefix="moma/artists/.hoodie/")["Contents"]:
        if newest not in item["Key"]:
            s3.delete_object(Bucket=SILVER, Key=item["Key"])


def busy_table(deployment):
    """A table that wants compaction, on an idle lane."""
    policy = ServicePolicy(compaction=Pace(commits=1), cleaning=Pace(on=False), archival=Pace(on=False))
    deployment.configure(
        TableRule("shop.orders", ("id",), topic="shop.public.orders", table_type="mor", services=policy)
    )
    deployment.ledger.tables.pin("shop.orders", {"topic": "shop.public.orders"})
    note_commit(deployment.ledger, Outcome("b", "shop.orders", COMMITTED, instant="1", committed_at=1), {"commits": 1})


def services_looked_after():
    """The steps of the state machine, one after the other."""
    assert plan_services({"step": "gather"}, context())["go"]
    plan = plan_services({"step": "plan"}, context())
    assert len(plan["follow"]["requests"]) == 1  # without a run where StartJobRun is refused
    return plan_services({"step": "follow", "followed": plan["follow"]}, context())


def story_of(name, deployment):
    """The calls that meet everything a role is for, each with what happens before it by other hands."""
    if name == "SyncCatalogRole":
        return table_that_changes(deployment)
    if name == "PlanServicesRole":
        busy_table(deployment)
        return [(NOTHING, services_looked_after)]
    if name == "AnnounceRole":
        item = stored(pk="batch#b", sk="batch", state="committed", batch="b")
        deployment.dynamodb.put_item(TableName=LEDGER, Item=item)
        return [(NOTHING, lambda: announce(committed(), context()))]
    if name == "SuperviseRole":
        lapsed(deployment)
        return [(NOTHING, lambda: supervise({"detail-type": "Scheduled Event"}, context()))]
    first = [deployment.land(key(n), avro()) for n in range(2)]
    gone = deployment.land(key(7), avro())
    if name == "AdmitRole":
        again = deployment.land(key(0), avro())  # the same bytes once more: the first is superseded, or this one is
        etag = deployment.s3.head_object(Bucket=BRONZE, Key=key(0))["ETag"].strip('"')
        unversioned = ObjectId(BRONZE, key(0), f"etag:{etag}")
        return [
            (NOTHING, lambda: admit(sqs_event(s3_body(*first), "no json"), context())),
            (NOTHING, lambda: admit(sqs_event(s3_body(again, unversioned)), context())),
        ]
    deployment.ledger.lanes.wake("due")
    admit(sqs_event(s3_body(gone)), context())
    batch = stored(pk="batch#b", sk="batch", state="committed", batch="b", lane="main", listed_as=items.UNANNOUNCED)
    batch |= {**stored(listed_at=items.listed_at(1)), "committed_at": {"N": "1"}}
    deployment.dynamodb.put_item(TableName=LEDGER, Item=batch)
    deployment.s3.delete_object(Bucket=BRONZE, Key=gone.key, VersionId=gone.version)
    write_commit(deployment.s3, SILVER, artists(), 1)  # no outcome says so, which the audit finds
    deployment.ledger.tables.pin("moma.artists", {"topic": "moma.public.artists"})
    return [
        *[(NOTHING, lambda: reconcile({}, context(400_000)))] * 2,
        (NOTHING, lambda: reconcile({"duty": "audit"}, context(400_000))),
    ]


def play(name, deployment, without=None):
    """The role as it was used, and what surfaced: errors, and messages that come again."""
    deployment.configure(TableRule("public.orders", ("id",), topic="shop.public.orders"))
    steps = story_of(name, deployment)
    forget_processes()
    surfaced, role = [], Role(name, names(deployment), without)
    for before, call in steps:
        before()
        try:
            with enforced(role):
                surfaced += call().get("batchItemFailures", [])
        except (ClientError, SluiceError) as error:
            surfaced.append(error)
            break  # what comes next needs what was refused
    return role, surfaced


def grants(name):
    role = Role(name, {**names(SimpleNamespace(application="a"))})
    unused = BY_S3 | BY_REGION
    return [(sid, action) for sid, action in role.grants if sid not in BY_LAMBDA and (name, sid, action) not in unused]


@pytest.fixture
def deployment(monkeypatch):
    with new_deployment(monkeypatch) as made:
        yield made


@pytest.mark.parametrize("name", ROLES)
def test_a_function_does_all_it_is_for_with_what_its_role_allows(deployment, name):
    role, surfaced = play(name, deployment)
    assert (role.denied, surfaced) == (set(), [])


@pytest.mark.parametrize("name, sid, action", [(name, sid, action) for name in ROLES for sid, action in grants(name)])
def test_without_one_action_that_it_allows_a_function_is_refused_and_says_so(deployment, name, sid, action, caplog):
    role, surfaced = play(name, deployment, without=(sid, action))
    assert role.denied == {action}
    assert surfaced or any("AccessDenied" in str(vars(line)) for line in caplog.records)
