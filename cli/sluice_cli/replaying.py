"""What writing a table anew from its objects would take: which of them bronze still has, which it has no more, and what stands in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sluice.identity import ObjectId, identify
from sluice.lane import PAUSED
from sluice.ledger_items import COMMITTED, PARKED, PENDING, QUARANTINED, SUPERSEDED
from sluice.ledger_records import ObjectRecord
from sluice.outcome import QUARANTINED as QUARANTINED_PART
from sluice_aws.objects import Objects
from sluice_cli.output import counted
from sluice_cli.past_batches import PastBatch, PastBatches

AT_ONCE = 16  # questions to bronze


@dataclass(frozen=True)
class ReplayPlan:
    """The objects of one table. `replay` become pending, `waiting` are already; `gone` were merged and are no longer in bronze.

    `quarantined` and `parked` stay where they are; `generations` are those that objects were merged under; `unknown` are merged ones in bronze that the ledger
    has lost.
    """

    replay: tuple[ObjectRecord, ...]
    waiting: tuple[ObjectRecord, ...]
    quarantined: tuple[ObjectRecord, ...]
    parked: tuple[ObjectRecord, ...]
    gone: tuple[ObjectId, ...]
    unknown: tuple[ObjectId, ...]
    generations: Mapping[ObjectId, int]

    @property
    def bytes(self) -> int:
        """As stored, of all that will be read."""
        return sum(record.size for record in (*self.replay, *self.waiting))


def pages_of_bronze(objects: Objects, bucket: str) -> Iterator[list[ObjectId]]:
    """Every object version there is, a page of the listing at a time."""
    versioned = objects.is_versioned(bucket)
    marker = None
    while True:
        page = objects.version_page(bucket, marker)
        yield [
            identify(item.bucket, item.key, item.version_id, item.etag, bucket_versioned=versioned)
            for item in page.versions
        ]
        marker = page.next_marker
        if marker is None:
            return


def plan_replay(
    table: str,
    *,
    ledger: Any,
    pages: Iterator[list[ObjectId]],
    past: PastBatches,
    exists: Callable[[ObjectId], bool],
    tick: Callable[[str, int], None],
) -> ReplayPlan:
    """Compare bronze, the ledger and the manifests; `tick` is told what was looked at, and how many. `exists` asks bronze about one version."""
    found: dict[ObjectId, ObjectRecord] = {}
    looked_at = 0
    for page in pages:
        looked_at += len(page)
        found.update(
            {identity: record for identity, record in ledger.get_objects(page).items() if record.table == table}
        )
        tick("Versions in bronze", looked_at)
    generations: dict[ObjectId, int] = {}
    gone: set[ObjectId] = set()
    for number, batch in enumerate(past.newest(table=table), 1):
        tick("Batches", number)
        merged_as = int(batch.manifest.tables[table].config.get("generation", 0))
        for identity in _merged(batch, table):
            if identity not in found:
                gone.add(identity)
            else:
                generations.setdefault(identity, merged_as)  # the newest batch is the one that counts
    # A manifest also names what went to another table before it was claimed: that is there, and another table's.
    candidates = sorted(gone)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="gone") as pool:
        there = [
            identity for identity, is_there in zip(candidates, pool.map(exists, candidates), strict=True) if is_there
        ]
    gone -= set(there)
    elsewhere = ledger.get_objects(there)
    by_state: dict[str, list[ObjectRecord]] = {}
    for record in sorted(found.values(), key=lambda record: (record.admitted_at, record.id)):
        by_state.setdefault(record.state, []).append(record)
    return ReplayPlan(
        replay=tuple([*by_state.get(COMMITTED, []), *_only_copies(found.values())]),
        waiting=tuple(by_state.get(PENDING, [])),
        quarantined=tuple(by_state.get(QUARANTINED, [])),
        parked=tuple(by_state.get(PARKED, [])),
        gone=tuple(sorted(gone)),
        unknown=tuple(identity for identity in there if identity not in elsewhere),
        generations=generations,
    )


def _merged(batch: PastBatch, table: str) -> Iterator[ObjectId]:
    """The objects of a part that went into the table; none where its outcome is missing: they are in another batch."""
    outcome = batch.outcomes.get(table)
    if outcome is None or outcome.state == QUARANTINED_PART:
        return
    left = {error.object for error in (*outcome.quarantined, *outcome.parked)}
    yield from (item.id for item in batch.manifest.tables[table].objects if item.id.hash not in left)


def _only_copies(records: Sequence[ObjectRecord] | Any) -> list[ObjectRecord]:
    """Superseded versions whose bytes no committed version of their key has any more: that one is gone from bronze."""
    known = {(record.id.key, record.etag, record.size) for record in records if record.state in (COMMITTED, PENDING)}
    return [
        record
        for record in records
        if record.state == SUPERSEDED and (record.id.key, record.etag, record.size) not in known
    ]


def obstacles(table: str, lane: str, *, ledger: Any, plan: ReplayPlan, without_gone: bool) -> tuple[str, ...]:
    """Why the table can't be rebuilt now, each with what to do; none: it can."""
    found = []
    states = {state.lane: state for state in ledger.lanes()}
    if lane not in states or states[lane].state != PAUSED:
        state = "idle" if lane not in states else states[lane].state
        found.append(
            f"lane {lane} is {state}, and a run could write the table: `sluice pause {lane}`, until `sluice status` says paused"
        )
    for name in states:
        if any(table in set(pointer.tables) - set(pointer.settled_tables) for pointer in ledger.unsettled(name)):
            found.append(
                f"a batch of {table} in lane {name} is unfinished: `sluice resume {name}`, `sluice wait`, `sluice pause {name}`"
            )
    if plan.unknown:
        found.append(
            f"{counted(len(plan.unknown), 'object')} of {table} in bronze {'is' if len(plan.unknown) == 1 else 'are'} not in the ledger: `sluice rebuild ledger` first"
        )
    if plan.gone and not without_gone:
        found.append(
            f"{counted(len(plan.gone), 'object')} that {table} was made of {'is' if len(plan.gone) == 1 else 'are'} no longer in bronze: rows that only they told would be missing, "
            "and rows whose deletion only they told would be back. Restore them, or --without-gone"
        )
    return tuple(found)


def states_told(plan: ReplayPlan) -> dict[str, int]:
    """Counts of what the plan found, by what becomes of it."""
    return dict(
        Counter(
            {
                "replayed": len(plan.replay),
                "pending_already": len(plan.waiting),
                "quarantined": len(plan.quarantined),
                "parked": len(plan.parked),
                "gone": len(plan.gone),
            }
        )
    )
