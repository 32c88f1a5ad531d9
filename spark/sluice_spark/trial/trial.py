"""Trial of the engine as a process: its command line, its steps, and its report in S3.

Everything that a trial writes, but for the report, is in a folder of its own, which it removes at the end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from pyspark.sql import SparkSession

from sluice.config.table import COW, MOR
from sluice.errors import SluiceError
from sluice.lane.trial import (
    FAILED,
    PASSED,
    RUNNING,
    TRIAL_ID,
    TrialError,
    TrialReport,
    scratch_prefix,
    trial_report_key,
)
from sluice_aws.clients import DRIVER, Clients
from sluice_aws.clock import WallClock
from sluice_aws.s3.objects import Document, Objects, ObjectSource
from sluice_aws.s3.schemas import SchemaHistory
from sluice_spark.engine.session import create_session
from sluice_spark.engine.versions import engine_versions
from sluice_spark.errors import UnknownJobRun
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.log import RunLog, describe
from sluice_spark.merge.context import MergeServices
from sluice_spark.run.hold import job_run_id_from, job_run_id_of_application
from sluice_spark.trial.tables import TableTrials

EXIT_PASSED, EXIT_FAILED = 0, 1


@dataclass(frozen=True)
class TrialArguments:
    """The command line of spark/ingest.py for a trial."""

    trial: str
    region: str
    silver: str


def parse(argv: Sequence[str]) -> TrialArguments:
    """Read the command line. Exits with status 2 and the usage when it is wrong, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="ingest.py",
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
    """Try the engine, report to S3, and remove the trial's tables; returns the process's exit status.

    A failure of any step is in the report, by its code. Raises only what keeps the report from being written.
    """
    endpoint = environment.get("AWS_ENDPOINT_URL", "")
    s3 = Clients(region=given.region, endpoint_url=endpoint or None, options=DRIVER).s3
    source = ObjectSource(region=given.region, silver_bucket=given.silver, endpoint_url=endpoint or None)
    clock = WallClock()
    log = RunLog(out, clock.now_ms, trial=given.trial)
    report = ReportWriter(Objects(s3), given, clock, log)
    report.update(doing="Spark starts", job_run_id=job_run_id_from(None, environment))
    spark: SparkSession | None = None
    try:
        spark = create_session()
        trial = Trial(spark, s3, given, source, report)
        trial.run()
        trial.remove()
    except Exception as error:  # Spark didn't start: those who wait for the trial read it in the report
        report.failed(error)
    finally:
        if spark is not None:
            spark.stop()
    content = report.content
    passed = content.error is None and not any(table.differences for table in content.tables)
    report.update(state=PASSED if passed else FAILED, doing=content.doing if content.error is not None else "")
    return EXIT_PASSED if passed else EXIT_FAILED


class ReportWriter:
    """Writes the trial's report, again with every step. `content` is the report as it was last written."""

    def __init__(self, objects: Objects, given: TrialArguments, clock: WallClock, log: RunLog) -> None:
        self.objects = objects
        self.clock = clock
        self.log = log
        self._given = given
        now = clock.now_ms()
        self.content = TrialReport(given.trial, RUNNING, now, now)

    def update(self, **changes: Any) -> None:
        """Change fields of the report and write it."""
        self.content = replace(self.content, described_at=self.clock.now_ms(), **changes)
        self.log.event("trial", state=self.content.state, doing=self.content.doing)
        self.objects.put(
            self._given.silver,
            trial_report_key(self._given.trial),
            self.content.to_json().encode("ascii"),
            content_type="application/json",
        )

    def failed(self, error: Exception) -> None:
        """Report the error that ended the trial, and the step that raised it."""
        self.log.failure("trial_failed", error, doing=self.content.doing)
        code = error.code if isinstance(error, SluiceError) else type(error).__name__
        self.update(error=TrialError(code, describe(error)))


class Trial:
    """The steps of one trial, in a session."""

    def __init__(
        self, spark: SparkSession, s3: Any, given: TrialArguments, source: ObjectSource, report: ReportWriter
    ) -> None:
        self._spark = spark
        self._given = given
        self._report = report
        self._prefix = scratch_prefix(given.trial)
        self._folder = f"s3://{given.silver}/{self._prefix}".rstrip("/")
        scratch = ScratchObjects(s3, self._prefix)
        self._services = MergeServices(
            objects=scratch,
            source=source,
            silver_bucket=given.silver,
            tables_uri=f"{self._folder}/tables",
            clock=report.clock,
            log=report.log,
            history=SchemaHistory(scratch, given.silver),
        )

    def run(self) -> None:
        """Report the versions, then each table type as soon as its trial ends, and any failure."""
        try:
            self._steps()
        except Exception as error:  # any error of Spark, Hudi and S3: a trial is for finding them
            self._report.failed(error)

    def _steps(self) -> None:
        report = self._report
        if report.content.job_run_id is None:
            self._report_job_run()
        report.update(doing="versions", versions=versions(self._spark))
        trials = TableTrials(
            self._spark, self._services, prefix=self._prefix, report=lambda step: report.update(doing=step)
        )
        for table_type in (COW, MOR):
            report.update(tables=(*report.content.tables, trials.try_type(table_type)))

    def _report_job_run(self) -> None:
        """Report the job run's id as a run of a lane finds it; the one who started the job checks it."""
        try:
            self._report.update(job_run_id=job_run_id_of_application(self._spark.sparkContext.applicationId))
        except UnknownJobRun as unknown:
            self._report.log.failure("job_run_unknown", unknown)

    def remove(self) -> None:
        """Remove everything that the trial made but its report. A failure to remove is reported and fails no trial."""
        if self._report.content.error is None:
            self._report.update(doing="removal")
        try:
            HudiJvm(self._spark).delete_folder(self._folder)
        except Exception as error:  # any error of Hadoop's file system
            self._report.log.failure("scratch_not_removed", error, folder=self._folder)
            self._report.update(left=f"{self._folder}: {describe(error)[:300]}")


def versions(spark: SparkSession) -> dict[str, str]:
    """Versions of what the driver and a worker run on, by name. Raises NoBundle."""
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(_worker, "versions string").collect()
    worker = json.loads(row["versions"])
    return {
        **engine_versions(spark),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in ("pyspark", "boto3", "fastavro")},
        **{f"worker {name}": version for name, version in worker.items()},
    }


def _worker(batches: Iterable[Any]) -> Iterator[Any]:
    arrow = importlib.import_module("pyarrow")
    for _ in batches:
        releases = {"python": platform.python_version(), **{name: _version(name) for name in ("pyarrow", "fastavro")}}
        yield arrow.RecordBatch.from_pydict({"versions": [json.dumps(releases)]})


def _version(package: str) -> str:
    return str(importlib.import_module(package).__version__)


class ScratchObjects(Objects):
    """Puts and reads documents under a prefix that callers don't see. Objects read by version are not moved.

    The files of a table are under the prefix by themselves.
    """

    def __init__(self, s3: Any, prefix: str) -> None:
        """`prefix` ends with a slash."""
        super().__init__(s3)
        self._prefix = prefix

    def get(self, bucket: str, key: str, *, unless: str | None = None, limit: int | None = None) -> Document | None:
        """As Objects.get."""
        return super().get(bucket, self._moved(key), unless=unless, limit=limit)

    def put(self, bucket: str, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """As Objects.put."""
        super().put(bucket, self._moved(key), data, content_type=content_type)

    def keys(self, bucket: str, prefix: str) -> Iterator[str]:
        """As Objects.keys, without the prefix."""
        return (key[len(self._prefix) :] for key in super().keys(bucket, self._prefix + prefix))

    def _moved(self, key: str) -> str:
        return key if key.startswith(self._prefix) else self._prefix + key
