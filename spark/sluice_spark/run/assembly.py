"""Assembles the steps of a run over its ports."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Callable

from sluice.objects import ObjectId
from sluice.ports import Clock, Log
from sluice_aws.ledger.ledger import Ledger
from sluice_spark.ports import Configurations, Manifests, Merger
from sluice_spark.run.batch import BatchStep
from sluice_spark.run.claim import ClaimStep, ConfigurationInForce, unknown_time
from sluice_spark.run.dumps import DumpStep, no_files
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.loop import RunLoop
from sluice_spark.run.part import TableParts
from sluice_spark.run.services import ServiceStep
from sluice_spark.run.takeover import Takeover


@dataclass(frozen=True)
class Ports:
    """All ports of one run.

    `tables_at_once` has one thread for each table that is merged at the same time; `background` has at least one more.
    `arrival` asks for an object's time in S3 (`Objects.arrival`), `files` lists bronze (`files_beside`).
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


def run_loop(ports: Ports, hold: LaneHold, *, poll_s: float, scope: str = "") -> RunLoop:
    """The loop of a run. `scope` names the tables that the run's policy lets it write; empty for all.

    `poll_s`: seconds between two reads of an idle lane.
    """
    ledger, manifests, merger, clock, log = ports.ledger, ports.manifests, ports.merger, ports.clock, ports.log
    configuration = ConfigurationInForce(ports.configurations, log, lane=hold.identity.lane, scope=scope)
    parts = TableParts(ledger=ledger, manifests=manifests, merger=merger, hold=hold, clock=clock, log=log)
    batches = BatchStep(
        ledger=ledger, merger=merger, parts=parts, hold=hold, clock=clock, log=log, tables_at_once=ports.tables_at_once
    )
    takeover = Takeover(ledger=ledger, manifests=manifests, batches=batches, hold=hold, clock=clock, log=log)
    claims = ClaimStep(
        ledger=ledger,
        manifests=manifests,
        configuration=configuration,
        hold=hold,
        clock=clock,
        log=log,
        background=ports.background,
        arrival=ports.arrival,
        dumps=DumpStep(ledger=ledger, files=ports.files, clock=clock, log=log),
    )
    services = ServiceStep(ledger=ledger, merger=merger, configuration=configuration, hold=hold, clock=clock, log=log)
    return RunLoop(
        ledger=ledger,
        manifests=manifests,
        hold=hold,
        takeover=takeover,
        claims=claims,
        batches=batches,
        services=services,
        merger=merger,
        configuration=configuration,
        clock=clock,
        log=log,
        poll_s=poll_s,
    )
