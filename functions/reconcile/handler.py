"""reconcile: repairs what events missed.

It admits objects without a notice, drops records of objects that are gone, moves objects that raced a configuration
push, wakes idle lanes with work, and announces committed batches that the stream missed. Supervise starts the runs.
On a schedule of its own it audits the stack instead.
"""

from __future__ import annotations

import functools
import os
from dataclasses import asdict, dataclass
from typing import Any, Callable

from sluice.config.document import Configuration
from sluice_aws.admission.admit import open_admission
from sluice_aws.admission.reassign import RECENTLY_MS, Rerouted, Unparked, reroute, shares_partitions, unpark
from sluice_aws.admission.reconcile import Reconciler
from sluice_aws.admission.sweep import ObjectScan, Sweeper
from sluice_aws.announce import Announcer, announcer_of
from sluice_aws.audit.rounds import Auditor
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.lanes.start import Waker
from sluice_aws.lanes.supervise import Supervisor
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, milliseconds_left, observed

NEEDED = ("region", "stack", "ledger_table", "bronze_bucket", "silver_bucket", "artifact_bucket", "event_bus")
RESERVED_MS = 30_000  # kept of the invocation's time for the page under way
AUDIT = "audit"  # the duty that the other schedule asks for


@observed("reconcile")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry, called by two schedules: continues the audit, or repairs what events missed."""
    parts = parts_of(telemetry)

    def seconds_left() -> float:
        left = milliseconds_left(context)
        return 3600.0 if left is None else (left - RESERVED_MS) / 1000

    if event.get("duty") == AUDIT:
        return _audit(parts, telemetry, seconds_left)
    return _reconcile(parts, telemetry, seconds_left)


def _audit(parts: ReconcileParts, telemetry: Telemetry, seconds_left: Callable[[], float]) -> dict[str, Any]:
    configuration = parts.config_store.load()
    reached = parts.auditor.run(
        seconds_left,
        lambda versions: parts.reconciler.admit_missing(versions, configuration, seconds=seconds_left()),
        configuration,
    )
    result = {"phase": reached.phase, "ended_at": reached.ended_at, "contradictions": reached.contradictions()}
    telemetry.event("audited", **result)
    return result


def _reconcile(parts: ReconcileParts, telemetry: Telemetry, seconds_left: Callable[[], float]) -> dict[str, Any]:
    """Sweep some pages, check all lanes, and continue the listing.

    The listing comes last: it reads what others wrote, and has the time that is left.
    """
    configuration = parts.config_store.load()
    sweep = parts.sweeper.run(seconds_left)
    unparked = parts.unpark(configuration)
    rerouted = parts.reroute(configuration)
    parts.waker.wake(unparked.lanes | rerouted.lanes, configuration)
    parts.supervisor.wake_forgotten(parts.supervisor.lanes(configuration), configuration)
    announced = parts.announcer.announce_missed(epoch_ms() - parts.grace_ms)
    listing = parts.reconciler.run(configuration, seconds_left=seconds_left)
    result = {
        **asdict(listing),
        "looked_at": sweep.looked_at,
        "forgotten": sweep.forgotten,
        "lost": sweep.lost,
        "unparked": unparked.objects,
        "rerouted": rerouted.objects,
        "announced": announced,
    }
    telemetry.event("reconciled", **result)
    telemetry.count("ObjectsMissed", listing.missing)
    return result


@dataclass(frozen=True)
class ReconcileParts:
    """The adapters of reconcile, made once per process."""

    reconciler: Reconciler
    sweeper: Sweeper
    supervisor: Supervisor
    config_store: ConfigStore
    waker: Waker
    ledger: Ledger
    announcer: Announcer
    auditor: Auditor
    grace_ms: int

    def unpark(self, configuration: Configuration | None) -> Unparked:
        """Make objects pending that were parked by a configuration just before a push replaced it.

        Where logs share a Kafka partition, those that were parked before that was known, too.
        """
        if configuration is None:
            return Unparked(0, frozenset())
        shared = any(shares_partitions(state) for state in self.ledger.tables.all())
        since = None if shared else epoch_ms() - RECENTLY_MS
        return unpark(self.ledger, configuration, epoch_ms, since=since)

    def reroute(self, configuration: Configuration | None) -> Rerouted:
        """Move pending objects of a table that no longer takes their topic."""
        if configuration is None:
            return Rerouted(0, frozenset())
        lanes = [state.lane for state in self.supervisor.lanes(configuration)]
        return reroute(self.ledger, configuration, lanes, before=epoch_ms() - self.grace_ms, now=epoch_ms)


@functools.lru_cache(maxsize=1)
def parts_of(telemetry: Telemetry) -> ReconcileParts:
    """Make the adapters from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    objects = Objects(clients.s3)
    ledger = Ledger(clients.dynamodb, settings.ledger_table)
    job_runs = JobRuns(clients.emr_serverless, settings.application_id)
    waker = Waker(ledger=ledger, starter=None, report=telemetry, now=epoch_ms)
    grace_ms = settings.reconcile_grace_s * 1000
    return ReconcileParts(
        reconciler=Reconciler(
            ledger=ledger,
            objects=objects,
            admission=open_admission(objects, ledger=ledger, silver_bucket=settings.silver_bucket, now=epoch_ms),
            waker=waker,
            report=telemetry,
            bucket=settings.bronze_bucket,
            grace_ms=grace_ms,
            now=epoch_ms,
        ),
        sweeper=Sweeper(
            ledger=ledger,
            scan=ObjectScan(clients.dynamodb, settings.ledger_table),
            objects=objects,
            report=telemetry,
            bucket=settings.bronze_bucket,
            grace_ms=grace_ms,
            forget_after_ms=settings.forget_after_s * 1000,
            now=epoch_ms,
        ),
        supervisor=Supervisor(ledger=ledger, job_runs=job_runs, starter=None, report=telemetry, now=epoch_ms),
        config_store=ConfigStore(objects, settings.artifact_bucket, history=ledger.history),
        waker=waker,
        ledger=ledger,
        announcer=announcer_of(settings, clients, ledger=ledger, report=telemetry),
        auditor=Auditor(
            ledger=ledger,
            objects=objects,
            timelines=TimelineReader(SilverBucket(clients.s3, settings.silver_bucket)),
            report=telemetry,
            bronze=settings.bronze_bucket,
            silver=settings.silver_bucket,
            grace_ms=grace_ms,
            now=epoch_ms,
        ),
        grace_ms=grace_ms,
    )
