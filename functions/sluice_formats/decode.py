"""Decodes one object of any format into Arrow batches, and finds its place in Kafka and in its source's log."""

from __future__ import annotations

import hashlib
import json
import marshal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Callable, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.admission.routing import AVRO, CSV, JSON, LAST, MARKER, PARQUET, classify, first_offset
from sluice.batch.manifest import ManifestObject
from sluice.batch.row_errors import RowError, row_error
from sluice.changes import hidden_columns as hidden
from sluice.changes.dialects.nested import Reading, TypedForm
from sluice.changes.dialects.registry import text_field, translator
from sluice.changes.log_restart import BY_TIME, LOGS, MAX_NAMES, UNNAMED, SeenObject
from sluice.changes.position import (
    ARRIVAL,
    MYSQL,
    NAMED,
    NUMBER,
    OFFSET_DIGITS,
    OFFSET_ONLY,
    binlog_base,
    encode_floor,
    place_of_object,
)
from sluice.config.document import KeyMatch
from sluice.config.key_pattern import named_by
from sluice.config.placeholders import placeholders
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit, Incompatible, OtherSourceTable, SluiceError, Unordered, UnusableSchema
from sluice.names import stored_name
from sluice.schema.avro import WriterForm, WriterSchema
from sluice.schema.capture_order import (
    highest_by_form,
    is_lsn,
    place_form,
    places_of_number,
    position_places,
    says_no_unit,
)
from sluice.schema.concealment import Concealment, ruled, without_values
from sluice.schema.made_columns import with_source_columns, with_source_values
from sluice.schema.meaning import WITHOUT_UNIT, stored_unit
from sluice.schema.table_row import with_path_columns
from sluice_formats.arrow_batches import ObjectRows, position_of, record_batch, truncate_batch
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
from sluice_formats.records import (
    SMALL_BYTES,
    SMALL_ROWS,
    BadRow,
    BrokenRecord,
    Chunk,
    ReaderPlan,
    Record,
    Records,
    sound_batch,
)

_READERS: dict[str, Callable[[bytes, ManifestObject, ReaderPlan], Records]] = {
    AVRO: lambda body, item, plan: avro_records(body, plan.config.limits, plan.config.form),
    PARQUET: lambda body, item, plan: parquet_records(body, plan.config.limits, plan.config.form),
    MARKER: lambda body, item, plan: Records(lambda: 0, iter(())),
    CSV: lambda body, item, plan: csv_records(
        body, plan.inferred.get(item.id.hash), plan.config.csv, plan.config.limits, plan.config.form
    ),
    JSON: lambda body, item, plan: json_records(
        body,
        plan.inferred.get(item.id.hash),
        plan.config.limits,
        plan.config.form,
        translator(plan.config.dialect, plan.config.known_dialects, _reading(plan.config, item.key)),
    ),
}


def _reading(config: TableConfig, object_key: str = "") -> Reading:
    """What a dialect is told for a table: its record key, under its rules for columns."""
    key = () if config.append_only else config.record_key
    return Reading(key, lambda name: config.columns.table_name(stored_name(name)) in key, parse, object_key)


def is_scanned(format: str, form: WriterForm) -> bool:
    """Whether an object's schemas follow from all of its records: these carry several or none, or rows as text."""
    return format in (JSON, CSV) or text_field(form, format) is not None


def schemas_of(body: bytes, format: str, config: TableConfig, key: str = "") -> tuple[list[dict[str, Any]], bool]:
    """The schemas in Avro form of the records of a scanned object, `key`, and whether these carry none of their own.

    Raises what `json_schemas` and `csv_schema` raise.
    """
    try:
        lines = lines_of_texts(body, format, config.dialect, config.csv, config.limits)
        if format == CSV and lines is None:
            return [csv_schema(body, config)], True
        body = body if lines is None else lines
        translate = translator(config.dialect, config.known_dialects, _reading(config, key))
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

    `seen` is the object's place in Kafka and in its source's log. `numbered_as_read`: each record is one change,
    and its number that of the records before it.
    """

    batches: list[pa.RecordBatch]
    rows: list[RowError]
    seen: SeenObject
    numbered_as_read: bool = True


def decode(body: bytes, item: ManifestObject, plan: ReaderPlan, *, first: int = 0) -> Decoded:
    """Decode every record. Raises a SluiceError, the same at every attempt, if the object can't be read to its end.

    A record that can't be merged is set aside alone, up to the plan's limit of such rows. `first` is the number of the
    first record, where `body` is a piece of the object.
    """

    def read() -> Decoded:
        reading = _Reading(body, item, plan, first)
        return reading.decoded(reading.chunks())

    try:
        return read_or_refused(read)
    except SluiceError as error:
        if plan.config.columns.conceals:
            raise without_values(error) from None
        raise


@dataclass(frozen=True)
class _Prepared:
    """A chunk as it is merged: its records' places in the object, and the offsets of their Kafka records."""

    chunk: Chunk
    numbers: range
    offsets: Sequence[int]


class _Reading:
    """An object while it is decoded, chunk by chunk, with its place in Kafka and in its source's log."""

    def __init__(self, body: bytes, item: ManifestObject, plan: ReaderPlan, first: int = 0) -> None:
        lines = lines_of_texts(body, item.format, plan.config.dialect, plan.config.csv, plan.config.limits)
        reader = _READERS.get(item.format if lines is None else JSON)
        if reader is None:
            raise UnsupportedFormat(f"The object is {item.format}", format=item.format)
        records = reader(body if lines is None else lines, item, plan)
        name = None if plan.config.key_pattern is None else named_by(plan.config.key_pattern, item.key)
        route = classify(item.key, item.size, None if name is None else KeyMatch(name, item.format))
        # Where the name has the offset of the last record, the records are counted first.
        begins_at = first_offset(route, records.count()) if route.offset_is == LAST else item.offset
        order = None if name is None else name.order
        self.item = item
        self.plan = plan
        self.place = _place(item, begins_at, order, plan.config)
        self._records = records
        self._is_ordered = begins_at is not None or order is not None
        self._offset = begins_at or 0
        self._begins_at = begins_at
        self._ordered_by = None if self.place is None else ARRIVAL if order is None else NAMED  # unless a log does
        key, column_of = plan.config.record_key, plan.config.source_column
        self._log_words = tuple(word for word in LOG_WORDS if column_of(word) in key)
        self._kind = OFFSET_ONLY
        self._sample: str | None = None
        self._highest: str | None = None
        self._newest: int | None = None
        self._logs, self._servers, self._source_tables = set[str](), set[str](), set[str]()
        self._sources: set[tuple[str, ...]] = set()
        self._places: list[tuple[str, ...]] = [()] * len(plan.config.orders)
        self._units: set[tuple[str, str]] = set()
        self._of_records: dict[int, tuple[int, int]] = {}  # by Kafka partition the lowest and the highest offset
        self._of_first: int | None = None  # the first record's own offset
        self._rows: list[RowError] = []
        self._unexpected: Counter[str] = Counter()
        self._first = self._kafka_records = first
        self._changes = self._decoded_bytes = 0
        self._began = time.thread_time()
        self._held_at: float | None = None

    def chunks(self) -> Iterator[_Prepared]:
        """The chunks in order. Raises what the object as a whole is refused for."""
        item, plan = self.item, self.plan
        operations = UnmarkedDeletions(plan.config)
        folders = path_values(item.key, plan.config) if plan.config.path_columns else None
        for chunk in self._records.chunks:
            if chunk.writer.typed is not None:
                chunk = _translated(chunk, chunk.writer.typed, plan, item.key, self._kafka_records)
            operations.take(chunk.records, chunk.writer)
            chunk = with_former_rows(chunk, self._kafka_records, plan.config)
            first, read = self._first, self._kafka_records
            numbers = range(first, first + len(chunk.records))
            offsets = [self._offset + place for place in chunk.places or range(read, read + len(numbers))]
            by_offset = self._begins_at is not None or plan.config.coordinates
            if not first and by_offset and chunk.writer.meta.position.kind == OFFSET_ONLY:
                if not item.came_before and isinstance(record := chunk.records[0], dict):  # as it was written
                    self._sample = sample_of(record)
            chunk = _with_path_columns(chunk, folders)
            chunk = _concealed(_with_source(keyless_set_aside(chunk, first, plan.config), plan.config), first, plan)
            _check_ordered(chunk.writer, self._is_ordered, plan.config)
            self._first += len(numbers)
            self._kafka_records = offsets[-1] - self._offset + 1
            yield _Prepared(chunk, numbers, offsets)
        operations.check()

    def decoded(self, chunks: Iterable[_Prepared]) -> Decoded:
        """The object, of its chunks."""
        item, plan = self.item, self.plan
        if self._held_at is not None:
            self._began += time.thread_time() - self._held_at
        batches: list[pa.RecordBatch] = []
        self._changes = 0  # what an attempt with others took counts for nothing
        self._unexpected.clear()
        for prepared in chunks:
            chunk, offsets = prepared.chunk, dict(zip(prepared.numbers, prepared.offsets))
            make, before = partial(self._batch, chunk.writer, offsets), len(self._rows)
            limit = plan.config.limits.quarantined_rows
            batch, bad = sound_batch(chunk.records, prepared.numbers, make, limit=limit, before=before)
            self._rows += [self._row_error(row, offsets[row.record], chunk.writer) for row in bad]
            self.take(prepared, batch, _units_of(chunk.writer, plan))
            if batch is not None:
                batches.append(batch)
                self._decoded_bytes += batch.get_total_buffer_size()  # `nbytes` takes a hundred times as long
            self.check_limits()
        if item.replaces is not None:
            batches.append(truncate_batch(item, encode_floor(plan.config.generation, item.replaces), plan))
        return self.as_seen(batches)

    def _batch(
        self,
        writer: WriterSchema,
        offsets: Mapping[int, int],
        records: Sequence[dict[str, Any]],
        numbers: Sequence[int],
    ) -> pa.RecordBatch:
        of_records, parts = [offsets[number] for number in numbers], [ObjectRows(self.item, len(records), self.place)]
        return record_batch(records, numbers=numbers, offsets=of_records, writer=writer, parts=parts, plan=self.plan)

    def _row_error(self, row: BadRow, offset: int, writer: WriterSchema) -> RowError:
        position = None
        if not isinstance(row.value, bytes):
            part = ObjectRows(self.item, 1, self.place)
            position = position_of(row.value, offset=offset, writer=writer, plan=self.plan, part=part)
        return row_error(row.record, row.error, row.value, offset=offset, position=position)

    def take(self, prepared: _Prepared, batch: pa.RecordBatch | None, units: Iterable[tuple[str, str]]) -> None:
        """Note the batch of a chunk: its records that can be merged. `units` are those of the chunk's writer."""
        if batch is None:
            return
        self._changes += batch.num_rows
        if self.plan.config.expect.columns and not self.plan.config.expect.quarantines:
            self._unexpected.update(failure_counts(batch, self.plan.columns, self.plan.config.expect))
        writer = prepared.chunk.writer
        kind = writer.meta.position.kind
        self._kind = self._ordered_by if self._ordered_by is not None and kind == OFFSET_ONLY else kind
        highest = _most(batch, hidden.POSITION)
        newest = _most(batch, hidden.SOURCE_TS_MS) if writer.has_source_clock else None
        self._highest = max(filter(None, (self._highest, highest)), default=None)
        self._newest = max((moment_ms for moment_ms in (self._newest, newest) if moment_ms is not None), default=None)
        if hidden.SOURCE in batch.schema.names and len(self._source_tables) < MAX_NAMES:
            self._source_tables.update(_source_tables(batch))
        sound = [record for record in prepared.chunk.records if isinstance(record, dict)]
        if self._log_words and len(self._sources) < 2:
            field_names = [field for word, field in writer.meta.source_fields if word in self._log_words]
            places = (writer.dialect.metadata(record) or {} for record in sound)
            self._sources |= {tuple(str(place.get(field))[:100] for field in field_names) for place in places}
        if self._kind == MYSQL:
            self._take_server(sound, writer)
        self._take_places(writer, batch, sound)
        if self.plan.config.coordinates and not self.plan.config.append_only:
            self._take_coordinates(batch)
        self._units.update(units)

    def _take_coordinates(self, batch: pa.RecordBatch) -> None:
        """Add the offsets of the records themselves, which end the positions."""
        names = batch.schema.get_field_index(hidden.PARTITION), batch.schema.get_field_index(hidden.POSITION)
        for partition, position in zip(*(batch.column(name).to_pylist() for name in names)):
            offset = int(position[-OFFSET_DIGITS:])
            self._of_first = offset if self._of_first is None else self._of_first
            first, last = self._of_records.get(partition, (offset, offset))
            self._of_records[partition] = min(first, offset), max(last, offset)

    def _take_places(self, writer: WriterSchema, batch: pa.RecordBatch, records: Sequence[dict[str, Any]]) -> None:
        """Add the places of what orders changes by the rule, where a writer may change the unit or form of values."""
        if self._kind == NUMBER and self._places and not self.plan.config.position_columns:
            for position in batch.column(batch.schema.get_field_index(hidden.POSITION)).to_pylist():
                of_row = places_of_number(position, len(self._places))
                self._places = [highest_by_form((*held, place)) for held, place in zip(self._places, of_row)]
            return
        columns = [writer.row.column(name) for name in self.plan.config.position_columns]
        without_unit = [
            column is not None
            and says_no_unit(column)
            and not is_lsn(_first_value(map(writer.dialect.row, records), column.written_name))
            for column in columns
        ]
        if not any(without_unit):
            return
        stored = batch.column(batch.schema.get_field_index(hidden.POSITION))
        positions = _ends_of_one_form(stored, len(columns)) or stored.to_pylist()
        of_rows = [position_places(position, len(columns)) for position in positions]
        for number, (is_judged, places) in enumerate(zip(without_unit, zip(*of_rows))):
            if is_judged:
                self._places[number] = highest_by_form((*self._places[number], *places))

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

    def check_limits(self) -> None:
        """Raise ExpansionLimit for an object that takes too much until now."""
        limits = self.plan.config.limits
        if time.thread_time() - self._began > limits.object_seconds:
            message = f"The object takes more than {limits.object_seconds:,} seconds of a processor to decode"
            raise ExpansionLimit.beyond("object_seconds", message, limits.object_seconds, "seconds")
        limits.check_rows(self._first)
        if self._decoded_bytes > limits.decoded_bytes:
            message = f"The object's rows take more than {limits.decoded_bytes:,} bytes"
            raise ExpansionLimit.beyond("decoded_bytes", message, limits.decoded_bytes)

    def hold(self) -> None:
        """Stop the object's clock until it is decoded: meanwhile others take the processor."""
        self._held_at = time.thread_time()

    def as_seen(self, batches: list[pa.RecordBatch]) -> Decoded:
        """The object with these batches, once its chunks were taken."""
        item, offset = self.item, self._begins_at
        partition = None if offset is None else UNNAMED if item.kafka_partition is None else item.kafka_partition
        first = offset or 0
        last = first + max(self._kafka_records - 1, 0)
        if self._of_records:
            offsets = sorted(chain(*self._of_records.values()))
            partition = next(iter(self._of_records)) if len(self._of_records) == 1 else None
            first, last = offsets[0], offsets[-1]
            self._sample = self._sample if self._of_first == first else None  # it stands for the lowest offset
        elif offset is None and self._ordered_by is not None and self._kind in LOGS and item.modified_at is not None:
            partition, first, last = BY_TIME, item.modified_at, item.modified_at
        seen = SeenObject(
            item.id.hash,
            item.key,
            partition,
            first,
            last,
            self._kind,
            self._highest,
            self._newest,
            tuple(sorted(self._logs)[:MAX_NAMES]),
            tuple(sorted(self._servers)[:MAX_NAMES]),
            tuple(sorted(self._unexpected.items())),
            self._changes,
            self._sample,
            None if not self._sources else "/".join(*self._sources) if len(self._sources) == 1 else "",
            tuple(sorted(self._source_tables)[:MAX_NAMES]),
            item.topic,
            tuple(self._places),
            tuple(sorted(self._units)),
        )
        return Decoded(batches, self._rows, seen, self._first == self._kafka_records)


# Objects whose rows come in one batch with those of others: Arrow takes longer for a batch than for a row.
OBJECTS_TOGETHER = 256


@dataclass(frozen=True)
class _Small:
    """A small object that was read to its end without a defect, and its only chunk."""

    reading: _Reading
    prepared: _Prepared

    def joins(self, other: _Small) -> bool:
        """Whether one batch may have the rows of both."""
        own, others = self.prepared.chunk.writer, other.prepared.chunk.writer
        return (own is others or own == others) and (self.reading.place is None) == (other.reading.place is None)

    def alone(self) -> Decoded | SluiceError:
        """The object by itself. Raises errors that a retry may pass."""
        return _or_refusal(lambda: self.reading.decoded([self.prepared]), self.reading.plan)


def decode_each(
    objects: Iterable[tuple[ManifestObject, Callable[[], bytes]]], plan: ReaderPlan
) -> Iterator[tuple[ManifestObject, Decoded | SluiceError]]:
    """What `decode` returns or raises of every object, in order. Raises errors that a retry may pass.

    The rows of small objects come in fewer batches, with the last object of each batch.
    """
    held: list[_Small] = []
    for item, body in objects:
        read: _Small | Decoded | SluiceError
        try:
            content = body()
        except SluiceError as error:  # the object is gone, or too large
            if error.retriable:
                raise
            read = error
        else:
            read = _or_refusal(partial(_read_small, content, item, plan), plan)
        if isinstance(read, _Small):
            held.append(read)
        if not isinstance(read, _Small) or len(held) == OBJECTS_TOGETHER:
            yield from _together(held)
            held = []
        if not isinstance(read, _Small):
            yield item, read
    yield from _together(held)


def _or_refusal(read: Callable[[], T], plan: ReaderPlan) -> T | SluiceError:
    """The result of `read`, or why the object is refused. Raises errors that a retry may pass."""
    try:
        return read_or_refused(read)
    except SluiceError as error:
        if error.retriable:
            raise
        return without_values(error) if plan.config.columns.conceals else error


def _read_small(body: bytes, item: ManifestObject, plan: ReaderPlan) -> _Small | Decoded:
    """A small object up to its batch, another as `decode` has it."""
    reading = _Reading(body, item, plan)
    chunks = reading.chunks()
    begun: list[_Prepared] = []
    if len(body) <= SMALL_BYTES and item.replaces is None:
        begun += islice(chunks, 1)
        if begun and _is_small(begun[0].chunk.records):
            begun += islice(chunks, 1)
            if len(begun) == 1:
                reading.check_limits()
                reading.hold()
                return _Small(reading, begun[0])
    return reading.decoded(chain(begun, chunks))


def _is_small(records: Sequence[Record]) -> bool:
    """False for many records, for broken ones, and for those that became large when they were decompressed."""
    if len(records) > SMALL_ROWS or any(isinstance(record, BrokenRecord) for record in records):
        return False
    try:
        return len(marshal.dumps(list(records))) <= 4 * SMALL_BYTES
    except ValueError:  # values of other types, or too deep
        return False


def _together(held: Sequence[_Small]) -> Iterator[tuple[ManifestObject, Decoded | SluiceError]]:
    """The held objects in order."""
    groups: list[list[_Small]] = []
    for small in held:
        group = next((group for group in groups if group[0].joins(small)), None)
        if group is None:
            groups.append([small])
        else:
            group.append(small)
    decoded: dict[int, Decoded | SluiceError] = {}
    for group in groups:
        decoded.update(zip(map(id, group), _of_group(group)))
    for small in held:
        yield small.reading.item, decoded[id(small)]


def _of_group(group: Sequence[_Small]) -> Sequence[Decoded | SluiceError]:
    """The objects of a group in order. Raises what the common batch raised if no object alone has a defect."""
    defect: Exception | None = None
    if len(group) > 1:
        try:
            together = _in_one_batch(group)
        except SluiceError:  # also a limit that all of them together are beyond
            pass
        except Exception as error:  # bytes of others may raise any kind
            defect = error
        else:
            if together is not None:
                return together
    alone = [small.alone() for small in group]
    if defect is not None and not any(isinstance(one, SluiceError) or one.rows for one in alone):
        raise defect
    return alone


def _in_one_batch(group: Sequence[_Small]) -> list[Decoded] | None:
    """The objects, the last with the batch of all; None where it is too large. Raises what a bad record raises."""
    plan = group[0].reading.plan
    chunks = [small.prepared.chunk for small in group]
    parts = [ObjectRows(small.reading.item, len(small.prepared.numbers), small.reading.place) for small in group]
    batch = record_batch(
        [record for chunk in chunks for record in chunk.records],  # type: ignore[misc]  # none is broken
        numbers=list(chain.from_iterable(small.prepared.numbers for small in group)),
        offsets=list(chain.from_iterable(small.prepared.offsets for small in group)),
        writer=chunks[0].writer,
        parts=parts,
        plan=plan,
    )
    if batch.get_total_buffer_size() > plan.config.limits.decoded_bytes:
        return None
    first, units = 0, _units_of(chunks[0].writer, plan)
    for small, part in zip(group, parts):
        small.reading.take(small.prepared, batch.slice(first, part.rows), units)
        first += part.rows
    return [small.reading.as_seen([batch] if small is group[-1] else []) for small in group]


def _translated(chunk: Chunk, form: TypedForm, plan: ReaderPlan, key: str, first: int) -> Chunk:
    """The changes in a chunk of records with types, as envelopes whose rows have all columns.

    `first` is the number of its first record.
    """
    translate = translator(plan.config.dialect, (), _reading(plan.config, key))
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
    dialect, sent = chunk.writer.dialect, chunk.writer.meta.sent
    for record in chunk.records:
        if isinstance(record, dict):
            for held in dialect.rows(record):
                held.update(added)
            source = None if sent is None else dialect.metadata(record)
            if source and source[sent] is not None:  # an update brings the folders' columns, too
                source[sent] = [*source[sent], *added]
    return Chunk(replace(chunk.writer, row=row), chunk.records)


def _place(item: ManifestObject, offset: int | None, order: str | None, config: TableConfig) -> str | None:
    """The place of an object among others by name and time; None where something else orders its rows.

    An object whose time isn't known was claimed by a release that ordered such rows by their place in it alone.
    """
    if offset is not None or config.append_only or config.coordinates or order is None and item.modified_at is None:
        return None
    return place_of_object(item.key, item.modified_at or 0, order)


def _check_ordered(writer: WriterSchema, is_ordered: bool, config: TableConfig) -> None:
    """Raise Unordered for changes that nothing orders, where a deletion could come before what it deletes.

    `is_ordered` is true where the object's name says its place.
    """
    if config.marks_of_rows.marks and not config.position_columns and not is_ordered and not config.coordinates:
        if writer.meta.position.kind == OFFSET_ONLY and not config.append_only:
            raise Unordered(
                "The rule has delete_when, and neither a position column nor the object's name orders its changes",
                field="position",
                value="none",
                next_step="Name the column that orders them in the rule's `position`, then `sluice quarantine retry "
                "--code unordered_change`",
            )


def _with_source(chunk: Chunk, config: TableConfig) -> Chunk:
    """The chunk with the columns that the table has of its metadata."""
    words, writer = config.source_words, with_source_columns(chunk.writer, config.source_words)
    if writer is chunk.writer or not writer.dialect.holds_rows:
        return chunk if writer is chunk.writer else Chunk(writer, chunk.records)
    records = [
        record if isinstance(record, BrokenRecord) else with_source_values(record, writer, words)
        for record in chunk.records
    ]
    return Chunk(writer, records)


def _concealed(chunk: Chunk, first: int, plan: ReaderPlan) -> Chunk:
    """The chunk under the table's column rules. `first` is the number of its first record.

    Of a record that can't be read nothing is kept where values are concealed: any part of it may be one.
    """
    rules = plan.config.columns
    if not rules.any:
        return chunk
    writer = replace(chunk.writer, row=ruled(chunk.writer.row, rules))
    if not rules.conceals:
        return Chunk(writer, chunk.records)
    if rules.hash and not plan.hash_key:
        raise NoHashKey(f"The key of {plan.config.table}'s hashed columns was not read", table=plan.config.table)
    sides = writer.dialect.sides or ()
    meta = writer.meta
    conceal = Concealment(
        rules,
        chunk.writer.row,
        plan.hash_key,
        placeholders(plan.config.unavailable_value),
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


_SERVER_IDS = ("server_id", "__server_id", "__source_server_id")
LOG_WORDS = ("name", "db")  # of the metadata, those that tell servers and their logs apart


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


def _most(batch: pa.RecordBatch, name: str) -> Any:
    """The highest value of a column; None where all are null."""
    column = batch.column(batch.schema.get_field_index(name))
    if len(column) > SMALL_ROWS:
        return pc.max(column).as_py()
    return max((value for value in column.to_pylist() if value is not None), default=None)


def _first_value(rows: Iterable[Mapping[str, Any] | None], name: str) -> Any:
    """The first value of a column that isn't null; rows of a full load may have none in it."""
    return next((value for row in rows if row and (value := row.get(name)) is not None), None)


def _ends_of_one_form(positions: pa.Array, columns: int) -> list[str]:
    """The lowest and the highest of many positions by one column, if all between have their form; else empty."""
    if columns > 1 or len(positions) <= SMALL_ROWS:
        return []
    ends, widths = (list(pc.min_max(values).as_py().values()) for values in (positions, pc.binary_length(positions)))
    forms = {place_form(position_places(end, 1)[0]) for end in ends}
    return ends if widths[1] - widths[0] <= 1 and len(forms) == 1 and None not in forms else []


def _units_of(writer: WriterSchema, plan: ReaderPlan) -> list[tuple[str, str]]:
    """The units of the table's columns that a writer has (`meaning.stored_unit`)."""
    written = {column.name: column for column in writer.row.columns}
    units = [
        (column.name, stored_unit(written[column.name], column, of_key=column.name in plan.config.record_key))
        for column in plan.columns
        if column.kind in WITHOUT_UNIT and column.name in written
    ]
    return [(name, unit) for name, unit in units if unit is not None]


def _source_tables(batch: pa.RecordBatch) -> set[str]:
    """The source tables of a batch's changes, without those of messages and truncates alone."""
    column = batch.column(batch.schema.get_field_index(hidden.SOURCE))
    sources = set((column if len(column) <= SMALL_ROWS else pc.unique(column)).to_pylist()) - {None}
    if len(sources) > 1:
        beside = pc.is_in(batch.column(hidden.OP), value_set=pa.array([hidden.TRUNCATE, hidden.MESSAGE]))
        sources = set(pc.unique(batch.filter(pc.invert(beside)).column(hidden.SOURCE)).to_pylist()) - {None}
    return sources
