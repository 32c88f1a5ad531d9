"""Derives the recent past from past batches: the backlog over time, the commits of each table, and the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any

from sluice.batch.claim import PendingObject
from sluice.batch.outcome import COMMITTED
from sluice.batch.part_counts import new_changes, new_objects
from sluice.objects import ObjectId
from sluice_aws.s3.past_batches import PastBatch, batches_by_run
from sluice_cli.terminal.words import human_age

BINS = 144
MINUTE_MS = 60_000
RUNS_SHOWN = 200
COMMITS_SHOWN = 400  # of a table or run: about the pixels of a strip


@dataclass(frozen=True)
class Window:
    """A time span, in epoch ms."""

    begins: int
    ends: int

    @property
    def ms(self) -> int:
        """The length in milliseconds, at least 1."""
        return max(1, self.ends - self.begins)

    @property
    def length(self) -> str:
        """The length in words, in whole minutes from ten on."""
        return human_age(self.ms - self.ms % MINUTE_MS if self.ms >= 10 * MINUTE_MS else self.ms)

    def at(self, time: int) -> float:
        """The place of a time in the window, from 0 to 1."""
        return min(max(time - self.begins, 0), self.ms) / self.ms


@dataclass(frozen=True)
class PastCommit:
    """A committed part of a batch. Times are in epoch ms.

    `objects` and `changes` are those that came for the first time. `waited_ms` is the time from the admission of the
    oldest of these objects until readers saw it; None where all of them came again.
    """

    batch: str
    run: str
    claimed_at: int
    at: int
    objects: int
    changes: int
    rows_quarantined: int
    no_change: bool
    waited_ms: int | None
    oldest_key: str  # of its objects


@dataclass(frozen=True)
class TablePast:
    """The commits of a table, oldest first, with median and 95th percentile of `waited_ms`.

    `commits` include parts that changed nothing. `slowest` is the key of the object that waited longest.
    """

    table: str
    commits: tuple[PastCommit, ...]
    p50_ms: int | None
    p95_ms: int | None
    slowest: str


@dataclass(frozen=True)
class RunPast:
    """A run: when it was requested, took its lane and ended (epoch ms, None if unknown), and its commits.

    `changes` are those that it read, also of objects that came again.
    """

    run: str
    lane: str
    requested_at: int | None
    began_at: int
    ended_at: int | None
    state: str
    reason: str | None
    batches: int
    changes: int
    commits: tuple[int, ...]


def shown_window(since: int, now: int, batches: Iterable[PastBatch]) -> Window:
    """The window from `since`, or from shortly before the first object, so that a young stack fills the charts."""
    first = min((item.admitted_at for batch in batches for item in batch.manifest.objects), default=None)
    if first is None or first <= since:
        return Window(min(since, now), now)
    return Window(max(since, first - max(30_000, (now - first) // 20)), now)


def table_pasts(batches: Iterable[PastBatch]) -> tuple[TablePast, ...]:
    """The commits of each table."""
    commits: dict[str, list[PastCommit]] = {}
    for batch in sorted(batches, key=lambda item: item.manifest.created_at):
        for table, outcome in batch.outcomes.items():
            part = batch.manifest.tables[table]
            if outcome.state != COMMITTED or not part.objects:
                continue
            oldest = min(part.objects, key=lambda item: (item.came_before, item.admitted_at))
            commits.setdefault(table, []).append(
                PastCommit(
                    batch.manifest.batch,
                    batch.manifest.run,
                    batch.manifest.created_at,
                    outcome.readable_at,
                    new_objects({"objects": len(part.objects), **outcome.counts}),
                    new_changes(outcome.counts),
                    sum(rows.rows for rows in outcome.quarantined_rows),
                    outcome.no_change,
                    None if oldest.came_before else max(0, outcome.readable_at - oldest.admitted_at),
                    oldest.key,
                )
            )
    return tuple(
        TablePast(
            table,
            tuple(made),
            *_percentiles([commit.waited_ms for commit in made if commit.waited_ms is not None]),
            max(made, key=lambda commit: commit.waited_ms or 0).oldest_key,
        )
        for table, made in sorted(commits.items())
    )


def backlog(
    batches: Iterable[PastBatch],
    waiting: Iterable[PendingObject],
    window: Window,
    retries: Mapping[ObjectId, Sequence[int]] = MappingProxyType({}),
) -> tuple[int, ...]:
    """The largest number of objects that were admitted but not readable, in each of BINS equal parts of the window.

    `waiting` are the objects that wait now. An object that is set aside leaves the backlog with its part, and is in it
    again from its retry: `retries` has the known times of these (epoch ms), oldest first. One that is replayed was
    readable all the time, and is in no backlog; one of a rebuilt table waits since the rebuild.
    """
    steps: dict[int, int] = {}
    left: dict[ObjectId, int] = {}  # when a batch last settled the object

    def again(identity: ObjectId, admitted_at: int, rebuilt_at: int | None, until: int | None) -> int | None:
        """When the object began to wait for a batch that was claimed then; None if that isn't known."""
        times = [admitted_at if rebuilt_at is None else rebuilt_at]
        times += [at for at in retries.get(identity, ()) if until is None or at <= until]
        began = max(times)
        return began if began >= left.get(identity, began) else None

    for batch in sorted(batches, key=lambda item: (item.manifest.created_at, item.manifest.batch)):
        claimed = batch.manifest.created_at
        for table, part in batch.manifest.tables.items():
            outcome = batch.outcomes.get(table)
            if outcome is None:
                continue
            for item in (item for item in part.objects if not item.was_readable):
                since = again(item.id, item.admitted_at, item.rebuilt_at, claimed)
                began = claimed if since is None else since
                steps[began] = steps.get(began, 0) + 1
                steps[outcome.readable_at] = steps.get(outcome.readable_at, 0) - 1
                left[item.id] = outcome.readable_at
    for queued in waiting:
        if queued.first_batch is None and not queued.merged:
            since = again(queued.id, queued.admitted_at, queued.rebuilt_at, None)
            began = left[queued.id] if since is None else since
            steps[began] = steps.get(began, 0) + 1
    highest = [0] * BINS
    level = 0
    filled = 0  # the bin up to which `highest` is set
    for at in sorted(steps):
        if at >= window.begins:
            number = min(BINS - 1, int(window.at(at) * BINS))
            for between in range(filled, number + 1):
                highest[between] = max(highest[between], level)
            filled = number
        level += steps[at]
        highest[filled] = max(highest[filled], level)
    for rest in range(filled + 1, BINS):
        highest[rest] = level
    return tuple(highest)


def runs(batches: Iterable[PastBatch], items: Mapping[str, Mapping[str, Any]], now: int) -> tuple[RunPast, ...]:
    """The newest runs, oldest first. `items` are the ledger's, by run id; others are derived from their batches."""
    by_run = batches_by_run(batches, items)
    drawn = [_run(name, by_run.get(name, ()), items.get(name, {}), now) for name in {*by_run, *items}]
    return tuple(sorted((run for run in drawn if run is not None), key=lambda run: run.began_at)[-RUNS_SHOWN:])


def _run(name: str, batches: Sequence[PastBatch], item: Mapping[str, Any], now: int) -> RunPast | None:
    times = [batch.manifest.created_at for batch in batches]
    outcomes = [outcome for batch in batches for outcome in batch.outcomes.values()]
    committed = [outcome.readable_at for outcome in outcomes if outcome.state == COMMITTED]
    began = item.get("started_at") or min(times, default=None) or item.get("requested_at")
    if began is None:
        return None
    lane = item.get("lane") or (batches[0].manifest.lane if batches else "")
    state = item.get("state") or "ended"
    ended = item.get("ended_at") or (None if item else max(committed, default=began))
    return RunPast(
        name,
        lane,
        item.get("requested_at"),
        min(began, now),
        ended,
        state,
        item.get("reason"),
        len(batches),
        sum(outcome.counts.get("read", 0) for outcome in outcomes),
        tuple(sorted(outcome.readable_at for outcome in outcomes if outcome.instant is not None)[-COMMITS_SHOWN:]),
    )


def _percentiles(values: Sequence[int]) -> tuple[int | None, int | None]:
    if not values:
        return None, None
    ordered = sorted(values)
    p50, p95 = (ordered[max(0, ceil(share * len(ordered)) - 1)] for share in (0.5, 0.95))
    return p50, p95
