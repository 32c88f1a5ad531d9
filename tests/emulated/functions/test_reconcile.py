"""reconcile: unannounced objects are admitted, records of deleted objects are dropped, and passes resume."""

from functools import partialmethod
from unittest.mock import Mock

import pytest
from admit.handler import handler as admit
from emulation.aws import set_fields
from emulation.deployment import BRONZE, LEDGER, REGION, TOPIC, avro, context, failed_items, key, s3_body, sqs_event
from reconcile.handler import handler
from supervise.handler import handler as supervise
from support.builders import aws_error, failing_for

from sluice.batch.claim import TableState
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.lane.machine import IDLE, STARTING
from sluice.ledger.keys import object_key
from sluice.ledger.records import AdmittedObject, Decision
from sluice_aws.admission import reconcile as reconciler
from sluice_aws.admission.reassign import shares_partitions
from sluice_aws.admission.sweep import ObjectScan
from sluice_aws.ledger.objects import ObjectLedger
from sluice_aws.ledger.tables import TableLedger
from sluice_aws.s3.objects import Objects

LONG = 400_000  # milliseconds: more than reconcile reserves


@pytest.fixture
def settled(deployment):
    """A configured deployment in which records may be forgotten at once."""
    deployment.environment(FORGET_AFTER_SECONDS="0")
    deployment.configure()
    return deployment


def test_the_listing_admits_an_unannounced_object_and_wakes_its_lane(settled):
    id = settled.land(key(1), avro())
    result = handler({}, context(LONG))
    assert (result["listed"], result["missing"], result["admitted"], result["complete"]) == (1, 1, 1, True)
    record = settled.record(id)
    assert (record.state, record.via, record.offset) == ("pending", "listing", 1)
    lane = settled.ledger.lanes.get("main")
    assert (lane.state, lane.arrivals) == (IDLE, 1)
    supervise({}, context())
    assert settled.ledger.lanes.get("main").state == STARTING


def test_every_version_of_a_key_is_an_object_of_its_own_and_delete_markers_are_none(settled):
    ids = [settled.land(key(1), avro(rows=n)) for n in (1, 2)]
    settled.s3.delete_object(Bucket=BRONZE, Key=key(1))
    handler({}, context(LONG))
    assert [settled.record(id).state for id in ids] == ["pending", "pending"]


def test_an_announced_object_is_not_missing(settled):
    settled.admit(*map(key, range(3)))
    arrivals = settled.ledger.lanes.get("main").arrivals
    assert handler({}, context(LONG))["missing"] == 0
    assert settled.ledger.lanes.get("main").arrivals == arrivals


def test_the_listing_and_the_notice_name_an_object_alike_also_without_versions(settled):
    settled.s3.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": REGION})
    settled.environment(BRONZE_BUCKET="plain")
    id = settled.land(key(1), avro(), bucket="plain")
    admit(sqs_event(s3_body(id)), context())
    assert handler({}, context(LONG))["missing"] == 0


def test_a_version_younger_than_the_grace_is_not_missing_yet(settled):
    settled.environment(RECONCILE_GRACE_SECONDS="900")
    id = settled.land(key(1), avro())
    assert handler({}, context(LONG))["missing"] == 0
    assert settled.record(id) is None


def test_a_pass_goes_on_where_the_last_one_stopped(settled, monkeypatch):
    ids = [settled.land(key(n), avro()) for n in range(5)]
    monkeypatch.setattr(Objects, "version_page", partialmethod(Objects.version_page, page_size=2))
    turns = iter([1.0, 1.0, 1.0, 0.0] + [1.0] * 10)  # for the sweep, for one page, then none
    monkeypatch.setattr("reconcile.handler.milliseconds_left", lambda _: int(next(turns) * 1000) + 30_000)
    first = handler({}, context())
    assert (first["listed"], first["complete"]) == (2, False)
    second = handler({}, context())
    assert (second["listed"], second["complete"]) == (3, True)
    assert all(settled.record(id).state == "pending" for id in ids)
    assert set(settled.ledger.history.checkpoint(reconciler.CHECKPOINT)) == {"bucket", "since"}


def test_a_pass_asks_only_about_what_was_put_since_the_last_whole_pass(settled, monkeypatch):
    for n in (1, 2):
        settled.land(key(n), avro())
    first = handler({}, context(LONG))
    assert (first["listed"], first["asked"], first["admitted"]) == (2, 2, 2)
    monkeypatch.setattr("sluice.admission.listing_pass.APPEARS_WITHIN_MS", -2_000)  # as if an hour had gone by
    assert handler({}, context(LONG))["asked"] == 2
    third = handler({}, context(LONG))
    assert (third["listed"], third["asked"], third["missing"]) == (2, 0, 0)


def test_another_bucket_and_a_rebuilt_ledger_are_asked_about_whole(settled):
    settled.land(key(1), avro())
    handler({}, context(LONG))
    history = settled.ledger.history
    history.put_checkpoint({"bucket": "another", "since": 10**15}, 0, reconciler.CHECKPOINT)
    assert handler({}, context(LONG))["asked"] == 1
    history.put_checkpoint({"bucket": BRONZE, "since": 10**15}, 0, reconciler.CHECKPOINT)
    assert handler({}, context(LONG))["asked"] == 0


def test_what_a_pass_does_not_ask_about_is_admitted_by_the_audit(settled, monkeypatch):
    monkeypatch.setattr("sluice.admission.listing_pass.APPEARS_WITHIN_MS", -60_000)
    handler({}, context(LONG))
    late = settled.land(key(1), avro())  # as S3 dates a multipart upload: by when it began
    assert handler({}, context(LONG))["asked"] == 0
    assert settled.record(late) is None
    handler({"duty": "audit"}, context(LONG))
    assert settled.record(late).state == "pending"
    lane = settled.ledger.lanes.get("main")
    assert (lane.state, lane.arrivals) == (IDLE, 1)


def test_an_object_that_cannot_be_admitted_now_does_not_hold_the_pass_up(settled, monkeypatch):
    bad, good = settled.land(key(1), avro()), settled.land(key(2), avro())
    refuse = failing_for(lambda id: id == bad, ConnectionError("no route"), Objects.head_bytes)
    with monkeypatch.context() as broken:
        broken.setattr(Objects, "head_bytes", refuse)
        result = handler({}, context(LONG))
    assert (result["admitted"], result["failed"], result["complete"]) == (1, 1, True)
    handler({}, context(LONG))
    assert [settled.record(id).state for id in (bad, good)] == ["pending", "pending"]


def written(deployment, state, number, **more):
    """A record of an object in a state, and the object."""
    id = deployment.land(key(number), avro(rows=number + 1))
    before = "ignored" if state in ("committed", "claimed") else state
    taken = {"table": "public.orders", "lane": "main", "topic": TOPIC, **more}
    deployment.ledger.objects.admit(AdmittedObject(id, before, 1, **taken))
    if state in ("committed", "claimed"):
        set_fields(deployment.ledger, object_key(id), state=state)
    return id


def gone(deployment, state, number=1, **more):
    """A record of an object in a state, whose version is deleted since."""
    id = written(deployment, state, number, **more)
    deployment.s3.delete_object(Bucket=BRONZE, Key=id.key, VersionId=id.version)
    return id


@pytest.mark.parametrize("state", ["committed", "ignored"])
def test_only_a_record_whose_version_is_deleted_is_dropped(settled, state):
    lost, there = gone(settled, state), written(settled, state, 2)
    assert handler({}, context(LONG))["forgotten"] == 1
    assert settled.record(lost) is None
    assert settled.record(there).state == state


def test_a_record_is_kept_as_long_as_a_late_notice_could_come(settled):
    settled.environment(FORGET_AFTER_SECONDS=str(10**10))
    lost = gone(settled, "committed")
    assert handler({}, context(LONG))["forgotten"] == 0
    assert settled.record(lost).state == "committed"


def test_a_pending_object_whose_version_is_deleted_is_lost_before_read(settled):
    lost = gone(settled, "pending")
    assert handler({}, context(LONG))["lost"] == 1
    assert (settled.record(lost).state, settled.record(lost).code) == ("quarantined", "lost_before_read")
    assert settled.ledger.pending.oldest("main", 10) == []


def test_the_record_of_a_claimed_object_is_left_to_its_run(settled):
    claimed = gone(settled, "claimed")
    assert handler({}, context(LONG))["forgotten"] == 0
    assert settled.record(claimed).state == "claimed"


@pytest.mark.parametrize("code", ["corrupt_object", "incompatible_schema", "lost_before_read"])
def test_an_expired_object_stays_in_quarantine_until_it_is_discarded(settled, code):
    expired = gone(settled, "quarantined", code=code, reason="why")
    assert handler({}, context(LONG))["forgotten"] == 0
    assert [record.id for record in settled.ledger.objects.in_state("quarantined")] == [expired]
    assert not settled.ledger.objects.forget(settled.record(expired))
    decision = Decision(expired, "discarded", 1, "sluice", "me", "quarantined")
    assert settled.ledger.quarantine.discard(settled.record(expired), decision)
    assert handler({}, context(LONG))["forgotten"] == 1


def test_a_deleted_parked_object_is_reported_once_and_listed_until_discarded(settled):
    lost, there = gone(settled, "parked", reason="no rule takes this topic"), written(settled, "parked", 2)
    assert [handler({}, context(LONG))["lost"] for _ in range(3)] == [1, 0, 0]
    record = settled.record(lost)
    expected = ("quarantined", "lost_before_read", "the object was gone while it was parked: no rule takes this topic")
    assert (record.state, record.code, record.reason) == expected
    assert [record.id for record in settled.ledger.objects.in_state("quarantined")] == [lost]
    assert [record.id for record in settled.ledger.objects.in_state("parked")] == [there]
    assert settled.ledger.quarantine.discard(record, Decision(lost, "discarded", 1, "sluice", "me", record.state))
    assert handler({}, context(LONG))["forgotten"] == 1


def test_records_of_other_buckets_are_left_alone(settled):
    id = gone(settled, "committed")
    settled.s3.create_bucket(Bucket="another", CreateBucketConfiguration={"LocationConstraint": REGION})
    settled.environment(BRONZE_BUCKET="another")
    handler({}, context(LONG))
    assert settled.record(id).state == "committed"


def test_a_scan_gives_object_records_only_and_goes_on_where_it_stopped(settled):
    ids = {written(settled, "committed", n) for n in range(4)}
    settled.ledger.lanes.wake("main")
    scan = ObjectScan(settled.dynamodb, LEDGER)
    actual, after = set(), None
    for _ in range(10):
        records, after = scan.page(after, items=2)
        actual |= {record.id for record in records}
        if after is None:
            break
    assert (actual, after) == (ids, None)


def test_the_other_duties_are_done_before_the_listing_that_may_end_the_process(settled, monkeypatch):
    lost = gone(settled, "committed")
    written(settled, "pending", 2)  # and its lane was never woken
    monkeypatch.setattr(reconciler.Reconciler, "run", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        handler({}, context(LONG))
    assert settled.record(lost) is None
    assert settled.ledger.lanes.get("main").arrivals == 1


def test_an_object_parked_by_a_replaced_configuration_becomes_pending(deployment):
    (id,) = deployment.admit(key(1))
    assert deployment.record(id).state == "parked"
    assert handler({}, context(LONG))["unparked"] == 0
    deployment.configure()  # as if the push had looked for parked objects just before
    assert handler({}, context(LONG))["unparked"] == 1
    assert deployment.record(id).state == "pending"
    assert deployment.ledger.lanes.get("main").arrivals == 1


def test_objects_of_logs_that_share_a_partition_are_freed_however_old(deployment, monkeypatch):
    (id,) = deployment.admit(key(1))
    deployment.configure()
    monkeypatch.setattr("reconcile.handler.RECENTLY_MS", -3_600_000)  # nothing was parked recently
    assert handler({}, context(LONG))["unparked"] == 0
    mark = {"generation": 0, "offset": 1, "kind": "postgres", "highest": "0000.1", "several": True}
    state = TableState("shop.orders", watch={"marks": {"0": mark}})
    assert shares_partitions(state) and not shares_partitions(TableState("shop.orders"))
    monkeypatch.setattr(TableLedger, "all", lambda self: iter([state]))
    assert handler({}, context(LONG))["unparked"] == 1
    assert deployment.record(id).state == "pending"


ELSEWHERE = TableRule("public.people", ("id",), topic=TOPIC, lane="side")


def test_an_object_admitted_by_a_replaced_configuration_goes_to_its_new_table(settled):
    (id,) = settled.admit(key(1))
    before = settled.record(id)
    # As if the push had looked for what waits just before.
    settled.configure(ELSEWHERE, lanes=(LaneConfig(), LaneConfig("side")))
    assert handler({}, context(LONG))["rerouted"] == 1
    after = settled.record(id)
    expected = ("pending", "public.people", "side", before.admitted_at)
    assert (after.state, after.table, after.lane, after.admitted_at) == expected
    assert settled.ledger.pending.oldest("main", 10) == []
    assert [(item.id, item.table) for item in settled.ledger.pending.oldest("side", 10)] == [(id, "public.people")]
    assert settled.ledger.lanes.get("side").arrivals == 1
    assert handler({}, context(LONG))["rerouted"] == 0


def test_objects_of_a_newer_configuration_or_of_no_table_stay_as_they_are(settled):
    (id,) = settled.admit(key(1))
    settled.configure(TableRule("public.people", ("id",), topic="another"))
    assert handler({}, context(LONG))["rerouted"] == 0
    settled.configure(ELSEWHERE, lanes=(LaneConfig(), LaneConfig("side")))
    settled.environment(RECONCILE_GRACE_SECONDS="900")
    assert handler({}, context(LONG))["rerouted"] == 0
    assert (settled.record(id).table, settled.record(id).lane) == ("public.orders", "main")


def test_what_was_parked_long_ago_is_left_to_the_next_push(settled):
    id = written(settled, "parked", 1)
    assert handler({}, context(LONG))["unparked"] == 0
    assert settled.record(id).state == "parked"


def test_a_record_that_s3_does_not_answer_about_ends_no_pass(settled, monkeypatch):
    strange, lost = written(settled, "committed", 1), gone(settled, "committed", 2)
    refuse = failing_for(lambda id: id == strange, aws_error("400", "HeadObject"), Objects.exists)
    monkeypatch.setattr(Objects, "exists", refuse)
    assert handler({}, context(LONG))["forgotten"] == 1
    assert (settled.record(strange).state, settled.record(lost)) == ("committed", None)


def both_tables(deployment):
    masked = TableRule("masked.orders", ("id",), topic=TOPIC, also=True, lane="private")
    deployment.configure(TableRule("public.orders", ("id",), topic=TOPIC), masked)


def by_table(deployment, id):
    records = deployment.ledger.objects.versions(id.bucket, id.key)
    return {record.table: record.state for record in records}


def test_a_notice_admits_an_object_for_each_table_and_wakes_their_lanes(settled):
    both_tables(settled)
    id, broken = settled.land(key(1), avro()), settled.land(key(2), b"no Avro")
    for _ in range(2):
        assert failed_items(admit(sqs_event(s3_body(id, broken)), context())) == []
    assert by_table(settled, id) == {"public.orders": "pending", "masked.orders": "pending"}
    assert by_table(settled, broken) == {"public.orders": "quarantined", "masked.orders": "quarantined"}
    assert {settled.ledger.lanes.get(lane).state for lane in ("main", "private")} == {STARTING}
    assert handler({}, context(LONG))["missing"] == 0


def test_an_object_that_one_table_could_not_take_is_delivered_again(settled, monkeypatch):
    both_tables(settled)
    id = settled.land(key(1), avro())
    fails = failing_for(lambda admitted: admitted.id.also_for, ConnectionError("on purpose"), ObjectLedger.admit)
    with monkeypatch.context() as broken:
        broken.setattr(ObjectLedger, "admit", fails)
        assert failed_items(admit(sqs_event(s3_body(id)), context())) == ["m0"]
    assert by_table(settled, id) == {"public.orders": "pending"}
    assert handler({}, context(LONG))["missing"] == 0  # and no alarm: the ledger has the object
    assert by_table(settled, id) == {"public.orders": "pending", "masked.orders": "pending"}


def test_the_audit_admits_what_a_table_of_a_new_rule_lacks(settled):
    (id,) = settled.admit(key(1))
    handler({}, context(LONG))
    both_tables(settled)
    assert handler({"duty": "audit"}, context(LONG))["contradictions"] == {}
    assert by_table(settled, id) == {"public.orders": "pending", "masked.orders": "pending"}
