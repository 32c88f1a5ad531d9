"""What a driver process gets as arguments, how it identifies itself, what it logs, and its settings of Spark."""

from __future__ import annotations

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import boto3
import pytest
from driving.lane import LANE, emulated_dynamodb
from emulation.aws import emulated_session
from moto import mock_aws

from sluice.batch.manifest import TablePart, open_manifest
from sluice.batch.outcome import ObjectError, Outcome
from sluice.config.table import TableConfig
from sluice.errors import SluiceError, UnreadableManifest
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.s3.objects import Objects
from sluice_spark.engine import session
from sluice_spark.engine.session import SparkProcess, executor_java_options, required_settings, task_cores
from sluice_spark.errors import UnknownJobRun
from sluice_spark.log import Profile, RunLog
from sluice_spark.run import spark_engine
from sluice_spark.run.driver import EXIT_OK, Arguments, drive, parse
from sluice_spark.run.hold import job_run_id_from, job_run_id_of_application
from sluice_spark.run.spark_engine import SparkMerger

NAMES = "--ledger ledger --silver silver --artifacts artifacts --bronze bronze"
GIVEN = f"--lane main --run run-1 --region eu-central-1 {NAMES}".split()


def test_the_command_line_is_what_the_start_request_writes():
    names = ("main", "run-1", "eu-central-1", "ledger", "silver", "artifacts", "bronze")
    assert parse(GIVEN) == Arguments(*names, job_run_id=None, attempt=1, tables_at_once=2, poll_seconds=0.1)


@pytest.mark.parametrize(
    "wrong", [[], ["--tables-at-once", "0"], ["--poll-seconds", "0"], ["--poll-seconds", "61"], ["--lan", "x"]]
)
def test_a_wrong_command_line_is_refused_with_the_usage(wrong, capsys):
    with pytest.raises(SystemExit) as refused:
        parse(GIVEN + wrong if wrong else [])
    assert refused.value.code == 2 and "usage: ingest.py" in capsys.readouterr().err


def test_a_driver_finds_its_job_run_in_its_arguments_or_in_what_emr_serverless_sets():
    assert job_run_id_from("00abc", {"SERVERLESS_EMR_JOB_ID": "00def"}) == "00abc"
    assert job_run_id_from(None, {"SERVERLESS_EMR_JOB_ID": "00def"}) == "00def"
    assert job_run_id_from(None, {"EMR_SERVERLESS_JOB_RUN_ID": "00ghi"}) == "00ghi"
    assert job_run_id_from(None, {}) is None
    assert job_run_id_of_application("00fvc7lmvahf2g03") == "00fvc7lmvahf2g03"


@pytest.mark.parametrize("other", ["local-1795247234238", "application_1_0001", "", "00ABC", "0" * 65, "00\n"])
def test_an_application_of_another_cluster_manager_is_no_job_run(other):
    with pytest.raises(UnknownJobRun):
        job_run_id_of_application(other)


def test_a_refused_driver_ends_well_and_stops_the_spark_that_starts_beside_it(monkeypatch):
    began, stopped, addresses = threading.Event(), [], set()

    class Session:
        def __init__(self):
            assert began.wait(30), "the driver was not refused while Spark started"

        def stop(self):
            stopped.append(True)

    class Out(io.StringIO):
        def write(self, line):
            if "hold_refused" in line:
                began.set()
            return super().write(line)

    spark = SparkProcess(Session)
    spark.session()
    with emulated_dynamodb() as client:
        Ledger(client, "ledger").lanes.request_start(LANE, "run-of-another", 1)
        out = Out()
        emulated = emulated_session("eu-central-1")

        def client(service, endpoint_url, **more):
            addresses.add(endpoint_url)
            return emulated.client(service, **more)

        session = SimpleNamespace(client=client)
        monkeypatch.setattr("sluice_aws.clients.boto3", SimpleNamespace(Session=lambda **_: session))
        environment = {"SERVERLESS_EMR_JOB_ID": "00abc", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
        status = drive(parse(GIVEN), environment, out, spark)
    assert (status, stopped, addresses) == (EXIT_OK, [True], {"http://127.0.0.1:4566"})
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["run_began", "hold_refused"]


def test_a_driver_that_does_not_know_its_job_run_holds_nothing():
    session, out = Mock(**{"sparkContext.applicationId": "local-1"}), io.StringIO()
    with pytest.raises(UnknownJobRun):
        drive(parse(GIVEN), {}, out, SparkProcess(lambda: session))
    assert session.stop.called and json.loads(out.getvalue())["code"] == "unknown_job_run"


def test_an_event_is_one_line_of_json_with_the_run_on_it():
    out = io.StringIO()
    log = RunLog(out, lambda: 17, run="run-1")
    log.event("claimed", batch="b-1", missing=None, odd=object)
    event = json.loads(out.getvalue())
    assert out.getvalue().count("\n") == 1
    assert (event["at"], event["event"], event["run"], event["batch"]) == (17, "claimed", "run-1", "b-1")
    assert "missing" not in event and "object" in event["odd"]


def test_a_failure_carries_its_facts_and_is_cut_to_size():
    out = io.StringIO()
    log = RunLog(out, lambda: 17)
    try:
        raise SluiceError("x" * 5_000, table="shop.orders")
    except SluiceError as error:
        log.failure("table_failed", error)
    event = json.loads(out.getvalue())
    assert event["facts"] == {"table": "shop.orders"} and event["code"] == "error" and event["level"] == "error"
    assert len(event["error"]) < 2_100 and len(event["trace"]) <= 6_000


def test_events_of_several_threads_do_not_mix():
    out = io.StringIO()
    log = RunLog(out, lambda: 17)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: log.event("one", n=n, text="y" * 500), range(200)))
    assert sorted(json.loads(line)["n"] for line in out.getvalue().splitlines()) == list(range(200))


def test_a_profile_adds_up_stages_also_of_those_that_fail():
    ticks = iter([0.0, 1.0, 3.0, 5.0, 6.5, 10.0])
    profile = Profile(lambda: next(ticks))
    with profile.stage("merge"):
        pass
    with pytest.raises(ValueError), profile.stage("merge"):
        raise ValueError
    profile.add("settle", 0.25)
    assert profile.seconds() == {"merge": 3.5, "settle": 0.25, "wall": 10.0}


@pytest.mark.parametrize(
    "submitted, cores",
    [
        ({"spark.master": "local[2]"}, 2),
        ({"spark.master": "local[8,1]"}, 8),
        ({"spark.master": "local[*]"}, 2),
        ({"spark.dynamicAllocation.maxExecutors": "5", "spark.executor.cores": "2"}, 10),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({}, 2),
    ],
)
def test_shuffles_have_as_many_partitions_as_there_can_be_cores(submitted, cores):
    assert task_cores(submitted) == cores
    assert required_settings(task_cores(submitted))["spark.sql.shuffle.partitions"] == str(cores)


def test_settings_that_a_job_was_submitted_with_are_those_of_its_jvm(monkeypatch):
    conf = SimpleNamespace(get=lambda name, default: {"spark.executor.cores": "4"}.get(name, default))
    monkeypatch.setattr(session.SparkContext, "_jvm", None)
    start = partial(setattr, session.SparkContext, "_jvm", SimpleNamespace(SparkConf=lambda defaults: conf))
    monkeypatch.setattr(session.SparkContext, "setSystemProperty", lambda name, value: start())
    session.set_jvm_properties()
    assert task_cores(session.submitted_settings()) == 4


def test_required_spark_settings_name_no_file_system():
    settings = required_settings(2)
    assert not [name for name in settings if "fs.s3" in name or name == "spark.master"]
    assert settings["spark.scheduler.mode"] == "FAIR" and settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.speculation"] == "false"


@pytest.mark.parametrize(
    "submitted, before",
    [({}, ""), ({"spark.executor.extraJavaOptions": "-Duser.timezone=UTC"}, "-Duser.timezone=UTC ")],
    ids=["none", "time zone"],
)
def test_executors_do_not_attach_to_their_own_jvm(submitted, before):
    assert executor_java_options(submitted) == f"{before}-Djol.skipDynamicAttach=true -Djol.skipHotspotSAAttach=true"


def test_spark_is_made_once_in_a_thread_of_its_own_and_stopped_only_if_it_was_made():
    made, session = [], Mock()

    def create():
        made.append(threading.current_thread())
        return session

    process = SparkProcess(create)
    process.stop()
    assert (made, process.ready()) == ([], False)
    assert process.session().result() is process.session().result()
    assert len(made) == 1 and made[0] is not threading.main_thread() and process.ready()
    process.stop()
    assert session.stop.call_count == 1


def test_a_session_that_cannot_be_made_fails_whoever_needs_it():
    process = SparkProcess(Mock(side_effect=RuntimeError("no Java")))
    with pytest.raises(RuntimeError, match="no Java"):
        process.session().result()
    assert not process.ready()
    process.stop()


@pytest.mark.parametrize("ends, logged", [(True, []), (False, ["warm_up_failed"])], ids=["run ends", "run goes on"])
def test_a_warm_up_fails_only_in_a_run_that_goes_on(monkeypatch, ends, logged):
    began, go_on, log = threading.Event(), threading.Event(), io.StringIO()

    def warm(spark):
        began.set()
        assert go_on.wait(30)
        raise RuntimeError("Spark's context was shut down")

    monkeypatch.setattr(spark_engine, "warm_python_workers", warm)
    monkeypatch.setattr(spark_engine, "WARM_EVERY_S", 0.0)
    process = SparkProcess(lambda: SimpleNamespace(conf={}, stop=lambda: None))
    process.session().result()
    merger = SparkMerger(process, None, RunLog(log, lambda: 17))
    merger.keep_warm()
    assert began.wait(30)
    if ends:
        process.stop()
    go_on.set()
    merger._warming.join(30)
    assert [json.loads(line)["event"] for line in log.getvalue().splitlines()] == logged


@pytest.mark.parametrize(
    "least, running, warmed", [(None, 0, True), ("1", 0, True), ("1", 1, True), ("1", 5, False), ("0", 0, False)]
)
def test_a_warm_up_neither_starts_executors_nor_keeps_those_of_a_burst(monkeypatch, least, running, warmed):
    warm = []
    monkeypatch.setattr(spark_engine, "warm_python_workers", warm.append)
    monkeypatch.setattr(spark_engine, "WARM_EVERY_S", 0.0)
    session = Mock(conf={"spark.dynamicAllocation.minExecutors": least})
    session.sparkContext._jsc.sc().getExecutorMemoryStatus().size.return_value = 1 + running
    process = SparkProcess(lambda: session)
    process.session().result()
    merger = SparkMerger(process, None, RunLog(io.StringIO(), lambda: 17))
    merger.keep_warm()
    merger._warming.join(30)
    assert warm == [session] * warmed


@pytest.fixture
def s3():
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        client.create_bucket(Bucket="silver")
        yield client


def manifest_of(run):
    config = TableConfig("shop.orders", "shop", "orders", topic="shop.orders", record_key=("id",))
    return open_manifest(LANE, run, 1, "c1", {"shop.orders": TablePart(config.to_dict())})


def test_manifests_and_outcomes_come_back_from_s3_as_they_were_put(s3):
    manifest, errors = manifest_of("run-1"), (ObjectError("h", "corrupt", "because"),)
    about = {"instant": "20260101", "counts": {"read": 1}, "quarantined": errors}
    outcome = Outcome(manifest.batch, "shop.orders", "committed", 2, **about)
    store = ManifestStore(Objects(s3), "silver")
    key = store.put_manifest(manifest, lambda: True)
    assert key == f"_sluice/manifests/main/{manifest.batch}.json"
    assert store.manifest(key) == manifest and store.manifest("_sluice/manifests/main/other.json") is None
    store.put_outcome(outcome)
    assert store.outcome(manifest.batch, "shop.orders") == outcome
    assert store.outcome("b-other", "shop.orders") is None
    s3.put_object(Bucket="silver", Key=key, Body=b"{}")
    with pytest.raises(UnreadableManifest):
        store.manifest(key)


def test_a_run_without_its_lane_replaces_no_manifest_of_its_successor(s3):
    late, other, newer = map(manifest_of, ("run-1", "run-2", "run-3"))
    assert late.batch == other.batch == newer.batch
    store = ManifestStore(Objects(s3), "silver")
    key = store.put_manifest(other, lambda: True)
    assert store.put_manifest(late, lambda: False) is None
    assert store.manifest(key) == other
    looks = iter([True, False])

    def frozen_behind_its_look():
        held = next(looks)
        if held:
            assert store.put_manifest(newer, lambda: True) == key
        return held

    assert store.put_manifest(late, frozen_behind_its_look) is None
    assert store.manifest(key) == newer
    assert store.put_manifest(newer, lambda: False) == key  # its own, again
