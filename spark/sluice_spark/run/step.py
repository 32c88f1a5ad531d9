"""What all steps of a run have: its ports, and the hold of its lane."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Callable

from sluice.objects import ObjectId
from sluice.ports import Clock, Log
from sluice_aws.ledger.ledger import Ledger
from sluice_spark.ports import Configurations, Manifests, Merger
from sluice_spark.run.hold import LaneHold


def unknown_time(id: ObjectId) -> int | None:
    """Where nothing can ask S3."""
    return None


def no_files(id: ObjectId, prefix: str) -> Mapping[ObjectId, int]:
    """Where nothing can list S3."""
    return {}


@dataclass(frozen=True)
class Ports:
    """All ports of one run.

    `tables_at_once` has one thread for each table that is merged at the same time; `background` has at least one more.
    `arrival` asks S3 for the time of an object whose record has none though it orders its rows (`Objects.arrival`).
    `files` lists the objects below a prefix of an object's bucket, with their times in epoch ms (`files_beside`).
    """

    ledger: Ledger
    manifests: Manifests
    merger: Merger
    configurations: Configurations
    clock: Clock
    log: Log
    tables_at_once: Executor
    background: Executor
    arrival: Callable[[ObjectId], int | None] = unknown_time
    files: Callable[[ObjectId, str], Mapping[ObjectId, int]] = no_files


class RunStep:
    """A step of a run."""

    def __init__(self, ports: Ports, hold: LaneHold) -> None:
        self._ports = ports
        self._ledger = ports.ledger
        self._manifests = ports.manifests
        self._merger = ports.merger
        self._clock = ports.clock
        self._log = ports.log
        self._hold = hold
