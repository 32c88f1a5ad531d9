"""Isolates objects that kill their run, or make the merge of their table fail, by merging ever smaller groups.

A part that a dead run left is merged again together with the other parts of its batch, then alone, table by table.
If it kills its run even so, its objects return to pending in cohorts: each is merged in a batch of its own, and is
divided again when that batch kills its run. What is left in the end is one object, which is quarantined when it has
killed two runs with nothing beside it. The objects of a merge that keeps failing are divided in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.objects import ObjectId

#: Cohorts that a group is divided into. With more of them fewer runs die until the object is found (10,000 objects:
#: five divisions), and more batches are committed on the way.
COHORTS = 8
#: Failures of a table in a row, before the objects of its next failing part are divided. Most causes pass.
FAILURES_BEFORE_DIVISION = 3
#: Attempts of a part that are made without a wait. More are needed only where its table can't even be resolved.
ATTEMPTS_AT_ONCE = 4
ATTEMPT_EVERY_MS = 15 * 60_000


@dataclass(frozen=True, order=True)
class Cohort:
    """A group of objects that are merged in a batch without any others.

    `depth` counts the divisions that led to it, and `number` tells it from the others of that depth. `since` (epoch ms)
    is the first division; merges that fail while their table commits nothing else move it. `blamed`: it is one object,
    and with nothing beside it a run died or a merge failed.
    """

    depth: int
    since: int
    number: int = 0
    blamed: bool = False

    def to_text(self) -> str:
        """The form in the ledger and in manifests."""
        return f"{self.depth}-{self.since}-{self.number}{'-blamed' if self.blamed else ''}"

    @classmethod
    def from_text(cls, text: str) -> Cohort:
        depth, since, number, *blamed = text.split("-")
        return cls(int(depth), int(since), int(number), bool(blamed))


def divided(objects: Sequence[ObjectId], cohort: Cohort | None, now: int) -> dict[ObjectId, Cohort]:
    """Assign the objects of a part, claimed as this cohort, to at most COHORTS smaller ones, in their order.

    One object becomes a cohort that is blamed. Deeper cohorts come after those of earlier divisions.
    """
    whole = Cohort(0, now) if cohort is None else cohort
    first, count, pieces = whole.number * COHORTS, len(objects), min(COHORTS, len(objects))
    return {
        item: Cohort(whole.depth + 1, whole.since, first + place * pieces // count, blamed=count == 1)
        for place, item in enumerate(objects)
    }


TOGETHER = "together"  # merge it again beside the other parts of its batch
ALONE = "alone"  # merge it again with nothing beside it
RETURN = "return"  # return its objects to pending
DIVIDE = "divide"  # return its objects to pending, in cohorts
SET_ASIDE = "set_aside"  # quarantine its objects


@dataclass(frozen=True)
class OpenPart:
    """A part that a run left unsettled.

    - `objects`, `bytes`: its claimed objects; `cohort`: the one that they were claimed as.
    - `attempts`: how often a later run began to finish it and died; `attempted_at`: the last time (epoch ms).
    - `given_up`: an operator asked to quarantine it.
    """

    table: str
    objects: int
    bytes: int = 0
    cohort: Cohort | None = None
    attempts: int = 0
    attempted_at: int | None = None
    given_up: bool = False


def treatment(part: OpenPart) -> str:
    """What the next run does with a part, unless it finds the part's commit on the timeline.

    The run that claimed a cohort died with nothing beside it. Of other parts only the second attempt was such a run.
    """
    if part.given_up:
        return SET_ASIDE
    if part.cohort is None and part.attempts < 2:
        return ALONE if part.attempts else TOGETHER
    return SET_ASIDE if part.cohort is not None and part.cohort.blamed else DIVIDE


def retry_at(part: OpenPart) -> int:
    """When a part may be attempted again (epoch ms); 0 for now."""
    if part.given_up or part.attempts < ATTEMPTS_AT_ONCE or part.attempted_at is None:
        return 0
    return part.attempted_at + ATTEMPT_EVERY_MS


@dataclass(frozen=True)
class Resumption:
    """The tables of a batch to finish now: first `together`, then `apart`, one at a time and each with its treatment.

    `later` holds the times (epoch ms) before which the others are left alone.
    """

    together: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    later: Mapping[str, int] = field(default_factory=dict, hash=False)


def resumption(parts: Iterable[OpenPart], now: int) -> Resumption:
    """Plan how a run finishes the parts of a batch that it took over.

    The least suspect part comes first, of equals the smallest: a run that dies should have finished the others.
    """
    ordered = sorted(parts, key=lambda part: (part.attempts, part.bytes, part.table))
    later = {part.table: retry_at(part) for part in ordered if retry_at(part) > now}
    chosen = [(part.table, treatment(part)) for part in ordered if part.table not in later]
    return Resumption(
        together=tuple(table for table, how in chosen if how == TOGETHER),
        apart=tuple((table, how) for table, how in chosen if how != TOGETHER),
        later=later,
    )


def after_failure(
    objects: int, cohort: Cohort | None, *, failures: int, last_commit_at: int | None, now: int
) -> tuple[str, Cohort | None]:
    """What to do with the objects of a part whose merge raised an error that names no cause.

    Returns RETURN, DIVIDE or SET_ASIDE, and for RETURN the cohort that the objects stay in (None: any batch may take
    them). `failures` counts the table's failures in a row, this one included; `last_commit_at` (epoch ms) is the
    table's last commit, of any batch. A cohort is blamed only if its table has committed something since: otherwise
    the table or its surroundings may be at fault, and the other cohorts are tried first.
    """
    if cohort is None:
        return (RETURN if failures < FAILURES_BEFORE_DIVISION else DIVIDE), None
    if last_commit_at is None or last_commit_at <= cohort.since:
        return RETURN, replace(cohort, since=now, blamed=objects == 1)
    if objects > 1:
        return DIVIDE, None
    return (SET_ASIDE, None) if cohort.blamed else (RETURN, replace(cohort, blamed=True))
