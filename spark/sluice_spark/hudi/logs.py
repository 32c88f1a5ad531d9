"""Log files of merge-on-read tables in Hudi's format, written and read without the JVM.

The format is that of `HoodieLogFormatWriter` (format 1, blocks 3), which every release from 0.14 on reads: a block has
a header with its instant and schema, and rows in Avro or keys that are removed. A log that holds another kind of block
is left to Hudi's own reader.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Callable

import fastavro

from sluice.catalog.columns import META_COLUMNS
from sluice.changes import hidden_columns as hidden

COMMIT_TIME, SEQUENCE, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS
_MAGIC, _FORMAT, _BLOCKS = b"#HUDI#", 1, 3
_COMMAND, _DELETE, _AVRO = 0, 1, 3  # kinds of blocks
_INSTANT, _TARGET, _SCHEMA, _COMMAND_KIND = 0, 1, 2, 3  # names in a header
_ROLL_BACK = "0"
_COUNTED = ("date", "timestamp-micros", "timestamp-millis", "local-timestamp-micros")  # passed as bare numbers
_READ = (hidden.POSITION, hidden.OWED, hidden.PARTITION, hidden.SOURCE_TS_MS)
_BYTES_A_ROW = 500  # of a LogRow and its key
_LONG, _INT = struct.Struct(">q"), struct.Struct(">i")


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": own, "type": kind} for own, kind in fields.items()]}


_TEXT = ["null", "string"]
_VALUES = zip("BILFDYS", ("boolean", "int", "long", "float", "double", "bytes", "string"))
# One removed row as Hudi's writer has it of a row that moves: the ordering value is the integer 0, which removes the
# row whatever its position (HoodieDeleteRecordList, whose third member is a union of wrapped values).
_REMOVED = fastavro.parse_schema(
    _record(
        "HoodieDeleteRecordList",
        deleteRecordList={
            "type": "array",
            "items": _record(
                "HoodieDeleteRecord",
                recordKey=_TEXT,
                partitionPath=_TEXT,
                orderingVal=["null", *(_record(name, value=kind) for name, kind in _VALUES)],
            ),
        },
    )
)


class UnreadableLog(Exception):
    """A log that Hudi's own reader alone reads: of another writer, or damaged."""


@dataclass(frozen=True)
class LogRow:
    """A row of the logs: its position, what it owes, and the Kafka partition and source time of its change.

    `values` are those of the columns that were asked for: dates as days, timestamps as microseconds since 1970.
    """

    position: str
    owed: str | None
    partition: int | None
    source_ts_ms: int | None
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)


def log_of(
    rows: Sequence[Mapping[str, Any]],
    removed: Sequence[str],
    *,
    instant: str,
    number: int,
    partition: str,
    file_id: str,
    avro_schema: str,
) -> bytes:
    """The log file with these rows, and with the removal of these keys (Hudi's text) from its file group.

    `rows` hold the column RECORD_KEY, dates as days and timestamps as microseconds since 1970. `number` is unique among
    the commit's files. `avro_schema` (JSON) has Hudi's columns in front.
    """
    header = {_SCHEMA: avro_schema, _INSTANT: instant}
    blocks = []
    if rows:
        schema, content = written_schema(avro_schema), io.BytesIO()
        content.write(_INT.pack(_BLOCKS) + _INT.pack(len(rows)))
        own = {COMMIT_TIME: instant, PARTITION_PATH: partition, FILE_NAME: file_id}
        for count, row in enumerate(rows):
            body = io.BytesIO()
            fastavro.schemaless_writer(body, schema, {**row, **own, SEQUENCE: f"{instant}_{number}_{count}"})
            content.write(_INT.pack(body.tell()) + body.getvalue())
        blocks.append(_block(_AVRO, header, content.getvalue()))
    if removed:
        place, body = {"partitionPath": partition, "orderingVal": ("I", {"value": 0})}, io.BytesIO()
        fastavro.schemaless_writer(
            body, _REMOVED, {"deleteRecordList": [{"recordKey": key, **place} for key in removed]}
        )
        blocks.append(_block(_DELETE, header, _INT.pack(_BLOCKS) + _INT.pack(body.tell()) + body.getvalue()))
    return b"".join(blocks)


@dataclass(frozen=True)
class LogBlock:
    """A block of a log: its rows by Hudi's text of their keys, None for one that it removes.

    `instant` is that of its write, `undoes` the instant of a write whose blocks don't count from then on.
    """

    instant: str
    rows: Mapping[str, LogRow | None] = field(default_factory=dict)
    undoes: str | None = None

    @property
    def bytes(self) -> int:
        """Bytes that it takes in memory, roughly."""
        return _BYTES_A_ROW * len(self.rows)


def read_log(body: bytes, keys: Collection[str] | None = None, columns: Sequence[str] = ()) -> tuple[LogBlock, ...]:
    """The blocks of a log file, with the rows of these keys (Hudi's text) alone, where some are given.

    The rows have the values of `columns`.

    Raises UnreadableLog for what Hudi's reader alone reads.
    """
    return tuple(_read_block(kind, header, content, keys, columns) for kind, header, content in _blocks(body))


def new_blocks(rows: Sequence[Mapping[str, Any]], removed: Sequence[str], *, instant: str) -> tuple[LogBlock, ...]:
    """The blocks of a log that `log_of` makes of the same rows and keys."""
    logged: dict[str, LogRow | None] = {row[RECORD_KEY]: _log_row(row) for row in rows}
    return (LogBlock(instant, logged), LogBlock(instant, dict.fromkeys(removed)))


def rows_in_logs(
    blocks: Sequence[LogBlock], *, keys: Collection[str], holds: Callable[[str], bool]
) -> dict[str, LogRow | None]:
    """The newest row of each of the keys (Hudi's text) that a file group's logs hold; None for one that they remove.

    `blocks` are those of all its logs, oldest first; `holds` says whether the blocks of an instant are committed.
    """
    undone = {block.undoes for block in blocks}
    newest: dict[str, LogRow | None] = {}
    for block in blocks:
        if block.instant in undone or not holds(block.instant):
            continue
        for key in block.rows.keys() & keys:
            row, held = block.rows[key], newest.get(key)
            if row is None or held is None or row.position >= held.position:
                newest[key] = row
    return newest


def written_schema(avro_schema: str) -> Any:
    """An Avro schema (JSON) for fastavro, with bare numbers for dates and timestamps, whose types end at year 9999."""
    return _parsed(avro_schema)


@lru_cache(maxsize=64)
def _parsed(avro_schema: str) -> Any:
    return fastavro.parse_schema(_without_times(json.loads(avro_schema)))


@lru_cache(maxsize=64)
def _key_alone(avro_schema: str) -> Any:
    """The schema up to the record's key, which is read of every row."""
    schema = _without_times(json.loads(avro_schema))
    names = [field["name"] for field in schema["fields"]]
    if RECORD_KEY not in names:
        raise UnreadableLog("A log has rows without Hudi's own columns")
    return fastavro.parse_schema({**schema, "fields": schema["fields"][: names.index(RECORD_KEY) + 1]})


def _without_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_times(kind) for kind in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("logicalType") in _COUNTED:
        return schema["type"]
    return {
        name: _without_times(value) if name in ("type", "items", "fields") else value for name, value in schema.items()
    }


def _read_block(
    kind: int, header: Mapping[int, str], content: bytes, keys: Collection[str] | None, columns: Sequence[str]
) -> LogBlock:
    if kind == _COMMAND:
        return LogBlock(header.get(_INSTANT, ""), undoes=header.get(_TARGET))
    rows: dict[str, LogRow | None] = {}
    if kind == _DELETE:
        removed: Any = fastavro.schemaless_reader(io.BytesIO(content[8:]), _REMOVED, _REMOVED)
        texts = (row["recordKey"] for row in removed["deleteRecordList"])
        return LogBlock(header[_INSTANT], dict.fromkeys(text for text in texts if keys is None or text in keys))
    for key, row in _rows(content, header[_SCHEMA], keys, columns):
        held = rows.get(key)
        if held is None or row.position >= held.position:
            rows[key] = row
    return LogBlock(header[_INSTANT], rows)


def _rows(
    content: bytes, avro_schema: str, keys: Collection[str] | None, columns: Sequence[str]
) -> Iterator[tuple[str, LogRow]]:
    """The wanted rows of a block, in its order, each with its key."""
    key_schema, schema = _key_alone(avro_schema), written_schema(avro_schema)
    (count,), place = _INT.unpack_from(content, 4), 8
    for _ in range(count):
        (size,) = _INT.unpack_from(content, place)
        body = content[place + 4 : place + 4 + size]
        place += 4 + size
        if keys is not None:
            beginning: Any = fastavro.schemaless_reader(io.BytesIO(body), key_schema, None)
            if beginning[RECORD_KEY] not in keys:
                continue
        row: Any = fastavro.schemaless_reader(io.BytesIO(body), schema, None)
        if row.get(hidden.POSITION) is None:
            raise UnreadableLog("A log has a row without a position")
        yield row[RECORD_KEY], _log_row(row, columns)


def _log_row(row: Mapping[str, Any], columns: Sequence[str] = ()) -> LogRow:
    position, owed, partition, source_ts_ms = (row.get(name) for name in _READ)
    return LogRow(str(position), owed, partition, source_ts_ms, {name: row.get(name) for name in columns})


def _block(kind: int, header: Mapping[int, str], content: bytes) -> bytes:
    after = b"".join(
        (
            _INT.pack(_FORMAT),
            _INT.pack(kind),
            _header(header),
            _LONG.pack(len(content)),
            content,
            _INT.pack(0),  # no footer
        )
    )
    length = len(after) + _LONG.size
    return b"".join((_MAGIC, _LONG.pack(length), after, _LONG.pack(len(_MAGIC) + _LONG.size + len(after))))


def _header(values: Mapping[int, str]) -> bytes:
    texts = [(name, text.encode()) for name, text in values.items()]
    return _INT.pack(len(texts)) + b"".join(_INT.pack(name) + _INT.pack(len(text)) + text for name, text in texts)


def _blocks(body: bytes) -> Iterator[tuple[int, dict[int, str], bytes]]:
    """Kind, header and content of each block. Raises UnreadableLog."""
    place = 0
    try:
        while place < len(body):
            if body[place : place + len(_MAGIC)] != _MAGIC:
                raise UnreadableLog("A log has a block without Hudi's mark")
            (length,) = _LONG.unpack_from(body, place + len(_MAGIC))
            start = place + len(_MAGIC) + _LONG.size
            place = start + length
            (form,), (kind,) = _INT.unpack_from(body, start), _INT.unpack_from(body, start + 4)
            if form != _FORMAT or kind not in (_COMMAND, _DELETE, _AVRO) or place > len(body):
                raise UnreadableLog(f"A log has a block of format {form} and kind {kind}")
            header, at = _read_header(body, start + 8)
            if kind == _COMMAND and header.get(_COMMAND_KIND) != _ROLL_BACK or header.keys() - _KNOWN_NAMES:
                raise UnreadableLog(f"A log has a block with the header {sorted(header)}")
            (size,) = _LONG.unpack_from(body, at)
            content = body[at + 8 : at + 8 + size]
            if kind != _COMMAND and _INT.unpack_from(content) != (_BLOCKS,):
                raise UnreadableLog("A log has a block of another version")
            yield kind, header, content
    except (struct.error, UnicodeDecodeError) as error:
        raise UnreadableLog(f"A log ends within a block: {error}") from error


_KNOWN_NAMES = frozenset((_INSTANT, _TARGET, _SCHEMA, _COMMAND_KIND))


def _read_header(body: bytes, place: int) -> tuple[dict[int, str], int]:
    (count,), values = _INT.unpack_from(body, place), {}
    place += 4
    for _ in range(count):
        (name,), (size,) = _INT.unpack_from(body, place), _INT.unpack_from(body, place + 4)
        values[name] = body[place + 8 : place + 8 + size].decode()
        place += 8 + size
    return values, place
