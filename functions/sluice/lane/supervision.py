"""Supervision of a lane: the schedule's next step, and the meaning of EMR Serverless's events and job-run states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.lane.machine import RUNNING, STARTING, UNANSWERED_START_MS, LaneState, wants_run
from sluice.names import timed_id

NOTHING = "nothing"
START = "start"  # request_start under a new run id, then StartJobRun
REPEAT_START = "repeat_start"  # StartJobRun again under the same run id and token
LOOK_UP = "look_up"  # ListJobRuns by name: adopt what is found (`started`), else `lapse` with job_run_id None
ASK_STATE = "ask_state"  # GetJobRun: terminal -> `lapse` with this job_run_id


@dataclass(frozen=True)
class LaneStep:
    """One action, with the run and the job run that it concerns."""

    action: str
    run_id: str | None = None
    job_run_id: str | None = None


def next_step(state: LaneState, now: int) -> LaneStep:
    """The next step for a lane, from one strongly consistent read. Carrying it out is conditional on that state."""
    if wants_run(state, now):
        return LaneStep(START)
    if state.state not in (STARTING, RUNNING):
        return LaneStep(NOTHING)
    if state.job_run_id is not None:
        return LaneStep(ASK_STATE, state.run_id, state.job_run_id)
    if now < (state.start_requested_at or 0) + UNANSWERED_START_MS:
        return LaneStep(REPEAT_START, state.run_id)
    return LaneStep(LOOK_UP, state.run_id)


#: A run that doesn't hold its lane by then waits for workers that don't come. Starting anew is as good, and is counted.
UNHELD_START_MS = 30 * 60_000
#: The holder gives a sign between batches, and a batch takes an hour at most (`sluice.lane.job_request`).
SILENCE_MS = 2 * 60 * 60_000
LONGEST_RUN_MS = 24 * 60 * 60_000  # of a run whose time limit is not known
ENDING_MS = 30 * 60_000  # for the cancellation at the time limit


def may_live(state: LaneState, now: int) -> bool:
    """True if the run of an application that can't be asked any more, since it was replaced, may still hold its lane.

    A driver that doesn't hold yet never will, once its lane is taken from it. One that holds ends at its time limit.
    """
    if state.state != RUNNING:
        return False
    return now < (state.held_at or now) + (state.time_limit_ms or LONGEST_RUN_MS) + ENDING_MS


def why_cancel(state: LaneState, now: int) -> str | None:
    """Why a job run that has not ended is to be cancelled, so that its lane gets another one; None to let it be."""
    if state.state == STARTING and now - (state.start_requested_at or now) > UNHELD_START_MS:
        return f"it was requested {UNHELD_START_MS // 60_000} minutes ago and has not begun"
    if state.state == RUNNING and now - max(state.held_at or 0, state.alive_at or 0) > SILENCE_MS:
        return f"it has not finished a batch or looked for one for {SILENCE_MS // 3_600_000} hours"
    return None


def new_run_id(lane: str, now: int, entropy: str) -> str:
    """An id (`names.timed_id`) in a form that is valid as job name, tag and clientToken.

    It must never repeat: a clientToken that was used before returns the run it started then.
    """
    return timed_id(f"run-{lane}", now, entropy)[:64]


TERMINAL_STATES = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
GONE = "GONE"  # EMR Serverless does not know the job run, or no longer
STATE_CHANGE = "EMR Serverless Job Run State Change"
UTILIZATION_UPDATE = "EMR Serverless Job Resource Utilization Update"

# Failures for lack of workers: no errors of the job, so they never halt a lane. First the sentences of AWS's page
# "Troubleshooting errors in EMR Serverless", then EMR's exceptions, and causes that its pages on quotas, queues and
# networks name without a text.
_CAPACITY = re.compile(
    r"service limit on the max(imum)? vcpu"
    r"|max(imum)?[ _-]?capacity"
    r"|worker could not be allocated|could not allocate"
    r"|insufficient[ _-]?capacity|capacity[ _-]?exceeded"
    r"|exceed\w*[^.]{0,60}\b(capacity|quota)|service[ _-]?quota|vcpu[^.]{0,40}\b(quota|limit)"
    r"|(insufficient|not enough|no( free)?|exceed\w*)[^.]{0,40}\bip address"
    r"|queue[ _-]?time|timed out in (the )?queue",
    re.IGNORECASE,
)
# EMR's own scheduler gave up, which is certain even among the last exceptions of a job.
_NO_EXECUTOR = re.compile(r"no executor being launched within \d+", re.IGNORECASE)
# EMR's message when the job's own code failed. The job's last exceptions follow, and may mention a capacity too.
_OWN_FAILURE = re.compile(r"\s*job failed, please check", re.IGNORECASE)


@dataclass(frozen=True)
class JobRunNews:
    """A state-change event: a job run and its new state."""

    job_run_id: str
    state: str

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL_STATES


def read_event(event: Any) -> JobRunNews | None:
    """The job run and state of an EventBridge event; None for any other event, such as the schedule's."""
    detail = _detail(event, STATE_CHANGE)
    job_run_id, state = detail.get("jobRunId"), detail.get("state")
    return JobRunNews(job_run_id, state) if isinstance(job_run_id, str) and isinstance(state, str) else None


def finally_billed(event: Any) -> str | None:
    """The job run whose final resource utilization an EventBridge event reports; None for any other event."""
    detail = _detail(event, UTILIZATION_UPDATE)
    job_run_id = detail.get("jobRunId") if detail.get("resourceUtilizationFinal") is True else None
    return job_run_id if isinstance(job_run_id, str) else None


def _detail(event: Any, detail_type: str) -> Mapping[str, Any]:
    """The detail of an event of a type; empty for any other event."""
    detail = event.get("detail") if isinstance(event, Mapping) and event.get("detail-type") == detail_type else None
    return detail if isinstance(detail, Mapping) else {}


def concerned(lanes: Sequence[LaneState], news: JobRunNews, now: int) -> tuple[LaneState, ...]:
    """The lanes that a job run's end can concern.

    They are the one it holds, those whose job run is not known yet, and those that want a run: it may have released its
    lane for its successor, at its maximum age or under a new configuration.
    """
    return tuple(
        lane
        for lane in lanes
        if lane.job_run_id == news.job_run_id
        or (lane.state == STARTING and lane.job_run_id is None)
        or wants_run(lane, now)
    )


def is_terminal(state: str) -> bool:
    return state in TERMINAL_STATES or state == GONE


def lacks_capacity(state: str, details: str) -> bool:
    """True if a job run failed for lack of workers. That causes a back-off and an alarm, never a halt."""
    if state not in ("FAILED", "CANCELLED"):
        return False
    if _NO_EXECUTOR.search(details):
        return True
    return not _OWN_FAILURE.match(details) and bool(_CAPACITY.search(details))


def lapse_reason(state: str, details: str) -> str:
    """The reason stored on a lane whose run ended without releasing it, at most 500 characters."""
    summary = details.strip()
    return f"job run {state}: {summary}"[:500] if summary else f"job run {state}"
