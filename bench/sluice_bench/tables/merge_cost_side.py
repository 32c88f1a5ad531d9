"""One side of merge_cost: for each line of input, merges the same snapshot into new tables with the code on PYTHONPATH.

python -m sluice_bench.tables.merge_cost_side ENDPOINT TABLES
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import count
from pathlib import Path

from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.config.table import TableConfig
from sluice_aws.clock import WallClock
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_bench.data.debezium_objects import SOURCES
from sluice_bench.data.tickit import Dataset, pieces, snapshot_object
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.tables.in_process_world import BRONZE, REGION, RUN, SILVER, Quiet, s3_client
from sluice_bench.tables.index_costs import session
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.part import merge_part

READY = "ready"


def put_snapshot(s3, tables: Sequence[str]) -> Mapping[str, tuple[ManifestObject, ...]]:
    """Put the tables' snapshot into bronze. Returns the objects by table."""
    dataset = Dataset(Sizes.scaled(1.0))
    objects_by_table: dict[str, list[ManifestObject]] = {table: [] for table in tables}
    for number, piece in enumerate(piece for piece in pieces(dataset) if piece.table in objects_by_table):
        topic, body = SOURCES[piece.table].topic, snapshot_object(dataset, piece)
        key = f"topics/{topic}/{topic}+0+{piece.first:010d}.avro"
        version = s3.put_object(Bucket=BRONZE, Key=key, Body=body)["VersionId"]
        objects_by_table[piece.table].append(
            ManifestObject(BRONZE, key, version, len(body), None, "avro", topic, 0, piece.first, number)
        )
    return {table: tuple(items) for table, items in objects_by_table.items()}


def services(s3, endpoint: str, home: Path) -> MergeServices:
    """The surroundings of a merge. An older checkout gets only the arguments it knows."""
    objects = Objects(s3)
    given = {
        "objects": objects,
        "source": ObjectSource(REGION, SILVER, endpoint),
        "silver_bucket": SILVER,
        "tables_uri": home.as_uri(),
        "clock": WallClock(),
        "log": Quiet(),
    }
    if "history" in (field.name for field in fields(MergeServices)):
        from sluice_aws.s3.schemas import SchemaHistory

        given["history"] = SchemaHistory(objects, SILVER)
    return MergeServices(**given)


def processor_seconds(spark) -> float:
    """Processor seconds of Spark's process and its Python workers."""
    java = spark._jvm.java
    own = java.lang.ProcessHandle.current()
    handles = [own, *own.descendants().toArray()]
    return sum(handle.info().totalCpuDuration().orElse(java.time.Duration.ZERO).toMillis() for handle in handles) / 1000


def serve(
    spark, around: MergeServices, objects: Mapping[str, tuple[ManifestObject, ...]], home: Path, lines: Iterable[str]
) -> None:
    """For each line, merge every table's snapshot into a new table, and print seconds and processor seconds."""
    for number, _ in zip(count(), lines):
        measured = {}
        for table, items in objects.items():
            database = f"cost{number}"
            config = TableConfig(
                table=f"{database}.{table}",
                database=database,
                name=table,
                topic=items[0].topic,
                record_key=(SOURCES[table].key,),
            )
            manifest = open_manifest(
                "main", RUN, around.clock.now_ms(), f"v{number}", {config.table: TablePart(config.to_dict(), items)}
            )
            spent, started = processor_seconds(spark), time.perf_counter()
            outcome = merge_part(spark, manifest=manifest, table=config.table, services=around, still_held=lambda: True)
            measured[table] = {
                "seconds": round(time.perf_counter() - started, 3),
                "processor_s": round(processor_seconds(spark) - spent, 2),
            }
            if outcome.instant is None or outcome.quarantined:
                raise AssertionError(f"{config.table}: not everything was committed: {outcome.to_json()}")
            shutil.rmtree(home / database)
        print(json.dumps(measured), flush=True)


def main() -> None:
    """Start Spark, put the objects, report ready, and serve."""
    endpoint, tables = sys.argv[1], sys.argv[2].split(",")
    s3 = s3_client(endpoint)
    spark = session("4g")
    with tempfile.TemporaryDirectory(prefix="sluice-cost-") as home:
        objects = put_snapshot(s3, tables)
        print(READY, flush=True)
        serve(spark, services(s3, endpoint, Path(home)), objects, Path(home), sys.stdin)
    spark.stop()


if __name__ == "__main__":
    main()
