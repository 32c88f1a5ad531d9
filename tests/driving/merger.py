"""A merger that records commits instead of making them, and fails on demand."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from sluice.batch.claim import TableState
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import ObjectError, Outcome
from sluice.config.table import TableConfig
from sluice.objects import ObjectId
from sluice.services.requests import PURGE, ServiceReport, ServiceRequest, SliceDone
from sluice_spark.errors import LaneLost

Key = tuple[str, str]


class Tables:
    """The Hudi tables of a test: what was committed outlives the driver that did it."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, str, frozenset[ObjectId]]] = []
        self.unfinished: list[Key] = []
        self.rolled_back: list[str] = []
        self.served: list[Key] = []

    def instant(self, batch: str, table: str) -> str | None:
        return next((str(at) for at, (of, into, _) in enumerate(self.commits) if (of, into) == (batch, table)), None)

    def times_committed(self) -> dict[ObjectId, int]:
        return dict(Counter(item for _, _, objects in self.commits for item in objects))


class FakeMerger:
    """The Merger port. `before`, `after`, `resolving` and `serving` hold errors by table, each raised once.

    `poison` holds errors by object: each merge of a part with such an object raises it. `slices` is the number of
    slices that a service of a table still takes, `slice_ms` the duration of each in milliseconds, and `floors` what a
    purge raises.
    """

    def __init__(
        self,
        tables: Tables,
        now_ms: Callable[[], int],
        *,
        takes_ms: int = 0,
        advance: Callable[[int], None] = lambda ms: None,
    ) -> None:
        self.tables = tables
        self.before: defaultdict[str, list[BaseException]] = defaultdict(list)
        self.after: defaultdict[str, list[BaseException]] = defaultdict(list)
        self.resolving: defaultdict[str, list[BaseException]] = defaultdict(list)
        self.serving: defaultdict[str, list[BaseException]] = defaultdict(list)
        self.slices: defaultdict[str, int] = defaultdict(lambda: 1)
        self.slice_ms = 1_000
        self.floors: dict[int, str] = {0: "0000.1"}
        self.during: dict[str, Callable[[], None]] = {}
        self.no_change: frozenset[str] = frozenset()
        self.quarantined: frozenset[ObjectId] = frozenset()
        self.poison: dict[ObjectId, BaseException] = {}
        self.calls: list[str] = []
        self.merged_with: dict[Key, dict[str, object]] = {}
        self._now_ms = now_ms
        self._takes_ms = takes_ms
        self._advance = advance
        self._lock = threading.Lock()

    def prepare(self) -> None:
        self.calls.append("prepare")

    def merge_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome:
        self.calls.append(f"merge {table}")
        part = manifest.tables[table]
        self.merged_with[manifest.batch, table] = dict(part.config)
        self.tables.unfinished.append((manifest.batch, table))
        if table in self.during:
            self.during[table]()
        self._advance(self._takes_ms)
        _raise_next(self.before[table])
        for item in part.objects:
            if item.id in self.poison:
                raise self.poison[item.id]
        if not still_held():
            raise LaneLost("not held", table=table)
        good = frozenset(item.id for item in part.objects) - self.quarantined
        instant = None
        if table not in self.no_change and good:
            with self._lock:
                self.tables.commits.append((manifest.batch, table, good))
                instant = self.tables.instant(manifest.batch, table)
        self.tables.unfinished.remove((manifest.batch, table))
        _raise_next(self.after[table])
        return self._outcome(manifest, table, instant)

    def _outcome(self, manifest: Manifest, table: str, instant: str | None) -> Outcome:
        objects = [item.id for item in manifest.tables[table].objects]
        bad = tuple(ObjectError(id.hash, "corrupt", "on purpose") for id in objects if id in self.quarantined)
        facts = {"counts": {"objects": len(objects)}, "no_change": instant is None, "quarantined": bad}
        return Outcome(manifest.batch, table, "committed", self._now_ms(), instant, **facts)

    def resolve_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome | None:
        self.calls.append(f"resolve {table}")
        if not still_held():
            raise LaneLost("not held", table=table)
        _raise_next(self.resolving[table])
        self.tables.unfinished[:] = [key for key in self.tables.unfinished if key[1] != table]
        self.tables.rolled_back.append(table)
        instant = self.tables.instant(manifest.batch, table)
        return None if instant is None else self._outcome(manifest, table, instant)

    def serve_table(
        self,
        config: TableConfig,
        request: ServiceRequest,
        state: TableState,
        still_held: Callable[[], bool],
        slice_s: int,
        raise_floor: Callable[[Mapping[int, str]], None],
    ) -> SliceDone:
        service = request.service
        self.calls.append(f"serve {config.table} {service}")
        self._advance(self.slice_ms)
        if service in self.during:
            self.during[service]()
        if service == PURGE:
            raise_floor(self.floors)
        _raise_next(self.serving[config.table])
        if not still_held():
            raise LaneLost("not held", table=config.table)
        self.tables.served.append((config.table, service))
        self.slices[config.table] -= 1
        report = ServiceReport(files_before=2, files_after=1, ms=self.slice_ms, instant=str(len(self.tables.served)))
        return SliceDone(report, more=self.slices[config.table] > 0)

    def abandon(self) -> None:
        self.calls.append("abandon")

    def keep_warm(self) -> None:
        self.calls.append("keep_warm")


def _raise_next(errors: list[BaseException]) -> None:
    if errors:
        raise errors.pop(0)
