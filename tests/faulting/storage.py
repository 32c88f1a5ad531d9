"""Faults of S3, DynamoDB, KMS and the driver's disk, while a batch is claimed, written and settled."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from faulting.fault import COW, MOR, Fault
from faulting.proxy import DYNAMODB, S3, Request, Rule, cut_off, delay, refuse
from faulting.scene import Scene
from faulting.world import TABLES

KMS = (
    "User: arn:aws:sts::000000000000:assumed-role/job/run is not authorized to perform: kms:GenerateDataKey on this "
    "resource because no identity-based policy allows the kms:GenerateDataKey action"
)


def of(service: str) -> Callable[[Request], bool]:
    """Every request of a service."""
    return lambda request: request.service == service


def every(number: int, matches: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """Every so-many-th of the matching requests."""
    count = itertools.count(1)
    return lambda request: matches(request) and next(count) % number == 0


@contextmanager
def lasting(scene: Scene, matches: Callable[[Request], bool], **how: Any) -> Iterator[Rule]:
    """A fault that lasts for the block: the strike is its beginning, and recovery counts from its end."""
    with scene.proxy.rule(matches, **how) as rule:
        scene.struck()
        yield rule
    scene.ended()


def while_a_round_is_committed(matches: Callable[[], Callable[[Request], bool]], **how: Any) -> Callable[[Scene], None]:
    """The fault lasts from before a round is put until it is committed: the batch must get through."""

    def act(scene: Scene) -> None:
        with lasting(scene, matches(), **how) as rule:
            scene.world.put_round()
            scene.wait_settled()
        assert rule.struck > 10, f"{rule.struck} of {rule.seen} requests were struck"

    return act


def until_struck(
    matches: Callable[[Scene], Callable[[Request], bool]], times: int, **how: Any
) -> Callable[[Scene], None]:
    """Every matching request is struck while a round waits, until so many were."""

    def act(scene: Scene) -> None:
        with lasting(scene, matches(scene), **how) as rule:
            scene.world.put_round()
            scene.until(lambda: rule.struck >= times, f"{times} struck requests")

    return act


def until_tables_fail(matches: Callable[[Scene], Callable[[Request], bool]], failed: int) -> Callable[[Scene], None]:
    """Requests are denied until so many tables have failed; with one of four, the others are committed meanwhile."""

    def act(scene: Scene) -> None:
        with lasting(scene, matches(scene), before=refuse(403, "AccessDenied", KMS if failed > 1 else "Access Denied")):
            scene.world.put_round()
            scene.until(lambda: len(scene.failed_tables()) == failed, f"the failure of {failed} tables")
            if failed == 1:
                others = [table for table in scene.world.tables if table not in scene.failed_tables()]
                scene.until(lambda: scene.committed(others), "commits of the other tables meanwhile")

    return act


def below(prefix: str, *methods: str) -> Callable[[Request], bool]:
    """Requests of S3 by these methods for keys that begin so."""
    return lambda request: request.service == S3 and request.method in methods and request.path.startswith(prefix)


def one_table(scene: Scene) -> Callable[[Request], bool]:
    """Every write below one table's folder."""
    prefix = f"/{scene.stack.target.silver}/{scene.world.tables[0].replace('.', '/')}/"
    return below(prefix, "PUT", "POST", "DELETE")


def all_tables(scene: Scene) -> Callable[[Request], bool]:
    """Every write of a file below the tables' folders."""
    prefix = f"/{scene.stack.target.silver}/{scene.world.database}/"
    return below(prefix, "PUT", "POST")


def full_disk(scene: Scene) -> None:
    """The driver's processes can write no file any more, until a batch has failed, or is merged without one."""
    job_run = scene.lane().job_run_id
    assert job_run is not None
    pids = scene.processes(job_run)

    def ended() -> bool:
        if scene.failed_tables() or scene.lane().job_run_id != job_run or not scene.processes(job_run):
            return True
        return bool(scene.in_state(scene.world.puts, "committed", "quarantined"))

    limit_files(pids, 0)
    scene.struck()
    try:
        scene.world.put_round()
        scene.until(ended, "an end of the batch")
    finally:
        limit_files(pids, resource.RLIM_INFINITY)
    scene.ended()


def limit_files(pids: list[int], size: int) -> None:
    """Let processes write no byte beyond this size into any file."""
    for pid in pids:
        try:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        except ProcessLookupError:
            continue  # it has ended


def unheard_writes(scene: Scene) -> None:
    """The ledger carries a write out, and the driver never hears of it."""
    writes = scene.written("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
    with lasting(scene, every(3, writes), after=cut_off) as rule:
        scene.world.put_round()
        scene.wait_settled()
    assert rule.struck > 1, rule


def both_ways(scene: Scene) -> None:
    """One of eight requests of S3 is cut off before it arrives, and one of ten with its answer."""
    with ExitStack() as rules:
        rules.enter_context(scene.proxy.rule(every(10, of(S3)), after=cut_off))
        before = rules.enter_context(lasting(scene, every(8, of(S3)), before=cut_off))
        scene.world.put_round()
        scene.wait_settled()
    assert before.struck > 10, before


SLOW_DOWN = refuse(503, "SlowDown", "Reduce your request rate")
EXCEEDED = refuse(400, "ProvisionedThroughputExceededException", "The level of throughput is exceeded")
THROTTLED = refuse(400, "ThrottlingException", "Rate of requests exceeded")
STORAGE: tuple[Fault, ...] = (
    Fault(
        "s3_busy",
        "S3 answers one of three of the driver's requests with 503 SlowDown until a round is committed",
        while_a_round_is_committed(lambda: every(3, of(S3)), before=SLOW_DOWN),
    ),
    Fault(
        "s3_down",
        "S3 answers each of the driver's requests with 503 until 6 are refused, and runs die of it",
        until_struck(lambda scene: of(S3), 6, before=refuse(503, "ServiceUnavailable")),
    ),
    Fault(
        "s3_slow",
        "S3 takes 0.2 s more for each of the driver's requests until a round is committed",
        while_a_round_is_committed(lambda: of(S3), before=delay(0.2)),
        table_type=MOR,
    ),
    Fault(
        "s3_resets",
        "connections to S3 are reset before one of eight requests arrives and after one of ten, until a round is "
        "committed",
        both_ways,
        table_type=MOR,
    ),
    Fault(
        "dynamodb_throttled",
        "DynamoDB throttles one of two of the driver's requests until a round is committed",
        while_a_round_is_committed(lambda: every(2, of(DYNAMODB)), before=EXCEEDED),
    ),
    Fault(
        "dynamodb_down",
        "DynamoDB throttles every request of the driver until 30 are refused",
        until_struck(lambda scene: of(DYNAMODB), 30, before=THROTTLED),
    ),
    Fault(
        "dynamodb_unheard",
        "DynamoDB carries out one of three of the driver's writes without an answer, until a round is committed",
        unheard_writes,
    ),
    Fault(
        "table_unwritable",
        "every write below one table's folder is denied, until that table has failed and the others are committed",
        until_tables_fail(one_table, 1),
    ),
    Fault(
        "kms_denied",
        "the key denies every file of all tables while a batch runs, until all four have failed",
        until_tables_fail(all_tables, len(TABLES)),
        nearest="the emulator checks no KMS; a proxy gives S3's answer, AccessDenied with KMS's sentence",
    ),
    Fault(
        "disk_full",
        "the driver and its workers can write no local file until a batch has failed, or is merged without one",
        full_disk,
        table_type=COW,
        nearest="a limit of file sizes, which makes every write fail as on a full disk, with another error number",
    ),
)
