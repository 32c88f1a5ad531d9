"""supervise: dead runs lose their lane, lost starts are repeated or looked up, due lanes are started, and no more."""

from dataclasses import replace

import pytest
from admit.handler import handler as admit
from botocore.exceptions import ClientError
from function_world import BRONZE, TOPIC, Recorder, avro, context, key, s3_body, sqs_event, world  # noqa: F401
from supervise.handler import handler

from sluice.config.lane import LaneConfig
from sluice.lane.job_request import start_job_run
from sluice.lane.machine import BACKOFF_MS, HALT_AFTER, HALTED, IDLE, RUNNING, STARTING, TOKEN_REPEAT_MS
from sluice.lane.supervision import new_run_id
from sluice_aws.clients import Clients
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


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def deployment(world):  # noqa: F811
    """The world with a supervisor whose clock stands still until it is moved."""
    world.configure()
    world.clock, world.report = Clock(), Recorder()
    settings = Settings.from_env({
        "AWS_REGION": "us-west-2", "LEDGER_TABLE": "x", "BRONZE_BUCKET": BRONZE, "SILVER_BUCKET": "s", "ARTIFACT_BUCKET": "a", "APPLICATION_ID": world.application,
        "JOB_ROLE_ARN": "arn:aws:iam::123456789012:role/sluice-job", "RELEASE": "r1", "HUDI_JARS": "file:///hudi.jar"})  # fmt: skip
    world.runs = JobRuns(Clients(settings).emr_serverless, world.application)
    numbers = iter(range(1, 100))
    world.starter = Starter(
        ledger=world.ledger,
        job_runs=world.runs,
        environment=settings.job_environment(),
        report=world.report,
        now=world.clock,
        entropy=lambda: f"{next(numbers):08x}",
    )
    world.supervisor = Supervisor(
        ledger=world.ledger, job_runs=world.runs, starter=world.starter, report=world.report, now=world.clock
    )
    return world


def supervise(deployment):
    return deployment.supervisor.supervise(deployment.supervisor.lanes(None), None)


def running(deployment, lane="main"):
    """A lane whose run holds it; gives the job run."""
    deployment.ledger.wake(lane)
    run_id = deployment.starter.start(lane, None)
    job = deployment.job_runs()[-1]
    job.state = "RUNNING"
    assert deployment.ledger.hold(lane, run_id, job.id, 1, deployment.clock())
    return job


def test_an_idle_lane_with_an_arrival_that_no_run_looked_at_is_started(deployment):
    deployment.ledger.wake("main")
    assert supervise(deployment) == 1
    assert deployment.ledger.lane("main").state == STARTING
    (job,) = deployment.job_runs()
    assert job.name == deployment.ledger.lane("main").run_id


def test_an_idle_lane_that_nothing_waits_for_is_left_alone(deployment):
    assert supervise(deployment) == 0
    assert deployment.job_runs() == []


def test_a_lane_past_its_due_time_is_started_and_not_before(deployment):
    job = running(deployment)
    assert deployment.ledger.release("main", job.name, 1, NOW + 60_000, NOW)
    assert supervise(deployment) == 0
    deployment.clock.now = NOW + 60_000
    assert supervise(deployment) == 1


@pytest.mark.parametrize("state", ["SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING", "CANCELLING"])
def test_a_run_that_lives_or_waits_keeps_its_lane(deployment, state):
    running(deployment).state = state
    deployment.clock.now = NOW + 24 * 3_600_000
    supervise(deployment)
    assert deployment.ledger.lane("main").state == RUNNING
    assert len(deployment.job_runs()) == 1


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "SUCCESS"])
def test_a_run_that_ended_without_releasing_loses_its_lane_and_the_next_waits_for_the_back_off(deployment, state):
    job = running(deployment)
    job.state, job.state_details = state, "ExitCode 1"
    supervise(deployment)
    lane = deployment.ledger.lane("main")
    assert (lane.state, lane.failures, lane.backoff_until, lane.last_run_id) == (IDLE, 1, NOW + BACKOFF_MS, job.name)
    assert lane.reason == f"job run {state}: ExitCode 1"
    assert deployment.ledger.run(job.name)["state"] == "lapsed"
    assert len(deployment.job_runs()) == 1
    deployment.clock.now = NOW + BACKOFF_MS
    supervise(deployment)
    assert deployment.ledger.lane("main").state == STARTING
    assert len(deployment.job_runs()) == 2


def test_after_a_run_that_had_closed_a_batch_the_next_one_starts_at_once(deployment):
    job = running(deployment)
    assert deployment.ledger.progressed("main", job.name)
    job.state = "FAILED"
    supervise(deployment)
    lane = deployment.ledger.lane("main")
    assert (lane.state, lane.failures) == (STARTING, 0)
    assert lane.run_id != job.name


def test_after_several_runs_without_progress_the_lane_halts_and_says_so(deployment):
    for _ in range(HALT_AFTER):
        deployment.clock.now += 3_600_000
        supervise(deployment)
        if deployment.ledger.lane("main").state == IDLE:
            deployment.ledger.wake("main")
            supervise(deployment)
        deployment.job_runs()[-1].state = "FAILED"
        supervise(deployment)
    lane = deployment.ledger.lane("main")
    assert (lane.state, lane.failures) == (HALTED, HALT_AFTER)
    assert deployment.report.metrics["LanesHalted"] >= 1
    deployment.clock.now += 24 * 3_600_000
    started = len(deployment.job_runs())
    supervise(deployment)
    assert len(deployment.job_runs()) == started == HALT_AFTER
    assert "lane_halted" in deployment.report.names()


def test_failures_for_want_of_capacity_back_off_and_never_halt(deployment):
    deployment.ledger.wake("main")
    for _ in range(HALT_AFTER + 3):
        deployment.clock.now += 3_600_000
        supervise(deployment)
        job = deployment.job_runs()[-1]
        job.state, job.state_details = (
            "FAILED",
            "Worker could not be allocated as the application has exceeded maximumCapacity settings",
        )
        supervise(deployment)
    lane = deployment.ledger.lane("main")
    assert (lane.state, lane.failures, lane.capacity_failures) == (IDLE, 0, HALT_AFTER + 3)
    assert lane.backoff_until > deployment.clock.now
    assert deployment.report.metrics["CapacityFailures"] == HALT_AFTER + 3


def requested(deployment):
    """A lane whose start was asked of the ledger, and nobody knows of EMR."""
    run_id = new_run_id("main", NOW, "deadbeef")
    deployment.ledger.wake("main")
    assert deployment.ledger.request_start("main", run_id, NOW)
    return run_id


def test_a_start_that_never_happened_is_repeated_under_the_same_token(deployment):
    run_id = requested(deployment)
    deployment.clock.now = NOW + 120_000
    supervise(deployment)
    (job,) = deployment.job_runs()
    assert (job.name, job.client_token) == (run_id, run_id)
    assert deployment.ledger.lane("main").job_run_id == job.id


def test_after_five_minutes_a_start_is_looked_up_by_name_and_adopted(deployment):
    run_id = requested(deployment)
    job_run_id = deployment.runs.start(start_job_run(deployment.starter._environment, LaneConfig(), run_id))
    deployment.job_runs()[-1].state = "RUNNING"
    deployment.clock.now = NOW + TOKEN_REPEAT_MS
    supervise(deployment)
    lane = deployment.ledger.lane("main")
    assert (lane.state, lane.run_id, lane.job_run_id) == (STARTING, run_id, job_run_id)
    assert len(deployment.job_runs()) == 1


def test_a_start_that_emr_does_not_know_after_five_minutes_lapses(deployment):
    run_id = requested(deployment)
    deployment.emr.start_job_run(
        applicationId=deployment.application,
        clientToken="other",
        executionRoleArn="arn:aws:iam::123456789012:role/r",
        name="another",
    )
    deployment.clock.now = NOW + TOKEN_REPEAT_MS
    supervise(deployment)
    lane = deployment.ledger.lane("main")
    assert (lane.state, lane.failures, lane.capacity_failures, lane.last_run_id, lane.reason) == (
        IDLE,
        0,
        1,
        run_id,
        "the job run was never started",
    )


def test_a_lane_whose_starts_are_refused_for_hours_backs_off_and_never_halts(deployment):
    deployment.emr.start_job_run(
        applicationId=deployment.application,
        clientToken="other",
        executionRoleArn="arn:aws:iam::123456789012:role/r",
        name="another",
    )
    for hour in range(HALT_AFTER + 1):
        deployment.clock.now += 3_600_000
        deployment.ledger.wake("main")
        assert deployment.ledger.request_start(
            "main", new_run_id("main", deployment.clock.now, "deadbeef"), deployment.clock.now
        )
        deployment.clock.now += TOKEN_REPEAT_MS
        supervise(deployment)
        lane = deployment.ledger.lane("main")
        assert (lane.state, lane.failures, lane.capacity_failures) == (IDLE, 0, hour + 1)


def test_a_job_run_that_emr_has_forgotten_is_over(deployment):
    job = running(deployment)
    deployment.emr.start_job_run(
        applicationId=deployment.application, clientToken="other", executionRoleArn="arn:aws:iam::123456789012:role/r"
    )
    deployment.job_runs().remove(job)
    supervise(deployment)
    assert deployment.ledger.lane("main").state == IDLE


def test_of_two_job_runs_of_one_name_the_one_that_lives_is_adopted(deployment):
    run_id = requested(deployment)
    for token in ("one", "two", "three"):
        deployment.emr.start_job_run(
            applicationId=deployment.application,
            clientToken=token,
            executionRoleArn="arn:aws:iam::123456789012:role/r",
            name=run_id,
        )
    for job, state in zip(deployment.job_runs(), ("FAILED", "RUNNING", "FAILED")):
        job.state = state
    assert deployment.runs.find_by_name(run_id, since_ms=NOW - 1).job_run_id == deployment.job_runs()[1].id


def test_one_lane_that_fails_keeps_no_other_waiting(deployment, monkeypatch):
    running(deployment, "a")
    deployment.ledger.wake("b")

    def refuse(job_run_id):
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, "GetJobRun")

    monkeypatch.setattr(deployment.runs, "state", refuse)
    with pytest.raises(LanesFailed) as raised:
        supervise(deployment)
    assert raised.value.facts["lanes"] == ["a"]
    assert deployment.ledger.lane("b").state == STARTING


def test_while_no_release_is_set_dead_runs_lose_their_lane_and_none_is_started(deployment):
    job = running(deployment)
    job.state = "FAILED"
    supervisor = Supervisor(
        ledger=deployment.ledger, job_runs=deployment.runs, starter=None, report=deployment.report, now=deployment.clock
    )
    deployment.clock.now += 3_600_000
    supervisor.supervise(supervisor.lanes(None), None)
    assert deployment.ledger.lane("main").state == IDLE
    assert len(deployment.job_runs()) == 1


def test_a_lane_that_work_was_written_for_and_nobody_woke_is_found_and_woken(deployment):
    configuration = deployment.configure()
    deployment.environment(RELEASE="none")
    id = deployment.land(key(1), avro())
    admit(sqs_event(s3_body(id)), context())
    assert deployment.ledger.lane("main").arrivals == 1
    deployment.ledger._lanes._table.update(
        {"pk": "lane#main", "sk": "lane"}, {"arrivals_seen": 1}
    )  # as if the wake had never been
    idle = [deployment.ledger.lane("main")]
    assert deployment.supervisor.start_due(idle, configuration) == 0
    assert deployment.supervisor.wake_forgotten(idle, configuration) == ("main",)
    assert deployment.supervisor.wake_forgotten([deployment.ledger.lane("main")], configuration) == ()
    assert deployment.supervisor.start_due([deployment.ledger.lane("main")], configuration) == 1


def test_pending_work_of_a_paused_table_wakes_nothing(deployment):
    configuration = deployment.configure()
    deployment.environment(RELEASE="none")
    admit(sqs_event(s3_body(deployment.land(key(1), avro()))), context())
    paused = replace(configuration, rules=tuple(replace(rule, paused=True) for rule in configuration.rules))
    lane = replace(deployment.ledger.lane("main"), arrivals_seen=1)
    assert deployment.supervisor.wake_forgotten([lane], configuration) == ("main",)
    assert deployment.supervisor.wake_forgotten([lane], paused) == ()


def test_a_state_change_looks_after_the_lane_of_its_job_run_only(world):  # noqa: F811
    world.configure()
    for lane in ("a", "b"):
        world.ledger.wake(lane)
    assert handler(SCHEDULE, context()) == {"lanes": 3, "steps": 2}  # main is configured and idle
    of_a = world.ledger.lane("a")
    for job in world.job_runs():
        job.state = "FAILED"
    assert handler(state_change(of_a.job_run_id, "FAILED"), context())["lanes"] == 1
    assert (world.ledger.lane("a").state, world.ledger.lane("b").state) == (IDLE, STARTING)


def test_a_state_change_to_a_state_that_is_no_end_does_nothing(world):  # noqa: F811
    world.configure()
    assert handler(state_change("j", "RUNNING"), context()) == {"lanes": 0, "steps": 0}


def test_a_configuration_that_cannot_be_read_keeps_no_dead_runs_lane(world):  # noqa: F811
    world.configure()
    world.ledger.wake("main")
    handler(SCHEDULE, context())
    world.job_runs()[0].state = "FAILED"
    world.s3.put_object(Bucket="sluice-artifacts", Key="config/tables.json", Body=b"{")
    handler(SCHEDULE, context())
    assert world.ledger.lane("main").state == IDLE


def test_pending_work_that_no_run_would_claim_wakes_nothing(deployment):
    """A table whose topic feeds another table or lane now, and one whose key was changed: each would start a run with every pass."""
    configuration = deployment.configure()
    deployment.environment(RELEASE="none")
    admit(sqs_event(s3_body(deployment.land(key(1), avro()))), context())
    (rule,) = configuration.rules
    lane = replace(deployment.ledger.lane("main"), arrivals_seen=1)
    for changed in (replace(rule, table="public.renamed"), replace(rule, lane="side"), replace(rule, topic="another")):
        assert deployment.supervisor.wake_forgotten([lane], replace(configuration, rules=(changed,))) == ()
    deployment.ledger.pin_table(
        "public.orders", {"record_key": ["another"], "partition_by": [], "table_type": "cow", "topic": TOPIC}
    )
    assert deployment.supervisor.wake_forgotten([lane], configuration) == ()
