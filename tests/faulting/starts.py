"""Faults of EMR Serverless: starts that are refused, lost or never begin, and state changes in disorder."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable
from typing import Any

from faulting.fault import Fault
from faulting.scene import Scene, send
from sluice.lane.supervision import STATE_CHANGE, UNHELD_START_MS

STATES = ("SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "FAILED")


def start_that(**behaviour: Any) -> Callable[[Scene], None]:
    """Put a round while no run lives and the next starts misbehave so."""

    def act(scene: Scene) -> None:
        scene.end_run()
        scene.behave(**behaviour)
        scene.world.put_round()
        scene.struck()
        scene.stack.sluice("resume", scene.world.lane)
        scene.wait_settled()

    return act


def never_begins(scene: Scene) -> None:
    """A run stays SCHEDULED; its start is put back by half an hour, behind which supervise cancels it."""
    scene.end_run()
    scene.behave(never_begin=1)
    scene.world.put_round()
    scene.stack.sluice("resume", scene.world.lane)
    stuck = scene.until(lambda: scene.lane().job_run_id, "a started run")
    scene.until(lambda: scene.job_run(stuck)["state"] == "SCHEDULED", "a run that is scheduled")
    scene.struck()
    earlier = int(time.time() * 1000) - UNHELD_START_MS - 1
    scene.change_lane(start_requested_at=earlier)
    scene.until(lambda: scene.job_run(stuck)["state"] == "CANCELLED", "the cancelled run")


def unannounced_death(scene: Scene) -> None:
    """kill -9 of the driver, of which no event tells."""
    scene.behave(drop_events=True)
    scene.kill_driver()
    scene.world.put_round()
    scene.wait_settled()


def events_in_disorder(scene: Scene) -> None:
    """kill -9 of the driver; its state changes come late, newest first, three times each, and those of the next run."""
    scene.behave(drop_events=True)
    first = scene.kill_driver()
    scene.world.put_round()
    scene.until(lambda: scene.job_run(first)["state"] == "FAILED", "the end of the run at EMR Serverless")
    for state in reversed(STATES):
        for _ in range(3):
            scene.invoke("SuperviseFunction", state_change(first, state))
    second = scene.until(lambda: scene.lane().job_run_id not in (None, first) and scene.lane().job_run_id, "a new run")
    for job_run in (first, second):
        for state in ("RUNNING", "SCHEDULED", "PENDING"):
            scene.invoke("SuperviseFunction", state_change(job_run, state))
    scene.invoke("SuperviseFunction", state_change(first, "FAILED"))


def state_change(job_run: str, state: str) -> dict[str, Any]:
    """An event of EventBridge, with the fields that are read."""
    return {
        "id": str(uuid.uuid4()),
        "detail-type": STATE_CHANGE,
        "source": "aws.emr-serverless",
        "detail": {"jobRunId": job_run, "state": state, "previousState": "SUBMITTED"},
    }


def stopped_for_a_while(scene: Scene) -> None:
    """SIGSTOP of the driver during a write, and SIGCONT before anyone finds out."""
    with scene.trap(scene.data_put(), after=True) as trap:
        scene.world.put_round()
        scene.caught(trap)
        stopped = scene.processes(scene.held_by())
        send(stopped, signal.SIGSTOP)
        scene.struck()
        trap.let_go(forward=True)
    scene.supervise()  # it finds the job run running
    send(stopped, signal.SIGCONT)


STARTS: tuple[Fault, ...] = (
    Fault(
        "stopped_for_a_while", "SIGSTOP of the driver in a write; SIGCONT before anyone finds out", stopped_for_a_while
    ),
    Fault("start_throttled", "three calls of StartJobRun are throttled", start_that(throttle=3)),
    Fault("start_without_quota", "two calls of StartJobRun exceed the account's quota", start_that(no_quota=2)),
    Fault(
        "start_without_capacity",
        "a job run fails for lack of workers before its driver starts",
        start_that(no_capacity=1),
    ),
    Fault(
        "start_unheard",
        "StartJobRun starts a run and answers with an error; its repetition gives the same run",
        start_that(lose_answers=1),
    ),
    Fault(
        "start_unheard_twice",
        "StartJobRun starts a run without an answer, and has forgotten the token when it is repeated: two job runs",
        start_that(lose_answers=1, forget_tokens=True),
    ),
    Fault(
        "start_never_begins",
        "a job run stays SCHEDULED",
        never_begins,
        nearest="the time of the start is put back by half an hour in the ledger, which nobody waits for",
    ),
    Fault("events_dropped", "kill -9 of the idle driver, and no state change is delivered", unannounced_death),
    Fault(
        "events_repeated_reversed",
        "kill -9 of the idle driver; state changes come three times, newest first, also those of the run before",
        events_in_disorder,
    ),
)
