"""The Spark way of a part: DataFrames of its changes beside the stored rows. Covers every part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from sluice.admission.routing import MARKER
from sluice.batch.dumps import REFUSED, floors_of, incomplete, is_of_dump, refusal_of
from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import HISTORY_CHANGES, READ_STAGE, ObjectError
from sluice.batch.part_counts import merged_again, unexpected_in
from sluice.changes.log_restart import LOG_RESTARTED, SeenObject
from sluice.errors import SluiceError
from sluice_spark.hudi.facts import CommitResult
from sluice_spark.merge.by_spark import shared_keys
from sluice_spark.merge.by_spark.below_floor import leave_below_floor
from sluice_spark.merge.by_spark.commit import commit
from sluice_spark.merge.by_spark.decide import DecidedRows, MergeTarget, decide_rows
from sluice_spark.merge.by_spark.history_table import write_history
from sluice_spark.merge.by_spark.latest import is_forgotten
from sluice_spark.merge.by_spark.read import read_changes
from sluice_spark.merge.commit import raise_floors
from sluice_spark.merge.context import MergedPart, PartContext
from sluice_spark.merge.prepare import Prepared
from sluice_spark.merge.read import SeenObjects

# A batch whose objects are smaller than this has keys that are broadcast to every task of the stored table's scan.
BROADCAST_BYTES = 32 * 1024**2

SOURCE_UNKNOWN = (
    "{rows:,} rows of before their source table was recorded stayed at a truncate of batch {batch}, which may be about "
    "them: `{command}` decides"
)


def attempt(part: PartContext, prepared: Prepared) -> MergedPart:
    """Read, decide and commit by Spark, the history table first. Raises what `merge_part` does."""
    with ExitStack() as frames:
        decided = _read_and_decide(part, prepared, frames)
        rows, watch, notes = decided.rows, decided.judged.watch, _notes(part, decided)
        if rows is None:
            return MergedPart(watch=watch, notes=notes)
        lost = decided.judged.outdated(rows.suspicions, keys=rows.keys)
        counts = {**rows.counts, **lost, "bytes_read": sum(item.size for item in decided.objects)}
        history_instant: str | None = None
        if decided.changes is not None:
            counts[HISTORY_CHANGES], history_instant = write_history(
                part,
                decided.changes,
                prepared=prepared,
                objects=decided.objects,
                truncates=rows.truncates,
                few_keys=_are_few(decided.objects),
            )
        positions = [(truncate.source, truncate.position) for truncate in rows.truncates]
        facts = raise_floors(part, prepared.facts, positions)
        committed: CommitResult | None = None
        if rows.changes_nothing:
            part.services.tables.keep(part.config, facts)
        else:
            committed = commit(part, rows.rows, planned=prepared.planned, objects=decided.objects, facts=facts)
            counts.update(committed.counts)
    return MergedPart(counts, committed, watch, decided.unexpected, notes, history_instant)


@dataclass(frozen=True)
class _Decided:
    """What the read of a part came to. `rows` is None where no object was left to merge.

    `changes` has every change of the objects, for the history table; None where there is none. `refusals` say why dumps
    deleted nothing.
    """

    objects: tuple[ManifestObject, ...]
    rows: DecidedRows | None
    judged: Watched
    changes: DataFrame | None = None
    unexpected: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()


def _read_and_decide(part: PartContext, prepared: Prepared, frames: ExitStack) -> _Decided:
    """Read the objects and decide about their changes; refused and parked objects are left out.

    Which objects to leave out is known only once all were read. They are read again without those: the first reading
    keeps only each key's newest change, which may be one to leave out. Caching all changes instead would cost every
    batch memory and time for a case that stops objects until an operator acts.
    """
    objects = prepared.objects
    judged: Watched | None = None
    refusals: tuple[str, ...] = ()
    while True:
        with part.stages.timed(READ_STAGE):
            rows, seen, changes = _decided_rows(part, prepared, objects, frames)
            if judged is None:  # once: without the objects that are left out the watch would lose what it saw of them
                judged = watched(KafkaWatch.from_dict(part.claimed.watch), seen, part.config)
                _leave_errors(part, judged.refused)
                for hash_, reason in judged.parked.items():
                    part.aside.park(ObjectError(hash_, LOG_RESTARTED, reason))
            left_out = {*judged.refused, *judged.parked}
            remaining = tuple(item for item in objects if item.id.hash not in left_out)
            if len(remaining) == len(objects):
                remaining, notes = _without_refused_dumps(part, rows, objects)
                refusals += notes
            if remaining == objects:
                unusable = shared_keys.refusal(rows.counts, part.config.record_key) if prepared.facts.empty else None
                if unusable is not None:
                    _leave_errors(part, {item.id.hash: unusable for item in objects})  # the key can still change
                    return _Decided((), None, judged)
                if rows.below_purge_floor is not None:
                    names = prepared.planned.target.names
                    leave_below_floor(part, rows.below_purge_floor, objects=objects, columns=names)
                if refusals and part.config.snapshot.awaits_next:
                    rows = replace(rows, counts={**rows.counts, REFUSED: 1})
                return _Decided(objects, rows, judged, changes, unexpected_in(seen), refusals)
            if not remaining:
                return _Decided((), None, judged)
        frames.close()
        objects = remaining


def _without_refused_dumps(
    part: PartContext, rows: DecidedRows, objects: tuple[ManifestObject, ...]
) -> tuple[tuple[ManifestObject, ...], tuple[str, ...]]:
    """The objects without the dumps that are refused, since they lack too many rows, or some were set aside.

    The marker of such a dump is left out, and so is a dump of one object that lacks rows; the reason is left in S3.
    What else completes a dump is merged and deletes nothing: the reason is a note.
    """
    if rows.replaced is None:
        return objects, ()
    newest = max(item.replaces for item in objects if item.replaces is not None)
    aside = part.aside.read()
    failed = {item.object for items in (aside.objects, aside.rows, aside.parked) for item in items}
    remaining, notes = objects, dict[str, None]()
    for carrier in [item for item in objects if item.replaces == newest]:
        own = (item for item in part.claimed.objects if is_of_dump(item, carrier, part.config))
        broken = [item for item in own if item.id.hash in failed]
        error: SluiceError | None = None
        if broken:
            error = incomplete(carrier.key, broken[0].key, "was set aside, or rows of it")
        elif carrier.first_batch is None and carrier.rebuilt_at is None:  # else it was accepted before
            error = refusal_of(*rows.replaced, part.config)
        if error is None:
            continue
        if carrier.format != MARKER and (broken or part.config.snapshot.awaits_next):
            remaining = tuple(replace(item, replaces=None) if item is carrier else item for item in remaining)
            notes[str(error)] = None
        else:
            _leave_errors(part, {carrier.id.hash: error})
            remaining = tuple(item for item in remaining if item is not carrier)
    return remaining, tuple(notes)


def _decided_rows(
    part: PartContext, prepared: Prepared, objects: Sequence[ManifestObject], frames: ExitStack
) -> tuple[DecidedRows, Sequence[SeenObject], DataFrame | None]:
    """One reading of the objects: the rows decided from it, what the tasks saw of each object's place, the changes."""
    planned = prepared.planned
    seen = SeenObjects(part.spark.sparkContext)
    changes = read_changes(
        part.spark,
        objects=objects,
        plan=planned.plan,
        target=planned.target,
        source=part.services.source,
        seen=seen,
    )
    target = MergeTarget(
        hudi=part.hudi,
        facts=prepared.facts,
        schema=planned.target,
        few_keys=_are_few(objects),
        unordered=prepared.unordered,
        frames=frames,
        source_clock=prepared.source_clock,
        dumps=floors_of(objects, part.config),
    )
    noted = prepared.facts.forgotten
    if part.config.history or noted:
        changes = target.cached(changes)  # used twice
    dropped = 0
    if noted:
        forgotten = is_forgotten(noted, table=part.config.table, record_key=part.config.record_key)
        dropped = changes.where(forgotten).count()
        changes = changes.where(~forgotten)
    rows = decide_rows(changes, target=target)
    if dropped:
        rows = replace(rows, counts={**rows.counts, "read": rows.counts["read"] + dropped, "forgotten": dropped})
    taken = seen.take(objects)
    rows = replace(rows, counts={**rows.counts, **merged_again(objects, taken)})
    return rows, taken, changes if part.config.history else None


def _are_few(objects: Sequence[ManifestObject]) -> bool:
    return sum(item.size for item in objects) < BROADCAST_BYTES


def _leave_errors(part: PartContext, refusals: Mapping[str, SluiceError]) -> None:
    """Put in S3, before anything is committed, why objects are refused: by their hashes."""
    for hash_, refusal in refusals.items():
        part.aside.refuse(ObjectError(hash_, refusal.code, str(refusal)))


def _notes(part: PartContext, decided: _Decided) -> tuple[str, ...]:
    notes = [*decided.refusals]
    parked = decided.judged.parked
    if parked:
        notes.append(f"{len(parked)} objects of batch {part.manifest.batch} are parked: {parked[min(parked)]}")
    counts = decided.rows.counts if decided.rows is not None else {}
    if counts.get("source_unknown"):
        count, rebuild = counts["source_unknown"], f"sluice rebuild table {part.config.table}"
        notes.append(SOURCE_UNKNOWN.format(rows=count, batch=part.manifest.batch, command=rebuild))
    return (*notes, *shared_keys.notes(counts, part.config.record_key, part.manifest.batch))
