"""Recovery of a lost ledger's objects and tables from the manifests and outcomes of all batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from operator import add
from types import MappingProxyType
from typing import Any

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED as COMMITTED_PART
from sluice.batch.outcome import Outcome
from sluice.config.table import with_kept
from sluice.ledger.keys import COMMITTED, DROPPED, IGNORED, PARKED, PENDING, QUARANTINED, SUPERSEDED, UNCOUNTED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId

OBJECTS, OBJECTS_QUARANTINED = "objects", "objects_quarantined"  # the totals that count a table's objects by state
QUARANTINED_ROWS = "quarantined_rows"  # the total of a table's rows in quarantine
_OF_MANIFEST = "size topic kafka_partition offset format schema modified_at".split()  # what a record has of it
TABLE_QUARANTINED = "table_quarantined"  # the code of an object that was quarantined with its whole part


@dataclass(frozen=True)
class EndState:
    """An object's end state by an outcome, with the reason if it is not simply committed."""

    state: str
    code: str | None = None
    reason: str | None = None
    rows: int = 0
    row_codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    parked_generation: int | None = None


def end_states(outcome: Outcome, objects: Iterable[ObjectId]) -> dict[ObjectId, EndState]:
    errors = {error.object: error for error in outcome.quarantined}
    rows = {row.object: row for row in outcome.quarantined_rows}
    parked = {error.object: error for error in outcome.parked}
    ends: dict[ObjectId, EndState] = {}
    for identity in objects:
        hash_ = identity.hash
        if hash_ in parked:
            ends[identity] = EndState(
                PARKED, parked[hash_].code, parked[hash_].reason, parked_generation=outcome.parked_generation
            )
        elif hash_ in errors:
            ends[identity] = EndState(QUARANTINED, errors[hash_].code, errors[hash_].reason)
        elif outcome.state != COMMITTED_PART:
            ends[identity] = EndState(QUARANTINED, TABLE_QUARANTINED, outcome.reason)
        elif hash_ in rows:
            ends[identity] = EndState(COMMITTED, rows=rows[hash_].rows, row_codes=dict(rows[hash_].codes))
        else:
            ends[identity] = EndState(COMMITTED)
    return ends


@dataclass(frozen=True)
class Settled:
    """An object after its last batch. `at` is when its part was committed (epoch ms).

    An object that is not `sure` may not have been part of that batch. It is merged again if the ledger lacks it.
    """

    record: ObjectRecord
    at: int
    sure: bool = True

    @property
    def was_merged(self) -> bool:
        """Whether later versions with the same bytes repeat it; an ignored one was merged before a drop."""
        return self.record.state in (COMMITTED, PENDING, IGNORED)


@dataclass(frozen=True)
class KnownTable:
    """A table's state by its outcomes: the last one, those with notes, a commit, a history and a watch, and the totals.

    `pinned` holds the settings of the last commit.
    """

    last: Outcome | None = None
    noted: Outcome | None = None
    committed: Outcome | None = None
    watched: Outcome | None = None
    historied: Outcome | None = None
    pinned: Mapping[str, Any] = field(default_factory=dict, hash=False)
    totals: Mapping[str, int] = field(default_factory=dict, hash=False)

    def after(self, outcome: Outcome, part: TablePart, ends: Mapping[ObjectId, EndState]) -> KnownTable:
        totals = Counter(self.totals)
        totals.update(counts_of(outcome, ends))
        if outcome.state != COMMITTED_PART:
            return replace(self, totals=totals)
        wrote = outcome.instant is not None
        return KnownTable(
            last=outcome,
            noted=outcome if outcome.notes or wrote else self.noted,
            committed=outcome if wrote else self.committed,
            watched=outcome if outcome.watch else self.watched,
            historied=outcome if outcome.history_instant else self.historied,
            pinned=with_kept(part.table_config.pinned, self.pinned) if wrote else self.pinned,
            totals=totals,
        )


@dataclass(frozen=True)
class Recovered:
    """Counts of the objects that a restore added, corrected, and left as they are.

    Objects that `raced` changed meanwhile; the next call looks at them again.
    """

    added: int = 0
    corrected: int = 0
    unchanged: int = 0
    raced: int = 0

    def plus(self, other: Recovered) -> Recovered:
        return Recovered(*map(add, astuple(self), astuple(other)))


class Recovery:
    """Collects batches in any order and derives from them what the ledger held.

    `rebuilt` says when tables were last rebuilt or dropped (epoch ms): objects claimed before that are merged again,
    or ignored where the table was `dropped` since.
    """

    def __init__(self, rebuilt: Mapping[str, int], dropped: Mapping[str, int] = MappingProxyType({})) -> None:
        self._rebuilt = rebuilt
        self._dropped = dropped
        self._objects: dict[ObjectId, Settled] = {}
        self._newest: dict[str, int] = {}  # when the last batch of each table was claimed (epoch ms)
        self._raised: dict[str, dict[int, int]] = {}  # when the first one of each generation was, by table
        self._ranks: dict[ObjectId, tuple[int, bool, int]] = {}
        self._parts: dict[str, list[tuple[Outcome, TablePart, dict[ObjectId, EndState]]]] = {}

    def add(self, manifest: Manifest, outcomes: Mapping[str, Outcome]) -> None:
        """Add a batch. A part without an outcome is unsettled: its objects are in another batch, or still to merge."""
        for table, outcome in outcomes.items():
            part = manifest.tables[table]
            ends = end_states(outcome, [item.id for item in part.objects])
            void = manifest.created_at <= self._rebuilt.get(table, -1)
            dropped = manifest.created_at <= self._dropped.get(table, -1)
            generation = int(part.config.get("generation", 0))
            self._newest[table] = max(manifest.created_at, self._newest.get(table, 0))
            raised = self._raised.setdefault(table, {})
            raised[generation] = min(manifest.created_at, raised.get(generation, manifest.created_at))
            # A manifest also names objects that could not be claimed, and no document says which ones.
            # Merging them again changes nothing.
            whole = outcome.counts.get("objects") == len(part.objects)
            if dropped and not whole:
                continue  # those that it didn't claim may be another table's
            again = void or not whole
            of_batch: dict[str, Any] = {"table": table, "lane": manifest.lane, "merged_generation": generation}
            for item in part.objects:
                # A part that returned to pending has no outcome, so the highest attempt wins; among equal attempts the
                # sure one, then the later one.
                rank = (item.attempt, not again, outcome.committed_at)
                if rank <= self._ranks.get(item.id, (-1, False, 0)):
                    continue
                self._ranks[item.id] = rank
                of_manifest = {name: getattr(item, name) for name in _OF_MANIFEST}
                record = ObjectRecord(item.id, PENDING, item.admitted_at, **of_manifest, **of_batch)
                if dropped:
                    record = replace(record, state=IGNORED, rule=DROPPED + table, merged_generation=None)
                    record = replace(record, attempt=item.attempt, batch=manifest.batch)
                elif again:
                    first_batch = None if void else item.first_batch
                    attempt = item.attempt + 1
                    record = replace(record, attempt=attempt, generation=generation, first_batch=first_batch)
                else:
                    record = _as_ended(record, item, manifest.batch, ends[item.id])
                self._objects[item.id] = Settled(record, outcome.committed_at, sure=void or whole)
            if not void:
                self._parts.setdefault(table, []).append((outcome, part, ends))

    def settled(self, identity: ObjectId) -> Settled | None:
        """An object after its last batch; None if no outcome mentions it, so that it is still to merge."""
        return self._objects.get(identity)

    def repeated(self, identity: ObjectId, last: Settled, *, written_at: int) -> Settled | None:
        """An object in no batch that was superseded: `last` is the version of its key before it, with the same bytes.

        None where it may have been waiting, written after the last claim (`written_at`, epoch ms) or under another
        generation than `last` was merged under, and where its own time orders its rows. Admitted anew it would be
        merged under the present generation, and its old changes win.
        """
        record, table = last.record, last.record.table or ""
        if record.modified_at is not None or written_at > self._newest[table]:
            return None
        in_force = max((number for number, since in self._raised[table].items() if since <= written_at), default=None)
        generation = record.generation if record.merged_generation is None else record.merged_generation
        if written_at > self._dropped[table] if record.state == IGNORED else generation != in_force:
            return None
        place = {name: getattr(record, name) for name in ("table", "lane", "rule", *_OF_MANIFEST)}
        state = IGNORED if record.state == IGNORED else SUPERSEDED
        return Settled(ObjectRecord(identity, state, written_at, generation=generation, **place), written_at)

    @property
    def objects(self) -> int:
        """The number of objects that outcomes mention."""
        return len(self._objects)

    def tables(self) -> dict[str, KnownTable]:
        """Every table that an outcome mentions, by name."""
        states: dict[str, KnownTable] = {}
        for table, parts in self._parts.items():
            states[table] = KnownTable()
            for outcome, part, ends in sorted(parts, key=lambda entry: (entry[0].committed_at, entry[0].batch)):
                states[table] = states[table].after(outcome, part, ends)
        # An object that several batches settled counts once, as its last one left it.
        ended = Counter(
            (settled.record.table, settled.record.state) for settled in self._objects.values() if settled.record.batch
        )
        return {
            table: replace(
                state,
                totals={
                    **state.totals,
                    OBJECTS: ended[table, COMMITTED],
                    OBJECTS_QUARANTINED: ended[table, QUARANTINED],
                },
            )
            for table, state in states.items()
        }


def _as_ended(record: ObjectRecord, item: ManifestObject, batch: str, end: EndState) -> ObjectRecord:
    """The record of an object that a batch ended."""
    return replace(
        record,
        state=end.state,
        attempt=item.attempt,
        merged=item.merged,
        rows_aside=item.rows_aside,
        batch=batch,
        code=end.code,
        reason=end.reason,
        quarantined_rows=end.rows,
        row_codes=end.row_codes,
        parked_generation=end.parked_generation,
        first_batch=item.first_batch,
    )


def counts_of(outcome: Outcome, ends: Mapping[ObjectId, EndState]) -> dict[str, int]:
    """The counts that a part adds to its table's totals: its own, its objects by end state, and its commits."""
    ended = Counter(end.state for end in ends.values())
    return {
        **outcome.counts,
        OBJECTS: ended[COMMITTED],
        OBJECTS_QUARANTINED: ended[QUARANTINED],
        "commits": int(outcome.instant is not None),
        **({UNCOUNTED: 1} if outcome.is_uncounted else {}),
    }
