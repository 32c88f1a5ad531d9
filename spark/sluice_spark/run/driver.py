"""The driver process of a run: its command line, its AWS clients and services, and the loop."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TextIO

from sluice.config.lane import TABLES_AT_ONCE
from sluice_aws.clients import DRIVER, Clients
from sluice_aws.clock import WallClock
from sluice_aws.hash_keys import HashKeys
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.s3.objects import Objects, ObjectSource, files_beside
from sluice_aws.s3.schemas import SchemaHistory
from sluice_spark.engine.session import SparkProcess
from sluice_spark.log import RunLog
from sluice_spark.merge.context import MergeServices
from sluice_spark.run.hold import LaneHold, RunIdentity, job_run_id_from, job_run_id_of_application
from sluice_spark.run.loop import LOST, RunEnd, RunLoop
from sluice_spark.run.spark_engine import SparkMerger
from sluice_spark.run.step import Ports
from sluice_spark.run.wake_guard import EXIT_LOST, WakeGuard

EXIT_OK = 0


def drive(given: Arguments, environment: Mapping[str, str], out: TextIO, spark: SparkProcess | None = None) -> int:
    """Run one lane once and return the process's exit status.

    0: released, or refused with nothing done. 3: the lane was lost. Any other error is logged and raised: the job run
    fails, and the next run takes over.
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
    if job_run_id is None:  # on EMR Serverless it is the id of Spark's application
        job_run_id = job_run_id_of_application(spark.session().result().sparkContext.applicationId)
    log.event("run_began", job_run=job_run_id, attempt=given.attempt)
    endpoint_url = environment.get("AWS_ENDPOINT_URL") or None  # an emulator's
    clients = Clients(region=given.region, endpoint_url=endpoint_url, options=DRIVER)
    ledger = Ledger(clients.dynamodb, given.ledger)
    objects = Objects(clients.s3)
    services = MergeServices(
        objects=objects,
        source=ObjectSource(region=given.region, silver_bucket=given.silver, endpoint_url=endpoint_url),
        silver_bucket=given.silver,
        tables_uri=f"s3://{given.silver}",
        clock=clock,
        log=log,
        history=SchemaHistory(objects, given.silver),
        hash_keys=HashKeys(lambda: clients.client("secretsmanager"), objects, given.silver, leaves_marks=True),
    )
    with (
        ThreadPoolExecutor(given.tables_at_once, thread_name_prefix="table") as tables,
        ThreadPoolExecutor(1, thread_name_prefix="background") as background,
    ):
        hold = LaneHold(ledger, RunIdentity(given.lane, given.run, job_run_id, given.attempt), clock)
        guard = WakeGuard(hold.still_held, spark.pid, log)
        ports = Ports(
            ledger=ledger,
            manifests=ManifestStore(objects, given.silver),
            merger=SparkMerger(spark, services, log, guard.start),
            configurations=ConfigStore(objects, given.artifacts),
            clock=clock,
            log=log,
            tables_at_once=tables,
            background=background,
            arrival=objects.arrival,
            files=partial(files_beside, objects),
        )
        try:
            return RunLoop(ports, hold, poll_s=given.poll_seconds, scope=given.scope).run()
        finally:
            guard.end()


# A poll is one strongly consistent read of the lane: 36,000 read units an hour, half a US cent.
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Arguments:
    """The command line of spark/ingest.py. `job_run_id` is None where the driver has to find it out."""

    lane: str
    run: str
    region: str
    ledger: str
    silver: str
    artifacts: str
    bronze: str
    job_run_id: str | None
    attempt: int
    tables_at_once: int
    poll_seconds: float
    scope: str = ""


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line. Exits with status 2 and the usage where it is wrong, as argparse does."""
    parser = argparse.ArgumentParser(prog="ingest.py", allow_abbrev=False, description="One run of one lane.")
    parser.add_argument("--lane", required=True, help="the lane to hold")
    parser.add_argument("--run", required=True, help="this run's id, by which the lane was asked to start it")
    parser.add_argument("--region", required=True)
    parser.add_argument("--ledger", required=True, help="the ledger's DynamoDB table")
    parser.add_argument("--silver", required=True, help="the bucket of tables, manifests and outcomes")
    parser.add_argument("--artifacts", required=True, help="the bucket of the configuration")
    parser.add_argument("--bronze", required=True, help="the bucket that objects arrive in")
    parser.add_argument("--job-run-id", help="the job run's id (default: as EMR Serverless has it)")
    parser.add_argument(
        "--attempt", type=int, default=1, help="the job run's attempt (default 1: runs are never retried)"
    )
    parser.add_argument(
        "--tables-at-once",
        type=int,
        default=TABLES_AT_ONCE,
        help="tables merged at the same time (default %(default)s)",
    )
    parser.add_argument(
        "--poll-seconds",
        type=float,
        default=POLL_SECONDS,
        help="seconds between two reads of an idle lane (default %(default)s)",
    )
    parser.add_argument(
        "--scope", default="", help="the name of the lane's scope that the run's policy was made for (default: any)"
    )
    given = parser.parse_args(list(argv))
    if given.tables_at_once < 1:
        parser.error("--tables-at-once must be at least 1")
    if not 0 < given.poll_seconds <= 60:
        parser.error("--poll-seconds must be above 0 and at most 60")
    return Arguments(**vars(given))
