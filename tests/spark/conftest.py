"""One Spark session, one S3 (moto's server), and a workbench that merges parts as a driver would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.extent import WHOLE

ROOT = Path(__file__).resolve().parents[2]
# `make test-all` runs Spark as a driver has it. `make test` runs it with the least work for tables of a few rows: one
# partition, and no generated code, which takes longer to compile than to interpret once.
CORES = 2 if WHOLE else 1
MASTER = "SLUICE_TEST_MASTER"  # names another one, such as `local-cluster[2,1,1024]`: two executors of their own
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Hudi's pruning of partitions, which tables of a few rows do without, is a third of the time of all rules.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.hudi.analysis.HoodiePruneFileSourcePartitions",
}


@pytest.fixture(scope="session")
def java_environment() -> dict[str, str]:
    """Where Java is, and what Python workers need to find the sources."""
    from sluice_local.images.java import find_java

    variables = {"JAVA_HOME": str(find_java(os.environ).home)}
    variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    variables["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("functions", "spark", "tests"))
    # moto takes any credentials; the tasks' clients need some.
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return {**variables, **credentials, "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    """The Hudi bundle and S3A, from SLUICE_JARS or the cache that the local stack keeps."""
    paths = os.environ.get("SLUICE_JARS")
    if paths:
        return [Path(jar) for jar in paths.split(os.pathsep)]
    from sluice_local.images.jars import ensure_jars

    return ensure_jars()


@pytest.fixture(scope="session")
def spark(java_environment: dict[str, str], jars: list[Path]) -> Iterator[object]:
    """The session, with the settings that a driver makes its own with."""
    os.environ.update(java_environment)
    from pyspark.sql import SparkSession

    from sluice_local.emr.spark_command import JVM_OPTIONS
    from sluice_spark.engine.session import required_settings, resolve_names_once, set_jvm_properties

    builder = SparkSession.builder.master(os.environ.get(MASTER, f"local[{CORES}]")).appName("tests")
    settings = {
        "spark.sql.ansi.enabled": "true",  # as Spark 4 has it: the driver's own settings prevail
        **required_settings(CORES),
        "spark.jars": ",".join(str(jar) for jar in jars if "hudi" in jar.name),
        "spark.driver.extraJavaOptions": " ".join(("-Duser.timezone=UTC", *JVM_OPTIONS)),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **({} if WHOLE else INTERPRETED),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    resolve_names_once(session)
    set_jvm_properties()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_endpoint(java_environment: dict[str, str]) -> Iterator[str]:
    """An S3 that knows versions."""
    os.environ.update(java_environment)
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bench(spark: object, s3_endpoint: str, tmp_path: Path) -> object:
    """A workbench with buckets and tables of its own."""
    from support.workbench import Workbench

    return Workbench(spark, s3_endpoint, tmp_path)
