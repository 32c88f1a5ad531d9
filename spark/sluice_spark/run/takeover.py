"""Takes over what earlier runs left: every unsettled manifest of the lane, before anything new is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Callable

from sluice.ledger.ports import Ledger
from sluice.ledger.records import ManifestPointer
from sluice.ports import Log
from sluice_spark.errors import ManifestMissing
from sluice_spark.log import Profile
from sluice_spark.ports import Manifests
from sluice_spark.run.batch import BatchEnd, BatchStep
from sluice_spark.run.claim import restricted
from sluice_spark.run.hold import LaneHold


@dataclass(frozen=True)
class TakenOver:
    """A take-over's result: batches closed, and when (epoch ms) to try the parts again that could not be resolved.

    `unresolved` is by (batch, table).
    """

    closed: int
    unresolved: Mapping[tuple[str, str], int]


class Takeover:
    """Finishes a lane's unsettled batches, each under its own batch id, the oldest first (`resolve-before-write`)."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        manifests: Manifests,
        batches: BatchStep,
        hold: LaneHold,
        log: Log,
        new_profile: Callable[[], Profile] = Profile,
    ) -> None:
        self._ledger = ledger
        self._manifests = manifests
        self._batches = batches
        self._hold = hold
        self._log = log
        self._new_profile = new_profile

    def finish_unsettled(self) -> TakenOver:
        """Finish every unsettled manifest. The caller leaves tables with an unresolved part out of its claims."""
        closed = 0
        left: dict[tuple[str, str], int] = {}
        lane = self._hold.identity.lane
        for pointer in sorted(self._ledger.batches.unsettled(lane), key=lambda item: (item.created_at, item.batch)):
            self._hold.check()
            end = self._finish(pointer)
            closed += end.closed
            left.update({(pointer.batch, table): retry_at for table, retry_at in end.unresolved.items()})
        return TakenOver(closed, left)

    def _finish(self, pointer: ManifestPointer) -> BatchEnd:
        profile = self._new_profile()
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
        self._log.event(
            "taking_over",
            batch=manifest.batch,
            from_run=manifest.run,
            tables=sorted(manifest.tables),
            settled=sorted(pointer.settled_tables),
        )
        end = self._batches.resume(restricted(manifest, claimed), claimed, profile)
        self._log.event("profile", batch=manifest.batch, seconds=profile.seconds(), taken_over=True)
        return end
