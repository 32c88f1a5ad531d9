"""The local stack as a whole: what it says, what it deploys, and that nothing of it is left when it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from judging.patience import patient
from judging.running_stack import REPOSITORY, RunningStack, local_stack, processes_naming

from sluice_aws.clock import epoch_ms
from sluice_bench.measure.ledger_times import await_until
from sluice_local.home import Home


def until(ready: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """What `ready` returns once it is true."""
    return await_until(ready, timeout_s=timeout_s, what="what is waited for")


@pytest.fixture()
def own(tmp_path: Path) -> Iterator[RunningStack]:
    """A stack that the test may end."""
    with local_stack(tmp_path / "home") as running:
        yield running


def test_it_says_everything_an_s3_client_needs(stack: RunningStack) -> None:
    said = stack.describe("local", "info")
    assert said["endpoint"].startswith("http://127.0.0.1:") and said["emr_endpoint"].startswith("http://127.0.0.1:")
    assert set(said["buckets"]) == {"bronze", "silver", "artifacts"} and all(said["buckets"].values())
    assert set(said["credentials"]) == {"access_key_id", "secret_access_key"}


def test_the_functions_run_what_was_deployed_and_not_the_working_tree(stack: RunningStack) -> None:
    configuration = stack.target.client("lambda").get_function_configuration(
        FunctionName=stack.target.outputs["SuperviseFunction"]
    )
    variables = configuration["Environment"]["Variables"]
    assert configuration["Runtime"] == f"python3.{sys.version_info.minor}"
    assert variables["RELEASE"] == stack.describe("local", "info")["release"]
    answer = stack.target.client("lambda").invoke(FunctionName=stack.target.outputs["SuperviseFunction"], Payload=b"{}")
    assert "FunctionError" not in answer, answer["Payload"].read()


def test_the_release_is_where_a_job_looks_for_it(stack: RunningStack) -> None:
    version = stack.describe("local", "info")["release"]
    s3, place = stack.target.client("s3"), {"Bucket": stack.target.artifacts, "Prefix": f"releases/{version}/"}
    names = {entry["Key"].rsplit("/", 1)[1] for entry in s3.list_objects_v2(**place)["Contents"]}
    assert {"ingest.py", "sluice.zip", "release.json", "sbom.cdx.json"} <= names
    assert len(names) == 5 and any(name.startswith("environment-") for name in names)


def test_the_rule_of_the_template_receives_the_end_of_a_job_run(stack: RunningStack) -> None:
    """Through the deployed rule and its pattern: the function is called with the event of the run that failed."""
    emr, logs = stack.target.client("emr-serverless"), stack.target.client("logs")
    started = emr.start_job_run(
        applicationId=stack.target.outputs["ApplicationId"],
        clientToken="not-sluice",
        executionRoleArn=stack.target.outputs["JobRoleArn"],
        jobDriver={"sparkSubmit": {"entryPoint": f"s3://{stack.target.artifacts}/nothing.py"}},
    )
    job_run = {"applicationId": started["applicationId"], "jobRunId": started["jobRunId"]}
    until(lambda: emr.get_job_run(**job_run)["jobRun"]["state"] == "FAILED")
    groups = [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]]
    group = next(name for name in groups if "Supervise" in name)

    def messages() -> list[str]:
        return [event["message"] for event in logs.filter_log_events(logGroupName=group)["events"]]

    until(lambda: any(started["jobRunId"] in message for message in messages()))


def test_a_second_stack_in_the_same_folder_is_refused(stack: RunningStack) -> None:
    stack.sluice_process("local", "up", "--detach", accept=(1,))
    assert Home(stack.home).owner() is not None


def test_down_leaves_nothing_running(own: RunningStack) -> None:
    assert processes_naming(own.home)
    own.sluice_process("local", "down", "--yes")
    assert not processes_naming(own.home)
    assert not (own.home / "local.json").exists()
    left = [path for path in own.home.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < 5_000_000, "nothing but logs is kept"
    assert own.home / "emulator" / "emulator.log" in left


@pytest.mark.whole
def test_down_with_keep_and_up_again_have_the_same_buckets_and_ledger(own: RunningStack) -> None:
    def held(stack: RunningStack) -> list[Any]:
        versions = stack.target.client("s3").list_object_versions(Bucket=stack.target.bronze)["Versions"]
        parked = stack.describe("quarantine", "list", "--parked")["entries"]
        return [sorted((item["Key"], item["VersionId"]) for item in versions), parked]

    file = own.home / "no rule takes it.avro"
    file.write_bytes(b"1")
    own.sluice("put", str(file))
    until(lambda: held(own)[1])
    before = held(own)
    lanes = own.target.ledger.lanes
    lanes.wake("main")
    assert lanes.request_start("main", "run-1", epoch_ms()) and lanes.started("main", "run-1", "00fjobrun")
    assert lanes.hold("main", "run-1", "00fjobrun", 1, epoch_ms())
    own.sluice_process("local", "down", "--keep")
    assert not processes_naming(own.home)
    own.sluice_process("local", "up", "--detach")
    again = RunningStack(own.home)  # the description of the new one
    assert held(again) == before
    assert again.target.ledger.lanes.get("main").run_id != "run-1", "a run of the stack that ended"
    again.sluice("put", str(file))
    until(lambda: len(held(again)[0]) == 2)
    own.sluice_process("local", "down", "--yes")
    assert not (own.home / "kept").exists()


@pytest.mark.whole
def test_a_killed_owner_leaves_nothing_running(own: RunningStack) -> None:
    owner = Home(own.home).owner()
    assert owner is not None
    os.kill(owner, signal.SIGKILL)
    # The kernel takes a process's environment before its locks.
    until(lambda: not processes_naming(own.home) and Home(own.home).owner() is None)
    own.sluice_process("local", "up", "--detach")


@pytest.mark.whole
@pytest.mark.parametrize("after", ["at once", "when it is ready"])
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, after: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("functions", "spark", "cli", "local"))
    command = [sys.executable, "-c", "from sluice_cli.main import main; main()", "local", "up"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            command,
            env={**os.environ, "SLUICE_HOME": str(home), "PYTHONPATH": paths},
            stdout=said,
            stderr=said,
            # A background job of a script ignores Ctrl-C, and its children inherit that; a terminal's jobs don't.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        until(lambda: (home / ("local.json" if after == "when it is ready" else "emulator/emulator.log")).exists(), 120)
        process.send_signal(signal.SIGINT)
        process.wait(patient(30))
    until(lambda: not processes_naming(home))


def test_without_its_release_the_stand_in_refuses_what_the_service_refuses(stack: RunningStack) -> None:
    spark = {"entryPoint": "s3://b/k.py", "sparkSubmitParameters": "--conf spark.jars.packages=a:b:1"}
    with pytest.raises(ClientError, match="ValidationException"):
        stack.target.client("emr-serverless").start_job_run(
            applicationId=stack.target.outputs["ApplicationId"],
            clientToken="x",
            executionRoleArn="arn:aws:iam::000000000000:role/x",
            jobDriver={"sparkSubmit": spark},
        )
