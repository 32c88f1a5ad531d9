"""Takes over what earlier runs left: every unsettled manifest of the lane, before anything new is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sluice.batch.isolation import Resumption, resumption
from sluice.ledger.records import ManifestPointer
from sluice_spark.errors import ManifestMissing
from sluice_spark.log import Profile
from sluice_spark.run.batch import BatchEnd, BatchStep
from sluice_spark.run.claim import restricted
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.step import Ports, RunStep


@dataclass(frozen=True)
class TakenOver:
    """A take-over's result: batches closed, and when (epoch ms) to try the parts again that are unresolved.

    `unresolved` is by (batch, table). `deferred`: some of them are suspects, which the lane's other work goes before.
    """

    closed: int
    unresolved: Mapping[tuple[str, str], int]
    deferred: bool = False


class Takeover(RunStep):
    """Finishes a lane's unsettled batches, each under its own batch id, the oldest first (`resolve-before-write`)."""

    def __init__(self, ports: Ports, hold: LaneHold, batches: BatchStep) -> None:
        super().__init__(ports, hold)
        self._batches = batches

    def finish_unsettled(self, *, suspects: bool = True) -> TakenOver:
        """Finish every unsettled manifest. The caller leaves tables with an unresolved part out of its claims.

        Without `suspects`, parts that may have killed a run are left unresolved, to be finished in another call.
        """
        closed = 0
        left: dict[tuple[str, str], int] = {}
        deferred = False
        lane = self._hold.identity.lane
        for pointer in sorted(self._ledger.batches.unsettled(lane), key=lambda item: (item.created_at, item.batch)):
            self._hold.check()
            end, waits = self._finish(pointer, suspects)
            closed += end.closed
            deferred = deferred or waits
            left.update({(pointer.batch, table): retry_at for table, retry_at in end.unresolved.items()})
        return TakenOver(closed, left, deferred)

    def _finish(self, pointer: ManifestPointer, suspects: bool) -> tuple[BatchEnd, bool]:
        profile = Profile()
        with profile.stage("manifest"):
            manifest = self._manifests.manifest(pointer.s3_key)
        if manifest is None:
            raise ManifestMissing(
                f"Manifest {pointer.s3_key} of batch {pointer.batch} is missing",
                key=pointer.s3_key,
                batch=pointer.batch,
            )
        # Open parts only: the objects of a returned part are pending again, for another batch.
        manifest = replace(
            manifest,
            tables={table: part for table, part in manifest.tables.items() if table not in pointer.settled_tables},
        )
        with profile.stage("claim"):
            claimed = frozenset(self._ledger.batches.claim(manifest))  # its author may have died between two objects
        manifest = restricted(manifest, claimed)
        now = self._clock.now_ms()
        plan = resumption(pointer.open_parts(manifest), now)
        deferred = bool(plan.apart) and not suspects
        if deferred:
            plan = Resumption(
                plan.together, later={**plan.later, **dict.fromkeys((table for table, _ in plan.apart), now)}
            )
        self._log.event(
            "taking_over",
            batch=manifest.batch,
            from_run=manifest.run,
            together=list(plan.together),
            apart=dict(plan.apart) or None,
            later=sorted(plan.later) or None,
            settled=sorted(pointer.settled_tables),
        )
        given_up = {
            table: attempts.given_up for table, attempts in pointer.attempts.items() if attempts.given_up is not None
        }
        end = self._batches.resume(manifest, claimed, profile, plan, given_up)
        self._log.event("profile", batch=manifest.batch, seconds=profile.seconds(), taken_over=True)
        return end, deferred
