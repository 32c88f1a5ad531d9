"""One driver process: learns who it is, holds its lane, makes Spark beside that, and runs the loop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Mapping, Optional, TextIO

from sluice_aws.clients import Clients
from sluice_aws.config_store import ConfigStore
from sluice_aws.ledger import Ledger
from sluice_aws.objects import Objects
from sluice_aws.schema_history_store import SchemaHistory
from sluice_aws.settings import Settings
from sluice_spark.arguments import Arguments
from sluice_spark.assembly import Ports, run_loop
from sluice_spark.engine_check import EngineCheck
from sluice_spark.lane_hold import LaneHold
from sluice_spark.manifest_store import ManifestStore
from sluice_spark.merge_services import MergeServices
from sluice_aws.task_objects import ObjectSource
from sluice_spark.run_identity import RunIdentity, job_run_id_from, job_run_id_of_application
from sluice_spark.run_log import RunLog
from sluice_spark.run_loop import LOST, RunEnd
from sluice_spark.session import SparkProcess
from sluice_spark.spark_merger import SparkMerger
from sluice_spark.wall_clock import WallClock

EXIT_OK, EXIT_LOST = 0, 3
READ_TIMEOUT_S = 20  # a driver has time, and its manifests are larger than anything a function reads


def drive(given: Arguments, environment: Mapping[str, str], out: TextIO, spark: Optional[SparkProcess] = None) -> int:
    """Run one lane once; returns the process's exit status.

    0: released, or refused and nothing done. 3: the lane was lost. An error of the run itself is raised, after
    it was logged: the job run fails, and the next run takes over.
    """
    clock = WallClock()
    log = RunLog(out, clock.now_ms, run=given.run, lane=given.lane)
    spark = spark or SparkProcess()
    try:
        end = _run(given, environment, spark, clock, log)
    except Exception as error:
        log.failure("run_died", error)
        raise
    finally:
        spark.stop()
    return EXIT_LOST if end.how == LOST else EXIT_OK


def _run(
    given: Arguments, environment: Mapping[str, str], spark: SparkProcess, clock: WallClock, log: RunLog
) -> RunEnd:
    job_run_id = job_run_id_from(given.job_run_id, environment)
    if job_run_id is None:  # only Spark knows it: its application is named by it on EMR Serverless
        job_run_id = job_run_id_of_application(spark.session().result().sparkContext.applicationId)
    log.event("run_began", job_run=job_run_id, attempt=given.attempt)
    clients = Clients(settings_of(given, environment), read_timeout_s=READ_TIMEOUT_S)
    ledger = Ledger(clients.dynamodb, given.ledger)
    objects = Objects(clients.s3)
    services = MergeServices(
        objects=objects,
        source=ObjectSource(
            region=given.region, silver_bucket=given.silver, endpoint_url=environment.get("AWS_ENDPOINT_URL") or None
        ),
        silver_bucket=given.silver,
        tables_uri=f"s3://{given.silver}",
        clock=clock,
        log=log,
        history=SchemaHistory(objects, given.silver),
    )
    with (
        ThreadPoolExecutor(given.tables_at_once, thread_name_prefix="table") as tables,
        ThreadPoolExecutor(1, thread_name_prefix="background") as background,
    ):
        ports = Ports(
            ledger=ledger,
            manifests=ManifestStore(objects, given.silver),
            merger=SparkMerger(spark, services, log, EngineCheck(objects, given.silver, clock, log)),
            configurations=ConfigStore(objects, given.artifacts),
            clock=clock,
            log=log,
            tables_at_once=tables,
            background=background,
        )
        hold = LaneHold(ledger, RunIdentity(given.lane, given.run, job_run_id, given.attempt), clock)
        return run_loop(ports, hold, poll_s=given.poll_seconds, scope=given.scope).run()


def settings_of(given: Arguments, environment: Mapping[str, str]) -> Settings:
    """The deployment's names from the command line; an emulator's address from the environment."""
    return Settings(
        region=given.region,
        ledger_table=given.ledger,
        silver_bucket=given.silver,
        bronze_bucket=given.bronze,
        artifact_bucket=given.artifacts,
        endpoint_url=environment.get("AWS_ENDPOINT_URL", ""),
    )
