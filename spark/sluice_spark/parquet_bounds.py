"""Keeps what a Parquet file becomes within limits: some kilobytes of it can say gigabytes of rows."""

from __future__ import annotations

from typing import Any, Iterator, List

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.errors import ExpansionLimit
from sluice.limits import Limits
from sluice.parquet_footer import DamagedParquet, Footer

_FEWEST_ROWS = 16


def bounded_batches(
    body: bytes, footer: Footer, limits: Limits, rows: int, weight: int = 1
) -> Iterator[pa.RecordBatch]:
    """The file's records in batches of at most `rows`. `weight` is what a value takes in memory (decoded_weight.py). Raises ExpansionLimit, and what pyarrow raises for a damaged file.

    Values of a dictionary stay references until it is known what they come to: a value of a megabyte
    that every row refers to is stored once. The sizes in the footer are believed.
    """
    if footer.rows > limits.object_rows:
        raise ExpansionLimit(
            f"The object holds more than {limits.object_rows:,} records", limit=limits.object_rows, unit="records"
        )
    values = max((chunk.values for chunk in footer.chunks), default=0)
    if values > limits.block_bytes // weight:
        raise ExpansionLimit(
            f"A column of the object holds {values:,} values", limit=limits.block_bytes // weight, unit="values"
        )
    by_reference = sorted({chunk.path for chunk in footer.chunks if chunk.by_reference})
    prefixed = max((chunk.unpacked_bytes for chunk in footer.chunks if chunk.shared_prefixes), default=0)
    if prefixed:  # each value may repeat all but a byte of the one before it
        rows = max(_FEWEST_ROWS, min(rows, limits.block_bytes // prefixed))
    file = pq.ParquetFile(pa.BufferReader(body), read_dictionary=by_reference)
    if file.metadata.num_rows > limits.object_rows:
        raise DamagedParquet("The Parquet footer says two numbers of rows", rows=file.metadata.num_rows)
    for batch in file.iter_batches(batch_size=rows, use_threads=False):
        if sum(map(_whole_bytes, batch.columns)) > limits.block_bytes:
            raise ExpansionLimit(
                f"{batch.num_rows:,} records of the object take more than {limits.block_bytes:,} bytes",
                limit=limits.block_bytes,
                unit="bytes",
            )
        yield batch


def _whole_bytes(column: Any) -> int:
    """What a column takes once its references are values."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)
    return sum(map(_whole_bytes, _members(column))) or column.nbytes


def _members(column: Any) -> List[Any]:
    if pa.types.is_map(column.type):
        return [column.keys, column.items]
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return [column.values]
    return list(column.flatten()) if pa.types.is_struct(column.type) else []
