"""Reads Hudi tables with another bundle, JAR: answers [PATH, EXPRESSION...] by rows or an error's text, all in JSON."""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", sys.argv[1])
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
