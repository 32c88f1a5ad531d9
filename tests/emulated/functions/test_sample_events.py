"""Every sample event gets from its function the answer that the catalogue names."""

import json
import re
from pathlib import Path

import pytest
from admit.handler import handler as admit
from announce.handler import handler as announce
from emulation.deployment import REGION, avro, context, use_bus
from plan_services.handler import handler as plan_services
from reconcile.handler import handler as reconcile
from supervise.handler import handler as supervise
from sync_catalog.handler import handler as sync_catalog

from sluice.admission.notices import parse_body
from sluice.config.rules.table_rule import TableRule
from sluice.lane.machine import IDLE, STARTING
from sluice.objects import ObjectId

EVENTS = Path(__file__).resolve().parents[3] / "events"
FUNCTIONS = {
    "admit": ("AdmitFunction", admit),
    "supervise": ("SuperviseFunction", supervise),
    "reconcile": ("ReconcileFunction", reconcile),
    "announce": ("AnnounceFunction", announce),
    "sync": ("SyncCatalogFunction", sync_catalog),
    "plan": ("PlanServicesFunction", plan_services),
}
BRONZE = "sluice-bronze-123456789012-us-west-2"
PLAIN_KEY = "topics/shop.public.orders/partition=0/shop.public.orders+0+0000000042.avro"
SPECIAL_KEY = "topics/shop.public.orders/a b/red flower + 100% é.avro"
JOB_RUN = "00f1cbn5g4bb0c01"
NOTHING_FAILED = {"batchItemFailures": []}


def sample(name):
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))


def catalogue():
    rows = [
        line.split("|")[1:-1]
        for line in (EVENTS / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    return {re.sub(r"[` ]|\.json", "", row[0]): [cell.strip() for cell in row] for row in rows}


@pytest.fixture
def sampled(deployment):
    """A deployment with the bucket that the samples speak of."""
    deployment.configure(TableRule("public.orders", ("id",), topic="shop.public.orders"))
    deployment.s3.create_bucket(Bucket=BRONZE, CreateBucketConfiguration={"LocationConstraint": REGION})
    deployment.environment(BRONZE_BUCKET=BRONZE)
    return deployment


def landed(sampled, name, key, versioned=True):
    """Put the object that a sample announces, and give the sample with the version or ETag that it got."""
    if versioned:
        sampled.s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
    id = sampled.land(key, avro(), bucket=BRONZE)
    event = sample(name)
    (sampled_id,) = {notice.id for record in event["Records"] for notice in parse_body(record["body"]).notices}
    assert (sampled_id.bucket, sampled_id.key) == (BRONZE, key)
    for record in event["Records"]:
        record["body"] = record["body"].replace(sampled_id.version_id or sampled_id.etag, id.version_id or id.etag)
    return event, id


def test_every_file_is_in_the_catalogue_with_its_function():
    listed = catalogue()
    assert set(listed) == {path.stem for path in EVENTS.glob("*.json")}
    for name, (_, _, function, expected) in listed.items():
        assert function == FUNCTIONS[name.partition("-")[0]][0]
        assert expected


def test_every_file_of_the_catalogue_is_used_in_this_module():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in catalogue() if f'"{name}"' not in text] == []


@pytest.mark.parametrize(
    "name, key, via",
    [
        ("admit-s3-put", PLAIN_KEY, "s3"),
        ("admit-s3-multipart-encoded-key", SPECIAL_KEY, "s3"),
        ("admit-sns-s3-put", PLAIN_KEY, "sns"),
        ("admit-eventbridge-special-key", SPECIAL_KEY, "eventbridge"),
        ("admit-mixed", PLAIN_KEY, "s3"),
    ],
)
def test_an_announced_object_is_pending_under_the_key_that_was_put(sampled, name, key, via):
    event, id = landed(sampled, name, key)
    assert admit(event, context()) == NOTHING_FAILED
    assert (sampled.record(id).state, sampled.record(id).via) == ("pending", via)
    assert len(sampled.ledger.pending.oldest("main", 10)) == 1


def test_an_object_of_a_bucket_without_versions_is_named_by_its_etag(sampled):
    (notice,) = parse_body(sample("admit-s3-unversioned")["Records"][0]["body"]).notices
    assert notice.id.version == "etag:d41d8cd98f00b204e9800998ecf8427e"
    event, id = landed(sampled, "admit-s3-unversioned", PLAIN_KEY, versioned=False)
    assert admit(event, context()) == NOTHING_FAILED
    assert sampled.record(id).state == "pending"


def test_an_object_that_is_not_there_is_quarantined_and_the_answer_is_the_same(sampled):
    event = sample("admit-s3-put")
    sampled.s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
    sampled.environment(FORGET_AFTER_SECONDS=str(10**10))  # the sample's time is years ago
    assert admit(event, context()) == NOTHING_FAILED
    record = sampled.record(ObjectId(BRONZE, PLAIN_KEY, "096fKKXTRTtl3on89fVO.nfljtsv6qko"))
    assert (record.state, record.code) == ("quarantined", "lost_before_read")


def test_a_side_file_is_ignored_by_its_rule(sampled):
    event = sample("admit-s3-side-file")
    assert admit(event, context()) == NOTHING_FAILED
    (notice,) = parse_body(event["Records"][0]["body"]).notices
    assert (sampled.record(notice.id).state, sampled.record(notice.id).rule) == ("ignored", "keys_file")


@pytest.mark.parametrize(
    "name, reason",
    [("admit-s3-delete", "not_a_creation"), ("admit-s3-test-event", "test_event"), ("admit-unknown-body", "not_json")],
)
def test_a_message_that_announces_nothing_is_listed_with_its_reason(sampled, name, reason):
    assert admit(sample(name), context()) == NOTHING_FAILED
    assert [part.reason for part in sampled.ledger.history.ignored_messages()] == [reason]


@pytest.mark.parametrize("name", ["supervise-job-run-failed", "supervise-job-run-cancelled"])
def test_the_end_of_a_job_run_takes_the_lane_from_it(sampled, name):
    run_id = "run-main-20240501T100000Z-0a1b2c3d"
    sampled.ledger.lanes.wake("main")
    sampled.ledger.lanes.request_start("main", run_id, 1_714_557_600_000)
    sampled.ledger.lanes.hold("main", run_id, JOB_RUN, 1, 1_714_557_600_000)
    sampled.emr.start_job_run(
        applicationId=sampled.application, clientToken="t", executionRoleArn="arn:aws:iam::123456789012:role/r"
    )
    event = sample(name)
    (job,) = sampled.job_runs()
    job.id, job.state = JOB_RUN, event["detail"]["state"]
    assert supervise(event, context()) == {"lanes": 1, "steps": 1}
    assert (sampled.ledger.lanes.get("main").state, sampled.ledger.lanes.get("main").failures) == (IDLE, 1)


@pytest.mark.parametrize("name", ["supervise-job-run-success", "supervise-job-run-queued", "supervise-job-run-billed"])
def test_news_of_a_job_run_that_no_lane_has_changes_nothing(sampled, name):
    assert supervise(sample(name), context()) == {"lanes": 0, "steps": 0}


def test_the_schedule_looks_after_every_lane(sampled):
    assert supervise(sample("supervise-schedule"), context()) == {"lanes": 1, "steps": 0}
    sampled.ledger.lanes.wake("main")
    assert supervise(sample("supervise-schedule"), context()) == {"lanes": 1, "steps": 1}
    assert sampled.ledger.lanes.get("main").state == STARTING


def test_the_schedule_of_reconcile_lists_the_bucket(sampled):
    counts = "listed asked missing admitted failed looked_at forgotten lost unparked rerouted announced".split()
    expected = {**dict.fromkeys(counts, 0), "complete": True}
    assert reconcile(sample("reconcile-schedule"), context(400_000)) == expected


def test_a_committed_batch_is_announced(sampled, monkeypatch):
    bus = use_bus(monkeypatch)
    assert announce(sample("announce-batch-committed"), context()) == NOTHING_FAILED
    ((entry, detail),) = bus
    assert (entry["DetailType"], detail["batch"]) == ("Batch Committed", "b-0f5c1de2a4b34a6f9d5e8c7b6a594837")


def test_a_table_without_a_commit_leaves_the_catalog_unchanged(sampled):
    answer = sync_catalog(sample("sync-table"), context())
    assert (answer["table"], answer["changed"], answer["instant"]) == ("public.orders", False, None)


def test_the_table_services_gather_look_and_follow(sampled):
    assert plan_services(sample("plan-gather"), context()) == {"go": True, "wait_s": 30}
    assert not plan_services(sample("plan-gather"), context())["go"]
    plan = plan_services(sample("plan-look"), context())
    assert (plan["syncs"], plan["runs"], plan["follow"]["open"]) == ([], [], 0)
    followed = plan_services(sample("plan-follow"), context())
    assert (followed["open"], followed["done"], followed["requests"]) == (0, 1, [])
