"""A Spark program that writes live rows of Hudi tables as JSON lines: one reader of the two, in a process of its own.

Reads requests from standard input, one JSON object per line: {"tables": {"s3a path": "file"}}. Answers each with one
line that begins with REPLY. It shares no code with the product: it knows only the path, the column `__deleted`, and
that `_hoodie_` and `_sluice_` columns are not data.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

REPLY = "reply "
TO_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


def live_rows(table: DataFrame) -> DataFrame:
    """One JSON text per row that is not deleted, data columns only."""
    data = [name for name in table.columns if not name.startswith(("_hoodie_", "_sluice_")) and name != "__deleted"]
    return table.where(~F.coalesce(F.col("__deleted"), F.lit(False))).select(
        F.to_json(F.struct(*[F.col(f"`{name}`") for name in data]), TO_JSON).alias("row")
    )


def main() -> None:
    """Serve requests until standard input ends. Settings of the session come as a JSON object in the first argument."""
    builder = SparkSession.builder.appName("judge")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(REPLY + "ready", flush=True)
    for line in sys.stdin:
        counts = {}
        for path, file in json.loads(line)["tables"].items():
            # A new DataFrame lists the timeline anew; what an earlier request read is never reused.
            rows = [row.row for row in live_rows(spark.read.format("hudi").load(path)).toLocalIterator()]
            with open(file, "w", encoding="utf-8") as out:
                out.writelines(row + "\n" for row in rows)
            counts[path] = len(rows)
        print(REPLY + json.dumps(counts), flush=True)


if __name__ == "__main__":
    main()
