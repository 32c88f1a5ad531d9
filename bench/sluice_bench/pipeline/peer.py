"""The designs that Sluice is compared with, as a separate Spark program.

`streaming`: one Structured Streaming query per table, Avro source, Hudi upsert, as in always-on pipelines. `bare`:
only the write, of rows in memory. Both use Hudi's defaults, apart from table version, key and ordering, unless
`tuned`. `read`: every column of the objects is read, and nothing written. Prints one JSON line per table, and one with
the total.
"""

import argparse
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

ORDER = "__order"
NAMESPACE = "hoodie"


@dataclass(frozen=True)
class Job:
    """The load: `tables` maps a table's name to [folder of its objects, one object for the schema, key column]."""

    tables: Mapping[str, tuple[str, str, str]]
    into: str
    table_type: str
    tuned: bool


def write_options(name: str, key: str, job: Job) -> dict[str, str]:
    """Hudi's defaults with the table version and key that Sluice uses; `tuned` adds what helps small machines."""
    options = {
        "table.name": name,
        "datasource.write.table.type": job.table_type,
        "datasource.write.recordkey.field": key,
        "datasource.write.precombine.field": ORDER,
        "datasource.write.partitionpath.field": "",
        "datasource.write.operation": "upsert",
        "datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "write.table.version": "6",
        "write.auto.upgrade": "false",
    }
    if job.tuned:
        options |= {
            "metadata.enable": "false",
            "embed.timeline.server": "false",
            "index.type": "SIMPLE",
            "upsert.shuffle.parallelism": "2",
            "simple.index.parallelism": "2",
        }
    return {f"{NAMESPACE}.{option}": value for option, value in options.items()}


def ordered(changes: DataFrame) -> DataFrame:
    """The source's log position as one ordering column."""
    return changes.withColumn(ORDER, F.col("__lsn") if "__lsn" in changes.columns else F.col("__pos"))


def load_streaming(spark: SparkSession, name: str, source: str, schema, key: str, job: Job) -> float:
    """Run one streaming query over all objects. Returns its seconds."""

    def sink(batch: DataFrame, _number: int) -> None:
        ordered(batch).write.format("hudi").options(**write_options(name, key, job)).mode("append").save(
            f"{job.into}/{name}"
        )

    started = time.perf_counter()
    (
        spark.readStream.format("avro")
        .schema(schema)
        .option("recursiveFileLookup", "true")
        .load(source)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{job.into}/checkpoints/{name}")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    return time.perf_counter() - started


def load_bare(spark: SparkSession, name: str, source: str, schema, key: str, job: Job) -> float:
    """Write rows in memory, one per key. Returns the seconds of the write."""
    changes = ordered(spark.read.format("avro").schema(schema).option("recursiveFileLookup", "true").load(source))
    newest = Window.partitionBy(key).orderBy(F.col(ORDER).desc())
    rows = changes.withColumn("__rank", F.row_number().over(newest)).where("__rank = 1").drop("__rank").cache()
    rows.count()
    started = time.perf_counter()
    rows.write.format("hudi").options(**write_options(name, key, job)).mode("append").save(f"{job.into}/{name}")
    seconds = time.perf_counter() - started
    rows.unpersist()
    return seconds


def read_only(spark: SparkSession, name: str, source: str, schema, key: str, job: Job) -> float:
    """Read every column of all objects. Returns the seconds."""
    started = time.perf_counter()
    changes = spark.read.format("avro").schema(schema).option("recursiveFileLookup", "true").load(source)
    changes.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


LOADS = {"streaming": load_streaming, "bare": load_bare, "read": read_only}


def _cpu_seconds(pid: int) -> float:
    """Processor seconds of a living process: of the JVM, which is no child that is waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Load every table of the job, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=tuple(LOADS))
    parser.add_argument("session", help="Spark settings, a JSON object")
    parser.add_argument("job", help="a JSON object: tables, into, table_type, tuned")
    given = parser.parse_args()
    job = Job(**json.loads(given.job))
    started = time.perf_counter()
    builder = SparkSession.builder.appName(f"peer-{given.mode}")
    for name, value in json.loads(given.session).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    session_s = time.perf_counter() - started
    load = LOADS[given.mode]
    began, writes = time.perf_counter(), 0.0
    for name, (source, sample, key) in job.tables.items():
        seconds = load(spark, name, source, spark.read.format("avro").load(sample).schema, key, job)
        writes += seconds
        print(json.dumps({"table": name, "seconds": round(seconds, 2)}), flush=True)
    total_s = time.perf_counter() - began
    cpu_s = time.process_time() + _cpu_seconds(spark.sparkContext._gateway.proc.pid)
    written = job.tables if given.mode != "read" else ()
    rows = sum(spark.read.format("hudi").load(f"{job.into}/{name}").count() for name in written)
    print(
        json.dumps(
            {
                "total": True,
                "seconds": round(total_s, 2),
                "writes_s": round(writes, 2),
                "session_s": round(session_s, 2),
                "cpu_s": round(cpu_s, 2),
                "rows": rows,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
