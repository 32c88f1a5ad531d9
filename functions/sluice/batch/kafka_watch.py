"""Watches a table's Kafka partitions: decides which objects of a batch are parked or refused before it is committed.

Parked are objects of a log that restarted, and those whose changes don't compare with the table's. Refused are objects
of an append-only table whose Kafka records came already under another key, and objects of a Kafka partition that is
split over folders where only offsets order changes. Offset ranges follow from objects' names and record counts. What
the objects tell of changes that lose although they are later is judged here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

from sluice.batch.comparability import FormMark, SourceMark, judge_forms, judge_sources, judge_units
from sluice.batch.orders import SHORT, OrderMark, Place, judge_order, may_be_out_of_order, place_of, short
from sluice.changes.log_restart import (
    Mark,
    SeenObject,
    is_by_time,
    is_unnamed,
    judge,
    partition_text,
    topic_of,
    watched_partition,
)
from sluice.changes.outdated import OUTDATED, BatchSigns
from sluice.changes.position import OFFSET_ONLY
from sluice.config.table import TableConfig
from sluice.errors import Overlap, SluiceError, TwoTopics

# Of all marks as JSON, which is about a thousand partitions. The table's ledger item holds them, and DynamoDB limits an
# item to 400 KB.
MOST_CHARACTERS = 200_000

RANGES_KEPT = 256  # the newest of a table: after a crash, a sink rewrites only what it wrote shortly before


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of a merged object. Key and folder are hashes of eight hexadecimal digits.

    In a table with a key, `folder` is `Place.text`.
    """

    partition: int
    folder: str
    key: str
    first: int
    last: int


@dataclass(frozen=True)
class FirstRecord:
    """The record at the lowest known offset of a partition, as a hash, where offsets alone order changes.

    `replaced`: an object had another record at this offset, so that the topic was made anew.
    """

    generation: int
    offset: int
    sample: str
    replaced: bool = False


@dataclass(frozen=True)
class LostChanges:
    """How many changes of a table lost under one generation although they are later (`sluice.changes.outdated`)."""

    generation: int
    changes: int


@dataclass(frozen=True)
class KafkaWatch:
    """A table's high-water mark per Kafka partition, what orders its changes, and its latest offset ranges.

    Ranges are kept of an append-only table, and of one whose changes only offsets order. For a table with a key, the
    first record by partition, and the later changes that it lost. For one ordered by columns, the form of their values.
    `units` say what the stored values of columns count, where their types don't.
    """

    marks: Mapping[int, Mark] = field(default_factory=dict, hash=False)
    ranges: tuple[OffsetRange, ...] = ()
    first_records: Mapping[int, FirstRecord] = field(default_factory=dict, hash=False)
    lost: LostChanges | None = None
    order: OrderMark | None = None
    source: SourceMark | None = None
    form: FormMark | None = None
    units: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def generation(self) -> int:
        """The highest generation under which changes were merged, as far as it is known."""
        marks = (*self.marks.values(), *self.first_records.values(), self.lost, self.order, self.source, self.form)
        return max((mark.generation for mark in marks if mark is not None), default=0)

    def with_lost(self, changes: int, *, generation: int) -> KafkaWatch:
        """The watch after a batch of a generation that lost so many later changes."""
        before = self.lost
        if before is not None and before.generation > generation:
            return self
        if before is not None and before.generation == generation:
            changes += before.changes
        return replace(self, lost=LostChanges(generation, changes) if changes else None)

    def lost_under(self, generation: int) -> int:
        """How many later changes lost, until the generation is raised."""
        return self.lost.changes if self.lost is not None and self.lost.generation >= generation else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values for the table's ledger item, manifests and outcomes."""
        records = sorted(self.first_records.items())
        summary = {
            "first_records": {str(partition): list(astuple(record)) for partition, record in records},
            "lost": self.lost and list(astuple(self.lost)),
            "marks": {str(partition): mark.to_dict() for partition, mark in sorted(self.marks.items())},
            "ranges": [list(astuple(offset_range)) for offset_range in self.ranges],
            "order": self.order and asdict(self.order),
            "source": self.source and asdict(self.source),
            "form": self.form and [self.form.generation, *self.form.highest],
            "units": dict(self.units),
        }
        return {name: value for name, value in summary.items() if value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> KafkaWatch:
        marks = {int(partition): Mark.from_dict(mark) for partition, mark in values.get("marks", {}).items()}
        records = {int(name): FirstRecord(*record) for name, record in values.get("first_records", {}).items()}
        lost = LostChanges(*values["lost"]) if "lost" in values else None
        order = OrderMark(**values["order"]) if "order" in values else None
        source = SourceMark(**values["source"]) if "source" in values else None
        ranges = tuple(OffsetRange(*value) for value in values.get("ranges", ()))
        form = FormMark(values["form"][0], tuple(values["form"][1:])) if "form" in values else None
        return cls(marks, ranges, records, lost, order, source, form, values.get("units", {}))


@dataclass(frozen=True)
class Watched:
    """The watch after a batch, and the objects (by hash) to park or refuse, with the reason.

    `signs` tell which of the batch's changes are later than what they lost to; None: nothing orders them by Kafka.
    """

    watch: KafkaWatch
    parked: Mapping[str, str] = field(default_factory=dict, hash=False)
    refused: Mapping[str, SluiceError] = field(default_factory=dict, hash=False)
    signs: BatchSigns | None = None

    def outdated(self, suspicions: Mapping[str, int], *, keys: int) -> dict[str, int]:
        """The count of a batch's `keys` that lost a later change, by `outdated.suspicion`; empty where none did."""
        outdated = 0 if self.signs is None else self.signs.outdated(suspicions, keys=keys)
        return {OUTDATED: outdated} if outdated else {}


def watched(watch: KafkaWatch, seen: Sequence[SeenObject], config: TableConfig) -> Watched:
    """Judge the objects of a batch before it is committed. `seen` is in the order of admission."""
    _, of_other_unit = judge_units(watch.units, seen, config)
    judged = _of_one_unit(watch, [item for item in seen if item.object not in of_other_unit], config)
    left_out = {*judged.parked, *judged.refused, *of_other_unit}
    units, _ = judge_units(watch.units, [item for item in seen if item.object not in left_out], config)
    return replace(judged, watch=replace(judged.watch, units=units), refused={**judged.refused, **of_other_unit})


def _of_one_unit(watch: KafkaWatch, seen: Sequence[SeenObject], config: TableConfig) -> Watched:
    """`watched` for objects whose columns have the table's units.

    An append-only table, or one ordered by a column, has no log whose positions could fall. Only the log of the table's
    present generation is watched: retried objects of an earlier one belong to a log that ended. Each topic that feeds
    the table has partitions of its own.
    """
    seen = [replace(item, partition=None) if _is_of_no_sequence(item.partition, config) else item for item in seen]
    if config.several_topics:
        seen = [replace(item, partition=watched_partition(item.partition, item.topic, config.topic)) for item in seen]
    if config.append_only:
        if config.coordinates:
            return Watched(watch)
        ranges, refused = overlapping(watch.ranges, seen)
        return Watched(replace(watch, ranges=ranges), refused=refused)
    if config.position is not None:
        form = watch.form
        if form is not None and form.generation > config.generation:
            return Watched(watch)
        parked: Mapping[str, str] = {}
        mixed: Mapping[str, SluiceError] = {}
        if not config.key_names_source:  # rows of one source never compare with those of another
            form, parked, mixed = judge_forms(form, seen, config)
        if (0 if form is None else form.generation) < config.generation and len(parked) + len(mixed) < len(seen):
            form = FormMark(config.generation, ())  # nothing tells a form, but the generation
        return Watched(replace(watch, form=form), parked=parked, refused=mixed)
    generations = [mark.generation for mark in watch.marks.values()]
    if max(generations + ([] if watch.order is None else [watch.order.generation]), default=0) > config.generation:
        return Watched(watch)
    source, of_other_table = judge_sources(watch.source, seen, config)
    foreign: dict[str, SluiceError] = {**of_other_table, **_without_order(seen, config)}
    seen = [item for item in seen if item.object not in foreign]
    order, parked = judge_order(
        watch.order,
        watch.marks,
        seen,
        generation=config.generation,
        rows_compare=not config.key_names_source,
    )
    form = watch.form
    if config.change.order and not config.key_names_source:
        form, of_other_form, mixed = judge_forms(watch.form, seen, config)
        parked, foreign = {**parked, **of_other_form}, {**foreign, **mixed}
    ranges, refused = (watch.ranges, {}) if config.coordinates else split_over_folders(watch.ranges, seen, config)
    left = [item for item in seen if not {item.object} & {*parked, *refused, *foreign}]
    left = [replace(item, sample=f"{item.sample}{short(item.key)}") if _is_numbered(item) else item for item in left]
    begun = _numbered_again(watch, left, config.generation)
    judged = judge({**watch.marks, **begun}, left, generation=config.generation)
    left = [item for item in left if item.object not in judged.parked] if begun else left
    marks = bounded(judged.marks)
    records = _first_records(watch.first_records, left, config.generation)
    records_kept = {partition: record for partition, record in records.items() if partition in marks}
    after = replace(
        watch, marks=marks, ranges=ranges, first_records=records_kept, order=order, source=source, form=form
    )
    signs = _signs(watch.marks, records, left, config.generation)
    return Watched(after, parked={**judged.parked, **parked}, refused={**refused, **foreign}, signs=signs)


def _is_of_no_sequence(partition: int | None, config: TableConfig) -> bool:
    """Whether what stands for a Kafka partition doesn't keep the table's objects in one order."""
    if config.merged:  # several logs
        return bool(config.coordinates) or is_by_time(partition) or is_unnamed(partition)
    return is_unnamed(partition) and (config.append_only or bool(config.coordinates))


def _without_order(seen: Sequence[SeenObject], config: TableConfig) -> dict[str, SluiceError]:
    """The objects (by hash) of another topic than the table's that only Kafka's offsets order: they don't compare."""
    if config.key_names_source or not config.several_topics:
        return {}
    return {
        item.object: TwoTopics(
            f"Changes of topic {item.topic} have no position of a log, and offsets don't compare with those of topic "
            f"{config.topic}, which feeds {config.table} too",
            table=config.table,
            topic=item.topic,
            fed_by=config.topic,
            next_step="Let the connector write the log's position (add.fields), or name the source in the table's key",
        )
        for item in seen
        if item.kind == OFFSET_ONLY and item.partition is not None and item.topic not in ("", config.topic)
    }


def _signs(
    marks: Mapping[int, Mark], records: Mapping[int, FirstRecord], seen: Sequence[SeenObject], generation: int
) -> BatchSigns:
    """What the objects of a batch, in the order of their admission, tell of changes that are later (`BatchSigns`)."""
    current = {partition: mark for partition, mark in marks.items() if mark.generation == generation}
    reached = {partition: (mark.offset, mark.newest_ms) for partition, mark in current.items()}
    rewound, all_follow = False, True
    for item in seen:
        if item.partition is None:
            all_follow = False
            continue
        before = current.get(item.partition)
        all_follow = all_follow and (before is None or item.first > before.offset)
        if item.partition not in reached:
            reached[item.partition] = (item.last, item.newest_ms)
            continue
        offset, newest = reached[item.partition]
        later = newest is not None and item.newest_ms is not None and item.newest_ms > newest
        rewound = rewound or (later and item.first <= offset)
        reached[item.partition] = (max(offset, item.last), item.newest_ms if later or newest is None else newest)
    return BatchSigns(rewound, all_follow, any(record.replaced for record in records.values()))


def _is_numbered(item: SeenObject) -> bool:
    """Whether an object's sample is compared, and its name says the offset and no partition."""
    return is_unnamed(item.partition) and item.sample is not None


def _numbered_again(watch: KafkaWatch, seen: Iterable[SeenObject], generation: int) -> dict[int, Mark]:
    """The marks of partitions without a number whose offsets began again, where nothing else orders changes.

    An object then has another first record than the one that came first, under another key, once higher offsets are
    merged. Without their partitions, objects of several look so too, where one begins later than another.
    """
    begun = {}
    for item in seen:
        partition = item.partition
        if partition is None or not _is_numbered(item):
            continue
        record, mark = watch.first_records.get(partition), watch.marks.get(partition)
        if record is None or mark is None or record.generation != generation or mark.generation != generation:
            continue
        digits = len(str(item.sample)) - SHORT
        same = item.first != record.offset or item.last >= mark.offset
        one, other = str(item.sample), record.sample
        if not same and one[:digits] != other[:digits] and one[digits:] != other[digits:]:
            begun[partition] = replace(mark, restarted_at=item.first)
    return begun


def _first_records(
    records: Mapping[int, FirstRecord], seen: Iterable[SeenObject], generation: int
) -> dict[int, FirstRecord]:
    """The first records of a generation's partitions after these objects."""
    first_records = {partition: record for partition, record in records.items() if record.generation == generation}
    for item in seen:
        if item.partition is None or item.sample is None:
            continue
        before = first_records.get(item.partition)
        if before is None or item.first < before.offset and not before.replaced:
            first_records[item.partition] = FirstRecord(generation, item.first, item.sample)
        elif item.first == before.offset and item.sample != before.sample:
            first_records[item.partition] = replace(before, replaced=True)
    return first_records


def only_partition(watch: KafkaWatch, *, generation: int) -> int | None:
    """The only Kafka partition of a table's objects of a generation; None for several, or if it is unknown."""
    partitions = [partition for partition, mark in watch.marks.items() if mark.generation == generation]
    if len(watch.marks) > 1 or not partitions or is_unnamed(partitions[0]) or topic_of(partitions[0]):
        return None
    return partitions[0]


def is_of_one_log(watch: KafkaWatch, config: TableConfig) -> bool:
    """Whether the positions of a table's rows compare as those of one log; False where that isn't known."""
    if not config.several_topics or config.position is not None:
        return True
    servers = {
        server for mark in watch.marks.values() for log in (mark, *mark.apart.values()) for server in log.servers
    }
    topics = set() if config.key_names_source else {topic_of(partition) for partition in watch.marks}
    return len(servers or topics) == 1 and not any(mark.several for mark in watch.marks.values())


def bounded(marks: Mapping[int, Mark]) -> Mapping[int, Mark]:
    """The marks that fit into the ledger's item: first those of restarted logs, then the newest.

    Partitions come from objects' names, so a writer of objects can make up any number of them. The next object of a
    dropped partition makes it known again; a restart of its log before that goes unnoticed.
    """
    sizes = {partition: len(json.dumps({str(partition): mark.to_dict()})) for partition, mark in marks.items()}
    if sum(sizes.values()) <= MOST_CHARACTERS:
        return marks
    kept_marks: dict[int, Mark] = {}
    room = MOST_CHARACTERS
    for partition, mark in sorted(
        marks.items(), key=lambda entry: (entry[1].restarted_at is None, -(entry[1].newest_ms or 0), entry[0])
    ):
        room -= sizes[partition]
        if room < 0:
            break
        kept_marks[partition] = mark
    return kept_marks


def overlapping(
    ranges: Sequence[OffsetRange], seen: Iterable[SeenObject]
) -> tuple[tuple[OffsetRange, ...], dict[str, Overlap]]:
    """The ranges after the accepted objects, newest last, and the refused objects by hash.

    `seen` is in the order of admission. Only objects of one folder are compared: a partitioner spreads consecutive
    records over folders, and a range from a name and a count then spans offsets that lie in other folders. Records that
    a sink leaves out make a range shorter, never longer, so objects without a common record don't overlap
    (`overlapping-offsets`).
    """
    ranges_kept = list(ranges)
    refused: dict[str, Overlap] = {}
    for item in seen:
        if item.partition is None:
            continue
        folder = item.key.rpartition("/")[0]
        mine = OffsetRange(item.partition, short(folder), short(item.key), item.first, item.last)
        other = next((earlier for earlier in reversed(ranges_kept) if _overlap(earlier, mine)), None)
        if other is not None:
            refused[item.object] = Overlap(
                f"Offsets {mine.first} to {mine.last} of Kafka partition {partition_text(mine.partition)} overlap "
                f"{other.first} to {other.last}, which another object of the folder brought",
                offsets=f"{mine.first}-{mine.last}",
                other=f"{other.first}-{other.last}",
            )
        else:
            ranges_kept.append(mine)
    return tuple(ranges_kept[-RANGES_KEPT:]), refused


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    same_place = (one.partition, one.folder) == (other.partition, other.folder)
    return same_place and one.key != other.key and one.first <= other.last and other.first <= one.last


def split_over_folders(
    ranges: Sequence[OffsetRange], seen: Iterable[SeenObject], config: TableConfig
) -> tuple[tuple[OffsetRange, ...], dict[str, Overlap]]:
    """The ranges after the accepted objects of a table with a key, newest last, and the refused objects by hash.

    Objects that came together are judged in the order of their offsets. A Kafka partition is split where its objects
    are in folders of different values of a field, or overlap across folders: an older change could then win
    (`split-partitions`). Only objects whose changes have no log position are compared.
    """
    ranges_kept = list(ranges)
    refused: dict[str, Overlap] = {}
    for item in sorted(seen, key=lambda item_seen: (item_seen.first, item_seen.last, item_seen.object)):
        if item.partition is None or is_unnamed(item.partition) or item.kind != OFFSET_ONLY:
            continue
        place = place_of(item.key, config)
        mine = OffsetRange(item.partition, place.text, short(item.key), item.first, item.last)
        other = next((earlier for earlier in reversed(ranges_kept) if _disorders(place, mine, earlier)), None)
        if other is None:
            ranges_kept = [
                earlier for earlier in ranges_kept if (earlier.partition, earlier.key) != (mine.partition, mine.key)
            ]
            ranges_kept.append(mine)
            continue
        refused[item.object] = Overlap(
            f"Kafka partition {partition_text(mine.partition)} is split over folders: the object begins with offset "
            f"{mine.first} and has {mine.last - mine.first + 1:,} records, and {other.first} to {other.last} came in "
            "another folder. Its records' own offsets aren't known, and nothing else orders its changes",
            offsets=f"{mine.first}-{mine.last}",
            other=f"{other.first}-{other.last}",
            next_step="Let the connector write the log's position (add.fields), or name the column that orders changes "
            "in the rule's `position`, or those with a record's Kafka partition and offset in `coordinates`, and run "
            "`sluice rebuild table`; then `sluice quarantine retry --code overlap`",
        )
    return tuple(ranges_kept[-RANGES_KEPT:]), refused


def _disorders(place: Place, mine: OffsetRange, other: OffsetRange) -> bool:
    if mine.partition != other.partition or mine.key == other.key:
        return False
    return may_be_out_of_order((place, mine.first, mine.last), (other.folder, other.first, other.last))
