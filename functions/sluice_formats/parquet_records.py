"""Reads the records of a Parquet file, with values as Avro would have decoded them, without logical types.

Batches are kept within limits: some kilobytes of a file can expand to gigabytes of rows.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit
from sluice.schema import columns as kinds
from sluice.schema.avro import WriterForm, WriterSchema, read_writer_schema
from sluice.schema.columns import Column, RowSchema
from sluice.schema.limits import weight_of
from sluice.schema.writer_calendar import PROLEPTIC, WriterCalendar, rebaser
from sluice_formats.checks.parquet_pages import measured
from sluice_formats.errors import DamagedParquet, UndecodableValue
from sluice_formats.parquet_footer import UUID, Footer, read_footer
from sluice_formats.records import BrokenRecord, Chunk, Record, Records, most_rows

_UNITS = {kinds.TIMESTAMP_MILLIS: "ms", kinds.TIMESTAMP_MICROS: "us", kinds.TIMESTAMP_NANOS: "ns"}


def parquet_records(body: bytes, limits: Limits, shape: WriterForm = None) -> Records:
    """The file's records.

    Raises NotParquet, UnsupportedParquet, DamagedParquet, ExpansionLimit, UnusableSchema and UnsupportedType.
    """
    footer = measured(body, read_footer(body, True), limits)
    if footer.unpacked_bytes > limits.decoded_bytes:
        message = f"The object's columns take more than {limits.decoded_bytes:,} bytes"
        raise ExpansionLimit.beyond("decoded_bytes", message, limits.decoded_bytes)
    text = json.dumps(footer.schema)
    return Records(lambda: footer.rows, _chunks(body, footer, _understood(text, shape), text, limits))


@lru_cache(maxsize=8)  # with its text a schema takes megabytes
def _understood(schema: str, shape: WriterForm) -> WriterSchema:
    return read_writer_schema(json.loads(schema), shape)


def _chunks(body: bytes, footer: Footer, writer: WriterSchema, schema: str, limits: Limits) -> Iterator[Chunk]:
    uuids = _uuids(schema)
    far: Mapping[str, list[int]] | None = None
    first = 0
    try:
        own = pq.read_schema(pa.BufferReader(body))
        names = set(own.names)
        writer = _with_durations(writer, own)
        stored_columns = _stored_columns(writer)
        written = {field["name"] for field in json.loads(schema)["fields"]}
        if not written <= names:
            raise DamagedParquet(
                "The file lacks columns of the schema that it names", columns=sorted(written - names)[:10]
            )
        for batch in bounded_batches(
            body, footer, limits, most_rows(len(writer.row.columns)), weight_of(json.loads(schema))
        ):
            in_order = batch.schema.names
            columns = [
                _readable(column, stored_columns.get(name), name in uuids, _calendar(footer, name, column.type))
                for name, column in zip(in_order, batch.columns)
            ]
            far = _far_rows(body, footer, batch.num_rows) if far is None else far
            for name, rows in far.items():
                for row in rows[bisect_left(rows, first) : bisect_left(rows, first + batch.num_rows)]:
                    columns[in_order.index(name)][row - first] = _Unreadable(None, "a time that 64 bits can't count")
            if batch.num_rows:
                yield Chunk(writer, [_record(in_order, row, first + at) for at, row in enumerate(zip(*columns))])
            first += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:  # damaged bytes: the same at every attempt
        raise DamagedParquet("The Parquet file's data can't be read", cause=str(error)[:200]) from error


def _stored_columns(writer: WriterSchema) -> dict[str, Column]:
    """The columns of a file by the writer's names, with their types as its schema says them."""
    if writer.typed is not None:
        return {}
    if writer.dialect.sides is not None:
        return {
            side: kinds.json_column(side, True, "record", fields=writer.row.columns) for side in writer.dialect.sides
        }
    return {column.written_name: column for column in writer.row.columns}


def _with_durations(writer: WriterSchema, own: pa.Schema) -> WriterSchema:
    """The writer's schema with the unit of Arrow's durations, which only its own schema in the file tells.

    Parquet has plain numbers for them. pandas writes nanoseconds, and from release 3 on microseconds; counts of other
    units stay numbers.
    """
    units = {field.name: field.type.unit for field in own if field.type in (pa.duration("ns"), pa.duration("us"))}
    columns = (
        replace(column, kind=kinds.DURATION_NANOS if units[column.written_name] == "ns" else kinds.DURATION_MICROS)
        if column.written_name in units and column.kind == kinds.LONG
        else column
        for column in writer.row.columns
    )
    return replace(writer, row=RowSchema(tuple(columns))) if units else writer


def _calendar(footer: Footer, name: str, kind: pa.DataType) -> WriterCalendar:
    if name in footer.int96:
        return footer.calendar.of_int96()
    # Spark rebases no timestamp without a zone.
    return PROLEPTIC if pa.types.is_timestamp(kind) and kind.tz is None else footer.calendar


# Beyond them a count of microseconds doesn't fit in 64 bits, and pyarrow wraps it.
_FIRST_SECOND, _LAST_SECOND = -(2**63) // 10**6 + 1, 2**63 // 10**6 - 1


def _far_rows(body: bytes, footer: Footer, rows: int) -> dict[str, list[int]]:
    """By column, the rows with a timestamp of type INT96 that 64 bits of microseconds can't hold: read as seconds."""
    far_rows: dict[str, list[int]] = {}
    if not footer.int96:
        return far_rows
    first, names = 0, sorted(footer.int96)
    file = pq.ParquetFile(pa.BufferReader(body), coerce_int96_timestamp_unit="s")
    for batch in file.iter_batches(batch_size=max(rows, 1), use_threads=False, columns=names):
        for name, column in zip(batch.schema.names, batch.columns):
            if _is_far(column):
                own = far_rows.setdefault(name, [])
                own += [first + at for at in range(len(column)) if _is_far(column.take(pa.array([at])))]
        first += batch.num_rows
    return far_rows


def _is_far(column: pa.Array) -> bool:
    members = _members(column)
    if members or not pa.types.is_timestamp(column.type):
        return any(map(_is_far, members))
    seconds = pc.min_max(column.cast(pa.int64()))
    low, high = seconds["min"].as_py(), seconds["max"].as_py()
    return low is not None and not _FIRST_SECOND <= low <= high <= _LAST_SECOND


@dataclass(frozen=True)
class _Unreadable:
    """A value that its type doesn't hold; `kept` is what can be kept of it."""

    kept: Any
    why: str


def _readable(column: pa.Array, written: Column | None, is_uuid: bool, calendar: WriterCalendar) -> list[Any]:
    """A column's raw values, _Unreadable for those that can't be read. Only a damaged column is read one by one."""
    try:
        return _as_written(column, written, is_uuid, calendar)
    except (pa.ArrowException, ValueError, OverflowError):
        # Not by slices, which hold the other rows' items.
        return [_one(column.take(pa.array([at])), written, is_uuid, calendar) for at in range(len(column))]


def _one(single: pa.Array, written: Column | None, is_uuid: bool, calendar: WriterCalendar) -> Any:
    try:
        return _as_written(single, written, is_uuid, calendar)[0]
    except (pa.ArrowException, ValueError, OverflowError) as error:
        return _Unreadable(_bare(single), str(error)[:200])


def _bare(single: pa.Array) -> Any:
    """A value's bytes or count, for each member of a struct; None where there is neither."""
    if pa.types.is_struct(single.type):
        return {single.type.field(at).name: _bare(member) for at, member in enumerate(single.flatten())}
    bare = (
        pa.int64()
        if pa.types.is_temporal(single.type)
        else pa.list_(pa.binary())
        if pa.types.is_list(single.type)
        else pa.binary()
    )
    try:
        return single.cast(bare).to_pylist()[0]
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _record(names: list[str], row: Sequence[Any], number: int) -> Record:
    for name, value in zip(names, row):
        if isinstance(value, _Unreadable):
            values = {column: held.kept if isinstance(held, _Unreadable) else held for column, held in zip(names, row)}
            message = f"Column {name[:100]} holds a value that is not what its type says"
            error = UndecodableValue(message, column=name[:100], record=number, cause=value.why)
            return BrokenRecord(values, error)
    return dict(zip(names, row))


def _as_written(column: pa.Array, written: Column | None, is_uuid: bool, calendar: WriterCalendar) -> list[Any]:
    """A column's raw values in the unit that the writer schema says: what Arrow makes of a time may be of another."""
    unit = _UNITS.get(written.kind) if written is not None else None
    if unit is not None and pa.types.is_timestamp(column.type) and column.type.unit != unit:
        column = column.cast(pa.timestamp(unit, column.type.tz))
    raw = raw_values(column)
    rebase = rebaser(written, calendar) if calendar and written is not None else None
    if rebase is not None:
        raw = _map(raw, rebase)
    return _map(raw, _uuid_text) if is_uuid and pa.types.is_fixed_size_binary(column.type) else raw


def _uuid_text(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))


def _uuids(schema: str) -> list[str]:
    """The record's columns that Parquet stores as 16 bytes and the schema calls UUID."""
    names = []
    for field in json.loads(schema)["fields"]:
        kind = field["type"][-1] if isinstance(field["type"], list) and field["type"] else field["type"]
        if isinstance(kind, dict) and kind.get("connect.name") == UUID:
            names.append(field["name"])
    return names


def raw_values(column: pa.Array) -> list[Any]:
    """A column's values without logical types: days, counts of time units, unscaled bytes, lists, dicts."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        held = raw_values(column.storage)
        return _map(held, _uuid_text) if kind.extension_name == "arrow.uuid" else held
    read = next((read for is_kind, read in _READERS if is_kind(kind)), _listed)
    return read(column)


def _listed(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _decimals(column: Any) -> list[bytes | None]:
    """Unscaled bytes from Arrow's little-endian buffer. Arithmetic of Decimal would round to its context."""
    width = column.type.byte_width
    buffer, begin = memoryview(column.buffers()[1]), column.offset * width
    numbers = (
        int.from_bytes(buffer[at : at + width], "little", signed=True)
        for at in range(begin, begin + len(column) * width, width)
    )
    return [_octets(number) if there else None for number, there in zip(numbers, column.is_valid().to_pylist())]


def _octets(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _map(values: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _lists(column: Any) -> list[list[Any] | None]:
    offsets, items, valid = column.offsets.to_pylist(), raw_values(column.values), column.is_valid().to_pylist()
    return [items[begin:end] if there else None for begin, end, there in zip(offsets, offsets[1:], valid)]


def _maps(column: Any) -> list[Any]:
    offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    keys, values = raw_values(column.keys), raw_values(column.items)
    made: list[Any] = []
    of_keys = column.type.key_type.value_type if pa.types.is_dictionary(column.type.key_type) else column.type.key_type
    by_text = pa.types.is_string(of_keys) or pa.types.is_large_string(of_keys)
    entry_fields = (column.type.key_field.name, column.type.item_field.name)
    for begin, end, there in zip(offsets, offsets[1:], valid):
        pairs = zip(keys[begin:end], values[begin:end])
        # A map with keys other than text is an array of pairs, as in its schema.
        made.append(
            None if not there else dict(pairs) if by_text else [dict(zip(entry_fields, pair)) for pair in pairs]
        )
    return made


def _structs(column: Any) -> list[dict[str, Any] | None]:
    names = [column.type.field(number).name for number in range(column.type.num_fields)]
    members = [raw_values(member) for member in column.flatten()]
    valid = column.is_valid().to_pylist()
    rows: Any = zip(*members) if members else iter([()] * len(column))
    return [dict(zip(names, row)) if there else None for row, there in zip(rows, valid)]


# How the values of a type are read; those of others are what Arrow makes of them. The first that fits counts.
_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], list[Any]]], ...] = (
    (pa.types.is_dictionary, lambda column: raw_values(column.dictionary_decode())),
    *(
        (of_days, lambda column: _listed(column.cast(pa.int32())))
        for of_days in (pa.types.is_date32, pa.types.is_time32)
    ),
    *(
        (of_units, lambda column: _listed(column.cast(pa.int64())))
        for of_units in (pa.types.is_timestamp, pa.types.is_time64, pa.types.is_duration)
    ),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_float16, lambda column: _listed(column.cast(pa.float32()))),
    (pa.types.is_uint64, lambda column: _map(column.to_pylist(), _octets)),
    (pa.types.is_map, _maps),
    *((of_items, _lists) for of_items in (pa.types.is_list, pa.types.is_large_list)),
    (pa.types.is_fixed_size_list, lambda column: raw_values(column.cast(pa.list_(column.type.value_type)))),
    (pa.types.is_struct, _structs),
)
_FEWEST_ROWS = 16


def bounded_batches(
    body: bytes, footer: Footer, limits: Limits, rows: int, weight: int = 1
) -> Iterator[pa.RecordBatch]:
    """The file's records in batches of at most `rows`. `weight` is the memory that a value takes (`limits.weight_of`).

    Values of a dictionary stay references until their size is known: a value of a megabyte that every row refers to is
    stored once. Raises ExpansionLimit, DamagedParquet, and pyarrow's errors for a damaged file.
    """
    limits.check_rows(footer.rows)
    values, most = max((chunk.values for chunk in footer.chunks), default=0), limits.block_bytes // weight
    if values > most:
        raise ExpansionLimit.beyond("block_bytes", f"A column of the object holds {values:,} values", most, "values")
    by_reference = sorted({chunk.path for chunk in footer.chunks if chunk.by_reference})
    prefixed = max((chunk.unpacked_bytes for chunk in footer.chunks if chunk.shared_prefixes), default=0)
    if prefixed:  # each value may repeat all but one byte of the value before it
        rows = max(_FEWEST_ROWS, min(rows, limits.block_bytes // prefixed))
    file = pq.ParquetFile(pa.BufferReader(body), read_dictionary=by_reference, coerce_int96_timestamp_unit="us")
    if file.metadata.num_rows != footer.rows:
        raise DamagedParquet("The Parquet footer has two numbers of rows", rows=file.metadata.num_rows)
    for batch in file.iter_batches(batch_size=rows, use_threads=False):
        if sum(map(_whole_bytes, batch.columns)) > limits.block_bytes:
            message = f"{batch.num_rows:,} records of the object take more than {limits.block_bytes:,} bytes"
            raise ExpansionLimit.beyond("block_bytes", message, limits.block_bytes)
        yield batch


def _whole_bytes(column: Any) -> int:
    """Size of a column with its references replaced by values."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)
    return sum(map(_whole_bytes, _members(column))) or column.nbytes


def _members(column: Any) -> list[Any]:
    if pa.types.is_map(column.type):
        return [column.keys, column.items]
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return [column.values]
    return list(column.flatten()) if pa.types.is_struct(column.type) else []
