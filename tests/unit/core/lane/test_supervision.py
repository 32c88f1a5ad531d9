"""EMR's messages about job runs: ends, capacity, and the lanes concerned."""

import pytest

from sluice.lane.machine import IDLE, RUNNING, STARTING, LaneState
from sluice.lane.supervision import JobRunNews, concerned, is_terminal, lacks_capacity, lapse_reason, read_event


def event(state, **detail):
    return {
        "detail-type": "EMR Serverless Job Run State Change",
        "source": "aws.emr-serverless",
        "detail": {"jobRunId": "j1", "applicationId": "a", "state": state, **detail},
    }


@pytest.mark.parametrize(
    "state, terminal",
    [
        ("SUCCESS", True),
        ("FAILED", True),
        ("CANCELLED", True),
        ("CANCELLING", False),
        ("QUEUED", False),
        ("RUNNING", False),
        ("SUBMITTED", False),
    ],
)
def test_only_a_job_run_of_which_nothing_lives_is_terminal(state, terminal):
    assert read_event(event(state)) == JobRunNews("j1", state)
    assert read_event(event(state)).terminal is terminal is is_terminal(state)


@pytest.mark.parametrize(
    "other",
    [
        {},
        None,
        [],
        {"detail-type": "Scheduled Event"},
        {"detail-type": "EMR Serverless Job Run State Change"},
        event(None),
        event("FAILED", jobRunId=7),
    ],
)
def test_everything_else_is_no_news(other):
    assert read_event(other) is None


@pytest.mark.parametrize(
    "details, capacity",
    [
        (
            "ApplicationMaxCapacityExceededException: Worker could not be allocated as the application has exceeded "
            "maximumCapacity settings: [cpu: 16 vCPU]",
            True,
        ),
        ("Worker could not be allocated because the account has exceeded the vCPU quota", True),
        ("Insufficient capacity in the availability zone", True),
        ("The job run exceeded the service quota for concurrent vCPUs", True),
        ("The job run timed out in the queue", True),
        (
            "Job failed, please check complete logs in configured logging destination. ExitCode: 1. Last few "
            "exceptions: ValueError: limit exceeded by the query",
            False,
        ),
        (
            "Job failed, please check complete logs in configured logging destination. Last few exceptions: buffer "
            "exceeds its capacity",
            False,
        ),
        ("Container killed for exceeding memory limits", False),
        ("Job execution timed out after 315 minutes", False),
        ("", False),
    ],
)
def test_a_capacity_failure_is_distinguished_from_the_jobs_own(details, capacity):
    assert lacks_capacity("FAILED", details) is capacity
    assert lacks_capacity("SUCCESS", details) is False


def test_the_end_of_a_job_run_concerns_its_lane_and_starts_without_a_job_run():
    holding, other = LaneState("a", state=RUNNING, job_run_id="j1"), LaneState("b", state=RUNNING, job_run_id="j2")
    unknown, idle = LaneState("c", state=STARTING), LaneState("d", state=IDLE)
    assert concerned([holding, other, unknown, idle], JobRunNews("j1", "FAILED")) == (holding, unknown)


def test_what_a_lane_remembers_of_a_dead_run_is_bounded():
    assert lapse_reason("FAILED", "") == "job run FAILED"
    assert len(lapse_reason("FAILED", "x" * 5_000)) == 500
