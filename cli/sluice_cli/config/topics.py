"""Looks at the topics that wait for a rule: what the ledger has parked of each, and a bounded sample of their objects.

Reads a few records of an object version within bounds: its first bytes only, and whole blocks or lines of those.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import fastavro

from sluice.admission.routing import AVRO, JSON
from sluice.config.limits import DEFAULTS
from sluice.errors import SluiceError
from sluice.ledger.keys import PARKED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.names import TOPIC
from sluice.objects import ObjectId
from sluice.onboarding.discovery import TopicSample
from sluice.onboarding.keys import SampledRow, sampled_row
from sluice.schema.avro import WriterSchema, read_writer_schema
from sluice_aws.admission.heads import read_head
from sluice_aws.s3.objects import Objects
from sluice_formats.avro import blocks_of, decompressed
from sluice_formats.avro_header import HEADER_SCHEMA, Head, parse_header
from sluice_formats.errors import CorruptObject
from sluice_formats.json_lines import records as json_records
from sluice_formats.json_schema import Inference, avro_form
from sluice_formats.json_text import unpacked_head

LOOKED_AT = 20_000  # parked objects; more are said to be more
ROWS = 2_000  # of one topic
KEYED = 2  # objects whose Kafka keys are looked for
THREADS = 8
_KEY_FORMATS = {".keys.avro": AVRO, ".keys.json": JSON}


@dataclass(frozen=True)
class Waiting:
    """Parked objects by topic, each oldest first; how many name no topic, and whether there are more than were looked at."""

    topics: Mapping[str, Sequence[ObjectRecord]]
    unnamed: int
    more: bool


@dataclass(frozen=True)
class _Read:
    record: ObjectRecord
    found: ObjectSample | None
    problem: str | None


def waiting_topics(ledger: Ledger) -> Waiting:
    """What is parked for want of a rule. Objects parked for another reason carry a code and aren't among these."""
    topics: dict[str, list[ObjectRecord]] = {}
    unnamed = 0
    found = iter(ledger.objects.in_state(PARKED))
    for record in islice(found, LOOKED_AT):
        if record.code is not None:
            continue
        if record.topic is None or not TOPIC.fullmatch(record.topic):
            unnamed += 1
        else:
            topics.setdefault(record.topic, []).append(record)
    more = next(found, None) is not None
    return Waiting({topic: sorted(topics[topic], key=_age) for topic in sorted(topics)}, unnamed, more)


def sample_topics(
    objects: Objects, waiting: Waiting, *, per_topic: int, said: Callable[[str], None]
) -> list[TopicSample]:
    """A sample of each topic: the oldest and newest of its objects and some between, the first MiB of each."""

    def one(topic: str) -> TopicSample:
        found = _sample(objects, topic, waiting.topics[topic], per_topic)
        said(topic)
        return found

    with ThreadPoolExecutor(THREADS, thread_name_prefix="discover") as pool:
        return list(pool.map(one, waiting.topics))


def spread(records: Sequence[ObjectRecord], count: int) -> list[ObjectRecord]:
    """At most `count` of them, the first and the last among them, the rest evenly between."""
    if len(records) <= count:
        return list(records)
    if count == 1:
        return [records[-1]]
    return [records[place * (len(records) - 1) // (count - 1)] for place in range(count)]


def _age(record: ObjectRecord) -> tuple[int, int, ObjectId]:
    return (record.admitted_at, record.offset or 0, record.id)


def _sample(objects: Objects, topic: str, records: Sequence[ObjectRecord], per_topic: int) -> TopicSample:
    chosen = spread(records, per_topic)
    read = [_read(objects, record, max(1, ROWS // len(chosen))) for record in chosen]
    problems = tuple(dict.fromkeys(each.problem for each in read if each.problem))
    sound = [each for each in read if each.found is not None]
    writer, rows, inferred, trouble = _understood([each.found for each in sound if each.found is not None])
    fields, file = _keys(objects, [each.record for each in sound][-KEYED:])
    return TopicSample(
        topic,
        len(records),
        sum(record.size for record in records),
        len(sound),
        tuple(sorted({record.format or "" for record in records})),
        writer,
        len({record.schema for record in records if record.schema}) or 1,
        inferred,
        fields,
        file,
        rows,
        all(record.offset is not None for record in records),
        problems + trouble,
    )


def _read(objects: Objects, record: ObjectRecord, rows: int) -> _Read:
    try:
        found = sample_object(objects, record.id, record.format or AVRO, rows)
    except SluiceError as error:
        return _Read(record, None, f"{error.code}: {error.message}")
    return _Read(record, found, found.problem)


def _understood(
    samples: Sequence[ObjectSample],
) -> tuple[WriterSchema | None, tuple[SampledRow, ...], bool, tuple[str, ...]]:
    """The newest writer schema, the rows, whether the schema was inferred, and what is wrong with schemas."""
    problems: dict[str, None] = {}
    rows: list[SampledRow] = []
    newest: WriterSchema | None = None
    bare = [record for sample in samples if sample.schema is None for record in sample.records]
    inferred = _tried(lambda: _inferred(bare), problems) if bare else None
    for sample in samples:
        schema = sample.schema
        writer = (
            inferred if schema is None else _tried(lambda written=schema: read_writer_schema(_avro(written)), problems)
        )
        if writer is None:
            continue
        newest = writer
        rows += [row for row in (sampled_row(record, writer) for record in sample.records) if row is not None]
    return newest, tuple(rows), newest is not None and newest is inferred, tuple(problems)


def _avro(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Connect's own form of a schema has a `type` of struct."""
    return avro_form(schema) if schema.get("type") == "struct" else schema


def _inferred(records: Sequence[Mapping[str, Any]]) -> WriterSchema:
    inference = Inference({}, frozenset())
    for record in records:
        inference.add(record)
    return read_writer_schema(inference.schema())


def _tried(make: Callable[[], WriterSchema], problems: dict[str, None]) -> WriterSchema | None:
    try:
        return make()
    except SluiceError as error:
        problems[f"{error.code}: {error.message}"] = None
        return None


def _keys(objects: Objects, records: Sequence[ObjectRecord]) -> tuple[tuple[str, ...] | None, str | None]:
    """The fields of the Kafka keys beside the newest of these objects that has some, and the file's name."""
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


READ_BYTES = 1024 * 1024
BLOCK_BYTES = 16 * 1024**2  # of a block once decompressed
KEY_BYTES = 256 * 1024


@dataclass(frozen=True)
class ObjectSample:
    """What the first bytes of an object hold: the writer schema in Avro form (None where records carry none), and records as plain values.

    `problem` says why no more was read, where something was wrong.
    """

    schema: Mapping[str, Any] | None
    records: tuple[dict[str, Any], ...]
    problem: str | None = None


def sample_object(objects: Objects, id: ObjectId, format: str, rows: int) -> ObjectSample:
    """Up to `rows` records of the first MiB of one version. Of Parquet the schema alone, which its end tells.

    Raises SluiceErrors as reading a head does; what is damaged behind the head is the sample's `problem`.
    """
    if format == JSON:
        return _json(objects.head_bytes(id, READ_BYTES), rows)
    if format == AVRO:
        return sample_avro(objects.head_bytes(id, READ_BYTES), rows)
    return ObjectSample(
        read_head(objects, id, format).schema, (), "rows of Parquet objects aren't sampled: only their schema is known"
    )


def sample_avro(head: Head, rows: int) -> ObjectSample:
    """Records of the blocks that are whole in `head`."""
    header = parse_header(head)
    source = io.BytesIO(head.data)
    meta: Any = fastavro.schemaless_reader(source, HEADER_SCHEMA, None)
    schema = fastavro.parse_schema(_bare(header.schema))
    found: list[dict[str, Any]] = []
    problem = None
    try:
        for block in blocks_of(head.data, source.tell(), meta["sync"]):
            plain = io.BytesIO(decompressed(block, header.codec, BLOCK_BYTES))
            for _ in range(min(block.records, rows - len(found))):
                record: Any = fastavro.schemaless_reader(plain, schema, None, handle_unicode_errors="replace")
                found.append(record)
            if len(found) >= rows:
                break
    except CorruptObject as error:
        if head.whole:  # else the head simply ends inside a block
            problem = str(error)
    except SluiceError as error:
        problem = str(error)
    except (
        EOFError,
        IndexError,
        ValueError,
        OverflowError,
        TypeError,
    ) as error:  # what a decoder makes of damaged bytes
        problem = f"a record can't be decoded: {error!r}"[:200]
    return ObjectSample(header.schema, tuple(found), problem)


def _json(head: Head, rows: int) -> ObjectSample:
    text = unpacked_head(head.data, READ_BYTES)
    if not head.whole or len(text) >= READ_BYTES:
        text = text[: text.rfind(b"\n") + 1]
    schema: Mapping[str, Any] | None = None
    found: list[dict[str, Any]] = []
    problem = None
    for line in json_records(text):
        if isinstance(line.value, SluiceError):
            problem = str(line.value)
            continue
        schema = line.schema if line.schema is not None else schema
        found.append(line.value)
        if len(found) >= rows:
            break
    return ObjectSample(schema, tuple(found), problem)


def key_fields(objects: Objects, id: ObjectId, format: str) -> tuple[str, ...] | None:
    """The fields of the Kafka keys that an object of keys holds; None when they are no records, or can't be read.

    `format` is the values' one, which the sink's keys may share.
    """
    head = objects.head_bytes(id, KEY_BYTES)
    try:
        if format == AVRO:
            schema = parse_header(head, DEFAULTS).schema
            fields = schema.get("fields") if isinstance(schema, dict) else None
            return tuple(str(field["name"]) for field in fields) if fields else None
        line = unpacked_head(head.data, KEY_BYTES).lstrip().partition(b"\n")[0]
        value = json.loads(line)
    except (SluiceError, ValueError, KeyError, TypeError, RecursionError):
        return None
    value = value.get("payload", value) if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
    return tuple(map(str, value)) if isinstance(value, dict) and value else None


def _bare(node: Any) -> Any:
    """A schema without logical types: years beyond 9999 and decimals are no values of Python's then, and needn't be."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _bare(value) for key, value in node.items() if key not in ("logicalType", "default")}
