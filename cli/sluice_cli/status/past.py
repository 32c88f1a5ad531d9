"""What the last hours looked like, out of the batches that S3 keeps: the backlog over time, commits by table, runs.

Batches as S3 keeps them, newest first: manifests, and the outcome of every part beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import Any

from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.silver_keys import PREFIX, outcome_key
from sluice_aws.s3.objects import Objects

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


AT_ONCE = 16  # manifests read ahead
MANIFESTS = f"{PREFIX}/manifests/"


@dataclass(frozen=True)
class PastBatch:
    """A manifest and the outcomes there are of its parts; a part without one is open, or its objects returned to pending."""

    manifest: Manifest
    outcomes: Mapping[str, Outcome]


class PastBatches:
    """The batches of one silver bucket. `unread` counts manifests that were asked for and too many to read."""

    def __init__(self, objects: Objects, silver: str) -> None:
        self._objects = objects
        self._silver = silver
        self.unread = 0

    def newest(
        self, *, table: str | None = None, since: int | None = None, at_most: int | None = None
    ) -> Iterator[PastBatch]:
        """Batches in the order in which they were claimed, the newest first; only those with a part of `table`, and only its part.

        `since` (epoch ms) ends it at the first one claimed before. Not more than `at_most` manifests are read.
        """
        # S3 has whole seconds, and the order within them is the manifests' own.
        found = sorted(
            self._objects.put_times(self._silver, MANIFESTS), key=lambda entry: (entry[1], entry[0]), reverse=True
        )
        asked = [key for key, put_at in found if since is None or put_at >= since - 1_000]
        keys = asked[:at_most]
        self.unread = len(asked) - len(keys)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="batches") as pool:
            for start in range(0, len(keys), AT_ONCE):
                chunk = [
                    batch
                    for batch in pool.map(lambda key: self._batch(key, table), keys[start : start + AT_ONCE])
                    if batch is not None
                ]
                yield from sorted(
                    chunk, key=lambda batch: (batch.manifest.created_at, batch.manifest.batch), reverse=True
                )

    def _batch(self, key: str, table: str | None) -> PastBatch | None:
        document = self._objects.get(self._silver, key)
        if document is None:
            return None
        manifest = Manifest.from_json(document.data.decode("utf-8"))
        names: Sequence[str] = [name for name in sorted(manifest.tables) if table is None or name == table]
        if not names:
            return None
        outcomes = {name: self._outcome(manifest.batch, name) for name in names}
        return PastBatch(manifest, {name: outcome for name, outcome in outcomes.items() if outcome is not None})

    def _outcome(self, batch: str, table: str) -> Outcome | None:
        document = self._objects.get(self._silver, outcome_key(batch, table))
        return None if document is None else Outcome.from_json(document.data.decode("utf-8"))
