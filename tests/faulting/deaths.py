"""Faults of the driver: it is killed at each phase of a batch, or stopped, replaced and woken up."""

import json
import secrets
import signal
import time
from collections.abc import Callable

from faulting.fault import MOR, Fault, both_types
from faulting.proxy import Request
from faulting.scene import Scene, command, send
from faulting.world import TABLES

Matching = Callable[[Scene], Callable[[Request], bool]]
TEXT_BYTES_READ_IN_TASKS = 100_000  # in each row of a round: the driver itself reads less than 1 MiB


def killed_at(matching: Matching, *, after: bool, skip: int = 0) -> Callable[[Scene], None]:
    """Put a round, and kill -9 the driver that sends the matching request: before it arrives, or behind it."""

    def act(scene: Scene) -> None:
        with scene.trap(matching(scene), after=after, skip=skip) as trap:
            scene.world.put_round()
            scene.caught(trap)
            scene.kill_driver()

    return act


def a_claim(scene: Scene) -> Callable[[Request], bool]:
    """The transaction that claims objects: it deletes their pending items."""
    claims = scene.written("TransactWriteItems", holding=f"object#{scene.stack.target.bronze}/{scene.world.prefix}")
    return lambda request: claims(request) and b'"Delete"' in request.body


def a_commit(scene: Scene) -> Callable[[Request], bool]:
    """The file that completes a commit or delta commit of a table, and not that of a history table before it."""
    return scene.timeline_put("(delta)?commit", *scene.world.tables)


def a_commit_of_history(scene: Scene) -> Callable[[Request], bool]:
    """The file that completes a commit of a history table."""
    histories = (scene.world.form(table).history for table in scene.world.tables)
    return scene.timeline_put("commit", *filter(None, histories))


def worker_killed(scene: Scene) -> None:
    """kill -9 of Spark's Python workers while one reads an object."""
    with scene.trap(scene.bronze_get(), after=False) as trap:
        scene.world.put_round(secrets.token_hex(TEXT_BYTES_READ_IN_TASKS))
        scene.caught(trap)
        scene.struck()
        workers = [
            pid for pid in scene.processes(scene.held_by()) if b"pyspark" in command(pid) and b"daemon" in command(pid)
        ]
        assert workers, "no Python worker reads"
        send(workers, signal.SIGKILL)


def stopped_and_woken(scene: Scene) -> None:
    """Stop the driver behind the first file of an instant, forge EMR's verdict, and wake it when it was replaced."""
    with scene.trap(scene.timeline_put(r"(delta)?commit\.requested"), after=True) as trap:
        scene.world.put_round()
        scene.caught(trap)
        lane = scene.lane()
        assert lane.job_run_id is not None and lane.run_id is not None
        stopped = scene.processes(lane.job_run_id)
        send(stopped, signal.SIGSTOP)
        trap.let_go(forward=True)  # its answer waits in the driver's socket
    scene.struck()
    try:
        now = int(time.time() * 1000)
        assert scene.ledger.lanes.lapse(lane.lane, lane.run_id, now, job_run_id=lane.job_run_id, reason="forged")
        scene.ledger.lanes.resume(lane.lane)
        scene.wait_settled()
    finally:
        send(stopped, signal.SIGCONT)
    scene.until(lambda: not scene.processes(lane.job_run_id), "the end of what was stopped")
    output = scene.stack.home / "runs" / lane.job_run_id / "stdout"
    events = [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]
    assert all(event["at"] <= now for event in events), "it did something more"


DEATHS: tuple[Fault, ...] = (
    *both_types(
        "killed_after_manifest",
        "kill -9 of the driver: the manifest is in S3, and the batch is not open",
        killed_at(lambda scene: scene.silver_put("_sluice/manifests/"), after=True),
    ),
    *both_types(
        "killed_after_claim",
        "kill -9 of the driver: the objects are claimed, and nothing is read",
        killed_at(a_claim, after=True),
    ),
    *both_types(
        "killed_during_write",
        "kill -9 of the driver: an instant is inflight, and a data file is on its way",
        killed_at(lambda scene: scene.data_put(), after=False),
    ),
    *both_types(
        "killed_after_first_commit",
        "kill -9 of the driver: one of the batch's four tables is committed, and not settled",
        killed_at(a_commit, after=True),
        sampled="cow",
    ),
    *both_types(
        "killed_after_history_commit",
        "kill -9 of the driver: a history table is committed, and its table is not",
        killed_at(a_commit_of_history, after=True),
    ),
    *both_types(
        "killed_after_all_commits",
        "kill -9 of the driver: all four tables are committed, and one is not settled",
        killed_at(a_commit, after=True, skip=len(TABLES) - 1),
    ),
    *both_types(
        "killed_during_settle",
        "kill -9 of the driver: an outcome is in S3, and not in the ledger",
        killed_at(lambda scene: scene.silver_put("_sluice/outcomes/"), after=True),
    ),
    *both_types(
        "stopped_and_woken",
        "SIGSTOP of the driver between two files of an instant; SIGCONT when another run has done its work",
        stopped_and_woken,
        nearest="EMR Serverless's verdict that the stopped run has ended is forged in the ledger",
    ),
    Fault(
        "worker_killed",
        "kill -9 of Spark's Python workers while one reads an object",
        worker_killed,
        table_type=MOR,  # a small part of a copy-on-write table is read by the driver itself
        nearest="for the loss of an executor: in local mode the driver's JVM is the executor, and its tasks are not "
        "retried, so the table's part fails and is merged again",
    ),
)
