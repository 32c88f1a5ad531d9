"""What every format's reader gives: the writer's schema, how many records there are, and the records in chunks.

Takes out of a chunk of records those that can't be merged, so that each costs itself and not its object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Callable, Union

import pyarrow as pa

from sluice.errors import ExpansionLimit, SluiceError
from sluice.schema.avro import WriterSchema
from sluice_formats.errors import TooManyBadRows, UndecodableValue

CHUNK_BYTES = 32 * 1024**2  # of records as they were decompressed, likewise
CHUNK_ROWS = 20_000  # decoded records held as Python objects at a time; what is done is kept as Arrow
CHUNK_CELLS = 2_000_000  # of them: a record of thousands of fields takes a hundred kilobytes, whatever its bytes are


def most_rows(columns: int) -> int:
    """How many decoded records of so many columns are held at a time."""
    return max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(columns, 1)))


@dataclass(frozen=True)
class BrokenRecord:
    """A record whose bytes could not be made into fields, or not all of them; the records around it could."""

    content: bytes | dict[str, Any]
    error: SluiceError


Record = Union[dict[str, Any], BrokenRecord]


@dataclass(frozen=True)
class Chunk:
    """Some consecutive records that one writer schema describes. Of an Avro object that is one and the same."""

    writer: WriterSchema
    records: Sequence[Record]


@dataclass(frozen=True)
class Records:
    """One object's records in order. They can be gone through once.

    Values are what Avro decodes to without the meaning of a logical type, whatever the format is: days, counts
    of time units and unscaled bytes. `count` raises as `chunks` does, but may find fewer of the mistakes; it may be
    called before them and costs far less. A record that alone is damaged is a BrokenRecord in its place.
    """

    count: Callable[[], int]
    chunks: Iterator[Chunk]


def chunked(writer: WriterSchema, blocks: Iterable[list[dict[str, Any]]]) -> Iterator[Chunk]:
    """The same records in pieces of at least as many as are held at a time, and a rest: no piece is empty. An empty block ends a piece."""
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


Make = Callable[[Sequence[dict[str, Any]], Sequence[int]], pa.RecordBatch]


@dataclass(frozen=True)
class BadRow:
    """A record that can't be merged: its place in the object, and why. `value` is the record, or its bytes if it isn't one."""

    record: int
    error: SluiceError
    value: Any


def sound_batch(
    records: Sequence[Record], numbers: Sequence[int], make: Make, *, limit: int, before: int = 0
) -> tuple[pa.RecordBatch | None, list[BadRow]]:
    """The batch of all records that `make` takes, and the others. `numbers` are the records' places in the object.

    A chunk without trouble costs one call. Else halves are tried, so that one bad record costs about two
    calls more. Raises TooManyBadRows beyond `limit`, of which the object's earlier chunks had `before`,
    and what may pass by itself.
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
    sound: Sequence[dict[str, Any]] = records  # type: ignore[assignment]  # what is broken has been taken out
    if not sound:
        return None, broken
    made = _made(sound, numbers, make)
    if isinstance(made, pa.RecordBatch):
        return made, broken
    bad = broken + _bad(sound, numbers, make, before + len(broken), limit)
    taken = {row.record for row in bad}
    kept = [(record, number) for record, number in zip(sound, numbers) if number not in taken]
    if not kept:
        return None, bad
    return make([record for record, _ in kept], [number for _, number in kept]), bad


def _bad(
    records: Sequence[dict[str, Any]], numbers: Sequence[int], make: Make, before: int, limit: int
) -> list[BadRow]:
    """The bad ones among records of which at least one is bad."""
    found: list[BadRow] = []
    pending = [(0, len(records))]
    while pending:
        start, end = pending.pop()
        made = _made(records[start:end], numbers[start:end], make)
        if isinstance(made, pa.RecordBatch):
            continue
        if end - start == 1:
            found.append(BadRow(numbers[start], made, records[start]))
            _within(found, before, limit)
        else:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
    return found


def _made(records: Sequence[dict[str, Any]], numbers: Sequence[int], make: Make) -> pa.RecordBatch | SluiceError:
    """The batch, or why there is none. What may pass by itself is raised."""
    try:
        return make(records, numbers)
    except SluiceError as error:
        if error.retriable or isinstance(error, ExpansionLimit):  # of all of them together: no single one is to blame
            raise
        return error
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, pa.ArrowException) as error:
        # Whatever a conversion makes of a value that isn't what the schema says: it is the same at every attempt.
        return UndecodableValue("A value is not what its schema says", record=numbers[0], cause=repr(error)[:200])


def _within(found: Sequence[BadRow], before: int, limit: int) -> None:
    if found and before + len(found) > limit:
        last = found[-1]
        raise TooManyBadRows(
            f"More than {limit} records can't be merged; one of them: {last.error.message}",
            limit=limit,
            last_code=last.error.code,
            record=last.record,
        )
