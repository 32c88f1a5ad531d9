"""What is said of a lane and its runs, and which step helps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from sluice.batch.claim import TableState
from sluice.lane.machine import HALTED, IDLE, LEDGER_LOST, PAUSED, RUNNING, STARTING, LaneState, wants_run
from sluice_cli.account.steps import continued_rebuild, ledger_back
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted, human_age
from sluice_read.moments import short_clock

LAPSED = "lapsed"  # a run that ended without releasing its lane
STUCK_MS = 30 * 60_000  # a run without progress for so long is to be looked at; a part may take longer


def progressed_at(lane: LaneState, parts: Iterable[Mapping[str, Any]] = ()) -> int | None:
    """When a run last did something for its lane (epoch ms): it began, looked for work, or settled a part of a batch.

    `parts` are those of its open batches, as stored. None without a run that holds the lane.
    """
    if lane.state != RUNNING:
        return None
    times = (lane.held_at, lane.alive_at, *(part.get("settled_at") for part in parts))
    return max((at for at in times if at), default=None)


def describe_lane(lane: LaneState, now: int, resting: Collection[str] = (), progress: int | None = None) -> str:
    """A lane's activity in a few words. `now` is epoch ms. `resting` are the lanes that a standstill paused.

    `progress` is that of `progressed_at`, which is said where it is long ago.
    """
    if lane.state == STARTING:
        since = f" ({human_age(now - lane.start_requested_at)})" if lane.start_requested_at else ""
        ending = ", then the lane pauses" if lane.pause_requested else ""
        return f"{'Spark is starting' if lane.job_run_id else 'a run is requested'}{since}{ending}"
    if lane.state == RUNNING:
        if lane.idle_until is not None and lane.idle_until > now and not lane.pause_requested:
            return f"Spark waits for objects until {short_clock(lane.idle_until, now)}"
        ending = ", pauses after its batch" if lane.pause_requested else ""
        if progress is not None and now - progress > STUCK_MS:
            ending = f", without progress for {human_age(now - progress)}{ending}"
        return f"Spark is running{f' for {human_age(now - lane.held_at)}' if lane.held_at else ''}{ending}"
    if lane.state == HALTED:
        waits = (lane.backoff_until or 0) - now
        again = f", trying again in {human_age(waits)}" if waits > 0 else ""
        return f"halted after {counted(lane.failures, 'failed run')}{again}{f': {lane.reason}' if lane.reason else ''}"
    if lane.state == PAUSED:
        if lane.reason == LEDGER_LOST:
            return f"paused: {lane.reason}"
        return "paused for a standstill" if lane.lane in resting else "paused"
    failures = lane.failures + lane.capacity_failures
    after = f" after {counted(failures, 'failed run')}{f': {lane.reason}' if lane.reason else ''}" if failures else ""
    if lane.state == IDLE and lane.backoff_until is not None and lane.backoff_until > now:
        return f"retrying in {human_age(lane.backoff_until - now)}{after}"
    if wants_run(lane, now):
        return f"a run is due with the next supervision{after}"
    if lane.due_at is not None:
        return f"idle, due in {human_age(lane.due_at - now)}"
    return "idle"


def state_of_lane(lane: Mapping[str, Any]) -> str:
    """The state, in a word, of a lane as `sluice status --json` has it: between failed runs it is failing."""
    return "failing" if lane["state"] == IDLE and lane["failures"] else str(lane["state"])


def lane_entry(
    lane: LaneState,
    now: int,
    resting: Collection[str] = (),
    rebuilds: Mapping[str, str] = MappingProxyType({}),
    parts: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A lane as `sluice status --json` has it, before what waits in it is counted. `now` is epoch ms.

    `resting` are the lanes that a standstill paused, `rebuilds` those of `rebuilds_by_lane`, `parts` those of its open
    batches.
    """
    progress = progressed_at(lane, parts)
    return {
        "lane": lane.lane,
        "state": lane.state,
        "standstill": lane.state == PAUSED and lane.lane in resting,
        "rebuilding": rebuilds.get(lane.lane),  # the table of it whose data is being moved aside
        "summary": describe_lane(lane, now, resting, progress),
        "progress_at": progress,
        "stuck": progress is not None and (lane.idle_until or 0) <= now and now - progress > STUCK_MS,
        "run": lane.run_id,
        "job_run": lane.job_run_id,
        "application": lane.application_id,
        "last_run": lane.last_run_id,
        "failures": lane.failures + lane.capacity_failures,
        "reason": lane.reason,
    }


def steps_of_lane(lane: Mapping[str, Any]) -> tuple[Step, ...]:
    """The step for a lane that is halted, paused or failing, or whose run makes no progress."""
    if lane["state"] == PAUSED:
        return (resumption(lane),)
    if lane["stuck"]:
        names = f"--application-id {lane['application']} --job-run-id {lane['job_run']}"
        ends = f"`aws emr-serverless cancel-job-run {names}` ends it, as supervise does after two hours"
        return (Step("logs", lane["run"], note=f"shows what it does. {ends}, and the next run takes its batch over"),)
    if not lane["failures"]:
        return ()
    runs = Step("runs", "--lane", lane["lane"], "--failed", note="shows how each ended")
    cause = Step("logs", lane["last_run"]) if lane["last_run"] else runs
    return (cause, resumption(lane)) if lane["state"] in (HALTED, IDLE) else (cause,)


def resumption(lane: Mapping[str, Any]) -> Step:
    """What has a lane run again, by its entry. One with a table being rebuilt can't be resumed before that is done."""
    resume = Step("resume", lane["lane"])
    if lane["state"] == PAUSED and lane["reason"] == LEDGER_LOST:
        return ledger_back(lane["lane"])
    if lane["rebuilding"]:
        return continued_rebuild(lane["rebuilding"], lane["lane"])
    if lane["standstill"]:
        return Step("standstill end", note="resumes it, once the deployment that it was for has ended")
    return resume


def resumed(lane: str) -> Step:
    """What has a lane run again."""
    return Step("resume", lane)


def log_of(run: str) -> Step:
    """What shows the log of a run."""
    return Step("logs", run)


def restarted(lane: LaneState) -> str:
    """What ends the halt of a lane, as the end of a sentence; empty for any other."""
    return f". {Step('resume')} restarts it at once" if lane.state == HALTED else ""


def rebuilds_by_lane(states: Iterable[TableState]) -> Mapping[str, str]:
    """The table of each lane whose data is being moved aside."""
    return {str(state.rebuild.get("lane")): state.table for state in states if state.rebuild}


def run_ms(item: Mapping[str, Any], now: int) -> int | None:
    """How long a run took, or takes until `now` (ms): since its start, or before that since its request."""
    began, ended = item.get("started_at") or item.get("requested_at"), item.get("ended_at")
    return None if began is None else max(0, (now if ended is None else ended) - began)


def batches_of_run(state: str | None, number: int | None) -> str:
    """The number of batches. Of a run that died the ledger counts none, so that 0 says nothing."""
    return "-" if number is None or state == LAPSED and not number else f"{number:,}"
