"""Encodes the position of a change as a string. Strings sort in the order of the changes to a row."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sluice.errors import Unordered

POSTGRES = "postgres"
MYSQL = "mysql"  # and MariaDB
SQLSERVER = "sqlserver"
ORACLE = "oracle"
MONGODB = "mongodb"
NUMBER = "number"  # a number that rises with every commit, such as TiDB's timestamps, and a step of the commit
NUMBER_FIELD, STEP_FIELD = "change_number", "change_step"
OFFSET_ONLY = "offset"
ARRIVAL = "arrival"  # when the object of a row was written to S3
NAMED = "named"  # what the name of a row's object says, then when it was written

MAX_GENERATION = 9_999
_LSN = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}")
# A rollback segment id as LogMiner prints it: " 0x0000c1.0000bd4a.0010 ", redo log sequence, block and byte.
_RS_ID = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{1,8})\.([0-9a-fA-F]{1,8})\.([0-9a-fA-F]{1,4})\s*")
_LIMIT_40 = 10**40
_LIMIT_20 = 10**20
_LIMIT_10 = 10**10


@dataclass(frozen=True)
class _Source:
    """The position fields of one kind of source, as its source block names them."""

    kind: str
    names: tuple[str, ...]  # in comparison order
    optional: tuple[str, ...] = ()  # fields that may be absent
    telling: str | None = None  # the field that only this kind has


# The fields are documented at https://debezium.io/documentation/reference/3.5/connectors/, for each connector under
# "Change event values". MongoDB's ord and ts_ms are the cluster time; from release 3.4 on, ts_ms is the server's clock.
_SOURCES: tuple[_Source, ...] = (
    _Source(SQLSERVER, ("commit_lsn", "change_lsn", "event_serial_no")),
    _Source(ORACLE, ("commit_scn", "scn", "rs_id", "ssn"), optional=("rs_id", "ssn"), telling="scn"),
    _Source(MYSQL, ("file", "pos", "row")),
    _Source(MONGODB, ("ts_ms", "ord"), telling="ord"),
    _Source(POSTGRES, ("lsn",)),
    _Source(NUMBER, (NUMBER_FIELD, STEP_FIELD)),  # of `sluice.changes.dialects`, under no prefix
)


@dataclass(frozen=True)
class PositionFields:
    """The fields of a record that hold its log position, in comparison order, and their kind.

    `advice` names the fields to add to the connector if the record holds no position or only part of one.
    """

    kind: str
    names: tuple[str, ...]
    advice: str | None = None


def detect(field_names: Collection[str], prefixes: Sequence[str] = ("",)) -> PositionFields:
    """Find the log position among field names; `prefixes` are tried in order ("__", "__source_").

    Without a position the kind is OFFSET_ONLY. The same holds for a partial one (a file without a row): rows of one
    statement share its parts, so the Kafka offset is the safer order. An absent optional field has the name "".
    """
    partial: tuple[str, ...] | None = None
    for source in _SOURCES:
        names = tuple(_present(field, prefixes, field_names) for field in source.names)
        missing = tuple(field for field, name in zip(source.names, names) if not name and field not in source.optional)
        summary = names[source.names.index(source.telling)] if source.telling else "".join(names)
        if not missing:
            return PositionFields(source.kind, names)
        if summary and partial is None:
            partial = missing
    if partial is not None:
        return PositionFields(
            OFFSET_ONLY, (), f"{BY_OFFSET}: add {','.join(partial)}, which the log position lacks, to add.fields"
        )
    return PositionFields(OFFSET_ONLY, (), f"{BY_OFFSET}: {NO_POSITION}")


BY_OFFSET = "changes are ordered by Kafka offset alone"  # in front: pages cut what follows
NO_POSITION = (
    "add the log position to add.fields (PostgreSQL lsn; MySQL and MariaDB file,pos,row; "
    "SQL Server commit_lsn,change_lsn,event_serial_no; Oracle commit_scn,scn,rs_id,ssn; MongoDB ord,source.ts_ms)"
)


def _present(field: str, prefixes: Sequence[str], present: Collection[str]) -> str:
    if field == "ts_ms" and len(prefixes) > 1:
        prefixes = prefixes[1:]  # with the bare prefix of flattened fields it is the connector's own clock
    return next((prefix + field for prefix in prefixes if prefix + field in present), "")


def encode(generation: int, kind: str, components: Sequence[Any], offset: int) -> str:
    """The stored position: strings sort as (generation, components, offset) do.

    Components are unsigned numbers.

    - MySQL (file, pos, row): a binlog file counts by its number, so `.999999` precedes `.1000000`.
    - Oracle: changes are ordered by their commit, because a snapshot holds all that was committed before it, then by
      their own SCN and their place in the redo log.
    - MongoDB: the cluster time is (ts_ms, ord). The changes of a transaction share it and are ordered by offset. From
      Debezium 3.4 on, ts_ms is the server's wall time (MongoDB 6), which rises with the cluster time.

    Raises Unordered for a missing component, or one out of range. Runs once per record, hence `%` formatting.
    """
    try:
        if not (0 <= generation <= MAX_GENERATION and 0 <= offset < _LIMIT_20):
            raise Unordered("Generation or offset out of range", field="offset", value=f"{generation}/{offset}")
        if kind == POSTGRES:
            (lsn,) = components
            if 0 <= lsn < _LIMIT_20:
                return "%04d.%020d.%020d" % (generation, lsn, offset)  # noqa: UP031
        elif kind == MYSQL:
            file, pos, row = components
            if 0 <= pos < _LIMIT_20 and 0 <= row < _LIMIT_10:
                return "%04d.%020d.%020d.%010d.%020d" % (generation, binlog_number(file), pos, row, offset)  # noqa: UP031
        elif kind == SQLSERVER:
            commit, change, serial = components
            serial = 0 if serial is None else serial
            if commit is not None and 0 <= serial < _LIMIT_10:
                lsns = f"{_sqlserver_lsn(commit)}.{_sqlserver_lsn(change)}"
                return "%04d.%s.%010d.%020d" % (generation, lsns, serial, offset)  # noqa: UP031
        elif kind == ORACLE:
            commit, scn, segment, number = components
            own, number = _scn(scn), 0 if number is None else number
            # The rows of a snapshot name no commit. They are as of their own SCN, before everything committed later.
            # Until Debezium 2.4 most changes of a transaction name the commit before it in their redo thread.
            committed = own if commit is None or commit == "" else max(own, _scn(commit))
            if committed < _LIMIT_20 and 0 <= number < _LIMIT_10:
                place = f"{committed:020d}.{own:020d}.{_segment(segment)}"
                return "%04d.%s.%010d.%020d" % (generation, place, number, offset)  # noqa: UP031
        elif kind == MONGODB:
            ts_ms, order = components
            if 0 <= ts_ms < _LIMIT_20 and -1 <= order < _LIMIT_10 - 1:
                return "%04d.%020d.%010d.%020d" % (generation, ts_ms, order + 1, offset)  # noqa: UP031
        elif kind == NUMBER:
            number, step = components
            if 0 <= number < _LIMIT_40 and 0 <= step < _LIMIT_20:
                return "%04d.%040d.%020d.%020d" % (generation, number, step, offset)  # noqa: UP031
        elif kind == OFFSET_ONLY and not components:
            return "%04d.%020d" % (generation, offset)  # noqa: UP031
    except (TypeError, ValueError) as error:
        raise Unordered(
            f"A {kind} position has a missing or malformed part", field=kind, value=_written(components)
        ) from error
    raise Unordered(f"A {kind} position is out of range", field=kind, value=_written(components))


def encode_rows(generation: int, kind: str, components: Sequence[Sequence[Any]], offsets: Sequence[int]) -> list[str]:
    """The stored positions of rows: `encode` of each. PostgreSQL's usual ones are checked together."""
    if kind == POSTGRES and set(map(len, components)) == {1}:
        lsns = [lsn for (lsn,) in components]
        numbers = set(map(type, lsns)) == {int} and min(lsns) >= 0 and max(lsns) < _LIMIT_20
        if numbers and 0 <= generation <= MAX_GENERATION and min(offsets) >= 0 and max(offsets) < _LIMIT_20:
            return [f"{generation:04d}.%020d.%020d" % place for place in zip(lsns, offsets)]
    return [encode(generation, kind, parts, offset) for parts, offset in zip(components, offsets)]


def _written(components: Sequence[Any]) -> str:
    return ", ".join(map(repr, components))[:200]


# The components that precede everything in each kind of log.
_FIRST: dict[str, tuple[Any, ...]] = {
    POSTGRES: (0,),
    MYSQL: (".0", 0, 0),
    SQLSERVER: ("00000000:00000000:0000", None, 0),
    ORACLE: (None, 0, None, None),
    MONGODB: (0, -1),
    NUMBER: (0, 0),
}


_NO_ORDER, _SENDING_MS = -1, 60_000
_OF_DOCUMENT_READ = re.compile(r"(\d{4}\.)(\d{20})(\.0{10}\.\d{20})")  # its stored position
BEFORE_THE_LOG = r"^[0-9]{4}\.0+\."  # matches the stored position of such a row


def of_snapshot(kind: str, components: Sequence[Any]) -> Sequence[Any]:
    """The components of a row that a snapshot read: its own, or before the whole log if it names no place in it.

    PostgreSQL's incremental snapshots name none (since Debezium 1.9.6), and no place would be safe: a change that was
    under way during the read, and isn't in the row, may precede any known place. Such a row only supplies what the
    table lacks, and never wins over a change. https://github.com/debezium/debezium/pull/3765

    A document that MongoDB's snapshot read without a cluster time has the connector's clock when it was sent (since
    Debezium 3.1), later than it was read: what changed it meanwhile is later for the time that sending may take.
    """
    if kind == MONGODB and components[1] == _NO_ORDER and type(components[0]) is int and components[0] >= _SENDING_MS:
        return components[0] - _SENDING_MS, _NO_ORDER
    return _FIRST[kind] if kind in _FIRST and not any(components) else components


def former_positions(position: str) -> tuple[str, ...]:
    """The positions that earlier releases gave a row: without its object's place where it ties (`among_ties`).

    Of a full load also the time of its load alone (`encode_load_order`), of a document that a snapshot read the time at
    which it was sent.
    """
    tied = position
    position = re.sub(AMONG_TIES, "", position[: -OFFSET_DIGITS - 1]) + position[-OFFSET_DIGITS - 1 :]
    read = _OF_DOCUMENT_READ.fullmatch(position)
    if read is not None and int(read[2]):
        sent = f"{read[1]}{int(read[2]) + _SENDING_MS:020d}"
        return position, sent + read[3], sent + tied[len(sent) :]
    parts = position.split(".")
    half = (len(parts) - 2) // 2  # the places of the load, and as many zeros before them
    of_load = half > 0 and len(parts) == 2 * half + 2 and parts[1 : half + 1] == ["0" * 27] * half
    return position, ".".join([parts[0], *parts[half + 1 :]]) if of_load else position


ADOPTED = "0000.-"  # begins the position of a row of another tool's table, before the instant that wrote the row there


def is_adopted(position: str) -> bool:
    """True for a stored row that was adopted from another tool's table, and that no change wrote.

    Its position is lower than that of any change. Adopted rows are ordered by their instants there, which sort as text.
    """
    return position.startswith(ADOPTED)


# Begin the place of an object. Such a place sorts above every number that another kind of position begins with, so that
# rows which were stored by their place in an object alone, by releases without arrivals, are older.
_AT, _BY_NAME = "t", "w"
BY_ARRIVAL = rf"^[0-9]{{4}}\.[{_AT}{_BY_NAME}]"  # a stored position by the object, and its place there


def place_of_object(key: str, modified_at: int, order: str | None = None) -> str:
    """The place of an object among those that neither a log nor Kafka orders: by its time in S3, then by its key.

    `modified_at` is its time (epoch ms): whole seconds as S3 has them, and the number of the key's versions of the same
    second that were written before it. `order` goes before them: what the key says, in a form that sorts.
    """
    seconds, version = divmod(modified_at, 1000)
    at = f"{seconds:011d}.{key.encode('utf-8', 'surrogatepass').hex()}.{version:03d}"
    return f"{_AT}{at}" if order is None else f"{_BY_NAME}{order}.{at}"


def first_place(modified_at: int, order: str | None = None) -> str:
    """A place before those of all objects of the same second, or later ones, with the same `order`."""
    seconds = f"{modified_at // 1000:011d}"
    return f"{_AT}{seconds}" if order is None else f"{_BY_NAME}{order}.{seconds}"


def encode_floor(generation: int, place: str) -> str:
    """The position below which a full dump replaces all rows: it begins at this place of its generation."""
    return f"{generation:04d}.{place}"


def begins_dump(floor: str) -> bool:
    """True if a position is that from which on a full dump replaces a table, and no truncate's of a log."""
    return re.match(rf"[0-9]{{4}}\.([{_AT}{_BY_NAME}]|$)", floor) is not None


def encode_arrival(generation: int, place: str, number: int) -> str:
    """The stored position of a row by the place of its object and its own number in it."""
    return "%04d.%s.%020d" % (generation, place, number)  # noqa: UP031


OFFSET_DIGITS = 20  # at the end of each position
AMONG_TIES = r"\.[tw][0-9.]+\.[0-9a-f]+\.[0-9]{3}$"  # what `among_ties` puts in front of them, and of their dot


def tie_of(place: str, *, by_key: bool) -> str:
    """What tells an object's rows from others at their place in a log, or of their value of a column.

    `place` is the object's (`place_of_object`). Without `by_key` its key is left out, which each row would have.
    """
    at, key, version = place.rsplit(".", 2)
    return place if by_key else f"{at}.0.{version}"


def among_ties(position: str, tie: str) -> str:
    """The position of a row that no Kafka offset tells from others at its place: its object does, then its number."""
    return f"{position[:-OFFSET_DIGITS]}{tie}.{position[-OFFSET_DIGITS:]}"


BY_OFFSET_ALONE = r"^[0-9]{4}\.[0-9]{20}$"  # a stored position without a place in any log


def is_by_offset_alone(position: str) -> bool:
    """True if a stored position is only a Kafka offset. Such positions of two Kafka partitions don't compare."""
    return re.match(BY_OFFSET_ALONE, position) is not None


def log_place(kind: str, position: str) -> int | None:
    """The place of a stored position in the source's log.

    It is a byte of PostgreSQL's log, the number of MySQL's binlog or SQL Server's virtual log file, or Oracle's commit
    SCN. None for MongoDB (ordered by a clock), for Kafka offsets, and for a snapshot row placed before the log.
    """
    place = position.split(".")[1]
    if kind == SQLSERVER:
        return int(place[:8], 16) or None
    return int(place) or None if kind in (POSTGRES, MYSQL, ORACLE) else None


def generation_of(position: str) -> int:
    return int(position[:4])


@lru_cache(maxsize=1024)
def binlog_number(file: str | None) -> int:
    """The number of a binlog file: its digits after the last dot. Raises ValueError for any other name."""
    _, dot, digits = file.rpartition(".") if isinstance(file, str) else ("", "", "")
    if not dot or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise ValueError(f"{str(file)[:100]!r} is not the name of a binlog file")
    return int(digits)


def binlog_base(file: str) -> str:
    """The part of a binlog's name before its number. Another base is another server's log."""
    return file.rpartition(".")[0]


@lru_cache(maxsize=65536)
def _sqlserver_lsn(text: str | None) -> str:
    """An LSN ("0000002a:000004e0:0003") as 20 hexadecimal digits.

    The change LSN that snapshot rows lack (Debezium prints NULL) is the lowest.
    """
    if text is None or text == "NULL":
        return "0" * 20
    if not _LSN.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not an LSN")
    return text.replace(":", "").lower()


@lru_cache(maxsize=65536)
def _scn(value: Any) -> int:
    """A system change number from a number or text; the highest of a list by redo thread ("5:1:tx,7:2:tx")."""
    if isinstance(value, int):
        number = value
    elif isinstance(value, str) and len(value) <= 4096:
        number = max(_digits(part.partition(":")[0]) for part in value.split(","))
    else:
        raise ValueError(f"{str(value)[:100]!r} is not an SCN")
    if number < 0:
        raise ValueError(f"{number} is not an SCN")
    return number


def _digits(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 40:
        raise ValueError(f"{text[:100]!r} is not a number")
    return int(text)


@lru_cache(maxsize=65536)
def _segment(text: str | None) -> str:
    """A rollback segment id as 20 hexadecimal digits. The one that snapshot rows lack is the lowest."""
    if text is None or text == "":
        return "0" * 20
    match = _RS_ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is not a rollback segment id")
    log, block, byte = match.groups()
    return f"{log.lower():0>8}{block.lower():0>8}{byte.lower():0>4}"
