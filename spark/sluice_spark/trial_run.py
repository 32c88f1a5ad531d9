"""A trial of the engine as a process: what it is told, the steps it takes, and the report that it keeps up to date in S3."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional, Sequence, TextIO

from pyspark.sql import SparkSession

from sluice.errors import SluiceError
from sluice.table_config import COW, MOR
from sluice.trial import FAILED, PASSED, RUNNING, TRIAL_ID, TrialError, TrialReport, scratch_prefix, trial_report_key
from sluice_aws.clients import Clients
from sluice_aws.objects import Objects
from sluice_aws.schema_history_store import SchemaHistory
from sluice_aws.settings import Settings
from sluice_aws.task_objects import ObjectSource
from sluice_spark.engine_check import EngineCheck
from sluice_spark.engine_reflection import EngineReflection
from sluice_spark.hudi_jvm import HudiJvm
from sluice_spark.merge_services import MergeServices
from sluice_spark.run_identity import UnknownJobRun, job_run_id_from, job_run_id_of_application
from sluice_spark.run_log import RunLog, describe
from sluice_spark.scratch_objects import ScratchObjects
from sluice_spark.session import create_session
from sluice_spark.table_trial import TableTrials
from sluice_spark.wall_clock import WallClock

EXIT_PASSED, EXIT_FAILED = 0, 1
READ_TIMEOUT_S = 20


@dataclass(frozen=True)
class TrialArguments:
    """The command line of spark/trial.py."""

    trial: str
    region: str
    silver: str


def parse(argv: Sequence[str]) -> TrialArguments:
    """Read the command line. Exits with status 2 and the usage when it is wrong, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="trial.py",
        allow_abbrev=False,
        description="One trial of the engine: small tables written, changed, served, read and removed.",
    )
    parser.add_argument("--trial", required=True, help="the trial's id, which names its folder and its report")
    parser.add_argument("--region", required=True)
    parser.add_argument("--silver", required=True, help="the bucket of tables; the trial stays under _sluice/ in it")
    given = parser.parse_args(list(argv))
    if not TRIAL_ID.fullmatch(given.trial):
        parser.error("--trial must be trial-<yyyymmddThhmmssZ>-<8 hexadecimal digits>")
    return TrialArguments(**vars(given))


def try_engine(given: TrialArguments, environment: Mapping[str, str], out: TextIO) -> int:
    """Try the engine, report to S3, and remove what was made; the process's exit status.

    A failure of any step is in the report, by its code; only what keeps the report from being written is raised.
    """
    endpoint = environment.get("AWS_ENDPOINT_URL", "")
    s3 = Clients(Settings(region=given.region, endpoint_url=endpoint), read_timeout_s=READ_TIMEOUT_S).s3
    source = ObjectSource(region=given.region, silver_bucket=given.silver, endpoint_url=endpoint or None)
    clock = WallClock()
    log = RunLog(out, clock.now_ms, trial=given.trial)
    telling = Telling(Objects(s3), given, clock, log)
    telling.tell(doing="Spark starts", job_run_id=job_run_id_from(None, environment))
    spark: Optional[SparkSession] = None
    try:
        spark = create_session()
        trial = Trial(spark, s3, given, source, telling)
        trial.run()
        trial.remove()
    except Exception as error:  # what kept Spark from starting: the report is how whoever waits hears of it
        telling.failed(error)
    finally:
        if spark is not None:
            spark.stop()
    report = telling.report
    passed = report.error is None and not any(table.differences for table in report.tables)
    telling.tell(state=PASSED if passed else FAILED, doing=report.doing if report.error is not None else "")
    return EXIT_PASSED if passed else EXIT_FAILED


class Telling:
    """The trial's report, written anew with everything that happens."""

    def __init__(self, objects: Objects, given: TrialArguments, clock: WallClock, log: RunLog) -> None:
        self.objects = objects
        self.clock = clock
        self.log = log
        self._given = given
        now = clock.now_ms()
        self.report = TrialReport(given.trial, RUNNING, now, now)

    def tell(self, **changes: Any) -> None:
        """Change fields of the report, and put it."""
        self.report = replace(self.report, told_at=self.clock.now_ms(), **changes)
        self.log.event("trial", state=self.report.state, doing=self.report.doing)
        self.objects.put(
            self._given.silver,
            trial_report_key(self._given.trial),
            self.report.to_json().encode("ascii"),
            content_type="application/json",
        )

    def failed(self, error: Exception) -> None:
        """Tell what ended the trial, beside what it was doing then."""
        self.log.failure("trial_failed", error, doing=self.report.doing)
        code = error.code if isinstance(error, SluiceError) else type(error).__name__
        self.tell(error=TrialError(code, describe(error)))


class Trial:
    """The steps of one trial, in a session."""

    def __init__(
        self, spark: SparkSession, s3: Any, given: TrialArguments, source: ObjectSource, telling: Telling
    ) -> None:
        self._spark = spark
        self._given = given
        self._telling = telling
        self._prefix = scratch_prefix(given.trial)
        self._folder = f"s3://{given.silver}/{self._prefix}".rstrip("/")
        scratch = ScratchObjects(s3, self._prefix)
        self._services = MergeServices(
            objects=scratch,
            source=source,
            silver_bucket=given.silver,
            tables_uri=f"{self._folder}/tables",
            clock=telling.clock,
            log=telling.log,
            history=SchemaHistory(scratch, given.silver),
        )

    def run(self) -> None:
        """Versions, links, and both table types; each is told as soon as it is known, and so is what fails."""
        try:
            self._steps()
        except (
            Exception
        ) as error:  # whatever Spark, Hudi and S3 make of an engine: finding that out is what this is for
            self._telling.failed(error)

    def _steps(self) -> None:
        tell = self._telling.tell
        if self._telling.report.job_run_id is None:
            self._find_itself()
        tell(doing="versions", versions=versions(self._spark))
        tell(doing="links of the Hudi bundle")
        began = time.monotonic()
        links = EngineCheck(self._telling.objects, self._given.silver, self._telling.clock, self._telling.log).afresh(
            self._spark
        )
        seconds = round(time.monotonic() - began, 3)
        hudi = {"hudi": links.hudi or "unknown"} if links is not None else {}
        tell(links=links, links_seconds=seconds, versions={**self._telling.report.versions, **hudi})
        trials = TableTrials(self._spark, self._services, prefix=self._prefix, tell=lambda doing: tell(doing=doing))
        for table_type in (COW, MOR):
            tell(tables=(*self._telling.report.tables, trials.try_type(table_type)))

    def _find_itself(self) -> None:
        """As a run of a lane does when its environment doesn't say it. Whoever started the job says whether it is right."""
        try:
            self._telling.tell(job_run_id=job_run_id_of_application(self._spark.sparkContext.applicationId))
        except UnknownJobRun as unknown:
            self._telling.log.failure("job_run_unknown", unknown)

    def remove(self) -> None:
        """Remove all that the trial made but its report. What can't be removed is told, and is no failure of the engine's."""
        if self._telling.report.error is None:
            self._telling.tell(doing="removal")
        try:
            HudiJvm(self._spark).delete_folder(self._folder)
        except Exception as error:  # whatever Hadoop's file system makes of it
            self._telling.log.failure("scratch_not_removed", error, folder=self._folder)
            self._telling.tell(left=f"{self._folder}: {describe(error)[:300]}")


def versions(spark: SparkSession) -> Dict[str, str]:
    """What the driver and a worker run on, by name."""
    engine = EngineReflection(spark).engine()
    worker = json.loads(spark.range(0, 1, 1, 1).mapInArrow(_worker, "told string").first()["told"])
    return {
        "spark": engine.spark,
        "hadoop": engine.hadoop,
        "scala": engine.scala,
        "java": engine.java,
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in ("pyspark", "boto3", "fastavro")},
        **{f"worker {name}": version for name, version in worker.items()},
    }


def _worker(batches: Iterable[Any]) -> Iterator[Any]:
    arrow = importlib.import_module("pyarrow")
    for _ in batches:
        told = {"python": platform.python_version(), **{name: _version(name) for name in ("pyarrow", "fastavro")}}
        yield arrow.RecordBatch.from_pydict({"told": [json.dumps(told)]})


def _version(package: str) -> str:
    return str(importlib.import_module(package).__version__)
