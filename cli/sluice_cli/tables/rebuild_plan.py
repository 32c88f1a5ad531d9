"""The plan of a table's rebuild: the objects that are merged again, those that are gone, and the obstacles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sluice.batch.outcome import QUARANTINED as QUARANTINED_PART
from sluice.config.document import Configuration
from sluice.lane.machine import HALTED, PAUSED
from sluice.ledger.keys import COMMITTED, PARKED, PENDING, QUARANTINED, SUPERSEDED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import COLD, SkippedDocument, SkippedDocuments, pages_of_bronze
from sluice_aws.s3.past_batches import PastBatch
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_aws.stack import Target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted

LOOKUPS_AT_ONCE = 16  # requests to bronze


@dataclass(frozen=True)
class ReplayPlan:
    """The objects of one table, by what the rebuild does with them.

    `replay` become pending, `waiting` are pending already, `quarantined` and `parked` stay as they are. `gone` were
    merged and are no longer in bronze; `archived` are of `replay` and `waiting`, and can't be read; `unknown` were
    merged, are in bronze, and not in the ledger. `generations` has the generation that each object was merged under.
    `skipped` are manifests and outcomes that can't be read.
    """

    replay: tuple[ObjectRecord, ...]
    waiting: tuple[ObjectRecord, ...]
    quarantined: tuple[ObjectRecord, ...]
    parked: tuple[ObjectRecord, ...]
    gone: tuple[ObjectId, ...]
    unknown: tuple[ObjectId, ...]
    generations: Mapping[ObjectId, int]
    archived: tuple[ObjectId, ...] = ()
    skipped: Sequence[SkippedDocument] = ()

    @property
    def bytes(self) -> int:
        """The stored size of all objects that will be read."""
        return sum(record.size for record in (*self.replay, *self.waiting))


def plan_replay(
    target: Target, table: str, configuration: Configuration | None, tick: Callable[[str, int], None]
) -> ReplayPlan:
    """Compare bronze, the ledger and the manifests. `tick` gets each count."""
    ledger, objects, past = target.ledger, target.objects, target.past_batches()
    records: dict[ObjectId, ObjectRecord] = {}
    cold: set[ObjectId] = set()
    listed = 0
    for page in pages_of_bronze(objects, target.bronze, configuration=configuration):
        listed += len(page)
        own = {identity: record for identity, record in ledger.objects.get(page).items() if record.table == table}
        records.update(own)
        cold.update(identity for identity in own if page[identity].storage_class in COLD)
        tick("Versions in bronze", listed)
    generations: dict[ObjectId, int] = {}
    gone: set[ObjectId] = set()
    marks = SkippedDocuments()
    dropped = PastRebuilds.read(objects, target.silver, marks, table=table).dropped_at.get(table, -1)
    for number, batch in enumerate(past.newest(table=table), 1):
        tick("Batches", number)
        if batch.manifest.created_at <= dropped:  # of another table of this name
            continue
        merged_as = int(batch.manifest.tables[table].config.get("generation", 0))
        for identity in _merged(batch, table):
            if identity not in records:
                gone.add(identity)
            else:
                generations.setdefault(identity, merged_as)  # the newest batch counts
    # A manifest also names objects that went to another table before the claim: bronze has those.
    there = _those(objects.exists, gone)
    gone -= set(there)
    elsewhere = ledger.objects.get(there)
    records.update({identity: record for identity, record in elsewhere.items() if record.table == table})
    by_state: dict[str, list[ObjectRecord]] = {}
    for record in sorted(records.values(), key=lambda record: (record.admitted_at, record.id)):
        by_state.setdefault(record.state, []).append(record)
    replay = (*by_state.get(COMMITTED, []), *_only_copies(list(records.values())))
    waiting = tuple(by_state.get(PENDING, []))
    return ReplayPlan(
        replay=replay,
        waiting=waiting,
        quarantined=tuple(by_state.get(QUARANTINED, [])),
        parked=tuple(by_state.get(PARKED, [])),
        gone=tuple(sorted(gone)),
        unknown=tuple(identity for identity in there if identity not in elsewhere),
        generations=generations,
        archived=_those(objects.is_archived, cold.intersection(record.id for record in (*replay, *waiting))),
        skipped=(*past.skipped, *marks.found),
    )


def _those(asked_of: Callable[[ObjectId], bool], candidates: Iterable[ObjectId]) -> tuple[ObjectId, ...]:
    """The candidates of which `asked` is true, sorted. Asks several at a time."""
    ordered = sorted(candidates)
    with ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="bronze") as pool:
        return tuple(identity for identity, true in zip(ordered, pool.map(asked_of, ordered), strict=True) if true)


def _merged(batch: PastBatch, table: str) -> Iterator[ObjectId]:
    """The objects of a part that were merged; none without an outcome, since they are then in another batch."""
    outcome = batch.outcomes.get(table)
    if outcome is None or outcome.state == QUARANTINED_PART:
        return
    left = {error.object for error in (*outcome.quarantined, *outcome.parked)}
    yield from (item.id for item in batch.manifest.tables[table].objects if item.id.hash not in left)


def _only_copies(records: Iterable[ObjectRecord]) -> list[ObjectRecord]:
    """Superseded versions whose bytes no committed version of their key has any more, since that one is gone."""
    contents = {(record.id.key, record.etag, record.size) for record in records if record.state in (COMMITTED, PENDING)}
    return [
        record
        for record in records
        if record.state == SUPERSEDED and (record.id.key, record.etag, record.size) not in contents
    ]


def obstacles_of_lanes(table: str, lane: str, *, ledger: Ledger, at_rest: bool) -> tuple[str, ...]:
    """The lane that isn't at rest, and the unfinished batches of the table, each with the next step."""
    lines = []
    states = {state.lane: state for state in ledger.lanes.all()}
    unfinished = [
        name
        for name in states
        if any(table in set(pointer.tables) - set(pointer.settled_tables) for pointer in ledger.batches.unsettled(name))
    ]
    state = states[lane].state if lane in states else "idle"
    if not at_rest:
        batch = f", a batch of {table} in it is unfinished" if lane in unfinished else ""
        first = _finishing(lane, state) if lane in unfinished else []
        lines.append(
            f"lane {lane} is {state}{batch}, and a run could write the table: "
            f"{', '.join(map(str, [*first, Step('pause', lane)]))}, until {Step('status')} says paused"
        )
    for name in unfinished:
        if name == lane and not at_rest:
            continue  # said above
        again = [Step("pause", name)] if states[name].state == PAUSED else []
        steps = [*_finishing(name, states[name].state), *again]
        lines.append(f"a batch of {table} in lane {name} is unfinished: {', '.join(map(str, steps))}")
    return tuple(lines)


def obstacles(table: str, plan: ReplayPlan, *, without_gone: bool) -> tuple[str, ...]:
    """The objects without which the table can't be rebuilt, each with the next step."""
    lines = []
    if plan.unknown:
        objects, verb = counted(len(plan.unknown), "object"), "is" if len(plan.unknown) == 1 else "are"
        lines.append(f"{objects} of {table} in bronze {verb} not in the ledger: {Step('rebuild ledger')} first")
    if plan.gone and not without_gone:
        objects = counted(len(plan.gone), "object is", "objects are")
        lines.append(
            f"{objects} part of {table} and no longer in bronze: rows that only they hold would be missing, "
            "and rows that only they delete would be back. Restore them, or use --without-gone"
        )
    if plan.archived and not without_gone:
        objects = counted(len(plan.archived), "object is", "objects are")
        lines.append(
            f"{objects} part of {table} and archived: their rows would be missing until you restore them "
            "(`aws s3api restore-object`) and retry them in quarantine. Restore them first, or use --without-gone"
        )
    return tuple(lines)


def _finishing(lane: str, state: str) -> list[Step]:
    """The steps that finish a lane's batch."""
    return [*([Step("resume", lane)] if state in (PAUSED, HALTED) else ()), Step("wait")]
