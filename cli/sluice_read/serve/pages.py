"""One page of a table's rows, in the order of their record keys: conditions, and the cursor of the next page.

DuckDB filters and orders the batches that hudi-rs reads, and holds one page of them. Its statements name columns by
number and bind every value, so nothing of a request or of a table stands in their text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Timer

import duckdb
import pyarrow as pa

from sluice.errors import SluiceError
from sluice_read.diff import key_columns
from sluice_read.errors import InvalidCondition, InvalidCursor, PageTooLarge, TookTooLong
from sluice_read.reading import PARTITION_PATH, RECORD_KEY, Shown, SilverTable
from sluice_read.sql import is_exact, opened_duckdb, registered
from sluice_read.values import rows_of

_COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NULLS = {"null": "IS NULL", "set": "IS NOT NULL"}
_FORM = "column:operator:value, as in born:ge:1900-01-01, or column:is:null, column:is:set"
# DuckDB's types whose values have one text: nested ones can only be null or set.
_COMPARABLE = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|VARCHAR|BLOB|DATE|TIME.*|DECIMAL.*")
_INSTANT = re.compile(r"[0-9]{14}([0-9]{3})?")
_BATCH_ROWS = 500


@dataclass(frozen=True)
class RowCondition:
    """A condition on a column: `operator` is one of `eq ne lt le gt ge`, or `is` with the value `null` or `set`."""

    column: str
    operator: str
    value: str

    @classmethod
    def of(cls, text: str) -> RowCondition:
        """Read `column:operator:value`; the value may have colons. Raises InvalidCondition."""
        column, operator, value = (*text.split(":", 2), "", "")[:3]
        if text.count(":") >= 2 and (operator in _COMPARISONS or operator == "is" and value in _NULLS):
            return cls(column, operator, value)
        raise InvalidCondition(
            f"{text!r} is not a condition", given=text, next_step=f"Write {_FORM}; operators: {', '.join(_COMPARISONS)}"
        )


@dataclass(frozen=True)
class Cursor:
    """The last row of a page, by its record key and partition, and the instant that all pages are read as of."""

    instant: str
    key: str
    partition: str

    @property
    def text(self) -> str:
        """The cursor as a client passes it."""
        document = json.dumps([self.instant, self.key, self.partition], ensure_ascii=False)
        return base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Read the text of a cursor. Raises InvalidCursor."""
        try:
            parts = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            json.dumps(parts, ensure_ascii=False).encode()  # half a surrogate pair is no text for DuckDB
        except (ValueError, binascii.Error, RecursionError) as error:
            raise InvalidCursor("The cursor can't be read") from error
        if not (isinstance(parts, list) and len(parts) == 3 and all(isinstance(item, str) for item in parts)):
            raise InvalidCursor("The cursor can't be read")
        if not _INSTANT.fullmatch(parts[0]):
            raise InvalidCursor("The cursor names no instant")
        return cls(*parts)


@dataclass(frozen=True)
class RowsAsked:
    """What a page holds. `key` gives the values of the record key's columns, and so at most one row."""

    limit: int
    shown: Shown = Shown()
    conditions: tuple[RowCondition, ...] = ()
    key: tuple[str, ...] = ()
    after: Cursor | None = None


@dataclass(frozen=True)
class PageLimits:
    """Limits of one page: seconds to read it, bytes of its JSON (one row always fits), DuckDB's memory."""

    seconds: float = 30
    max_bytes: int = 16 * 1024**2
    memory_mib: int = 512


@dataclass(frozen=True)
class Page:
    """The rows of a page, each as JSON, and the cursor of the next page, None after the last."""

    rows: tuple[str, ...]
    following: Cursor | None


def read_page(table: SilverTable, wanted: RowsAsked, limits: PageLimits) -> Page:
    """Read one page. Every page reads the columns that it needs, of all files of the moment.

    Raises UnknownColumn, InvalidCondition, TookTooLong, PageTooLarge, Unreadable.
    """
    deadline = time.monotonic() + limits.seconds
    columns = table.schema(wanted.shown).names
    conditions = _conditions(table, wanted)
    stored = tuple(dict.fromkeys((RECORD_KEY, PARTITION_PATH, *columns, *(item.column for item in conditions))))
    read = Shown(with_deleted=wanted.shown.with_deleted, lineage=True, columns=stored)
    with opened_duckdb(memory_mib=limits.memory_mib) as connection, limited(table.table, connection, limits.seconds):
        numbers = {name: f"c{number}" for number, name in enumerate(stored)}
        shape = table.schema(read).empty_table().rename_columns(list(numbers.values()))
        where, values = _where(connection, shape, conditions, numbers)
        if wanted.after is not None:
            where, values = [*where, "(c0, c1) > (?, ?)"], [*values, wanted.after.key, wanted.after.partition]
        statement = (
            f"SELECT c0, c1, {', '.join(numbers[name] for name in columns)} FROM stored "
            f"WHERE {' AND '.join(where) or 'true'} ORDER BY c0, c1 LIMIT {wanted.limit + 1:d}"
        )
        batches = _timely(table, read, deadline, limits.seconds)
        renamed = (batch.rename_columns(shape.schema.names) for batch in batches)
        with registered(connection, "stored", pa.RecordBatchReader.from_batches(shape.schema, renamed)):
            reader = connection.sql(statement, params=values).to_arrow_reader(_BATCH_ROWS)
            return _page(table.instant, columns, reader, wanted.limit, limits.max_bytes)


def _conditions(table: SilverTable, wanted: RowsAsked) -> tuple[RowCondition, ...]:
    """All conditions, those of a key included; only shown columns may be named. Raises UnknownColumn."""
    table.schema(replace(wanted.shown, columns=tuple(item.column for item in wanted.conditions)))
    if not wanted.key:
        return wanted.conditions
    key = key_columns(table)
    if len(key) != len(wanted.key):
        raise InvalidCondition(
            f"The key of {table.table} is {', '.join(key)}, and {len(wanted.key)} values were given",
            given=wanted.key,
            next_step="Repeat `key` once for each column, in this order",
        )
    return (*wanted.conditions, *(RowCondition(name, "eq", value) for name, value in zip(key, wanted.key, strict=True)))


def _where(
    connection: duckdb.DuckDBPyConnection, shape: pa.Table, conditions: Sequence[RowCondition], numbers: dict[str, str]
) -> tuple[list[str], list[str]]:
    """The terms of the conditions, and the values to bind. Raises InvalidCondition."""
    relation = connection.from_arrow(shape)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    terms, values = [], []
    for item in conditions:
        column = numbers[item.column]
        if item.operator == "is":
            terms.append(f"{column} {_NULLS[item.value]}")
            continue
        if not _COMPARABLE.fullmatch(types[column]):
            raise InvalidCondition(
                f"{item.column} is a {types[column].partition('(')[0].lower()}, which has no order",
                given=item.column,
                next_step=f"Ask whether it is null: {item.column}:is:null",
            )
        value = "from_base64(?)" if types[column] == "BLOB" else f"CAST(? AS {types[column]})"
        not_a_value = InvalidCondition(
            f"{item.value!r} is not a value of {item.column}, {types[column]}",
            given=item.value,
            next_step="Write times in ISO 8601, bytes in base64",
        )
        try:
            ((held,),) = connection.execute(f"SELECT CAST({value} AS VARCHAR)", [item.value]).fetchall()
        except duckdb.Error as error:
            raise not_a_value from error
        if not is_exact(item.value, held, types[column]):
            raise not_a_value
        terms.append(f"{column} {_COMPARISONS[item.operator]} {value}")
        values.append(item.value)
    return terms, values


def _page(instant: str, columns: Sequence[str], reader: pa.RecordBatchReader, limit: int, max_bytes: int) -> Page:
    rows: list[str] = []
    size, last = 0, Cursor(instant, "", "")
    for batch in reader:
        for key, partition, *values in rows_of(batch):
            text = json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False, separators=(",", ":"))
            size += len(text.encode())
            if len(rows) == limit or rows and size > max_bytes:
                return Page(tuple(rows), last)
            rows.append(text)
            last = Cursor(instant, key, partition)
    return Page(tuple(rows), None)


def _timely(table: SilverTable, shown: Shown, deadline: float, seconds: float) -> Iterator[pa.RecordBatch]:
    for batch in table.batches(shown):
        if time.monotonic() > deadline:
            raise _too_long(table.table, seconds)
        yield batch


@contextmanager
def limited(what: str, connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt DuckDB after some seconds of work on a table or query. Raises TookTooLong, PageTooLarge."""
    timer = Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (duckdb.Error, SluiceError) as error:
        cause = error if isinstance(error, duckdb.Error) else error.__cause__  # what read for DuckDB has it as a cause
        if isinstance(cause, duckdb.InterruptException):
            raise _too_long(what, seconds) from error
        if isinstance(cause, duckdb.OutOfMemoryException):
            message = f"The rows of this page of {what} don't fit in the memory for one request"
            raise PageTooLarge(message, table=what) from error
        raise
    finally:
        timer.cancel()


def _too_long(table: str, seconds: float) -> TookTooLong:
    return TookTooLong(f"Reading {table} took longer than {seconds:g} s", table=table, seconds=seconds)
