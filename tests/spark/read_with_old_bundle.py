"""Reads a Hudi table with another bundle, in its own process: JAR PATH EXPRESSION... -> rows as one line of JSON."""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    jar, path, *expressions = sys.argv[1:]
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
    rows = spark.read.format("hudi").load(path).selectExpr(*expressions).collect()
    print(json.dumps([list(row) for row in rows]))
    spark.stop()


main()
