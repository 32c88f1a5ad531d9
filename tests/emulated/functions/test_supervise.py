"""supervise: dead runs lose their lane, lost starts are repeated or looked up, and only due lanes are started."""

import os
from dataclasses import replace
from unittest.mock import Mock

import pytest
from emulation.deployment import TOPIC, Recorder, context, key
from supervise.handler import handler
from support.builders import aws_error, halt, note_commit

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.lane.job_request import execution_timeout_min, start_job_run
from sluice.lane.machine import (
    FIRST_BACKOFF_MS,
    HALT_AFTER_FAILURES,
    HALTED,
    IDLE,
    RETRY_HALTED_MS,
    RUNNING,
    STARTING,
    UNANSWERED_START_MS,
)
from sluice.lane.supervision import ENDING_MS, SILENCE_MS, UNHELD_START_MS, new_run_id
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import LanesFailed
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.lanes.start import Starter
from sluice_aws.lanes.supervise import Supervisor
from sluice_aws.settings import Settings

NOW = 1_700_000_000_000
SCHEDULE = {"detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}


def state_change(job_run_id, state):
    return {
        "detail-type": "EMR Serverless Job Run State Change",
        "source": "aws.emr-serverless",
        "detail": {"jobRunId": job_run_id, "state": state},
    }


@pytest.fixture
def supervised(deployment):
    """The deployment with a supervisor whose clock stands still until it is moved."""
    deployment.configure()
    deployment.clock, deployment.report = Mock(side_effect=lambda: deployment.clock.now, now=NOW), Recorder()
    settings = Settings.from_env(os.environ)
    deployment.runs = JobRuns(Clients.of(settings).emr_serverless, deployment.application)
    numbers = iter(range(1, 100))
    deployment.starter = Starter(
        ledger=deployment.ledger,
        job_runs=deployment.runs,
        environment=settings,
        report=deployment.report,
        now=deployment.clock,
        entropy=lambda: f"{next(numbers):08x}",
    )
    deployment.supervisor = Supervisor(
        ledger=deployment.ledger,
        job_runs=deployment.runs,
        starter=deployment.starter,
        report=deployment.report,
        now=deployment.clock,
    )
    return deployment


def supervise(supervised, configuration=None, *, at=None):
    """A look at all lanes, at a time to which the clock is moved."""
    supervised.clock.now = at or supervised.clock.now
    return supervised.supervisor.supervise(supervised.supervisor.lanes(configuration), configuration)


def running(supervised, lane="main"):
    """A lane whose run holds it; gives the job run."""
    supervised.ledger.lanes.wake(lane)
    run_id = supervised.starter.start(lane, None).run_id
    job = supervised.job_runs()[-1]
    job.state = "RUNNING"
    assert supervised.ledger.lanes.hold(lane, run_id, job.id, 1, supervised.clock())
    return job


def test_an_idle_lane_with_an_arrival_that_no_run_has_seen_is_started(supervised):
    supervised.ledger.lanes.wake("main")
    assert supervise(supervised) == 1
    assert supervised.ledger.lanes.get("main").state == STARTING
    (job,) = supervised.job_runs()
    assert job.name == supervised.ledger.lanes.get("main").run_id


def test_an_idle_lane_that_nothing_waits_for_is_left_alone(supervised):
    assert supervise(supervised) == 0
    assert supervised.job_runs() == []


SLOW = Configuration((TableRule("shop.orders", ("id",), topic="o", freshness_s=600),))


def waiting(supervised, key="a", table="shop.orders", topic="o"):
    supervised.ledger.objects.admit(
        AdmittedObject(ObjectId("b", key, "v"), "pending", NOW, table=table, lane="main", topic=topic, format="avro")
    )
    supervised.ledger.lanes.wake("main")


def test_no_run_starts_while_all_objects_wait_for_freshness(supervised):
    note_commit(supervised.ledger, Outcome("b", "shop.orders", COMMITTED, NOW, instant="1"), {"objects": 1})
    waiting(supervised)
    for seconds in (0, 539):
        assert supervise(supervised, SLOW, at=NOW + seconds * 1000) == 1 and supervised.job_runs() == []
    assert supervise(supervised, SLOW, at=NOW + 540_000) == 1
    assert len(supervised.job_runs()) == 1, "a start takes a minute"


@pytest.mark.parametrize("why", ["a new table", "another rule", "an open batch", "a service", "no configuration"])
def test_what_does_not_wait_for_freshness_starts_a_run_at_once(supervised, why):
    ledger = supervised.ledger
    note_commit(ledger, Outcome("b", "shop.orders", COMMITTED, NOW, instant="1"), {"objects": 1})
    waiting(supervised)
    configuration = SLOW
    if why == "a new table":
        configuration = Configuration((*SLOW.rules, TableRule("shop.more", ("id",), topic="m", freshness_s=600)))
        waiting(supervised, "m", "shop.more", "m")
    elif why == "another rule":
        configuration = Configuration((replace(SLOW.rules[0], freshness_s=30),))
    elif why == "an open batch":
        job = running(supervised)
        part = TablePart(config={}, objects=(ManifestObject("b", "k", "v", 7, None, "avro", "t", None, None, NOW),))
        assert ledger.batches.open(Manifest("b-1", "main", job.name, NOW, "v", {"crm.u": part}), "k", job.name, job.id)
        job.state = "SUCCESS"
        assert ledger.lanes.release("main", job.name, ledger.lanes.get("main").arrivals, None, NOW)
        ledger.lanes.wake("main")
    elif why == "a service":
        ledger.services.request("main", "shop.orders", "cleaning", request="r", requested_by="t", now=NOW)
    else:
        configuration = None
    before = len(supervised.job_runs())
    supervise(supervised, configuration)
    assert len(supervised.job_runs()) == before + 1


@pytest.mark.parametrize("state", ["SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING", "CANCELLING"])
def test_a_run_that_lives_or_waits_keeps_its_lane(supervised, state):
    running(supervised).state = state
    supervise(supervised, at=NOW + SILENCE_MS)
    assert supervised.ledger.lanes.get("main").state == RUNNING
    assert [job.state for job in supervised.job_runs()] == [state]


def test_a_run_that_waits_for_workers_without_end_is_cancelled(supervised):
    supervised.ledger.lanes.wake("main")
    supervise(supervised)
    job = supervised.job_runs()[-1]
    job.state = "SCHEDULED"
    supervise(supervised, at=NOW + UNHELD_START_MS)
    assert job.state == "SCHEDULED"
    supervise(supervised, at=supervised.clock.now + 1)
    assert job.state == "CANCELLED"
    supervise(supervised)
    lane = supervised.ledger.lanes.get("main")
    assert (lane.state, lane.failures, lane.capacity_failures) == (IDLE, 0, 1)
    supervise(supervised, at=lane.backoff_until)
    assert len(supervised.job_runs()) == 2


def test_a_driver_that_gives_no_sign_is_cancelled_and_its_lane_taken_back(supervised):
    job = running(supervised)
    supervised.clock.now = NOW + SILENCE_MS
    assert supervised.ledger.lanes.gave_sign("main", job.name, NOW + 60_000)
    supervise(supervised)
    assert job.state == "RUNNING"
    supervise(supervised, at=NOW + 60_000 + SILENCE_MS + 1)
    assert job.state == "CANCELLED"
    supervise(supervised)
    assert supervised.ledger.lanes.get("main").failures == 1


def test_the_holder_of_a_replaced_application_keeps_its_lane_until_its_time_limit(supervised):
    running(supervised)
    elsewhere = supervised.emr.create_application(name="new", releaseLabel="emr-7.14.0", type="SPARK", clientToken="n")
    other_runs = JobRuns(supervised.emr, elsewhere["applicationId"])
    supervised.supervisor = replace(supervised.supervisor, job_runs=other_runs)
    supervise(supervised, at=NOW + execution_timeout_min(LaneConfig()) * 60_000)
    assert supervised.ledger.lanes.get("main").state == RUNNING
    supervise(supervised, at=supervised.clock.now + ENDING_MS)
    assert supervised.ledger.lanes.get("main").state == IDLE


def test_an_unanswered_start_of_a_replaced_application_is_not_repeated(supervised):
    supervised.ledger.lanes.wake("main")
    assert supervised.ledger.lanes.request_start("main", "run-1", NOW, application_id="00replaced")
    supervise(supervised)
    assert supervised.job_runs() == []
    supervise(supervised, at=NOW + UNANSWERED_START_MS)
    assert supervised.ledger.lanes.get("main").capacity_failures == 1
    assert supervised.ledger.lanes.hold("main", "run-1", "00late", 1, NOW) is None


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "SUCCESS"])
def test_a_run_that_ends_without_releasing_loses_its_lane_and_the_next_backs_off(supervised, state):
    job = running(supervised)
    job.state, job.state_details = state, "ExitCode 1"
    supervise(supervised)
    lane = supervised.ledger.lanes.get("main")
    expected = (IDLE, 1, NOW + FIRST_BACKOFF_MS, job.name)
    assert (lane.state, lane.failures, lane.backoff_until, lane.last_run_id) == expected
    assert lane.reason == f"job run {state}: ExitCode 1"
    assert supervised.ledger.history.run(job.name)["state"] == "lapsed"
    assert len(supervised.job_runs()) == 1
    supervise(supervised, at=NOW + FIRST_BACKOFF_MS)
    assert supervised.ledger.lanes.get("main").state == STARTING
    assert len(supervised.job_runs()) == 2


def test_after_a_run_that_had_closed_a_batch_the_next_one_starts_at_once(supervised):
    job = running(supervised)
    assert supervised.ledger.lanes.progressed("main", job.name)
    job.state = "FAILED"
    supervise(supervised)
    lane = supervised.ledger.lanes.get("main")
    assert (lane.state, lane.failures) == (STARTING, 0)
    assert lane.run_id != job.name


def test_after_several_runs_without_progress_the_lane_halts_with_an_alarm(supervised):
    for _ in range(HALT_AFTER_FAILURES):
        supervise(supervised, at=supervised.clock.now + 3_600_000)
        if supervised.ledger.lanes.get("main").state == IDLE:
            supervised.ledger.lanes.wake("main")
            supervise(supervised)
        supervised.job_runs()[-1].state = "FAILED"
        supervise(supervised)
    lane = supervised.ledger.lanes.get("main")
    assert (lane.state, lane.failures) == (HALTED, HALT_AFTER_FAILURES)
    assert supervised.report.metrics["LanesHalted"] >= 1
    supervise(supervised, at=supervised.clock.now + RETRY_HALTED_MS - 1)
    assert len(supervised.job_runs()) == HALT_AFTER_FAILURES
    assert "lane_halted" in supervised.report.names()


def test_a_halted_lane_is_started_once_an_hour_and_its_alarm_stays(supervised):
    halt(supervised.ledger, "main", first_at=NOW)
    supervised.clock.now = NOW + (HALT_AFTER_FAILURES - 1) * 3_600_000
    for hour in range(1, 4):
        supervise(supervised, at=supervised.clock.now + RETRY_HALTED_MS)
        assert len(supervised.job_runs()) == hour
        shown = supervised.report.metrics["LanesHalted"]
        supervised.job_runs()[-1].state = "RUNNING"
        supervise(supervised)
        assert supervised.report.metrics["LanesHalted"] > shown
        supervised.job_runs()[-1].state = "FAILED"
        supervise(supervised)
        assert supervised.ledger.lanes.get("main").state == HALTED


def test_failures_for_want_of_capacity_back_off_and_never_halt(supervised):
    supervised.ledger.lanes.wake("main")
    for _ in range(HALT_AFTER_FAILURES + 3):
        supervise(supervised, at=supervised.clock.now + 3_600_000)
        job = supervised.job_runs()[-1]
        job.state = "FAILED"
        job.state_details = "Worker could not be allocated as the application has exceeded maximumCapacity settings"
        supervise(supervised)
    lane = supervised.ledger.lanes.get("main")
    assert (lane.state, lane.failures, lane.capacity_failures) == (IDLE, 0, HALT_AFTER_FAILURES + 3)
    assert lane.backoff_until > supervised.clock.now
    assert supervised.report.metrics["CapacityFailures"] == HALT_AFTER_FAILURES + 3


def requested(supervised):
    """A lane whose start was asked of the ledger, and nobody knows of EMR."""
    run_id = new_run_id("main", NOW, "deadbeef")
    supervised.ledger.lanes.wake("main")
    assert supervised.ledger.lanes.request_start("main", run_id, NOW)
    return run_id


def test_a_start_that_never_happened_is_repeated_under_the_same_token(supervised):
    run_id = requested(supervised)
    supervise(supervised, at=NOW + 120_000)
    (job,) = supervised.job_runs()
    assert (job.name, job.client_token) == (run_id, run_id)
    assert supervised.ledger.lanes.get("main").job_run_id == job.id


def test_after_five_minutes_a_start_is_looked_up_by_name_and_adopted(supervised):
    run_id = requested(supervised)
    job_run_id = supervised.runs.start(start_job_run(supervised.starter.environment, LaneConfig(), run_id))
    supervised.job_runs()[-1].state = "RUNNING"
    supervise(supervised, at=NOW + UNANSWERED_START_MS)
    lane = supervised.ledger.lanes.get("main")
    assert (lane.state, lane.run_id, lane.job_run_id) == (STARTING, run_id, job_run_id)
    assert len(supervised.job_runs()) == 1


def started_by_others(supervised, token="other", **more):
    """A job run of the application that no lane asked for."""
    role = "arn:aws:iam::123456789012:role/r"
    supervised.emr.start_job_run(applicationId=supervised.application, clientToken=token, executionRoleArn=role, **more)


def test_a_start_that_emr_does_not_know_after_five_minutes_lapses(supervised):
    run_id = requested(supervised)
    started_by_others(supervised, name="another")
    supervise(supervised, at=NOW + UNANSWERED_START_MS)
    lane = supervised.ledger.lanes.get("main")
    expected = (IDLE, 0, 1, run_id, "the job run was never started")
    assert (lane.state, lane.failures, lane.capacity_failures, lane.last_run_id, lane.reason) == expected


def test_a_lane_whose_starts_are_refused_for_hours_backs_off_and_never_halts(supervised):
    started_by_others(supervised, name="another")
    for hour in range(HALT_AFTER_FAILURES + 1):
        supervised.clock.now += 3_600_000
        supervised.ledger.lanes.wake("main")
        run_id = new_run_id("main", supervised.clock.now, "deadbeef")
        assert supervised.ledger.lanes.request_start("main", run_id, supervised.clock.now)
        supervise(supervised, at=supervised.clock.now + UNANSWERED_START_MS)
        lane = supervised.ledger.lanes.get("main")
        assert (lane.state, lane.failures, lane.capacity_failures) == (IDLE, 0, hour + 1)


def test_a_job_run_that_emr_has_forgotten_is_over(supervised):
    job = running(supervised)
    started_by_others(supervised)
    supervised.job_runs().remove(job)
    supervise(supervised)
    assert supervised.ledger.lanes.get("main").state == IDLE


def test_of_two_job_runs_of_one_name_the_one_that_lives_is_adopted(supervised):
    run_id = requested(supervised)
    for token in ("one", "two", "three"):
        started_by_others(supervised, token, name=run_id)
    for job, state in zip(supervised.job_runs(), ("FAILED", "RUNNING", "FAILED"), strict=True):
        job.state = state
    assert supervised.runs.find_by_name(run_id, since_ms=NOW - 1).job_run_id == supervised.job_runs()[1].id


def test_one_lane_that_fails_keeps_no_other_waiting(supervised, monkeypatch):
    running(supervised, "a")
    supervised.ledger.lanes.wake("b")
    monkeypatch.setattr(supervised.runs, "state", Mock(side_effect=aws_error("ThrottlingException", "GetJobRun")))
    with pytest.raises(LanesFailed) as raised:
        supervise(supervised)
    assert raised.value.facts["lanes"] == ["a"]
    assert supervised.ledger.lanes.get("b").state == STARTING


def test_while_no_release_is_set_dead_runs_lose_their_lane_and_none_is_started(supervised):
    job = running(supervised)
    job.state = "FAILED"
    supervisor = Supervisor(
        ledger=supervised.ledger, job_runs=supervised.runs, starter=None, report=supervised.report, now=supervised.clock
    )
    supervised.clock.now += 3_600_000
    supervisor.supervise(supervisor.lanes(None), None)
    assert (supervised.ledger.lanes.get("main").state, len(supervised.job_runs())) == (IDLE, 1)


def test_a_lane_that_work_was_written_for_and_nobody_woke_is_found_and_woken(supervised):
    configuration = supervised.configure()
    supervised.environment(RELEASE="none")
    supervised.admit(key(1))
    assert supervised.ledger.lanes.get("main").arrivals == 1
    lanes = supervised.ledger.lanes  # as if the wake had never been: a run saw every arrival
    lanes.request_start("main", "run-main-1", NOW)
    lanes.hold("main", "run-main-1", "00f1", 1, NOW)
    assert lanes.release("main", "run-main-1", 1, None, NOW)
    idle = [supervised.ledger.lanes.get("main")]
    assert supervised.supervisor.wake_forgotten(idle, configuration) == ("main",)
    assert supervised.supervisor.wake_forgotten([supervised.ledger.lanes.get("main")], configuration) == ()
    assert supervised.supervisor.supervise([supervised.ledger.lanes.get("main")], configuration) == 1


def test_pending_work_of_a_paused_table_wakes_nothing(supervised):
    configuration = supervised.configure()
    supervised.environment(RELEASE="none")
    supervised.admit(key(1))
    paused = replace(configuration, rules=tuple(replace(rule, paused=True) for rule in configuration.rules))
    lane = replace(supervised.ledger.lanes.get("main"), arrivals_seen=1)
    assert supervised.supervisor.wake_forgotten([lane], configuration) == ("main",)
    assert supervised.supervisor.wake_forgotten([lane], paused) == ()


def test_a_state_change_looks_after_the_lane_of_its_job_run_only(deployment):
    deployment.configure()
    for lane in ("a", "b"):
        deployment.ledger.lanes.wake(lane)
    assert handler(SCHEDULE, context()) == {"lanes": 3, "steps": 2}  # main is configured and idle
    of_a = deployment.ledger.lanes.get("a")
    for job in deployment.job_runs():
        job.state = "FAILED"
    assert handler(state_change(of_a.job_run_id, "FAILED"), context())["lanes"] == 1
    assert (deployment.ledger.lanes.get("a").state, deployment.ledger.lanes.get("b").state) == (IDLE, STARTING)


def test_a_run_that_ends_for_its_successor_is_followed_at_its_end(deployment):
    deployment.configure()
    deployment.ledger.lanes.wake("main")
    handler(SCHEDULE, context())
    (job,) = deployment.job_runs()
    assert deployment.ledger.lanes.hold("main", job.name, job.id, 1, epoch_ms())
    assert deployment.ledger.lanes.release("main", job.name, 1, epoch_ms(), epoch_ms())  # its maximum age, for example
    job.state = "SUCCESS"
    handler(state_change(job.id, "SUCCESS"), context())
    lane = deployment.ledger.lanes.get("main")
    assert (lane.state, len(deployment.job_runs())) == (STARTING, 2) and lane.run_id != job.name


def test_a_state_change_to_a_state_that_is_no_end_does_nothing(deployment):
    deployment.configure()
    assert handler(state_change("j", "RUNNING"), context()) == {"lanes": 0, "steps": 0}


def test_a_configuration_that_cannot_be_read_keeps_no_dead_runs_lane(deployment):
    deployment.configure()
    deployment.ledger.lanes.wake("main")
    handler(SCHEDULE, context())
    deployment.job_runs()[0].state = "FAILED"
    deployment.s3.put_object(Bucket="sluice-artifacts", Key="config/tables.json", Body=b"{")
    handler(SCHEDULE, context())
    assert deployment.ledger.lanes.get("main").state == IDLE


def test_pending_work_that_no_run_would_claim_wakes_nothing(supervised):
    """A table whose topic feeds another table or lane now, and one whose key was changed: each would start a run with
    every pass.
    """
    configuration = supervised.configure()
    supervised.environment(RELEASE="none")
    supervised.admit(key(1))
    (rule,) = configuration.rules
    lane = replace(supervised.ledger.lanes.get("main"), arrivals_seen=1)
    for changed in (replace(rule, table="public.renamed"), replace(rule, lane="side"), replace(rule, topic="another")):
        assert supervised.supervisor.wake_forgotten([lane], replace(configuration, rules=(changed,))) == ()
    pinned = {"record_key": ["another"], "partition_by": [], "table_type": "cow", "topic": TOPIC}
    supervised.ledger.tables.pin("public.orders", pinned)
    assert supervised.supervisor.wake_forgotten([lane], configuration) == ()
