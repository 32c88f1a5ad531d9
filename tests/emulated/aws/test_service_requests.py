"""Requests for table services: their transitions, their order, and their conditional writes in the ledger."""

from __future__ import annotations

import pytest
from emulation.ledger_table_schema import create_ledger_table

from sluice.batch.claim import TableState
from sluice.batch.manifest import Manifest, ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.table import TableConfig
from sluice.lane.machine import HALT_AFTER_FAILURES
from sluice.ledger.keys import service_key, table_key
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice.services.planning import executable_at, impossible, plan_services
from sluice.services.policy import since
from sluice.services.requests import (
    CLEANING,
    COMPACTION,
    DONE,
    FAILED,
    GIVEN_UP_AFTER,
    PURGE,
    REQUESTED,
    RUNNING,
    RequestRefusal,
    ServiceError,
    ServiceReport,
    fail,
    finish,
    interrupt,
    opened,
    slice_done,
    start,
    withdraw,
)
from sluice.silver_keys import manifest_key
from sluice_aws.ledger.ledger import Ledger

NOW, MINUTE = 1_700_000_000_000, 60_000
LANE, TABLE = "main", "shop.orders"
PASSING, LASTING = ServiceError("spark_failed", "a task died"), ServiceError("table_differs", "no", retriable=False)


def a_request(before=None, service=COMPACTION, request="q-1", now=NOW, table=TABLE, **more):
    about = {"lane": LANE, "requested_by": "schedule", "now": now, **more}
    return opened(before, table=table, service=service, request=request, **about)


def begun(now=NOW, **more):
    return start(a_request(now=now, **more), "run-1", now, {"commits": 3})


def begun_again(state, run="run-1"):
    return start(state, run, NOW + 1, {"commits": 8})


def config(**more):
    return TableConfig(TABLE, *TABLE.split("."), topic=TABLE, record_key=("id",), **more)


class TestTransitions:
    def test_a_table_has_one_open_request_for_a_service(self):
        first = a_request()
        assert isinstance(a_request(first, request="q-2"), RequestRefusal)
        assert isinstance(a_request(begun(), request="q-2"), RequestRefusal)
        done = finish(begun(), "run-1", ServiceReport(), NOW + 1)
        assert a_request(done, request="q-2").state == REQUESTED

    def test_a_request_waits_for_the_minimum_interval_or_after_a_failure_for_back_off(self):
        done = finish(begun(), "run-1", ServiceReport(), NOW)
        assert a_request(done, request="q-2").not_before == NOW + 10 * MINUTE
        assert a_request(done, request="q-2", min_interval_ms=0).not_before == NOW
        given_up = fail(begun(), "run-1", LASTING, NOW)
        assert a_request(given_up, request="q-2", min_interval_ms=1).not_before == NOW + 30_000

    def test_slices_add_up_in_the_report(self):
        one = ServiceReport(4, 1, 400, 90, 7, 1_500, "i1", {"plans": 1})
        second = begun_again(slice_done(begun(), "run-1", one, NOW + 1))
        after = finish(second, "run-1", one.plus(ServiceReport(instant="i2")), NOW + 2)
        assert (after.state, after.slices, after.ended_at) == (DONE, 2, NOW + 2)
        assert after.report == ServiceReport(8, 2, 800, 180, 14, 3_000, "i2", {"plans": 2})
        assert after.report.seconds == 3.0
        assert ServiceReport.from_dict(after.report.to_dict()) == after.report

    def test_a_failed_slice_is_tried_again_later_and_given_up_in_the_end(self):
        state, waits = begun(), []
        for turn in range(GIVEN_UP_AFTER):
            now = NOW + turn * 3_600_000
            state = fail(start(state, "run-1", now, {}), "run-1", PASSING, now)
            waits.append(state.not_before - now if state.state == REQUESTED else state.state)
        assert waits == [30_000, 60_000, 120_000, 240_000, FAILED] and state.error == PASSING
        assert fail(begun(), "run-1", LASTING, NOW).state == FAILED

    def test_a_dead_runs_slice_is_retried_with_its_progress_and_the_run_is_fenced(self):
        left = begun_again(slice_done(begun(), "run-1", ServiceReport(rows=5), NOW))
        assert isinstance(interrupt(left, "run-1", NOW), RequestRefusal), "its own run knows better"
        interrupted = interrupt(left, "run-2", NOW)
        expected = (REQUESTED, "run_died", NOW + 30_000)
        assert (interrupted.state, interrupted.error.code, interrupted.not_before) == expected
        taken = start(interrupted, "run-2", NOW + 30_000, {"commits": 8})
        expected = ("run-2", NOW, 1, 5, {"commits": 3})
        assert (taken.run, taken.started_at, taken.slices, taken.report.rows, taken.seen) == expected
        for late in (slice_done, finish):
            assert isinstance(late(taken, "run-1", ServiceReport(), NOW), RequestRefusal)
        assert isinstance(fail(taken, "run-1", PASSING, NOW), RequestRefusal)

    def test_a_slice_in_which_runs_keep_dying_is_given_up_before_the_lane_is_halted(self):
        state, deaths = a_request(), 0
        while state.state != FAILED:
            deaths += 1
            state = interrupt(start(state, f"run-{deaths}", state.not_before, {}), "run-x", state.not_before)
        assert deaths < HALT_AFTER_FAILURES

    def test_nothing_begins_before_its_time_or_after_its_end(self):
        done = finish(begun(), "run-1", ServiceReport(), NOW)
        assert isinstance(start(a_request(done, request="q-2"), "run-1", NOW, {}), RequestRefusal)
        assert isinstance(start(done, "run-1", NOW, {}), RequestRefusal)
        assert isinstance(withdraw(done, LASTING, NOW), RequestRefusal)
        assert withdraw(a_request(), LASTING, NOW).state == FAILED

    def test_only_known_services_can_be_asked_for(self):
        with pytest.raises(ValueError, match="vacuum"):
            a_request(service="vacuum")


class TestTurns:
    def test_a_request_waits_for_a_paused_table_and_for_the_tables_back_off(self):
        request, state = a_request(), TableState(TABLE, backoff_until=NOW + 5)
        assert executable_at(request, config(), TableState(TABLE)) == NOW
        assert executable_at(request, config(), state) == NOW + 5
        assert executable_at(request, config(paused=True), TableState(TABLE)) is None
        assert executable_at(request, None, TableState(TABLE)) is None

    def test_an_impossible_request_gets_a_code(self):
        pinned = TableState(TABLE, pinned={"topic": TABLE})
        assert impossible(a_request(), config(), pinned) is None
        assert impossible(a_request(), None, pinned).code == "not_configured"
        assert impossible(a_request(), config(), TableState(TABLE)).code == "no_data"

    def test_the_one_that_waits_longest_is_next_and_an_overdue_one_goes_before_it(self):
        old, young = a_request(now=NOW - 9), a_request(table="shop.items", now=NOW - 5)
        ready = {(TABLE, COMPACTION): NOW - 9, ("shop.items", COMPACTION): NOW - 5}
        assert plan_services([young, old], ready, NOW).now == old and not plan_services([old], ready, NOW).overdue
        late = a_request(table="shop.items", now=NOW - 5, max_wait_ms=3)
        plan = plan_services([late, old], ready, NOW)
        assert plan.now == late and plan.overdue and plan.due_at == 0

    def test_a_request_of_many_slices_takes_turns_with_others(self):
        many = slice_done(begun(now=NOW - 60), "run-1", ServiceReport(), NOW - 1)  # waits for its next slice
        other = a_request(table="shop.items", now=NOW - 2)
        assert plan_services([many, other], {(TABLE, COMPACTION): 0, ("shop.items", COMPACTION): 0}, NOW).now == other

    def test_a_run_that_ends_knows_when_the_earliest_of_those_that_wait_is_due(self):
        ready = {(TABLE, COMPACTION): NOW + 7, (TABLE, PURGE): NOW + 3}
        plan = plan_services([a_request(), a_request(service=PURGE)], ready, NOW)
        assert (plan.now, plan.due_at) == (None, NOW + 3)
        assert plan_services([a_request()], {(TABLE, COMPACTION): None}, NOW).due_at is None

    def test_changes_since_a_service_are_derived_from_the_tables_totals(self):
        state = TableState(
            TABLE,
            totals={"commits": 9, "bytes_written": 700, "deleted": 2},
            services={CLEANING: {"at": NOW, "commits": 4, "bytes_written": 500}},
        )
        progress = since(state, CLEANING)
        assert (progress.commits, progress.bytes_written, progress.deleted, progress.at) == (5, 200, 2, NOW)
        assert since(state, PURGE).commits == 9


@pytest.fixture
def ledger(emulated):
    create_ledger_table(emulated, "ledger")
    yield Ledger(emulated, "ledger", sleep=lambda _: None)
    emulated.delete_table(TableName="ledger")


def asked(ledger, request="q-1", now=NOW, **more):
    return ledger.services.request(LANE, TABLE, COMPACTION, request=request, requested_by="schedule", now=now, **more)


def held(ledger, run="run-1"):
    ledger.lanes.request_start(LANE, run, NOW)
    ledger.lanes.started(LANE, run, f"job-{run}")
    assert ledger.lanes.hold(LANE, run, f"job-{run}", 1, NOW)


class TestLedger:
    def test_a_request_wakes_its_lane_once_and_a_second_finds_it_open(self, ledger):
        first, again, other = asked(ledger), asked(ledger), asked(ledger, "q-2")
        assert first.new and not again.new and not other.new and first.request == again.request == other.request
        assert ledger.lanes.get(LANE).arrivals == 1
        assert ledger.services.open_of_lane(LANE) == [first.request] == [ledger.services.get(LANE, TABLE, COMPACTION)]

    def test_only_the_holder_of_the_lane_begins_a_request(self, ledger):
        request = asked(ledger).request
        assert ledger.services.start(request, "run-1", "job-run-1", NOW) is None
        held(ledger)
        assert ledger.services.start(request, "run-1", "another", NOW) is None
        assert ledger.services.start(request, "run-1", "job-run-1", NOW).state == RUNNING

    def test_a_request_goes_through_its_slices_to_its_end_and_the_table_remembers_it(self, ledger):
        held(ledger)
        settle_one(ledger)
        request = ledger.services.start(asked(ledger).request, "run-1", "job-run-1", NOW)
        settle_one(ledger, 1)  # what is committed between two slices is the next compaction's
        waits = ledger.services.slice_done(request, "run-1", ServiceReport(rows=2, ms=1_200), NOW + 1)
        assert (waits.slices, waits.state) == (1, REQUESTED) and ledger.services.open_of_lane(LANE) == [waits]
        request = ledger.services.start(waits, "run-1", "job-run-1", NOW + 1)
        done = ledger.services.finish(request, "run-1", ServiceReport(rows=1, instant="i9"), NOW + 2)
        assert (done.state, done.report.rows, done.slices) == (DONE, 3, 2) and ledger.services.open_of_lane(LANE) == []
        assert ledger.services.of_lane(LANE) == [done] == [ledger.services.get(LANE, TABLE, COMPACTION)]
        progress = since(ledger.tables.get(TABLE), COMPACTION)
        assert (progress.commits, progress.bytes_written, progress.at, progress.instant) == (1, 50, NOW + 2, "i9")
        assert asked(ledger, "q-2", NOW + 3).new

    def test_a_failure_stays_with_the_request_and_a_run_that_lost_it_changes_nothing(self, ledger):
        held(ledger)
        request = ledger.services.start(asked(ledger).request, "run-1", "job-run-1", NOW)
        failed = ledger.services.fail(request, "run-1", PASSING, NOW)
        stored = ledger.services.get(LANE, TABLE, COMPACTION)
        assert (failed.state, failed.error) == (stored.state, stored.error) == (REQUESTED, PASSING)
        assert ledger.services.start(request, "run-1", "job-run-1", NOW) is None, "it backs off"
        assert ledger.services.finish(request, "run-2", ServiceReport(), NOW) is None
        again = ledger.services.start(request, "run-1", "job-run-1", failed.not_before)
        assert ledger.services.interrupt(again, "run-2", NOW).error.code == "run_died"
        assert ledger.services.withdraw(request, LASTING, NOW).state == FAILED
        assert ledger.services.withdraw(request, LASTING, NOW) is None

    def test_a_purge_floor_only_rises_and_is_kept_by_generation(self, ledger):
        ledger.tables.raise_purge_floor(TABLE, {0: "0000.5", 1: "0001.2"})
        ledger.tables.raise_purge_floor(TABLE, {0: "0000.3", 1: "0001.9"})
        assert ledger.tables.get(TABLE).purge_floors == {"0": "0000.5", "1": "0001.9"}

    def test_its_items_have_the_documented_keys(self, ledger, emulated):
        asked(ledger)
        key = {name: {"S": value} for name, value in service_key(LANE, TABLE, COMPACTION).items()}
        stored = emulated.get_item(TableName="ledger", Key=key)["Item"]
        expected = ("service#main", "shop.orders#compaction", REQUESTED)
        assert (stored["pk"]["S"], stored["sk"]["S"], stored["state"]["S"]) == expected
        assert table_key(TABLE)["pk"] == "table#shop.orders"


def settle_one(ledger, n=0):
    """One committed batch of the table, through the ledger's own steps."""
    facts = {"table": TABLE, "lane": LANE, "topic": TABLE, "format": "avro", "size": 1}
    one = AdmittedObject(ObjectId("bronze", f"part-{n}.avro", "v"), "pending", NOW, **facts)
    ledger.objects.admit(one)
    listed = ManifestObject(one.id.bucket, one.id.key, one.id.version, 1, None, "avro", TABLE, None, None, NOW)
    manifest: Manifest = open_manifest(LANE, "run-1", NOW, "c", {TABLE: TablePart(config().to_dict(), (listed,))})
    assert ledger.batches.open(manifest, manifest_key(LANE, manifest.batch), "run-1", "job-run-1")
    ledger.batches.claim(manifest)
    outcome = Outcome(manifest.batch, TABLE, COMMITTED, committed_at=NOW, instant=f"i{n}", counts={"bytes_written": 50})
    assert ledger.batches.settle(LANE, manifest.batch, outcome, [one.id], "run-1", NOW)
    ledger.batches.close(LANE, manifest.batch, "run-1", NOW)
