"""What the functions stand on: settings, clients, telemetry, stored configuration and heads; nothing happens at import."""
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import fastavro
import pytest
from function_world import ARTIFACTS, BRONZE, SCHEMA, SILVER, Recorder, avro, key, world  # noqa: F401

from sluice.admitting import MAX_REASON, NO_CONFIGURATION, judge_read, judge_unread, judge_unreadable
from sluice.avro_schema import fingerprint
from sluice.configuration import Configuration
from sluice.errors import SchemaTooComplex, SluiceError
from sluice.identity import ObjectId
from sluice.job_request import LONGEST_BATCH_MIN
from sluice.limits import DEFAULTS
from sluice.routing import classify
from sluice.table_rule import TableRule
from sluice_aws.clients import ATTEMPTS, Clients
from sluice_aws.config_store import ConfigStore, ConfigurationUnreadable
from sluice_aws.avro_heads import CorruptObject, HeaderCut, NotAvro, parse_header
from sluice_aws.heads import read_head
from sluice_aws.objects import Head, Objects, Unchanged
from sluice_aws.schema_store import SchemaStore
from sluice_aws.settings import Settings, SettingsMissing
from sluice_aws.telemetry import milliseconds_left, observed, telemetry_of

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"


# ---- imports


def test_importing_every_handler_and_adapter_reads_no_environment_and_makes_no_client():
    """In a process of its own, whose environment and boto3 say who looked."""
    probe = """
import os, sys
import aws_lambda_powertools, aws_lambda_powertools.utilities.batch, aws_lambda_powertools.metrics, boto3, botocore.session, fastavro
asked = []
class Watched(dict):
    def __getitem__(self, name): asked.append(name); return dict.__getitem__(self, name)
    def get(self, name, default=None): asked.append(name); return dict.get(self, name, default)
watched = Watched(os.environ)
os.environ = watched
os.getenv = lambda name, default=None: watched.get(name, default)
def refuse(*_, **__): raise AssertionError("a client was made at import")
boto3.client = boto3.Session = boto3.resource = refuse
import admit.handler, supervise.handler, reconcile.handler, announce.handler
asked = [name for name in asked if name.startswith(("AWS", "POWERTOOLS", "LEDGER", "BRONZE", "RELEASE"))]
assert not asked, asked
"""
    environment = {"PYTHONPATH": str(FUNCTIONS), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# ---- settings


def test_settings_name_every_missing_variable_at_once():
    with pytest.raises(SettingsMissing) as raised:
        Settings.from_env({"AWS_REGION": "eu-west-1", "RECONCILE_GRACE_SECONDS": "soon"}, needed=("region", "ledger_table", "silver_bucket"))
    assert raised.value.facts["variables"] == ["RECONCILE_GRACE_SECONDS", "LEDGER_TABLE", "SILVER_BUCKET"]


@pytest.mark.parametrize("release, starts", [("", False), ("none", False), ("abc", True)])
def test_no_run_is_started_until_a_release_is_set(release, starts):
    assert Settings.from_env({"RELEASE": release}).starts_runs is starts


def test_settings_have_the_designs_defaults():
    settings = Settings.from_env({"AWS_DEFAULT_REGION": "eu-west-1"})
    assert (settings.region, settings.reconcile_grace_s, settings.forget_after_s, LONGEST_BATCH_MIN) == ("eu-west-1", 900, 15 * 86_400, 60)


# ---- clients


def test_clients_repeat_within_bounds_and_go_where_the_settings_say():
    settings = Settings(region="eu-west-1", endpoint_url="http://127.0.0.1:4566", emr_endpoint_url="http://127.0.0.1:9999")
    clients = Clients(settings)
    assert clients.s3 is clients.s3
    assert (clients.s3.meta.endpoint_url, clients.emr_serverless.meta.endpoint_url) == ("http://127.0.0.1:4566", "http://127.0.0.1:9999")
    config = clients.dynamodb.meta.config
    assert (config.retries["mode"], config.retries["total_max_attempts"]) == ("standard", ATTEMPTS)
    assert ATTEMPTS * (config.connect_timeout + config.read_timeout) < 25


# ---- telemetry


def test_a_log_line_is_an_event_with_fields_and_a_metric_an_emf_document(capsys, monkeypatch):
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    telemetry_of.cache_clear()

    @observed("probe")
    def handler(event, context, telemetry):
        telemetry.event("object_parked", key="a", name="n", reason=None)
        telemetry.count("Things", 2)
        telemetry.count("Seconds", 1.5, unit="Seconds", lane="main")
        return "answer"

    assert handler({}, SimpleNamespace(aws_request_id="r-1", function_name="f", get_remaining_time_in_millis=lambda: 5)) == "answer"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (event,) = [line for line in lines if "message" in line]
    assert (event["message"], event["key"], event["name_"], event["request_id"], event["service"], "reason" in event) == ("object_parked", "a", "n", "r-1", "probe", False)
    assert [line["Things"] for line in lines if "Things" in line] == [[2.0]]
    told = {tuple(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]): line["Seconds"] for line in lines if "Seconds" in line}
    assert told == {("service",): [1.5], ("lane", "service"): [1.5]}  # for alarms, and for who looks closer
    telemetry_of.cache_clear()


def test_a_failed_invocation_is_logged_once_with_its_facts_and_its_metrics_are_written(capsys, monkeypatch):
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    telemetry_of.cache_clear()

    @observed("failing-probe")  # a logger keeps the stream of its first use
    def handler(event, context, telemetry):
        telemetry.count("Things")
        raise SettingsMissing("gone", variables=["X"])

    with pytest.raises(SettingsMissing):
        handler({}, None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (failure,) = [line for line in lines if line.get("message") == "invocation_failed"]
    assert (failure["code"], failure["variables"]) == ("settings_missing", ["X"])
    assert any("Things" in line for line in lines)
    telemetry_of.cache_clear()


def test_where_nothing_limits_the_time_none_is_left_to_count():
    assert milliseconds_left(None) is None
    assert milliseconds_left(SimpleNamespace(get_remaining_time_in_millis=lambda: 12.7)) == 12


# ---- configuration


def configuration(*topics):
    return Configuration(tuple(TableRule(f"a.{topic}", ("id",), topic=topic) for topic in topics))


def push(world, data):  # noqa: F811
    world.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=data)


def test_a_configuration_is_read_again_only_when_it_changed(world):  # noqa: F811
    store = ConfigStore(Objects(world.s3), ARTIFACTS)
    assert store.load() is None
    push(world, configuration("x").to_json().encode())
    first = store.load_if_changed()
    assert first == configuration("x")
    assert store.load_if_changed() is None
    assert store.load() is first
    push(world, configuration("y").to_json().encode())
    assert store.load_if_changed() == configuration("y")


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe", b"{}", b"[]"])
def test_a_broken_configuration_changes_nothing_and_is_told(world, data):  # noqa: F811
    store, report = ConfigStore(Objects(world.s3), ARTIFACTS), Recorder()
    push(world, configuration("x").to_json().encode())
    store.load()
    push(world, data)
    with pytest.raises(ConfigurationUnreadable) as raised:
        store.load()
    assert raised.value.retriable
    assert store.last == store.load_or_last(report) == configuration("x")
    assert report.metrics == {"ConfigurationUnreadable": 1}
    push(world, configuration("z").to_json().encode())
    assert store.load_or_last(report) == configuration("z")


# ---- heads and schemas


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
def test_a_header_gives_the_schema_as_it_was_written_and_the_codec(codec):
    header = parse_header(Head(avro(codec=codec), True))
    assert (header.schema, header.codec) == (SCHEMA, codec)


def test_a_header_keeps_what_the_connector_added_to_the_schema():
    schema = {"type": "record", "name": "v", "connect.version": 1, "fields": [{"name": "d", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}}]}
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(schema), [])
    assert parse_header(Head(buffer.getvalue(), True)).schema["fields"][0]["type"]["connect.name"] == "io.debezium.time.Date"


def test_every_cut_of_a_header_asks_for_more_or_says_that_the_object_is_damaged():
    data = avro()
    complete = data.index(b"avro.schema")
    for length in range(4, complete):
        with pytest.raises(HeaderCut):
            parse_header(Head(data[:length], False))
        with pytest.raises(CorruptObject):
            parse_header(Head(data[:length], True))


def test_damage_of_any_kind_is_one_of_the_named_errors():
    data, chance = avro(), random.Random(7)
    for _ in range(3_000):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            parse_header(Head(bytes(damaged), True))
        except (NotAvro, CorruptObject, SchemaTooComplex):
            pass


def test_a_header_without_schema_or_with_a_codec_that_is_not_avros_is_corrupt():
    for written, replaced in ((b"avro.schema", b"avro.schemb"), (b"null", b"nulk")):
        data = avro(SCHEMA).replace(b"\x14avro.codec", b"\x14avro.codec")
        damaged = data.replace(written, replaced, 1) if written != b"null" else data[: data.index(b"avro.codec")] + data[data.index(b"avro.codec"):].replace(b"null", b"nulk", 1)
        with pytest.raises(CorruptObject):
            parse_header(Head(damaged, True))


def test_a_kept_schema_comes_back_with_the_same_fingerprint_and_is_put_once(world):  # noqa: F811
    schema = {**SCHEMA, "doc": "é \u2028 \U0001f600"}
    store = SchemaStore(Objects(world.s3), SILVER)
    named = store.keep(schema)
    world.calls.clear()
    assert store.keep(schema) == named == fingerprint(store.load(named))
    assert world.calls.count("PutObject") == 0
    assert store.load("0" * 32) is None


# ---- objects


def test_an_object_is_read_by_its_exact_version(world):  # noqa: F811
    objects = Objects(world.s3)
    old, new = world.land(key(1), avro(rows=1)), world.land(key(1), avro(rows=900))
    assert objects.head_bytes(old, 10_000).whole and not objects.head_bytes(new, 100).whole
    assert read_head(objects, old, "avro").schema == SCHEMA
    assert objects.exists(old)
    world.s3.delete_object(Bucket=BRONZE, Key=old.key, VersionId=old.version)
    assert not objects.exists(old)
    assert objects.exists(new)


def test_an_unchanged_document_is_not_sent_again(world):  # noqa: F811
    objects = Objects(world.s3)
    objects.put_json(SILVER, "a/b.json", {"b": 1, "a": "é"})
    document = objects.get(SILVER, "a/b.json")
    assert document.data == '{"a":"é","b":1}'.encode()
    with pytest.raises(Unchanged):
        objects.get(SILVER, "a/b.json", unless=document.etag)
    assert objects.get_json(SILVER, "a/c.json") is None
    assert list(objects.keys(SILVER, "a/")) == ["a/b.json"]


# ---- verdicts


def test_a_change_file_is_read_before_it_is_judged():
    assert judge_unread(classify("topics/t/t+0+1.avro", 10), 10, DEFAULTS) is None
    assert judge_unread(classify("topics/t/t+0+1.avro", None), None, DEFAULTS) is None
    assert judge_read(classify("topics/t/t+0+1.avro", 10), None).reason == NO_CONFIGURATION
    assert judge_read(classify("topics/t/t+0+1.avro", 10), configuration("t")).table == "a.t"


def test_a_reason_that_quotes_an_object_is_bounded():
    verdict = judge_unreadable(CorruptObject("x" * 10_000))
    assert (verdict.state, verdict.code, len(verdict.reason)) == ("quarantined", "corrupt_object", MAX_REASON)
    assert judge_unreadable(SluiceError("y")).code == "error"


def test_an_identity_without_versions_is_read_on_condition_of_its_etag(world):  # noqa: F811
    world.s3.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    id = world.land("k", b"123", bucket="plain")
    assert Objects(world.s3).head_bytes(id, 10).data == b"123"
    assert not Objects(world.s3).exists(ObjectId("plain", "k", "etag:0123"))
