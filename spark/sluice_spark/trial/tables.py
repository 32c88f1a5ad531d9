"""Trial of one table type: a small table is written, changed, served and read, as a run of a lane would do it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Callable, TypeVar

import fastavro
from pyspark.sql import SparkSession

from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import Outcome
from sluice.changes.hidden_columns import DELETED
from sluice.config.table import MOR, TableConfig
from sluice.lane.trial import TableTrial, TrialStep
from sluice.objects import identify
from sluice.schema.avro import fingerprint
from sluice.services.requests import ARCHIVAL, CLEANING, COMPACTION
from sluice.silver_keys import schema_key
from sluice_spark.hudi.table import read_table
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.part import merge_part
from sluice_spark.services.slice import SliceRates, serve_table

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
# An update, a delete, and a change that is older than the stored row. No new row: for one, Hudi would rewrite the small
# base file and leave nothing to compact.
SECOND = [change("u", 22, 1, "one again"), change("d", 23, 2, "two"), change("u", 5, 3, "late")]
# As text, which Spark makes in the session's time zone; Python would convert timestamps to its own.
EXPECTED = [
    ("1", "one again", "1.25", "2026-01-01 00:00:00.000022"),
    ("3", "three", "3.25", "2026-01-01 00:00:00.000013"),
    ("4", "four", "4.25", "2026-01-01 00:00:00.000014"),
]


@dataclass(frozen=True)
class TableTrials:
    """Tries table types, one after the other. `services` write under the trial's own prefix.

    The objects to merge are put under `prefix` of the silver bucket, which ends with a slash. `report` is called with
    the name of each step before it begins.
    """

    spark: SparkSession
    services: MergeServices
    prefix: str
    report: Callable[[str], None]

    def try_type(self, table_type: str) -> TableTrial:
        """Do every step with a table of one type. Raises what Spark and Hudi raise."""
        config = TableConfig(f"{DATABASE}.{table_type}", DATABASE, table_type, TOPIC, ("id",), table_type=table_type)
        steps: list[TrialStep] = []

        def timed(name: str, work: Callable[[], Done]) -> Done:
            self.report(f"{table_type}: {name}")
            began = time.monotonic()
            done = work()
            steps.append(TrialStep(name, round(time.monotonic() - began, 3)))
            return done

        outcomes = [
            timed("first load", lambda: self._merge(config, 0, FIRST)),
            timed("upsert", lambda: self._merge(config, 1, SECOND)),
        ]
        differences = [
            f"batch {outcome.batch} was not committed: {outcome.reason or 'no change'}"
            for outcome in outcomes
            if outcome.instant is None
        ]
        if table_type == MOR and timed(COMPACTION, lambda: self._serve(config, COMPACTION)) is None:
            differences.append("nothing was compacted, though the table has log files")
        timed(CLEANING, lambda: self._serve(config, CLEANING))
        timed(ARCHIVAL, lambda: self._serve(config, ARCHIVAL))
        rows = timed("read", lambda: self._rows(config))
        differences += compared(rows, EXPECTED)
        return TableTrial(table_type, tuple(steps), len(rows), tuple(differences))

    def _merge(self, config: TableConfig, number: int, changes: Sequence[dict[str, Any]]) -> Outcome:
        services, mark = self.services, fingerprint(SCHEMA)
        body = io.BytesIO()
        fastavro.writer(body, fastavro.parse_schema(dict(SCHEMA)), list(changes), codec="deflate")
        services.objects.put(services.silver_bucket, schema_key(mark), json.dumps(SCHEMA).encode("ascii"))
        name = f"objects/{config.name}/{TOPIC}+0+{number * 10:010d}.avro"
        services.objects.put(services.silver_bucket, name, body.getvalue())
        put = services.objects.get(services.silver_bucket, name)
        assert put is not None  # S3 reads what was just written
        # By its ETag, also in a versioned bucket: the job's role can't read versions in silver.
        object_id = identify(services.silver_bucket, self.prefix + name, None, put.etag)
        item = ManifestObject(
            object_id.bucket,
            object_id.key,
            object_id.version,
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
        return merge_part(self.spark, manifest=manifest, table=config.table, services=services, still_held=_alone)

    def _serve(self, config: TableConfig, service: str) -> Any:
        done = serve_table(
            self.spark,
            config=config,
            service=service,
            services=self.services,
            rates=SliceRates(self.spark.sparkContext.defaultParallelism),
            still_held=_alone,
            slice_s=SLICE_S,
            raise_floor=lambda positions: None,
        )
        return done.report.instant

    def _rows(self, config: TableConfig) -> list[tuple[str, ...]]:
        stored = read_table(self.spark, self.services.table_path(config.database, config.name))
        live = (
            stored.where(~stored[DELETED])
            .orderBy("id")
            .select(*(stored[name].cast("string") for name, _ in _COLUMNS[:4]))
        )
        return [tuple(row) for row in live.limit(100).collect()]  # a handful, and bounded


def compared(rows: Sequence[tuple[str, ...]], expected: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows that are missing and the rows that are not expected."""
    return [f"missing: {row}" for row in expected if row not in rows] + [
        f"not expected: {row}" for row in rows if row not in expected
    ]


def _alone() -> bool:
    """The hold of a trial: its tables are its own, and nobody else writes them."""
    return True
