"""Appends rows to a table by Hudi's data source, with a call of ours right before it completes the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame

from sluice_spark.errors import RowsNotWritten
from sluice_spark.hudi.needed_members import before_1_1

_PARAMETERS = "HoodieSparkSqlWriter$StreamingWriteParams"


class _BeforeCommit:
    """Java's BiConsumer that Hudi calls before it completes a commit. Keeps what the call raised."""

    class Java:
        implements = ("java.util.function.BiConsumer",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self.raised: Exception | None = None

    def accept(self, meta_client: object, metadata: object) -> None:
        """Part of Java's interface."""
        try:
            self._call()
        except Exception as error:
            self.raised = error
            raise


def append(rows: DataFrame, path: str, options: Mapping[str, str], before_commit: Callable[[], None]) -> None:
    """Write the rows as one commit. Raises what `before_commit` raises, then without a commit, and Hudi's errors.

    The data source has no such call, but its writer has one, for Spark's streams. An engine whose writer differs is
    left to the data source.
    """
    context: Any = rows.sparkSession.sparkContext
    jvm = context._jvm
    try:
        jvm.py4j.reflection.ReflectionUtil.classForName(f"org.apache.hudi.{_PARAMETERS}")
    except Py4JError:
        before_commit()
        rows.write.format("hudi").options(**options).mode("append").save(path)
        return
    ensure_callback_server_started(context._gateway)
    called, none = _BeforeCommit(before_commit), jvm.scala.Option.empty()
    given = jvm.java.util.HashMap()
    for name, value in {**options, "path": path}.items():
        given.put(name, value)
    package = jvm.org.apache.hudi
    parameters = getattr(package, _PARAMETERS)(none, none, none, jvm.scala.Option.apply(called))
    frame = cast(Any, rows)
    try:
        written = package.HoodieSparkSqlWriter.write(
            frame._jdf.sqlContext(),
            jvm.org.apache.spark.sql.SaveMode.Append,
            jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(given),
            frame._jdf,
            jvm.scala.Option.apply(parameters),
            *((none,) if before_1_1(rows.sparkSession) else (none, none)),
        )
    except Py4JJavaError:
        if called.raised is not None:
            raise called.raised from None
        raise
    else:
        if not written._1():
            raise RowsNotWritten(f"Hudi reports failed rows of a write to {path}", path=path)
    finally:
        package.HoodieSparkSqlWriter.cleanup()
