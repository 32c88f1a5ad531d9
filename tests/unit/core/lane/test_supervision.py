"""EMR's messages about job runs: ends, capacity, and the lanes concerned."""

import pytest

from sluice.lane.machine import IDLE, RUNNING, STARTING, LaneState
from sluice.lane.supervision import (
    JobRunNews,
    concerned,
    is_terminal,
    lacks_capacity,
    lapse_reason,
    read_event,
    why_cancel,
)


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


MINUTE = 60_000


@pytest.mark.parametrize(
    ("state", "minutes", "cancelled"),
    [
        (LaneState("l", STARTING, run_id="r", job_run_id="j", start_requested_at=1), 30, False),
        (LaneState("l", STARTING, run_id="r", job_run_id="j", start_requested_at=1), 31, True),
        (LaneState("l", RUNNING, run_id="r", job_run_id="j", start_requested_at=1, held_at=1), 120, False),
        (LaneState("l", RUNNING, run_id="r", job_run_id="j", start_requested_at=1, held_at=1), 121, True),
        (LaneState("l", RUNNING, run_id="r", job_run_id="j", held_at=1, alive_at=100 * MINUTE), 219, False),
        (LaneState("l", RUNNING, run_id="r", job_run_id="j", held_at=1, alive_at=100 * MINUTE), 221, True),
        (LaneState("l", IDLE), 10_000, False),
    ],
)
def test_a_run_that_does_not_begin_or_gives_no_sign_is_cancelled(state, minutes, cancelled):
    assert (why_cancel(state, 1 + minutes * MINUTE) is not None) is cancelled


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
        ("The subnet subnet-1 has not enough free IP addresses for the requested workers", True),
        ("ServiceQuotaExceededException: The account has exceeded its concurrent vCPUs", True),
        (
            "Job failed, please check complete logs in configured logging destination. ExitCode: 1. Last few "
            "exceptions: Abandoning job due to no executor being launched within 1200000ms after driver starts.",
            True,
        ),
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


# The sentences of AWS's page "Troubleshooting errors in EMR Serverless" that name capacity, and the ones that don't.
@pytest.mark.parametrize(
    "sentence, capacity",
    [
        ("Job failed as account has reached the service limit on the maximum vCPU it can use concurrently.", True),
        ("Job failed as application has exceeded maximumCapacity settings.", True),
        ("Job failed due to Worker could not be allocated as the application has exceeded maximumCapacity.", True),
        (
            "S3 access is denied. Please check S3 access permissions of the job runtime role on the required S3 "
            "resources.",
            False,
        ),
        (
            "ModuleNotFoundError: No module named x. Please refer to the user guide on how to use python libraries "
            "with EMR Serverless.",
            False,
        ),
        (
            "Could not assume execution role r because it does not exist or is not set up with the required trust "
            "relationship.",
            False,
        ),
    ],
    ids=["account vcpu", "application maximum", "worker allocation", "s3 access", "module", "role"],
)
def test_every_documented_failure_is_known_as_one_of_capacity_or_not(sentence, capacity):
    assert lacks_capacity("FAILED", sentence) is capacity


def test_the_end_of_a_job_run_concerns_its_lane_and_lanes_that_may_want_a_run():
    holding, other = LaneState("a", state=RUNNING, job_run_id="j1"), LaneState("b", state=RUNNING, job_run_id="j2")
    unknown, idle = LaneState("c", state=STARTING), LaneState("d", state=IDLE)
    due, later = LaneState("e", state=IDLE, due_at=5), LaneState("f", state=IDLE, due_at=6)
    lanes = [holding, other, unknown, idle, due, later]
    assert concerned(lanes, JobRunNews("j1", "FAILED"), 5) == (holding, unknown, due)


def test_what_a_lane_remembers_of_a_dead_run_is_bounded():
    assert lapse_reason("FAILED", "") == "job run FAILED"
    assert len(lapse_reason("FAILED", "x" * 5_000)) == 500
