"""Spark and Hudi under the job's role, on an emulator that enforces policies.

Each action that the JVM needs is refused to one driver. The role's policy is a user's here, with the run's own
executionIamPolicy as its boundary: a boundary restricts a user as a session policy restricts a role.
Run by `make test-job-permissions`. tests/emulated/run/test_driver_permissions.py covers the driver's Python in seconds.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.config import Config
from emulation.iam_enforcement import Role
from emulation.job_role import BY_THE_JVM, UNSEEN, job_names
from emulation.ledger_table_schema import create_ledger_table

from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.lane.job_policy import scope_of
from sluice.lane.job_request import JobEnvironment, start_job_run
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice_aws.ledger.ledger import Ledger
from sluice_bench.measure.ledger_times import await_until
from sluice_deploy.release import build_release, source_root, upload_release
from sluice_deploy.wheels import this_host
from sluice_local.cache import cache_directory
from sluice_local.emr.spark_command import Cloud, Machine
from sluice_local.emr.spark_runner import RunnerSettings
from sluice_local.emr.stand_in import start_stand_in
from sluice_local.emulators.emulator import ACCESS_KEY, ACCOUNT, REGION, SECRET_KEY
from sluice_local.emulators.ministack import start_ministack
from sluice_local.images.jars import ensure_jars, hudi_bundle
from sluice_local.images.java import find_java
from sluice_local.images.spark import build_image

ROOT = source_root()
BRONZE, SILVER, ARTIFACTS, LEDGER = "p-bronze", "p-silver", "p-artifacts", "p-ledger"
TOPIC = "tickit.ems.category"
OBJECT = next((ROOT / "tests/data/tickit_small/bronze/topics" / TOPIC).rglob("*.avro"))
ENDED_S = 240.0
# Where a timeline can't be read, it is unknown whether its part is committed: the part stays claimed, and the next run
# resolves it (`resolve-before-write`).
WAITS_AS = {
    "s3:GetObject": "claimed",
    "s3:ListBucket": "claimed",
    "s3:PutObject": "pending",
    "s3:DeleteObject": "pending",
}


class Deployment:
    """The parts of a deployment that a job run needs: buckets, ledger, release, configuration. Tests start runs."""

    def __init__(self, endpoint: str, home: Path) -> None:
        self.endpoint, self.home = endpoint, home
        self.s3, self.dynamodb, self.iam = (self.client(name) for name in ("s3", "dynamodb", "iam"))
        for bucket in (BRONZE, SILVER, ARTIFACTS):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
        create_ledger_table(self.dynamodb, LEDGER)
        self.ledger = Ledger(self.dynamodb, LEDGER)
        self.jars = ensure_jars()
        self.image = build_image(home / "image", find_java(os.environ), self.jars)
        self.release = build_release(ROOT, (this_host(),), cache_directory(os.environ), Path(sys.executable))
        upload_release(self.release, self.s3, ARTIFACTS)
        self._runs = 0

    def client(self, service: str, endpoint: str | None = None) -> Any:
        session = boto3.Session(region_name=REGION, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
        return session.client(
            service, endpoint_url=endpoint or self.endpoint, config=Config(s3={"addressing_style": "path"})
        )

    def run(self, refused: list[dict[str, Any]]) -> SimpleNamespace:
        """Put one object of a new table, and run one job with the role's permissions less those `refused`."""
        self._runs += 1
        # What one case leaves is no other's to finish.
        lane, table, run = (f"lane{self._runs}", f"case{self._runs}.category", f"run-{self._runs}")
        configuration = Configuration(
            (TableRule(table, ("catid",), topic=f"{TOPIC}{self._runs}", freshness_s=0, lane=lane),),
            (LaneConfig(lane, linger_s=0),),
        )
        self.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=configuration.to_json().encode())
        key = f"topics/{TOPIC}{self._runs}/partition=0/{TOPIC}{self._runs}+0+0000000000.avro"
        landed = ObjectId(
            BRONZE, key, self.s3.put_object(Bucket=BRONZE, Key=key, Body=OBJECT.read_bytes())["VersionId"]
        )
        now = int(time.time() * 1000)
        self.ledger.objects.admit(
            AdmittedObject(
                landed,
                items.PENDING,
                now,
                size=OBJECT.stat().st_size,
                noticed_at=now,
                table=table,
                lane=lane,
                topic=f"{TOPIC}{self._runs}",
                kafka_partition=0,
                offset=0,
                format="avro",
                via="s3",
            )
        )
        self.ledger.lanes.wake(lane)
        facts = self._driven(lane, run, configuration, refused, now)
        return SimpleNamespace(
            **facts, record=self.ledger.objects.get([landed])[landed], table=self.ledger.tables.get(table)
        )

    def _driven(
        self, lane: str, run: str, configuration: Configuration, refused: list[dict[str, Any]], now: int
    ) -> dict[str, Any]:
        environment = JobEnvironment(
            "a",
            f"arn:aws:iam::{ACCOUNT}:role/job",
            REGION,
            self.release.version,
            LEDGER,
            BRONZE,
            SILVER,
            ARTIFACTS,
            hudi_bundle(self.jars).as_uri(),
            this_host().architecture.upper(),
        )
        request = start_job_run(environment, configuration.lane(lane), run, scope_of(configuration, lane))
        access, secret = self._user(run, request["executionIamPolicy"]["policy"], refused)
        settings = RunnerSettings(
            self.home / run,
            cache_directory(os.environ),
            self.image,
            Cloud(self.endpoint, REGION, access, secret),
            Machine(cores=2, memory_bytes=3 << 30),
        )
        stand_in = start_stand_in(
            settings, s3=self.s3, events=self.client("events"), functions=self.client("lambda"), account=ACCOUNT
        )
        try:
            emr = self.client("emr-serverless", stand_in.endpoint)
            application = emr.create_application(name="p", releaseLabel="emr-7.14.0", type="SPARK", clientToken="p")[
                "applicationId"
            ]
            assert self.ledger.lanes.request_start(lane, run, now) is not None
            job_run = emr.start_job_run(**{**request, "applicationId": application})["jobRunId"]

            def ended_as() -> str | None:
                state = emr.get_job_run(applicationId=application, jobRunId=job_run)["jobRun"]["state"]
                return state if state in ("SUCCESS", "FAILED", "CANCELLED") else None

            ended = await_until(ended_as, timeout_s=ENDED_S, what="the end of the run")
            return {
                "state": ended,
                "log": "".join((self.home / run / job_run / name).read_text() for name in ("stdout", "stderr")),
            }
        finally:
            stand_in.stop()

    def _user(self, name: str, boundary: str, refused: list[dict[str, Any]]) -> tuple[str, str]:
        role = Role(
            "JobRole",
            job_names(
                "a", region=REGION, account=ACCOUNT, ledger=LEDGER, bronze=BRONZE, silver=SILVER, artifacts=ARTIFACTS
            ),
        )
        policy = self.iam.create_policy(PolicyName=name, PolicyDocument=boundary)["Policy"]["Arn"]
        self.iam.create_user(UserName=name, PermissionsBoundary=policy)
        document = {**role.document, "Statement": [*role.document["Statement"], *refused]}
        self.iam.put_user_policy(UserName=name, PolicyName="job", PolicyDocument=json.dumps(document))
        key = self.iam.create_access_key(UserName=name)["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("enforcing")
    emulator = start_ministack(home / "emulator", port=None, environment=os.environ, enforces_policies=True)
    try:
        yield Deployment(emulator.endpoint, home)
    finally:
        emulator.stop()


def denied(action: str, **more: Any) -> dict[str, Any]:
    """The action refused where tables lie; `_sluice/`, where the driver's Python writes, is left out."""
    resource = f"arn:aws:s3:::{SILVER}" if action == "s3:ListBucket" else f"arn:aws:s3:::{SILVER}/case*"
    condition = {"Condition": {"StringLike": {"s3:prefix": "case*"}}} if action == "s3:ListBucket" else {}
    return {"Sid": "TakenAway", "Effect": "Deny", "Action": action, "Resource": resource, **condition}


def test_a_driver_commits_with_only_what_its_role_and_its_policy_must_allow(deployment: Deployment):
    unseen = [{"Sid": "Unseen", "Effect": "Deny", "Action": [action for _, action in UNSEEN], "Resource": "*"}]
    outcome = deployment.run(unseen)
    assert (outcome.state, outcome.record.state) == ("SUCCESS", "committed"), outcome.log[-4000:]


@pytest.mark.parametrize("action", [action for _, action in BY_THE_JVM])
def test_without_an_action_the_table_fails_with_the_reason_and_its_object_waits(deployment: Deployment, action: str):
    outcome = deployment.run([denied(action)])
    assert "AccessDenied" in outcome.table.last_error and outcome.record.state == WAITS_AS[action], outcome.log[-4000:]
    assert outcome.state == "SUCCESS" and outcome.table.failures == 1 and outcome.table.backoff_until, (
        "the run says so, sets the table back, and leaves its lane"
    )


def test_every_action_that_the_jvm_asks_for_is_taken_away():
    assert set(WAITS_AS) == {action for _, action in BY_THE_JVM}
