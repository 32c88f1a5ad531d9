"""Table services on the local stack: a live run does a due compaction; an idle lane gets a run for it."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from judging.patience import patient
from judging.running_stack import RunningStack

from sluice.services.requests import COMPACTION, DONE, FAILED
from sluice_bench.data.tickit import Dataset, change_object
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure.ledger_times import await_until, lane_item
from sluice_bench.measure.stack import table_rule
from sluice_read.reading import read_table

LANE = "services"
# Long enough for a look at what is due; and for a lane that shall be idle soon.
LINGERS, LEAVES = f"{patient(12):.0f}s", "1s"


class Venues:
    """A merge-on-read table of venues in a lane of its own, and what becomes of services on it."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.database = f"served{secrets.token_hex(3)}"
        self.dataset = Dataset(Sizes(*[2] * 7), prefix=f"{self.database}.")
        self.table = f"{self.database}.venue"
        self.changes = 0

    def configure(self, *, commits: int, linger: str) -> None:
        """Compaction after so many commits, and nothing else."""
        rule = table_rule(self.dataset.prefix, self.database, "venue", "mor")
        off = dict.fromkeys(("clustering", "cleaning", "archival", "purge"), "off")
        services = {**off, "interval": 0, "compaction": {"commits": commits}}
        self.stack.configure([{**rule, "lane": LANE, "services": services}], lanes={LANE: {"linger": linger}})

    def commit(self) -> None:
        """One change of venue 1 in a batch of its own."""
        self.changes += 1
        key, body = change_object(
            self.dataset,
            "venue",
            1,
            change=self.changes,
            op="c" if self.changes == 1 else "u",
            ts_ms=1_795_300_000_000 + self.changes,
            venuename=f"name {self.changes}",
        )
        self.stack.put(key, body)
        self.stack.wait(120)

    def lane(self) -> Mapping[str, Any]:
        return lane_item(self.stack.target.client("dynamodb"), self.stack.target.ledger_table, LANE)

    def compaction(self) -> Mapping[str, Any] | None:
        """The last request, as `sluice ops services list` tells it."""
        summary = self.stack.describe("ops", "services", "list", self.table)["services"]
        return next((entry for entry in summary if entry["service"] == "compaction"), None)

    def done(self, *, not_before: int) -> Callable[[], bool]:
        """Whether a compaction that was asked for since then has ended well."""
        ledger = self.stack.target.ledger

        def has_ended() -> bool:
            request = ledger.services.get(LANE, self.table, COMPACTION)
            assert request is None or request.state != FAILED, request
            return request is not None and request.state == DONE and request.requested_at >= not_before

        return has_ended

    def names(self, *, read_optimized: bool) -> list[str]:
        rows = read_table(self.stack.target, f"{self.table}_ro" if read_optimized else self.table).to_pylist()
        return [row["venuename"] for row in rows]

    def executions(self) -> Iterator[Mapping[str, Any]]:
        listing = self.stack.target.client("stepfunctions").get_paginator("list_executions")
        for page in listing.paginate(stateMachineArn=self.stack.target.outputs["TableServices"]):
            yield from page["executions"]


@pytest.fixture
def venues(stack: RunningStack) -> Venues:
    return Venues(stack)


@pytest.mark.whole
def test_a_due_service_is_done_by_the_living_run_or_by_one_started_for_it(venues: Venues) -> None:
    venues.configure(commits=3, linger=LINGERS)
    for _ in range(3):
        venues.commit()
    first_run = venues.lane()["run_id"]
    assert venues.names(read_optimized=False) == ["name 3"]
    await_until(venues.done(not_before=0), timeout_s=60, what="a compaction by the living run")
    report = venues.compaction()
    assert report is not None and report["requested_by"] == "table_services"
    assert report["report"]["files_before"] > 0 and report["instant"]
    runs = {venues.lane().get(name, first_run) for name in ("run_id", "last_run_id")}
    assert runs == {first_run}, "no other run was needed"
    assert venues.names(read_optimized=True) == venues.names(read_optimized=False) == ["name 3"]

    venues.configure(commits=3, linger=LEAVES)
    venues.commit()
    await_until(lambda: venues.lane()["state"] == "idle", timeout_s=60, what="an idle lane")
    assert venues.names(read_optimized=True) == ["name 3"] and venues.names(read_optimized=False) == ["name 4"]
    last_run, asked_at = venues.lane()["last_run_id"], int(report["ended_at"])
    venues.configure(commits=1, linger=LEAVES)  # one commit since: due at once, and no object will wake the lane
    states = venues.stack.target.client("stepfunctions")
    machine = venues.stack.target.outputs["TableServices"]
    look = states.start_execution(stateMachineArn=machine, input="{}")["executionArn"]
    await_until(venues.done(not_before=asked_at), timeout_s=90, what="a compaction by a run that was started for it")
    await_until(lambda: venues.lane()["state"] == "idle", timeout_s=60, what="the lane given back")
    assert venues.lane()["last_run_id"] != last_run
    assert venues.names(read_optimized=True) == ["name 4"]

    def statuses() -> set[str]:
        return {execution["status"] for execution in venues.executions()}

    await_until(lambda: "RUNNING" not in statuses(), timeout_s=60, what="the end of every look")
    assert statuses() == {"SUCCEEDED"}, states.describe_execution(executionArn=look)
