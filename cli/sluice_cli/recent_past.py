"""What the last hours looked like, out of the batches that S3 keeps: the backlog over time, commits by table, runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from sluice.manifest import TablePart
from sluice.outcome import COMMITTED
from sluice_cli.past_batches import PastBatch

BINS = 144
RUNS_SHOWN = 200
COMMITS_SHOWN = 400  # of a table or run: about as many as a strip has pixels


@dataclass(frozen=True)
class Window:
    """A stretch of time, epoch ms."""

    begins: int
    ends: int

    @property
    def ms(self) -> int:
        """Its length."""
        return max(1, self.ends - self.begins)

    def at(self, time: int) -> float:
        """Where a time lies in it: 0 to 1."""
        return min(max(time - self.begins, 0), self.ms) / self.ms


@dataclass(frozen=True)
class Commit:
    """A part of a batch that was committed, in time (epoch ms). `waited_ms`: from the admission of its oldest object until it was readable."""

    batch: str
    run: str
    claimed_at: int
    at: int
    objects: int
    changes: int
    rows_quarantined: int
    no_change: bool
    waited_ms: int


@dataclass(frozen=True)
class TablePast:
    """One table's commits, oldest first, and how old its objects were when they became readable, the median and the 95th percentile."""

    table: str
    freshness_s: int | None
    commits: tuple[Commit, ...]
    p50_ms: int | None
    p95_ms: int | None


@dataclass(frozen=True)
class RunPast:
    """A run: when it was asked for, held its lane and ended, as far as is known (epoch ms), and what it committed."""

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
    """From `since` on, or from a little before the first thing that is known where that is later: a young stack isn't drawn as a thin line."""
    first = min((item.admitted_at for batch in batches for item in batch.manifest.objects), default=None)
    if first is None or first <= since:
        return Window(min(since, now), now)
    return Window(max(since, first - max(30_000, (now - first) // 20)), now)


def table_pasts(batches: Iterable[PastBatch]) -> tuple[TablePast, ...]:
    """Commits by table."""
    commits: dict[str, list[Commit]] = {}
    freshness: dict[str, int | None] = {}
    for batch in sorted(batches, key=lambda item: item.manifest.created_at):
        for table, outcome in batch.outcomes.items():
            part = batch.manifest.tables[table]
            if outcome.state != COMMITTED or not part.objects:
                continue
            freshness[table] = part.config.get("freshness_s")
            commits.setdefault(table, []).append(
                Commit(
                    batch.manifest.batch,
                    batch.manifest.run,
                    batch.manifest.created_at,
                    outcome.readable_at,
                    outcome.counts.get("objects", len(part.objects)),
                    outcome.counts.get("read", 0),
                    sum(rows.rows for rows in outcome.quarantined_rows),
                    outcome.no_change,
                    max(0, outcome.readable_at - _oldest(part)),
                )
            )
    return tuple(
        TablePast(table, freshness[table], tuple(made), *_percentiles([commit.waited_ms for commit in made]))
        for table, made in sorted(commits.items())
    )


def backlog(batches: Iterable[PastBatch], waiting: Iterable[int], window: Window) -> tuple[int, ...]:
    """How many objects were admitted and not yet readable: the most in each of BINS equal parts of the window.

    `waiting` are the admissions (epoch ms) of those that wait now. An object that was set aside with its part left the backlog with it.
    """
    steps: dict[int, int] = {}
    for batch in batches:
        for table, part in batch.manifest.tables.items():
            outcome = batch.outcomes.get(table)
            for item in part.objects if outcome else ():
                steps[item.admitted_at] = steps.get(item.admitted_at, 0) + 1
                steps[outcome.readable_at] = steps.get(outcome.readable_at, 0) - 1
    for admitted_at in waiting:
        steps[admitted_at] = steps.get(admitted_at, 0) + 1
    highest = [0] * BINS
    level = 0
    filled = 0  # the bin up to which the level is told
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
    """The newest runs, oldest first. `items` are the ledger's, by run id; a run that it has forgotten is told by its batches."""
    by_run: dict[str, list[PastBatch]] = {}
    for batch in batches:
        by_run.setdefault(batch.manifest.run, []).append(batch)
    found = [_run(name, by_run.get(name, []), items.get(name, {}), now) for name in {*by_run, *items}]
    return tuple(sorted((run for run in found if run is not None), key=lambda run: run.began_at)[-RUNS_SHOWN:])


def _run(name: str, batches: Sequence[PastBatch], item: Mapping[str, Any], now: int) -> RunPast | None:
    times = [batch.manifest.created_at for batch in batches]
    committed = [
        outcome.readable_at for batch in batches for outcome in batch.outcomes.values() if outcome.state == COMMITTED
    ]
    began = item.get("started_at") or min(times, default=None) or item.get("requested_at")
    if began is None:
        return None
    lane = item.get("lane") or (batches[0].manifest.lane if batches else "")
    state = item.get("state") or "not kept"
    ended = item.get("ended_at") or (None if item else max(committed, default=began))
    changes = sum(outcome.counts.get("read", 0) for batch in batches for outcome in batch.outcomes.values())
    return RunPast(
        name,
        lane,
        item.get("requested_at"),
        min(began, now),
        ended,
        state,
        item.get("reason"),
        len(batches),
        changes,
        tuple(sorted(committed)[-COMMITS_SHOWN:]),
    )


def _oldest(part: TablePart) -> int:
    return min(item.admitted_at for item in part.objects)


def _percentiles(values: Sequence[int]) -> tuple[int | None, int | None]:
    if not values:
        return None, None
    ordered = sorted(values)
    return tuple(ordered[max(0, ceil(share * len(ordered)) - 1)] for share in (0.5, 0.95))  # type: ignore[return-value]  # two of them
