"""The environment of the functions: settings, clients, telemetry, and imports without effects."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import boto3
import botocore.endpoint
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import HTTPClientError

from sluice.lane.job_request import LONGEST_BATCH_MIN
from sluice_aws.clients import FUNCTION, Clients
from sluice_aws.errors import SettingsMissing
from sluice_aws.settings import Settings
from sluice_aws.telemetry import milliseconds_left, observed, telemetry_of

pytestmark = pytest.mark.long

FUNCTIONS = Path(__file__).resolve().parents[3] / "functions"


# ---- imports


def test_importing_handlers_and_adapters_reads_no_environment_and_makes_no_client():
    """In a process of its own, whose environment and boto3 say who looked."""
    probe = """
import os, sys
import aws_lambda_powertools, aws_lambda_powertools.utilities.batch, aws_lambda_powertools.metrics
import boto3, botocore.session, fastavro
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
    wrong = {"AWS_REGION": "eu-west-1", "RECONCILE_GRACE_SECONDS": "soon"}
    with pytest.raises(SettingsMissing) as raised:
        Settings.from_env(wrong, needed=("region", "ledger_table", "silver_bucket"))
    assert raised.value.facts["variables"] == ["RECONCILE_GRACE_SECONDS", "LEDGER_TABLE", "SILVER_BUCKET"]


@pytest.mark.parametrize("release, starts", [("", False), ("none", False), ("abc", True)])
def test_no_run_is_started_until_a_release_is_set(release, starts):
    assert Settings.from_env({"RELEASE": release}).starts_runs is starts


def test_settings_have_the_designs_defaults():
    settings = Settings.from_env({"AWS_DEFAULT_REGION": "eu-west-1"})
    expected = ("eu-west-1", 900, 30 * 86_400, 60)
    assert (settings.region, settings.reconcile_grace_s, settings.forget_after_s, LONGEST_BATCH_MIN) == expected


# ---- clients


def test_clients_repeat_within_bounds_and_go_where_the_settings_say():
    addresses = ("http://127.0.0.1:4566", "http://127.0.0.1:9999")
    names = ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EMR_SERVERLESS")
    clients = Clients.of(Settings.from_env(dict(zip(names, ("eu-west-1", *addresses)))))
    assert clients.s3 is clients.s3
    assert (clients.s3.meta.endpoint_url, clients.emr_serverless.meta.endpoint_url) == addresses
    config = clients.dynamodb.meta.config
    assert (config.retries["mode"], config.retries["total_max_attempts"]) == ("standard", FUNCTION.attempts)
    assert FUNCTION.attempts * (config.connect_timeout + config.read_timeout) < 25


# ---- telemetry


@pytest.fixture
def own_telemetry():
    """A logger keeps the stream of its first use."""
    telemetry_of.cache_clear()
    yield
    telemetry_of.cache_clear()


@pytest.mark.usefixtures("own_telemetry")
def test_a_log_line_is_an_event_with_fields_and_a_metric_an_emf_document(capsys):
    @observed("probe")
    def handler(event, context, telemetry):
        telemetry.event("object_parked", key="a", name="n", reason=None)
        telemetry.count("Things", 2)
        telemetry.count("Seconds", 1.5, unit="Seconds", lane="main")
        return "answer"

    context = SimpleNamespace(aws_request_id="r-1", function_name="f", get_remaining_time_in_millis=lambda: 5)
    assert handler({}, context) == "answer"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (event,) = [line for line in lines if line.get("message") == "object_parked"]
    expected = {"key": "a", "name_": "n", "request_id": "r-1", "service": "probe"}
    assert expected.items() <= event.items() and "reason" not in event
    assert [line["Things"] for line in lines if "Things" in line] == [[2.0]]
    metrics = [line for line in lines if "Seconds" in line]
    by_dimensions = {tuple(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]): line["Seconds"] for line in metrics}
    assert by_dimensions == {("service",): [1.5], ("lane", "service"): [1.5]}  # for alarms, and for who looks closer


@pytest.mark.usefixtures("own_telemetry")
def test_a_failed_invocation_is_logged_once_and_its_metrics_are_written(capsys):
    @observed("failing-probe")
    def handler(event, context, telemetry):
        telemetry.count("Things")
        raise SettingsMissing("gone", variables=["X"])

    with pytest.raises(SettingsMissing):
        handler({}, None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (failure,) = [line for line in lines if line.get("message") == "invocation_failed"]
    assert (failure["code"], failure["variables"]) == ("settings_missing", ["X"])
    assert any("Things" in line for line in lines)


@pytest.mark.parametrize("level, written", [("INFO", {"told", "warned", "invocation_ended"}), ("WARNING", {"warned"})])
@pytest.mark.usefixtures("own_telemetry")
def test_the_log_level_drops_lines_but_no_metric(capsys, monkeypatch, level, written):
    """Lambda sets AWS_LAMBDA_LOG_LEVEL from the function's ApplicationLogLevel, and Powertools prefers it."""
    monkeypatch.setenv("AWS_LAMBDA_LOG_LEVEL", "INFO")
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", level)

    @observed(f"probe-of-{level}")
    def handler(event, context, telemetry):
        telemetry.event("told")
        telemetry.warn("warned")
        telemetry.count("Things", 2)

    handler({}, None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["message"] for line in lines if "message" in line} == written
    assert [line["Things"] for line in lines if "Things" in line] == [[2.0]]


@pytest.mark.usefixtures("own_telemetry")
def test_an_invocation_ends_with_the_times_of_its_aws_calls(capsys, monkeypatch):
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda seconds: None))  # between attempts

    @observed("timed-probe")
    def handler(event, context, telemetry):
        session = boto3.Session(region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
        session.events.register("before-send.dynamodb", lambda request, **_: AWSResponse(request.url, 200, {}, Empty()))
        session.events.register("before-send.s3", refused)
        clients = Clients.of(Settings.from_env({}), call_times=telemetry.call_times, session=session)
        for _ in range(2):
            clients.dynamodb.list_tables()
        with pytest.raises(HTTPClientError):
            clients.s3.list_buckets()

    class Empty(io.BytesIO):
        def stream(self, *_, **__):
            yield b"{}"

    def refused(request, **_):
        raise HTTPClientError(error="unreachable")

    handler({}, None)
    handler_lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (ended,) = [line for line in handler_lines if line.get("message") == "invocation_ended"]
    assert {name: one["n"] for name, one in ended["calls"].items()} == {"dynamodb.ListTables": 2, "s3.ListBuckets": 1}
    assert all(one["ms"] >= 0 for one in ended["calls"].values())
    assert ended["cold_start"] is True and ended["ms"] >= sum(one["ms"] for one in ended["calls"].values()) - 2
    handler({}, None)
    (ended,) = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "calls" in line]
    assert ended["cold_start"] is False, "and the calls of the invocation before are not counted again"
    assert ended["calls"]["dynamodb.ListTables"]["n"] == 2


def test_no_function_imports_the_tracing_sdk():
    """Its maintenance ends in 2027. Lambda itself sends traces; times are in the logs."""
    sources = [path.read_text(encoding="utf-8") for path in FUNCTIONS.rglob("*") if path.suffix in (".py", ".txt")]
    assert not [source for source in sources if re.search(r"aws.xray.sdk|\bTracer\b", source)]


def test_where_nothing_limits_the_time_none_is_left_to_count():
    assert milliseconds_left(None) is None
    assert milliseconds_left(SimpleNamespace(get_remaining_time_in_millis=lambda: 12.7)) == 12
