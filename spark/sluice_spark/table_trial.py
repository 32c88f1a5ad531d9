"""The trial of one table type: a small table written, changed, compacted and read, as a run of a lane would."""

from __future__ import annotations

import io
import json
import time
from decimal import Decimal
from typing import Any, Callable, Dict, List, Sequence, Tuple, TypeVar

import fastavro
from pyspark.sql import SparkSession

from sluice import hudi_options
from sluice.avro_schema import fingerprint
from sluice.hidden_columns import DELETED
from sluice.identity import identify
from sluice.manifest import ManifestObject, TablePart, open_manifest
from sluice.outcome import Outcome
from sluice.service_requests import ARCHIVAL, CLEANING, COMPACTION
from sluice.silver_keys import schema_key
from sluice.table_config import MOR, TableConfig
from sluice.trial import Step, TableTrial
from sluice_spark.merge_services import MergeServices
from sluice_spark.merge_table import merge_part
from sluice_spark.serving import Pace, serve_table

DATABASE, TOPIC = "trial", "sluice.trial.rows"
SLICE_S = 20
Done = TypeVar("Done")

_COLUMNS: Tuple[Tuple[str, Any], ...] = (
    ("id", "long"),
    ("name", ["null", "string"]),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("noted", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}),
    ("__deleted", ["null", "string"]),
    ("__op", ["null", "string"]),
    ("__lsn", ["null", "long"]),
    ("__source_ts_ms", ["null", "long"]),
)
SCHEMA: Dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "namespace": TOPIC,
    "fields": [
        {"name": name, "type": kind, **({"default": None} if isinstance(kind, list) else {})} for name, kind in _COLUMNS
    ],
}
_EPOCH_US = 1_767_225_600_000_000  # 2026-01-01


def change(op: str, lsn: int, row: int, name: str) -> Dict[str, Any]:
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
        steps: List[Step] = []

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

    def _merge(self, config: TableConfig, number: int, changes: Sequence[Dict[str, Any]]) -> Outcome:
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

    def _rows(self, config: TableConfig) -> List[Tuple[str, ...]]:
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


def compared(found: Sequence[Tuple[str, ...]], expected: Sequence[Tuple[str, ...]]) -> List[str]:
    """What is missing, and what is there and shouldn't be, by row."""
    return [f"missing: {row}" for row in expected if row not in found] + [
        f"not expected: {row}" for row in found if row not in expected
    ]


def _alone() -> bool:
    """The tables are the trial's own, and nobody else knows of them."""
    return True
