"""The source types of docs/types.md, each with two values as a connector writes them and as the table stores them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any

from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import UNNAMED_PRECISION, Column

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "types.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
# The rows of the document's first table: source, comes as, Spark, Hudi, Glue, raw, why.
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.count("|") == 8][2:]

_NUMBER = {"scale": "int", "value": "bytes"}
_SHAPE = {"wkb": "bytes", "srid": ["null", "int"]}
_DAY = {part: ["null", "int"] for part in ("year", "month", "day")}
_CLOCK = {part: ["null", "int"] for part in ("hour", "minute", "second", "nanos")}
_ZONE: dict[str, Any] = {"offsetSeconds": ["null", "int"]}
_RECORDS: dict[str, dict[str, Any]] = {
    "io.debezium.data.VariableScaleDecimal": _NUMBER,
    "io.debezium.time.StructuredDate": _DAY,
    "io.debezium.time.StructuredTimestamp": {**_DAY, **_CLOCK},
    "io.debezium.time.StructuredZonedTimestamp": {**_DAY, **_CLOCK, **_ZONE},
    "io.debezium.time.StructuredTime": _CLOCK,
    "io.debezium.time.StructuredZonedTime": {**_CLOCK, **_ZONE},
}
Value = Any
Sample = tuple[Value, Value, Value, Value]  # two values as they come, and the same as they are stored


def described_types(cell: str) -> list[str]:
    """The types that a cell of "comes as" names."""
    return re.findall(r"`([^`]+)`", cell)


def avro_type(described: str) -> dict[str, Any]:
    """The Avro type that "comes as" describes."""
    nested = re.match(r"(array|map)( \S+)? of ", described)
    if nested:
        name = {"connect.name": nested[2].strip()} if nested[2] else {}
        return {
            "type": nested[1],
            **name,
            "items" if nested[1] == "array" else "values": avro_type(described[nested.end() :]),
        }
    base, _, name = described.partition(" ")
    decimal = re.fullmatch(r"decimal\((\w+),(-?\d+)\)", name)
    kind: dict[str, Any] = {"type": base}
    if base in ("fixed", "enum"):
        kind.update(name="N", size=8, symbols=["A", "B"])
    if base == "record":
        fields = [{"name": part, "type": type_} for part, type_ in _RECORDS.get(name, _SHAPE).items()]
        kind.update(name=name.rpartition(".")[2], namespace=name.rpartition(".")[0], fields=fields)
    if decimal:
        with_precision = decimal[1] != "unnamed"
        parameters = {"scale": decimal[2], **({"connect.decimal.precision": decimal[1]} if with_precision else {})}
        # Avro itself has no negative scale, and none beyond the precision; Connect names its own type then.
        lawful = not with_precision or 0 <= int(decimal[2]) <= int(decimal[1])
        kind.update(
            {
                **({"logicalType": "decimal"} if lawful else {"connect.name": "org.apache.kafka.connect.data.Decimal"}),
                "precision": int(decimal[1]) if with_precision else UNNAMED_PRECISION,
                "scale": int(decimal[2]),
                "connect.parameters": parameters,
            }
        )
    elif name:
        kind["connect.name" if "." in name else "logicalType"] = name
    return kind


def column_of(described: str) -> Column:
    """The column of the type that "comes as" describes."""
    fields = [{"name": "c", "type": avro_type(described)}]
    return read_writer_schema({"type": "record", "name": "V", "fields": fields}).row.columns[0]


def sample(described: str) -> Sample:
    """Two values of a type that "comes as" describes."""
    nested = re.match(r"array( \S+)? of ", described)
    if nested:
        first, second, stored_first, stored_second = sample(described[nested.end() :])
        return [first, second], [second], [stored_first, stored_second], [stored_second]
    base, _, name = described.partition(" ")
    made = _SAMPLES.get(described) or _SAMPLES.get(f"{base} {name.rpartition('.')[2].partition('(')[0]}")
    if made is None and base == "string":
        made = ("a é\n", "", "a é\n", "")
    assert made is not None, f"no values of {described}"
    return made


_AT = dt.datetime(2026, 2, 3, 4, 5, 6, 123456)
_OLD = dt.datetime(1901, 12, 13, 20, 45, 52, 1)
_EPOCH = dt.datetime(1970, 1, 1)


def _count(at: dt.datetime, micros: int) -> int:
    return (at - _EPOCH) // dt.timedelta(microseconds=1) // micros


def _moments(micros: int) -> Sample:
    counts = [_count(at, micros) for at in (_AT, _OLD)]
    stored = [_EPOCH + dt.timedelta(microseconds=count * micros) for count in counts]
    return counts[0], counts[1], stored[0], stored[1]


def _nanos() -> Sample:
    first, second, stored_first, stored_second = _moments(1)
    return first * 1000, second * 1000, stored_first, stored_second


def _scaled(size: int | None, scale: int, first: int, second: int, stored: Callable[[Decimal], Any]) -> Sample:
    def raw(number: int) -> bytes:
        return number.to_bytes(size or (number.bit_length() // 8 + 1), "big", signed=True)

    with localcontext(Context(prec=60)):
        one, two = (stored(Decimal(number).scaleb(-scale)) for number in (first, second))
    return raw(first), raw(second), one, two


def _parts(at: dt.datetime, *, day: bool = True, clock: bool = True, zone: bool = False) -> dict[str, int]:
    return {
        **({"year": at.year, "month": at.month, "day": at.day} if day else {}),
        **(
            {"hour": at.hour, "minute": at.minute, "second": at.second, "nanos": at.microsecond * 1000} if clock else {}
        ),
        **({"offsetSeconds": 0} if zone else {}),
    }


def _text(number: Decimal) -> str:
    return format(number, "f")


_DAYS: Sample = (20487, -24856, dt.date(2026, 2, 3), dt.date(1901, 12, 13))
_CLOCK_TEXTS = "04:05:06.123456", "00:00:00.000001"
_MILLIS: Sample = (14_706_123, 1, "04:05:06.123000", "00:00:00.001000")
_MICROS: Sample = (14_706_123_456, 1, *_CLOCK_TEXTS)
_SAMPLES: dict[str, Sample] = {
    "boolean ": (True, False, True, False),
    "int ": (2**31 - 1, -(2**31), 2**31 - 1, -(2**31)),
    "int Year": (2026, -1, 2026, -1),
    "long ": (2**63 - 1, -(2**63), 2**63 - 1, -(2**63)),
    "float ": (1.5, -0.25, 1.5, -0.25),
    "double ": (0.1, -1e300, 0.1, -1e300),
    "bytes ": (b"\x00\xff", b"", b"\x00\xff", b""),
    "bytes Bits": (b"\x05\x00", b"\xff", b"\x05\x00", b"\xff"),
    "fixed ": (b"\x00\xff345678", b"abcdefgh", b"\x00\xff345678", b"abcdefgh"),
    "enum ": ("A", "B", "A", "B"),
    "bytes decimal(18,4)": _scaled(None, 4, 123456789012345678, -1, lambda number: number),
    "fixed decimal(18,4)": _scaled(8, 4, 123456789012345678, -1, lambda number: number),
    "bytes decimal(2,5)": _scaled(None, 5, 12, -99, lambda number: number),
    "bytes decimal(20,-2)": _scaled(None, -2, 12345678901234567890, -1, lambda number: Decimal(int(number))),
    "bytes decimal(50,10)": _scaled(None, 10, 10**49 + 1, -1, _text),
    "bytes decimal(unnamed,2)": _scaled(None, 2, 1050, -1, lambda number: number),
    "bytes decimal(10,2)": _scaled(None, 2, 1050, -1, lambda number: number),
    "record VariableScaleDecimal": ({"scale": 3, "value": b"\x7b"}, {"scale": 0, "value": b"\xff"}, "0.123", "-1"),
    **{f"int {name}": _DAYS for name in ("Date", "date")},
    "string IsoDate": ("2026-02-03", "1901-12-13", *_DAYS[2:]),  # type: ignore[dict-item]
    **{f"int {name}": _MILLIS for name in ("Time", "time-millis")},
    **{f"long {name}": _MICROS for name in ("MicroTime", "time-micros")},
    "long NanoTime": (14_706_123_456_789, 1, "04:05:06.123456789", "00:00:00.000000001"),
    "string ZonedTime": ("04:05:06.123456Z", "00:00:00Z", "04:05:06.123456Z", "00:00:00Z"),
    **{f"long {name}": _moments(1000) for name in ("Timestamp", "timestamp-millis", "local-timestamp-millis")},
    **{f"long {name}": _moments(1) for name in ("MicroTimestamp", "timestamp-micros", "local-timestamp-micros")},
    **{f"long {name}": _nanos() for name in ("NanoTimestamp", "timestamp-nanos", "local-timestamp-nanos")},
    **{
        f"string {name}": (f"{_AT.isoformat()}Z", f"{_OLD.isoformat()}Z", _AT, _OLD)
        for name in ("ZonedTimestamp", "IsoTimestamp")
    },
    "record StructuredDate": (_parts(_AT, clock=False), _parts(_OLD, clock=False), *_DAYS[2:]),  # type: ignore[dict-item]
    "record StructuredTimestamp": (_parts(_AT), _parts(_OLD), _AT, _OLD),
    "record StructuredZonedTimestamp": (_parts(_AT, zone=True), _parts(_OLD, zone=True), _AT, _OLD),
    "record StructuredTime": (
        _parts(_AT, day=False),
        _parts(dt.datetime(1970, 1, 1, 0, 0, 0, 1), day=False),
        *_CLOCK_TEXTS,
    ),
    "record StructuredZonedTime": (
        _parts(_AT, day=False, zone=True),
        _parts(dt.datetime(1970, 1, 1, 0, 0, 0, 1), day=False, zone=True),
        *(f"{text}Z" for text in _CLOCK_TEXTS),
    ),  # type: ignore[dict-item]
    "long MicroDuration": (90_000_000, -1, 90_000_000, -1),
    "long NanoDuration": (90_000_000_000, -1, 90_000_000_000, -1),
    "string uuid": (_UUIDS := ("00112233-4455-6677-8899-aabbccddeeff", "ffeeddcc-bbaa-9988-7766-554433221100")) * 2,
    "map of string": ({"k": "v", "n": ""}, {}, '{"k":"v","n":""}', "{}"),
    **{
        f"record {name}": ({"wkb": b"\x01\x02", "srid": None}, {"wkb": b"", "srid": 4326}, _1, _2)
        for name in ("Point", "Geometry", "Geography")
        for _1, _2 in [('{"wkb":"AQI=","srid":null}', '{"wkb":"","srid":4326}')]
    },
}
