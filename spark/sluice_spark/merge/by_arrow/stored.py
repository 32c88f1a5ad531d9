"""Finds the stored rows of a batch's keys in file slices, reading only the key and Sluice's own columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.changes import hidden_columns as hidden
from sluice.hudi.file_slices import Committed
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi.logs import RECORD_KEY, UnreadableLog, rows_in_logs
from sluice_spark.hudi.table_files import open_parquet, read_file
from sluice_spark.merge.by_arrow.decide import Key, StoredRow, as_counts, keys_of
from sluice_spark.merge.by_arrow.rows import LeftToSpark

_READ = (hidden.POSITION, hidden.OWED, RECORD_KEY, hidden.PARTITION, hidden.SOURCE_TS_MS)


@dataclass(frozen=True)
class SliceFiles:
    """The files of a slice by URI: its base file, of `size` bytes, and its logs, oldest first."""

    base: str
    size: int
    logs: tuple[str, ...] = ()


def rows_of_slice(
    objects: Objects,
    token: str,
    number: int,
    files: SliceFiles,
    *,
    wanted: pa.Table,
    record_key: Sequence[str],
    keys: Mapping[str, Key],
    committed: Committed,
) -> list[tuple[Key, StoredRow]] | None:
    """The rows of a slice with the keys of `wanted`, each with its key; None where only Hudi reads its logs.

    `keys` are those of `wanted` by Hudi's text of them, and needed for logs. The arguments in front are those of
    `FileWork.each`.
    """
    rows_by_key = dict(rows_in(open_parquet(objects, files.base, files.size), wanted, record_key, number))
    if not files.logs:
        return list(rows_by_key.items())
    try:
        logged = rows_in_logs((read_file(objects, log) for log in files.logs), keys=keys, holds=committed.holds)
    except UnreadableLog:
        return None
    for text, row in logged.items():
        key = keys[text]
        held = rows_by_key.get(key)
        if row is None:
            rows_by_key.pop(key, None)
        elif held is None or row.position >= held.position:
            rows_by_key[key] = StoredRow(row.position, row.owed, text, number, row.partition, row.source_ts_ms)
    return list(rows_by_key.items())


def rows_in(
    file: pq.ParquetFile, wanted: pa.Table, record_key: Sequence[str], number: int
) -> list[tuple[Key, StoredRow]]:
    """The rows of a base file with the keys of `wanted`, each with its key."""
    wanted_keys = set(keys_of(wanted, record_key))
    # An older file may have a narrower type than the table.
    types = pa.schema([wanted.schema.field(name) for name in record_key])
    keyed_rows = []
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
                keyed_rows.append((key, StoredRow(position, owed, text, number, partition, source_ts_ms)))
    return keyed_rows


def by_key(rows: Iterable[tuple[Key, StoredRow]]) -> dict[Key, StoredRow]:
    """The stored rows of all files by key. Raises LeftToSpark for a key that is stored twice."""
    rows_by_key: dict[Key, StoredRow] = {}
    for key, row in rows:
        if key in rows_by_key:
            raise LeftToSpark("stored_twice")  # without the key: the reason is logged
        rows_by_key[key] = row
    return rows_by_key


def _places(keys: pa.Table, newest: pa.Table, name: str) -> pa.Array:
    """The numbers of the rows whose first column of the key is one of the wanted."""
    wanted = as_counts(newest.column(name).combine_chunks())
    stored = as_counts(keys.column(name).combine_chunks())
    return pc.indices_nonzero(pc.is_in(stored, value_set=wanted))
