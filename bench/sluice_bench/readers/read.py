"""Reads Hudi tables by one Spark with one Hudi bundle: reads the request (JSON) from stdin, ends with one line of JSON.

Runs in a process and an environment of its own, on any PySpark from 3.4 on, and imports nothing of the product.
A request has `session` (Spark's settings), and `tables`: by name the `path`, the `columns` and the `statements` that
declare them in Hive's catalog, by their names there. The answer has rows, or the reason why there are none, by table
and way of reading.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)
REPLY = "rows: "
TIMESTAMPS, WITHOUT = ("at",), ", no timestamps"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # as Spark shows the null partition of a table of Hive's


def plain(value: Any) -> Any:
    """A value in a form that JSON holds and that all readers share: a moment is its microseconds since 1970 UTC."""
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, (dt.date, Decimal)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def in_order(rows: Any) -> list[list[Any]]:
    """Plain rows, in the order of their text."""
    return sorted(([plain(value) for value in row] for row in rows), key=json.dumps)


def answered(read: Callable[[], Any]) -> dict[str, Any]:
    """The rows of a reading, or the first lines of its error."""
    try:
        return {"rows": in_order(read())}
    except Exception as error:  # what a reader raises is its result
        causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", str(error), re.MULTILINE)
        return {"refused": (causes[-1] if causes else str(error).partition("\n")[0])[:400]}


def _by_data_source(spark: Any, table: dict[str, Any]) -> Any:
    return spark.read.format("hudi").load(table["path"]).select(*table["columns"]).collect()


def _by_input_format(spark: Any, declared: str, statements: list[str], columns: list[str]) -> Any:
    for statement in (f"DROP TABLE IF EXISTS {declared}", *statements):
        spark.sql(statement)
    rows = spark.sql(f"SELECT {', '.join(f'`{column}`' for column in columns)} FROM {declared}").collect()
    return [[None if value == NULL_PARTITION else value for value in row] for row in rows]


def main() -> None:
    """Answer one request."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    from pyspark.sql import SparkSession

    request = json.load(sys.stdin)
    builder = SparkSession.builder
    for name, value in request["session"].items():
        builder = builder.config(name, value)
    spark = builder.enableHiveSupport().getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answers: dict[str, dict[str, Any]] = {}
    for name, table in request["tables"].items():
        answers[name] = {"data source": answered(partial(_by_data_source, spark, table))}
        for declared, statements in table["statements"].items():
            kind = next((suffix for suffix in ("_ro", "_rt") if declared.endswith(suffix)), "")
            read = partial(_by_input_format, spark, declared, statements)
            answers[name][f"input format{kind}"] = answered(partial(read, table["columns"]))
            if kind != "_rt":
                columns = [column for column in table["columns"] if column not in TIMESTAMPS]
                answers[name][f"input format{kind}{WITHOUT}"] = answered(partial(read, columns))
    print(REPLY + json.dumps({"spark": spark.version, "answers": answers}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
