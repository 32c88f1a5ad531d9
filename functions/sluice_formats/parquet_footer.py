"""Reads the footer of a Parquet file from its last bytes: rows, sizes, and the writer schema in Avro form.

The footer is a struct in Thrift's compact protocol. It is decoded here, within limits, into {field id: value}: pyarrow
ends the whole process where a footer contradicts itself. Only fields that are used are kept, since a byte of a footer
can become a hundred bytes of objects.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from sluice.config.json_types import JSON_TEXT
from sluice.errors import SchemaTooComplex, UnsupportedType, UnusableSchema
from sluice.schema.avro_types import NamedTypes
from sluice.schema.columns import INT96 as INT96_NAME
from sluice.schema.limits import MAX_NAME, parse_schema
from sluice.schema.writer_calendar import CALENDAR_KEYS, PROLEPTIC, WriterCalendar, writer_calendar
from sluice_formats.errors import DamagedParquet, NotParquet, UnsupportedParquet

MAGIC, ENCRYPTED = b"PAR1", b"PARE"
TAIL_BYTES = 8  # the footer's length and the magic
MAX_FOOTER_BYTES = 4 * 1024**2
# Values of a footer, and those of its schema and metadata, which are kept until the schema is made. A column of a row
# group has about forty values; a column of the schema has eight.
MAX_VALUES, MAX_KEPT = 1_000_000, 100_000
# Keys under which the sinks' Parquet writer (parquet-avro, AvroWriteSupport) keeps its schema; the second is older.
_AVRO_KEYS = (b"parquet.avro.schema", b"avro.schema")
_WRITER_OF_AVRO = b"parquet-mr"
_UNREADABLE_CODECS = {3: "LZO"}
# parquet.thrift: values of the enumerations Type and Encoding.
INT96, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 3, 6, 7
DICTIONARIES, DELTA_BYTE_ARRAY = (2, 8), 7


class ColumnChunk(NamedTuple):
    """One column of one row group: path, number of values, bytes without compression, encoding, type and place."""

    path: str
    values: int
    unpacked_bytes: int
    by_reference: bool  # texts or bytes in a dictionary: a repeated value is stored once
    shared_prefixes: bool
    physical: int = BYTE_ARRAY
    begin: int = 0  # its first page's place in the file
    stored_bytes: int = 0
    int96_of: str | None = None  # the name of its top column, where its timestamps are of type INT96


@dataclass(frozen=True)
class Footer:
    """A file's footer: the writer's schema in Avro form, rows, and the size of all columns uncompressed."""

    schema: Mapping[str, Any]
    rows: int
    unpacked_bytes: int
    chunks: tuple[ColumnChunk, ...] = ()
    calendar: WriterCalendar = PROLEPTIC

    @property
    def int96(self) -> frozenset[str]:
        """The columns with timestamps of type INT96."""
        return frozenset(chunk.int96_of for chunk in self.chunks if chunk.int96_of is not None)


def footer_bytes(tail: bytes, whole: bool) -> int:
    """Length of the footer with the 8 bytes after it. Raises NotParquet, UnsupportedParquet and DamagedParquet."""
    if tail.endswith(ENCRYPTED) and len(tail) >= TAIL_BYTES:
        raise UnsupportedParquet("The Parquet file is encrypted")
    if not tail.endswith(MAGIC) or whole and (not tail.startswith(MAGIC) or len(tail) < len(MAGIC) + TAIL_BYTES):
        raise NotParquet.of(tail if whole else b"", tail)
    length = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little") + TAIL_BYTES
    if length > MAX_FOOTER_BYTES:
        raise UnsupportedParquet(f"The Parquet footer is longer than {MAX_FOOTER_BYTES} bytes", bytes=length)
    if whole and length > len(tail) - len(MAGIC):
        raise DamagedParquet("The Parquet footer is longer than the file", bytes=length)
    return length


def read_footer(tail: bytes, whole: bool) -> Footer:
    """Read a footer that is within `tail`. Raises what `footer_bytes` raises, and UnusableSchema."""
    length = footer_bytes(tail, whole)
    try:
        file_metadata, _ = decode_struct_at(tail[-length:-TAIL_BYTES], 0, _FILE)
        groups: list[Mapping[int, Any]] = file_metadata.get(4, [])
        metadata = {pair[1]: pair.get(2) for pair in file_metadata.get(5) or ()}
        schema = _written(metadata)
        if schema is None or not file_metadata.get(6, b"").startswith(_WRITER_OF_AVRO):
            schema = _agreeing(schema, avro_form(file_metadata[2]))
        chunks = tuple(chunk for group in groups for chunk in group[1])
        calendar = writer_calendar({key: metadata[key] or b"" for key in CALENDAR_KEYS & metadata.keys()})
        return Footer(schema, int(file_metadata[3]), sum(int(group[2]) for group in groups), chunks, calendar)
    except (DamagedThrift, KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        raise DamagedParquet("The Parquet footer can't be read", cause=repr(error)[:200]) from error


def _chunk(column: Mapping[int, Any]) -> ColumnChunk:
    """Read a ColumnChunk of the format."""
    described = column[3]
    if described[4] in _UNREADABLE_CODECS:
        raise UnsupportedParquet(f"The Parquet file is compressed by {_UNREADABLE_CODECS[described[4]]}")
    encodings, path = set(described[2]), [part.decode("utf-8") for part in described[3]]
    dictionary, data = described.get(11, 0), int(described[9])
    return ColumnChunk(
        ".".join(path),
        int(described[5]),
        int(described[6]),
        described[1] == BYTE_ARRAY and not encodings.isdisjoint(DICTIONARIES),
        DELTA_BYTE_ARRAY in encodings,
        int(described[1]),
        min(dictionary, data) if dictionary > 0 else data,
        int(described[7]),
        path[0] if described[1] == INT96 else None,
    )


def _written(values: Mapping[bytes, Any]) -> dict[str, Any] | None:
    """The Avro schema in the file's key-value metadata: it has the connector's semantic names."""
    for key in _AVRO_KEYS:
        if values.get(key):
            schema = parse_schema(values[key])
            if not isinstance(schema, dict):
                raise ValueError("its Avro schema is not a record")
            return schema
    return None


def _agreeing(written: dict[str, Any] | None, own: dict[str, Any]) -> dict[str, Any]:
    """The Avro schema of a file's metadata, with the file's `own` columns where they aren't, or no longer, as it says.

    pyarrow writes the metadata of the file that it read into the next one, whatever became of the columns.
    """
    if written is None:
        return own
    types, own_types = NamedTypes(written), NamedTypes(own)
    added = {field["name"]: field for field in own["fields"]}
    fields = []
    for field in written["fields"]:
        there = added.pop(field["name"], field)
        fields.append(field if there is field or _agree(field["type"], there["type"], types, own_types) else there)
    return {**written, "fields": [*fields, *added.values()]}


def _agree(written: Any, own: Any, types: NamedTypes, own_types: NamedTypes, *, nested: bool = False) -> bool:
    """Whether values of a file's `own` type may be of the Avro type `written`."""
    try:
        one, other = types.non_null(written, "")[0], own_types.non_null(own, "")[0]
    except UnsupportedType:  # which refuses the object
        return True
    said, logical = str(one.get("logicalType")).removeprefix("local-"), other.get("logicalType")
    if not nested and logical in _TIMESTAMPS and said in _TIMESTAMPS:  # a column's values are read in the unit written
        return True
    if logical is not None and (logical, other.get("scale", 0)) != (said, one.get("scale", 0)):
        return False
    members, of_other = _members(one), _members(other)
    return (
        other["type"] in _AS_PARQUET.get(one["type"], (one["type"],))
        and members.keys() == of_other.keys()
        and all(_agree(kind, of_other[name], types, own_types, nested=True) for name, kind in members.items())
    )


def _members(kind: Mapping[str, Any]) -> dict[str, Any]:
    fields = {field["name"]: field["type"] for field in kind.get("fields", ())}
    return fields or {key: kind[key] for key in ("items", "values") if key in kind}


_AS_PARQUET = {"fixed": ("bytes",), "enum": ("string", "bytes")}
_TIMESTAMPS = frozenset(("timestamp-millis", "timestamp-micros", "timestamp-nanos"))


class Kept(NamedTuple):
    """The fields of a struct that are kept, each with what is kept of it (None: all), and what the struct becomes."""

    fields: Mapping[int, Any]
    made: Callable[[Mapping[int, Any]], Any] | None = None


_NOTHING = Kept({})
_COLUMN_METADATA = Kept({field: None for field in (1, 2, 3, 4, 5, 6, 7, 9, 11)})
_COLUMN_CHUNK = Kept({3: _COLUMN_METADATA}, _chunk)
_ROW_GROUP = Kept({1: _COLUMN_CHUNK, 2: None})
_SCHEMA_ELEMENT = Kept({field: None for field in (1, 3, 4, 5, 6, 7, 8, 10)})
_FILE = Kept({2: _SCHEMA_ELEMENT, 3: None, 4: _ROW_GROUP, 5: None, 6: None})

# https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
MAX_DEPTH = 24


class DamagedThrift(ValueError):
    """Bytes that are not a struct of the compact protocol."""


def decode_struct_at(data: bytes, at: int, wanted: Kept) -> tuple[dict[int, Any], int]:
    """The kept fields of the struct at a place in the bytes, and where it ends. Binary values are bytes.

    Raises DamagedThrift, and UnsupportedParquet beyond MAX_VALUES and MAX_KEPT.
    """
    reader = _Reader(data, at)
    try:
        return reader.struct(wanted, 0), reader.at
    except (IndexError, struct.error) as error:
        raise DamagedThrift("it ends early") from error


class _Reader:
    """Reads values, or passes over them. Counts all, and those that are held."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at  # where the next value begins
        self._read = 0
        self._held = 0

    def struct(self, wanted: Kept | None, depth: int) -> Any:
        """The struct that begins here; with `kept` None, all of its fields."""
        _check_depth(depth)
        fields: dict[int, Any] = {}
        held, field = self._held, 0
        while True:
            head = self._data[self.at]
            self.at += 1
            if head == 0:
                break
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 0x0F
            if wanted is not None and field not in wanted.fields:
                self._skip_field(kind, depth)
            elif kind in (_TRUE, _FALSE):
                self._hold()
                fields[field] = kind == _TRUE
            else:
                fields[field] = self._value(kind, None if wanted is None else wanted.fields[field], depth)
        if wanted is None or wanted.made is None:
            return fields
        self._held = held  # what was made of the values is smaller than one of them
        return wanted.made(fields)

    def _value(self, kind: int, wanted: Kept | None, depth: int) -> Any:
        self._hold()
        if kind in (_TRUE, _FALSE, _BYTE):  # a list's booleans take a byte each
            self.at += 1
            return self._data[self.at - 1]
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            size = self._varint()
            self._pass(size)
            return self._data[self.at - size : self.at]
        if kind == _STRUCT:
            return self.struct(wanted, depth + 1)
        if kind in (_LIST, _SET):
            inner, size = self._list()
            _check_depth(depth)
            return [self._value(inner, wanted, depth + 1) for _ in range(size)]
        if kind == _DOUBLE:
            self._pass(8)
            return struct.unpack("<d", self._data[self.at - 8 : self.at])[0]
        raise DamagedThrift(f"a field of the footer is of type {kind}")  # no kept field is a map

    def _skip_field(self, kind: int, depth: int) -> None:
        if kind in (_TRUE, _FALSE):  # the field's head is the value
            self._count()
        else:
            self._skip(kind, depth)

    def _skip(self, kind: int, depth: int) -> None:
        self._count()
        _check_depth(depth)
        if kind in _WIDTHS:
            self._pass(_WIDTHS[kind])
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            self._pass(self._varint())
        elif kind == _STRUCT:
            self.struct(_NOTHING, depth + 1)
        elif kind in (_LIST, _SET):
            inner, size = self._list()
            for _ in range(size):
                self._skip(inner, depth + 1)
        elif kind == _MAP:
            size = self._varint()
            self._room(size)
            kinds = self._data[self.at] if size else 0
            self.at += bool(size)
            for _ in range(size):
                self._skip(kinds >> 4, depth + 1)
                self._skip(kinds & 0x0F, depth + 1)
        else:
            raise DamagedThrift(f"it holds the unknown type {kind}")

    def _list(self) -> tuple[int, int]:
        """The type and the number of a list's items."""
        head = self._data[self.at]
        self.at += 1
        size = head >> 4 if head >> 4 != 15 else self._varint()
        self._room(size)
        return head & 0x0F, size

    def _hold(self) -> None:
        self._count()
        self._held += 1
        if self._held > MAX_KEPT:
            raise _too_many(MAX_KEPT, "values in its schema")

    def _count(self) -> None:
        self._read += 1
        if self._read > MAX_VALUES:
            raise _too_many(MAX_VALUES, "values")

    def _pass(self, size: int) -> None:
        self._room(size)
        self.at += size

    def _room(self, size: int) -> None:
        """Every element takes at least a byte: refuse a length beyond the bytes that are left."""
        if size > len(self._data) - self.at:
            raise DamagedThrift("it ends early")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise DamagedThrift("it holds a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


_WIDTHS = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise DamagedThrift("it nests too deeply")


def _too_many(limit: int, what: str) -> UnsupportedParquet:
    return UnsupportedParquet(f"The Parquet footer has more than {limit:,} {what}", limit=limit)


MAX_NESTING = 24
UUID = "io.debezium.data.Uuid"  # Debezium's name for a UUID as text

# parquet.thrift: Type, ConvertedType, and the fields of the union LogicalType.
# https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
_PHYSICAL = ("boolean", "int", "long", "int96", "float", "double", "bytes", "bytes")
_REPEATED = 2
_C_MAP, _C_LIST, _C_DECIMAL, _C_UINT_64 = (1, 2), 3, 5, 14
_CONVERTED: dict[int, Any] = {
    0: "string",
    4: "string",
    6: {"type": "int", "logicalType": "date"},
    7: {"type": "int", "logicalType": "time-millis"},
    8: {"type": "long", "logicalType": "time-micros"},
    9: {"type": "long", "logicalType": "timestamp-millis"},
    10: {"type": "long", "logicalType": "timestamp-micros"},
    **dict.fromkeys((11, 12, 15, 16, 17), "int"),
    **dict.fromkeys((13, 18), "long"),
    19: {"type": "string", "connect.name": JSON_TEXT},
}
_L_DECIMAL, _L_TIME, _L_TIMESTAMP, _L_INTEGER = 5, 7, 8, 10
_LOGICAL: dict[int, Any] = {
    1: "string",
    4: "string",
    6: {"type": "int", "logicalType": "date"},
    12: {"type": "string", "connect.name": JSON_TEXT},
    11: "null",  # of a column without any value, as Arrow writes it
    14: {"type": "string", "connect.name": UUID},
    15: "float",
}
# The shortest decimal that holds 2^64.
_UNSIGNED_64 = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
# In microseconds, as Spark reads them: nanoseconds in 64 bits end with the year 2262.
_INT96_TYPE = {"type": "long", "logicalType": "timestamp-micros", "connect.name": INT96_NAME}
_UNITS = {1: "millis", 2: "micros", 3: "nanos"}


def avro_form(elements: list[Mapping[int, Any]]) -> dict[str, Any]:
    """The Avro record of a file's schema elements. Raises UnusableSchema, KeyError, IndexError."""
    record, rest = _record(elements, 0, "sluice.parquet.Value", 0)
    if rest != len(elements):
        raise UnusableSchema("The Parquet schema has elements outside of its root")
    return record


def _record(elements: list[Mapping[int, Any]], at: int, name: str, depth: int) -> tuple[dict[str, Any], int]:
    fields = []
    following = at + 1
    for _ in range(elements[at].get(5, 0)):
        own = _name(elements[following])
        kind, following = _field(elements, following, name, depth + 1)
        fields.append({"name": own, "type": kind})
    return {"type": "record", "name": name, "fields": fields}, following


def _field(elements: list[Mapping[int, Any]], at: int, parent: str, depth: int) -> tuple[Any, int]:
    element = elements[at]
    kind, following = _group(elements, at, parent, depth) if element.get(5) else (_leaf(element), at + 1)
    if element.get(3) == _REPEATED:  # a repeated field outside a list is itself a list
        return {"type": "array", "items": kind}, following
    return ["null", kind], following


def _group(elements: list[Mapping[int, Any]], at: int, parent: str, depth: int) -> tuple[Any, int]:
    if depth > MAX_NESTING:
        raise UnusableSchema(f"The Parquet schema nests more than {MAX_NESTING} deep")
    element = elements[at]
    name = f"{parent}.{_name(element)}"
    if len(name) > MAX_NAME:  # each group below repeats it
        raise SchemaTooComplex(
            f"The Parquet schema has a group whose path is longer than {MAX_NAME:,} characters",
            what="name",
            limit=MAX_NAME,
        )
    logical = next(iter(element.get(10) or {}), None)
    if element.get(6) == _C_LIST or logical == 3:
        return _list(elements, at, name, depth)
    made, following = _record(elements, at, name, depth)
    if element.get(6) in _C_MAP or logical == 2:
        entry = made["fields"][0]["type"]
        items = entry.get("items") if isinstance(entry, dict) else None
        if isinstance(items, dict) and len(items.get("fields", ())) == 2:
            key, value = (field["type"] for field in items["fields"])
            return (
                {"type": "map", "values": value} if key[-1] == "string" else {"type": "array", "items": items}
            ), following
    return made, following


def _list(elements: list[Mapping[int, Any]], at: int, name: str, depth: int) -> tuple[Any, int]:
    """A list of three levels, the format's standard, or of two, parquet-avro's default.

    https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists
    """
    inner = elements[at + 1]
    made, following = _field(elements, at + 1, name, depth + 1)
    items = made.get("items") if isinstance(made, dict) else None
    if items is None or elements[at].get(5) != 1:
        raise UnusableSchema(f"The Parquet schema's list {name[:100]} has no repeated item")
    single = isinstance(items, dict) and len(items.get("fields", ())) == 1
    if single and _name(inner) not in ("array", f"{_name(elements[at])}_tuple"):
        items = items["fields"][0]["type"]
    return {"type": "array", "items": items}, following


def _leaf(element: Mapping[int, Any]) -> Any:
    physical = _PHYSICAL[element[1]]
    logical_type: dict[int, Any] = element.get(10) or {}
    logical = next(iter(logical_type), None)
    detail = {} if logical is None else logical_type[logical]
    if logical == _L_DECIMAL or element.get(6) == _C_DECIMAL:
        scale, precision = (detail[1], detail[2]) if logical == _L_DECIMAL else (element.get(7, 0), element[8])
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if logical in (_L_TIME, _L_TIMESTAMP):
        return _time("time" if logical == _L_TIME else "timestamp", _UNITS[next(iter(detail[2]))])
    if logical == _L_INTEGER:
        width, signed = detail[1], detail[2]
        return "int" if width < 32 or width == 32 and signed else "long" if width == 32 or signed else _UNSIGNED_64
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if element.get(6) == _C_UINT_64:
        return _UNSIGNED_64
    if element.get(6) in _CONVERTED:
        return _CONVERTED[element[6]]
    if physical == "int96":  # Hive's and Impala's timestamp
        return _INT96_TYPE
    return physical


def _time(what: str, unit: str) -> dict[str, Any]:
    if (what, unit) == ("time", "nanos"):  # Avro has no such logical type, Debezium does
        return {"type": "long", "connect.name": "io.debezium.time.NanoTime"}
    return {"type": "int" if (what, unit) == ("time", "millis") else "long", "logicalType": f"{what}-{unit}"}


def _name(element: Mapping[int, Any]) -> str:
    name: bytes | None = element.get(4)
    if not name:
        raise UnusableSchema("The Parquet schema has a column without a name")
    return name.decode("utf-8")
