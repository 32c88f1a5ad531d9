"""Decodes one object of any format into Arrow batches, and finds its place in Kafka and in its source's log."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.admission.routing import AVRO, CSV, JSON, LAST, MARKER, PARQUET, classify, first_offset
from sluice.batch.manifest import ManifestObject
from sluice.batch.row_errors import RowError, row_error
from sluice.changes import hidden_columns as hidden
from sluice.changes.dialects.nested import Reading, TypedForm
from sluice.changes.dialects.registry import text_field, translator
from sluice.changes.log_restart import SeenObject
from sluice.changes.position import ARRIVAL, MYSQL, NAMED, OFFSET_ONLY, binlog_base, encode_floor, place_of_object
from sluice.config.document import KeyMatch
from sluice.config.key_pattern import KeyName, named_by
from sluice.config.limits import Limits
from sluice.config.placeholders import placeholders
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice.config.values import source_column
from sluice.errors import ExpansionLimit, Incompatible, OtherSourceTable, SluiceError, Unordered, UnusableSchema
from sluice.names import stored_name
from sluice.schema.avro import WriterForm, WriterSchema
from sluice.schema.concealment import Concealment, ruled, without_values
from sluice.schema.made_columns import with_source_columns, with_source_values
from sluice.schema.table_row import with_path_columns
from sluice_formats.arrow_batches import position_of, record_batch, truncate_batch
from sluice_formats.avro import avro_records
from sluice_formats.captures.texts import lines_of_texts
from sluice_formats.captures.unmarked import UnmarkedDeletions
from sluice_formats.checks.deletion_keys import keyless_set_aside, with_former_rows
from sluice_formats.checks.expectations import failure_counts
from sluice_formats.csv_records import csv_records, path_values
from sluice_formats.csv_text import csv_schema
from sluice_formats.errors import NoHashKey, UndecodableValue, UnreadableObject, UnsupportedFormat
from sluice_formats.json.records import json_records, json_schemas, source_tables
from sluice_formats.json.text import parse
from sluice_formats.parquet_records import parquet_records
from sluice_formats.records import BadRow, BrokenRecord, Chunk, ReaderPlan, Record, Records, sound_batch

_READERS: dict[str, Callable[[bytes, ManifestObject, ReaderPlan], Records]] = {
    AVRO: lambda body, item, plan: avro_records(body, plan.limits, plan.form),
    PARQUET: lambda body, item, plan: parquet_records(body, plan.limits, plan.form),
    MARKER: lambda body, item, plan: Records(lambda: 0, iter(())),
    CSV: lambda body, item, plan: csv_records(body, plan.inferred.get(item.id.hash), plan.csv, plan.limits, plan.form),
    JSON: lambda body, item, plan: json_records(
        body,
        plan.inferred.get(item.id.hash),
        plan.limits,
        plan.form,
        translator(plan.dialect, plan.known_dialects, _reading(_key_of(plan), plan.rules, item.key)),
    ),
}


def _key_of(table: TableConfig | ReaderPlan) -> tuple[str, ...]:
    return () if table.append_only else table.record_key


def _reading(key: tuple[str, ...], rules: ColumnRules, object_key: str) -> Reading:
    """What a dialect is told for a table with a record key, under its rules for columns."""
    return Reading(key, lambda name: rules.table_name(stored_name(name)) in key, parse, object_key)


def is_scanned(format: str, form: WriterForm) -> bool:
    """Whether an object's schemas follow from all of its records: these carry several or none, or rows as text."""
    return format in (JSON, CSV) or text_field(form, format) is not None


def schemas_of(body: bytes, format: str, config: TableConfig) -> tuple[list[dict[str, Any]], bool]:
    """The schemas of a scanned object's records in Avro form, and whether records carry none of their own.

    Raises what `json_schemas` and `csv_schema` raise.
    """
    try:
        lines = lines_of_texts(body, format, config.dialect, config.csv, config.limits)
        if format == CSV and lines is None:
            return [csv_schema(body, config)], True
        body = body if lines is None else lines
        reading = _reading(_key_of(config), config.columns, "")
        translate = translator(config.dialect, config.known_dialects, reading)
        try:
            return json_schemas(
                body, config.json_types, config.limits, config.unavailable_value, config.shape, translate
            )
        except Incompatible:
            found = [] if config.several_topics else source_tables(body, config.limits, translate)
            if len(found) < 2:
                raise
            error = f"The object has changes of the source tables {found[0]} and {found[1]}, of different types"
            raise OtherSourceTable(error, found=found[1], held=found[0]) from None
    except SluiceError as error:
        if config.columns.conceals:
            raise without_values(error) from None
        raise


T = TypeVar("T")
# Not the object's fault, or an error that names it already: raised as it is.
_NOT_THE_OBJECTS = (SluiceError, MemoryError, ImportError, OSError)


def read_or_refused(read: Callable[[], T]) -> T:
    """The result of `read` on an object's bytes. Raises UnreadableObject for any error that has no class of its own.

    Otherwise the same bytes would fail their task at every attempt, and all objects of the task with it.
    """
    try:
        return read()
    except _NOT_THE_OBJECTS:
        raise
    except Exception as error:
        raise UnreadableObject("The object can't be read", cause=repr(error)[:500]) from error


@dataclass(frozen=True)
class Decoded:
    """One object's records: Arrow batches of those that can be merged, in order, and the others with their reasons.

    `seen` is the object's place in Kafka and in its source's log.
    """

    batches: list[pa.RecordBatch]
    rows: list[RowError]
    seen: SeenObject


def decode(body: bytes, item: ManifestObject, plan: ReaderPlan) -> Decoded:
    """Decode every record. Raises a SluiceError, the same at every attempt, if the object can't be read to its end.

    A record that can't be merged is set aside alone, up to the plan's limit of such rows.
    """
    try:
        return read_or_refused(lambda: _decoded(body, item, plan))
    except SluiceError as error:
        if plan.rules.conceals:
            raise without_values(error) from None
        raise


def _decoded(body: bytes, item: ManifestObject, plan: ReaderPlan) -> Decoded:
    lines = lines_of_texts(body, item.format, plan.dialect, plan.csv, plan.limits)
    reader = _READERS.get(item.format if lines is None else JSON)
    if reader is None:
        raise UnsupportedFormat(f"The object is {item.format}", format=item.format)
    records = reader(body if lines is None else lines, item, plan)
    name = None if plan.key_pattern is None else named_by(plan.key_pattern, item.key)
    begins_at = _first_offset(item, records, name)
    offset = begins_at or 0
    order = None if name is None else name.order
    place = _place(item, begins_at, order, plan)
    words = tuple(word for word in LOG_WORDS if source_column(word) in plan.record_key)
    view = ObjectView(item, begins_at, None if place is None else ARRIVAL if order is None else NAMED, words)
    operations = UnmarkedDeletions(plan)
    folders = path_values(item.key, plan.path_columns) if plan.path_columns else None
    batches: list[pa.RecordBatch] = []
    rows: list[RowError] = []
    unexpected: Counter[str] = Counter()
    first = decoded_bytes = kafka_records = 0
    began = time.thread_time()
    for chunk in records.chunks:
        if chunk.writer.typed is not None:
            chunk = _translated(chunk, chunk.writer.typed, plan, item.key, kafka_records)
        operations.take(chunk.records, chunk.writer)
        chunk = with_former_rows(chunk, kafka_records, plan)
        numbers = range(first, first + len(chunk.records))
        offsets = [offset + place for place in chunk.places or range(kafka_records, kafka_records + len(numbers))]
        if not first:
            view.begin(chunk.records[0], chunk.writer)
        chunk = _with_path_columns(chunk, folders)
        chunk = _concealed(_with_source(keyless_set_aside(chunk, first, plan), plan), first, plan)
        _check_ordered(chunk.writer, begins_at is not None or order is not None, plan)
        made_of = dict(zip(numbers, offsets))
        make = partial(_made, writer=chunk.writer, offsets=made_of, item=item, plan=plan, place=place)
        batch, bad = sound_batch(
            chunk.records,
            numbers,
            make,
            limit=plan.limits.quarantined_rows,
            before=len(rows),
        )
        rows += [_row_error(row, made_of[row.record], chunk.writer, plan, item.key, place) for row in bad]
        first += len(numbers)
        kafka_records = offsets[-1] - offset + 1
        view.take(chunk.records, chunk.writer, batch)
        if batch is not None:
            batches.append(batch)
            if not plan.expect.quarantines:
                unexpected.update(failure_counts(batch, plan.columns, plan.expect))
            decoded_bytes += batch.get_total_buffer_size()  # `nbytes` takes a hundred times as long
        _within_limits(first, decoded_bytes, time.thread_time() - began, plan.limits)
    operations.check()
    changes = sum(batch.num_rows for batch in batches)
    if item.replaces is not None:
        batches.append(truncate_batch(item, encode_floor(plan.generation, item.replaces), plan))
    return Decoded(
        batches, rows, replace(view.seen(kafka_records), unexpected=tuple(sorted(unexpected.items())), changes=changes)
    )


def _translated(chunk: Chunk, form: TypedForm, plan: ReaderPlan, key: str, first: int) -> Chunk:
    """The changes in a chunk of records with types, as envelopes whose rows have all columns.

    `first` is the number of its first record.
    """
    translate = translator(plan.dialect, (), _reading(_key_of(plan), plan.rules, key))
    columns = dict.fromkeys(column.written_name for column in chunk.writer.row.columns)
    source = dict.fromkeys(form.source)
    records: list[Record] = []
    places: list[int] = []
    for place, record in enumerate(chunk.records, first):
        changes: Sequence[Record] = [record]
        if isinstance(record, dict):
            try:
                changes = [_completed(made, columns, source) for made in translate(record)]
            except UnusableSchema as error:
                changes = [BrokenRecord(record, error)]
        records += changes
        places += [place] * len(changes)
    return Chunk(chunk.writer, records, places if len(records) > len(chunk.records) else None)


def _completed(change: dict[str, Any], columns: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: None if change[side] is None else {**columns, **change[side]} for side in ("before", "after")}
    return {**change, **sides, "source": {**source, **change["source"]}}


def _with_path_columns(chunk: Chunk, folders: Chunk | None) -> Chunk:
    """The chunk with the columns of its key's folders that its records lack."""
    if folders is None:
        return chunk
    row = with_path_columns(chunk.writer.row, folders.writer.row.columns)
    added = {name: value for name, value in dict(folders.records[0]).items() if chunk.writer.row.column(name) is None}  # type: ignore[arg-type]
    for record in chunk.records:
        if isinstance(record, dict):
            for held in chunk.writer.dialect.rows(record):
                held.update(added)
    return Chunk(replace(chunk.writer, row=row), chunk.records)


def _place(item: ManifestObject, offset: int | None, order: str | None, plan: ReaderPlan) -> str | None:
    """The place of an object among others by name and time; None where something else orders its rows.

    An object whose time isn't known was claimed by a release that ordered such rows by their place in it alone.
    """
    if offset is not None or plan.append_only or plan.coordinates or order is None and item.modified_at is None:
        return None
    return place_of_object(item.key, item.modified_at or 0, order)


def _check_ordered(writer: WriterSchema, is_ordered: bool, plan: ReaderPlan) -> None:
    """Raise Unordered for changes that nothing orders, where a deletion could come before what it deletes.

    `is_ordered` is true where the object's name says its place.
    """
    if plan.delete_when.marks and not plan.position and not is_ordered and not plan.coordinates:
        if writer.meta.position.kind == OFFSET_ONLY and not plan.append_only:
            raise Unordered(
                "The rule has delete_when, and neither a position column nor the object's name orders its changes",
                field="position",
                value="none",
                next_step="Name the column that orders them in the rule's `position`, then `sluice quarantine retry "
                "--code unordered_change`",
            )


def _with_source(chunk: Chunk, plan: ReaderPlan) -> Chunk:
    """The chunk with the columns that the table has of its metadata."""
    words, writer = plan.source_words, with_source_columns(chunk.writer, plan.source_words)
    if writer is chunk.writer or not writer.dialect.holds_rows:
        return Chunk(writer, chunk.records)
    records = [
        record if isinstance(record, BrokenRecord) else with_source_values(record, writer, words)
        for record in chunk.records
    ]
    return Chunk(writer, records)


def _concealed(chunk: Chunk, first: int, plan: ReaderPlan) -> Chunk:
    """The chunk under the table's column rules. `first` is the number of its first record.

    Of a record that can't be read nothing is kept where values are concealed: any part of it may be one.
    """
    writer = replace(chunk.writer, row=ruled(chunk.writer.row, plan.rules))
    if not plan.rules.conceals:
        return Chunk(writer, chunk.records)
    if plan.rules.hash and not plan.hash_key:
        raise NoHashKey(f"The key of {plan.table}'s hashed columns was not read", table=plan.table)
    sides = writer.dialect.sides or ()
    meta = writer.meta
    conceal = Concealment(
        plan.rules,
        chunk.writer.row,
        plan.hash_key,
        placeholders(plan.unavailable_value),
        beside=() if sides else (meta.op, meta.deleted, meta.source_ts_ms, *meta.position.names, *meta.source_table),
    )
    records: list[Record] = []
    for number, record in enumerate(chunk.records, first):
        if isinstance(record, BrokenRecord):
            records.append(BrokenRecord(b"", without_values(record.error)))
            continue
        try:
            records.append(conceal.of_record(record, sides))
        except (ValueError, TypeError, ArithmeticError, AttributeError):
            error = UndecodableValue("A value of a concealed column doesn't match its schema", record=number)
            records.append(BrokenRecord(b"", error))
    return Chunk(writer, records)


def _made(
    records: Sequence[dict[str, Any]],
    numbers: Sequence[int],
    *,
    writer: WriterSchema,
    offsets: Mapping[int, int],
    item: ManifestObject,
    plan: ReaderPlan,
    place: str | None,
) -> pa.RecordBatch:
    of_records = [offsets[number] for number in numbers]
    return record_batch(records, numbers=numbers, offsets=of_records, writer=writer, item=item, plan=plan, place=place)


def _row_error(
    row: BadRow, offset: int, writer: WriterSchema, plan: ReaderPlan, key: str, place: str | None
) -> RowError:
    position = (
        None
        if isinstance(row.value, bytes)
        else position_of(row.value, offset=offset, writer=writer, plan=plan, key=key, place=place)
    )
    return row_error(row.record, row.error, row.value, offset=offset, position=position)


def _within_limits(rows: int, decoded_bytes: int, seconds: float, limits: Limits) -> None:
    if seconds > limits.object_seconds:
        raise ExpansionLimit.beyond(
            "object_seconds",
            f"The object takes more than {limits.object_seconds:,} seconds of a processor to decode",
            limit=limits.object_seconds,
            unit="seconds",
        )
    if rows > limits.object_rows:
        raise ExpansionLimit.beyond(
            "object_rows",
            f"The object holds more than {limits.object_rows:,} records",
            limit=limits.object_rows,
            unit="records",
        )
    if decoded_bytes > limits.decoded_bytes:
        raise ExpansionLimit.beyond(
            "decoded_bytes",
            f"The object's rows take more than {limits.decoded_bytes:,} bytes",
            limit=limits.decoded_bytes,
            unit="bytes",
        )


def _first_offset(item: ManifestObject, records: Records, name: KeyName | None) -> int | None:
    """Kafka offset of the first record; None where the object's name has no offset.

    Where the name has the offset of the last record, the records are counted first.
    """
    route = classify(item.key, item.size, None if name is None else KeyMatch(name, item.format))
    if route.offset_is == LAST:
        return first_offset(route, records.count())
    return item.offset


_SERVER_IDS = ("server_id", "__server_id", "__source_server_id")
LOG_WORDS = ("name", "db")  # of the metadata, those that tell servers and their logs apart
MAX_NAMES = 16  # of binlogs and of servers kept per object


def sample_of(record: Mapping[str, Any]) -> str:
    """A short hash of a record, the same for each object that holds it. It is too short to find out the record by it.

    The schema that is inferred of an object adds nulls to its records, and makes floats of whole numbers.
    """
    return hashlib.sha256(json.dumps(_plain(record), sort_keys=True).encode("utf-8", "replace")).hexdigest()[:6]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _source_tables(batch: pa.RecordBatch) -> list[str]:
    """The source tables of a batch's changes, without those of messages and truncates alone."""
    sources = pc.unique(batch.column(hidden.SOURCE)).drop_null()
    if len(sources) > 1:
        beside = pc.is_in(batch.column(hidden.OP), value_set=pa.array([hidden.TRUNCATE, hidden.MESSAGE]))
        sources = pc.unique(batch.filter(pc.invert(beside)).column(hidden.SOURCE)).drop_null()
    names: list[str] = sources.to_pylist()
    return names


class ObjectView:
    """Collects an object's place in Kafka and in its source's log, chunk by chunk.

    `offset` is the Kafka offset of its first record, None where its name has none. `ordered_by` is ARRIVAL or NAMED
    where the object's time or name orders its rows if no log does. `log_words` are the metadata that tell logs apart.
    """

    def __init__(
        self, item: ManifestObject, offset: int | None, ordered_by: str | None = None, log_words: Sequence[str] = ()
    ) -> None:
        self._item = item
        self._offset = offset
        self._ordered_by = ordered_by
        self._kind = OFFSET_ONLY
        self._highest: str | None = None
        self._newest: int | None = None
        self._logs: set[str] = set()
        self._servers: set[str] = set()
        self._sample: str | None = None
        self._log_words = log_words
        self._sources: set[tuple[str, ...]] = set()
        self._source_tables: set[str] = set()

    def begin(self, first: Record, writer: WriterSchema) -> None:
        """Take a sample of the object's first record, as it was written."""
        by_offset = self._offset is not None and writer.meta.position.kind == OFFSET_ONLY
        if by_offset and not self._item.came_before and isinstance(first, dict):
            self._sample = sample_of(first)

    def take(self, records: Sequence[Record], writer: WriterSchema, batch: pa.RecordBatch | None) -> None:
        """Add one chunk, and the batch of its records that can be merged."""
        if batch is None:
            return
        kind = writer.meta.position.kind
        self._kind = self._ordered_by if self._ordered_by is not None and kind == OFFSET_ONLY else kind
        highest = pc.max(batch.column(batch.schema.get_field_index(hidden.POSITION))).as_py()
        newest = (
            pc.max(batch.column(batch.schema.get_field_index(hidden.SOURCE_TS_MS))).as_py()
            if writer.has_source_clock
            else None
        )
        self._highest = max(filter(None, (self._highest, highest)), default=None)
        self._newest = max((moment_ms for moment_ms in (self._newest, newest) if moment_ms is not None), default=None)
        if hidden.SOURCE in batch.schema.names and len(self._source_tables) < MAX_NAMES:
            self._source_tables.update(_source_tables(batch))
        sound = [record for record in records if isinstance(record, dict)]
        if self._log_words and len(self._sources) < 2:
            field_names = [field for word, field in writer.meta.source_fields if word in self._log_words]
            places = (writer.dialect.metadata(record) or {} for record in sound)
            self._sources |= {tuple(str(place.get(field))[:100] for field in field_names) for place in places}
        if self._kind == MYSQL:
            self._take_server(sound, writer)

    def seen(self, records: int) -> SeenObject:
        """The result, for an object of so many records."""
        item, offset = self._item, self._offset
        partition = item.kafka_partition if offset is not None else None
        first = offset or 0
        return SeenObject(
            item.id.hash,
            item.key,
            partition,
            first,
            first + max(records - 1, 0),
            self._kind,
            self._highest,
            self._newest,
            tuple(sorted(self._logs)[:MAX_NAMES]),
            tuple(sorted(self._servers)[:MAX_NAMES]),
            sample=self._sample,
            source_tables=tuple(sorted(self._source_tables)[:MAX_NAMES]),
            log=None if not self._sources else "/".join(*self._sources) if len(self._sources) == 1 else "",
            topic=item.topic,
        )

    def _take_server(self, records: list[dict[str, Any]], writer: WriterSchema) -> None:
        sources = [writer.dialect.metadata(record) for record in records]
        file = writer.meta.position.names[0]
        objects = [source for source in sources if isinstance(source, dict)]
        names = {name for name in (source.get(file) for source in objects) if isinstance(name, str)}
        self._logs.update(binlog_base(name)[:200] for name in names if "." in name)
        for id_name in _SERVER_IDS:
            # The rows of a snapshot have 0: they were read from no log.
            numbers = {
                number for number in (source.get(id_name) for source in objects) if isinstance(number, (int, str))
            }
            self._servers.update(str(number)[:40] for number in numbers if number)
