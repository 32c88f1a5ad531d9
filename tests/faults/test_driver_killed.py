"""kill -9 of a driver between two tables' commits, and SIGSTOP in a write, on the local stack with real Spark."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from boto3.dynamodb.types import TypeDeserializer
from judging.cases import ONE_GO, Case
from judging.fixture_sets import PLANS, find_set
from judging.patience import patient
from judging.readers import RustReader
from judging.running_stack import RunningStack
from judging.verdict import judge

from sluice.hudi.timeline import Instant, Timeline
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader
from sluice_bench.measure.ledger_times import await_until, lane_item

pytestmark = pytest.mark.timeout(900)
CASE = Case("tickit_small", "in_order", ONE_GO, "cow", run="killed")
STOPPED = Case("tickit_small", "in_order", ONE_GO, "cow", run="stopped")
FIRST_COMMIT_S = 180.0


def batch_items(stack: RunningStack, case: Case = CASE) -> list[dict]:
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
    mine = {item["pk"] for item in items if item["sk"].startswith(f"table#{case.database}.")}
    return [item for item in items if item["pk"] in mine]


def parts(stack: RunningStack, case: Case = CASE) -> list[dict]:
    """The part of each table in each batch."""
    return [item for item in batch_items(stack, case) if item["sk"].startswith(f"table#{case.database}.")]


def processes_of_runs(stack: RunningStack, job_run: str = "") -> list[int]:
    """The JVMs, drivers and workers of this stack's job runs, or of one: processes started with its home."""
    runs, found = os.fsencode(stack.home / "runs" / job_run), []
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
    for topic in fixtures.plan.topics:
        assert json.loads(stack.sluice("verify", "--json", CASE.table(topic)))["disagreements"] == []
    assert json.loads(stack.sluice("audit", "--json"))["contradictions"] == []


def timelines(stack: RunningStack, case: Case) -> dict[str, Timeline]:
    """The timeline of each table of a case."""
    reader = TimelineReader(SilverBucket(stack.target.client("s3"), stack.target.silver))
    return {case.table(topic): reader.timeline(case.table(topic)) for topic in PLANS[case.set_name].topics}


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.whole
def test_a_stopped_driver_that_was_replaced_changes_nothing_when_it_goes_on(
    stack: RunningStack, tmp_path: Path
) -> None:
    """It is stopped while an instant of its own is unfinished; EMR's verdict about it is forged."""
    fixtures = find_set(STOPPED.set_name, os.environ)
    stack.configure(STOPPED.rules(fixtures.plan.topics))
    for _, objects in STOPPED.steps(fixtures):
        for item in objects:
            stack.put(STOPPED.key(item.key), item.file)
    ledger = DynamoDbLedger(stack.target.client("dynamodb"), stack.target.ledger_table)

    await_until(
        lambda: any(timeline.pending for timeline in timelines(stack, STOPPED).values()),
        timeout_s=FIRST_COMMIT_S,
        what="an unfinished instant",
    )
    lane = ledger.lanes.get("main")
    stopped = processes_of_runs(stack, lane.job_run_id)
    send(stopped, signal.SIGSTOP)
    try:
        unfinished = {table: found.pending for table, found in timelines(stack, STOPPED).items() if found.pending}
        now = int(time.time() * 1000)
        assert ledger.lanes.lapse("main", lane.run_id, now, job_run_id=lane.job_run_id, reason="forged") is not None
        ledger.lanes.resume("main")
        start_when_due(stack)
        stack.wait(600)
    finally:
        send(stopped, signal.SIGCONT)
    await_until(
        lambda: not processes_of_runs(stack, lane.job_run_id),
        timeout_s=120,
        what="the end of what was stopped",
    )

    assert unfinished, "the driver was not stopped in a write"
    events = (stack.home / "runs" / lane.job_run_id / "stdout").read_text().splitlines()
    assert all(json.loads(event)["at"] <= now for event in events if event.startswith("{")), "it did nothing more"
    back = {
        table: [
            instant for instant in found.pending + found.commits if instant.time in _times(unfinished.get(table, ()))
        ]
        for table, found in timelines(stack, STOPPED).items()
    }
    assert not any(back.values()), "no instant that was rolled back is on a timeline again"
    rows = tmp_path / "rows"
    rows.mkdir()
    RustReader(stack.target).write_rows(
        {STOPPED.table(topic): rows / f"{topic.rsplit('.', 1)[1]}.jsonl" for topic in fixtures.plan.topics}
    )
    verdict = judge(fixtures, rows, fixtures.phases[-1], os.environ)
    assert verdict.equal, verdict.differences()


def _times(instants: tuple[Instant, ...]) -> set[str]:
    return {instant.time for instant in instants}
