"""A trial of the engine as a process: what it is told, the steps it takes, and the report that it keeps up to date in S3.

The trial of one table type: a small table written, changed, compacted and read, as a run of a lane would.

S3 under a prefix: what merging writes beside its tables goes into a trial's own folder.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Callable, TextIO, TypeVar

import fastavro
from pyspark.sql import SparkSession

from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import Outcome
from sluice.changes.hidden_columns import DELETED
from sluice.config.table import COW, MOR, TableConfig
from sluice.errors import SluiceError
from sluice.hudi import options as hudi_options
from sluice.lane.trial import (
    FAILED,
    PASSED,
    RUNNING,
    TRIAL_ID,
    Step,
    TableTrial,
    TrialError,
    TrialReport,
    scratch_prefix,
    trial_report_key,
)
from sluice.objects import identify
from sluice.schema.avro import fingerprint
from sluice.services.requests import ARCHIVAL, CLEANING, COMPACTION
from sluice.silver_keys import schema_key
from sluice_aws.clients import DRIVER, Clients
from sluice_aws.clock import WallClock
from sluice_aws.s3.objects import Document, Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_aws.s3.task_objects import ObjectSource
from sluice_spark.engine.session import create_session
from sluice_spark.engine.versions import engine_versions
from sluice_spark.errors import UnknownJobRun
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.log import RunLog, describe
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.part import merge_part
from sluice_spark.run.hold import job_run_id_from, job_run_id_of_application
from sluice_spark.services.slice import Pace, serve_table

EXIT_PASSED, EXIT_FAILED = 0, 1


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
    s3 = Clients(region=given.region, endpoint_url=endpoint or None, options=DRIVER).s3
    source = ObjectSource(region=given.region, silver_bucket=given.silver, endpoint_url=endpoint or None)
    clock = WallClock()
    log = RunLog(out, clock.now_ms, trial=given.trial)
    telling = Telling(Objects(s3), given, clock, log)
    telling.tell(doing="Spark starts", job_run_id=job_run_id_from(None, environment))
    spark: SparkSession | None = None
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
        self.report = replace(self.report, described_at=self.clock.now_ms(), **changes)
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
        """Report the versions, then each table type as soon as its trial ends, and any failure."""
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


def versions(spark: SparkSession) -> dict[str, str]:
    """Versions of what the driver and a worker run on, by name. Raises NoBundle."""
    worker = json.loads(spark.range(0, 1, 1, 1).mapInArrow(_worker, "told string").first()["told"])
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
        summary = {"python": platform.python_version(), **{name: _version(name) for name in ("pyarrow", "fastavro")}}
        yield arrow.RecordBatch.from_pydict({"told": [json.dumps(summary)]})


def _version(package: str) -> str:
    return str(importlib.import_module(package).__version__)


DATABASE, TOPIC = "trial", "sluice.trial.rows"
SLICE_S = 20
Done = TypeVar("Done")

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("id", "long"),
    ("name", ["null", "string"]),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("noted", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}),
    ("__deleted", ["null", "string"]),
    ("__op", ["null", "string"]),
    ("__lsn", ["null", "long"]),
    ("__source_ts_ms", ["null", "long"]),
)
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "namespace": TOPIC,
    "fields": [
        {"name": name, "type": kind, **({"default": None} if isinstance(kind, list) else {})} for name, kind in _COLUMNS
    ],
}
_EPOCH_US = 1_767_225_600_000_000  # 2026-01-01


def change(op: str, lsn: int, row: int, name: str) -> dict[str, Any]:
    """One change as Debezium's ExtractNewRecordState leaves it."""
    return {
        "id": row,
        "name": name,
        "amount": Decimal(row) + Decimal("0.25"),
        "noted": _EPOCH_US + lsn,
        "__deleted": "true" if op == "d" else "false",
        "__op": op,
        "__lsn": lsn,
        "__source_ts_ms": _EPOCH_US // 1000,
    }


FIRST = [change("c", 10 + row, row, name) for row, name in enumerate(("one", "two", "three", "four"), 1)]
# An update, a delete, and a change that is older than what the table holds. No new row: Hudi would write the small base file anew, and leave nothing to compact.
SECOND = [change("u", 22, 1, "one again"), change("d", 23, 2, "two"), change("u", 5, 3, "late")]
# As text, which Spark makes in the session's time zone: Python would make instants of its own.
EXPECTED = [
    ("1", "one again", "1.25", "2026-01-01 00:00:00.000022"),
    ("3", "three", "3.25", "2026-01-01 00:00:00.000013"),
    ("4", "four", "4.25", "2026-01-01 00:00:00.000014"),
]


class TableTrials:
    """Tries table types, one after the other. `services` write under the trial's own prefix; `tell` is told what comes next."""

    def __init__(
        self, spark: SparkSession, services: MergeServices, *, prefix: str, tell: Callable[[str], None]
    ) -> None:
        """`prefix` of the silver bucket, with a slash at its end, is where the objects that are merged are put."""
        self._spark = spark
        self._services = services
        self._prefix = prefix
        self._tell = tell

    def try_type(self, table_type: str) -> TableTrial:
        """All of one type. What Spark and Hudi raise is raised."""
        config = TableConfig(f"{DATABASE}.{table_type}", DATABASE, table_type, TOPIC, ("id",), table_type=table_type)
        steps: list[Step] = []

        def timed(name: str, work: Callable[[], Done]) -> Done:
            self._tell(f"{table_type}: {name}")
            began = time.monotonic()
            done = work()
            steps.append(Step(name, round(time.monotonic() - began, 3)))
            return done

        outcomes = [
            timed(name, lambda: self._merge(config, number, changes))
            for number, (name, changes) in enumerate((("first load", FIRST), ("upsert", SECOND)))
        ]
        differences = [
            f"batch {outcome.batch} was not committed: {outcome.reason or 'no change'}"
            for outcome in outcomes
            if outcome.instant is None
        ]
        for service in (*((COMPACTION,) if table_type == MOR else ()), CLEANING, ARCHIVAL):
            instant = timed(service, lambda: self._serve(config, service))
            if service == COMPACTION and instant is None:
                differences.append("nothing was compacted, though the table has log files")
        found = timed("read", lambda: self._rows(config))
        differences += compared(found, EXPECTED)
        return TableTrial(table_type, tuple(steps), len(found), tuple(differences))

    def _merge(self, config: TableConfig, number: int, changes: Sequence[dict[str, Any]]) -> Outcome:
        services, mark = self._services, fingerprint(SCHEMA)
        body = io.BytesIO()
        fastavro.writer(body, fastavro.parse_schema(dict(SCHEMA)), list(changes), codec="deflate")
        services.objects.put(services.silver_bucket, schema_key(mark), json.dumps(SCHEMA).encode("ascii"))
        name = f"objects/{config.name}/{TOPIC}+0+{number * 10:010d}.avro"
        services.objects.put(services.silver_bucket, name, body.getvalue())
        put = services.objects.get(services.silver_bucket, name)
        assert put is not None  # S3 reads what was just written
        # By its ETag also where the bucket keeps versions: the job's role reads no versions of silver.
        named = identify(services.silver_bucket, self._prefix + name, None, put.etag)
        item = ManifestObject(
            named.bucket,
            named.key,
            named.version,
            len(put.data),
            mark,
            "avro",
            TOPIC,
            0,
            number * 10,
            services.clock.now_ms(),
        )
        manifest = open_manifest(
            DATABASE, DATABASE, services.clock.now_ms(), DATABASE, {config.table: TablePart(config.to_dict(), (item,))}
        )
        return merge_part(self._spark, manifest=manifest, table=config.table, services=services, still_held=_alone)

    def _serve(self, config: TableConfig, service: str) -> Any:
        done = serve_table(
            self._spark,
            config=config,
            service=service,
            services=self._services,
            pace=Pace(self._spark.sparkContext.defaultParallelism),
            still_held=_alone,
            slice_s=SLICE_S,
            raise_floor=lambda positions: None,
        )
        return done.report.instant

    def _rows(self, config: TableConfig) -> list[tuple[str, ...]]:
        stored = (
            self._spark.read.format("hudi")
            .options(**hudi_options.read_options())
            .load(self._services.table_path(config.database, config.name))
        )
        live = (
            stored.where(~stored[DELETED])
            .orderBy("id")
            .select(*(stored[name].cast("string") for name, _ in _COLUMNS[:4]))
        )
        return [tuple(row) for row in live.limit(100).collect()]  # a handful, and bounded


def compared(found: Sequence[tuple[str, ...]], expected: Sequence[tuple[str, ...]]) -> list[str]:
    """What is missing, and what is there and shouldn't be, by row."""
    return [f"missing: {row}" for row in expected if row not in found] + [
        f"not expected: {row}" for row in found if row not in expected
    ]


def _alone() -> bool:
    """The tables are the trial's own, and nobody else knows of them."""
    return True


class ScratchObjects(Objects):
    """Documents of ours under a prefix that whoever asks doesn't see. Objects that are named by version are where they are said to be."""

    def __init__(self, s3: Any, prefix: str) -> None:
        """`prefix` ends with a slash."""
        super().__init__(s3)
        self._prefix = prefix

    def get(self, bucket: str, key: str, *, unless: str | None = None) -> Document | None:
        """As Objects.get."""
        return super().get(bucket, self._prefix + key, unless=unless)

    def put(self, bucket: str, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """As Objects.put."""
        super().put(bucket, self._prefix + key, data, content_type=content_type)

    def keys(self, bucket: str, prefix: str) -> Iterator[str]:
        """As Objects.keys; what is listed can be asked for."""
        return (key[len(self._prefix) :] for key in super().keys(bucket, self._prefix + prefix))
