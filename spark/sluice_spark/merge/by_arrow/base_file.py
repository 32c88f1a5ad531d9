"""Makes Hudi base files of Arrow tables: Parquet as Hudi's Avro writer makes it, with Hudi's own columns.

Hudi's row writer, which has no Avro schema in the footer, makes the same columns with the same types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.schema.temporal import date_text
from sluice_formats.checks.stored_keys import EMPTY_PART, ESCAPED
from sluice_spark.hudi.logs import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY, SEQUENCE

# Types whose text as a partition's folder is known, and as a key, where decimals are, too.
_PLAIN_PARTITIONS = frozenset(("string", "int", "bigint", "date"))
_PLAIN_KEYS = _PLAIN_PARTITIONS | {"boolean", "timestamp"}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # of null and of empty text
# Hudi's defaults, which are parquet-mr's but for the first.
_ROW_GROUP_BYTES, _PAGE_BYTES = 120 * 1024**2, 1024**2
_CODEC = "zstd"  # as `sluice.hudi.options` has it
_CODEC_LEVEL = 3  # parquet-mr's
_FIRST_PAGE_ROWS = 20_000
# Encodings that write out each value, and those of levels.
_ONCE_EACH = frozenset(("PLAIN", "RLE", "BIT_PACKED"))
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 64 * 1024, 32 * 1024**2  # of a file that is rewritten


def can_write() -> bool:
    """Whether this pyarrow can write Hudi's footer keys: from release 17 on."""
    return hasattr(pq.ParquetWriter, "add_key_value_metadata")


def has_plain_key(types: Mapping[str, str], record_key: Sequence[str]) -> bool:
    """Whether `key_text` makes the same text as Hudi's key generator; `types` are Spark's names, by column."""
    kinds = [types.get(name, "") for name in record_key]
    return all(kind in _PLAIN_KEYS or kind.startswith("decimal") for kind in kinds)


def key_text(rows: pa.Table, record_key: Sequence[str]) -> pa.ChunkedArray:
    """The rows' record keys as Hudi's key generators write them; `has_plain_key` holds.

    A key of several columns has no empty part in an unpartitioned table (`check_key_texts`).
    """
    texts = [_key_part(rows.column(name)) for name in record_key]
    if len(texts) == 1:
        return texts[0]
    texts = [pc.if_else(pc.equal(text, ""), EMPTY_PART, text) for text in texts]
    labelled = [part for name, text in zip(record_key, texts) for part in (pa.scalar(f",{name}:"), text)]
    labelled[0] = pa.scalar(f"{record_key[0]}:")
    return pc.binary_join_element_wise(*labelled, "")


def _key_part(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column's values as Java's `toString` has them, timestamps as microseconds since 1970."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.string())
    if pa.types.is_date(kind):
        days = values.cast(pa.int32()).to_pylist()
        texts = [None if day is None else date_text(day, plus=True) for day in days]  # a truncate has no key
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_decimal(kind):  # both languages follow the General Decimal Arithmetic
        return pa.chunked_array([pa.array([str(value) for value in values.to_pylist()], pa.string())])
    return values.cast(pa.string())


def has_plain_partitions(types: Mapping[str, str], partition_by: Sequence[str]) -> bool:
    """Whether `partition_paths` makes the same paths as Hudi's key generator; `types` are Spark's names, by column."""
    return all(types.get(name) in _PLAIN_PARTITIONS for name in partition_by)


def partition_paths(rows: pa.Table, partition_by: Sequence[str]) -> pa.Array:
    """The rows' partition paths as Hudi's key generator writes them; `has_plain_partitions` holds.

    Hive's form: `place=A%2FB/day=2026-01-31` (`values_of` in `sluice.catalog.partitions` reads it).
    """
    if not partition_by:
        return _repeated("", rows.num_rows)
    folders = [_folders(name, rows.column(name)) for name in partition_by]
    return folders[0] if len(folders) == 1 else pc.binary_join_element_wise(*folders, "/")


def _folders(name: str, values: pa.ChunkedArray) -> pa.Array:
    encoded = values.combine_chunks().dictionary_encode()
    is_date = pa.types.is_date(values.type)
    plain = encoded.dictionary.cast(pa.int32()) if is_date else encoded.dictionary
    texts = [date_text(value, plus=True) if is_date else str(value) for value in plain.to_pylist()]
    made = pa.array([f"{name}={''.join(map(_escaped, text)) or _NO_VALUE}" for text in texts], pa.string())
    return pc.fill_null(made.take(encoded.indices), f"{name}={_NO_VALUE}")


def _escaped(character: str) -> str:
    return f"%{ord(character):02X}" if character in ESCAPED else character


def parquet_of(
    rows: pa.Table,
    keys: pa.ChunkedArray,
    *,
    instant: str,
    file_name: str,
    number: int,
    avro_schema: str,
    partition: str = "",
) -> pa.Buffer:
    """The base file of these rows, in this order, in the folder `partition`.

    `number` is unique among the commit's files. `avro_schema` (JSON) has Hudi's columns in front of the rows' own;
    columns that aren't unions there are required.
    """
    made = _with_hudis_columns(rows, keys, instant=instant, file_name=file_name, number=number, partition=partition)
    return _written([made], made.schema, avro_schema)


@dataclass(frozen=True)
class Rewritten:
    """A base file with other rows in it: its bytes and rows, how many replace older ones, and how many are gone."""

    body: pa.Buffer
    rows: int
    updated: int
    removed: int


def rewritten(
    body: bytes,
    rows: pa.Table,
    keys: pa.ChunkedArray,
    *,
    instant: str,
    file_name: str,
    number: int,
    avro_schema: str,
    partition: str = "",
    removed: Collection[str] = (),
) -> Rewritten:
    """The base file `body` with each of the rows in the place of the one with its key, or at the end.

    Rows with the keys `removed` are left out, so that a file can be without rows. The arguments are as in `parquet_of`.
    Rows that stay keep what Hudi's columns say of them but for the file's name, as in Hudi's own rewrite. Holds the
    file before and after, and some row groups' worth of rows.
    """
    new = _with_hudis_columns(rows, keys, instant=instant, file_name=file_name, number=number, partition=partition)
    own_keys = new.column(RECORD_KEY).combine_chunks()
    wanted = pa.concat_arrays([own_keys, pa.array(removed, pa.string())])
    own_places = pa.array(range(_ROWS_AT_ONCE), pa.int64())
    replaced: set[int] = set()
    stored = gone = 0

    def parts() -> Iterator[pa.Table]:
        nonlocal stored, gone
        for batch in _held_batches(body):
            old = _as_now(batch, new.schema, file_name)
            stored += old.num_rows
            index = pc.index_in(old.column(RECORD_KEY), value_set=wanted).combine_chunks()
            if not pc.any(pc.is_valid(index)).as_py():
                yield old
                continue
            leaves = pc.fill_null(pc.greater_equal(index, new.num_rows), False)
            gone += leaves.true_count
            changes = pc.fill_null(pc.less(index, new.num_rows), False)
            numbers = index.filter(changes)
            replaced.update(numbers.to_pylist())
            # The places of the batch's rows among the old ones and, behind them, those that replace some.
            behind = pc.add(pc.cumulative_sum(changes.cast(pa.int64())), old.num_rows - 1)
            places = pc.if_else(changes, behind, own_places.slice(0, old.num_rows)).filter(pc.invert(leaves))
            yield pa.concat_tables([old, new.take(numbers)]).combine_chunks().take(places)
        if len(replaced) < new.num_rows:  # else a row group without rows, which not every reader takes
            yield new.take(pa.array([number for number in range(new.num_rows) if number not in replaced], pa.int64()))

    made = _written(parts(), new.schema, avro_schema)
    return Rewritten(made, stored + new.num_rows - len(replaced) - gone, len(replaced), gone)


def _with_hudis_columns(
    rows: pa.Table, keys: pa.ChunkedArray, *, instant: str, file_name: str, number: int, partition: str = ""
) -> pa.Table:
    count = rows.num_rows
    numbers = pa.array(range(1, count + 1), pa.int64()).cast(pa.string())
    own = {
        COMMIT_TIME: _repeated(instant, count),
        SEQUENCE: pc.binary_join_element_wise(pa.scalar(f"{instant}_{number}"), numbers, "_"),
        RECORD_KEY: keys,
        PARTITION_PATH: _repeated(partition, count),
        FILE_NAME: _repeated(file_name, count),
    }
    schema = pa.schema([pa.field(name, pa.string()) for name in own] + list(rows.schema))
    return pa.Table.from_arrays([*own.values(), *rows.columns], schema=schema)


def _held_batches(body: bytes) -> Iterator[pa.RecordBatch]:
    """A file's rows in batches of about _BYTES_AT_ONCE, and of one row at least.

    Texts that the file has once and repeats stay so: the footer doesn't say how long they are where they are repeated.
    """
    buffer = pa.py_buffer(body)
    footer = pq.read_metadata(pa.BufferReader(buffer))
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    repeated = {chunk.path_in_schema for group in groups for chunk in _chunks(group) if _repeats_texts(chunk)}
    file = pq.ParquetFile(pa.BufferReader(buffer), metadata=footer, read_dictionary=sorted(repeated))
    for number, group in enumerate(groups):
        for batch in file.iter_batches(_rows_at_once(group), row_groups=[number], use_threads=False):
            yield from _in_parts(batch)


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """Fewer where rows are long. A number takes 8 bytes, however few the file has of it."""
    size = sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in _chunks(group))
    return max(1, min(_ROWS_AT_ONCE, group.num_rows * _BYTES_AT_ONCE // max(size, 1)))


def _chunks(group: pq.RowGroupMetaData) -> list[pq.ColumnChunkMetaData]:
    return [group.column(number) for number in range(group.num_columns)]


def _repeats_texts(chunk: pq.ColumnChunkMetaData) -> bool:
    return chunk.physical_type == "BYTE_ARRAY" and not _ONCE_EACH.issuperset(chunk.encodings)


def _in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and sum(map(_written_out, batch.columns)) > _BYTES_AT_ONCE:
        half = batch.num_rows // 2
        yield from _in_parts(batch.slice(0, half))
        yield from _in_parts(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _written_out(values: pa.Array) -> int:
    """The most bytes that values take once each has a text of its own.

    Arrow sets aside as much as texts of a dictionary's mean length would take, even where the short ones are meant.
    """
    if pa.types.is_list(values.type):
        return 4 * len(values) + _written_out(values.flatten())
    if not pa.types.is_dictionary(values.type) or not len(values.dictionary):
        return int(values.nbytes)
    lengths = pc.binary_length(values.dictionary).cast(pa.int64())
    expected = int(pc.sum(lengths).as_py() or 0) * len(values) // len(lengths)
    return max(expected, pc.sum(lengths.take(values.indices)).as_py() or 0) + 4 * len(values)


def _as_now(batch: pa.RecordBatch, schema: pa.Schema, file_name: str) -> pa.Table:
    """Stored rows under the present schema: an older file may lack columns, and have others in narrower types."""
    held, count = set(batch.schema.names), batch.num_rows
    columns = [
        _repeated(file_name, count)
        if field.name == FILE_NAME
        else widened(batch.column(field.name), field.type)
        if field.name in held
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def widened(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in a wider type. A float becomes the double of its text, as in Hudi: 0.1 of 0.1."""
    if pa.types.is_float32(values.type) and pa.types.is_float64(kind):
        values = values.cast(pa.string())
    return values.cast(kind)


def _written(parts: Iterable[pa.Table], schema: pa.Schema, avro_schema: str) -> pa.Buffer:
    """The parts' rows as a base file, in row groups of at most _ROW_GROUP_BYTES as Arrow holds them."""
    sink, rest = pa.BufferOutputStream(), iter(parts)
    first = next(rest, schema.empty_table())
    with pq.ParquetWriter(
        sink,
        schema,
        version="1.0",
        compression=_CODEC,
        compression_level=_CODEC_LEVEL,
        use_dictionary=_repeating(first.slice(0, _FIRST_PAGE_ROWS)),
        data_page_size=_PAGE_BYTES,
        write_page_index=True,
        store_schema=False,
    ) as writer:
        held: list[pa.Table] = []
        size = 0
        for part in chain((first,), rest):
            if not part.num_rows:  # not every reader takes a row group without rows
                continue
            held.append(part)
            size += part.nbytes
            if size >= _ROW_GROUP_BYTES:
                _write_group(writer, held, size)
                held, size = [], 0
        if held:
            _write_group(writer, held, size)
        writer.add_key_value_metadata({"parquet.avro.schema": avro_schema, "writer.model.name": "avro"})
    return sink.getvalue()


def _repeating(rows: pa.Table) -> list[str]:
    """The columns that are smaller with a dictionary, by these rows: as parquet-mr decides by the first page."""

    def is_smaller(values: Any) -> bool:
        distinct = pc.unique(values)
        return bool(distinct.nbytes + len(values) * len(distinct).bit_length() // 8 < values.nbytes)

    columns = (_items(name, rows.column(name)) for name in rows.schema.names)
    return [path for path, values in columns if is_smaller(values)]


def _items(path: str, values: Any) -> tuple[str, Any]:
    """A column and its path in the file; of a list, those of its items."""
    return _items(f"{path}.list.element", pc.list_flatten(values)) if pa.types.is_list(values.type) else (path, values)


def _write_group(writer: pq.ParquetWriter, parts: Sequence[pa.Table], size: int) -> None:
    rows = pa.concat_tables(parts)
    writer.write_table(rows, max(1, rows.num_rows * _ROW_GROUP_BYTES // max(size, _ROW_GROUP_BYTES)))


def _repeated(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text), count)
