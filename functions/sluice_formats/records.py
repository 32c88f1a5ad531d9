"""The plan of a read, and records as every reader returns them, in chunks with their writer schema.

Bad records are set aside one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Callable, Union

import pyarrow as pa

from sluice.changes.dialect import ChangeDialect
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit, SluiceError
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import Column
from sluice.schema.temporal import NoTime
from sluice.schema.writer_calendar import WriterCalendar, rebaser
from sluice_formats.errors import TooManyBadRows, UndecodableValue

# Limits of the decoded records held as Python objects at a time; finished chunks are kept as Arrow.
CHUNK_BYTES = 32 * 1024**2  # decompressed
SMALL_BYTES, SMALL_ROWS = 16 * 1024, 16  # of an object whose overheads take longer than its rows
CHUNK_ROWS = 20_000
CHUNK_CELLS = 2_000_000  # a record of thousands of fields takes a hundred kilobytes in memory


@dataclass(frozen=True)
class ReaderPlan:
    """How one batch is read into a table; pickled into read tasks. `config` has the limits and rules of this read.

    `columns` are those of the batch; a writer's columns are matched by name. `inferred` are the schemas (Avro form, as
    JSON) of objects that carry none, by the object's hash. `hash_key` is the key of the columns that the table hashes.
    `attempt` names this merge of the part: what it sets aside is under the same name. `lacking` are columns of the
    table that the batch lacks, where updates may leave columns out. With `sources` each change has its source table.
    """

    config: TableConfig
    batch: str
    columns: tuple[Column, ...]
    inferred: Mapping[str, str] = field(default_factory=dict)
    hash_key: bytes = field(default=b"", repr=False)
    attempt: str | None = None
    lacking: tuple[str, ...] = ()
    sources: bool = False


def most_rows(columns: int) -> int:
    """Number of decoded records of so many columns that are held at a time."""
    return max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(columns, 1)))


@dataclass(frozen=True)
class BrokenRecord:
    """A record that could not be decoded, whole or in part. `content` is what is kept of it."""

    content: bytes | dict[str, Any]
    error: SluiceError


Record = Union[dict[str, Any], BrokenRecord]


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one writer schema. An Avro object has one schema.

    `places` are those of the Kafka records that hold them, from 0, where one of these holds several changes.
    """

    writer: WriterSchema
    records: Sequence[Record]
    places: Sequence[int] | None = None


@dataclass(frozen=True)
class Records:
    """One object's records in order; `chunks` can be iterated once.

    Whatever the format, values are what Avro decodes to without logical types: days, counts of time units, unscaled
    bytes. A damaged record is a BrokenRecord in its place. `count` may be called first and costs far less; it raises
    what `chunks` raises, but may find fewer defects.
    """

    count: Callable[[], int]
    chunks: Iterator[Chunk]


def chunked(writer: WriterSchema, blocks: Iterable[list[dict[str, Any]]]) -> Iterator[Chunk]:
    """The records of `blocks` in chunks of at least `most_rows`. An empty block ends a chunk early."""
    most = most_rows(len(writer.row.columns))
    held: list[list[dict[str, Any]]] = []
    rows = 0
    for block in blocks:
        held.append(block)
        rows += len(block)
        if rows >= most or rows and not block:
            yield Chunk(writer, list(chain.from_iterable(held)))
            held, rows = [], 0
    if rows:
        yield Chunk(writer, list(chain.from_iterable(held)))


def rebased(chunks: Iterable[Chunk], calendar: WriterCalendar) -> Iterator[Chunk]:
    """The chunks with dates and timestamps in the proleptic calendar. A BrokenRecord takes the place of one without."""
    for chunk in chunks:
        made = [
            (column.written_name, convert)
            for column in chunk.writer.row.columns
            if (convert := rebaser(column, calendar)) is not None
        ]
        yield Chunk(chunk.writer, [_rebased(record, made, chunk.writer.dialect) for record in chunk.records])


def _rebased(record: Record, made: Sequence[tuple[str, Callable[[Any], Any]]], dialect: ChangeDialect) -> Record:
    if isinstance(record, BrokenRecord):
        return record
    name = ""
    try:
        for row in dialect.rows(record):
            for name, convert in made:
                if row[name] is not None:
                    row[name] = convert(row[name])
    except NoTime as error:
        message = f"Column {name[:100]} holds a value that can't be kept"
        return BrokenRecord(record, UndecodableValue(message, column=name[:100], cause=str(error)))
    return record


Make = Callable[[Sequence[dict[str, Any]], Sequence[int]], pa.RecordBatch]


@dataclass(frozen=True)
class BadRow:
    """A record that can't be merged: its place in the object, and why. `value` is the record, or its bytes."""

    record: int
    error: SluiceError
    value: Any


def sound_batch(
    records: Sequence[Record], numbers: Sequence[int], make: Make, *, limit: int, before: int = 0
) -> tuple[pa.RecordBatch | None, list[BadRow]]:
    """The batch of all records that `make` accepts, and the others. `numbers` are the records' places in the object.

    A sound chunk costs one call. Otherwise halves are tried, so that a bad record costs two calls per level. Raises
    TooManyBadRows when there are more than `limit` with the `before` of earlier chunks, and errors that a retry may
    pass.
    """
    broken = [
        BadRow(number, record.error, record.content)
        for record, number in zip(records, numbers)
        if isinstance(record, BrokenRecord)
    ]
    _within(broken, before, limit)
    if broken:
        pairs = [(record, number) for record, number in zip(records, numbers) if not isinstance(record, BrokenRecord)]
        records, numbers = [record for record, _ in pairs], [number for _, number in pairs]
    sound: Sequence[dict[str, Any]] = records  # type: ignore[assignment]  # broken records have been removed
    if not sound:
        return None, broken
    made = _made(sound, numbers, make)
    if isinstance(made, pa.RecordBatch):
        return made, broken
    bad = broken + _bad(sound, numbers, make, before + len(broken), limit)
    taken = {row.record for row in bad}
    remaining = [(record, number) for record, number in zip(sound, numbers) if number not in taken]
    if not remaining:
        return None, bad
    return make([record for record, _ in remaining], [number for _, number in remaining]), bad


def _bad(
    records: Sequence[dict[str, Any]], numbers: Sequence[int], make: Make, before: int, limit: int
) -> list[BadRow]:
    """The bad ones among records of which at least one is bad."""
    bad_rows: list[BadRow] = []
    pending = [(0, len(records))]
    while pending:
        start, end = pending.pop()
        made = _made(records[start:end], numbers[start:end], make)
        if isinstance(made, pa.RecordBatch):
            continue
        if end - start == 1:
            bad_rows.append(BadRow(numbers[start], made, records[start]))
            _within(bad_rows, before, limit)
        else:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
    return bad_rows


def _made(records: Sequence[dict[str, Any]], numbers: Sequence[int], make: Make) -> pa.RecordBatch | SluiceError:
    """The batch, or the error of a bad record. Raises retriable errors, and ExpansionLimit."""
    try:
        return make(records, numbers)
    except SluiceError as error:
        if error.retriable or isinstance(error, ExpansionLimit):  # caused by all of them together
            raise
        return error
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, pa.ArrowException) as error:
        # A conversion raises these for a value that doesn't match the schema, and the same at every attempt.
        return _undecodable(records[0], numbers[0], error)


def _undecodable(record: Mapping[str, Any], number: int, error: Exception) -> UndecodableValue:
    """The error of one record, or of the first of several, whose own are found after it."""
    if not isinstance(error, UnicodeEncodeError):
        return UndecodableValue("A value doesn't match its schema", record=number, cause=repr(error)[:200])
    sides = (record, *(side for side in (record.get("after"), record.get("before")) if isinstance(side, Mapping)))
    column = next((name for side in sides for name, value in side.items() if _is_no_utf8(value)), None)
    if column is None:
        return UndecodableValue("A value holds text that is not UTF-8", record=number)
    return UndecodableValue(f"Column {column} holds text that is not UTF-8", record=number, column=column)


def _is_no_utf8(value: Any) -> bool:
    return isinstance(value, str) and any("\udc80" <= character <= "\udcff" for character in value)


def _within(bad_rows: Sequence[BadRow], before: int, limit: int) -> None:
    if bad_rows and before + len(bad_rows) > limit:
        last = bad_rows[-1]
        raise TooManyBadRows(
            f"More than {limit} records can't be merged; one of them, record {last.record}: {last.error.message}",
            limit=limit,
            last_code=last.error.code,
            record=last.record,
        )
