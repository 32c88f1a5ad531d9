"""A table is rebuilt on a running stack from its objects, with another type and other partition columns."""

import secrets
from typing import Any

import pytest
from judging.running_stack import RunningStack
from support import builders
from support.shapes import lines

from sluice_bench.measure.ledger_times import await_until
from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(600)


def change(op: str, lsn: int, id: int, region: str | None = None, name: str | None = None) -> dict[str, Any]:
    return builders.change(op, lsn, source_ts_ms=lsn, id=id, region=region, name=name)


OBJECTS = [
    [change("c", 10, 1, "a", "one"), change("c", 11, 2, "a", "two"), change("c", 12, 3, "b", "three")],
    [change("u", 20, 1, "b", "eins"), change("d", 21, 2)],
    [change("u", 15, 3, "a", "came late"), change("c", 30, 4, "c", "four")],
]
ROWS = [(1, "b", "eins"), (3, "a", "came late"), (4, "c", "four")]


@pytest.mark.whole  # emulated/cli/test_rebuild.py proves it without Spark
def test_a_rebuilt_table_gets_another_type_and_other_partitions(stack: RunningStack) -> None:
    table = f"rebuilt{secrets.token_hex(3)}.t"
    rule = {"topic": table, "table": table, "record_key": "id"}
    stack.configure([rule])
    for offset, changes in enumerate(OBJECTS):
        put(stack, table, offset * 10, changes)
    stack.wait(240, strict=False)
    assert rows(stack, table) == ROWS

    stack.sluice("pause", "main")
    ledger = stack.target.ledger
    await_until(
        lambda: ledger.lanes.get("main").state == "paused", timeout_s=120, what="the end of the run before the pause"
    )
    stack.sluice("rebuild", "table", table, "--yes")
    assert not any(key.startswith(table.replace(".", "/")) for key in silver(stack))
    stack.configure([{**rule, "table_type": "mor", "partition_by": "region"}])
    put(
        stack, table, 90, [change("u", 14, 4, "a", "too late"), change("u", 40, 3, "b", "drei")]
    )  # it comes while the table is empty
    stack.sluice("resume", "main")
    stack.wait(240, strict=False)
    assert rows(stack, table) == [(1, "b", "eins"), (3, "b", "drei"), (4, "c", "four")]
    shown = stack.describe("table", "show", table)
    assert (shown["type"], shown["partition_by"]) == ("merge-on-read", ["region"])


def put(stack: RunningStack, table: str, offset: int, changes: list[dict[str, Any]]) -> None:
    stack.put(f"topics/{table}/{table}+0+{offset:010d}.json", lines(*changes))


def silver(stack: RunningStack) -> list[str]:
    pages = stack.target.client("s3").get_paginator("list_objects_v2").paginate(Bucket=stack.target.silver)
    return [item["Key"] for page in pages for item in page.get("Contents", ())]


def rows(stack: RunningStack, table: str) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["region"], row["name"]) for row in read_table(stack.target, table).to_pylist())
