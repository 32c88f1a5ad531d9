"""Measures the columns of a Parquet file by its page headers. pyarrow believes those, whatever the footer says.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, PageHeader
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit
from sluice_formats.errors import DamagedParquet, UnsupportedParquet
from sluice_formats.parquet_footer import (
    BYTE_ARRAY,
    DELTA_BYTE_ARRAY,
    DICTIONARIES,
    FIXED_LEN_BYTE_ARRAY,
    ColumnChunk,
    DamagedThrift,
    Footer,
    Kept,
    decode_struct_at,
)

MAX_PAGES = 500_000  # of a file: some ten seconds of reading headers

_COUNTS = Kept({1: None, 2: None, 4: None})  # values, and the encoding: field 2, in version 2 field 4
_HEADER = Kept({1: None, 2: None, 3: None, 5: _COUNTS, 7: _COUNTS, 8: _COUNTS})
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DETAIL = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}


class _Page(NamedTuple):
    kind: int
    unpacked_bytes: int
    values: int
    encoding: int


def measured(body: bytes, footer: Footer, limits: Limits) -> Footer:
    """The footer with each column's values, bytes and encodings as its pages have them, where those are more.

    Raises ExpansionLimit for pages that would take more memory than the limits allow, DamagedParquet for headers that
    can't be read, and UnsupportedParquet beyond MAX_PAGES.
    """
    chunks: list[ColumnChunk] = []
    resident: defaultdict[str, int] = defaultdict(int)  # of each column: pyarrow holds a page of all at a time
    count = 0
    for chunk in footer.chunks:
        largest: dict[int, int] = {}
        unpacked = values = width = 0
        encodings: set[int] = set()
        for page in _pages(body, chunk):
            count += 1
            if count > MAX_PAGES:
                raise UnsupportedParquet(f"The Parquet file has more than {MAX_PAGES:,} pages", limit=MAX_PAGES)
            if page.unpacked_bytes > limits.block_bytes:
                message = f"A page of the object takes more than {limits.block_bytes:,} bytes"
                raise ExpansionLimit.beyond("block_bytes", message, limits.block_bytes)
            unpacked += page.unpacked_bytes
            largest[page.kind] = max(largest.get(page.kind, 0), page.unpacked_bytes)
            if page.kind == _DICTIONARY:
                width = -(-page.unpacked_bytes // max(page.values, 1))
            else:
                values += page.values
                encodings.add(page.encoding)
        referring = not encodings.isdisjoint(DICTIONARIES)
        if referring and chunk.physical == FIXED_LEN_BYTE_ARRAY:  # each reference becomes a copy of its value
            unpacked = max(unpacked, values * width)
        resident[chunk.path] = max(resident[chunk.path], sum(largest.values()))
        chunks.append(
            chunk._replace(
                values=max(chunk.values, values),
                unpacked_bytes=max(chunk.unpacked_bytes, unpacked),
                by_reference=chunk.by_reference or referring and chunk.physical == BYTE_ARRAY,
                shared_prefixes=chunk.shared_prefixes or DELTA_BYTE_ARRAY in encodings,
            )
        )
    most = limits.decoded_bytes // 2
    if sum(resident.values()) > most:
        message = f"A page of each of the object's columns takes together more than {most:,} bytes"
        raise ExpansionLimit.beyond("decoded_bytes", message, most)
    total = max(footer.unpacked_bytes, sum(chunk.unpacked_bytes for chunk in chunks))
    return replace(footer, unpacked_bytes=total, chunks=tuple(chunks))


def _pages(body: bytes, chunk: ColumnChunk) -> Iterator[_Page]:
    """The pages of a column chunk, until all values that the footer counts were seen, as pyarrow reads them."""
    at, end, seen = chunk.begin, min(chunk.begin + chunk.stored_bytes, len(body)), 0
    while at < end and seen < chunk.values:
        try:
            header, at = decode_struct_at(body, at, _HEADER)
            page = _page(header)
            at += int(header[3])
        except (DamagedThrift, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise DamagedParquet(
                "A page header of the Parquet file can't be read", column=chunk.path[:100], byte=at
            ) from error
        if page is None:
            continue
        if page.kind != _DICTIONARY:
            seen += page.values
        yield page


def _page(header: Mapping[int, Any]) -> _Page | None:
    """What a header says of its page; None for an index page, which pyarrow passes over."""
    kind, unpacked, stored = int(header[1]), int(header[2]), int(header[3])
    if unpacked < 0 or stored < 0:
        raise ValueError("a page of less than no byte")
    if kind not in _DETAIL:
        return None
    detail = header[_DETAIL[kind]]
    values = int(detail[1])
    if values < 0:
        raise ValueError("a page of less than no value")
    return _Page(kind, unpacked, values, int(detail.get(4 if kind == _DATA_V2 else 2, 0)))
