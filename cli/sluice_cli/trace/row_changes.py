"""The changes of one row, and every truncate, in one object's bytes: by the job's own readers, without a JVM."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.admission.routing import MARKER, PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.batch.row_errors import JSON_TEXT, RowError
from sluice.changes import hidden_columns as hidden
from sluice.changes.outdated import ChangePlace
from sluice.config.table import TableConfig
from sluice.names import stored_name
from sluice.objects import ObjectId
from sluice.schema import columns as kinds
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import Column, RowSchema, plain_column
from sluice.schema.meaning import MEANINGS, MOMENT, stored_json, value_text
from sluice.schema.table_row import row_for_table
from sluice.schema.union import union_of
from sluice_aws.hash_keys import HashKeys
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.decode import Decoded, decode, is_scanned, schemas_of
from sluice_formats.json.schema import agreed
from sluice_formats.parquet_footer import read_footer
from sluice_formats.records import ReaderPlan
from sluice_read.values import rows_of

NO_BATCH = ""  # a change that is read again belongs to none yet
AT_ONCE = 8  # objects fetched ahead of the one that is decoded
_WHOLE = frozenset((kinds.INT, kinds.LONG))
_NUMBERS = frozenset((kinds.DECIMAL, kinds.DECIMAL_TEXT, kinds.VARIABLE_DECIMAL))
_MOMENT = re.compile(r"([+-]?\d{4,}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d*?)0*)?Z?")
Key = tuple[Any, ...]  # JSON values of the columns of the record key
T = TypeVar("T")


class SingleFloat(float):
    """A value of a column of floats. It equals every double that stands for it where the column is one of doubles now.

    That is its exact value, or the double of a text of it. Hudi's is Java's, which has up to nine digits in any case.
    """

    def __eq__(self, other: object) -> bool:
        try:
            own, others = (struct.unpack("<f", struct.pack("<f", value))[0] for value in (self, other))
        except (struct.error, OverflowError):  # no number, no float
            return False
        return bool(own == others) and (other == others or float(f"{other:.9g}") == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__


PlacedTruncate = tuple[str | None, str]  # the source table of a truncate, None for all, and its position


@dataclass(frozen=True)
class FoundChange:
    """One change of the row. `values` are JSON values by column, without the key and the `unchanged` columns.

    `source_clock` says whether its time is the source's. A `partial` one leaves out what it has no value of.
    """

    key: str
    version: str
    offset: int
    partition: int | None
    position: str
    op: str | None
    deleted: bool
    source_ts_ms: int | None
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unchanged: frozenset[str] = frozenset()
    source_clock: bool = True
    source: str | None = None
    partial: bool = False

    @property
    def place(self) -> ChangePlace:
        """What the change is compared with others by."""
        return ChangePlace(self.position, self.partition, self.source_ts_ms if self.source_clock else None, self.op)


@dataclass(frozen=True)
class ObjectChanges:
    """The changes of one row in one object.

    `truncates` are its truncates; `set_aside` are records with the row's key that could not be merged.
    `unkeyed` counts those without a known key, since they could not be decoded.
    """

    item: ManifestObject
    records: int
    changes: tuple[FoundChange, ...]
    truncates: tuple[PlacedTruncate, ...]
    set_aside: tuple[RowError, ...]
    columns: tuple[str, ...]
    unkeyed: int = 0


def hash_keys_of(target: Target) -> HashKeys:
    """The keys of hashed columns, for a reader."""
    return HashKeys(lambda: target.client("secretsmanager"), target.objects, target.silver, leaves_marks=False)


def with_bodies(
    objects: Objects, items: Sequence[T], wanted: Callable[[T], tuple[ObjectId, int]]
) -> Iterator[tuple[T, Callable[[], bytes]]]:
    """Fetch objects ahead, by what is `wanted` of each: an object version of at most so many bytes."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bodies") as pool:
        for start in range(0, len(items), AT_ONCE):
            chunk = items[start : start + AT_ONCE]
            yield from zip(chunk, [pool.submit(objects.whole, *wanted(one)).result for one in chunk], strict=True)


def changes_in(
    body: bytes, item: ManifestObject, config: TableConfig, key: Sequence[str], *, hash_key: bytes = b""
) -> ObjectChanges:
    """Decode an object and take out one row's changes. `key` has the text of every column of the record key, in order.

    `hash_key` is the key of the columns that the table hashes.
    Raises a SluiceError where the object can't be read to its end.
    """
    row, decoded, source_clock, partial = _decoded(body, item, config, hash_key)
    changes: list[FoundChange] = []
    truncates: list[PlacedTruncate] = []
    for made in decoded.batches:
        truncates += _truncates(made)
        mine = made.filter(_mask(made, row.columns, config.record_key, key))
        if mine.num_rows:
            changes += _changes(mine, row.columns, config.record_key, item, source_clock, partial)
    rows = sum(made.num_rows for made in decoded.batches) + len(decoded.rows)
    of_the_row = [_is_of(error, row.columns, config.record_key, key) for error in decoded.rows]
    return ObjectChanges(
        item,
        rows,
        tuple(changes),
        tuple(truncates),
        tuple(error for error, is_own in zip(decoded.rows, of_the_row, strict=True) if is_own),
        tuple(name for name in row.names if name not in config.record_key),
        of_the_row.count(None),
    )


def keyed_changes(
    body: bytes,
    item: ManifestObject,
    config: TableConfig,
    *,
    wanted: Callable[[Key], bool],
    types: Mapping[str, pa.DataType],
    aside: Collection[int] = (),
    hash_key: bytes = b"",
) -> tuple[list[tuple[Key, FoundChange]], list[PlacedTruncate]]:
    """Decode an object and take out the changes of all wanted keys, and its truncates.

    `types` are those of the table's columns: numbers that became wider there become it here. `aside` are the numbers
    of records that the merge set aside. `hash_key` is the key of the columns that the table hashes. Raises a
    SluiceError where the object can't be read to its end.
    """
    row, decoded, source_clock, partial = _decoded(body, item, config, hash_key, types)
    by_key: list[tuple[Key, FoundChange]] = []
    truncates: list[PlacedTruncate] = []
    by_name = {column.name: column for column in row.columns}
    unread = {error.record for error in decoded.rows}
    number = 0
    for made in (_as_wide(read, types) for read in decoded.batches):
        numbers: list[int] = []
        while len(numbers) < made.num_rows:  # a batch leaves out the records that could not be decoded
            numbers += [] if number in unread else [number]
            number += 1
        ops = made.column(hidden.OP).to_pylist()
        truncates += _truncates(made)
        if not row.columns:  # of truncates alone
            continue
        keys = list(zip(*(_meanings(made.column(name), by_name[name]) for name in config.record_key), strict=True))
        rows = [
            place
            for place, key in enumerate(keys)
            if ops[place] not in (hidden.TRUNCATE, hidden.MESSAGE) and numbers[place] not in aside and wanted(key)
        ]
        mine = made.take(pa.array(rows, pa.int64()))
        changes = _changes(mine, row.columns, config.record_key, item, source_clock, partial)
        by_key += zip((keys[place] for place in rows), changes, strict=True)
    return by_key, truncates


def _truncates(made: pa.RecordBatch) -> list[PlacedTruncate]:
    of_truncates = made.filter(pc.equal(made.column(hidden.OP), hidden.TRUNCATE))
    return list(zip(_sources(of_truncates), of_truncates.column(hidden.POSITION).to_pylist(), strict=True))


def _sources(made: pa.RecordBatch) -> list[str | None]:
    has_sources = hidden.SOURCE in made.schema.names
    return made.column(hidden.SOURCE).to_pylist() if has_sources else [None] * made.num_rows


def _as_wide(made: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch with the decimals of the table, where these are wider."""
    columns = []
    for name in made.schema.names:
        column, stored = made.column(name), types.get(name)
        columns.append(column.cast(stored) if stored is not None and _is_wider(stored, column.type) else column)
    return pa.RecordBatch.from_arrays(columns, names=made.schema.names)


def _is_wider(stored: pa.DataType, own: pa.DataType) -> bool:
    """Whether a type of the table holds all values of an object's own, in another form."""
    if pa.types.is_list(stored) and pa.types.is_list(own):
        return _is_wider(stored.value_type, own.value_type)
    if not pa.types.is_decimal(stored) or not pa.types.is_decimal(own):
        return False
    grown = stored.scale - own.scale
    return bool(stored != own and grown >= 0 and stored.precision - grown >= own.precision)


def _decoded(
    body: bytes, item: ManifestObject, config: TableConfig, hash_key: bytes, stored: Collection[str] = ()
) -> tuple[RowSchema, Decoded, bool, bool]:
    texts = _schemas(body, item, config)
    writers = [read_writer_schema(json.loads(text), config.form) for text in texts]
    row = union_of(row_for_table(writer, config) for writer in writers) if writers else RowSchema(())
    inferred = {item.id.hash: texts[0]} if is_scanned(item.format, config.form) else {}
    plan = ReaderPlan(config, NO_BATCH, row.columns, inferred, hash_key)
    plan = replace(plan, sources=not config.append_only and any(writer.meta.source_table for writer in writers))
    partial = any(writer.meta.sent for writer in writers)
    if partial:
        own = {*row.names, *hidden.NAMES, hidden.ROW}
        plan = replace(plan, lacking=tuple(name for name in stored if name not in own))
    clock = all(writer.has_source_clock for writer in writers)
    return row, decode(body, item, plan), clock, partial


def _schemas(body: bytes, item: ManifestObject, config: TableConfig) -> list[str]:
    """The object's own schemas in Avro form, as JSON."""
    if item.format == MARKER:
        return []
    if is_scanned(item.format, config.form):
        schemas, was_inferred = schemas_of(body, item.format, config, item.key)
        used: Sequence[Any] = agreed(schemas, {}) if was_inferred else schemas
    elif item.format == PARQUET:
        used = [read_footer(body, True).schema]
    else:
        used = [parse_header(Head(body, True), config.limits).schema]
    return [json.dumps(schema, sort_keys=True) for schema in used]


def _mask(made: pa.RecordBatch, columns: Sequence[Column], record_key: Sequence[str], key: Sequence[str]) -> pa.Array:
    """Marks the records that have this key and are changes of a row."""
    ops = made.column(hidden.OP)
    of_a_row = pc.fill_null(pc.invert(pc.is_in(ops, value_set=pa.array([hidden.TRUNCATE, hidden.MESSAGE]))), True)
    by_name = {column.name: column for column in columns}
    mask = of_a_row
    for name, text in zip(record_key, key, strict=True):
        column = by_name.get(name)
        if column is None:
            return pa.array([False] * made.num_rows)
        mask = pc.and_(mask, pc.fill_null(_equal(made.column(name), column, text), False))
    return mask


def _equal(values: pa.Array, column: Column, text: str) -> pa.Array:
    meaning = MEANINGS[column.kind]
    if meaning.is_parsed:
        wanted = stored_json(text, column) or text
        return pa.array([value is not None and is_same(value, wanted, column) for value in _meanings(values, column)])
    if pa.types.is_string(values.type) and meaning.form is None:
        return pc.equal(values, text)
    if column.kind in _WHOLE:
        return equal_number(values, text)
    return pa.array([is_same(key_text(value), text, column) for value in _meanings(values, column)])


def equal_number(values: pa.Array, text: str) -> pa.Array:
    """Marks the whole numbers that a text is; none where it is no number of their type."""
    try:
        return pc.equal(values, pa.scalar(int(text), values.type))
    except (ValueError, OverflowError, pa.ArrowInvalid):
        return pa.array([False] * len(values))


def is_same(text: str, other: str, column: Column) -> bool:
    """Whether two texts are one key: numbers whatever their scale, moments as `sluice query` or Spark writes them."""
    if text == other:
        return True
    if column.kind in _NUMBERS:
        try:
            return Decimal(text) == Decimal(other)
        except InvalidOperation:
            return False
    if MEANINGS[column.kind].form == MOMENT:
        own, wanted = _MOMENT.fullmatch(text), _MOMENT.fullmatch(other)
        return own is not None and wanted is not None and own.groups("") == wanted.groups("")
    return False


def key_text(value: Any) -> str:
    """The value of a key column in the form of the command line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _meanings(values: pa.Array, column: Column) -> list[Any]:
    plain = [row[0] for row in rows_of(pa.RecordBatch.from_arrays([values], names=[column.name]))]
    return [stored_json(value, column) for value in plain]


def _floats(kind: pa.DataType, values: list[Any]) -> list[Any]:
    """Values of a column as they are compared: floats as SingleFloat, also in lists."""
    if pa.types.is_list(kind):
        return [value if value is None else _floats(kind.value_type, value) for value in values]
    if not pa.types.is_float32(kind):
        return values
    return [SingleFloat(value) if isinstance(value, float) else value for value in values]


def _changes(
    mine: pa.RecordBatch,
    columns: Sequence[Column],
    record_key: Sequence[str],
    item: ManifestObject,
    source_clock: bool,
    partial: bool,
) -> list[FoundChange]:
    columns_of_values = {
        column.name: _floats(mine.column(column.name).type, _meanings(mine.column(column.name), column))
        for column in columns
        if column.name not in record_key
    }
    names = (hidden.OFFSET, hidden.PARTITION, hidden.POSITION, hidden.OP, hidden.DELETED, hidden.SOURCE_TS_MS)
    facts = zip(*(mine.column(name).to_pylist() for name in names), strict=True)
    without = mine.column(hidden.UNCHANGED).to_pylist()
    changes, sources = [], _sources(mine)
    for number, fact in enumerate(facts):
        placed = dict(zip(("offset", "partition", "position", "op", "deleted", "source_ts_ms"), fact, strict=True))
        unchanged = frozenset(without[number] or ())
        values = {name: values[number] for name, values in columns_of_values.items() if name not in unchanged}
        more = {"source": sources[number], "partial": partial and placed["op"] == hidden.UPDATE}
        own = {**placed, "values": values, "unchanged": unchanged, "source_clock": source_clock, **more}
        changes.append(FoundChange(item.key, item.version, **own))
    return changes


def has_key(
    record: Mapping[str, Any], columns: Collection[Column], record_key: Sequence[str], key: Sequence[str]
) -> bool:
    """Whether a row, decoded and kept in JSON by `row_errors`, has this key. `columns` are its writer's, with the
    table's names; a value without a column is compared as it stands.
    """
    own = {stored_name(name).lower(): value for name, value in record.items()}
    own |= {name.lower(): value for name, value in record.items()}
    by_name = {column.name.lower(): column for column in columns}
    for name, text in zip(record_key, key, strict=True):
        column = by_name.get(name.lower(), plain_column(name, kinds.STRING, True, ""))
        values = [own[spelling.lower()] for spelling in (name, column.written_name) if spelling.lower() in own]
        if not any(is_same(known_text, text, column) for value in values for known_text in _key_texts(value, column)):
            return False
    return True


def _key_texts(value: Any, column: Column) -> list[str]:
    """The text of a value as it stands, and of what the table stores for it."""
    if value is None:
        return []
    raw = _raw(value)
    texts = [key_text(raw)] if isinstance(raw, (str, int, float)) else []
    try:
        if isinstance(raw, Mapping) or column.kind in _NUMBERS and isinstance(raw, bytes):
            texts.append(value_text(raw, column))
        else:
            texts.append(key_text(stored_json(raw, column)))
    except (ValueError, TypeError, KeyError, ArithmeticError):  # not of the column's type, which may be why it is here
        pass
    return texts


def _raw(value: Any) -> Any:
    """A value as it was before `row_errors` made it JSON."""
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"base64"}:
        try:
            return base64.b64decode(value["base64"])
        except (ValueError, TypeError):  # of a source whose own field has this name
            return value
    return {name: _raw(item) for name, item in value.items()}


def _is_of(error: RowError, columns: Collection[Column], record_key: Sequence[str], key: Sequence[str]) -> bool | None:
    """Says whether a record that was set aside has this key, by what was kept of it; None if that is unknown."""
    try:
        content = json.loads(error.content if error.encoding == JSON_TEXT else base64.b64decode(error.content))
    except (ValueError, RecursionError):  # no JSON, or cut to its beginning
        return None
    if not isinstance(content, dict):
        return None
    records = [content, content.get("payload")]  # Connect's JSON has the record in its payload
    records += [record.get(side) for record in records if isinstance(record, dict) for side in ("after", "before")]
    return any(isinstance(row, dict) and has_key(row, columns, record_key, key) for row in records)
