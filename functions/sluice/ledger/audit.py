"""Judges what bronze, the ledger, manifests and outcomes, and a table's timeline say about the same objects.

`judge_object` compares an object's record with the batches that list it, `judge_part` a batch's outcome with the
table's timeline. Facts are not of one moment: read bronze before the ledger, and the ledger before the timeline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.hudi.timeline import Timeline
from sluice.ledger.keys import CLAIMED, COMMITTED
from sluice.ledger.records import ObjectRecord
from sluice.ledger.recovery import end_states
from sluice.objects import ObjectId

# The state of an object that the ledger doesn't have.
TOO_YOUNG, UNKNOWN = "too_young", "unknown"

# Where a committed part is. Archived commits left the active timeline, which alone is read.
ACTIVE, ARCHIVED, NO_CHANGE, REBUILT, MISSING = "active", "archived", "no_change", "rebuilt", "missing"

# The codes of contradictions; CONTRADICTIONS has their meaning.
UNKNOWN_OBJECT, LOST_RECORD, LEDGER_BEHIND = "unknown_object", "lost_record", "ledger_behind"
TWO_BATCHES, ABANDONED_CLAIM, NOT_REBUILT = "two_batches", "abandoned_claim", "not_rebuilt"
NO_MANIFEST, NO_OUTCOME, OUTCOME_DISAGREES = "no_manifest", "no_outcome", "outcome_disagrees"
UNLISTED = "unlisted"
COMMIT_MISSING, FOREIGN_COMMIT = "commit_missing", "foreign_commit"
EXTRA_COMMIT, COMMIT_WITHOUT_OUTCOME = "extra_commit", "commit_without_outcome"

_REBUILD_LEDGER = "`sluice rebuild ledger --dry-run` shows what the outcomes say, `sluice rebuild ledger` writes it"
_REBUILD_TABLE = "`sluice rebuild table TABLE` writes the table again from its objects"
_DOCUMENTS = f"Restore the documents under _sluice/ of the silver bucket if you can. Otherwise {_REBUILD_TABLE}"

#: Code -> what it means, and the next step.
CONTRADICTIONS: Mapping[str, tuple[str, str]] = {
    UNKNOWN_OBJECT: (
        "in bronze, but neither in the ledger nor in a batch, though its notice is overdue",
        "`sluice audit --repair` admits it, as the next pass of reconcile does",
    ),
    LOST_RECORD: ("in the outcome of a batch, but not in the ledger", _REBUILD_LEDGER),
    LEDGER_BEHIND: ("committed by an outcome, but not by the ledger", _REBUILD_LEDGER),
    TWO_BATCHES: (
        "committed by two batches",
        f"Its changes count once by their position. If in doubt, {_REBUILD_TABLE}",
    ),
    ABANDONED_CLAIM: (
        "claimed by a batch that is not open",
        "`sluice audit --repair` ends the claim by the batch's outcome, or makes the object pending again",
    ),
    UNLISTED: (
        "pending, but its lane doesn't list it, so that no run finds it",
        "`sluice audit --repair` lists it again",
    ),
    NOT_REBUILT: ("committed before its table was rebuilt, and not merged again", _REBUILD_TABLE),
    NO_MANIFEST: ("committed, but no manifest of its batch lists it", _DOCUMENTS),
    NO_OUTCOME: ("committed, but its batch has no outcome", _DOCUMENTS),
    OUTCOME_DISAGREES: ("committed by the ledger, but quarantined or parked by its batch's outcome", _REBUILD_LEDGER),
    COMMIT_MISSING: (
        "the outcome names a commit that is gone, and too new to be archived: its table was deleted or restored",
        f"Restore the table's newest state if you can. Otherwise {_REBUILD_TABLE}",
    ),
    FOREIGN_COMMIT: ("the outcome names a commit that is not of its batch", _REBUILD_TABLE),
    EXTRA_COMMIT: (
        "the table holds a commit of the batch that its outcome doesn't name: two runs wrote at once",
        _REBUILD_TABLE,
    ),
    COMMIT_WITHOUT_OUTCOME: ("the table holds a commit of a batch that is not open and has no outcome", _DOCUMENTS),
}


@dataclass(frozen=True)
class Contradiction:
    """One contradiction, about an object or about a table's part of a batch.

    `objects` is the number of objects that it concerns, 0 if unknown.
    """

    code: str
    table: str | None = None
    batch: str | None = None
    instant: str | None = None
    object: ObjectId | None = None
    objects: int = 1

    @classmethod
    def of_object(cls, code: str, identity: ObjectId, record: ObjectRecord | None) -> Contradiction:
        if record is None:
            return cls(code, object=identity)
        return cls(code, record.table, record.batch, object=identity)

    @property
    def meaning(self) -> str:
        return CONTRADICTIONS[self.code][0]

    @property
    def next_step(self) -> str:
        """The next step, with the names of the table and the key."""
        step = CONTRADICTIONS[self.code][1]
        step = step.replace("TABLE", self.table) if self.table else step
        return step.replace("KEY", self.object.key) if self.object else step


@dataclass(frozen=True)
class AuditedPart:
    """One table's part of a batch by its manifest and outcome; `state` is None without an outcome.

    A part is `whole` if its batch got all objects of the manifest. It is `void` if its table was rebuilt afterwards.
    """

    batch: str
    table: str
    lane: str
    objects: int
    state: str | None = None
    instant: str | None = None
    whole: bool = False
    void: bool = False


@dataclass(frozen=True)
class Membership:
    """An object in a part of a batch: its attempt, and its end state by the outcome."""

    part: AuditedPart
    attempt: int
    end: str | None = None


def memberships(
    manifest: Manifest, outcomes: Mapping[str, Outcome], rebuilt: Mapping[str, int]
) -> Iterator[tuple[ObjectId, Membership]]:
    """The objects of a batch. `rebuilt` says when tables were last rebuilt (epoch ms)."""
    for table, part in sorted(manifest.tables.items()):
        outcome = outcomes.get(table)
        audited = AuditedPart(
            manifest.batch,
            table,
            manifest.lane,
            len(part.objects),
            state=None if outcome is None else outcome.state,
            instant=None if outcome is None else outcome.instant,
            whole=outcome is not None and outcome.counts.get("objects") == len(part.objects),
            void=manifest.created_at <= rebuilt.get(table, -1),
        )
        end_states_ = {} if outcome is None else end_states(outcome, [item.id for item in part.objects])
        for item in part.objects:
            yield item.id, Membership(audited, item.attempt, end_states_[item.id].state if end_states_ else None)


@dataclass(frozen=True)
class ObjectVerdict:
    """An object version's state by the ledger and, if it is committed, the part that did it.

    `code` is that of the contradiction; None if there is none.
    """

    state: str
    code: str | None = None
    part: AuditedPart | None = None


def judge_object(
    record: ObjectRecord | None,
    listed_in: Sequence[Membership],
    *,
    young: bool,
    open_batches: Collection[str],
    rebuilding: Collection[str] = (),
    unlisted: bool = False,
) -> ObjectVerdict:
    """Compare one object's record with the batches that list it.

    A manifest also names objects that its batch didn't get, so only whole parts and the record's own batch count.
    `young`: the object's notice may still be on its way. `rebuilding` are tables whose rebuild is unfinished.
    `unlisted`: it is pending, and not among the pending objects of its lane.
    """
    if record is None:
        if any(listing.end is not None for listing in listed_in):
            return ObjectVerdict(UNKNOWN, LOST_RECORD)
        return ObjectVerdict(TOO_YOUNG) if young else ObjectVerdict(UNKNOWN, UNKNOWN_OBJECT)
    own = next((item for item in listed_in if _is_own(item, record)), None)
    committed: dict[int, set[str]] = {}
    for item in listed_in:
        if item.end == COMMITTED and not item.part.void and (item.part.whole or item is own):
            committed.setdefault(item.attempt, set()).add(item.part.batch)
    part = own.part if own is not None and record.state == COMMITTED else None
    code = _contradiction(record, own, committed, open_batches, rebuilding)
    return ObjectVerdict(record.state, code or (UNLISTED if unlisted else None), part)


def judge_by_own_batch(record: ObjectRecord | None, listed_in: Sequence[Membership], **facts: Any) -> ObjectVerdict:
    """As `judge_object`, but with the batch alone that the record names."""
    own = [] if record is None else [item for item in listed_in if _is_own(item, record)]
    return judge_object(record, own, **facts)


def judge_by_other_batches(record: ObjectRecord | None, listed_in: Sequence[Membership], **facts: Any) -> ObjectVerdict:
    """As `judge_object`, but with a code only where `judge_by_own_batch` has none."""
    verdict = judge_object(record, listed_in, **facts)
    shown = record is not None and judge_by_own_batch(record, listed_in, **facts).code is not None
    return replace(verdict, code=None) if shown else verdict


def _is_own(item: Membership, record: ObjectRecord) -> bool:
    return (item.part.batch, item.part.table) == (record.batch, record.table)


def _contradiction(
    record: ObjectRecord,
    own: Membership | None,
    committed: Mapping[int, set[str]],
    open_batches: Collection[str],
    rebuilding: Collection[str],
) -> str | None:
    if any(len(batches) > 1 for batches in committed.values()):
        return TWO_BATCHES
    last = max(committed, default=-1)
    settling = record.state == CLAIMED and record.batch in committed.get(last, ())
    if last > record.attempt or last == record.attempt and record.state != COMMITTED and not settling:
        return LEDGER_BEHIND
    if record.state == CLAIMED:
        return None if record.batch in open_batches else ABANDONED_CLAIM
    return _unproven(own, rebuilding) if record.state == COMMITTED else None


def _unproven(own: Membership | None, rebuilding: Collection[str]) -> str | None:
    """Why the documents of its batch don't prove that an object is committed; None if they do."""
    if own is None:
        return NO_MANIFEST
    if own.part.state is None:
        return NO_OUTCOME
    if own.end != COMMITTED:
        return OUTCOME_DISAGREES
    return NOT_REBUILT if own.part.void and own.part.table not in rebuilding else None


@dataclass(frozen=True)
class TableCommits:
    """A table's active timeline, and the batch of each of its commits by instant; services' commits have none."""

    timeline: Timeline = Timeline()
    batches: Mapping[str, str] = field(default_factory=dict, hash=False)

    def of(self, batch: str) -> tuple[str, ...]:
        """The instants of a batch's commits, oldest first."""
        return tuple(sorted(instant for instant, batch_of_commit in self.batches.items() if batch_of_commit == batch))


def place_of(part: AuditedPart, commits: TableCommits) -> str:
    """Where a committed part is: on the active timeline, archived, nowhere since it changed nothing, or missing."""
    if part.void:
        return REBUILT
    if part.instant is None:
        return NO_CHANGE
    if commits.timeline.lacks(part.instant):
        return MISSING
    return ACTIVE if commits.timeline.holds(part.instant) else ARCHIVED


def judge_part(part: AuditedPart, commits: TableCommits) -> Contradiction | None:
    """Compare a part's outcome with its table's timeline, which was read after the outcome."""
    if part.state is None or part.void:
        return None
    place = place_of(part, commits)
    if place == MISSING:
        return _about(part, COMMIT_MISSING, part.instant)
    others = [instant for instant in commits.of(part.batch) if instant != part.instant]
    if others:
        return _about(part, EXTRA_COMMIT, others[0])
    if place == ACTIVE and commits.batches.get(part.instant or "") != part.batch:
        return _about(part, FOREIGN_COMMIT, part.instant)
    return None


def without_outcome(table: str, commits: TableCommits, batches_known: Iterable[str]) -> tuple[Contradiction, ...]:
    """The commits of batches that are not in `batches_known`: neither open nor with an outcome for the table."""
    batches = set(commits.batches.values()) - set(batches_known)
    return tuple(
        Contradiction(COMMIT_WITHOUT_OUTCOME, table, batch, commits.of(batch)[0], objects=0)
        for batch in sorted(batches)
    )


def _about(part: AuditedPart, code: str, instant: str | None) -> Contradiction:
    return Contradiction(code, part.table, part.batch, instant, objects=part.objects)
