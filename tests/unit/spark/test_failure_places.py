"""A failure of the Arrow path is logged by its class and place: its message may quote a value of a row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from support.builders import Events

from sluice.config.table import TableConfig
from sluice_spark.log import describe, failure_place
from sluice_spark.merge.by_arrow import attempt as merging
from sluice_spark.merge.context import PartContext, Stages

VALUE = "4111-1111"


def cast_fails(*_: Any, **__: Any) -> None:
    pa.array([VALUE]).cast(pa.int64())


def task_fails(*_: Any, **__: Any) -> None:
    raise PythonException(f"ArrowInvalid: Failed to parse string: '{VALUE}'")


def part_of(events: Events) -> PartContext:
    config = TableConfig("crm.user", "crm", "user", "crm.user", record_key=("id",))
    tables = SimpleNamespace(is_left_to_spark=lambda _: False, leave_to_spark=lambda _: None)
    part = SimpleNamespace(
        services=SimpleNamespace(in_driver=True, tables=tables, objects=None, source=None),
        config=config,
        hudi=SimpleNamespace(path="s3://silver/crm/user"),
        stages=Stages(cast(Any, SimpleNamespace(now_ms=lambda: 0))),
        claimed=SimpleNamespace(watch={}),
        spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1)),
        event=events.event,
    )
    return cast(PartContext, part)


def prepared(*, empty: bool) -> Any:
    facts = SimpleNamespace(schema=(), forgotten=(), empty=empty, floor=None, purged=None, rows=0)
    return SimpleNamespace(
        planned=SimpleNamespace(plan=None, target=()), refused=(), facts=facts, objects=(), source_clock=True
    )


@pytest.mark.parametrize("first_load", [False, True])
def test_a_merge_that_fails_logs_no_value(monkeypatch: pytest.MonkeyPatch, first_load: bool) -> None:
    events = Events()
    for name in ("part_plan", "with_files"):
        monkeypatch.setattr(merging, name, lambda *_, **__: SimpleNamespace(dumps=()))
    monkeypatch.setattr(merging, "_read_large_merge", task_fails)
    monkeypatch.setattr(merging, "merge_in_driver", cast_fails)
    assert merging.attempt(part_of(events), prepared(empty=first_load)) is None
    ((name, fields),) = events.seen
    assert (name, fields["reason"]) == ("left_to_spark", "failed")
    error = "PythonException" if first_load else "ArrowInvalid"
    assert str(fields["detail"]).startswith(f"{error} at sluice_spark/merge/by_arrow/attempt.py:")
    assert VALUE not in str(fields)


def test_a_failure_names_its_causes_and_what_is_of_sluice_last() -> None:
    try:
        try:
            cast_fails()
        except pa.ArrowInvalid as error:
            raise KeyError(VALUE) from error
    except KeyError as failure:
        assert failure_place(failure) == "KeyError, caused by ArrowInvalid"


OF_JAVA = """An error occurred while calling o3020.save.
: org.apache.hudi.exception.HoodieException: Failed to write
\tat org.apache.hudi.DataSourceUtils.write(DataSourceUtils.java:150)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.util.concurrent.ExecutionException: nested
\tat java.base/java.util.concurrent.FutureTask.get(FutureTask.java:191)
\t... 12 more
Caused by: java.lang.NumberFormatException: For input string: "big"
\tat java.base/java.lang.Long.parseLong(Long.java:711)
\t... 30 more
"""


def test_javas_innermost_and_outermost_exceptions_are_named_without_frames() -> None:
    assert describe(RuntimeError(OF_JAVA)) == (
        'java.lang.NumberFormatException: For input string: "big" '
        "(of org.apache.hudi.exception.HoodieException: Failed to write)"
    )
    alone = OF_JAVA[: OF_JAVA.index("Caused by")]
    assert describe(RuntimeError(alone)) == "org.apache.hudi.exception.HoodieException: Failed to write"
    assert describe(RuntimeError("two\nlines")) == "two\nlines"
