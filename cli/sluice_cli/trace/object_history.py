"""The history of objects: every claim of each with its result, and totals in which each part of a batch counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sluice.ledger.keys import CLAIMED, COMMITTED, LISTED_STATES, PARKED, QUARANTINED, RETURNED, SUPERSEDED
from sluice.ledger.records import Decision, ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.s3.past_batches import PastBatch
from sluice_cli.ingest.entry import reason_of
from sluice_cli.terminal.step import completed
from sluice_cli.trace.stages import Moment, described_id, reason_now, state_of


@dataclass(frozen=True)
class Claim:
    """One batch that claimed an object.

    `state` is claimed, committed, quarantined, parked, or returned (to pending, without effect on the table). `part`
    has the counts of the table's whole part, in which the object was one of `part_objects`. `readable_at` is None where
    all of its rows were set aside. Times are epoch ms.
    """

    batch: str
    table: str
    run: str
    claimed_at: int
    state: str
    part_objects: int
    part_bytes: int
    committed_at: int | None = None
    readable_at: int | None = None
    instant: str | None = None
    no_change: bool = False
    code: str | None = None
    reason: str | None = None
    quarantined_rows: int = 0
    part: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def is_set_aside(self) -> bool:
        """True if the batch merged nothing of the object."""
        return self.state in (QUARANTINED, PARKED)

    @property
    def merged_objects(self) -> int:
        """The objects that the part's counts of changes are about."""
        return self.part_objects - sum(self.part.get(name, 0) for name in ("quarantined_objects", "parked_objects"))


@dataclass(frozen=True)
class Entry:
    """One object version and what happened to it. `put_at` (epoch ms) is None where it is gone from bronze."""

    id: ObjectId
    record: ObjectRecord | None
    put_at: int | None
    claims: tuple[Claim, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def state(self) -> str:
        """The ledger's state, or `unseen`."""
        return state_of(self.record)

    @property
    def since(self) -> int:
        """The sort key of histories, epoch ms: when it was admitted, or else put."""
        return self.record.admitted_at if self.record else self.put_at or 0

    @property
    def readable_at(self) -> int | None:
        """When readers first saw its rows (epoch ms): with the batch that first committed it, if it was replayed."""
        batch = None if self.record is None else self.record.first_batch or self.record.batch
        return next((claim.readable_at for claim in reversed(self.claims) if claim.batch == batch), None)

    @property
    def replayed(self) -> bool:
        """Says whether its rows were readable before it became pending again; after a rebuild they were not."""
        record = self.record
        return record is not None and record.replayed_at is not None and record.first_batch is not None

    @property
    def last_claim(self) -> Claim | None:
        """The claim that gave the object its present state."""
        return next(
            (claim for claim in reversed(self.claims) if self.record is not None and claim.batch == self.record.batch),
            None,
        )


def claims_of(identity: ObjectId, record: ObjectRecord | None, batches: Iterable[PastBatch]) -> tuple[Claim, ...]:
    """List the claims of an object in these batches, oldest first."""
    claims = []
    for batch in sorted(batches, key=lambda item: (item.manifest.created_at, item.manifest.batch)):
        for table, part in batch.manifest.tables.items():
            if any(item.id == identity for item in part.objects):
                claims.append(_claim(identity, record, batch, table))
    return tuple(claims)


def by_object(batches: Iterable[PastBatch]) -> dict[ObjectId, list[PastBatch]]:
    """Group batches by the objects that they claimed."""
    by_id: dict[ObjectId, list[PastBatch]] = {}
    for batch in batches:
        for item in batch.manifest.objects:
            by_id.setdefault(item.id, []).append(batch)
    return by_id


def _claim(identity: ObjectId, record: ObjectRecord | None, batch: PastBatch, table: str) -> Claim:
    manifest, part, outcome = batch.manifest, batch.manifest.tables[table], batch.outcomes.get(table)
    ours = record is not None and record.batch == manifest.batch
    claim = Claim(
        manifest.batch,
        table,
        manifest.run,
        manifest.created_at,
        CLAIMED if ours else RETURNED,
        part_objects=outcome.counts.get("objects", len(part.objects)) if outcome else len(part.objects),
        part_bytes=part.bytes,
    )
    if outcome is None:
        return claim
    of_state = ((QUARANTINED, outcome.quarantined), (PARKED, outcome.parked))
    aside = {error.object: (state, error) for state, errors in of_state for error in errors}
    state, error = aside.get(identity.hash, (QUARANTINED, None))
    rows = next((item.rows for item in outcome.quarantined_rows if item.object == identity.hash), 0)
    instant, no_change = outcome.instant, outcome.no_change
    claim = replace(claim, part=dict(outcome.counts), instant=instant, no_change=no_change, quarantined_rows=rows)
    if error is not None or outcome.state == QUARANTINED:  # a commit was made without the object
        code = error.code if error else "table_quarantined"
        reason = completed(error.reason, TABLE=claim.table) if error else outcome.reason
        return replace(claim, state=state, instant=None, code=code, reason=reason)
    if not ours and record is not None and record.attempt == 0:
        return claim  # the manifest lists it, and the claim did not get it; of one that was taken back in, it did
    item = next(item_ for item_ in part.objects if item_.id == identity)
    readable_at = outcome.readable_with(item)
    return replace(claim, state=COMMITTED, committed_at=outcome.readable_at, readable_at=readable_at)


def moments(entry: Entry) -> list[Moment]:
    """List everything that happened to an object, oldest first."""
    moments_ = []
    if entry.put_at is not None:
        moments_.append(Moment("put", entry.put_at))
    record = entry.record
    if record is not None:
        if record.noticed_at is not None:
            moments_.append(Moment("noticed", record.noticed_at, record.via or ""))
        moments_.append(Moment("admitted", record.admitted_at))
        if record.unparked_at is not None:
            moments_.append(Moment("unparked", record.unparked_at))
        if record.replayed_at is not None:
            moments_.append(Moment("rebuilt" if record.first_batch is None else "replayed", record.replayed_at))
        if record.state in LISTED_STATES and record.listed_at and entry.last_claim is None:
            moments_.append(Moment(record.state, int(record.listed_at), reason_now(record) or ""))
    for claim in entry.claims:
        moments_.append(Moment(CLAIMED, claim.claimed_at, claim.batch))
        if claim.state == COMMITTED and claim.committed_at is not None:
            moments_.append(Moment(COMMITTED, claim.committed_at, claim.instant or "no change"))
        elif claim.is_set_aside:
            at = int(record.listed_at) if record and record.listed_at else claim.claimed_at
            moments_.append(Moment(claim.state, at, claim.code or ""))
    moments_ += [Moment(decision.verb, decision.at, decision.command) for decision in entry.decisions]
    return sorted(moments_, key=lambda moment: moment.at)


def totals(entries: Sequence[Entry], batches: Iterable[PastBatch]) -> dict[str, Any]:
    """Add up objects by state, and the counts of every part (batch and table) with one of them, each part once.

    A part that set all of them aside merged nothing of them, and doesn't count. `uncounted` are the parts that were
    found committed after their run had died: nothing recorded how many changes they read.
    """
    shown = {entry.id for entry in entries}
    parts: dict[tuple[str, str], Mapping[str, int]] = {}
    uncounted = 0
    for batch in batches:
        for table, outcome in batch.outcomes.items():
            aside = {error.object for error in (*outcome.quarantined, *outcome.parked)}
            if any(item.id in shown and item.id.hash not in aside for item in batch.manifest.tables[table].objects):
                parts[(batch.manifest.batch, table)] = outcome.counts
                uncounted += outcome.is_uncounted
    counts: Counter[str] = Counter()
    for part in parts.values():
        counts.update(part)
    return {
        "objects": len(entries),
        "bytes": sum(entry.record.size for entry in entries if entry.record),
        "states": dict(Counter(entry.state for entry in entries)),
        "batches": len({batch for batch, _ in parts}),
        "parts": len(parts),
        "uncounted": uncounted,
        "counts": dict(counts),
    }


def describe_entry(entry: Entry) -> dict[str, Any]:
    """The JSON form of an entry. Times are epoch ms."""
    record = entry.record
    return {
        **described_id(entry.id),
        "gone": entry.put_at is None,
        "state": entry.state,
        **{name: getattr(record, name, None) for name in ("table", "topic", "lane")},
        "bytes": record.size if record else None,
        "attempt": record.attempt if record else 0,
        "code": record.code if record else None,
        "reason": (reason_of(record) or record.rule or (reason_now(record) if record.state == SUPERSEDED else None))
        if record
        else None,
        "quarantined_rows": record.quarantined_rows if record else 0,
        "put_at": entry.put_at,
        "noticed_at": record.noticed_at if record else None,
        "admitted_at": record.admitted_at if record else None,
        "readable_at": entry.readable_at,
        "moments": [asdict(moment) for moment in moments(entry)],
        "claims": [asdict(claim) for claim in entry.claims],
    }
