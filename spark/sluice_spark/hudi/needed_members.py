"""The members of Hudi's classes that differ between its releases, and those by which files of Sluice are committed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

# Class, method ("" for a constructor) and types of the parameters. Names without a package are of java.lang, those with
# a leading dot of org.apache.hudi.
_NEEDED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (".client.SparkRDDWriteClient", "startCommit", ()),
    (".client.SparkRDDWriteClient", "setOperationType", (".common.model.WriteOperationType",)),
    (
        ".client.SparkRDDWriteClient",
        "commitStats",
        ("String", "java.util.List", ".common.util.Option", "String"),
    ),
    (
        ".common.table.timeline.HoodieActiveTimeline",
        "transitionRequestedToInflight",
        (".common.table.timeline.HoodieInstant", ".common.util.Option"),
    ),
    (".avro.HoodieAvroUtils", "addMetadataFields", ("org.apache.avro.Schema",)),
    (".common.util.JsonUtils", "getObjectMapper", ()),
    (".common.model.HoodieDeltaWriteStat", "", ()),
)
# By this Hudi keeps up a record index from the files of a commit, also of one without Hudi's own write statuses.
_NEEDED_BY_RECORD_INDEX = (
    (
        ".metadata.BaseFileRecordParsingUtils",
        "generateRLIMetadataHoodieRecordsForBaseFile",
        ("String", ".common.model.HoodieWriteStat", "Integer", "String", ".storage.HoodieStorage"),
    ),
)


@lru_cache(maxsize=2)
def missing_in_engine(spark: SparkSession, record_index: bool) -> tuple[str, ...]:
    """The members that this engine's Hudi lacks, as `class.method`; empty for none.

    `record_index`: the table has one.
    """
    needed = _NEEDED + (_NEEDED_BY_RECORD_INDEX if record_index else ())
    return tuple(
        f"{name[1:]}.{method or '<init>'}"
        for name, method, parameters in needed
        if not _has(spark, name, method, parameters)
    )


@lru_cache(maxsize=2)
def before_1_1(spark: SparkSession) -> bool:
    """True for Hudi 1.0, whose clients take other parameters than those of 1.1 and later."""
    return _has(spark, ".client.SparkRDDWriteClient", "createNewInstantTime", ())


def _has(spark: SparkSession, name: str, method: str, parameters: tuple[str, ...]) -> bool:
    context: Any = spark.sparkContext
    gateway, reflection = context._gateway, context._jvm.py4j.reflection.ReflectionUtil
    try:
        types = gateway.new_array(context._jvm.java.lang.Class, len(parameters))
        for place, parameter in enumerate(parameters):
            types[place] = reflection.classForName(_java_name(parameter))
        java_class = reflection.classForName(_java_name(name))
        java_class.getMethod(method, types) if method else java_class.getConstructor(types)
    except Py4JError:
        return False
    return True


def _java_name(name: str) -> str:
    if name.startswith("."):
        return f"org.apache.hudi{name}"
    return name if "." in name or name.startswith("[") else f"java.lang.{name}"
