"""Finds the stored rows of a batch's keys in base files, reading only the key and Sluice's own columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.changes import hidden_columns as hidden
from sluice_spark.hudi.few_rows import RECORD_KEY
from sluice_spark.merge.by_arrow.decide import Key, StoredRow, as_counts, keys_of
from sluice_spark.merge.by_arrow.rows import LeftToSpark

_READ = (hidden.POSITION, hidden.OWED, RECORD_KEY, hidden.PARTITION, hidden.SOURCE_TS_MS)


def rows_in(body: bytes, wanted: pa.Table, record_key: Sequence[str], number: int) -> list[tuple[Key, StoredRow]]:
    """The rows of a base file with the keys of `wanted`, each with its key; `body` is the file, whole."""
    file, wanted_keys = pq.ParquetFile(pa.BufferReader(body)), set(keys_of(wanted, record_key))
    # An older file may have a narrower type than the table.
    types = pa.schema([wanted.schema.field(name) for name in record_key])
    found = []
    for group in range(file.num_row_groups):
        keys = file.read_row_group(group, columns=list(record_key), use_threads=False)
        keys = keys.select(list(record_key)).cast(types)
        places = _places(keys, wanted, record_key[0])
        if not len(places):
            continue
        own = file.read_row_group(group, columns=list(_READ), use_threads=False)
        for key, row in zip(keys_of(keys.take(places), record_key), own.take(places).to_pylist()):
            if key in wanted_keys:
                position, owed, text, partition, source_ts_ms = (row.get(name) for name in _READ)
                found.append((key, StoredRow(position, owed, text, number, partition, source_ts_ms)))
    return found


def by_key(rows: Iterable[tuple[Key, StoredRow]]) -> dict[Key, StoredRow]:
    """The stored rows of all files by key. Raises LeftToSpark for a key that is stored twice."""
    found: dict[Key, StoredRow] = {}
    for key, row in rows:
        if key in found:
            raise LeftToSpark("stored_twice")  # without the key: the reason is logged
        found[key] = row
    return found


def _places(keys: pa.Table, newest: pa.Table, name: str) -> pa.Array:
    """The numbers of the rows whose first column of the key is one of the wanted."""
    wanted = as_counts(newest.column(name).combine_chunks())
    stored = as_counts(keys.column(name).combine_chunks())
    return pc.indices_nonzero(pc.is_in(stored, value_set=wanted))
