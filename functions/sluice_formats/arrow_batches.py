"""Turns decoded records into Arrow batches: raw data columns, hidden columns, and the unchanged columns of each row.

A column is unchanged where its change carries a placeholder (`__debezium_unavailable_value`) in place of a value. Its
value is null in the batch, and its name is listed beside the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Callable, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.admission.routing import is_full_load
from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.capture_marks import is_marked_deleted
from sluice.changes.position import MONGODB, OFFSET_ONLY, among_ties, encode_arrival, encode_rows, of_snapshot, tie_of
from sluice.changes.source_tables import source_table
from sluice.config.placeholders import Placeholders, placeholders
from sluice.config.rules.partition_fields import PartitionField
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit, Unordered
from sluice.names import stored_name
from sluice.schema.avro import MetaFields, WriterSchema
from sluice.schema.made_columns import partition_value, sources_of
from sluice.schema.meaning import is_number_text
from sluice_formats.arrow_columns import (
    RAW_SPARK_TYPES,
    arrow_type,
    nulls,
    number_keys,
    raw_array,
)
from sluice_formats.captures.rows import MarkedRows, capture_positions, marked_rows
from sluice_formats.checks.expectations import first_failure
from sluice_formats.checks.stored_keys import check_folder_texts, check_key_texts, check_key_times
from sluice_formats.errors import NoCoordinates, NullRecordKey, UnexpectedValue, UnsupportedOperation
from sluice_formats.records import ReaderPlan

_HIDDEN_ARROW: dict[str, pa.DataType] = {name: kind for kind, name in RAW_SPARK_TYPES.items()}
_NAMES = pa.list_(pa.string())
_WITHOUT_ROW = frozenset((hidden.TRUNCATE, hidden.MESSAGE))
T = TypeVar("T")
_SIZE_WITH_KEY = 1024**2  # of an object: the rows of many such objects may tie, as those of one for each change
_UNPLACED = frozenset((hidden.SNAPSHOT_READ, hidden.MESSAGE))  # may lack a place in the log


@dataclass(frozen=True)
class ObjectRows:
    """So many consecutive rows of a batch, and their object.

    `place` is that of an object whose rows nothing else orders (`place_of_object`); all objects of a batch have one, or
    none has.
    """

    item: ManifestObject
    rows: int
    place: str | None = None


def batch_schema(plan: ReaderPlan) -> pa.Schema:
    """The plan's columns in raw form, the hidden columns, and the names of the unchanged columns."""
    data = [pa.field(column.name, arrow_type(column)) for column in plan.columns]
    own = [pa.field(column.name, _HIDDEN_ARROW[column.spark_type]) for column in _hidden(plan)]
    return pa.schema([*data, *own, pa.field(hidden.UNCHANGED, _NAMES)])


def _hidden(plan: ReaderPlan) -> tuple[hidden.HiddenColumn, ...]:
    return (*hidden.HIDDEN, hidden.SOURCE_COLUMN) if plan.sources else hidden.HIDDEN


def record_batch(
    records: Sequence[dict[str, Any]],
    *,
    numbers: Sequence[int],
    offsets: Sequence[int],
    writer: WriterSchema,
    parts: Sequence[ObjectRows],
    plan: ReaderPlan,
) -> pa.RecordBatch:
    """The batch of one chunk of an object's records, or of several small objects of the same schema.

    `numbers` are the records' places in their object, from 0, and `offsets` those of their Kafka records. Raises a
    SluiceError for the first record that can't be merged.
    """
    meta, dialect, config = writer.meta, writer.dialect, plan.config
    rows: Sequence[Any] = records
    source: Sequence[Any] = records
    if dialect.holds_rows:
        rows = [dialect.row(record) for record in records]
        source = [dialect.metadata(record) for record in records]
    ops = _column(records, meta.op)
    marks = marked_rows(rows, ops, writer, config)
    if marks is not None and (ops is None or meta.op == config.marks_of_rows.column):
        ops = [hidden.DELETE if deleted else None for deleted in marks.deleted]
    _known_operations(ops, numbers)
    if config.append_only and ops is not None and hidden.TRUNCATE in ops:
        raise UnsupportedOperation(
            "An append-only table takes no truncate", op=hidden.TRUNCATE, record=numbers[ops.index(hidden.TRUNCATE)]
        )
    if config.position_columns and ops is not None and hidden.TRUNCATE in ops:
        raise Unordered(
            "A truncate has no value of the position column, so nothing says which rows it removes",
            field=config.position_columns[0],
            value="null",
            next_step="Leave `position` out of the rule where the changes have a place in a log: `sluice config push` "
            "says how a table with data is rebuilt",
        )
    with_row = rows
    if ops is not None and not _WITHOUT_ROW.isdisjoint(ops):
        rows = [_NO_ROW if op in _WITHOUT_ROW else row for row, op in zip(rows, ops)]
    # An append-only table keeps every change, deletes included.
    deleted = [False] * len(records) if config.append_only else _deleted(records, ops, meta.deleted, marks)
    partitions: Sequence[int | None] = _of_rows(parts, lambda part: part.item.kafka_partition)
    orders = offsets
    if config.coordinates:
        beside = records if dialect.holds_rows else [{}] * len(records)
        partitions, orders = (_coordinate(with_row, name, writer, numbers, beside) for name in config.coordinates)
    if config.append_only and config.coordinates:
        offsets = orders
        names = [f"{config.topic}#{partition}#{offset:020d}" for partition, offset in zip(partitions, offsets)]
    else:
        # Without the version: a key that is written again after a crash repeats its rows. The merge tells other records
        # under the same key apart (`sluice.changes.recurring_keys`).
        keys = _of_rows(parts, lambda part: f"{part.item.bucket}/{part.item.key}") if config.append_only else ()
        names = [f"{key}#{number:010d}" for key, number in zip(keys, numbers)]
    sent = None if meta.sent is None else _column(source, meta.sent)
    arrays, unchanged = _data(rows, numbers, names, writer, plan, ops, sent)
    own = {
        hidden.POSITION: _positions(rows, source, ops, orders, writer, plan, marks, parts),
        hidden.DELETED: deleted,
        hidden.OP: ops,
        hidden.SOURCE_TS_MS: _times(_column(source, meta.source_ts_ms)),
        hidden.OBJECT: _of_rows(parts, lambda part: part.item.id.lineage),
        hidden.OFFSET: offsets,
        hidden.OWED: None,
        hidden.PARTITION: partitions,
        hidden.BATCH: None,  # set by the commit, which may combine several changes into one row
        hidden.SOURCE: _source_tables(source, _names_of_source(meta, plan)) if plan.sources else None,
    }
    for column in _hidden(plan):
        kind_of = _HIDDEN_ARROW[column.spark_type]
        values = own[column.name]
        arrays.append(pa.nulls(len(records), kind_of) if values is None else pa.array(values, type=kind_of))
    arrays.append(pa.nulls(len(records), _NAMES) if unchanged is None else unchanged)
    batch = pa.RecordBatch.from_arrays(arrays, schema=batch_schema(plan))
    if config.expect.quarantines:
        failure = first_failure(batch, plan.columns, config.expect)
        if failure is not None:
            raise UnexpectedValue(
                config.expect.described(failure.column, failure.rule),
                column=failure.column,
                record=numbers[failure.row],
            )
    return batch


def _of_rows(parts: Sequence[ObjectRows], value: Callable[[ObjectRows], T]) -> list[T]:
    """A value of each object, for every row of it."""
    return [made for part in parts for made in [value(part)] * part.rows]


def truncate_batch(item: ManifestObject, position: str, plan: ReaderPlan) -> pa.RecordBatch:
    """The truncate that an object brings since it completes a full dump."""
    values = {
        hidden.POSITION: position,
        hidden.DELETED: False,
        hidden.OP: hidden.TRUNCATE,
        hidden.OBJECT: item.id.lineage,
    }
    return pa.RecordBatch.from_pylist([values], schema=batch_schema(plan))


def position_of(
    record: Mapping[str, Any], *, offset: int, writer: WriterSchema, plan: ReaderPlan, part: ObjectRows
) -> str | None:
    """The stored position of one record of an object, even if it can't be merged; None when it has none."""
    try:
        source, row = writer.dialect.metadata(record), writer.dialect.row(record)
        ops = _column([record], writer.meta.op)
        if plan.config.coordinates:
            (offset,) = _coordinate([row], plan.config.coordinates[1], writer, [0], [record])
        marks = marked_rows([row], ops, writer, plan.config)
        return _positions([row], [source], ops, [offset], writer, plan, marks, [part])[0]
    except (Unordered, NoCoordinates, KeyError, TypeError):
        return None


def _positions(
    rows: Sequence[Any],
    source: Sequence[Any],
    ops: Sequence[Any] | None,
    offsets: Sequence[int],
    writer: WriterSchema,
    plan: ReaderPlan,
    marks: MarkedRows | None,
    parts: Sequence[ObjectRows],
) -> list[str]:
    ordering = [column for column in map(writer.row.column, plan.config.position_columns) if column is not None]
    if ordering and len(ordering) == len(plan.config.position_columns):
        places = [tuple(row[column.written_name] for column in ordering) for row in rows]
        of_loads = _of_rows(parts, lambda part: is_full_load(part.item.key))
        return _among_ties(capture_positions(places, offsets, ordering, plan.config, marks, of_loads=of_loads), parts)
    kind, names = writer.meta.position.kind, writer.meta.position.names
    if parts[0].place is not None and kind == OFFSET_ONLY:
        objects = _of_rows(parts, lambda part: part.place or "")
        return [encode_arrival(plan.config.generation, place, offset) for place, offset in zip(objects, offsets)]
    components: list[Sequence[Any]] = (
        list(zip(*(_numbers(_part(source, name)) for name in names))) if names else [()] * len(offsets)
    )
    if names and ops is None:  # without operations only a snapshot read may lack a place in the log
        components = [of_snapshot(kind, parts) for parts in components]
    elif names and ops is not None and not _UNPLACED.isdisjoint(ops):
        components = [
            of_snapshot(kind, parts) if op in _UNPLACED and (kind == MONGODB or not parts[0]) else parts
            for parts, op in zip(components, ops)
        ]
    try:
        return _among_ties(encode_rows(plan.config.generation, kind, components, offsets), parts)
    except Unordered as error:
        field = ", ".join(filter(None, names)) or error.facts["field"]
        raise Unordered(error.message, next_step=error.next_step, **{**error.facts, "field": field}) from error


def _among_ties(positions: list[str], parts: Sequence[ObjectRows]) -> list[str]:
    """The positions of rows, with the places of their objects where these have one."""
    if parts[0].place is None:
        return positions
    ties = _of_rows(parts, lambda part: tie_of(part.place or "", by_key=part.item.size <= _SIZE_WITH_KEY))
    return [among_ties(position, tie) for position, tie in zip(positions, ties)]


class _NoRow(dict[str, Any]):
    """The row of a truncate or a message: null in every column."""

    def __missing__(self, name: str) -> None:
        return None


_NO_ROW = _NoRow()


def _coordinate(
    rows: Sequence[Any], name: str, writer: WriterSchema, numbers: Sequence[int], beside: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Values of a column of whole numbers from 0, or of a field `beside` the rows of an envelope.

    Digits as text count too: JSON may be declared as text.
    """
    coordinates = []
    column = writer.row.column(name)
    own_name = name if column is None else column.written_name
    for row, number, around in zip(rows, numbers, beside):
        value = row.get(own_name) if row is not None and column is not None else around.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
            value = int(value)
        if type(value) is not int or not 0 <= value < 2**63:
            raise NoCoordinates(f"Column {name} holds no whole number from 0", column=name, record=number)
        coordinates.append(value)
    return coordinates


def _data(
    rows: Sequence[Any],
    numbers: Sequence[int],
    names: Sequence[str],
    writer: WriterSchema,
    plan: ReaderPlan,
    ops: Sequence[Any] | None,
    sent: Sequence[Any] | None,
) -> tuple[list[pa.Array], pa.Array | None]:
    config = plan.config
    if None in rows:
        raise NullRecordKey(
            "A change has neither a row before nor one after",
            next_step="Look at what wrote it, then `sluice quarantine discard` the row: a change of Debezium has a row",
            column=config.record_key[0],
            record=numbers[rows.index(None)],
        )
    for number, row in zip(numbers, rows) if not writer.row.columns else ():
        if row is not _NO_ROW:
            raise NullRecordKey("A change has a row without columns", column=config.record_key[0], record=number)
    arrays: list[pa.Array] = []
    room = config.limits.decoded_bytes
    for wanted in plan.columns:
        if wanted.name == hidden.ROW:
            arrays.append(pa.array(names, type=pa.string()))
            continue
        written = writer.row.column(wanted.name)
        if written is None:
            arrays.append(nulls(wanted, len(rows)))
            continue
        name, own_name = wanted.name, written.written_name
        values = [row[own_name] for row in rows]
        for number, row in zip(numbers, rows) if name in config.record_key and None in values else ():
            if row is not _NO_ROW and row[own_name] is None:
                raise NullRecordKey(f"The key column {name} is null", column=name, record=number)
        array = raw_array(values, written, wanted, room)
        if name in config.record_key and is_number_text(written) and pa.types.is_string(array.type):
            array = number_keys(array)
        if name in config.record_key and pa.types.is_floating(array.type):
            array = pc.add(array, pa.scalar(0, array.type))  # of -0.0, which is 0.0, Hudi would make another key
        arrays.append(array)
        room -= arrays[-1].nbytes
        if room < 0:
            most = config.limits.decoded_bytes
            message = f"{len(rows):,} rows of the object take more than {most:,} bytes"
            raise ExpansionLimit.beyond("decoded_bytes", message, most)
    made = dict(zip((column.name for column in plan.columns), arrays))
    transforms = [field for field in config.partition_fields if field.transform]
    for field in transforms:
        if field.column in made:
            made[field.column] = _partition_values(field, made, plan)
    check_key_texts(
        {name: made[name] for name in config.record_key if name in made},
        numbers,
        empty_parts=bool(config.partition_fields) and not config.history,  # a history table has no partitions
    )
    check_key_times(
        {column.name: (made[column.name], column.kind) for column in plan.columns if column.name in config.record_key},
        numbers,
    )
    check_folder_texts({name: made[name] for name in config.partition_columns if name in made}, numbers)
    left_out = _left_out(made, len(rows), config, ops) if sent is None else _unsent(made, sent, plan)
    for field in transforms:  # unchanged where its source is; times have no placeholders, and keys are never unchanged
        left_out.pop(field.column, None)
        if field.source in left_out:
            left_out[field.column] = left_out[field.source]
    return without_placeholders(
        list(made.values()),
        list(made),
        marks=placeholders(config.unavailable_value),
        never=config.record_key,
        left_out=left_out,
    )


def _partition_values(field: PartitionField, made: Mapping[str, pa.Array], plan: ReaderPlan) -> pa.Array:
    """The raw values of a transform's column, of the raw ones of its sources."""
    by_name = {column.name: column for column in plan.columns}
    sources = [by_name[name] for name in sources_of(field, plan.config.record_key)]
    rows = list(zip(*(made[column.name].to_pylist() for column in sources)))
    values = {row: partition_value(field, row, sources) for row in set(rows)}
    return pa.array([values[row] for row in rows], arrow_type(by_name[field.column]))


def _left_out(
    made: Mapping[str, pa.Array], rows: int, config: TableConfig, ops: Sequence[Any] | None
) -> dict[str, pa.Array]:
    """By column of `null_is_unchanged`, which rows leave it out: those of updates, or of no operation, with a null.

    A column that the batch lacks is null in each: JSON without a schema shows no column whose values are all null.
    """
    if not config.null_is_unchanged:
        return {}
    updates = pa.array([op in (None, hidden.UPDATE) for op in ops] if ops is not None else [True] * rows, pa.bool_())
    return {
        name: pc.and_(pc.is_null(made[name]), updates) if name in made else updates for name in config.null_is_unchanged
    }


def _unsent(made: Mapping[str, pa.Array], sent: Sequence[Any], plan: ReaderPlan) -> dict[str, pa.Array]:
    """By column, which rows leave it out: those of updates that bring others, by the columns that each has `sent`.

    The columns that Sluice makes are in all rows.
    """
    config = plan.config
    own = {hidden.ROW, *map(config.source_column, config.source_words)}
    brought = [None if columns is None else tuple(columns) for columns in sent]
    names = {
        columns: {config.columns.table_name(stored_name(name)) for name in columns or ()} for columns in set(brought)
    }
    return {
        name: pa.array([columns is not None and name not in names[columns] for columns in brought], pa.bool_())
        for name in (*made, *plan.lacking)
        if name not in own
    }


def _column(records: Sequence[Any], name: str | None) -> list[Any] | None:
    return None if name is None else [record[name] for record in records]


def _times(values: list[Any] | None) -> list[Any] | None:
    """Epoch milliseconds; null for text or another number that a transform made of them. Nothing is ordered by them."""
    if values is None or all(value is None or type(value) is int for value in values):
        return values
    return [value if type(value) is int and -(2**63) <= value < 2**63 else None for value in values]


def _part(records: Sequence[Any], name: str) -> list[Any]:
    """One part of the positions; all None for a part that this source doesn't have."""
    return [record[name] for record in records] if name else [None] * len(records)


def _numbers(values: list[Any]) -> list[Any]:
    """The values, with a number for digits as text."""
    if str not in map(type, values):
        return values
    return [int(it) if isinstance(it, str) and it.isascii() and it.isdigit() and len(it) <= 20 else it for it in values]


def _names_of_source(meta: MetaFields, plan: ReaderPlan) -> tuple[str, ...]:
    """The fields with the parts of a source table's name."""
    by_server = meta.source_table and plan.config.source_column("name") in plan.config.record_key
    return (*meta.source_table, *([dict(meta.source_fields).get("name", "")] if by_server else []))


def _source_tables(records: Sequence[Any], names: Sequence[str]) -> list[str | None] | None:
    """The source table of each record; None where no record names it. Nearly all objects are of one."""
    if not names:
        return None
    texts = ([value if isinstance(value, str) else None for value in _part(records, name)] for name in names)
    parts = list(zip(*texts))
    made = {parts_: source_table(*parts_) for parts_ in set(parts)}
    return [made[parts_] for parts_ in parts]


def _known_operations(ops: list[Any] | None, numbers: Sequence[int]) -> None:
    for op in set(ops or ()):
        if op is not None and op not in hidden.OPS:
            raise UnsupportedOperation(
                f"The operation {str(op)[:20]!r} is not known", op=str(op)[:20], record=numbers[(ops or []).index(op)]
            )


def _deleted(records: Sequence[Any], ops: list[Any] | None, name: str | None, marks: MarkedRows | None) -> list[bool]:
    """Which records are deletes: by operation, by Debezium's mark of its `rewrite` mode, or by the rule's `marks`."""
    deleted_flags: list[bool] = [False] * len(records)
    if name is not None:
        deleted_flags = [is_marked_deleted(record[name]) for record in records]
    if marks is not None:
        deleted_flags = [mark or deleted for mark, deleted in zip(deleted_flags, marks.deleted)]
    return deleted_flags if ops is None else [mark or op == hidden.DELETE for mark, op in zip(deleted_flags, ops)]


def without_placeholders(
    arrays: Sequence[pa.Array],
    names: Sequence[str],
    *,
    marks: Placeholders,
    never: Collection[str],
    left_out: Mapping[str, pa.Array] = MappingProxyType({}),
) -> tuple[list[pa.Array], pa.Array | None]:
    """The arrays with null for every placeholder, and per row the names of its unchanged columns (None: none at all).

    Columns in `never` (the record key) hold no placeholders. `left_out` are the rows that leave a column out without
    one. Nearly all batches have none, which comparing the lengths of values shows.
    """
    arrays_kept: list[pa.Array] = []
    masks: dict[str, pa.Array] = {}
    for name, array in zip(names, arrays):
        mask = None if name in never else _mask(array, marks)
        if mask is not None and pc.any(mask).as_py():
            masks[name] = mask
            array = pc.if_else(mask, pa.nulls(len(array), array.type), array)
        arrays_kept.append(array)
    for name, mask in left_out.items():
        if name not in never and pc.any(mask).as_py():
            masks[name] = pc.or_(masks[name], mask) if name in masks else mask
    return arrays_kept, _named(masks, len(arrays[0])) if masks else None


def _mask(array: pa.Array, marks: Placeholders) -> pa.Array | None:
    """Which values are placeholders; None when none is."""
    kind = array.type
    if pa.types.is_string(kind):
        return _among(array, marks.text_lengths, marks.texts)
    if pa.types.is_binary(kind):
        return _among(array, {len(value) for value in marks.bytes_}, marks.bytes_)
    if pa.types.is_map(kind):
        return _whole(array, [[marks.pair]]) if _any_of_length(array, 1) else None
    if pa.types.is_list(kind):
        if pa.types.is_integer(kind.value_type):
            return _whole(array, [list(marks.codes)]) if _any_of_length(array, len(marks.codes)) else None
        items = _mask(array.flatten(), marks)
        if items is None or not pc.any(items).as_py():
            return None
        return _whole(array, [[value] for value in (*marks.texts, *marks.bytes_)])
    return None


def _among(array: pa.Array, lengths: Collection[int], values: Collection[Any]) -> pa.Array | None:
    if not pc.any(pc.is_in(pc.binary_length(array), pa.array(sorted(lengths), pa.int32()))).as_py():
        return None
    return pc.is_in(array, pa.array(sorted(values), array.type))


def _any_of_length(array: pa.Array, length: int) -> bool:
    offsets = array.offsets  # Arrow has no function for the lengths of maps
    return bool(pc.any(pc.equal(pc.subtract(offsets[1:], offsets[:-1]), length)).as_py())


def _whole(array: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    return pa.array([value is not None and value in wanted for value in array.to_pylist()], pa.bool_())


def _named(masks: dict[str, pa.Array], rows: int) -> pa.Array:
    flags = [(name, mask.to_pylist()) for name, mask in masks.items()]
    names_by_row = [[name for name, of_rows in flags if of_rows[row]] or None for row in range(rows)]
    return pa.array(names_by_row, pa.list_(pa.string()))
