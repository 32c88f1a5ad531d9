"""Versions of the engine in the driver's JVM: Spark, Hadoop, Scala, Java, and the Hudi bundle."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice_spark.errors import NoBundle

# The class that Spark loads for `format("hudi")`: every bundle has it.
BUNDLE_CLASS = "org.apache.hudi.DefaultSource"
UNKNOWN = "unknown"


def engine_versions(spark: SparkSession) -> dict[str, str]:
    """Versions by name, as each part reports its own. Raises NoBundle."""
    jvm: Any = spark._jvm
    return {
        "spark": str(spark.version),
        "hadoop": str(jvm.org.apache.hadoop.util.VersionInfo.getVersion()),
        "scala": str(jvm.scala.util.Properties.versionNumberString()),
        "java": str(jvm.java.lang.System.getProperty("java.version")),
        "hudi": hudi_version(spark),
    }


def hudi_version(spark: SparkSession) -> str:
    """Version from the bundle's manifest, or `unknown`. Raises NoBundle where the class path has no Hudi."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        bundle = jvm.java.lang.Class.forName(BUNDLE_CLASS, False, loader)  # False: initialize no class
    except Py4JJavaError as error:
        raise NoBundle(f"No jar on Spark's class path has {BUNDLE_CLASS}") from error
    package = bundle.getPackage()
    return str((package.getImplementationVersion() if package is not None else None) or UNKNOWN)
