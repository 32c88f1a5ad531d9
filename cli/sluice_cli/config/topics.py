"""Samples the topics that wait for a rule: a few of their parked objects, and the first records of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from sluice.admission.layouts import Layout, layout_of, needs_format
from sluice.admission.routing import AVRO, CHANGE_FILE, CSV, classify
from sluice.batch.claim import PendingObject
from sluice.batch.orders import split_by
from sluice.changes.dialects.nested import Reading
from sluice.changes.dialects.registry import translator
from sluice.config.csv_form import CsvForm
from sluice.config.document import Configuration
from sluice.config.key_pattern import folder_values
from sluice.errors import SluiceError, UnusableSchema
from sluice.ledger.keys import PARKED
from sluice.ledger.records import ObjectRecord
from sluice.names import TOPIC, TOPIC_REFUSED, counted
from sluice.objects import ObjectId
from sluice.onboarding.samples import SampledRow, TopicSample, sampled_row
from sluice.schema.avro import WriterForm, WriterSchema, read_writer_schema
from sluice.schema.columns import STRING, RowSchema, plain_column
from sluice.schema.connect import avro_form
from sluice.schema.table_row import with_path_columns
from sluice_aws.admission.reassign import left_out, renamed
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_cli.config.object_samples import READ_BYTES, format_of, kafka_key_of, sample_object
from sluice_formats.errors import CsvWithoutHeader
from sluice_formats.json.schema import Inference
from sluice_formats.samples import ObjectSample

LOOKED_AT = 20_000  # parked objects
ROWS = 2_000  # of one topic
OBJECTS, SMALL_OBJECTS, SMALL = 20, 100, 16 * 1024  # read of one topic: objects, or more of those of few bytes
KEYED = 2  # objects of a topic whose Kafka keys are searched
THREADS = 8
# Why no rule is proposed for an object.
NO_TOPIC = "the key has no folder whose name can be a topic's"
NO_FORMAT = "neither the extension nor the first bytes tell a format that Sluice reads"
# What else makes CSV without a header readable than writing one.
NO_HEADER = "`csv: {columns: [...]}` in the rule names the columns in their order"
ANOTHER_LAYOUT = "another folder or layout gives the same topic"
_Schema = TypeVar("_Schema")
WaitingObject = ObjectRecord | PendingObject


@dataclass(frozen=True)
class Waiting:
    """Parked objects by topic, oldest first. `unnamed` have no topic; `more` were left unread beyond LOOKED_AT.

    `layouts` has the topics that only a `key_pattern` tells. `reasons` has why no rule is proposed for what stays
    unnamed, with the keys of each reason; `nested` the topics whose keys the pattern of another one fits too.
    """

    topics: Mapping[str, Sequence[ObjectRecord]]
    unnamed: Sequence[ObjectRecord]
    more: bool
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    reasons: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nested: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reach:
    """How much of a topic is read at most: objects, rows of all of them, and bytes from the start of each."""

    objects: int
    rows: int = ROWS
    object_bytes: int = READ_BYTES


def waiting_topics(ledger: Ledger, configuration: Configuration | None = None) -> Waiting:
    """Return what is parked for want of a rule, by the topics that names and the rules of `configuration` tell.

    Objects parked for another reason carry a code, and are left out.
    """
    topics: dict[str, list[ObjectRecord]] = {}
    unnamed: list[ObjectRecord] = []
    records = iter(ledger.objects.in_state(PARKED))
    for record in islice(records, LOOKED_AT):
        if record.code is not None or left_out(record, configuration) is not None:
            continue
        record = record if configuration is None else renamed(record, configuration)
        if record.topic is None or not TOPIC.fullmatch(record.topic):
            unnamed.append(record)
        else:
            topics.setdefault(record.topic, []).append(record)
    more = next(records, None) is not None
    return Waiting({topic: sorted(topics[topic], key=_age) for topic in sorted(topics)}, unnamed, more)


def with_layouts(waiting: Waiting, objects: Objects) -> Waiting:
    """Add the topics of objects whose names tell none, by the layouts of their keys, where one is recognized.

    Where no extension tells the format, the first object's bytes do. A pattern that would also take objects whose
    names tell a topic is not proposed. A pattern that fits the keys of another one comes after it, since the first
    rule that matches counts.
    """
    layouts: dict[str, Layout] = {}
    records_of: dict[str, list[ObjectRecord]] = {}
    reasons: dict[str, list[str]] = {}
    named_keys = _Keys((record.id.key, topic) for topic, records in waiting.topics.items() for record in records)
    for record in waiting.unnamed:
        key = record.id.key
        layout = layout_of(key) if record.topic is None else None
        if layout is None:
            reasons.setdefault(NO_TOPIC if record.topic is None else TOPIC_REFUSED, []).append(key)
            continue
        if layout.topic not in layouts and needs_format(layout, key):
            layout = replace(layout, format=format_of(objects, record.id))
        first_layout = layouts.setdefault(layout.topic, layout)
        route = first_layout.route(key, record.size)
        if route.kind != CHANGE_FILE:
            reasons.setdefault(NO_FORMAT if first_layout.fits(key) else ANOTHER_LAYOUT, []).append(key)
            continue
        if layout.topic in waiting.topics and next(named_keys.fitting(first_layout), None) is None:
            same = f"other objects' names tell the topic {layout.topic} too: a `key_pattern` in its rule takes these"
            reasons.setdefault(same, []).append(key)
            continue
        records_of.setdefault(first_layout.topic, []).append(
            replace(record, **{name: getattr(route, name) for name in ("topic", "kafka_partition", "offset", "format")})
        )
    bucket = waiting.unnamed[0].id.bucket if waiting.unnamed else ""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="layouts") as pool:
        beside = pool.map(lambda topic: _named_beside(layouts[topic], named_keys, bucket, objects), list(records_of))
        for topic, other_topic in zip(list(records_of), beside, strict=True):
            if other_topic is not None:
                keys = [record.id.key for record in records_of.pop(topic)]
                reason = f"a pattern for its folder would also take the objects of topic {other_topic}"
                reasons.setdefault(reason, []).extend(keys)
    ordered = sorted(records_of, key=lambda topic: (-len(layouts[topic].key_pattern), topic))
    found_keys = _Keys((record.id.key, topic) for topic, records in records_of.items() for record in records)
    left = {key for keys in reasons.values() for key in keys}
    return Waiting(
        {**waiting.topics, **{topic: sorted(records_of[topic], key=_age) for topic in ordered}},
        [record for record in waiting.unnamed if record.id.key in left],
        waiting.more,
        {topic: layouts[topic] for topic in ordered},
        reasons,
        {topic: sorted({*found_keys.fitting(layouts[topic])} - {topic}) for topic in ordered},
    )


class _Keys:
    """Keys with their topics, searched by what they begin with."""

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        self._keys = sorted(keys)

    def fitting(self, layout: Layout) -> Iterator[str]:
        """The topics of the keys that a layout's pattern fits."""
        for at in range(bisect_left(self._keys, (layout.start, "")), len(self._keys)):
            key, topic = self._keys[at]
            if not key.startswith(layout.start):
                return
            if layout.fits(key):
                yield topic


def _named_beside(layout: Layout, other_keys: _Keys, bucket: str, objects: Objects) -> str | None:
    """A topic that the names of objects tell whose keys the layout's pattern fits too; None where there is none."""
    topic = next(other_keys.fitting(layout), None)
    if topic is not None:
        return topic
    # Objects that a rule in force takes don't wait.
    for version in objects.version_page(bucket, prefix=layout.start).versions:
        route = classify(version.key, version.size)
        if route.kind == CHANGE_FILE and layout.fits(version.key):
            return route.topic
    return None


def sample_topics(
    objects: Objects, waiting: Waiting, *, per_topic: int | None, said: Callable[[str], None]
) -> list[TopicSample]:
    """Sample each topic: the first MiB of its oldest and newest objects and of some between.

    Without `per_topic`, objects of a change or two are read in larger numbers: a few of their rows show no key.
    """

    def one(topic: str) -> TopicSample:
        records = waiting.topics[topic]
        small = sum(record.size for record in records) <= SMALL * len(records)
        reach = Reach(per_topic or (SMALL_OBJECTS if small else OBJECTS))
        sample = sample_topic(objects, topic, records, reach)
        layout = waiting.layouts.get(topic)
        if layout is not None:
            sample = replace(
                sample,
                layout=layout.writer,
                key_pattern=layout.key_pattern,
                format=layout.format,
                nested=tuple(waiting.nested.get(topic, ())),
            )
        said(topic)
        return sample

    with ThreadPoolExecutor(THREADS, thread_name_prefix="discover") as pool:
        return list(pool.map(one, waiting.topics))


def spread(records: Sequence[WaitingObject], count: int) -> list[WaitingObject]:
    """Return at most `count` records: the first, the last, and others evenly between."""
    if len(records) <= count:
        return list(records)
    if count == 1:
        return [records[-1]]
    return [records[place * (len(records) - 1) // (count - 1)] for place in range(count)]


def _age(record: ObjectRecord) -> tuple[int, int, ObjectId]:
    return (record.admitted_at, record.offset or 0, record.id)


def sample_topic(
    objects: Objects,
    topic: str,
    records: Sequence[WaitingObject],
    reach: Reach,
    csv: CsvForm | None = None,
    form: WriterForm = None,
) -> TopicSample:
    """Sample a topic's objects within `reach`. `csv` and `form` are a rule's.

    What can't be read is among the sample's problems.
    """
    read = _read(objects, spread(records, reach.objects), reach, csv, form)
    problems: dict[str, list[str]] = {}
    for record, _, problem in read:
        if problem:
            problems.setdefault(problem, []).append(record.id.key)
    sound = [record for record, sample, _ in read if sample is not None]
    samples = [(record.id.key, sample) for record, sample, _ in read if sample is not None]
    writer, rows, inferred, lacked = _understood(
        samples, problems, not any(record.offset is not None for record in records), form
    )
    folders = path_columns_of(writer, records)
    if writer is not None and folders:
        added = tuple(plain_column(name, STRING, True, "folder") for name in folders)
        writer = replace(writer, row=with_path_columns(writer.row, added))
    fields, file = kafka_key_of(objects, sound[-KEYED:])
    dialects = {sample.dialect for _, sample in samples}
    return TopicSample(
        topic,
        len(records),
        sum(record.size for record in records),
        len(sound),
        tuple(sorted({record.format or "" for record in records})),
        writer,
        len({record.schema for record in records if record.schema}) or 1,
        inferred or {record.format for record in records} == {CSV},  # its columns are nullable for want of types
        fields,
        file,
        rows,
        all(record.offset is not None for record in records),
        tuple(f"{problem}{_where(keys)}" for problem, keys in problems.items()),
        partly=sum(not sample.whole for _, sample in samples),
        delimiter=next((sample.delimiter for _, sample in samples if sample.delimiter is not None), None),
        lacked=lacked,
        path_columns=folders,
        dialect=dialects.pop() if len(dialects) == 1 else None,
        split_by=split_by((record.id.key, record.kafka_partition) for record in records if record.offset is not None),
    )


def _read(
    objects: Objects, chosen: Sequence[WaitingObject], reach: Reach, csv: CsvForm | None, form: WriterForm
) -> list[tuple[WaitingObject, ObjectSample | None, str | None]]:
    """Read objects, the smallest first: what these leave of their share of the rows goes to the others.

    Returns each object with its sample, and what is wrong with it.
    """
    looks: dict[int, tuple[WaitingObject, ObjectSample | None, str | None]] = {}
    left = reach.rows
    dialect = None if isinstance(form, str) else form
    for place in sorted(range(len(chosen)), key=lambda place: chosen[place].size):
        share = max(1, left // (len(chosen) - len(looks)))
        record, sample, problem = chosen[place], None, None
        try:
            sample = sample_object(objects, record.id, record.format or AVRO, share, reach.object_bytes, csv, dialect)
            left -= len(sample.records)
            problem = sample.problem
        except SluiceError as error:
            problem = f"{error.code}: {error.message}"
            if isinstance(error, CsvWithoutHeader):
                problem += f": {NO_HEADER}"
        looks[place] = record, sample, problem
    return [looks[place] for place in range(len(chosen))]


def _understood(
    samples: Sequence[tuple[str, ObjectSample]], problems: dict[str, list[str]], by_folders: bool, form: WriterForm
) -> tuple[WriterSchema | None, tuple[SampledRow, ...], bool, frozenset[str]]:
    """Return the writer schema of samples by key, the rows, whether the schema is inferred, and columns that some lack.

    The schema is the newest one, with the columns that only others have: a full load of AWS DMS lacks those of its
    changes, and may be admitted after them. With `by_folders` rows have the values of their keys' folders too. Adds the
    problems with schemas to `problems`, with the keys of each.
    """
    rows: list[SampledRow] = []
    newest: WriterSchema | None = None
    writers = []
    bare = [record for _, sample in samples if sample.schema is None for record in sample.records]
    inferred = _tried(_inferred, bare, form, problems) if bare else None
    for number, (key, sample) in enumerate(samples):
        writer = inferred if sample.schema is None else _tried(_written, sample.schema, form, problems, key)
        if writer is None:
            continue
        writers.append(writer)
        newest = writer if newest is None else _with_columns(writer, newest)
        records = sample.records if writer.typed is None else _translated(sample.records, form)
        sampled = (sampled_row(record, writer) for record in records)
        places = (row if any(row.place) else replace(row, place=(number,)) for row in sampled if row is not None)
        rows += [replace(row, values={**folder_values(key), **row.values}) if by_folders else row for row in places]
    names = {name for schema in writers for name in schema.row.names}
    lacked = frozenset(name for name in names if not all(name in schema.row.names for schema in writers))
    return newest, tuple(rows), newest is not None and writers[-1] is inferred, lacked


def _translated(records: Sequence[dict[str, Any]], form: WriterForm) -> Iterator[dict[str, Any]]:
    """The changes in records with types of a rule's dialect, without those that aren't sound."""
    for record in records:
        try:
            yield from translator(form, (), Reading())(record)
        except UnusableSchema:
            continue


def path_columns_of(writer: WriterSchema | None, records: Sequence[WaitingObject]) -> tuple[str, ...]:
    """The columns that the folders of rows' objects name and the rows lack: Hive's, not those of a Kafka sink."""
    if writer is None or writer.of_changes or any(record.offset is not None for record in records):
        return ()
    values = [folder_values(record.id.key) for record in records]
    return tuple(name for name in (values[0] if values else ()) if writer.row.column(name) is None)


def _with_columns(writer: WriterSchema, others: WriterSchema) -> WriterSchema:
    """A schema with the columns of another one of the same shape that it lacks. Rows may lack these."""
    lacked = [replace(column, nullable=True) for column in others.row.columns if column.name not in writer.row.names]
    if not lacked or writer.shape != others.shape:
        return writer
    return replace(writer, row=RowSchema((*writer.row.columns, *lacked)))


def _where(keys: Sequence[str]) -> str:
    """The end of a problem: the object that has it, or one of those that have it."""
    if not keys:
        return ""
    others = f" and {counted(len(keys) - 1, 'other object')}" if keys[1:] else ""
    return f" (in {keys[0]}{others})"


def _written(schema: Mapping[str, Any], form: WriterForm) -> WriterSchema:
    """Read a schema in Avro form, or in Connect's own form, whose type is `struct`."""
    return read_writer_schema(avro_form(schema) if schema.get("type") == "struct" else schema, form)


def _inferred(records: Sequence[Mapping[str, Any]], form: WriterForm) -> WriterSchema:
    inference = Inference({}, frozenset(), form if isinstance(form, str) else None)
    for record in records:
        inference.add(record)
    return read_writer_schema(inference.schema(), form)


def _tried(
    read: Callable[[_Schema, WriterForm], WriterSchema],
    written: _Schema,
    form: WriterForm,
    problems: dict[str, list[str]],
    key: str | None = None,
) -> WriterSchema | None:
    try:
        return read(written, form)
    except SluiceError as error:
        problems.setdefault(f"{error.code}: {error.message}", []).extend([key] if key is not None else [])
        return None
