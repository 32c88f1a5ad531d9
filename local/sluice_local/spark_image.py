"""The local stand-in of EMR's image: Java, Spark's jars, S3A, and the Python of jobs."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from sluice_local.java import Java
from sluice_local.python_image import PythonImage, build_spark_image

# What Spark's launcher adds for Java 17 (org.apache.spark.launcher.JavaModuleOptions of 3.5).
_MODULES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={module}=ALL-UNNAMED" for module in _MODULES),
    "-Djdk.reflect.useDirectMethodHandle=false",
)
MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"

# Warnings and worse to stderr. Hadoop says at every start that it has no native library and no metrics configuration.
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.metrics.name = org.apache.hadoop.metrics2
logger.metrics.level = error
"""


@dataclass(frozen=True)
class SparkImage:
    """What every job on this machine shares."""

    java: Java
    python: PythonImage
    spark_jars: tuple[Path, ...]
    file_system_jars: tuple[Path, ...]  # S3A and its SDK
    logging: Path

    def class_path(self, job_jars: Sequence[Path]) -> tuple[Path, ...]:
        """Jars in order: Spark's own first, as `spark.jars` does, and the SDK last, since its 100,000 entries are the slowest to search.

        Jars and no directories: class data can't be shared over a class path with directories.
        """
        return (*self.spark_jars, *job_jars, *self.file_system_jars)


def build_image(home: Path, java: Java, jars: Sequence[Path]) -> SparkImage:
    """The image under `home`, of the jars that `ensure_jars` fetched; the Hudi bundle among them is named by each job."""
    home.mkdir(parents=True, exist_ok=True)
    logging = home / "log4j2.properties"
    logging.write_text(_LOGGING)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    spark = tuple(sorted((Path(spec.origin).parent / "jars").glob("*.jar")))
    file_system = sorted((jar for jar in jars if "hudi" not in jar.name), key=lambda jar: jar.stat().st_size)
    return SparkImage(java, build_spark_image(home / "python"), spark, tuple(file_system), logging)
