"""A batch to its end: its tables in parallel threads, then the batch closed."""

from __future__ import annotations

from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Executor, Future, wait
from dataclasses import dataclass
from typing import Callable, Dict, FrozenSet, List, Tuple

from sluice.identity import ObjectId
from sluice.manifest import Manifest

from sluice_spark.lane_hold import LaneHold
from sluice_spark.lane_lost import LaneLost
from sluice_spark.ports import Clock, Ledger, Log, Merger
from sluice_spark.profile import Profile
from sluice_spark.table_part import RETURNED, SETTLED, UNRESOLVED, PartEnd, TableParts

Part = Callable[[Manifest, str, FrozenSet[ObjectId], Profile], PartEnd]


@dataclass(frozen=True)
class BatchEnd:
    """How a batch's parts ended; `unresolved` maps a table to when (epoch ms) its part may be tried again."""

    batch: str
    parts: Tuple[PartEnd, ...]
    unresolved: Dict[str, int]

    @property
    def settled(self) -> int:
        """How many parts were settled by this call."""
        return sum(end.end == SETTLED for end in self.parts)

    @property
    def closed(self) -> bool:
        """Whether nothing of the batch is left to do."""
        return not self.unresolved


class BatchStep:
    """Runs the parts of a batch on a pool of threads. One table's failure ends that table's part only."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        merger: Merger,
        parts: TableParts,
        hold: LaneHold,
        clock: Clock,
        log: Log,
        tables_at_once: Executor,
    ) -> None:
        """`tables_at_once` has as many threads as tables are merged in parallel."""
        self._ledger = ledger
        self._merger = merger
        self._parts = parts
        self._hold = hold
        self._clock = clock
        self._log = log
        self._pool = tables_at_once

    def merge(self, manifest: Manifest, claimed: FrozenSet[ObjectId], profile: Profile) -> BatchEnd:
        """Run every part of a batch that this run has just claimed."""
        return self._run(self._parts.run, manifest, claimed, profile)

    def resume(self, manifest: Manifest, claimed: FrozenSet[ObjectId], profile: Profile) -> BatchEnd:
        """Finish every part of a batch that was left unsettled; `manifest` holds those parts only."""
        return self._run(self._parts.resume, manifest, claimed, profile)

    def _run(self, part: Part, manifest: Manifest, claimed: FrozenSet[ObjectId], profile: Profile) -> BatchEnd:
        began = self._clock.now_ms()
        # The largest first: with few threads the longest part must not begin last.
        tables = sorted(manifest.tables, key=lambda table: (-manifest.tables[table].bytes, table))
        futures = [
            self._pool.submit(part, manifest, table, _of(manifest, table) & claimed, profile) for table in tables
        ]
        ends = self._all(futures)
        unresolved = {end.table: end.retry_at or began for end in ends if end.end == UNRESOLVED}
        if not unresolved:
            with profile.stage("close"):
                self._ledger.close_batch(manifest.lane, manifest.batch, self._hold.identity.run, self._clock.now_ms())
        end = BatchEnd(manifest.batch, tuple(ends), unresolved)
        self._log.event(
            "batch_ended",
            batch=manifest.batch,
            closed=end.closed,
            settled=end.settled,
            returned=_names(ends, RETURNED),
            unresolved=_names(ends, UNRESOLVED),
        )
        return end

    def _all(self, futures: List[Future[PartEnd]]) -> List[PartEnd]:
        """Every part's end. After an error nothing new begins, and what runs has ended before it is raised."""
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((future for future in futures if future in done and future.exception() is not None), None)
        if failed is not None:
            for future in futures:
                future.cancel()
            error = failed.exception()
            if isinstance(error, LaneLost):
                self._hold.lose()
                self._merger.abandon()
            wait(futures, return_when=ALL_COMPLETED)
        return [future.result() for future in ([failed] if failed is not None else futures)]


def _of(manifest: Manifest, table: str) -> FrozenSet[ObjectId]:
    return frozenset(item.id for item in manifest.tables[table].objects)


def _names(ends: List[PartEnd], kind: str) -> List[str]:
    return [end.table for end in ends if end.end == kind]
