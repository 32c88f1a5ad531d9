"""Measures the read before a merge by table size: the stored positions of 1,000 changed rows.

By kind of table, and by the rows' place in it.

python -m sluice_bench.tables.stored_positions [--rows 100000 1000000 ...] [--changes 1000] [--rounds 3] [--kind TEXT]
"""

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sluice.changes import hidden_columns as hidden
from sluice.config.table import COW, MOR, SIMPLE, TableConfig
from sluice.hudi import options as hudi_options
from sluice_bench.measure.percentiles import percentile
from sluice_bench.measure.results import keep, say
from sluice_bench.tables.index_costs import ROWS_PER_TASK, config, session, with_columns

CAVEATS = (
    "Tables are local files. On S3 each file takes a few round trips more.",
    (
        "Rows were inserted in key order, so each file holds a range of keys. Spread changes are in all files, "
        "the newest changes in the last."
    ),
)
KINDS = {
    "copy on write": replace(config(), table_type=COW, partition_by=(), index=SIMPLE),
    "copy on write, partitioned": replace(config(), table_type=COW, index=SIMPLE),
    "merge on read, partitioned": replace(config(), table_type=MOR, index=SIMPLE),
}
SPREAD, NEWEST = "spread", "newest"


def made(spark, path: str, kind: TableConfig, rows: int):
    """A table of that many rows, written as a first load."""
    from pyspark.sql import functions as F

    from sluice_spark.hudi.table import HudiTable

    hudi = HudiTable(spark, path, kind)
    hudi.ensure_created()
    tasks = max(1, -(-rows // ROWS_PER_TASK))
    frame = with_columns(spark.range(0, rows, 1, tasks), 0).withColumn(hidden.OWED, F.lit(None).cast("string"))
    options = hudi_options.write_options(kind, operation=hudi_options.BULK_INSERT, parallelism=tasks)
    frame.write.format("hudi").options(**options).mode("append").save(path)
    return hudi


def cpu_s(spark) -> float:
    """CPU seconds of all threads of the JVM so far, which don't depend on other processes."""
    return spark._jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean().getProcessCpuTime() / 1e9


def read_s(spark, hudi, ids: Sequence[int]) -> tuple[float, float]:
    """Seconds and CPU seconds to find the stored positions of these rows as a merge does."""
    from pyspark.sql import functions as F

    from sluice_spark.merge.by_spark.latest import beside_stored
    from sluice_spark.merge.by_spark.working_columns import CHANGES, NEWEST, STORED_POSITION

    facts = hudi.look()
    changes = spark.createDataFrame([(number,) for number in ids], "id bigint")
    latest = changes.withColumns({NEWEST: F.lit(True), CHANGES: F.lit(1)}).persist()
    latest.count()
    began, cpu = time.perf_counter(), cpu_s(spark)
    stored = hudi.stored(facts, "id", hidden.POSITION, hidden.OWED)
    count = (
        beside_stored(latest, stored=stored, record_key=("id",), few=True)
        .where(F.col(STORED_POSITION).isNotNull())
        .count()
    )
    seconds = time.perf_counter() - began, cpu_s(spark) - cpu
    latest.unpersist()
    if count != len(ids):
        raise AssertionError(f"{count} of {len(ids)} rows were found")
    return seconds


def measure(spark, rows: int, name: str, *, changes: int, rounds: int) -> list[dict[str, object]]:
    """Both places of one kind and size."""
    scratch = tempfile.mkdtemp(prefix="sluice-stored-")
    chosen = random.Random(rows)
    values = []
    try:
        hudi = made(spark, f"{Path(scratch).as_uri()}/indexed", KINDS[name], rows)
        for where in (SPREAD, NEWEST):
            ids = [
                sorted(chosen.sample(range(rows), changes)) if where == SPREAD else list(range(rows - changes, rows))
                for _ in range(rounds + 1)
            ]
            took = [read_s(spark, hudi, row_id) for row_id in ids][1:]  # the first one warms up
            values.append(
                {
                    "kind": name,
                    "rows": rows,
                    "changes": where,
                    "seconds": [[round(one, 3) for one in times] for times in took],
                    "median_s": round(percentile([wall for wall, _ in took], 0.5), 3),
                    "median_cpu_s": round(percentile([cpu for _, cpu in took], 0.5), 3),
                }
            )
            print(values[-1], flush=True)
    finally:
        shutil.rmtree(scratch)
    return values


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every kind at every size, keep the raw values, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", default="", help="only kinds whose name starts with this")
    given = parser.parse_args(arguments)
    names = [name for name in KINDS if name.startswith(given.kind)]
    if not names:
        parser.error(f"no kind begins with {given.kind!r}: {', '.join(KINDS)}")
    spark = session()
    values = [
        value
        for rows in given.rows
        for name in names
        for value in measure(spark, rows, name, changes=given.changes, rounds=given.rounds)
    ]
    spark.stop()
    summary = {
        f"{value['kind']}, {value['rows']} rows, {value['changes']}": (
            f"{value['median_cpu_s']} s of one core, {value['median_s']} s"
        )
        for value in values
    }
    file = keep("stored", parameters=vars(given), caveats=CAVEATS, values=values, summary=summary)
    say("Stored positions of changed rows", CAVEATS, summary, file)


if __name__ == "__main__":
    main()
