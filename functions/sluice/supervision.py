"""What the schedule does next about a lane, as a decision: start it, repeat a start, look a start up, or ask EMR."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional

from sluice.lane import RUNNING, STARTING, TOKEN_REPEAT_MS, LaneState, wants_run

NOTHING = "nothing"
START = "start"  # request_start under a new run id, then StartJobRun
REPEAT_START = "repeat_start"  # StartJobRun again under the same run id and token
LOOK_UP = "look_up"  # ListJobRuns by name: adopt what is found (`started`), else `lapse` with job_run_id None
ASK_STATE = "ask_state"  # GetJobRun: terminal -> `lapse` with this job_run_id


@dataclass(frozen=True)
class Step:
    """One action, and the run and job run it is about."""

    action: str
    run_id: Optional[str] = None
    job_run_id: Optional[str] = None


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
