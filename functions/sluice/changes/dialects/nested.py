"""What a dialect declares: by paths, where in a record the rows, the operation and the place of a change lie.

A path is made of names with dots between them: `payload.after`.
"""

from __future__ import annotations

import calendar
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, TRUNCATE, UPDATE
from sluice.changes.position import NUMBER_FIELD, STEP_FIELD
from sluice.errors import UnusableSchema

Record = Mapping[str, Any]
SENT = "sent_columns"  # of a change's source: the columns of its row, where an update may lack some that it left alone


def _never(name: str) -> bool:
    return False


@dataclass(frozen=True)
class Reading:
    """What a dialect is told of the table and the object that a record is read for.

    `key` are the columns of the record key, in order, and `is_key` says whether a column of the source is one of them.
    `parse` gives the value of a JSON text. `object_key` is the object's.
    """

    key: tuple[str, ...] = ()
    is_key: Callable[[str], bool] = _never
    parse: Callable[[str], Any] = json.loads
    object_key: str = ""

    def key_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a row that are of the record key."""
        return {name: value for name, value in row.items() if self.is_key(name)} if self.key else {}


UNTOLD = Reading()


@dataclass(frozen=True)
class TypedForm:
    """Where records of a format with types hold the columns of a row, and the metadata that their changes then have.

    `rows` are paths of records, of which the first that is one counts; "" is the record itself, without the fields that
    `own` says are metadata. `source` are the fields of a change's source.
    """

    rows: tuple[str, ...]
    source: tuple[str, ...]
    own: Callable[[str], bool] = _never


class CaptureDialect(ABC):
    """A form of changes. `name` is the word for it in a rule's `format`; a record has the fields of one of `shapes`."""

    name: str
    shapes: tuple[frozenset[str], ...]

    def typed(self, names: Collection[str]) -> TypedForm | None:
        """How records with these fields are read where they bring types (Avro, Parquet); None where only JSON is."""
        return None

    @abstractmethod
    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record, by its fields and their values, is a change in this form, or one if a rule `named` it."""

    @abstractmethod
    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The changes in a record of this form, in Debezium's envelope. Raises UnusableSchema."""


def at(record: Record, path: str) -> Any:
    """The value at a path; None where a part is absent."""
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def change(op: str, before: Any, after: Any, source: Mapping[str, Any]) -> dict[str, Any]:
    """A change in Debezium's envelope."""
    return {"before": before, "after": after, "source": dict(source), "op": op}


def in_order(changes: Sequence[dict[str, Any]], reading: Reading) -> Sequence[dict[str, Any]]:
    """The changes of one record, each with its place among them.

    Where they have no place in a log, which the record's own offset alone orders, the last one of each key stays.
    """
    for step, made in enumerate(changes):
        source = made["source"]
        if NUMBER_FIELD in source:
            source[STEP_FIELD] = source.get(STEP_FIELD, 0) * _STEPS + step
    if len(changes) < 2 or not reading.key or any(NUMBER_FIELD in made["source"] for made in changes):
        return changes
    last: dict[Any, dict[str, Any]] = {}
    for made in changes:
        row = made["after"] if made["after"] is not None else made["before"]
        values = repr(sorted(reading.key_of(row).items(), key=lambda pair: pair[0])) if row is not None else id(made)
        earlier = last.pop(values, None)
        last[values] = made if earlier is None else _joined(earlier, made)
    return list(last.values())


def _joined(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """The later of two changes of a row, with the columns that only the earlier one has."""
    if SENT not in later["source"] or later["after"] is None:
        return later
    if earlier["after"] is None:  # another row took the key: nothing of the row that is gone stays
        return {**later, "op": CREATE}
    row = {**earlier["after"], **later["after"]}
    partial = {SENT: list(row)} if SENT in earlier["source"] else {}
    source = {name: value for name, value in later["source"].items() if name != SENT}
    return change(earlier["op"], later["before"], row, {**source, **partial})


# The operations of changes of a row, by the words that most captures have for them.
BY_WORDS: Mapping[str, str] = {"insert": CREATE, "update": UPDATE, "delete": DELETE}
_STEPS = 10**6  # more changes than a record holds
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z| UTC|[+-]\d\d(?::?\d\d)?)?")
_CLOCK = re.compile(r"([0-9]{1,19})\.([0-9]{10})")
_LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})")


def whole(value: Any) -> int | None:
    """A whole number from 0, also of text; None for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 40:
        return int(value)
    return value if type(value) is int and value >= 0 else None


def lsn(value: Any) -> int | None:
    """The number of a place in PostgreSQL's log, written `16/B374D848`; None for any other value."""
    parts = _LSN.fullmatch(value) if isinstance(value, str) else None
    return None if parts is None else int(parts[1], 16) << 32 | int(parts[2], 16)


def clock(value: Any) -> tuple[int, int] | None:
    """Nanoseconds since 1970 and the counter of a hybrid clock's text; None for any other value."""
    parts = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    return None if parts is None else (int(parts[1]), int(parts[2]))


def nanos(value: Any) -> int | None:
    """Nanoseconds since 1970 of a point in time in ISO 8601, in UTC where it names no zone; None for other values."""
    parts = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        return None
    zone = parts[8] or "Z"
    east = (
        0
        if zone in ("Z", " UTC")
        else int(f"{zone[0]}1") * (int(zone[1:3]) * 3_600 + int(zone[3:].lstrip(":") or 0) * 60)
    )
    seconds = calendar.timegm(tuple(int(part) for part in parts.groups()[:6])) - east
    return seconds * 10**9 + int((parts[7] or "").ljust(9, "0"))


def placed(number: int | None, step: int | None = None) -> dict[str, int]:
    """The fields of a place in a log, whose changes `number` orders, then `step`; none without a number."""
    return {} if number is None else {NUMBER_FIELD: number, **({} if step is None else {STEP_FIELD: step})}


def _as_it_is(row: Any, record: Record, reading: Reading) -> Any:
    return row


def _nowhere(record: Record, reading: Reading) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class ChangePaths(CaptureDialect):
    """A dialect whose records hold their changes at paths.

    `fields` are those that every record has, unless a rule names the dialect. `listed` is the path of a list of
    changes, of which the others are relative. `row` is that of the row after a change or of a list of rows, or of
    the deleted row; `before` that of the former row, `old` of the former values of what an update changed, and
    `key` that of the key of the row. `operations` are Debezium's by the words of the field `operation` in lower
    case; MESSAGE is that of records without a row. Without an `operation` a change without a row is a deletion.
    `source` are paths by Debezium's words for the metadata, and `place` makes the fields of the position. `decoded`
    gives a row or a key as an object of columns, where the dialect writes another form. A `partial` dialect's
    updates may lack columns that they left alone. In place of the `operation`, `is_deletion` may say which changes
    are. Rows may be JSON text where there are `texts`, and a list of rows where there are `several`. `order` are the
    paths that `place` reads, of which a typed record must have one for its changes to have a place. `typed_rows` says
    that rows which are `decoded` may have types, too.
    """

    name: str
    fields: frozenset[str]
    row: str = ""
    listed: str = ""
    before: str = ""
    old: str = ""
    key: str = ""
    operation: str = ""
    operations: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: Mapping[str, str] = field(default_factory=dict, hash=False)
    place: Callable[[Record, Reading], Mapping[str, Any]] = _nowhere
    decoded: Callable[[Any, Record, Reading], Any] = _as_it_is
    partial: bool = False
    is_deletion: Callable[[Record], bool] | None = None
    texts: bool = False
    several: bool = False
    order: tuple[str, ...] = ()
    typed_rows: bool = False

    @property
    def shapes(self) -> tuple[frozenset[str], ...]:  # type: ignore[override]  # `fields` of a form of one shape
        return (self.fields,)

    def typed(self, names: Collection[str]) -> TypedForm | None:
        """The columns of the row after a change or before it, where these are records.

        In these a column that an update left out is null as well, so that updates must not lack any, or say so.
        """
        if self.listed or (self.partial or self.decoded is not _as_it_is) and not self.typed_rows:
            return None
        has_place = any(path.partition(".")[0] in names for path in self.order)
        source = (*self.source, *((NUMBER_FIELD, STEP_FIELD) if has_place else ()), *((SENT,) if self.partial else ()))
        return TypedForm(tuple(path for path in (self.row, self.before) if path), source)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record has the fields, a known operation, and a row where the operation has one."""
        if not named and not self.fields <= record.keys():
            return False
        parts = self._parts(record)
        return parts is not None and all(map(self._is_change, parts))

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The changes of each row of a recognised record. An update of the key also deletes the former key's row."""
        made: list[dict[str, Any]] = []
        for part in self._parts(record) or ():
            made += self._of_part(part, reading)
        return made or [change(MESSAGE, None, None, {})]

    def _parts(self, record: Record) -> list[Record] | None:
        """The changes of a record, each with the record's own fields; None where its list is none."""
        if not self.listed:
            return [record]
        parts = at(record, self.listed)
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return None
        return [{**record, **part} for part in parts]

    def _op(self, part: Record) -> str | None:
        if self.operation:
            word = at(part, self.operation)
            return self.operations.get(str(word).lower()) if word is not None else None
        if self.is_deletion is not None:
            return DELETE if self.is_deletion(part) else UPDATE
        return DELETE if at(part, self.row) is None else UPDATE

    def _is_change(self, part: Record) -> bool:
        op = self._op(part)
        if op in (None, MESSAGE, TRUNCATE):
            return op is not None
        sides = [side for path in (self.row, self.before, self.key) if path and (side := at(part, path)) is not None]
        return bool(sides) and all(self._is_row(side) for side in sides)

    def _is_row(self, value: Any) -> bool:
        if isinstance(value, list) and value:
            return all(isinstance(row, dict) for row in value) if self.several else self.decoded is not _as_it_is
        return isinstance(value, dict) or self.texts and isinstance(value, str)

    def _of_part(self, part: Record, reading: Reading) -> list[dict[str, Any]]:
        op = self._op(part) or UPDATE
        source = {word: value for word, path in self.source.items() if (value := at(part, path)) is not None}
        source.update(self.place(part, reading))
        if op in (MESSAGE, TRUNCATE):
            return [change(op, None, None, source)]
        made = []
        for row, old in self._rows(part):
            row, old = self._decoded(row, part, reading), self._decoded(old, part, reading)
            before = self._decoded(at(part, self.before) if self.before else None, part, reading)
            key = self._decoded(at(part, self.key) if self.key else None, part, reading)
            if op == DELETE:
                made.append(change(op, self._deleted({**(key or {}), **(before or row or {})}, reading), None, source))
                continue
            if row is None:
                raise UnusableSchema(f"A change in the form `{self.name}` has no row after it")
            # What an update left out is as it was, and the row before it may say how.
            named = {**(before if before and self.partial and op == UPDATE else {}), **(key or {})}
            row = {**named, **row} if named else row
            if old and op == UPDATE:  # what changed and isn't in the row is null now, where a writer leaves nulls out
                row = {**dict.fromkeys(old), **reading.key_of(old), **row}
                before = {**row, **old}
            partial = {SENT: list(row)} if self.partial and op == UPDATE else {}
            if op == UPDATE and before and any(row.get(name) != it for name, it in reading.key_of(before).items()):
                made.append(change(DELETE, {**row, **before}, None, dict(source)))
                before = None
            whole_before = before if before and before.keys() >= row.keys() else None
            made.append(change(op, whole_before, row, {**source, **partial}))
        return made

    def _deleted(self, row: dict[str, Any], reading: Reading) -> dict[str, Any]:
        if reading.key and row and not reading.key_of(row):
            raise UnusableSchema(
                f"A deletion in the form `{self.name}` names its row by {', '.join(row)[:100]}, and not by the record "
                f"key {', '.join(reading.key)}",
                next_step="Make these columns the table's record_key, or let deletions bring whole rows",
            )
        return row

    def _decoded(self, row: Any, part: Record, reading: Reading) -> dict[str, Any] | None:
        if row is None:
            return None
        if self.texts and isinstance(row, str):
            row = reading.parse(row) if row else None
        made = self.decoded(row, part, reading) if row is not None else None
        if made is not None and not isinstance(made, dict):
            raise UnusableSchema(f"A row in the form `{self.name}` is no object of columns")
        return made

    def _rows(self, part: Record) -> list[tuple[Any, Any]]:
        """Each row of a change with the former values of what changed in it."""
        rows, olds = (at(part, path) if path else None for path in (self.row, self.old))
        former = olds if isinstance(olds, list) else [olds]
        rows = rows if self.several and isinstance(rows, list) and rows else [rows]
        return [(row, former[number] if number < len(former) else None) for number, row in enumerate(rows)]
