"""Runs the parts of a batch: in parallel threads, or those that may have killed a run one at a time; then closes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from types import MappingProxyType
from typing import Callable

from sluice.batch.isolation import Resumption
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import COMMITTED
from sluice.objects import ObjectId
from sluice_spark.errors import LaneLost
from sluice_spark.log import Profile
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.part import RETURNED, SETTLED, UNRESOLVED, Part, PartEnd, TableParts
from sluice_spark.run.step import Ports, RunStep


@dataclass(frozen=True)
class BatchEnd:
    """How a batch's parts ended; `unresolved` has the time (epoch ms) to try a part again, by table."""

    batch: str
    parts: tuple[PartEnd, ...]
    unresolved: dict[str, int]

    @property
    def settled(self) -> int:
        """The number of parts that this call settled."""
        return sum(end.end == SETTLED for end in self.parts)

    @property
    def closed(self) -> bool:
        """True where nothing of the batch is left to do."""
        return not self.unresolved


class BatchStep(RunStep):
    """Runs the parts of a batch in a pool of threads. One table's failure ends that table's part only."""

    def __init__(self, ports: Ports, hold: LaneHold) -> None:
        super().__init__(ports, hold)
        self._parts = TableParts(ports, hold)

    def run(self, manifest: Manifest, claimed: frozenset[ObjectId], profile: Profile) -> BatchEnd:
        """Run every part of a batch that this run has just claimed."""
        ends = self._in_parallel(
            self._parts.run, [_part(manifest, table, claimed, profile) for table in manifest.tables]
        )
        return self._ended(manifest, ends, {}, profile)

    def resume(
        self,
        manifest: Manifest,
        claimed: frozenset[ObjectId],
        profile: Profile,
        plan: Resumption,
        given_up: Mapping[str, str] = MappingProxyType({}),
    ) -> BatchEnd:
        """Finish the parts of a batch that was left unsettled, as planned; `manifest` holds those parts only.

        `given_up` are the operators' reasons, by table. A part that is committed apart is progress of the lane: the
        next part may kill the run.
        """
        parts = [_part(manifest, table, claimed, profile) for table in plan.together]
        ends = self._in_parallel(self._parts.resume, parts)
        for table, how in plan.apart:
            end = self._parts.resume(_part(manifest, table, claimed, profile), how, given_up.get(table))
            ends.append(end)
            if end.outcome is not None and end.outcome.state == COMMITTED:
                self._ledger.lanes.progressed(manifest.lane, self._hold.identity.run)
        return self._ended(manifest, ends, plan.later, profile)

    def _in_parallel(self, run: Callable[[Part], PartEnd], parts: Iterable[Part]) -> list[PartEnd]:
        # The largest first, so that with few threads the longest part doesn't begin last.
        ordered = sorted(parts, key=lambda part: (-part.own.bytes, part.table))
        return self._all([self._ports.tables_at_once.submit(run, part) for part in ordered])

    def _ended(self, manifest: Manifest, ends: list[PartEnd], later: Mapping[str, int], profile: Profile) -> BatchEnd:
        self._hold.give_sign()
        now = self._clock.now_ms()
        unresolved = {**later, **{end.table: end.retry_at or now for end in ends if end.end == UNRESOLVED}}
        if not unresolved:
            with profile.stage("close"):
                self._ledger.batches.close(manifest.lane, manifest.batch, self._hold.identity.run, self._clock.now_ms())
        end = BatchEnd(manifest.batch, tuple(ends), unresolved)
        self._log.event(
            "batch_ended",
            batch=manifest.batch,
            closed=end.closed,
            settled=end.settled,
            returned=[end.table for end in ends if end.end == RETURNED],
            unresolved=sorted(unresolved),
        )
        return end

    def _all(self, futures: list[Future[PartEnd]]) -> list[PartEnd]:
        """Every part's end. After an error no part begins; it is raised once all running parts have ended."""
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


def _part(manifest: Manifest, table: str, claimed: frozenset[ObjectId], profile: Profile) -> Part:
    return Part(manifest, table, claimed & {item.id for item in manifest.tables[table].objects}, profile)
