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
        *((state, True) for state in ("SUCCESS", "FAILED", "CANCELLED")),
        *((state, False) for state in ("CANCELLING", "QUEUED", "RUNNING", "SUBMITTED")),
    ],
)
def test_only_a_job_run_of_which_nothing_lives_is_terminal(state, terminal):
    assert read_event(event(state)) == JobRunNews("j1", state)
    assert read_event(event(state)).terminal is terminal is is_terminal(state)


MINUTE = 60_000
JOB = {"run_id": "r", "job_run_id": "j"}


@pytest.mark.parametrize(
    ("state", "minutes", "cancelled"),
    [
        (LaneState("l", STARTING, **JOB, start_requested_at=1), 30, False),
        (LaneState("l", STARTING, **JOB, start_requested_at=1), 31, True),
        (LaneState("l", RUNNING, **JOB, start_requested_at=1, held_at=1), 120, False),
        (LaneState("l", RUNNING, **JOB, start_requested_at=1, held_at=1), 121, True),
        (LaneState("l", RUNNING, **JOB, held_at=1, alive_at=100 * MINUTE), 219, False),
        (LaneState("l", RUNNING, **JOB, held_at=1, alive_at=100 * MINUTE), 221, True),
        (LaneState("l", IDLE), 10_000, False),
    ],
)
def test_a_run_that_does_not_begin_or_gives_no_sign_is_cancelled(state, minutes, cancelled):
    assert (why_cancel(state, 1 + minutes * MINUTE) is not None) is cancelled


@pytest.mark.parametrize(
    "other",
    [
        *({}, None, [], {"detail-type": "Scheduled Event"}, {"detail-type": "EMR Serverless Job Run State Change"}),
        *(event(None), event("FAILED", jobRunId=7)),
    ],
)
def test_everything_else_is_no_news(other):
    assert read_event(other) is None


LAST = "Job failed, please check complete logs in configured logging destination. ExitCode: 1. Last few exceptions: "
OF_CAPACITY = [
    "ApplicationMaxCapacityExceededException: Worker could not be allocated as the application has exceeded "
    "maximumCapacity settings: [cpu: 16 vCPU]",
    "Worker could not be allocated because the account has exceeded the vCPU quota",
    "Insufficient capacity in the availability zone",
    "The job run exceeded the service quota for concurrent vCPUs",
    "The job run timed out in the queue",
    "The subnet subnet-1 has not enough free IP addresses for the requested workers",
    "ServiceQuotaExceededException: The account has exceeded its concurrent vCPUs",
    f"{LAST}Abandoning job due to no executor being launched within 1200000ms after driver starts.",
    # those of AWS's page "Troubleshooting errors in EMR Serverless"
    "Job failed as account has reached the service limit on the maximum vCPU it can use concurrently.",
    "Job failed as application has exceeded maximumCapacity settings.",
    "Job failed due to Worker could not be allocated as the application has exceeded maximumCapacity.",
]
OF_THE_JOB = [
    f"{LAST}ValueError: limit exceeded by the query",
    f"{LAST}buffer exceeds its capacity",
    "Container killed for exceeding memory limits",
    "Job execution timed out after 315 minutes",
    "",
    # of the same page
    "S3 access is denied. Please check S3 access permissions of the job runtime role on the required S3 resources.",
    "ModuleNotFoundError: No module named x. Please refer to the user guide on how to use python libraries with EMR "
    "Serverless.",
    "Could not assume execution role r because it does not exist or is not set up with the required trust "
    "relationship.",
]


@pytest.mark.parametrize("details", [*OF_CAPACITY, *OF_THE_JOB])
def test_a_capacity_failure_is_distinguished_from_the_jobs_own(details):
    assert lacks_capacity("FAILED", details) is (details in OF_CAPACITY)
    assert lacks_capacity("SUCCESS", details) is False


def test_the_end_of_a_job_run_concerns_its_lane_and_lanes_that_may_want_a_run():
    holding, other = LaneState("a", state=RUNNING, job_run_id="j1"), LaneState("b", state=RUNNING, job_run_id="j2")
    unknown, idle = LaneState("c", state=STARTING), LaneState("d", state=IDLE)
    due, later = LaneState("e", state=IDLE, due_at=5), LaneState("f", state=IDLE, due_at=6)
    lanes = [holding, other, unknown, idle, due, later]
    assert concerned(lanes, JobRunNews("j1", "FAILED"), 5) == (holding, unknown, due)


def test_what_a_lane_remembers_of_a_dead_run_is_bounded():
    assert lapse_reason("FAILED", "") == "job run FAILED"
    assert len(lapse_reason("FAILED", "x" * 5_000)) == 500
