"""Compares a table with its objects: folds every change of a key by the core's definition, apart from the merge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import pyarrow as pa

from sluice.batch.dumps import as_merged
from sluice.batch.kafka_watch import KafkaWatch
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMITTED as COMMITTED_PART
from sluice.batch.row_errors import from_lines
from sluice.changes.forgotten import marks
from sluice.changes.outdated import LATER, ChangePlace, suspicion
from sluice.changes.recurring_keys import without_mark
from sluice.changes.row_history import (
    NEVER,
    NO_HISTORY,
    TWICE,
    Change,
    Row,
    adopted,
    disagreement,
    never_came,
    row_after,
)
from sluice.changes.source_tables import Floors
from sluice.config.table import IGNORE, TableConfig
from sluice.errors import SluiceError
from sluice.hudi.own_metadata import FLOOR_PROPERTY, FORGOTTEN_PROPERTY, PURGED_PROPERTY
from sluice.ledger.keys import COMMITTED
from sluice.ledger.recovery import end_states
from sluice.silver_keys import rows_key
from sluice_aws.errors import ObjectGone
from sluice_aws.s3.objects import SkippedDocument, SkippedDocuments
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_aws.stack import Target
from sluice_cli.account.steps import TABLES_AND_LANES
from sluice_cli.ingest.set_aside import InQuarantine, in_quarantine
from sluice_cli.trace.row_changes import Key, hash_keys_of, keyed_changes, with_bodies
from sluice_cli.trace.row_life import open_from, row_versions, stored_key_hash
from sluice_read.errors import NoCommit, UnknownTable
from sluice_read.moments import NOW
from sluice_read.place import history_folder
from sluice_read.reading import Shown, SilverTable, open_table
from sluice_read.values import rows_of

KEYS_AT_ONCE = 100_000  # of one pass over the objects: their changes are held in memory
EXPECT = "expect"
# Settings of a rule that decide what a row's values are, or whether it is merged.
RULES = ("columns", EXPECT, "shape", "format", "delete_mode")


@dataclass(frozen=True)
class MergedObject:
    """An object that is part of the table, as its last batch merged it.

    `changed` are the settings of RULES that an earlier batch, which had merged it too, found otherwise.
    """

    item: ManifestObject
    batch: str
    config: TableConfig
    has_aside: bool
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Disagreement:
    """A row that the table holds otherwise than its changes say.

    `changed` are settings of the rule that changed between two merges of its objects. The first merge wrote the row,
    and the second one found it there and left it, so that a difference is expected.
    """

    key: Key
    kind: str
    expected: Row | None
    stored: Row | None
    changed: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values differ, sorted; none where one of the two rows is missing or deleted."""
        if self.expected is None or self.stored is None or self.expected.deleted or self.stored.deleted:
            return ()
        expected, stored = self.expected.values, self.stored.values
        both = {name for name in expected if name in stored and not bool(expected[name] != stored[name])}
        return tuple(sorted({*expected, *stored} - both))


@dataclass
class Verified:
    """The result. `unread` are objects that are gone or can't be read: rows that they changed may disagree for that.

    `quarantined` is what the table lacks now because it is in quarantine. The comparison leaves it out.
    """

    table: str
    instant: str
    keys: int = 0
    rows: int = 0
    changes: int = 0
    objects: int = 0
    share: int = 1  # one of so many keys was compared
    concealed: frozenset[str] = frozenset()  # columns, in lower case, whose values the table's rule conceals or did
    disagreements: list[Disagreement] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    skipped: tuple[SkippedDocument, ...] = ()
    quarantined: InQuarantine = InQuarantine()
    outdated: list[Key] = field(default_factory=list)  # rows of which a later change lost
    lost: int = 0  # changes that lost though they are later, by the table's batches
    owing: list[tuple[Key, tuple[str, ...]]] = field(default_factory=list)  # rows, and columns whose values never came
    floors: list[str] = field(default_factory=list)  # that the table lacks: kinds and positions

    @property
    def read_all(self) -> bool:
        """True if every object and document could be read."""
        return not self.unread and not self.skipped

    @property
    def proven(self) -> bool:
        """True if every compared row is what its changes say, every change was read, and no later one lost."""
        return not self.disagreements and self.read_all and not self.outdated and not self.lost and not self.floors


class Verification:
    """The verification of one table. `tick` gets the number of objects that were read so far."""

    def __init__(self, target: Target, *, tick: Callable[[str, int], None], keys_at_once: int = KEYS_AT_ONCE) -> None:
        self._target = target
        self._ledger = target.ledger
        self._objects = target.objects
        self._hash_keys = hash_keys_of(target)
        self._tick = tick
        self._keys_at_once = keys_at_once
        self._past = target.past_batches()
        self._skipped = SkippedDocuments()
        self._concealed: frozenset[str] = frozenset()

    def run(self, table: str, sample: int | None = None) -> Verified:
        """Compare the table as of its last batch that was read; with `sample` only about so many keys of it.

        Keys are divided by a hash, and each division takes one pass over the objects, so that rows that the table lacks
        are found in a sample, too. Raises UnknownTable where no batch of the table is kept, as of a
        history table.
        """
        merged, instant = self._merged(table)
        opened = open_from(self._target, table, instant)
        if opened.instant > instant:  # a row was forgotten since, when every batch before had its outcome
            merged, _ = self._merged(table, until=opened.instant)
        verified = Verified(table, opened.instant, concealed=self._concealed)
        watch = KafkaWatch.from_dict(self._ledger.tables.get(table).watch)
        verified.lost = watch.lost_under(max((merged_object.config.generation for merged_object in merged), default=0))
        keys = Shown(with_deleted=True, lineage=True, columns=opened.record_key)  # an append-only table's key is hidden
        rows = sum(batch.num_rows for batch in opened.batches(keys))
        verified.share = max(1, -(-rows // (sample or self._keys_at_once)))
        for division in range(verified.share if sample is None else 1):
            self._compare(opened, merged, division, verified)
        if sample is None:
            verified.share = 1
        verified.quarantined = in_quarantine(self._ledger, table)
        verified.skipped = (*self._past.skipped, *self._skipped.found)
        return verified

    def _merged(self, table: str, until: str | None = None) -> tuple[list[MergedObject], str]:
        """The objects that the table is made of, each by its last batch, and the instant of the newest commit.

        `until` leaves out batches that were committed later.
        """
        rebuilt = PastRebuilds.read(self._objects, self._target.silver, self._skipped).last_at.get(table, -1)
        taken: dict[str, MergedObject] = {}
        newest = ""
        for batch in self._past.newest(table=table):
            outcome = batch.outcomes.get(table)
            if outcome is None or outcome.state != COMMITTED_PART or batch.manifest.created_at <= rebuilt:
                continue
            if until is not None and outcome.instant is not None and outcome.instant > until:
                continue
            newest = max(newest, outcome.instant or "")
            part = batch.manifest.tables[table]
            config = part.table_config
            self._concealed |= {config.columns.table_name(name).lower() for name in config.columns.concealed}
            ends = end_states(outcome, [item.id for item in part.objects])
            records = self._ledger.objects.get([item.id for item in part.objects])
            for item in part.objects:
                record = records.get(item.id)
                here = record is None or record.batch == outcome.batch or record.attempt > item.attempt
                if not here or ends[item.id].state != COMMITTED:
                    continue
                later = taken.get(item.id.hash)
                if later is None:
                    has_aside = any(rows.object == item.id.hash for rows in outcome.quarantined_rows)
                    taken[item.id.hash] = MergedObject(as_merged(item, outcome), outcome.batch, config, has_aside)
                elif later.config != config:
                    changed = {name for name in RULES if getattr(later.config, name) != getattr(config, name)}
                    taken[item.id.hash] = replace(later, changed=later.changed | changed)
        if not newest:
            raise UnknownTable(f"No commit of a table {table!r} is kept", table=table, next_step=str(TABLES_AND_LANES))
        return list(taken.values()), newest

    def _compare(self, opened: SilverTable, merged: list[MergedObject], division: int, verified: Verified) -> None:
        appends = any(item.config.append_only for item in merged)

        def wanted(key: Key) -> bool:
            text = json.dumps([verified.instant, *(_of_object(key) if appends else key)], ensure_ascii=True)
            return crc32(text.encode("ascii")) % verified.share == division

        changes: dict[Key, dict[str, Change]] = {}
        records: dict[Key, list[Change]] = {}  # of an append-only table, whose keys may come again
        held: dict[Key, ChangePlace] = {}
        latest: dict[Key, ChangePlace] = {}
        of_history: dict[Key, set[str]] = {}
        under_other_rules: dict[Key, set[str]] = {}
        # Of a record that was set aside by the later rule the key is not known.
        set_aside_later = any(EXPECT in item.changed and item.has_aside for item in merged)
        floors = Floors(topic=merged[0].config.topic if merged else "")
        first = division == 0
        types = {item.name: item.type for item in opened.stored_schema}
        bodies = with_bodies(self._objects, merged, lambda one: (one.item.id, one.config.limits.object_bytes))
        for number, (object_, body) in enumerate(bodies, 1):
            self._tick("Objects", number)
            hash_key = self._hash_keys.of(object_.config)
            try:
                aside = self._aside(object_, verified.table)
                read, truncates = keyed_changes(
                    body(), object_.item, object_.config, wanted=wanted, types=types, aside=aside, hash_key=hash_key
                )
            except SluiceError as error:
                if first:
                    verified.unread.append((object_.item.key, error.code))
                continue
            if object_.config.delete_mode != IGNORE:
                floors = floors.raised(truncates)
            verified.objects += first
            verified.changes += len(read)
            ordered_by_log = not object_.config.append_only and object_.config.position is None
            for key, one in read:
                if ordered_by_log:
                    held[key] = max(held.get(key, one.place), one.place, key=lambda place: place.position)
                    latest[key] = max(latest.get(key, one.place), one.place, key=lambda place: place.latest_last)
                if object_.config.history:
                    of_history.setdefault(key, set()).add(one.position)
                if object_.changed:
                    under_other_rules.setdefault(key, set()).update(object_.changed)
                ignored = one.deleted and object_.config.delete_mode == IGNORE
                change = Change(one.position, one.op, one.deleted, one.values, one.unchanged, one.source, ignored)
                if appends:
                    records.setdefault(key, []).append(change)
                else:
                    changes.setdefault(key, {})[one.position] = change
        properties = opened.listing.folder.properties()
        if first:
            verified.floors = _missing_floors(properties, floors, self._ledger.tables.get(verified.table).purge_floors)
        for key, place in latest.items():
            way = None if place == held[key] else suspicion(place, held[key])
            if way == LATER or way is not None and verified.lost:
                verified.outdated.append(key)
        stored: dict[Key, Row] = {}
        twice = set()
        for key, row in self._stored(opened, wanted):
            twice.update([key] if key in stored else [])
            stored[key] = row
        noted, purged = marks(properties.get(FORGOTTEN_PROPERTY)), properties.get(PURGED_PROPERTY, NEVER)
        unkept = self._without_history(verified.table, of_history)
        columns = [name for name in opened.schema(Shown()).names if name not in opened.record_key]
        if appends:
            changes = under_identities(records, stored, columns)
        for key in sorted({*changes, *stored}, key=lambda key: json.dumps(key)):
            own = list(changes.get(key, {}).values())
            held_row = stored.get(key)
            expected = row_after(adopted(held_row), own, columns=columns, floor=floors)
            kind = disagreement(expected, held_row, purged=purged)
            if noted and (kind is not None or key in unkept):
                until = noted.get(stored_key_hash(opened, key), NEVER)
                own = [change for change in own if change.position > until]
                expected = row_after(adopted(held_row), own, columns=columns, floor=floors)
                kind = disagreement(expected, held_row, purged=purged)
                unkept[key] = {position for position in unkept.get(key, ()) if position > until}
            owing = never_came(expected, own) if kind is None else ()
            if owing:
                verified.owing.append((key, owing))
            kind = TWICE if key in twice else kind or (NO_HISTORY if unkept.get(key) else None)
            if kind is not None:
                changed = under_other_rules.get(key, set()) | ({EXPECT} if set_aside_later and not own else set())
                verified.disagreements.append(Disagreement(key, kind, expected, held_row, tuple(sorted(changed))))
        verified.keys += len({*changes, *stored})
        verified.rows += len(stored)

    def _stored(self, opened: SilverTable, wanted: Callable[[Key], bool]) -> Iterator[tuple[Key, Row]]:
        for batch in opened.batches(Shown(with_deleted=True, lineage=True)):
            keys = list(rows_of(batch.select(list(opened.record_key))))
            places = [place for place, key in enumerate(keys) if wanted(key)]
            chosen = batch.take(pa.array(places, pa.int64()))
            for place, version in zip(places, row_versions(opened, chosen), strict=True):
                yield keys[place], version.row

    def _without_history(self, table: str, changes: dict[Key, set[str]]) -> dict[Key, set[str]]:
        """The positions of changes that the table's history table should have, and lacks."""
        folder = history_folder(self._target, table) if changes else None
        if folder is None:
            return changes
        try:
            opened = open_table(self._target, folder.table, span=NOW)
        except NoCommit:
            return changes
        for batch in opened.batches(Shown(with_deleted=True, lineage=True, columns=opened.record_key)):
            for *key, position in rows_of(batch.select([*opened.record_key])):
                changes.get(tuple(key), set()).discard(position)
        return {key: left for key, left in changes.items() if left}

    def _aside(self, item: MergedObject, table: str) -> frozenset[int]:
        """The numbers of the object's records that were set aside."""
        if not item.has_aside:
            return frozenset()
        key = rows_key(item.batch, table, item.item.id.hash)
        document = self._objects.get(self._target.silver, key)
        if document is None:
            raise ObjectGone(
                "The records that were set aside of an object are gone", bucket=self._target.silver, key=key
            )
        text = document.data.decode("utf-8")
        return frozenset(error.record for error in from_lines(text))


def _of_object(key: Key) -> Key:
    return tuple(without_mark(part) if isinstance(part, str) else part for part in key)


def under_identities(
    records: Mapping[Key, Sequence[Change]], stored: Mapping[Key, Row], columns: Sequence[str]
) -> dict[Key, dict[str, Change]]:
    """The records of an append-only table under the stored rows that hold them (`sluice.changes.recurring_keys`)."""
    rows: dict[Key, list[Key]] = {}
    for key in sorted(stored):
        rows.setdefault(_of_object(key), []).append(key)
    changes: dict[Key, dict[str, Change]] = {}
    for own, listed in records.items():
        for change in listed:
            row = row_after(None, [change], columns=columns)
            held = (key for key in rows.get(own, ()) if row is not None and disagreement(row, stored[key]) is None)
            changes.setdefault(next(held, own), {})[change.position] = change
    return changes


def _missing_floors(properties: Mapping[str, str], truncated: Floors, purged: Mapping[str, str]) -> list[str]:
    """The floors that the table's own file should have, by its objects and the ledger, and lacks."""
    held = Floors.from_text(properties.get(FLOOR_PROPERTY), truncated.topic)
    truncates = {"": truncated.everywhere, **truncated.by_source}
    missing = [
        f"{FLOOR_PROPERTY}={' '.join(filter(None, (source, position)))}"
        for source, position in truncates.items()
        if max(held.everywhere, held.by_source.get(source, NEVER)) < position
    ]
    highest = max(purged.values(), default=NEVER)
    return missing + ([f"{PURGED_PROPERTY}={highest}"] if properties.get(PURGED_PROPERTY, NEVER) < highest else [])
