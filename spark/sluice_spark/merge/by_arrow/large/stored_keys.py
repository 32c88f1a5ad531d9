"""Reads the rows of a file slice for a large merge: their keys and Sluice's own columns, but none of their values."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.hudi.file_slices import Committed
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi.logs import RECORD_KEY, read_log, rows_in_logs
from sluice_spark.hudi.table_files import open_parquet, read_file
from sluice_spark.merge.by_arrow.base_file import key_text
from sluice_spark.merge.by_arrow.decide import FILE, KEY
from sluice_spark.merge.by_arrow.keyed_rows import flat, from_counts
from sluice_spark.merge.by_arrow.stored import SliceFiles
from sluice_spark.merge.rows import LeftToSpark, stored_arrow_type

# Beside the position and the partition, what logs have of each row without being asked.
_OWN = (hidden.POSITION, hidden.DELETED, hidden.OWED, hidden.PARTITION, hidden.SOURCE_TS_MS, hidden.SOURCE)


def stored_schema(target: Mapping[str, str], record_key: tuple[str, ...]) -> pa.Schema:
    """The columns of `stored_in_slice`; `target` has the table's, name -> Spark's type name."""
    names = dict.fromkeys((*record_key, *(name for name in _OWN if name in target)))
    fields = [pa.field(name, stored_arrow_type(target[name])) for name in names]
    return pa.schema([*fields, pa.field(KEY, pa.string()), pa.field(FILE, pa.int32())])


def stored_in_slice(
    objects: Objects, files: SliceFiles, *, schema: pa.Schema, record_key: tuple[str, ...], committed: Committed
) -> pa.Table:
    """The rows of a slice: the key's columns, hidden ones, KEY and FILE.

    Raises LeftToSpark for a row without a position, and for a key whose text isn't Sluice's; UnreadableLog.
    """
    file = open_parquet(objects, files.base, files.size)
    held = [name for name in (*schema.names, RECORD_KEY) if name in file.schema_arrow.names]
    base = _as_stored(file.read(columns=held, use_threads=False), schema, record_key, files.number)
    if not files.logs:
        return base
    wanted = [name for name in schema.names if name in (*record_key, hidden.DELETED, hidden.SOURCE)]
    blocks = [block for log in files.logs for block in read_log(read_file(objects, log), columns=wanted)]
    keys = {key for block in blocks for key in block.rows}
    logged = rows_in_logs(blocks, keys=keys, holds=committed.holds)
    positions = pa.array([None if row is None else row.position for row in logged.values()], pa.string())
    at = flat(pc.index_in(base.column(KEY), value_set=pa.array(list(logged), pa.string())))
    newest = pc.greater(base.column(hidden.POSITION), positions.take(at))  # null where a log removes the row
    stays = pc.or_(pc.is_null(at), pc.fill_null(newest, False))
    older = set(base.filter(pc.and_(pc.is_valid(at), stays)).column(KEY).to_pylist())
    rows = [
        {
            **row.values,
            hidden.POSITION: row.position,
            hidden.OWED: row.owed,
            hidden.PARTITION: row.partition,
            hidden.SOURCE_TS_MS: row.source_ts_ms,
            KEY: key,
            FILE: files.number,
        }
        for key, row in logged.items()
        if row is not None and key not in older
    ]
    return pa.concat_tables([base.filter(stays), from_counts(rows, schema)])


def _as_stored(rows: pa.Table, schema: pa.Schema, record_key: tuple[str, ...], number: int) -> pa.Table:
    if hidden.POSITION not in rows.schema.names or rows.column(hidden.POSITION).null_count:
        raise LeftToSpark("position")
    keys = pa.table([rows.column(name).cast(schema.field(name).type) for name in record_key], list(record_key))
    texts = key_text(keys, record_key)
    if not pc.all(pc.equal(texts, rows.column(RECORD_KEY)), min_count=0).as_py():
        raise LeftToSpark("key_text")
    own = {**dict(zip(record_key, keys.columns)), KEY: texts, FILE: pa.array([number] * rows.num_rows, pa.int32())}
    arrays = [
        own[item.name]
        if item.name in own
        else rows.column(item.name).cast(item.type)
        if item.name in rows.schema.names
        else pa.nulls(rows.num_rows, item.type)
        for item in schema
    ]
    table = pa.table(arrays, schema=schema)
    place = schema.get_field_index(hidden.DELETED)
    return table.set_column(place, schema.field(place), pc.fill_null(table.column(hidden.DELETED), False))
