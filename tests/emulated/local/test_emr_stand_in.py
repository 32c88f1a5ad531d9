"""The EMR Serverless stand-in over HTTP with botocore's client, with a small program in place of Spark."""

import json
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sluice_bench.measure.ledger_times import await_until
from sluice_deploy.release import tar_gz_bytes
from sluice_local.emr.spark_command import Cloud, Machine
from sluice_local.emr.spark_runner import RunnerSettings
from sluice_local.emr.stand_in import StandIn, start_stand_in
from sluice_local.images.java import Java
from sluice_local.images.pythons import PythonImage
from sluice_local.images.spark import SparkImage

pytestmark = pytest.mark.long

# Stands where java does: runs the entry point with the driver's Python, as SparkSubmit does.
FAKE_JAVA = """#!{python} -S
import json, os, sys
arguments = sys.argv[1:]
entry = next(index for index, value in enumerate(arguments) if value.endswith("job.py"))
os.environ["SEEN_COMMAND"] = json.dumps(arguments[:entry])
os.execv(sys.executable, [sys.executable, "-S", *arguments[entry:]])
"""
REPORT = """
import json, os, sys
sys.path.insert(0, "environment")
try:
    import sluice_local
    reach = sluice_local.__file__
except ImportError:
    reach = None
import carried
here = sorted(os.listdir("."))
found = {"arguments": sys.argv[1:], "environment": dict(os.environ), "here": here, "reach": reach}
print(json.dumps({**found, "carried": carried.WORD}))
"""
WAIT = """
import signal, sys
def ended(number, frame):
    print("asked to end", flush=True)
    {on_term}
signal.signal(signal.SIGTERM, ended)
print("waiting", flush=True)
while True:
    signal.pause()
"""


class FolderS3:
    """As much of an S3 client as the stand-in uses, over a folder."""

    class exceptions:
        ClientError = ClientError

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, str]:
        path = self._path(Bucket, Key, "HeadObject")
        return {"ETag": f'"{path.stat().st_mtime_ns}"'}

    def download_file(self, bucket: str, key: str, target: str) -> None:
        Path(target).write_bytes(self._path(bucket, key, "GetObject").read_bytes())

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:
        path = self.folder / Bucket / Key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Body)

    def _path(self, bucket: str, key: str, operation: str) -> Path:
        path = self.folder / bucket / key
        if not path.exists():
            raise ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, operation)
        return path


class Rules:
    """An event bus with one rule, whose pattern is a list of states, and the function that it targets."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.heard = threading.Condition()

    def get_paginator(self, name: str) -> "Rules":
        assert name == "list_rules"
        return self

    def paginate(self) -> list[dict[str, Any]]:
        ends = {"Name": "ends", "State": "ENABLED", "EventPattern": "SUCCESS FAILED CANCELLED"}
        return [{"Rules": [ends, {"Name": "schedule", "State": "ENABLED"}]}]

    def test_event_pattern(self, *, EventPattern: str, Event: str) -> dict[str, bool]:
        return {"Result": json.loads(Event)["detail"]["state"] in EventPattern.split()}

    def list_targets_by_rule(self, *, Rule: str) -> dict[str, Any]:
        return {"Targets": [{"Id": "supervise", "Arn": "arn:aws:lambda:us-east-1:000000000000:function:supervise"}]}

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> None:
        with self.heard:
            self.events.append(json.loads(Payload))
            self.heard.notify_all()

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.events) >= count, 10), self.events
            return list(self.events)


ONE_PROCESS = Machine()


class Stand:
    """A stand-in with its surroundings."""

    def __init__(self, folder: Path, machine: Machine = ONE_PROCESS) -> None:
        self.folder = folder
        self.s3 = FolderS3(folder / "s3")
        self.rules = Rules()
        java = folder / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(FAKE_JAVA.format(python=sys.executable))
        java.chmod(0o755)
        self.packages = folder / "packages"
        self.packages.mkdir()
        pythons = PythonImage(Path(sys.executable), self.packages)
        image = SparkImage(Java(folder / "java", "17.0.1", "test"), pythons, (), (), folder / "log4j2.properties")
        cloud = Cloud("http://127.0.0.1:1", "us-east-1", "test", "secret")
        settings = RunnerSettings(folder / "runs", folder / "cache", image, cloud, machine, concurrent=2)
        self.standing: StandIn = start_stand_in(
            settings, s3=self.s3, events=self.rules, functions=self.rules, account="000000000000"
        )
        self.client = boto3.client(
            "emr-serverless",
            endpoint_url=self.standing.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}),
        )
        described = {"name": "sluice", "releaseLabel": "emr-7.14.0", "type": "SPARK", "clientToken": "one"}
        self.application = self.client.create_application(**described)["applicationId"]

    def job(self, source: str) -> str:
        self.s3.put_object(Bucket="artifacts", Key="releases/1/job.py", Body=source.encode())
        return "s3://artifacts/releases/1/job.py"

    def start(self, source: str, token: str = "run-1", **more: Any) -> str:
        driver = {
            "entryPoint": self.job(source),
            "entryPointArguments": ["--lane", "main"],
            "sparkSubmitParameters": more.pop("parameters", "--conf spark.driver.cores=2"),
        }
        request = {
            "applicationId": self.application,
            "clientToken": token,
            "name": token,
            "executionRoleArn": "arn:aws:iam::000000000000:role/job",
        }
        return str(self.client.start_job_run(**request, jobDriver={"sparkSubmit": driver}, **more)["jobRunId"])

    def run(self, run: str) -> dict[str, Any]:
        return dict(self.client.get_job_run(applicationId=self.application, jobRunId=run)["jobRun"])

    def until(self, run: str, *states: str) -> dict[str, Any]:
        await_until(lambda: self.run(run)["state"] in states, timeout_s=10, what=" or ".join(states))
        return self.run(run)

    def await_output(self, run: str, text: str) -> None:
        await_until(lambda: self.run(run)["state"] == "RUNNING" and self.output(run) == text, timeout_s=10, what=text)

    def output(self, run: str, name: str = "stdout") -> str:
        return (self.folder / "runs" / run / name).read_text()


@pytest.fixture()
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path)
    yield made
    made.standing.stop()


def _zip(path: Path, **files: str) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.py", content)
    return path.read_bytes()


def command_of(environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command that a job was started by, and what it configures."""
    command = json.loads(environment["SEEN_COMMAND"])
    pairs = zip(command, command[1:], strict=False)
    return command, dict(value.split("=", 1) for option, value in pairs if option == "--conf")


def test_a_job_runs_from_its_request_alone(stand: Stand, tmp_path: Path) -> None:
    environment = tar_gz_bytes({"carried.py": b"WORD = 'carried'"})
    stand.s3.put_object(Bucket="artifacts", Key="releases/1/environment.tar.gz", Body=environment)
    stand.s3.put_object(Bucket="artifacts", Key="releases/1/sluice.zip", Body=_zip(tmp_path / "z", some="X = 1"))
    parameters = (
        "--conf spark.submit.pyFiles=s3://artifacts/releases/1/sluice.zip --conf "
        "spark.archives=s3://artifacts/releases/1/environment.tar.gz#environment "
        "--conf spark.emr-serverless.driverEnv.PYTHONPATH=./environment --conf spark.emr-serverless.driver.disk=20g "
        "--conf spark.driver.memory=6g "
        "--conf spark.dynamicAllocation.maxExecutors=5 --conf spark.executor.memory=6g --conf "
        "spark.sql.shuffle.partitions=4"
    )
    run = stand.start(REPORT, parameters=parameters)
    described = stand.until(run, "SUCCESS", "FAILED")
    assert described["state"] == "SUCCESS", stand.output(run, "stderr")
    seen = json.loads(stand.output(run))
    environment = seen["environment"]
    command, settings = command_of(environment)
    assert (seen["arguments"], seen["carried"]) == (["--lane", "main"], "carried")
    assert seen["reach"] is None, "the source tree is in reach"
    assert seen["here"] == ["environment", "job.py", "sluice.zip", "tmp"]
    assert settings["spark.sql.shuffle.partitions"] == "4"
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.test.appId"] == run
    assert settings["spark.hadoop.fs.s3.impl"].endswith("S3AFileSystem")
    unknown = ("spark.emr-serverless", "spark.executor.memory", "spark.dynamicAllocation.max")
    assert not [key for key in settings if key.startswith(unknown)]
    assert "-Xmx4096m" in command, "no more heap than the machine gives"
    assert environment["EMR_SERVERLESS_JOB_RUN_ID"] == run
    assert environment["PYTHONPATH"] == f"./environment{os.pathsep}{stand.packages}"
    assert environment["AWS_ENDPOINT_URL_S3"] == environment["AWS_ENDPOINT_URL_DYNAMODB"] == "http://127.0.0.1:1"


def test_executors_of_their_own_find_the_jobs_packages_and_the_jars(tmp_path: Path) -> None:
    stand = Stand(tmp_path, Machine(cores=1, memory_bytes=2 << 30, executors=2))
    try:
        parameters = (
            "--conf spark.executorEnv.PYTHONPATH=./environment --conf spark.executor.memory=6g "
            "--conf spark.executor.extraJavaOptions=-Duser.timezone=UTC --conf spark.driver.memory=6g "
            "--conf spark.jars=file:///dev/null"
        )
        run = stand.start("import json, os; print(json.dumps(dict(os.environ)))", parameters=parameters)
        assert stand.until(run, "SUCCESS", "FAILED")["state"] == "SUCCESS", stand.output(run, "stderr")
        environment = json.loads(stand.output(run))
    finally:
        stand.standing.stop()
    _, settings = command_of(environment)
    work = stand.folder / "runs" / run / "work"
    assert settings["spark.master"] == "local-cluster[2,1,2048]"
    assert (settings["spark.executor.memory"], settings["spark.executor.instances"]) == ("2048m", "2")
    assert settings["spark.executorEnv.PYTHONPATH"] == f"{work / './environment'}{os.pathsep}{stand.packages}"
    assert settings["spark.executor.extraClassPath"] == "/dev/null"
    assert settings["spark.executor.extraJavaOptions"].startswith("-Duser.timezone=UTC -XX:+UseSerialGC")
    assert environment["SPARK_HOME"] == str(work / "spark")


def test_a_job_reaches_only_the_services_that_a_job_without_a_vpc_reaches(stand: Stand) -> None:
    run = stand.start(
        "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('AWS_ENDPOINT_URL')}))"
    )
    stand.until(run, "SUCCESS")
    endpoints = json.loads(stand.output(run))
    refused = {name for name, value in endpoints.items() if value == "http://127.0.0.1:9"}
    beyond = ("SQS", "EVENTBRIDGE", "EMR_SERVERLESS", "LAMBDA", "CLOUDWATCH")
    assert {f"AWS_ENDPOINT_URL_{name}" for name in beyond} <= refused
    assert "AWS_ENDPOINT_URL" not in endpoints


def test_nothing_of_the_callers_environment_reaches_a_job(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    run = stand.start("import os; print(os.environ.get('AWS_PROFILE'))")
    stand.until(run, "SUCCESS")
    assert stand.output(run) == "None\n"


def test_the_same_token_and_request_is_the_same_run(stand: Stand) -> None:
    first = stand.start("pass")
    stand.until(first, "SUCCESS")
    assert stand.start("pass") == first
    with pytest.raises(ClientError, match="ConflictException"):
        stand.start("pass", executionTimeoutMinutes=7)


def test_forgotten_tokens_start_a_second_run(stand: Stand) -> None:
    _behave(stand, forget_tokens=True)
    assert stand.start("pass") != stand.start("pass")


def test_a_lost_answer_leaves_the_run_running(stand: Stand) -> None:
    _behave(stand, lose_answers=1)
    with pytest.raises(ClientError, match="InternalServer"):
        stand.start("pass")
    run = stand.start("pass")
    runs = stand.client.list_job_runs(applicationId=stand.application)["jobRuns"]
    assert [job_run["id"] for job_run in runs] == [run]


def test_a_full_quota_refuses_the_start(stand: Stand) -> None:
    _behave(stand, no_quota=1)
    with pytest.raises(ClientError, match="ServiceQuotaExceededException"):
        stand.start("pass")
    assert stand.start("pass")


def test_a_run_without_capacity_fails_before_its_driver_starts(stand: Stand) -> None:
    _behave(stand, no_capacity=1)
    failed = stand.until(stand.start("print('began')"), "FAILED")
    assert "maximum vCPU" in failed["stateDetails"] and stand.output(failed["jobRunId"]) == ""
    stand.until(stand.start("print('began')", "run-2"), "SUCCESS")


def test_a_run_that_never_begins_stays_scheduled_until_it_is_cancelled(stand: Stand) -> None:
    _behave(stand, never_begin=1)
    run = stand.start("print('began')")
    stand.until(run, "SCHEDULED")
    stand.until(stand.start("print('began')", "run-2"), "SUCCESS")
    assert stand.run(run)["state"] == "SCHEDULED"
    stand.client.cancel_job_run(applicationId=stand.application, jobRunId=run)
    stand.until(run, "CANCELLED")
    assert stand.output(run) == ""


def test_a_failing_job_shows_its_last_output(stand: Stand) -> None:
    run = stand.start("raise SystemExit('the disk is full')")
    described = stand.until(run, "FAILED")
    assert "the disk is full" in described["stateDetails"]


def test_every_end_reaches_the_rules_that_match_it_in_the_shape_of_aws(
    stand: Stand, shared_sample: dict[str, Any]
) -> None:
    run = stand.start("pass")
    stand.until(run, "SUCCESS")
    (event,) = stand.rules.wait_for(1)
    assert event.keys() == shared_sample.keys()
    assert event["detail"].keys() == shared_sample["detail"].keys()
    assert (event["source"], event["detail-type"]) == (shared_sample["source"], shared_sample["detail-type"])
    expected = (run, "SUCCESS", "RUNNING")
    assert (event["detail"]["jobRunId"], event["detail"]["state"], event["detail"]["previousState"]) == expected


def test_cancelling_asks_the_driver_first(stand: Stand) -> None:
    run = stand.start(WAIT.format(on_term="sys.exit(0)"))
    stand.await_output(run, "waiting\n")
    stand.client.cancel_job_run(applicationId=stand.application, jobRunId=run, shutdownGracePeriodInSeconds=60)
    stand.until(run, "CANCELLED")
    assert stand.output(run).endswith("asked to end\n")
    with pytest.raises(ClientError, match="ValidationException"):
        stand.client.cancel_job_run(applicationId=stand.application, jobRunId=run)


def test_a_driver_that_does_not_end_is_killed_after_the_grace(stand: Stand) -> None:
    run = stand.start(WAIT.format(on_term="pass"))
    stand.await_output(run, "waiting\n")
    stand.standing.service.cancel_job_run(stand.application, run, grace=0.2)  # the client takes no less than 15 s
    stand.until(run, "CANCELLED")
    assert stand.output(run).endswith("asked to end\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(stand.output(run, "pid")), 0)


def test_a_run_beyond_what_runs_at_once_is_queued(stand: Stand) -> None:
    running = [stand.start(WAIT.format(on_term="sys.exit(0)"), f"run-{number}") for number in range(2)]
    for run in running:
        stand.until(run, "RUNNING")
    third = stand.start("pass", "run-3")
    stand.until(third, "QUEUED")
    stand.client.cancel_job_run(applicationId=stand.application, jobRunId=running[0])
    stand.until(third, "SUCCESS")


@pytest.mark.parametrize(
    "parameters", ["--conf spark.jars.packages=a:b:1", "--deploy-mode cluster", "--conf nonsense", "--conf 'open"]
)
def test_parameters_that_can_not_run_here_are_refused_at_once(stand: Stand, parameters: str) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        stand.start("pass", parameters=parameters)


def test_an_application_starts_with_its_first_run_and_is_deleted_only_when_stopped(stand: Stand) -> None:
    assert stand.client.get_application(applicationId=stand.application)["application"]["state"] == "CREATED"
    stand.until(stand.start("pass"), "SUCCESS")
    with pytest.raises(ClientError, match="ConflictException"):
        stand.client.delete_application(applicationId=stand.application)
    stand.client.stop_application(applicationId=stand.application)
    stand.client.delete_application(applicationId=stand.application)
    assert stand.client.list_applications()["applications"] == []


def test_logs_are_put_where_the_request_says(stand: Stand) -> None:
    overrides = {"monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": "s3://artifacts/logs/"}}}
    run = stand.start("print('kept')", configurationOverrides=overrides)
    stand.until(run, "SUCCESS")
    logs = stand.s3.folder / f"artifacts/logs/applications/{stand.application}/jobs/{run}"
    assert (logs / "SPARK_DRIVER/stdout.gz").exists()


def test_stopping_the_stand_in_ends_its_runs(tmp_path: Path) -> None:
    made = Stand(tmp_path)
    run = made.start(WAIT.format(on_term="sys.exit(0)"))
    made.until(run, "RUNNING")
    pid = int(made.output(run, "pid"))
    made.standing.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _behave(stand: Stand, **behaviour: Any) -> None:
    stand.standing.service.behave(behaviour)


@pytest.fixture()
def shared_sample() -> dict[str, Any]:
    """The documented event."""
    path = Path(__file__).parents[2] / "data" / "aws" / "emr-job-run-state-change.documented.json"
    return dict(json.loads(path.read_text()))
