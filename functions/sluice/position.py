"""The total order of changes to one row, as a string whose order is the order of the changes."""
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Collection, Dict, Optional, Sequence, Tuple

from sluice.errors import Unordered

POSTGRES = "postgres"
MYSQL = "mysql"  # and MariaDB
SQLSERVER = "sqlserver"
OFFSET_ONLY = "offset"

MAX_GENERATION = 9_999
_LSN = re.compile(r"[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}")
_LIMIT_20 = 10**20
_LIMIT_10 = 10**10

# Field names by kind, in comparison order, as the source block calls them.
_SOURCE_FIELDS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    (SQLSERVER, ("commit_lsn", "change_lsn", "event_serial_no")),
    (MYSQL, ("file", "pos", "row")),
    (POSTGRES, ("lsn",)),
)
_CONNECTOR_KINDS: Dict[str, str] = {
    "postgresql": POSTGRES, "mysql": MYSQL, "mariadb": MYSQL, "sqlserver": SQLSERVER,
}


@dataclass(frozen=True)
class PositionFields:
    """Where a record carries its log position: the kind, the field names in comparison order.

    `advice` says what to add to the connector when the record carries no position, or part of one.
    """

    kind: str
    names: Tuple[str, ...]
    advice: Optional[str] = None


def detect(field_names: Collection[str], prefixes: Sequence[str] = ("",)) -> PositionFields:
    """Find the log position among field names; `prefixes` are tried in order ("__", "__source_").

    A partial position (a file without a row) is not used: rows of one statement share the rest, and
    the order by Kafka offset alone is the safer one. Then, and without any, the kind is OFFSET_ONLY.
    """
    partial: Optional[Tuple[str, ...]] = None
    for kind, fields in _SOURCE_FIELDS:
        names = tuple(_first_present(field, prefixes, field_names) for field in fields)
        found = tuple(name for name in names if name is not None)
        if len(found) == len(fields):
            return PositionFields(kind, found)
        if found and kind != POSTGRES and partial is None:
            partial = tuple(field for field, name in zip(fields, names) if name is None)
    if partial is not None:
        return PositionFields(OFFSET_ONLY, (), f"add {','.join(partial)} to add.fields: the log position is incomplete without")
    return PositionFields(OFFSET_ONLY, (), "add the log position to add.fields (lsn, or file,pos,row): changes are ordered by Kafka offset alone")


def _first_present(field: str, prefixes: Sequence[str], present: Collection[str]) -> Optional[str]:
    return next((prefix + field for prefix in prefixes if prefix + field in present), None)


def encode(generation: int, kind: str, components: Sequence[Any], offset: int) -> str:
    """The stored position. Order of strings equals order of (generation, components, offset).

    Components are unsigned: numbers for PostgreSQL (lsn) and the last two of MySQL (file, pos, row);
    a binlog file counts by its number, so `.999999` precedes `.1000000`. Raises Unordered for a
    missing or out-of-range component. Called once per record, hence the plain formatting.
    """
    try:
        if not (0 <= generation <= MAX_GENERATION and 0 <= offset < _LIMIT_20):
            raise Unordered("Generation or offset out of range", field="offset", value=f"{generation}/{offset}")
        if kind == POSTGRES:
            (lsn,) = components
            if 0 <= lsn < _LIMIT_20:
                return "%04d.%020d.%020d" % (generation, lsn, offset)
        elif kind == MYSQL:
            file, pos, row = components
            if 0 <= pos < _LIMIT_20 and 0 <= row < _LIMIT_10:
                return "%04d.%020d.%020d.%010d.%020d" % (generation, binlog_number(file), pos, row, offset)
        elif kind == SQLSERVER:
            commit, change, serial = components
            serial = 0 if serial is None else serial
            if commit is not None and 0 <= serial < _LIMIT_10:
                return "%04d.%s.%s.%010d.%020d" % (generation, _sqlserver_lsn(commit), _sqlserver_lsn(change), serial, offset)
        elif kind == OFFSET_ONLY and not components:
            return "%04d.%020d" % (generation, offset)
    except (TypeError, ValueError) as error:
        raise Unordered(f"A {kind} position has a missing or malformed part", field=kind, value=repr(tuple(components))[:200]) from error
    raise Unordered(f"A {kind} position is out of range", field=kind, value=repr(tuple(components))[:200])


def generation_of(position: str) -> int:
    """The generation that a stored position belongs to."""
    return int(position[:4])


@lru_cache(maxsize=1024)
def binlog_number(file: Optional[str]) -> int:
    """The number of a binlog file: its digits after the last dot. Raises ValueError for any other name."""
    _, dot, digits = file.rpartition(".") if isinstance(file, str) else ("", "", "")
    if not dot or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise ValueError(f"{str(file)[:100]!r} is not the name of a binlog file")
    return int(digits)


def binlog_base(file: str) -> str:
    """What a binlog's name has before its number; another base is another server's log."""
    return file.rpartition(".")[0]


@lru_cache(maxsize=65536)
def _sqlserver_lsn(text: Optional[str]) -> str:
    """An LSN "0000002a:000004e0:0003" as 20 hexadecimal digits; snapshot rows have no change LSN, which is lowest."""
    if text is None:
        return "0" * 20
    if not _LSN.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not an LSN")
    return text.replace(":", "").lower()
