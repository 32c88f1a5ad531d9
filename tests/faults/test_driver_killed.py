"""kill -9 of a driver between two tables' commits, on the local stack with real Spark."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from boto3.dynamodb.types import TypeDeserializer
from judging.cases import ONE_GO, Case
from judging.fixture_sets import find_set
from judging.patience import patient
from judging.readers import RustReader
from judging.running_stack import RunningStack
from judging.verdict import judge

from sluice_bench.measure.ledger_times import await_until, lane_item

pytestmark = pytest.mark.timeout(900)
CASE = Case("tickit_small", "in_order", ONE_GO, "cow", run="killed")
FIRST_COMMIT_S = 180.0


def batch_items(stack: RunningStack) -> list[dict]:
    """The ledger's items of the batches that hold a table of the case, and of these tables' parts."""
    read = TypeDeserializer().deserialize
    pages = (
        stack.target.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=stack.target.ledger_table,
            ConsistentRead=True,
            FilterExpression="begins_with(pk, :batch)",
            ExpressionAttributeValues={":batch": {"S": "batch#"}},
        )
    )
    items = [{name: read(value) for name, value in item.items()} for page in pages for item in page["Items"]]
    mine = {item["pk"] for item in items if item["sk"].startswith(f"table#{CASE.database}.")}
    return [item for item in items if item["pk"] in mine]


def parts(stack: RunningStack) -> list[dict]:
    """The part of each table in each batch."""
    return [item for item in batch_items(stack) if item["sk"].startswith(f"table#{CASE.database}.")]


def processes_of_runs(stack: RunningStack) -> list[int]:
    """The JVMs, drivers and workers of this stack's job runs: processes started with its home."""
    runs, found = os.fsencode(stack.home / "runs"), []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                started_with = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            if runs in started_with:
                found.append(int(process.name))
    return found


def kill_between_two_commits(stack: RunningStack) -> set[str]:
    """Wait until some tables of a batch are committed and others are not, and kill; returns the killed runs."""
    until = time.monotonic() + patient(FIRST_COMMIT_S)
    while time.monotonic() < until:
        states: dict[str, set[str]] = {}
        for part in parts(stack):
            states.setdefault(part["pk"], set()).add(part["state"])
        if any({"committed", "claimed"} <= found for found in states.values()):
            for pid in processes_of_runs(stack):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it ended with its parent
                    continue
            return {part["run"] for part in parts(stack)}
        time.sleep(0.05)  # no event announces a part
    pytest.fail(f"no batch was caught half committed: {parts(stack)}")


def start_when_due(stack: RunningStack) -> None:
    """Have the lane supervised when its back-off ends, and not a minute later by the schedule."""

    def due() -> bool:
        lane = lane_item(stack.target.client("dynamodb"), stack.target.ledger_table, "main")
        return lane["state"] == "idle" and (lane.get("backoff_until") or 0) <= time.time() * 1000

    await_until(due, timeout_s=120, what="the end of the killed run's back-off")
    stack.target.client("lambda").invoke(FunctionName=stack.target.outputs["SuperviseFunction"], Payload=b"{}")


def test_the_next_run_finishes_the_batch_of_a_killed_driver(stack: RunningStack, tmp_path: Path) -> None:
    """Nothing is lost or doubled: the tables equal the source's rows."""
    fixtures = find_set(CASE.set_name, os.environ)
    stack.configure(CASE.rules(fixtures.plan.topics))
    for _, objects in CASE.steps(fixtures):
        for item in objects:
            stack.put(CASE.key(item.key), item.file)
    killed = kill_between_two_commits(stack)
    left = {(part["pk"], part["sk"]) for part in parts(stack) if part["state"] == "claimed"}
    assert left, "the driver was not killed in time"
    start_when_due(stack)
    stack.wait(300, strict=False)
    finished = {(part["pk"], part["sk"]) for part in parts(stack) if part["run"] not in killed}
    assert left <= finished, "another run finishes what was left, under the same batch id"
    assert {item["state"] for item in batch_items(stack)} == {"committed"}
    rows = tmp_path / "rows"
    rows.mkdir()
    RustReader(stack.target).write_rows(
        {CASE.table(topic): rows / f"{topic.rsplit('.', 1)[1]}.jsonl" for topic in fixtures.plan.topics}
    )
    verdict = judge(fixtures, rows, fixtures.phases[-1], os.environ)
    assert verdict.equal, verdict.differences()
