"""`sluice rebuild table` beside a run, and by an operator's clock that is off."""

import time
from types import SimpleNamespace

import pytest
from emulation.merged_stack import TABLE, Merged
from emulation.stack import NOW

from sluice_aws import clock
from sluice_aws.s3.objects import Objects, SkippedDocuments
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_cli.tables import rebuild as rebuilding

TABLES = "tables:\n  - {topic: crm.public.user, table: crm.user, record_key: id}\n"
HOUR_MS = 3_600_000


@pytest.fixture
def merged(stack, tables, invoked, sluice):
    """Lane main is running, held by run-1, and has merged one object."""
    sluice("config push --yes", tables(TABLES))
    made = Merged(stack)
    _, (made.first,) = made.merge("first", at=2)
    return made


def released(stack):
    state = stack.ledger.lanes.get("main")
    return stack.ledger.lanes.release("main", "run-1", state.arrivals, None, NOW)


def commits(merged, late, batch=None):
    """The run's next batch, opened unless it was, committed and settled."""
    batch = batch or merged.opened(late)
    merged.commit_file(3, batch)
    merged.settled(batch, late, at=3)


def while_planned(monkeypatch, also):
    """Call `also` once, when the objects are read, while the plan is made."""
    whole, still = rebuilding.plan_replay, [also]

    def slowly(*given, **more):
        plan = whole(*given, **more)
        if still:
            still.pop()()
        return plan

    monkeypatch.setattr(rebuilding, "plan_replay", slowly)


@pytest.mark.parametrize("claimed_before", [False, True], ids=["pending", "claimed"])
def test_a_run_that_ends_while_the_rebuild_is_planned_is_an_obstacle(
    stack, merged, monkeypatch, sluice, claimed_before
):
    late = stack.admit(stack.write("late"))
    batch = merged.opened(late) if claimed_before else None
    sluice("pause main")  # asks the run to end after its batch

    def ends():
        commits(merged, late, batch)
        assert released(stack)

    while_planned(monkeypatch, ends)
    assert "lane main is running" in "".join(sluice("rebuild table", TABLE, "--yes", code=1))
    assert stack.ledger.tables.get(TABLE).rebuild is None

    sluice("rebuild table", TABLE, "--yes")
    assert stack.ledger.objects.get([late])[late].state == "pending"


def test_a_lane_that_ran_while_the_rebuild_was_planned_is_refused(stack, merged, monkeypatch, sluice):
    sluice("pause main")
    assert released(stack)
    late = stack.admit(stack.write("late"))

    def runs():
        stack.ledger.lanes.resume("main")
        stack.ledger.lanes.request_start("main", "run-1", NOW)
        stack.ledger.lanes.hold("main", "run-1", "job", 1, NOW)
        stack.ledger.lanes.pause("main")
        commits(merged, late)
        assert released(stack)

    while_planned(monkeypatch, runs)
    assert "may have run since" in "".join(sluice("rebuild table", TABLE, "--yes", code=1))
    assert stack.ledger.tables.get(TABLE).rebuild is None


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS], ids=["behind", "ahead"])
def test_a_rebuild_is_stamped_by_the_time_of_the_store(stack, merged, monkeypatch, off_ms, sluice):
    sluice("pause main")
    assert released(stack)
    monkeypatch.setattr(clock, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + off_ms * 1_000_000))
    before = time.time() * 1000
    sluice("rebuild table", TABLE, "--yes")
    marks = PastRebuilds.read(Objects(stack.s3), "s-silver", SkippedDocuments())
    (record,) = stack.ledger.objects.get([merged.first]).values()
    for stamped in (marks.last_at[TABLE], record.replayed_at):
        assert before - 2_000 <= stamped <= time.time() * 1000 + 2_000
