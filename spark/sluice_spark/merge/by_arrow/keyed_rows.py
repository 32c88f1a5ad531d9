"""Stored rows by key, and values of Arrow as Python's: as counts, where Python's own types end at year 9999."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden

Key = tuple[Any, ...]


@dataclass(frozen=True)
class StoredRow:
    """The stored row of a key: its position, what it owes, Hudi's text of its key, and the number of its file.

    `partition` and `source_ts_ms` are those of the change that it is from, None without lineage. `values` are those of
    the columns that were asked for, as counts (`as_counts`).
    """

    position: str
    owed: str | None
    record_key: str
    file: int
    partition: int | None = None
    source_ts_ms: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)


def keys_of(rows: pa.Table, record_key: Sequence[str]) -> list[Key]:
    """Each row's key, as values that compare: dates and times are counts, since Python's own end at year 9999."""
    return list(zip(*(as_counts(flat(rows.column(name))).to_pylist() for name in record_key)))


def as_counts(values: pa.Array) -> pa.Array:
    """Dates as days and timestamps as microseconds since 1970, in lists too; other values as they are."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    if pa.types.is_date(values.type):
        return values.cast(pa.int32())
    if not pa.types.is_list(values.type):
        return values
    items = as_counts(values.values)
    return pa.Array.from_buffers(
        pa.list_(items.type), len(values), values.buffers()[:2], values.null_count, values.offset, children=[items]
    )


def from_counts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows of values that are counts (`as_counts`); a column that one lacks is null."""
    counted = [as_counts(pa.nulls(0, item.type)).type for item in schema]
    return pa.table(
        [pa.array([row.get(item.name) for row in rows], kind).cast(item.type) for item, kind in zip(schema, counted)],
        schema=schema,
    )


def flat(values: Any) -> pa.Array:
    """One array; a column of a table is chunked in some releases of Arrow, even when it has one chunk."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays([*values.chunks, pa.array([], values.type)])


def as_tombstones(rows: pa.Table, *, record_key: Collection[str]) -> pa.Table:
    """The rows with null in all but the key and the hidden columns of deleted ones."""
    deleted = flat(rows.column(hidden.DELETED))
    if not pc.any(deleted).as_py():
        return rows
    kept_columns = {*record_key, *hidden.NAMES, hidden.UNCHANGED, hidden.INEXACT}
    alive = pc.if_else(deleted, pa.scalar(None, pa.int64()), pa.array(range(len(deleted)), pa.int64()))
    arrays = [
        rows.column(name)
        if name in kept_columns
        else rows.column(name).take(alive)  # `if_else` lacks lists in some releases
        for name in rows.schema.names
    ]
    return pa.table(arrays, schema=rows.schema)
