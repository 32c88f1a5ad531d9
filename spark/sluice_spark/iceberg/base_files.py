"""Looks at Hudi's base files for Iceberg: rows, bounds of the partition columns, and the positions of deleted rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.changes.hidden_columns import DELETED
from sluice.hudi.file_slices import DataFile
from sluice.iceberg.manifests import PATH_ID, POSITION_ID, ColumnBounds, SeenFile, bounds_of
from sluice.iceberg.metadata import deletes_file
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi.table_files import open_parquet, write_file

_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)


def stem_of(file: DataFile) -> str:
    """A file's name without its ending."""
    return file.path.rpartition("/")[2].rpartition(".")[0]


def seen_file(
    objects: Objects, uri: str, file: DataFile, *, bounded: Mapping[str, tuple[int, Any]], metadata_uri: str
) -> SeenFile:
    """A base file of the table at `uri`, after its position deletes are written into `metadata_uri`, if it needs any.

    `bounded` has the id and the Iceberg type of columns by name.
    """
    path = f"{uri}/{file.path}"
    opened = open_parquet(objects, path, file.size)
    bounds = {column: _bounds(opened.metadata, name, kind) for name, (column, kind) in bounded.items()}
    positions = deleted_positions(opened)
    deletes = None
    if len(positions):
        body = _deletes(path, positions)
        deletes = SeenFile(f"{metadata_uri}/{deletes_file(stem_of(file))}", len(positions), len(body))
        write_file(objects, deletes.path, body)
    there = {column: made for column, made in bounds.items() if made is not None}
    return SeenFile(path, opened.metadata.num_rows, file.size, there, deletes)


def deleted_positions(file: pq.ParquetFile) -> pa.Array:
    """The positions of a file's deleted rows, from 0. Row groups without any are known by their statistics."""
    chunks, start = [], 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        statistics = _statistics(group, DELETED)
        if statistics is None or statistics.max is not False:
            deleted = file.read_row_group(number, columns=[DELETED]).column(DELETED).combine_chunks()
            chunks.append(pc.add(pc.indices_nonzero(deleted).cast(pa.int64()), start))
        start += group.num_rows
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.int64())


def _deletes(path: str, positions: pa.Array) -> bytes:
    paths = pa.repeat(pa.scalar(path), len(positions))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([paths, positions], schema=_DELETES), sink, compression="zstd")
    return bytes(sink.getvalue())


def _bounds(footer: pq.FileMetaData, name: str, kind: Any) -> ColumnBounds | None:
    """The bounds of a column; None where a row group has none of it."""
    groups: Sequence[Any] = [_statistics(footer.row_group(number), name) for number in range(footer.num_row_groups)]
    if any(statistics is None or not statistics.has_null_count for statistics in groups):
        return None
    held = [statistics for statistics in groups if statistics.has_min_max]
    nulls = sum(statistics.null_count for statistics in groups)
    if len(held) < len(groups) and nulls < footer.num_rows:
        return None
    try:
        least = min((statistics.min for statistics in held), default=None)
        greatest = max((statistics.max for statistics in held), default=None)
    except (OverflowError, ValueError):  # a date or time beyond the years of Python's
        return None
    return bounds_of(least, greatest, nulls, kind=kind)


def _statistics(group: pq.RowGroupMetaData, name: str) -> Any:
    """The statistics of a row group's column; None without any."""
    for number in range(group.num_columns):
        chunk = group.column(number)
        if chunk.path_in_schema == name:
            return chunk.statistics if chunk.is_stats_set else None
    return None
