"""Measures the search for 1,000 changed rows by index and table size.

Indexes are global simple and record index, with the metadata table on and off where the index allows it.

    python -m sluice_bench.tables.index_costs [--rows 10000 1000000] [--changes 1000] [--rounds 5] [--index TEXT]

A merge-on-read table writes changes as log files, so that the search is measured and not the rewriting of files.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR, TableConfig
from sluice.hudi import options as hudi_options
from sluice_bench.measure.percentiles import percentile
from sluice_bench.measure.results import keep, say
from sluice_local.images.jars import ensure_jars
from sluice_local.images.java import find_java

CAVEATS = (
    (
        "Tables are local files. On S3 each file that an index opens takes at least one round trip, so reading "
        "many files costs more there."
    ),
    (
        "Keys are spread evenly over all files. With keys in order, the simple index could skip files by their "
        "key ranges."
    ),
)
NAMESPACE = "hoodie"
PARTITIONS = 16
ROWS_PER_TASK = 500_000
CORES = 2


@dataclass(frozen=True)
class Variant:
    """An index, with the metadata table on or off."""

    name: str
    options: dict[str, str]


def _options(**values: str) -> dict[str, str]:
    return {f"{NAMESPACE}.{name.replace('__', '.')}": value for name, value in values.items()}


VARIANTS = (
    Variant("global simple", _options(index__type="GLOBAL_SIMPLE", metadata__enable="false")),
    Variant("global simple, metadata table", _options(index__type="GLOBAL_SIMPLE", metadata__enable="true")),
    Variant(
        "record index, metadata table",
        {
            **_options(index__type="RECORD_INDEX", metadata__enable="true"),
            f"{NAMESPACE}.metadata.record.index.enable": "true",
            f"{NAMESPACE}.record.index.update.partition.path": "true",
        },
    ),
)


def config() -> TableConfig:
    """A table of Sluice with one key and one partition column."""
    return TableConfig(
        table="bench.indexed",
        database="bench",
        name="indexed",
        topic="bench.indexed",
        record_key=("id",),
        partition_by=("place",),
        table_type=MOR,
    )


def session(memory: str = "8g", java: str = "-XX:+UseParallelGC"):
    """Spark as the driver has it, on this machine's cores.

    Its tasks import this process's modules, and reach an emulated AWS with any credentials.
    """
    os.environ.update(
        JAVA_HOME=str(find_java(os.environ).home),
        PYSPARK_PYTHON=sys.executable,
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_EC2_METADATA_DISABLED="true",
    )
    from pyspark.sql import SparkSession

    from sluice_spark.engine.session import required_settings

    builder = SparkSession.builder.master(f"local[{CORES}]").appName("index-costs")
    settings = {
        **required_settings(CORES),
        "spark.jars": ",".join(str(jar) for jar in ensure_jars() if "hudi" in jar.name),
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {java}",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def with_columns(ids, position: int):
    """Add columns of a plausible width to a frame of ids (bigint)."""
    from pyspark.sql import functions as F

    number = F.col("id")
    return ids.select(
        number,
        F.concat(F.lit("place-"), number % PARTITIONS).alias("place"),
        F.sha2(number.cast("string"), 256).alias("name"),
        (number * 7 % 1000).alias("seats"),
        (number * 31 % 100_000 / 100).cast("decimal(12,2)").alias("price"),
        F.timestamp_seconds(1_700_000_000 + number).alias("sold_at"),
        F.lit(f"0000.{position:020d}.{position:020d}").alias(hidden.POSITION),
        F.lit(False).alias(hidden.DELETED),
    )


def write(frame, path: str, variant: Variant, *, operation: str, tasks: int) -> float:
    """Commit once. Returns the seconds."""
    options = {
        **hudi_options.write_options(config(), operation=operation, parallelism=tasks),
        **variant.options,
        f"{NAMESPACE}.compact.inline": "false",
    }
    started = time.perf_counter()
    frame.write.format("hudi").options(**options).mode("append").save(path)
    return time.perf_counter() - started


def measure(spark, rows: int, variant: Variant, *, changes: int, rounds: int) -> dict[str, object]:
    """Create a table of that many rows, and change evenly spread ones several times."""
    scratch = tempfile.mkdtemp(prefix="sluice-index-")
    path = f"{Path(scratch).as_uri()}/indexed"
    chosen = random.Random(rows)
    try:
        tasks = max(1, -(-rows // ROWS_PER_TASK))
        created = write(
            with_columns(spark.range(0, rows, 1, tasks), 0),
            path,
            variant,
            operation=hudi_options.BULK_INSERT,
            tasks=tasks,
        )
        seconds = []
        for number in range(1, rounds + 2):
            ids = (
                spark.createDataFrame([(chosen.randrange(rows),) for _ in range(changes)], "id bigint")
                .distinct()
                .coalesce(1)
            )
            seconds.append(write(with_columns(ids, number), path, variant, operation=hudi_options.UPSERT, tasks=CORES))
        counted = spark.read.format("hudi").load(path).count()
        if counted != rows:
            raise AssertionError(f"{variant.name}: {counted} rows after changes to {rows}")
    finally:
        shutil.rmtree(scratch)
    return {
        "index": variant.name,
        "rows": rows,
        "created_s": round(created, 2),
        "first_s": round(seconds[0], 2),
        "seconds": [round(value, 3) for value in seconds[1:]],
        "median_s": round(percentile(seconds[1:], 0.5), 3),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every index at every size, keep the raw values, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--index", default="", help="only the variants whose name contains this")
    given = parser.parse_args(arguments)
    variants = [variant for variant in VARIANTS if given.index in variant.name]
    if not variants:
        parser.error(f"no index is called {given.index!r}: {', '.join(variant.name for variant in VARIANTS)}")
    spark = session()
    values = []
    for rows in given.rows:
        for variant in variants:
            values.append(measure(spark, rows, variant, changes=given.changes, rounds=given.rounds))
            print(values[-1], flush=True)
    spark.stop()
    summary = {f"{value['index']}, {value['rows']} rows": f"{value['median_s']} s" for value in values}
    file = keep("index", parameters=vars(given), caveats=CAVEATS, values=values, summary=summary)
    say("Finding changed rows", CAVEATS, summary, file)


if __name__ == "__main__":
    main()
