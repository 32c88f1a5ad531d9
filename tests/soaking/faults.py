"""The faults of a soak, drawn by its seed. Each strikes at once; some last for seconds, and then end."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from faulting.proxy import DYNAMODB, S3, Answer, Request, cut_off, delay, refuse
from faulting.scene import send

from soaking.world import TABLES

if TYPE_CHECKING:
    from soaking.soak import Soak

SHARE = 0.3  # of the requests that a fault of a service strikes
Act = Callable[["Soak", random.Random], AbstractContextManager[None]]


@dataclass(frozen=True)
class SoakFault:
    """One kind of fault. `weight`: how often it is drawn. `needs_driver`: it strikes where a driver lives. `lasts`: it
    ends after some seconds.
    """

    name: str
    strikes: str
    act: Act
    weight: int = 1
    needs_driver: bool = False
    lasts: bool = True


def killed(soak: Soak, draw: random.Random) -> AbstractContextManager[None]:
    soak.scene.kill_driver()
    return nullcontext()


@contextmanager
def stopped(soak: Soak, draw: random.Random) -> Iterator[None]:
    lane = soak.scene.lane()
    assert lane.job_run_id is not None, lane
    processes = soak.scene.processes(lane.job_run_id)
    send(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        send(processes, signal.SIGCONT)


def of_service(service: str, strike: Callable[[Request], Answer | None]) -> Act:
    """Strike a share of the requests of a service."""

    @contextmanager
    def act(soak: Soak, draw: random.Random) -> Iterator[None]:
        chance = random.Random(draw.random())
        with soak.scene.proxy.rule(lambda one: one.service == service and chance.random() < SHARE, before=strike):
            yield

    return act


def redelivered(soak: Soak, draw: random.Random) -> AbstractContextManager[None]:
    if soak.world.put_objects:
        again = [draw.choice(soak.world.put_objects)[1] for _ in range(20)]
        soak.send_notices(again)
    return nullcontext()


def repeated(soak: Soak, draw: random.Random) -> AbstractContextManager[None]:
    """Objects come again: under their keys, and under those of another day, as after a reset of the sink's offsets."""
    arrived = [made for made, _ in soak.world.put_objects]
    appended = [made for made in arrived if TABLES[made.name].append_only]
    for made in draw.sample(arrived, min(3, len(arrived))) + draw.sample(appended, min(1, len(appended))):
        soak.world.put(made)
        soak.world.put(made, key=made.key.replace("/day=21/", "/day=22/"))
    return nullcontext()


@contextmanager
def reversed_objects(soak: Soak, draw: random.Random) -> Iterator[None]:
    with soak.held_back():
        yield


FAULTS: tuple[SoakFault, ...] = (
    SoakFault("killed", "kill -9 of the driver", killed, weight=3, needs_driver=True, lasts=False),
    SoakFault("stopped", "SIGSTOP of the driver, SIGCONT some seconds later", stopped, weight=2, needs_driver=True),
    SoakFault("s3_slow_down", "S3 answers 503 to three of ten requests", of_service(S3, refuse(503, "SlowDown"))),
    SoakFault("s3_slow", "S3 answers three of ten requests half a second late", of_service(S3, delay(0.5))),
    SoakFault("s3_cut_off", "S3 resets three of ten connections", of_service(S3, cut_off)),
    SoakFault(
        "dynamodb_throttled",
        "DynamoDB throttles three of ten requests",
        of_service(DYNAMODB, refuse(400, "ProvisionedThroughputExceededException")),
    ),
    SoakFault("notices_again", "twenty notices are delivered once more", redelivered, lasts=False),
    SoakFault(
        "objects_again",
        "four objects, one of them of an append-only table, are put again, under the same key and under another one",
        repeated,
        lasts=False,
    ),
    SoakFault("reversed", "objects are held back for some seconds, and come in reverse order", reversed_objects),
)


def plan(seed: int, number: int) -> list[tuple[SoakFault, float]]:
    """So many faults, each with its length in seconds if it lasts. The same seed gives the same faults.

    They are dealt like cards, so that a short soak has nearly all kinds.
    """
    draw, lengths = random.Random(f"{seed}/faults"), random.Random(f"{seed}/lengths")
    dealt: list[SoakFault] = []
    while len(dealt) < number:
        deck = [fault for fault in FAULTS for _ in range(fault.weight)]
        draw.shuffle(deck)
        dealt += deck
    return [(fault, lengths.uniform(5, 15)) for fault in dealt[:number]]
