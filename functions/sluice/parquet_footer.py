"""Reads the footer of a Parquet file from its last bytes: rows, size, and the writer schema in Avro form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from sluice.errors import SluiceError
from sluice.parquet_schema import avro_form
from sluice.thrift_compact import DamagedThrift, decode_struct

MAGIC, ENCRYPTED = b"PAR1", b"PARE"
TAIL_BYTES = 8  # the footer's length and the magic
MAX_FOOTER_BYTES = 4 * 1024**2
# What the sinks' Parquet writer (parquet-avro, AvroWriteSupport) leaves of the schema that it wrote with; the second is its older name.
_AVRO_KEYS = (b"parquet.avro.schema", b"avro.schema")
_UNREADABLE_CODECS = {3: "LZO"}
# parquet.thrift: of the enumerations Type and Encoding.
_BYTE_ARRAY = 6
_DICTIONARIES, _DELTA_BYTE_ARRAY = (2, 8), 7


class NotParquet(SluiceError):
    """The object doesn't end as a Parquet file; facts: `ends`, the last bytes in hexadecimal."""

    code = "not_parquet"
    next_step = "Configure the connector's format, or let the table's rule leave these keys out"


class DamagedParquet(SluiceError):
    """A Parquet file whose footer or data can't be read."""

    code = "damaged_parquet"
    next_step = "Have the writer put the object again"


class UnsupportedParquet(SluiceError):
    """A Parquet file that is sound and can't be read here: encrypted, a codec that nothing here has, a footer too long."""

    code = "unsupported_parquet"
    next_step = "Let the connector write Parquet with snappy, gzip or zstd, unencrypted, in smaller objects"


@dataclass(frozen=True)
class ColumnChunk:
    """One column of one row group: its path, how many values it has, its bytes without compression, and how they are encoded."""

    path: str
    values: int
    unpacked_bytes: int
    by_reference: bool  # texts or bytes in a dictionary: a value stands once, however often it comes
    shared_prefixes: bool


@dataclass(frozen=True)
class Footer:
    """What a file says of itself. `schema` is the writer's, `unpacked_bytes` what its columns come to without compression."""

    schema: Mapping[str, Any]
    rows: int
    unpacked_bytes: int
    chunks: Tuple[ColumnChunk, ...] = ()


def footer_bytes(tail: bytes, whole: bool) -> int:
    """How many of the last bytes hold footer and tail. Raises NotParquet, UnsupportedParquet."""
    if tail.endswith(ENCRYPTED) and len(tail) >= TAIL_BYTES:
        raise UnsupportedParquet("The Parquet file is encrypted")
    if not tail.endswith(MAGIC) or whole and (not tail.startswith(MAGIC) or len(tail) < len(MAGIC) + TAIL_BYTES):
        raise NotParquet("The object is not a Parquet file", ends=tail[-16:].hex(), empty=not tail)
    length = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little") + TAIL_BYTES
    if length > MAX_FOOTER_BYTES:
        raise UnsupportedParquet(f"The Parquet footer is longer than {MAX_FOOTER_BYTES} bytes", bytes=length)
    if whole and length > len(tail) - len(MAGIC):
        raise DamagedParquet("The Parquet footer is longer than the file", bytes=length)
    return length


def read_footer(tail: bytes, whole: bool) -> Footer:
    """Read a footer that lies within `tail`. Raises what `footer_bytes` raises, DamagedParquet and UnusableSchema."""
    length = footer_bytes(tail, whole)
    try:
        found = decode_struct(tail[-length:-TAIL_BYTES])
        groups: List[Mapping[int, Any]] = found.get(4, [])
        for group in groups:
            for chunk in group[1]:
                if chunk[3][4] in _UNREADABLE_CODECS:
                    raise UnsupportedParquet(f"The Parquet file is compressed by {_UNREADABLE_CODECS[chunk[3][4]]}")
        schema = _written(found.get(5)) or avro_form(found[2])
        chunks = tuple(_chunk(chunk[3]) for group in groups for chunk in group[1])
        return Footer(schema, int(found[3]), sum(int(group[2]) for group in groups), chunks)
    except (DamagedThrift, KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise DamagedParquet("The Parquet footer can't be read", cause=repr(error)[:200]) from error


def _chunk(told: Mapping[int, Any]) -> ColumnChunk:
    """Of a ColumnMetaData. pyarrow tells the same, and ends the whole process where these fields contradict each other."""
    encodings = set(told[2])
    return ColumnChunk(
        ".".join(part.decode("utf-8") for part in told[3]),
        int(told[5]),
        int(told[6]),
        told[1] == _BYTE_ARRAY and not encodings.isdisjoint(_DICTIONARIES),
        _DELTA_BYTE_ARRAY in encodings,
    )


def _written(pairs: Any) -> Optional[Dict[str, Any]]:
    """The Avro schema that the writer left beside its own: with the connector's semantic names, which Parquet has no place for."""
    values = {pair[1]: pair.get(2) for pair in pairs or ()}
    for key in _AVRO_KEYS:
        if values.get(key):
            schema = json.loads(values[key])
            if not isinstance(schema, dict):
                raise ValueError("its Avro schema is no record")
            return schema
    return None
