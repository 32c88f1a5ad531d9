"""Samples the topics that wait for a rule: a few of their parked objects, and the first records of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from sluice.admission.layouts import Layout, layout_of, needs_format
from sluice.admission.routing import AVRO, CHANGE_FILE, CSV, JSON
from sluice.batch.claim import PendingObject
from sluice.config.csv_form import CsvForm
from sluice.config.document import Configuration
from sluice.errors import SluiceError
from sluice.ledger.keys import PARKED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.names import TOPIC
from sluice.objects import ObjectId
from sluice.onboarding.samples import SampledRow, TopicSample, sampled_row
from sluice.schema.avro import WriterSchema, read_writer_schema
from sluice.schema.connect import avro_form
from sluice_aws.admission.reassign import renamed
from sluice_aws.s3.objects import Objects
from sluice_cli.config.object_samples import KEY_BYTES, READ_BYTES, ObjectSample, key_fields, sample_object
from sluice_formats.json_schema import Inference
from sluice_formats.json_text import unpacked_head

LOOKED_AT = 20_000  # parked objects
ROWS = 2_000  # of one topic
KEYED = 2  # objects of a topic whose Kafka keys are searched
THREADS = 8
_Schema = TypeVar("_Schema")
WaitingObject = ObjectRecord | PendingObject
_KEY_FORMATS = {".keys.avro": AVRO, ".keys.json": JSON}


@dataclass(frozen=True)
class Waiting:
    """Parked objects by topic, oldest first. `unnamed` have no topic; `more` were left unread beyond LOOKED_AT.

    `layouts` has the topics that only a `key_pattern` tells.
    """

    topics: Mapping[str, Sequence[ObjectRecord]]
    unnamed: int
    more: bool
    layouts: Mapping[str, Layout] = field(default_factory=dict)


@dataclass(frozen=True)
class Reach:
    """How much of a topic is read at most: objects, rows of all of them, and bytes from the start of each."""

    objects: int
    rows: int = ROWS
    object_bytes: int = READ_BYTES


@dataclass(frozen=True)
class _Read:
    record: WaitingObject
    found: ObjectSample | None
    problem: str | None


def waiting_topics(ledger: Ledger, configuration: Configuration | None = None) -> Waiting:
    """Return what is parked for want of a rule, by the topics that names and the rules of `configuration` tell.

    Objects parked for another reason carry a code, and are left out.
    """
    topics: dict[str, list[ObjectRecord]] = {}
    unnamed = 0
    found = iter(ledger.objects.in_state(PARKED))
    for record in islice(found, LOOKED_AT):
        if record.code is not None:
            continue
        record = record if configuration is None else renamed(record, configuration)
        if record.topic is None or not TOPIC.fullmatch(record.topic):
            unnamed += 1
        else:
            topics.setdefault(record.topic, []).append(record)
    more = next(found, None) is not None
    return Waiting({topic: sorted(topics[topic], key=_age) for topic in sorted(topics)}, unnamed, more)


def with_layouts(waiting: Waiting, ledger: Ledger, objects: Objects) -> Waiting:
    """Add the topics of objects whose names tell none, by the layouts of their keys, where one is recognized.

    Where no extension tells the format, the first object's bytes do.
    """
    layouts: dict[str, Layout] = {}
    found: dict[str, list[ObjectRecord]] = {}
    for record in islice(ledger.objects.in_state(PARKED), LOOKED_AT):
        layout = layout_of(record.id.key) if record.code is None and record.topic is None else None
        if layout is None or layout.topic in waiting.topics:
            continue
        if layout.topic not in layouts and needs_format(layout, record.id.key):
            layout = replace(layout, format=_format_of(objects, record.id))
        known = layouts.setdefault(layout.topic, layout)
        route = known.route(record.id.key, record.size)
        if route.kind == CHANGE_FILE:
            found.setdefault(known.topic, []).append(
                replace(
                    record,
                    topic=route.topic,
                    kafka_partition=route.kafka_partition,
                    offset=route.offset,
                    format=route.format,
                )
            )
    return Waiting(
        {**waiting.topics, **{topic: sorted(found[topic], key=_age) for topic in sorted(found)}},
        waiting.unnamed - sum(map(len, found.values())),
        waiting.more,
        {topic: layouts[topic] for topic in found},
    )


def _format_of(objects: Objects, id: ObjectId) -> str | None:
    """The format of an object by its first bytes: Avro or JSON, plain or gzipped; None for any other."""
    try:
        head = unpacked_head(objects.head_bytes(id, KEY_BYTES).data, 64).lstrip()
    except SluiceError:
        return None
    return AVRO if head.startswith(b"Obj\x01") else JSON if head.startswith(b"{") else None


def sample_topics(
    objects: Objects, waiting: Waiting, *, per_topic: int, said: Callable[[str], None]
) -> list[TopicSample]:
    """Sample each topic: the first MiB of its oldest and newest objects and of some between."""

    def one(topic: str) -> TopicSample:
        found = sample_topic(objects, topic, waiting.topics[topic], Reach(per_topic))
        layout = waiting.layouts.get(topic)
        if layout is not None:
            found = replace(found, layout=layout.writer, key_pattern=layout.key_pattern, format=layout.format)
        said(topic)
        return found

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
    objects: Objects, topic: str, records: Sequence[WaitingObject], reach: Reach, csv: CsvForm | None = None
) -> TopicSample:
    """Sample a topic's objects within `reach`. What can't be read is among the sample's problems."""
    read = _read(objects, spread(records, reach.objects), reach, csv)
    problems = tuple(dict.fromkeys(each.problem for each in read if each.problem))
    sound = [each for each in read if each.found is not None]
    samples = [each.found for each in sound if each.found is not None]
    writer, rows, inferred, trouble = _understood(samples)
    fields, file = _keys(objects, [each.record for each in sound][-KEYED:])
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
        problems + trouble,
        partly=sum(not sample.whole for sample in samples),
    )


def _read(objects: Objects, chosen: Sequence[WaitingObject], reach: Reach, csv: CsvForm | None) -> list[_Read]:
    """Read objects, the smallest first: what these leave of their share of the rows goes to the others."""
    found: dict[int, _Read] = {}
    left = reach.rows
    for place in sorted(range(len(chosen)), key=lambda place: chosen[place].size):
        share = max(1, left // (len(chosen) - len(found)))
        record, sample, problem = chosen[place], None, None
        try:
            sample = sample_object(objects, record.id, record.format or AVRO, share, reach.object_bytes, csv)
            left -= len(sample.records)
            problem = sample.problem
        except SluiceError as error:
            problem = f"{error.code}: {error.message}"
        found[place] = _Read(record, sample, problem)
    return [found[place] for place in range(len(chosen))]


def _understood(
    samples: Sequence[ObjectSample],
) -> tuple[WriterSchema | None, tuple[SampledRow, ...], bool, tuple[str, ...]]:
    """Return the newest writer schema, the rows, whether the schema is inferred, and the problems with schemas."""
    problems: dict[str, None] = {}
    rows: list[SampledRow] = []
    newest: WriterSchema | None = None
    bare = [record for sample in samples if sample.schema is None for record in sample.records]
    inferred = _tried(_inferred, bare, problems) if bare else None
    for number, sample in enumerate(samples):
        writer = inferred if sample.schema is None else _tried(_written, sample.schema, problems)
        if writer is None:
            continue
        newest = writer
        found = (sampled_row(record, writer) for record in sample.records)
        rows += [row if any(row.place) else replace(row, place=(number,)) for row in found if row is not None]
    return newest, tuple(rows), newest is not None and newest is inferred, tuple(problems)


def _written(schema: Mapping[str, Any]) -> WriterSchema:
    """Read a schema in Avro form, or in Connect's own form, whose type is `struct`."""
    return read_writer_schema(avro_form(schema) if schema.get("type") == "struct" else schema)


def _inferred(records: Sequence[Mapping[str, Any]]) -> WriterSchema:
    inference = Inference({}, frozenset())
    for record in records:
        inference.add(record)
    return read_writer_schema(inference.schema())


def _tried(read: Callable[[_Schema], WriterSchema], written: _Schema, problems: dict[str, None]) -> WriterSchema | None:
    try:
        return read(written)
    except SluiceError as error:
        problems[f"{error.code}: {error.message}"] = None
        return None


def _keys(objects: Objects, records: Sequence[WaitingObject]) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the fields of the Kafka keys beside the newest object that has keys, and the name of their file."""
    for record in reversed(records):
        stem = record.id.key.rpartition(".")[0]
        for version in objects.version_page(record.id.bucket, prefix=f"{stem}.keys.", page_size=4).versions:
            format = _KEY_FORMATS.get(version.key[len(stem) :])
            if format is None:
                continue
            fields = key_fields(objects, ObjectId(version.bucket, version.key, version.version_id), format)
            if fields:
                return fields, version.key.rpartition("/")[2]
    return None, None
