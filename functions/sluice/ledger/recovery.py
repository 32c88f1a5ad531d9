"""What a lost ledger held of objects and tables, out of the manifests and outcomes of every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED as COMMITTED_PART
from sluice.batch.outcome import Outcome
from sluice.ledger.keys import COMMITTED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId

TABLE_QUARANTINED = (
    "table_quarantined"  # the code of objects whose part was quarantined whole, for no reason of their own
)


@dataclass(frozen=True)
class Verdict:
    """What an outcome says of one object: the state it ends in, and why where it isn't plainly committed."""

    state: str
    code: str | None = None
    reason: str | None = None
    rows: int = 0
    row_codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    parked_generation: int | None = None


def verdicts(outcome: Outcome, objects: Iterable[ObjectId]) -> dict[ObjectId, Verdict]:
    """What became of each object of a part."""
    errors = {error.object: error for error in outcome.quarantined}
    rows = {found.object: found for found in outcome.quarantined_rows}
    parked = {error.object: error for error in outcome.parked}
    found: dict[ObjectId, Verdict] = {}
    for identity in objects:
        named = identity.hash
        if named in parked:
            found[identity] = Verdict(
                PARKED, parked[named].code, parked[named].reason, parked_generation=outcome.parked_generation
            )
        elif named in errors:
            found[identity] = Verdict(QUARANTINED, errors[named].code, errors[named].reason)
        elif outcome.state != COMMITTED_PART:
            found[identity] = Verdict(QUARANTINED, TABLE_QUARANTINED, outcome.reason)
        elif named in rows:
            found[identity] = Verdict(COMMITTED, rows=rows[named].rows, row_codes=dict(rows[named].codes))
        else:
            found[identity] = Verdict(COMMITTED)
    return found


@dataclass(frozen=True)
class Settled:
    """An object as its last batch left it. `at` is when its part was committed (epoch ms), as the record's `listed_at` where it is listed.

    One that is not `sure` may not have been part of that batch: it is merged again where the ledger knows nothing of it.
    """

    record: ObjectRecord
    at: int
    sure: bool = True


@dataclass(frozen=True)
class KnownTable:
    """What outcomes tell of one table: its last one, the last that has a commit, the last ones with notes and a watch, and the sums of their counts.

    `pinned` is what the last commit was written with; `failed` why the last part was quarantined whole, None where it wasn't.
    """

    last: Outcome | None = None
    noted: Outcome | None = None
    committed: Outcome | None = None
    watched: Outcome | None = None
    pinned: Mapping[str, Any] = field(default_factory=dict, hash=False)
    failed: str | None = None
    totals: Mapping[str, int] = field(default_factory=dict, hash=False)

    def after(self, outcome: Outcome, part: TablePart, found: Mapping[ObjectId, Verdict]) -> KnownTable:
        """As settling one more part leaves the table's item."""
        totals = Counter(self.totals)
        totals.update(counts_of(outcome, found))
        if outcome.state != COMMITTED_PART:
            return replace(self, totals=totals, failed=outcome.reason)
        wrote = outcome.instant is not None
        return KnownTable(
            last=outcome,
            noted=outcome if outcome.notes or wrote else self.noted,
            committed=outcome if wrote else self.committed,
            watched=outcome if outcome.watch else self.watched,
            pinned=part.table_config.pinned if wrote else self.pinned,
            totals=totals,
        )


@dataclass(frozen=True)
class Recovered:
    """How many objects a restore added, corrected and kept; those that `raced` changed meanwhile, and the next call looks again."""

    added: int = 0
    corrected: int = 0
    kept: int = 0
    raced: int = 0

    def plus(self, other: Recovered) -> Recovered:
        """The sum of both."""
        return Recovered(
            self.added + other.added, self.corrected + other.corrected, self.kept + other.kept, self.raced + other.raced
        )


class Recovery:
    """Takes batches in any order, and knows then what the ledger held. `rebuilt` is when tables were rebuilt last (epoch ms): what was claimed before is merged again."""

    def __init__(self, rebuilt: Mapping[str, int]) -> None:
        self._rebuilt = rebuilt
        self._objects: dict[ObjectId, Settled] = {}
        self._ranks: dict[ObjectId, tuple[int, bool, int]] = {}
        self._parts: dict[str, list[tuple[Outcome, TablePart, dict[ObjectId, Verdict]]]] = {}

    def add(self, manifest: Manifest, outcomes: Mapping[str, Outcome]) -> None:
        """Take one batch. A part without an outcome was not settled: its objects are in another batch, or to be merged."""
        for table, outcome in outcomes.items():
            part = manifest.tables[table]
            found = verdicts(outcome, [item.id for item in part.objects])
            void = manifest.created_at <= self._rebuilt.get(table, -1)
            # The manifest also names what was no longer there to be claimed; which that was, no document says. Merging again changes nothing.
            whole = outcome.counts.get("objects") == len(part.objects)
            for item in part.objects:
                self._keep(item, table, manifest, outcome, found[item.id], part, void=void, whole=whole)
            if not void:
                self._parts.setdefault(table, []).append((outcome, part, found))

    def settled(self, identity: ObjectId) -> Settled | None:
        """What became of an object; None where no outcome tells: it is to be merged."""
        return self._objects.get(identity)

    @property
    def objects(self) -> int:
        """How many objects outcomes tell of."""
        return len(self._objects)

    def tables(self) -> dict[str, KnownTable]:
        """Every table of which an outcome tells, by name."""
        known: dict[str, KnownTable] = {}
        for table, parts in self._parts.items():
            known[table] = KnownTable()
            for outcome, part, found in sorted(parts, key=lambda each: (each[0].committed_at, each[0].batch)):
                known[table] = known[table].after(outcome, part, found)
        return known

    def _keep(
        self,
        item: ManifestObject,
        table: str,
        manifest: Manifest,
        outcome: Outcome,
        verdict: Verdict,
        part: TablePart,
        *,
        void: bool,
        whole: bool,
    ) -> None:
        again = void or not whole
        # A part that only returned has no outcome, so the highest attempt is the last word, and of equal ones what is sure, then the later.
        rank = (item.attempt, not again, outcome.committed_at)
        if rank <= self._ranks.get(item.id, (-1, False, 0)):
            return
        self._ranks[item.id] = rank
        named = {
            "size": item.size,
            "table": table,
            "lane": manifest.lane,
            "topic": item.topic,
            "kafka_partition": item.kafka_partition,
            "offset": item.offset,
            "format": item.format,
            "schema": item.schema,
        }
        if again:
            generation = int(part.config.get("generation", 0))
            record = ObjectRecord(
                item.id, PENDING, item.admitted_at, attempt=item.attempt + 1, generation=generation, **named
            )
        else:
            record = ObjectRecord(
                item.id,
                verdict.state,
                item.admitted_at,
                attempt=item.attempt,
                merged=item.merged,
                rows_aside=item.rows_aside,
                batch=manifest.batch,
                code=verdict.code,
                reason=verdict.reason,
                quarantined_rows=verdict.rows,
                row_codes=verdict.row_codes,
                parked_generation=verdict.parked_generation,
                **named,
            )
        self._objects[item.id] = Settled(record, outcome.committed_at, sure=void or whole)


def counts_of(outcome: Outcome, found: Mapping[ObjectId, Verdict]) -> dict[str, int]:
    """What a part adds to its table's totals: its own counts, its objects by what became of them, and whether there was a commit, which table services are due by."""
    ended = Counter(verdict.state for verdict in found.values())
    return {
        **outcome.counts,
        "objects": ended[COMMITTED],
        "objects_quarantined": ended[QUARANTINED],
        "commits": int(outcome.instant is not None),
    }
