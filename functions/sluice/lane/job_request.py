"""The StartJobRun request of a run, from the lane's sizes and the deployment's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.config.lane import LaneConfig, memory_mib
from sluice.errors import UnusableRequest
from sluice.lane.job_policy import UNSCOPED, Scope, job_run_policy, trial_policy

# The form of EMR Serverless's clientToken. It is valid as a name and a tag value, too.
RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# EMR splits sparkSubmitParameters as a shell does. A value with any other character could become a second option.
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_./:#=,@%+*-]+")

LONGEST_BATCH_MIN = 60  # a batch that begins just before a run's maximum age is still finished
MARGIN_MIN = 15  # for the start of Spark, the take-over and the release
#: The longest time-out that StartJobRun takes, from emr-7.11.0 on.
#: https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/release-version-7110.html
LONGEST_TIMEOUT_MIN = 7 * 24 * 60
# Executors must outlive a linger; otherwise the first batch after it waits a minute for new ones.
IDLE_AFTER_LINGER_S = 60
# An executor with files of a shuffle is never idle to Spark (ExecutorMonitor.updateTimeout). Those of past batches go
# with the driver's garbage, which is collected at least as often as this; by default, only every 30 minutes.
COLLECT_EVERY_MIN = 5
ENTRY_POINT = "ingest.py"
TRIAL_TIMEOUT_MIN = 20  # the start of Spark and a few small commits, with minutes to spare for a queue
DISK = "20g"  # the smallest size; it is free of charge and holds the shuffle of one batch
# EMR Serverless writes X86_64 where the release's archives say x86_64.
ARCHITECTURES = {"x86_64": "x86_64", "arm64": "arm64"}


@dataclass(frozen=True)
class JobEnvironment:
    """The names of one deployment that a job run's request contains."""

    application_id: str
    job_role_arn: str
    region: str
    release: str
    ledger_table: str
    bronze_bucket: str
    silver_bucket: str
    artifact_bucket: str
    hudi_jars: str
    architecture: str = "X86_64"
    stack: str = ""
    key_arn: str = ""  # the customer's key; without one, EMR encrypts logs and disks with its own
    tags: tuple[tuple[str, str], ...] = ()  # of every job run, beside Sluice's own
    encrypts_traffic: bool = False  # between workers

    @property
    def partition(self) -> str:
        """The partition of the role's ARN: aws, aws-cn or aws-us-gov."""
        return (self.job_role_arn.split(":") + ["", ""])[1] or "aws"

    @property
    def release_url(self) -> str:
        return f"s3://{self.artifact_bucket}/releases/{self.release}"


def start_job_run(
    environment: JobEnvironment, lane: LaneConfig, run_id: str, scope: Scope = UNSCOPED
) -> dict[str, Any]:
    """The body of StartJobRun for one run of one lane.

    Sizes and the time-out are explicit: by default a job asks for all 16 vCPU of an account and runs for 12 hours.
    `maxAttempts` is 1, since the lane does the retries: an attempt that EMR repeats may no longer hold the lane.
    The run may do what its role allows, and uses of the silver bucket only what lies in `scope`.
    Raises UnusableRequest for a value that would need quotes.
    """
    policy = job_run_policy(
        scope.prefixes, lane=lane.name, partition=environment.partition, silver=environment.silver_bucket
    )
    return _request(
        environment,
        lane,
        run_id,
        policy=policy,
        timeout_min=execution_timeout_min(lane),
        tags={"sluice:lane": lane.name, "sluice:run": run_id},
        arguments=_arguments(environment, lane, run_id) + (["--scope", scope.name] if scope.name else []),
    )


def start_trial(environment: JobEnvironment, trial: str) -> dict[str, Any]:
    """The body of StartJobRun for a trial of the engine: like a run's, with one executor and fewer permissions.

    A trial holds no lane and uses neither bronze nor the ledger. Raises UnusableRequest as `start_job_run` does.
    """
    arguments = ["--trial", trial, "--region", environment.region, "--silver", environment.silver_bucket]
    policy = trial_policy(
        trial, partition=environment.partition, silver=environment.silver_bucket, artifacts=environment.artifact_bucket
    )
    return _request(
        environment,
        LaneConfig(max_executors=1),
        trial,
        policy=policy,
        timeout_min=TRIAL_TIMEOUT_MIN,
        tags={"sluice:trial": trial},
        arguments=arguments,
    )


def _request(
    environment: JobEnvironment,
    lane: LaneConfig,
    run_id: str,
    *,
    policy: str,
    timeout_min: int,
    tags: Mapping[str, str],
    arguments: list[str],
) -> dict[str, Any]:
    if not RUN_ID.fullmatch(run_id):
        raise UnusableRequest(f"{run_id!r} can't be a run id", field="run_id", value=run_id[:80])
    if not environment.release:
        raise UnusableRequest("There is no release of the Spark code to start", field="release", value="")
    key = {"encryptionKeyArn": environment.key_arn} if environment.key_arn else {}
    stack = {"sluice:stack": environment.stack} if environment.stack else {}
    return {
        "applicationId": environment.application_id,
        "clientToken": run_id,
        "name": run_id,
        "executionRoleArn": environment.job_role_arn,
        "executionIamPolicy": {"policy": policy},
        "executionTimeoutMinutes": timeout_min,
        "mode": "BATCH",
        "retryPolicy": {"maxAttempts": 1},
        "tags": {**dict(environment.tags), **stack, **tags},
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{environment.release_url}/{ENTRY_POINT}",
                "entryPointArguments": arguments,
                "sparkSubmitParameters": _submit_parameters(_spark_settings(environment, lane)),
            }
        },
        "configurationOverrides": {
            "monitoringConfiguration": {
                "s3MonitoringConfiguration": {"logUri": f"s3://{environment.artifact_bucket}/logs/", **key},
                "managedPersistenceMonitoringConfiguration": {"enabled": True, **key},
                "cloudWatchLoggingConfiguration": {"enabled": False},
            },
            **({"diskEncryptionConfiguration": key} if key else {}),
        },
    }


def run_age_s(lane: LaneConfig) -> int:
    """The lane's `max_age` in seconds, or the greatest one that EMR leaves time for."""
    return min(lane.max_age_s, (LONGEST_TIMEOUT_MIN - LONGEST_BATCH_MIN - MARGIN_MIN) * 60)


def execution_timeout_min(lane: LaneConfig) -> int:
    """Minutes after which EMR ends the run: its maximum age, the longest batch and a margin."""
    return -(-run_age_s(lane) // 60) + LONGEST_BATCH_MIN + MARGIN_MIN


def _arguments(environment: JobEnvironment, lane: LaneConfig, run_id: str) -> list[str]:
    return [
        "--lane", lane.name,
        "--run", run_id,
        "--region", environment.region,
        "--ledger", environment.ledger_table,
        "--silver", environment.silver_bucket,
        "--artifacts", environment.artifact_bucket,
        "--bronze", environment.bronze_bucket,
    ]  # fmt: skip


def _spark_settings(environment: JobEnvironment, lane: LaneConfig) -> tuple[tuple[str, str], ...]:
    architecture = ARCHITECTURES.get(environment.architecture.lower())
    if architecture is None:
        raise UnusableRequest(
            f"No release has an environment for {environment.architecture!r}",
            field="architecture",
            value=environment.architecture,
        )
    driver_heap, driver_overhead = memory_mib(lane.driver_memory_gb)
    executor_heap, executor_overhead = memory_mib(lane.executor_memory_gb)
    return (
        ("spark.jars", environment.hudi_jars),
        ("spark.submit.pyFiles", f"{environment.release_url}/sluice.zip"),
        ("spark.archives", f"{environment.release_url}/environment-{architecture}.tar.gz#environment"),
        ("spark.emr-serverless.driverEnv.PYTHONPATH", "./environment"),
        ("spark.executorEnv.PYTHONPATH", "./environment"),
        # Log4j registers its parts for a management console that nobody opens: a tenth of the time until Python starts.
        ("spark.emr-serverless.driverEnv.LOG4J_DISABLE_JMX", "true"),
        ("spark.executorEnv.LOG4J_DISABLE_JMX", "true"),
        ("spark.serializer", "org.apache.spark.serializer.KryoSerializer"),
        # Timestamps and dates must not depend on a worker's time zone.
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.driver.extraJavaOptions", "-Duser.timezone=UTC"),
        ("spark.executor.extraJavaOptions", "-Duser.timezone=UTC"),
        ("spark.driver.cores", str(lane.driver_cores)),
        ("spark.driver.memory", f"{driver_heap}m"),
        ("spark.driver.memoryOverhead", f"{driver_overhead}m"),
        ("spark.emr-serverless.driver.disk", DISK),
        ("spark.executor.cores", str(lane.executor_cores)),
        ("spark.executor.memory", f"{executor_heap}m"),
        ("spark.executor.memoryOverhead", f"{executor_overhead}m"),
        ("spark.emr-serverless.executor.disk", DISK),
        *([("spark.ssl.internode.enabled", "true")] if environment.encrypts_traffic else []),
        ("spark.dynamicAllocation.enabled", "true"),
        # Spark begins with the greatest of this and the next two. By EMR Serverless's default this is 3: more than is
        # kept, and more than some lanes may have, whose jobs may be refused.
        ("spark.executor.instances", str(lane.min_executors)),
        ("spark.dynamicAllocation.initialExecutors", str(lane.min_executors)),
        ("spark.dynamicAllocation.minExecutors", str(lane.min_executors)),
        ("spark.dynamicAllocation.maxExecutors", str(lane.max_executors)),
        ("spark.dynamicAllocation.executorIdleTimeout", f"{lane.linger_s + IDLE_AFTER_LINGER_S}s"),
        ("spark.cleaner.periodicGC.interval", f"{COLLECT_EVERY_MIN}min"),
    )


def _submit_parameters(settings: tuple[tuple[str, str], ...]) -> str:
    wrong = [(name, value) for name, value in settings if not PLAIN_VALUE.fullmatch(value)]
    if wrong:
        name, value = wrong[0]
        raise UnusableRequest(f"{value[:120]!r} can't be the value of {name}", field=name, value=value[:120])
    return " ".join(f"--conf {name}={value}" for name, value in settings)
