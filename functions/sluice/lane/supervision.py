"""What the schedule does next about a lane, as a decision: start it, repeat a start, look a start up, or ask EMR.

What EMR's words about a job run mean for the lane that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from sluice.lane.machine import RUNNING, STARTING, TOKEN_REPEAT_MS, LaneState, wants_run

NOTHING = "nothing"
START = "start"  # request_start under a new run id, then StartJobRun
REPEAT_START = "repeat_start"  # StartJobRun again under the same run id and token
LOOK_UP = "look_up"  # ListJobRuns by name: adopt what is found (`started`), else `lapse` with job_run_id None
ASK_STATE = "ask_state"  # GetJobRun: terminal -> `lapse` with this job_run_id


@dataclass(frozen=True)
class Step:
    """One action, and the run and job run it is about."""

    action: str
    run_id: str | None = None
    job_run_id: str | None = None


def next_step(state: LaneState, now: int) -> Step:
    """Decide from one strongly consistent read of the lane; what is done about it is conditional on that read."""
    if wants_run(state, now):
        return Step(START)
    if state.state not in (STARTING, RUNNING):
        return Step(NOTHING)
    if state.job_run_id is not None:
        return Step(ASK_STATE, state.run_id, state.job_run_id)
    if now < (state.start_requested_at or 0) + TOKEN_REPEAT_MS:
        return Step(REPEAT_START, state.run_id)
    return Step(LOOK_UP, state.run_id)


def new_run_id(lane: str, now: int, entropy: str) -> str:
    """`run-<lane>-<yyyymmddThhmmssZ>-<8 hexadecimal digits>`, the form that a job name, tag and clientToken all allow.

    `now` is epoch milliseconds, `entropy` at least 8 hexadecimal digits from the caller's source of
    randomness: a run id must never come back, since a token replays the run it made.
    """
    at = datetime.fromtimestamp(now / 1000, tz=timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"run-{lane}-{at}-{entropy[:8]}"[:64]


TERMINAL_STATES = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
GONE = "GONE"  # EMR Serverless doesn't know the job run (any more)
STATE_CHANGE = "EMR Serverless Job Run State Change"
UTILIZATION_UPDATE = "EMR Serverless Job Resource Utilization Update"

# Failures for want of workers: "ApplicationMaxCapacityExceededException", "exceeded the maximum vCPU quota of your account",
# "insufficient capacity", a queue time-out. Not an error of the job, so they never count towards halting.
_CAPACITY = re.compile(
    r"max(imum)?[ _-]?capacity|insufficient[ _-]?capacity|capacity[ _-]?exceeded|exceed\w*[^.]{0,60}\b(capacity|quota)|service[ _-]?quota"
    r"|vcpu[^.]{0,40}\b(quota|limit)|queue[ _-]?time|timed out in (the )?queue|worker could not be allocated|could not allocate",
    re.IGNORECASE,
)
# What EMR says when the job's own code failed; its last exceptions follow, and they may name a capacity of their own.
_OWN_FAILURE = re.compile(r"\s*job failed, please check", re.IGNORECASE)


@dataclass(frozen=True)
class JobRunNews:
    """A state-change event: which job run is now in which state. It says no more than that."""

    job_run_id: str
    state: str

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL_STATES


def read_event(event: Any) -> JobRunNews | None:
    """The news in an EventBridge event; None for every other event, such as the schedule's."""
    if not isinstance(event, Mapping) or event.get("detail-type") != STATE_CHANGE:
        return None
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return None
    job_run_id, state = detail.get("jobRunId"), detail.get("state")
    return JobRunNews(job_run_id, state) if isinstance(job_run_id, str) and isinstance(state, str) else None


def finally_billed(event: Any) -> str | None:
    """The job run that an EventBridge event tells the last bill of; None for every other event, the ones between among them."""
    if not isinstance(event, Mapping) or event.get("detail-type") != UTILIZATION_UPDATE:
        return None
    detail = event.get("detail")
    if not isinstance(detail, Mapping) or detail.get("resourceUtilizationFinal") is not True:
        return None
    job_run_id = detail.get("jobRunId")
    return job_run_id if isinstance(job_run_id, str) else None


def concerned(lanes: Sequence[LaneState], news: JobRunNews) -> tuple[LaneState, ...]:
    """The lanes that a job run's end can be about: the one it holds, and starts whose job run isn't known yet."""
    return tuple(
        lane
        for lane in lanes
        if lane.job_run_id == news.job_run_id or (lane.state == STARTING and lane.job_run_id is None)
    )


def is_terminal(state: str) -> bool:
    """Whether nothing of the job run lives any more."""
    return state in TERMINAL_STATES or state == GONE


def lacks_capacity(state: str, details: str) -> bool:
    """Whether a job run failed for want of workers: back-off and alarm, never a step towards halting."""
    if state not in ("FAILED", "CANCELLED") or _OWN_FAILURE.match(details):
        return False
    return bool(_CAPACITY.search(details))


def lapse_reason(state: str, details: str) -> str:
    """What the lane remembers of a run that ended without releasing it; bounded, since `details` are EMR's words."""
    summary = details.strip()
    return f"job run {state}: {summary}"[:500] if summary else f"job run {state}"
