"""What every format's reader gives: the writer's schema, how many records there are, and the records in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Union

from sluice.avro_schema import WriterSchema
from sluice.errors import SluiceError

CHUNK_BYTES = 32 * 1024**2  # of records as they were decompressed, likewise
CHUNK_ROWS = 20_000  # decoded records held as Python objects at a time; what is done is kept as Arrow
CHUNK_CELLS = 2_000_000  # of them: a record of thousands of fields takes a hundred kilobytes, whatever its bytes are


def most_rows(columns: int) -> int:
    """How many decoded records of so many columns are held at a time."""
    return max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(columns, 1)))


@dataclass(frozen=True)
class BrokenRecord:
    """A record whose bytes could not be made into fields, or not all of them; the records around it could."""

    content: Union[bytes, Dict[str, Any]]
    error: SluiceError


Record = Union[Dict[str, Any], BrokenRecord]


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


def chunked(writer: WriterSchema, blocks: Iterable[List[Dict[str, Any]]]) -> Iterator[Chunk]:
    """The same records in pieces of at least as many as are held at a time, and a rest: no piece is empty. An empty block ends a piece."""
    most = most_rows(len(writer.row.columns))
    held: List[List[Dict[str, Any]]] = []
    rows = 0
    for block in blocks:
        held.append(block)
        rows += len(block)
        if rows >= most or rows and not block:
            yield Chunk(writer, list(chain.from_iterable(held)))
            held, rows = [], 0
    if rows:
        yield Chunk(writer, list(chain.from_iterable(held)))
