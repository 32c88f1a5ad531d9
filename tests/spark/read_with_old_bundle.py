"""Reads Hudi tables with another bundle, in its own process: started with JAR, it answers each line of standard input.

A line is [PATH, EXPRESSION...] as JSON; the answer is the rows, or the text of an error.
"""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    (jar,) = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        path, *expressions = json.loads(line)
        try:
            rows = spark.read.format("hudi").load(path).selectExpr(*expressions).collect()
            answer = json.dumps([list(row) for row in rows])
        except Exception as error:
            answer = json.dumps(str(error))
        print(answer, flush=True)
    spark.stop()


main()
