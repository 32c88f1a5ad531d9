"""plan_services: one look for a burst of commits, requests for due services, and idle lanes taken once."""

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest
from emulation.aws import set_fields
from emulation.deployment import TOPIC, Recorder, context
from plan_services.handler import handler
from support.builders import aws_error, halt, note_commit

from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.rules.table_rule import TableRule
from sluice.config.services import Pace, ServicePolicy
from sluice.lane.job_request import JobEnvironment
from sluice.lane.machine import IDLE, STARTING
from sluice.ledger.keys import table_key
from sluice.names import timed_id
from sluice.services.planning import Asked
from sluice.services.requests import COMPACTION, ServiceError
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.lanes.start import Starter, Waker
from sluice_aws.services import planner as service_planner
from sluice_aws.services.planner import FOLLOWED_FOR_MS, ServicePlanner

NOW = 1_700_000_000_000
MINUTE = 60_000
POLICY = ServicePolicy(compaction=Pace(commits=2, age_s=600), cleaning=Pace(on=False), archival=Pace(on=False))


def rule(table, topic=TOPIC):
    return TableRule(table, ("id",), topic=topic, table_type="mor", services=POLICY)


class Looking:
    """A planner whose clock stands still until it is moved, and a table of the test topic."""

    def __init__(self, deployment):
        self.deployment, self.ledger, self.now, self.report = deployment, deployment.ledger, NOW, Recorder()
        self._numbers = iter(range(1, 1_000))
        self.use(release="r1")
        self.configuration = deployment.configure(rule("shop.orders"))
        self.ledger.tables.pin("shop.orders", {"topic": TOPIC})

    def use(self, release):
        """Plan with this release of the Spark code; empty for none."""
        names = ("arn:aws:iam::123456789012:role/job", "us-west-2", release, "ledger", "b", "s", "a", "file:///h.jar")
        starter = Starter(
            ledger=self.ledger,
            job_runs=JobRuns(self.deployment.emr, self.deployment.application),
            environment=JobEnvironment(self.deployment.application, *names),
            report=self.report,
            now=lambda: self.now,
            entropy=self._entropy,
        )
        shared = {"ledger": self.ledger, "report": self.report, "now": lambda: self.now}
        waker = Waker(starter=starter if release else None, **shared)
        self.planner = ServicePlanner(waker=waker, entropy=self._entropy, pause_s=30, **shared)

    def _entropy(self):
        return f"{next(self._numbers):08x}"

    def commit(self, times=1, table="shop.orders", **counts):
        outcome = Outcome(f"b{self.now}", table, COMMITTED, instant=f"{self.now}", committed_at=self.now, counts=counts)
        note_commit(self.ledger, outcome, {name: times * number for name, number in {"commits": 1, **counts}.items()})

    def plan(self):
        return self.planner.plan(self.configuration)

    def serve(self, request, error=None):
        """The lane's holder does what was asked for, or fails at it."""
        lane = self.ledger.lanes.get("main")
        run, job = lane.run_id, lane.job_run_id
        self.ledger.lanes.hold("main", run, job, 1, self.now)
        asked = self.ledger.services.get("main", request["table"], request["service"])
        begun = self.ledger.services.start(asked, run, job, self.now)
        if error is None:
            return self.ledger.services.finish(begun, run, begun.report, self.now)
        return self.ledger.services.fail(begun, run, error, self.now)


@pytest.fixture
def looking(deployment):
    return Looking(deployment)


def test_of_a_burst_of_commits_the_first_looks_and_the_next_window_has_its_own(looking):
    assert looking.planner.gather() == {"go": True, "wait_s": 30}
    assert not looking.planner.gather()["go"]
    looking.now += 30_000
    assert looking.planner.gather()["go"] and not looking.planner.gather()["go"]


def test_due_services_are_requested_once_and_the_idle_lane_starts_once(looking):
    looking.commit(2)
    plan = looking.plan()
    (request,), (run,) = plan["follow"]["requests"], plan["runs"]
    expected = ("main", "shop.orders", COMPACTION, 1)
    assert (request["lane"], request["table"], request["service"], plan["follow"]["open"]) == expected
    lane = looking.ledger.lanes.get("main")
    (started,) = looking.deployment.job_runs()
    assert (lane.state, lane.run_id, lane.job_run_id) == (STARTING, run["run"], started.id)
    assert run == {"lane": "main", "run": started.name, "job_run": started.id, "wait_s": 30, "looks": 0}
    again = looking.plan()
    assert again["follow"]["requests"] == again["runs"] == []
    assert len(looking.deployment.job_runs()) == 1, "a repeated plan starts no second run"


def test_a_refused_start_leaves_the_lane_to_supervise_and_fails_no_plan(looking, monkeypatch):
    refused = Mock(side_effect=aws_error("ThrottlingException", "StartJobRun"))
    monkeypatch.setattr(looking.planner.waker.starter.job_runs, "start", refused)
    looking.commit(2)
    plan = looking.plan()
    lane = looking.ledger.lanes.get("main")
    assert plan["runs"] == [] and plan["syncs"] and len(plan["follow"]["requests"]) == 1
    assert (lane.state, lane.job_run_id) == (STARTING, None) and looking.report.metrics["StartsFailed"] == 1


def test_a_request_that_cannot_be_made_fails_no_plan(looking):
    looking.use(release="not a word")
    looking.commit(2)
    plan = looking.plan()
    assert plan["runs"] == [] and plan["syncs"] and len(plan["follow"]["requests"]) == 1
    assert looking.ledger.lanes.get("main").state == IDLE and "start_failed" in looking.report.names()


def test_a_living_run_is_asked_and_no_other_is_started(looking):
    looking.ledger.lanes.wake("main")
    looking.ledger.lanes.request_start("main", "run-1", NOW)
    looking.ledger.lanes.hold("main", "run-1", "job1", 1, NOW)
    before = looking.ledger.lanes.get("main").arrivals
    looking.commit(2)
    plan = looking.plan()
    assert plan["runs"] == [] and len(plan["follow"]["requests"]) == 1
    assert looking.ledger.lanes.get("main").arrivals == before + 1, "so it can't release the lane without having looked"


@pytest.mark.parametrize("stop", ["pause", "halt"])
def test_a_lane_that_takes_no_run_is_asked_for_nothing(looking, stop):
    looking.commit(2)
    if stop == "pause":
        looking.ledger.lanes.pause("main")
    else:
        halt(looking.ledger, "main")
    plan = looking.plan()
    assert plan["runs"] == plan["follow"]["requests"] == [] and "service_waits_for_lane" in looking.report.names()
    assert plan["syncs"], "the catalog needs no lane"
    looking.ledger.lanes.resume("main")
    assert len(looking.plan()["follow"]["requests"]) == 1


def test_nothing_is_due_without_commits_or_configuration_or_for_a_reassigned_topic(looking):
    assert looking.plan()["follow"]["requests"] == []
    looking.commit(2)
    assert looking.planner.plan(None)["follow"]["requests"] == []
    elsewhere = looking.deployment.configure(rule("shop.other"))
    assert looking.planner.plan(elsewhere)["syncs"] == looking.planner.plan(elsewhere)["follow"]["requests"] == []


def test_the_catalog_is_behind_until_a_sync_of_the_last_commit_is_remembered(looking):
    looking.commit()
    (sync,) = looking.plan()["syncs"]
    assert sync == {"table": "shop.orders", "instant": f"{NOW}", "commits": "1", "at": f"{NOW}"}
    # As the state machine writes it.
    synced = {"instant": sync["instant"], "commits": int(sync["commits"]), "at": int(sync["at"])}
    set_fields(looking.ledger, table_key("shop.orders"), service_catalog=synced)
    looking.now += 5 * MINUTE
    assert looking.plan()["syncs"] == []
    looking.commit()
    assert len(looking.plan()["syncs"]) == 1
    failed = {"at": looking.now, "error": "NameTaken", "instant": "1"}
    set_fields(looking.ledger, table_key("shop.orders"), catalog_failed=failed)
    looking.now += 9 * MINUTE
    assert looking.plan()["syncs"] == []
    looking.now += MINUTE
    assert len(looking.plan()["syncs"]) == 1


def test_a_request_is_followed_until_its_holder_has_done_it(looking):
    looking.commit(2)
    followed = looking.plan()["follow"]
    looking.now += MINUTE
    followed = looking.planner.follow(followed)
    assert (followed["open"], followed["done"], followed["wait_s"]) == (1, 0, 60)
    looking.serve(followed["requests"][0])
    followed = looking.planner.follow(followed)
    assert (followed["open"], followed["done"], followed["failed"]) == (0, 1, 0)
    looking.commit()
    looking.now += 9 * MINUTE
    assert looking.plan()["follow"]["requests"] == [], "one commit since, and ten minutes have not gone by"


def test_an_abandoned_service_is_counted_and_its_table_is_skipped_for_an_hour(looking):
    looking.commit(2)
    followed = looking.plan()["follow"]
    looking.serve(followed["requests"][0], ServiceError("broken", "it is broken", retriable=False))
    followed = looking.planner.follow(followed)
    assert (followed["open"], followed["failed"]) == (0, 1) and looking.report.metrics["ServicesFailed"] == 1
    looking.now += 59 * MINUTE
    assert looking.plan()["follow"]["requests"] == []
    looking.now += MINUTE
    assert len(looking.plan()["follow"]["requests"]) == 1


def test_a_request_that_another_stands_in_place_of_has_ended(looking):
    looking.commit(2)
    followed = looking.plan()["follow"]
    followed["requests"][0]["request"] = "an-earlier-one"
    assert looking.planner.follow(followed)["done"] == 1


def test_a_request_is_not_followed_for_ever(looking):
    looking.commit(2)
    followed = looking.plan()["follow"]
    looking.now += FOLLOWED_FOR_MS
    after = looking.planner.follow(followed)
    assert (after["open"], after["given_up"], after["requests"]) == (0, 1, [])


def test_without_a_release_services_are_asked_for_and_no_lane_is_taken(looking):
    looking.use(release="")
    looking.commit(2)
    assert looking.plan()["runs"] == [] and looking.ledger.lanes.get("main").state == IDLE


def test_of_more_than_one_look_takes_those_come_first_that_wait_longest(looking, monkeypatch):
    monkeypatch.setattr(service_planner, "SYNCED_AT_ONCE", 1)
    monkeypatch.setattr(service_planner, "ASKED_AT_ONCE", 1)
    looking.configuration = looking.deployment.configure(rule("shop.a", "a"), rule("shop.b", "b"))
    for name in ("a", "b"):
        looking.ledger.tables.pin(f"shop.{name}", {"topic": name})
        looking.commit(2, table=f"shop.{name}")
    set_fields(looking.ledger, table_key("shop.a"), service_catalog={"instant": "1", "commits": 1, "at": 1})
    first = looking.plan()
    assert [sync["table"] for sync in first["syncs"]] == ["shop.b"]
    assert [request["table"] for request in first["follow"]["requests"]] == ["shop.a"]
    assert [request["table"] for request in looking.plan()["follow"]["requests"]] == ["shop.b"]


def test_the_largest_plan_fits_into_what_a_state_machine_may_carry():
    lane, table = "l" * 32, f"{'d' * 128}.{'t' * 128}"
    sync = {"table": table, "instant": "2" * 17, "commits": "9" * 12, "at": "1" * 13}
    request = Asked(lane, table, "compaction", timed_id("compaction", NOW, "0" * 8)).to_dict()
    run = {"lane": lane, "run": "r" * 64, "job_run": "0" * 64, "wait_s": 600, "looks": 0}
    follow = {"open": 200, "done": 0, "failed": 0, "given_up": 0, "wait_s": 600, "until": NOW}
    plan = {
        "syncs": [sync] * service_planner.SYNCED_AT_ONCE,
        "runs": [run] * service_planner.STARTED_AT_ONCE,
        "follow": {"requests": [request] * service_planner.ASKED_AT_ONCE, **follow},
    }
    assert len(json.dumps(plan)) < 256 * 1024


def test_a_table_is_first_examined_when_it_has_data(looking):
    looking.plan()
    assert looking.ledger.tables.get("shop.orders").services_since is None
    looking.commit()
    looking.plan()
    looking.now += MINUTE
    looking.plan()
    assert looking.ledger.tables.get("shop.orders").services_since == NOW


def test_the_function_does_each_step_that_the_machine_asks_for(deployment):
    deployment.environment(SERVICES_PAUSE_SECONDS="7")
    deployment.configure(TableRule("shop.orders", ("id",), topic=TOPIC, services=replace(POLICY, compaction=Pace())))
    assert handler({"step": "gather"}, context()) == {"go": True, "wait_s": 7}
    plan = handler({"step": "plan"}, context())
    assert plan["runs"] == plan["syncs"] == []
    assert handler({"step": "follow", "followed": plan["follow"]}, context())["open"] == 0
