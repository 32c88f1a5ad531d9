"""The Spark session of a driver: the settings that it requires, and its start in a thread of its own."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Callable

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sluice_spark.engine.versions import hudi_version
from sluice_spark.errors import NoBundle

_LOCAL_MASTER = re.compile(r"local\[(\d+)")
_FEW_PARTITIONS = 4


def required_settings(cores: int) -> dict[str, str]:
    """The settings that the driver sets, whatever it was submitted with. `cores`: the most that tasks can run on.

    The file systems' settings (fs.s3*) belong to the environment and aren't set here.
    """
    return {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.kryoserializer.buffer.max": "256m",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        # The tables of one batch share the executors: a small one doesn't wait for a large one's last task.
        "spark.scheduler.mode": "FAIR",
        # The first job begins on the first executor. By default it waits up to 30 s for most of them.
        "spark.scheduler.minRegisteredResourcesRatio": "0.0",
        # No executor is closer to S3 than another.
        "spark.locality.wait": "0s",
        # Two attempts of a task at the same time would write two files of one Hudi commit.
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        # Text that is no date becomes null, and is counted. By Spark 4's default its batch would fail.
        "spark.sql.ansi.enabled": "false",
        # Lists in three levels, as the Parquet format defines them: two levels, the default, can't hold a null element.
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        # Dates before 1582 and times before 1900 are of the proleptic calendar; Spark's default refuses them.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.shuffle.partitions": str(cores),
        # Adaptive execution merges small partitions. Where there are few, it only adds a stage to each query.
        "spark.sql.adaptive.enabled": "true" if cores > _FEW_PARTITIONS else "false",
    }


_CORES = (
    "spark.master",
    "spark.dynamicAllocation.maxExecutors",
    "spark.executor.instances",
    "spark.executor.cores",
)


def task_cores(submitted: Mapping[str, str]) -> int:
    """The most cores that tasks can run on, by the settings that the job was submitted with."""
    local = _LOCAL_MASTER.match(submitted.get("spark.master", ""))
    if local:
        return max(1, int(local[1]))
    executors = int(
        submitted.get("spark.dynamicAllocation.maxExecutors") or submitted.get("spark.executor.instances") or 1
    )
    return max(2, executors * int(submitted.get("spark.executor.cores") or 1))


# Hudi sizes objects by JOL, which tries twice to attach to its own JVM and fails after two seconds: in the first upsert
# of every process, of the driver's and of each executor's.
JVM_PROPERTIES: Mapping[str, str] = {"jol.skipDynamicAttach": "true", "jol.skipHotspotSAAttach": "true"}
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def executor_java_options(submitted: Mapping[str, str]) -> str:
    """The Java options of executors: those that the job was submitted with, and JVM_PROPERTIES."""
    own = [f"-D{name}={value}" for name, value in JVM_PROPERTIES.items()]
    return " ".join([*submitted.get(_EXECUTOR_OPTIONS, "").split(), *own])


def set_jvm_properties() -> None:
    """Set JVM_PROPERTIES in the driver's JVM, to which this connects: they are read with the first upsert."""
    for name, value in JVM_PROPERTIES.items():
        SparkContext.setSystemProperty(name, value)


def submitted_settings() -> dict[str, str]:
    """What the driver asks of the settings that the job was submitted with: those of the JVM. Empty where not set.

    By name: all settings would be two hundred calls of the JVM, before Spark begins to start.
    """
    conf = SparkConf()
    return {name: conf.get(name, "") for name in (*_CORES, _EXECUTOR_OPTIONS)}


def create_session() -> SparkSession:
    """The session of this process. The master and sizes come from spark-submit.

    Raises NoBundle: without Hudi every table would fail, though none is at fault.
    """
    conf = SparkConf()  # empty, and without the JVM that the next call connects to
    set_jvm_properties()
    submitted = submitted_settings()
    for name, value in required_settings(task_cores(submitted)).items():
        conf.set(name, value)
    conf.set(_EXECUTOR_OPTIONS, executor_java_options(submitted))
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    resolve_names_once(session)
    try:
        hudi_version(session)
    except NoBundle:
        session.stop()
        raise
    return session


# The names that PySpark resolves for each column and each query, with the members it calls.
_JAVA_NAMES: Mapping[str, Sequence[str]] = {
    "functions": ("col", "when", "lit", "not", "count", "coalesce"),
    "PythonUtils": ("toSeq",),
    "SparkSession": ("getActiveSession",),
    "SparkSession$": ("MODULE$",),
    "org": (),
    "java": (),
    "py4j": (),
}


def resolve_names_once(session: SparkSession) -> None:
    """Resolve once the Java names that PySpark uses most.

    Py4J doesn't remember `jvm.functions`: for every column it looks for a class of that name in each imported package,
    in some 270 jars. With small batches that is a sixth of the JVM's processor time (local).
    """
    jvm: Any = session._jvm
    for name, members in _JAVA_NAMES.items():
        java_class = getattr(jvm, name)
        for member in members:
            setattr(java_class, member, getattr(java_class, member))
        setattr(jvm, name, java_class)


class SparkProcess:
    """The session of this process, started in a thread by the first call of `session`."""

    def __init__(self, create: Callable[[], SparkSession] = create_session) -> None:
        self._create = create
        self._made: Future[SparkSession] | None = None
        self._lock = threading.Lock()
        self.stopped = False

    def session(self) -> Future[SparkSession]:
        """The session or the error of its start. The first call begins the start; every call returns at once."""
        with self._lock:
            if self._made is None:
                self._made = Future()
                threading.Thread(target=self._make, args=(self._made,), name="spark-session", daemon=True).start()
            return self._made

    def ready(self) -> bool:
        """True once the session can be used."""
        made = self._made
        return made is not None and made.done() and made.exception() is None

    def pid(self) -> int | None:
        """The process of the JVM; None until the session can be used."""
        if self._made is None or not self.ready():
            return None
        jvm: Any = self._made.result()._jvm
        return int(jvm.java.lang.ProcessHandle.current().pid())

    def stop(self) -> None:
        """Stop Spark if it was started, after its start has ended."""
        self.stopped = True
        if self._made is not None and self._made.exception() is None:
            self._made.result().stop()

    def _make(self, made: Future[SparkSession]) -> None:
        try:
            made.set_result(self._create())
        except BaseException as error:  # raised to those who wait for the session
            made.set_exception(error)
