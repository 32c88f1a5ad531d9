"""kill -9 of a driver between two tables' commits, on the local stack with real Spark."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from boto3.dynamodb.types import TypeDeserializer
from judging.cases import ONE_GO, Case
from judging.fixture_sets import find_set
from judging.readers import RustReader
from judging.running_stack import RunningStack, local_stack
from judging.verdict import judge

pytestmark = [pytest.mark.fault, pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(900)]
CASE = Case("tickit_small", "in_order", ONE_GO, "cow")
TABLES = 7
FIRST_COMMIT_S = 180.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with local_stack(tmp_path_factory.mktemp("killed-stack")) as running:
        yield running


def batch_items(stack: RunningStack) -> list[dict]:
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
    return [{name: read(value) for name, value in item.items()} for page in pages for item in page["Items"]]


def parts(stack: RunningStack) -> list[dict]:
    return [item for item in batch_items(stack) if item["sk"].startswith("table#")]


def processes_of_runs(stack: RunningStack) -> list[int]:
    """The JVMs, drivers and workers of this stack's job runs, told by its home in what they were started with."""
    runs, found = os.fsencode(stack.home / "runs"), []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                summary = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            if runs in summary:
                found.append(int(process.name))
    return found


def kill_between_two_commits(stack: RunningStack) -> set[str]:
    """Waits until some tables of a batch are committed and others are not; returns the runs that were killed."""
    until = time.monotonic() + FIRST_COMMIT_S
    while time.monotonic() < until:
        states = Counter(part["state"] for part in parts(stack))
        if states["committed"] and states["claimed"]:
            for pid in processes_of_runs(stack):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it ended with its parent
                    continue
            return {part["run"] for part in parts(stack)}
        time.sleep(0.05)  # no event tells of a part
    pytest.fail(f"no batch was caught half committed: {parts(stack)}")


def test_the_next_run_finishes_the_batch_of_a_killed_driver_and_nothing_is_lost_or_doubled(
    stack: RunningStack, tmp_path: Path
):
    fixtures = find_set(CASE.set_name, os.environ)
    stack.configure(CASE.rules(fixtures.plan.topics))
    for _, objects in CASE.steps(fixtures):
        for item in objects:
            stack.put(CASE.key(item.key), item.file)
    killed = kill_between_two_commits(stack)
    left = {part["sk"] for part in parts(stack) if part["state"] == "claimed"}
    assert left, "the driver was not killed in time"
    stack.wait(300)
    after = parts(stack)
    finished = [part for part in after if part["sk"] in left and part["run"] not in killed]
    assert {part["sk"] for part in finished} == left, "another run finishes what was left"
    half = {part["pk"] for part in after if part["run"] in killed}
    assert {part["pk"] for part in finished} <= half, "under the same batch id"
    assert {item["state"] for item in batch_items(stack)} == {"committed"}
    rows = tmp_path / "rows"
    rows.mkdir()
    RustReader(stack.target).write_rows(
        {CASE.table(topic): rows / f"{topic.rsplit('.', 1)[1]}.jsonl" for topic in fixtures.plan.topics}
    )
    verdict = judge(fixtures, rows, fixtures.phases[-1], os.environ)
    assert verdict.equal, verdict.differences()
