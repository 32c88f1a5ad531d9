"""admit: every announced object is in the ledger once, in its right state, before its message leaves the queue."""

import gzip
import io
import json
import threading
from dataclasses import asdict
from datetime import timedelta
from unittest.mock import Mock, call

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from admit.handler import handler
from botocore.exceptions import ClientError
from emulation.deployment import (
    ARTIFACTS,
    BRONZE,
    LEDGER,
    REGION,
    SCHEMA,
    SHARED,
    SILVER,
    TOPIC,
    avro,
    context,
    failed_items,
    key,
    s3_body,
    sqs_event,
)
from support.builders import aws_error, failing_for, note_commit

from sluice.admission.notices import parse_body
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.rules.table_rule import TableRule
from sluice.lane.machine import IDLE, STARTING
from sluice.objects import ObjectId
from sluice.schema.avro import fingerprint
from sluice.schema.history import StoredColumns
from sluice_aws.admission.admit import Admission
from sluice_aws.admission.heads import FIRST_READ_BYTES, Heads
from sluice_aws.admission.schema_fit import schema_fit
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import ConfigurationMissing
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import PUSHES
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory, SchemaStore


def metrics(capsys):
    """Every metric of the function itself in the printed EMF documents, as alarms see it."""
    collected = {}
    for line in capsys.readouterr().out.splitlines():
        document = json.loads(line)
        for group in document.get("_aws", {}).get("CloudWatchMetrics", ()):
            for metric in group["Metrics"] if group["Dimensions"] == [["service"]] else ():
                collected[metric["Name"]] = collected.get(metric["Name"], 0) + sum(document[metric["Name"]])
    return collected


def test_an_announced_object_is_pending_its_lane_is_woken_and_a_run_is_started(deployment, capsys):
    deployment.configure()
    (id,) = deployment.admit(key(7))
    record = deployment.record(id)
    taken = {"state": "pending", "table": "public.orders", "lane": "main", "topic": TOPIC, "via": "s3"}
    read_of_its_key = {"kafka_partition": 0, "offset": 7, "format": "avro"}
    assert (taken | read_of_its_key).items() <= asdict(record).items()
    assert record.schema == fingerprint(SCHEMA)
    lane = deployment.ledger.lanes.get("main")
    (job,) = deployment.job_runs()
    assert (lane.state, lane.arrivals, lane.job_run_id) == (STARTING, 1, job.id)
    assert job.name == lane.run_id == job.client_token
    assert metrics(capsys) == {"ObjectsAdmitted": 1, "RunsStarted": 1}


def test_an_object_that_waits_for_its_tables_freshness_starts_no_run(deployment, capsys):
    deployment.configure(TableRule("public.orders", ("id",), topic=TOPIC, freshness_s=600))
    now = epoch_ms()
    note_commit(deployment.ledger, Outcome("b", "public.orders", COMMITTED, now - 60_000, instant="1"), {"objects": 1})
    deployment.admit(key(1))
    lane = deployment.ledger.lanes.get("main")
    assert (lane.state, lane.arrivals, deployment.job_runs()) == (IDLE, 1, [])
    assert '"message":"start_deferred"' in capsys.readouterr().out
    deployment.configure(TableRule("public.orders", ("id",), topic=TOPIC, freshness_s=90))
    deployment.admit(key(2))
    assert len(deployment.job_runs()) == 1, "it comes due while the run starts"


def test_the_writer_schema_is_kept_under_its_fingerprint(deployment):
    deployment.configure()
    deployment.admit(key(1))
    stored = deployment.s3.get_object(Bucket=SILVER, Key=f"_sluice/schemas/{fingerprint(SCHEMA)}.avsc")["Body"].read()
    assert json.loads(stored) == SCHEMA


def test_until_a_release_is_set_objects_are_ledgered_and_nothing_is_started(deployment):
    deployment.environment(RELEASE="none")
    deployment.configure()
    (id,) = deployment.admit(key(1))
    assert deployment.record(id).state == "pending"
    assert (deployment.ledger.lanes.get("main").state, deployment.job_runs()) == (IDLE, [])


def test_an_object_announced_twice_in_one_invocation_is_one_object(deployment):
    deployment.configure()
    id = deployment.land(key(1), avro())
    assert failed_items(handler(sqs_event(s3_body(id, id), s3_body(id)), context())) == []
    assert deployment.calls.count("TransactWriteItems") == 1
    assert len(deployment.ledger.pending.oldest("main", 10)) == 1


def test_an_invocation_whose_objects_were_all_pending_already_wakes_the_lane_again(deployment):
    deployment.configure()
    (id,) = deployment.admit(key(1))
    handler(sqs_event(s3_body(id)), context())
    assert (deployment.ledger.lanes.get("main").arrivals, len(deployment.job_runs())) == (2, 1)


def test_a_lane_is_woken_once_for_all_objects_of_an_invocation(deployment):
    deployment.configure()
    ids = [deployment.land(key(n), avro()) for n in range(40)]
    assert failed_items(handler(sqs_event(*[s3_body(*ids[n : n + 10]) for n in range(0, 40, 10)]), context())) == []
    assert deployment.ledger.lanes.get("main").arrivals == 1
    assert {item.id for item in deployment.ledger.pending.oldest("main", 1000)} == set(ids)


def test_the_wake_comes_after_the_last_object_write(deployment):
    deployment.configure()
    ids = [deployment.land(key(n), avro()) for n in range(5)]
    deployment.calls.clear()
    handler(sqs_event(*[s3_body(id) for id in ids]), context())
    last_write = max(at for at, call in enumerate(deployment.calls) if call == "TransactWriteItems")
    assert last_write < deployment.calls.index("UpdateItem")


def test_two_lanes_are_woken_each(deployment):
    deployment.configure(
        TableRule("a.x", ("id",), topic="t.x", lane="one"), TableRule("a.y", ("id",), topic="t.y", lane="two")
    )
    deployment.admit(key(1, "t.x"), key(1, "t.y"))
    expected = [("one", 1, STARTING), ("two", 1, STARTING)]
    assert [(lane.lane, lane.arrivals, lane.state) for lane in deployment.ledger.lanes.all()] == expected


def test_a_topic_without_a_rule_is_parked_with_the_reason_and_wakes_nothing(deployment, capsys):
    deployment.configure()
    (id,) = deployment.admit(key(1, "shop.public.unknown"))
    record = deployment.record(id)
    expected = ("parked", "no rule of tables.yaml takes this topic", "shop.public.unknown")
    assert (record.state, record.reason, record.topic) == expected
    assert record.schema == fingerprint(SCHEMA)  # so that it can become pending later without another look
    assert deployment.ledger.lanes.all() == []
    assert metrics(capsys)["ObjectsParked"] == 1


def test_while_no_configuration_was_ever_pushed_topics_are_parked(deployment):
    (id,) = deployment.admit(key(1))
    expected = ("parked", "no configuration was in force when it came")
    assert (deployment.record(id).state, deployment.record(id).reason) == expected


@pytest.mark.parametrize("witness", ["the ledger", "the history", "this process"])
def test_notices_wait_and_nothing_is_parked_while_the_configuration_is_missing(deployment, witness):
    early, late = deployment.land(key(1), avro()), deployment.land(key(2), avro())
    if witness == "the ledger":
        deployment.ledger.history.count(PUSHES)
    elif witness == "the history":
        deployment.s3.put_object(Bucket=ARTIFACTS, Key="config/history/0123.json", Body=b"{}")
    else:
        deployment.configure()
        handler(sqs_event(s3_body(early)), context())
        deployment.s3.delete_object(Bucket=ARTIFACTS, Key="config/tables.json")
    with pytest.raises(ConfigurationMissing) as raised:
        handler(sqs_event(s3_body(late)), context())
    assert raised.value.retriable and deployment.record(late) is None
    deployment.configure()
    assert failed_items(handler(sqs_event(s3_body(late)), context())) == []
    assert deployment.record(late).state == "pending"


def test_an_unreadable_configuration_fails_the_invocation_and_notices_wait(deployment):
    deployment.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=b"{")
    id = deployment.land(key(1), avro())
    with pytest.raises(Exception, match="is not a configuration"):
        handler(sqs_event(s3_body(id)), context())
    assert deployment.record(id) is None


def test_a_changed_configuration_is_used_by_the_next_invocation_of_the_same_process(deployment):
    deployment.configure()
    (first,) = deployment.admit(key(1, "shop.public.later"))
    deployment.configure(TableRule("public.later", ("id",), topic="shop.public.later"))
    (second,) = deployment.admit(key(2, "shop.public.later"))
    assert (deployment.record(first).state, deployment.record(second).state) == ("parked", "pending")


def test_a_key_without_a_topic_is_parked_unread(deployment):
    deployment.configure()
    deployment.calls.clear()
    (id,) = deployment.admit("somewhere/else.avro")
    assert deployment.record(id).state == "parked"
    assert deployment.calls.count("GetObject") == 1  # the configuration


def test_side_files_are_ignored_with_their_rule_and_recorded(deployment, capsys):
    deployment.configure()
    ids = [
        deployment.land(f"topics/{TOPIC}/partition=0/{TOPIC}+0+0000000001.keys.avro", b"k"),
        deployment.land(f"topics/{TOPIC}/tombstone/x.avro", b"t"),
    ]
    assert failed_items(handler(sqs_event(s3_body(*ids)), context())) == []
    expected = [("ignored", "keys_file"), ("ignored", "tombstone_folder")]
    assert [(deployment.record(id).state, deployment.record(id).rule) for id in ids] == expected
    assert metrics(capsys)["ObjectsIgnored"] == 2


def test_an_object_whose_head_cannot_be_used_is_quarantined_and_stops_no_other(deployment):
    """tests/unit/formats/test_bad_input.py has every head that is refused."""
    deployment.configure()
    bad, good = deployment.land(key(1), avro()[:80]), deployment.land(key(2), avro())
    assert failed_items(handler(sqs_event(s3_body(bad), s3_body(good)), context())) == []
    record = deployment.record(bad)
    assert (record.state, record.code, record.table) == ("quarantined", "corrupt_object", deployment.record(good).table)
    assert record.reason
    assert deployment.record(good).state == "pending"


def test_an_object_of_a_format_that_nothing_reads_is_quarantined(deployment):
    deployment.configure()
    id = deployment.land(key(1).replace(".avro", ".bin"), b"{}")
    handler(sqs_event(s3_body(id)), context())
    assert (deployment.record(id).state, deployment.record(id).code) == ("quarantined", "unreadable_format")


@pytest.mark.parametrize("how", ["the version was deleted", "the key never was there"])
def test_an_object_deleted_before_it_is_read_is_quarantined_as_lost_and_counted(deployment, capsys, how):
    deployment.configure()
    id = deployment.land(key(1), avro())
    if how == "the version was deleted":
        deployment.s3.delete_object(Bucket=BRONZE, Key=id.key, VersionId=id.version)
    else:
        id = ObjectId(BRONZE, key(99), id.version)
    assert failed_items(handler(sqs_event(s3_body(id)), context())) == []
    assert (deployment.record(id).state, deployment.record(id).code) == ("quarantined", "lost_before_read")
    assert metrics(capsys)["ObjectsLostBeforeRead"] == 1


def test_a_notice_older_than_the_records_says_nothing_about_an_object_that_is_gone(deployment, capsys):
    deployment.configure()
    there, gone = deployment.land(key(1), avro()), deployment.land(key(2), avro())
    deployment.s3.delete_object(Bucket=BRONZE, Key=gone.key, VersionId=gone.version)
    body = s3_body(there, gone, age=timedelta(days=31))
    assert failed_items(handler(sqs_event(body), context())) == []
    assert (deployment.record(gone).state, deployment.record(gone).rule) == ("ignored", "late_notice")
    assert deployment.record(there).state == "pending"
    assert "ObjectsLostBeforeRead" not in metrics(capsys)


def test_an_object_of_a_bucket_without_versions_is_read_by_its_etag(deployment):
    deployment.configure()
    deployment.s3.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": REGION})
    old = deployment.land(key(1), avro(rows=1), bucket="plain")
    new = deployment.land(key(1), avro(rows=2), bucket="plain")
    assert old.version.startswith("etag:")
    handler(sqs_event(s3_body(old), s3_body(new)), context())
    assert (deployment.record(old).code, deployment.record(new).state) == ("lost_before_read", "pending")


def test_a_redelivery_after_the_object_was_committed_and_expired_changes_nothing(deployment):
    deployment.configure()
    (id,) = deployment.admit(key(1))
    before = deployment.record(id)
    deployment.s3.delete_object(Bucket=BRONZE, Key=id.key, VersionId=id.version)
    assert failed_items(handler(sqs_event(s3_body(id)), context())) == []
    assert deployment.record(id) == before


def test_messages_that_announce_nothing_are_counted_and_listed_and_leave_the_queue(deployment, capsys):
    test_event = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": BRONZE})
    assert failed_items(handler(sqs_event(test_event, "not json", '{"a": 1}'), context())) == []
    expected = [("m0", "test_event"), ("m1", "not_json"), ("m2", "unknown_message")]
    assert sorted((part.message_id, part.reason) for part in deployment.ledger.history.ignored_messages()) == expected
    assert metrics(capsys)["MessagesIgnored"] == 3


def test_an_error_that_may_pass_returns_only_its_own_message_and_is_logged(deployment, monkeypatch, capsys, caplog):
    deployment.configure()
    bad, good = deployment.land(key(1), avro()), deployment.land(key(2), avro())
    refuse = failing_for(lambda id: id == bad, aws_error("SlowDown", "GetObject"), Objects.head_bytes)
    monkeypatch.setattr(Objects, "head_bytes", refuse)
    assert failed_items(handler(sqs_event(s3_body(good), s3_body(bad), s3_body(good, bad)), context())) == ["m1", "m2"]
    assert deployment.record(bad) is None
    assert deployment.record(good).state == "pending"
    assert metrics(capsys)["ObjectsUnfinished"] == 1
    failed = [record for record in caplog.records if record.getMessage() == "message_failed"]
    assert [(record.message_id, record.code, record.levelname) for record in failed] == [
        (message, "SlowDown", "WARNING") for message in ("m1", "m2")
    ]
    assert all(bad.lineage in record.reason and "on purpose" in record.reason for record in failed)


def test_an_access_that_is_denied_is_no_verdict_on_the_object(deployment, monkeypatch):
    deployment.configure()
    id = deployment.land(key(1), avro())
    monkeypatch.setattr(Objects, "head_bytes", Mock(side_effect=aws_error("AccessDenied", "GetObject")))
    assert failed_items(handler(sqs_event(s3_body(id)), context())) == ["m0"]
    assert deployment.record(id) is None


@pytest.mark.long
def test_only_objects_unfinished_at_the_deadline_are_returned(deployment, monkeypatch, caplog):
    deployment.configure()
    slow, fast = deployment.land(key(1), avro()), deployment.land(key(2), avro())
    read = Objects.head_bytes
    released = threading.Event()

    def late(self, id, limit):
        if id == slow:
            released.wait(10)
        return read(self, id, limit)

    monkeypatch.setattr(Objects, "head_bytes", late)
    try:
        answer = handler(sqs_event(s3_body(slow), s3_body(fast)), context(milliseconds=15_100))
    finally:
        released.set()
    assert failed_items(answer) == ["m0"]
    failed = [record for record in caplog.records if record.getMessage() == "message_failed"]
    assert [(record.message_id, record.code) for record in failed] == [("m0", "deadline")]
    assert deployment.record(fast).state == "pending"
    assert deployment.ledger.lanes.get("main").arrivals == 1


def test_a_start_that_fails_returns_no_message_and_leaves_the_lane_to_the_schedule(deployment, capsys):
    deployment.configure()
    deployment.environment(APPLICATION_ID="00unknown")
    deployment.admit(key(1))
    assert deployment.ledger.lanes.get("main").state == STARTING
    assert metrics(capsys)["StartsFailed"] == 1


def test_a_failed_wake_fails_the_invocation(deployment, monkeypatch):
    deployment.configure()
    id = deployment.land(key(1), avro())
    monkeypatch.setattr("sluice_aws.ledger.lanes.LaneLedger.wake", Mock(side_effect=aws_error("ThrottlingException")))
    with pytest.raises(ClientError):
        handler(sqs_event(s3_body(id)), context())
    assert deployment.record(id).state == "pending"


def new_admission():
    """An Admission as a new process makes it."""
    clients = Clients(region=REGION, session=SHARED)
    objects = Objects(clients.s3)
    return Admission(
        ledger=Ledger(clients.dynamodb, LEDGER),
        heads=Heads(objects),
        schemas=SchemaStore(objects, SILVER),
        fit=schema_fit(objects, SILVER, lambda: 1),
        arrival=objects.arrival,
        now=lambda: 1,
    )


def test_an_object_takes_three_calls_and_a_schema_and_columns_one_more_per_process(deployment):
    configuration = deployment.configure()
    ids = [deployment.land(key(n), avro()) for n in range(20)]
    notices = parse_body(s3_body(*ids)).notices
    admission, calls = new_admission(), deployment.calls
    calls.clear()
    admission.admit(notices[0], configuration)
    assert sorted(calls) == ["GetObject", "GetObject", "PutObject", "Query", "TransactWriteItems"]
    calls.clear()
    for notice in notices[1:]:
        admission.admit(notice, configuration)
        assert len(calls) <= 3, calls
        calls.clear()


def test_a_schema_that_cannot_fit_its_table_is_quarantined_at_once(deployment):
    deployment.configure()
    history = SchemaHistory(Objects(deployment.s3), SILVER)
    stored = {"id": "bigint", "price": "int", "_sluice_position": "string", "__deleted": "boolean"}
    history.keep_columns(StoredColumns("public.orders", stored))

    def with_price(kind):
        return {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "price", "type": ["null", kind], "default": None}]}

    without_key = [{"name": "other", "type": "long", "default": 1}, *SCHEMA["fields"][1:]]
    schemas = with_price("string"), with_price("long"), {**SCHEMA, "fields": without_key}
    bad, wider, keyless = (deployment.land(key(n), avro(schema)) for n, schema in enumerate(schemas))
    assert failed_items(handler(sqs_event(s3_body(bad, wider, keyless)), context())) == []
    record = deployment.record(bad)
    expected = ("quarantined", "incompatible_schema", "public.orders", fingerprint(with_price("string")))
    assert (record.state, record.code, record.table, record.schema) == expected
    assert "Column price is string and the table has int. Change it back to int at the source" in record.reason
    assert deployment.record(wider).state == "pending"
    assert (deployment.record(keyless).state, deployment.record(keyless).code) == ("quarantined", "incompatible_schema")
    (seen, other) = history.schemas("public.orders")
    assert {seen.fingerprint, other.fingerprint} == {record.schema, deployment.record(keyless).schema}
    assert seen.verdict == "incompatible"


def test_a_frozen_table_quarantines_a_new_column_at_once_and_takes_the_rest(deployment):
    deployment.configure(TableRule("public.orders", ("id",), topic=TOPIC, schema="freeze"))
    history = SchemaHistory(Objects(deployment.s3), SILVER)
    history.keep_columns(StoredColumns("public.orders", {field["name"]: "bigint" for field in SCHEMA["fields"][:1]}))
    more = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "more", "type": ["null", "string"], "default": None}]}
    good, bad = deployment.land(key(0), avro()), deployment.land(key(1), avro(more))
    handler(sqs_event(s3_body(good, bad)), context())
    record = deployment.record(bad)
    assert (record.state, record.code) == ("quarantined", "schema_frozen") and "column more is new" in record.reason
    assert deployment.record(good).state == "pending"


def test_a_header_longer_than_the_first_read_is_read_again_once_per_topic(deployment):
    wide = {**SCHEMA, "doc": "d" * (FIRST_READ_BYTES + 1000)}
    configuration = deployment.configure()
    ids = [deployment.land(key(n), avro(wide)) for n in range(2)]
    notices = parse_body(s3_body(*ids)).notices
    admission, calls = new_admission(), deployment.calls
    calls.clear()
    assert admission.admit(notices[0], configuration).written.schema == fingerprint(wide)
    assert calls.count("GetObject") == 2 + 1  # the head, all of it, and the table's columns
    calls.clear()
    assert admission.admit(notices[1], configuration).written.schema == fingerprint(wide)
    assert calls.count("GetObject") == 1


def test_a_header_that_does_not_end_within_a_mebibyte_is_corrupt(deployment):
    endless = {**SCHEMA, "doc": "d" * (1024 * 1024 + 1000)}
    configuration = deployment.configure()
    (notice,) = parse_body(s3_body(deployment.land(key(1), avro(endless)))).notices
    written = new_admission().admit(notice, configuration).written
    assert (written.state, written.code) == ("quarantined", "corrupt_object")


def test_the_read_is_capped_when_the_server_ignores_the_range(deployment):
    body = Mock(**{"read.side_effect": lambda limit: b"x" * limit})
    whole = Mock(**{"get_object.return_value": {"Body": body, "ContentLength": 5_000_000}})
    head = Objects(whole).head_bytes(ObjectId("b", "k", "v"), 100)
    assert (len(head.data), head.whole, body.mock_calls) == (100, False, [call.read(100), call.close()])


def test_objects_of_a_paused_table_are_pending_and_start_nothing(deployment):
    deployment.configure(TableRule("public.orders", ("id",), topic=TOPIC, paused=True))
    (id,) = deployment.admit(key(1))
    assert deployment.record(id).state == "pending"
    assert (deployment.ledger.lanes.get("main").arrivals, deployment.job_runs()) == (0, [])


def wrapped_json():
    fields = [{"type": "int64", "optional": False, "field": "id"}]
    schema = {"type": "struct", "optional": False, "name": "orders.Value", "fields": fields}
    return (json.dumps({"schema": schema, "payload": {"id": 1}}) + "\n").encode()


def parquet(columns=1):
    body = io.BytesIO()
    pq.write_table(pa.table({"id": [1], **{f"column_{n}_{'x' * 100}": [None] for n in range(columns)}}), body)
    return body.getvalue()


def admitted_after_another(deployment, configuration, ending, body):
    """What is written of an object, and the calls that it takes once the table's columns are at hand."""
    admission, calls = new_admission(), deployment.calls
    calls.clear()
    ids = deployment.land(key(0), avro()), deployment.land(key(1).replace(".avro", ending), body)
    first, second = parse_body(s3_body(*ids)).notices
    admission.admit(first, configuration)
    calls.clear()
    return admission.admit(second, configuration).written, calls


@pytest.mark.parametrize(
    "ending, body, has_schema",
    [
        (".json", wrapped_json(), True),
        (".json.gz", gzip.compress(wrapped_json(), mtime=0), True),
        (".json", gzip.compress(wrapped_json(), mtime=0), True),
        (".json", b'{"id": 1}\n', False),
        (".json", b'{"id": 1, "long": "' + b"x" * 100_000, False),
        (".snappy.parquet", parquet(), True),
    ],
    ids=["wrapped", "gzip", "gzip by another name", "schemaless", "a first record longer than the head", "parquet"],
)
def test_json_and_parquet_are_admitted_by_what_their_heads_tell(deployment, ending, body, has_schema):
    configuration = deployment.configure()
    written, calls = admitted_after_another(deployment, configuration, ending, body)
    assert (written.state, written.schema is not None, calls.count("GetObject")) == ("pending", has_schema, 1)


def test_a_parquet_footer_longer_than_the_first_read_is_read_again(deployment):
    configuration = deployment.configure()
    body = parquet(columns=300)
    written, calls = admitted_after_another(deployment, configuration, ".parquet", body)
    assert (written.state, calls.count("GetObject"), len(body) > FIRST_READ_BYTES) == ("pending", 2, True)


def test_the_key_pattern_of_a_rule_tells_topic_partition_and_offset(deployment):
    pattern = r"aiven/(?P<topic>.+)-(?P<partition>[0-9]+)-(?P<offset>[0-9]+)\.gz"
    rule = TableRule("db.{1}", ("id",), topic="shop.*", key_pattern=pattern, format="json")
    deployment.configure(rule)
    taken, left = (deployment.land(key, b'{"id":1}\n') for key in ("aiven/shop.t-3-120.gz", "other/shop.t-3-120.gz"))
    handler(sqs_event(s3_body(taken, left)), context())
    record = deployment.record(taken)
    assert (record.state, record.table, record.topic, record.format) == ("pending", "db.t", "shop.t", "json")
    assert (record.kafka_partition, record.offset) == (3, 120)
    assert deployment.record(left).state == "parked"
