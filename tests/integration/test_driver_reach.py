"""A driver's reach: a run commits while only S3, DynamoDB, STS, KMS and logs answer, and all else is refused."""

import json
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judging.patience import patient
from judging.running_stack import RunningStack

from sluice_bench.data.tickit import Dataset, change_object
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure import ledger_times
from sluice_bench.measure.stack import table_rule

LANE, TABLE = "main", "venue"
ANSWERED, REFUSED = "answered", "refused"
IN_REACH = {
    "s3": "list_buckets",
    "dynamodb": "list_tables",
    "sts": "get_caller_identity",
    "kms": "list_keys",
    "logs": "describe_log_groups",
    "secretsmanager": "list_secrets",
}
# The services that a pipeline like this one would call: all of them answer on the emulator to everybody else.
OUT_OF_REACH = {
    "sqs": "list_queues",
    "sns": "list_topics",
    "events": "list_rules",
    "lambda": "list_functions",
    "cloudwatch": "list_metrics",
    "glue": "get_databases",
    "stepfunctions": "list_state_machines",
    "ssm": "describe_parameters",
    "iam": "list_users",
    "ec2": "describe_vpcs",
    "ecs": "list_clusters",
    "route53": "list_hosted_zones",
}
CALLS = """
import json, sys
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, ProxyConnectionError

found = {}
for service, operation in json.loads(sys.argv[1]).items():
    once = Config(connect_timeout=5, read_timeout=float(sys.argv[2]), retries={"total_max_attempts": 1})
    client = boto3.client(service, config=once)
    try:
        getattr(client, operation)()
        found[service] = "answered"
    except ClientError:  # a refusal is an answer, too: the service was reached
        found[service] = "answered"
    except (EndpointConnectionError, ProxyConnectionError):
        found[service] = "refused"
print(json.dumps(found))
"""


@dataclass(frozen=True)
class LivingDriver:
    """A driver that has committed and lingers: its run, and the process that the stand-in started for it."""

    run: str
    environment: Mapping[str, str]
    command: tuple[str, ...]


@pytest.fixture(scope="module")
def driver(stack: RunningStack) -> LivingDriver:
    """The driver that commits one change put for this: a lingering one when there is one."""
    target = stack.target
    dynamodb = target.client("dynamodb")
    database = f"reach{secrets.token_hex(3)}"
    dataset = Dataset(Sizes.scaled(0.01), prefix=f"{database}.")
    stack.configure([table_rule(dataset.prefix, database, TABLE)])
    key, body = change_object(dataset, TABLE, 1, change=1, op="c", ts_ms=1_795_300_000_000)
    version = stack.put(key, body)
    stack.wait(180)
    item = ledger_times.object_item(dynamodb, target.ledger_table, target.bronze, key, version)
    lane = ledger_times.lane_item(dynamodb, target.ledger_table, LANE)
    assert item is not None and item["state"] == "committed"
    place = {"pk": f"batch#{item['batch']}", "sk": f"table#{database}.{TABLE}"}
    batch_items = ledger_times.batch_items(dynamodb, target.ledger_table)
    (part,) = [batch_item for batch_item in batch_items if batch_item.items() >= place.items()]
    assert (lane["state"], lane["run_id"]) == ("running", part["run"]) and part["instant"], "a run commits, and lingers"
    process = Path("/proc") / (stack.home / "runs" / lane["job_run_id"] / "pid").read_text()
    environment = dict(entry.split("=", 1) for entry in strings(process / "environ"))
    return LivingDriver(lane["run_id"], environment, tuple(strings(process / "cmdline")))


def strings(file: Path) -> list[str]:
    """The NUL-terminated strings of a file under /proc."""
    return [entry for entry in file.read_bytes().decode().split("\0") if entry]


def calls(environment: Mapping[str, str], operations: Mapping[str, str]) -> dict[str, Any]:
    """Call each service once from a process with this environment; return the result of each call.

    The process uses a complete SDK, which knows more services than the release's own.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", CALLS, json.dumps(dict(operations)), str(patient(60))],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=patient(120),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.whole
def test_the_driver_talks_to_s3_dynamodb_sts_kms_logs_and_secrets_only(driver: LivingDriver, stack: RunningStack):
    """It has committed in an environment from which these answer and every other service is refused."""
    assert calls(driver.environment, IN_REACH) == dict.fromkeys(IN_REACH, ANSWERED)
    assert calls(driver.environment, OUT_OF_REACH) == dict.fromkeys(OUT_OF_REACH, REFUSED)


def test_what_is_refused_to_a_driver_is_answered_elsewhere(stack: RunningStack):
    """The refusals are the environment's doing: with the same endpoint for everything the same calls are answered."""
    s3 = stack.s3
    open_environment = {
        "AWS_ENDPOINT_URL": s3["endpoint"],
        "AWS_DEFAULT_REGION": s3["region"],
        "AWS_ACCESS_KEY_ID": s3["access_key"],
        "AWS_SECRET_ACCESS_KEY": s3["secret_key"],
    }
    every = {**IN_REACH, **OUT_OF_REACH}
    assert calls(open_environment, every) == dict.fromkeys(every, ANSWERED)


@pytest.mark.whole
def test_the_jvm_of_a_driver_reaches_no_host_by_https(driver: LivingDriver):
    """The environment's endpoints apply to the Python SDK only.

    The JVM uses the same closed port as its proxy, and has one endpoint, for its files.
    """
    nowhere = driver.environment["HTTPS_PROXY"].removeprefix("http://").split(":")
    assert {f"-Dhttps.proxyHost={nowhere[0]}", f"-Dhttps.proxyPort={nowhere[1]}"} <= set(driver.command)
