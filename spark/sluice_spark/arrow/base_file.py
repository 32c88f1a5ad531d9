"""Makes Hudi base files of Arrow tables: Parquet as Hudi's Avro writer makes it, with Hudi's own columns.

Hudi's row writer, which has no Avro schema in the footer, makes the same columns with the same types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.changes import hidden_columns as hidden

# Key types whose text is the same in Java, Arrow and Python.
PLAIN_KEYS = frozenset(("string", "int", "bigint"))
# Hudi's defaults, which are parquet-mr's but for the first.
_ROW_GROUP_BYTES, _PAGE_BYTES = 120 * 1024**2, 1024**2
_CODEC = "zstd"  # as `sluice.hudi.options` has it
_CODEC_LEVEL = 3  # parquet-mr's
# A dictionary of columns whose values all differ takes time and no space off the file.
_DISTINCT = frozenset(("_hoodie_commit_seqno", "_hoodie_record_key", hidden.POSITION, hidden.OFFSET))


def can_write() -> bool:
    """Whether this pyarrow can write Hudi's footer keys: from release 16 on."""
    return hasattr(pq.ParquetWriter, "add_key_value_metadata")


def has_plain_key(types: Mapping[str, str], record_key: Sequence[str]) -> bool:
    """Whether `key_text` makes the same text as Hudi's key generator; `types` are Spark's names, by column."""
    return all(types.get(name) in PLAIN_KEYS for name in record_key)


def key_text(rows: pa.Table, record_key: Sequence[str]) -> pa.ChunkedArray:
    """The rows' record keys as Hudi's key generator for unpartitioned tables writes them; `has_plain_key` holds."""
    texts = [rows.column(name).cast(pa.string()) for name in record_key]
    if len(texts) == 1:
        return texts[0]
    named = [part for name, text in zip(record_key, texts) for part in (pa.scalar(f",{name}:"), text)]
    named[0] = pa.scalar(f"{record_key[0]}:")
    return pc.binary_join_element_wise(*named, "")


def parquet_of(
    rows: pa.Table, keys: pa.ChunkedArray, *, instant: str, file_name: str, number: int, avro_schema: str
) -> pa.Buffer:
    """The base file of these rows, in this order, for an unpartitioned table.

    `number` is unique among the commit's files. `avro_schema` (JSON) has Hudi's columns in front of the rows' own;
    columns that aren't unions there are required.
    """
    count = rows.num_rows
    numbers = pa.array(range(1, count + 1), pa.int64()).cast(pa.string())
    own = {
        "_hoodie_commit_time": _repeated(instant, count),
        "_hoodie_commit_seqno": pc.binary_join_element_wise(pa.scalar(f"{instant}_{number}"), numbers, "_"),
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": _repeated("", count),
        "_hoodie_file_name": _repeated(file_name, count),
    }
    schema = pa.schema([pa.field(name, pa.string()) for name in own] + list(rows.schema))
    made = pa.Table.from_arrays([*own.values(), *rows.columns], schema=schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        version="1.0",
        compression=_CODEC,
        compression_level=_CODEC_LEVEL,
        use_dictionary=[name for name in schema.names if name not in _DISTINCT],
        data_page_size=_PAGE_BYTES,
        write_page_index=True,
        store_schema=False,
    ) as writer:
        writer.write_table(made, max(1, count * _ROW_GROUP_BYTES // max(made.nbytes, _ROW_GROUP_BYTES)))
        writer.add_key_value_metadata({"parquet.avro.schema": avro_schema, "writer.model.name": "avro"})
    return sink.getvalue()


def _repeated(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text), count)
