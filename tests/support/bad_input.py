"""Bad input of every kind that is refused, as one table: what comes, and what becomes of it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.config.limits import MIB, Limits
from support.avro_containers import PACK, container, encoded_long, header
from support.builders import avro_object, avro_record, change

# One table's limits for all of it, so that what is too much is little.
LIMITS = Limits(object_bytes=2 * MIB, decoded_bytes=8 * MIB, block_bytes=MIB, object_rows=5_000, quarantined_rows=3)
TOPIC = "src.public.t"
NULLABLE = ["null", "string"]
META = {
    "__op": ["null", "string"],
    "__deleted": ["null", "string"],
    "__lsn": ["null", "long"],
    "__source_ts_ms": ["null", "long"],
}


def flattened(record: str = "Value", /, **columns: Any) -> dict[str, Any]:
    return avro_record({**columns, **META}, name=record)


GOOD = flattened(id=["null", "long"], name=NULLABLE)


def good_change(**values: Any) -> dict[str, Any]:
    """A change of the good schema."""
    return change(**{"id": 1, "name": "x", **values})


def good_avro(*rows: dict[str, Any], schema: Any = GOOD, codec: str = "null") -> bytes:
    """An Avro object of the good schema."""
    return avro_object(schema, rows, codec=codec)


def lines(*records: Any) -> bytes:
    return b"".join(
        (record if isinstance(record, bytes) else json.dumps(record).encode()) + b"\n" for record in records
    )


def parquet(*rows: dict[str, Any], **columns: Any) -> bytes:
    meta = {"__op": pa.string(), "__deleted": pa.string(), "__lsn": pa.int64(), "__source_ts_ms": pa.int64()}
    fields = {"id": pa.int32(), "name": pa.string(), **columns, **meta}
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(list(fields.items()))), body, store_schema=False)
    return body.getvalue()


def plain_parquet(*rows: dict[str, Any]) -> bytes:
    """Rows as AWS DMS writes them, with their operation in front."""
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), body, store_schema=False)
    return body.getvalue()


def not_utf8(nested: bool = False) -> bytes:
    """Three rows, of which the second's text is no UTF-8: who writes Parquet may leave that unchecked, and so does its
    reader.
    """
    ids = [120, 1, 121]
    bad: Any = [b"\xff\xfe"] if nested else b"\xff\xfe"
    raw = [bad if id == 1 else None for id in ids]
    kinds = (pa.list_(kind) if nested else kind for kind in (pa.binary(), pa.string()))
    column = _as_text(pa.array(raw, next(kinds)), next(kinds))
    others = {name: pa.array([good_change(id=id)[name] for id in ids]) for name in good_change() if name != "name"}
    body = io.BytesIO()
    pq.write_table(pa.table({**others, "tags" if nested else "name": column}), body, store_schema=False)
    return body.getvalue()


def _as_text(column: Any, kind: Any) -> Any:
    """The same buffers under the name of text."""
    if pa.types.is_list(kind):
        texts = _as_text(column.values, pa.string())
        return pa.ListArray.from_buffers(kind, len(column), column.buffers()[:2], children=[texts])
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers())


def schema_head(schema: bytes, codec: bytes = b"null") -> bytes:
    return header((b"avro.schema", schema), (b"avro.codec", codec))


def of_schema(schema: Any) -> bytes:
    """An object without records: its schema alone is what is wrong."""
    return schema_head(json.dumps(schema).encode())


def flipped(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :]


def envelope(**sides: Any) -> dict[str, Any]:
    value = avro_record({"id": "int"}, name="Row")
    given = {
        "before": ["null", value],
        "after": ["null", "Row"],
        "source": avro_record({"lsn": ["null", "long"]}, name="Source"),
        "op": "string",
        **sides,
    }
    return avro_record(given, name="Envelope")


def deep(levels: int) -> Any:
    kind: Any = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return kind


def deep_list(levels: int) -> Any:
    kind: Any = pa.int32()
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


def bomb(codec: str) -> bytes:
    record = encoded_long(1) + encoded_long(1) + encoded_long(4 * MIB) + bytes(4 * MIB) + b"\x00" * 4
    return container(codec, (1, PACK[codec](record)), schema=GOOD)


def large_block() -> tuple[int, bytes]:
    """A block of one record, which has a long name."""
    return 1, PACK["deflate"](encoded_long(1) * 3 + encoded_long(900_000) + bytes(900_004))


def parquet_footer_says(change_footer: Callable[[bytes], bytes]) -> bytes:
    body = parquet(good_change())
    length = int.from_bytes(body[-8:-4], "little")
    footer = change_footer(body[-8 - length : -8])
    return body[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def connect(**kinds: str) -> dict[str, Any]:
    """A schema of Kafka Connect, of a key, a name and these fields."""
    whole = {"id": "int32", "name": "string", **kinds}
    fields = [{"type": kind, "optional": True, "field": name} for name, kind in whole.items()]
    return {"type": "struct", "optional": False, "name": "V", "fields": fields}


# With the change metadata: without its log position an object would be of another kind, which those that follow it may
# not be lower than (`log-restart`).
CHANGED = connect(__op="string", __deleted="string", __lsn="int64", __source_ts_ms="int64")


NAMES = [f"c{n}" for n in range(100)]


def two_bad(**values: Any) -> bytes:
    """A sound record before and after one that is not."""
    return good_avro(good_change(id=100), good_change(**values), good_change(id=101))


def forged(column: str, kind: Any, plain: Any, value: Any) -> bytes:
    """A value that fastavro would not write under its logical type; another writer did."""
    own, other = (flattened(id=["null", "long"], name=NULLABLE, **{column: ["null", of]}) for of in (plain, kind))
    body = good_avro({**good_change(), column: value}, schema=own)
    start = body.index(bytes(17)) + 17  # the end of the header's map, and the mark
    return of_schema(other) + body[start:]


@dataclass(frozen=True)
class Case:
    """An object that is refused, or of which `rows` are: what it is, its ending, how to make it, and the code it is
    kept under.
    """

    name: str
    ending: str
    make: Callable[[], bytes]
    code: str
    rows: int = 0

    @property
    def body(self) -> bytes:
        return _made(self)


@cache
def _made(case: Case) -> bytes:
    return case.make()


#: How to make objects, by the code that they are refused under and their names.
Makers = Mapping[str, Mapping[str, Callable[[], bytes]]]


CONTAINER: Makers = {
    "empty_object": {"no bytes": lambda: b""},
    "not_avro": {
        "three bytes": lambda: b"Obj",
        "JSON called avro": lambda: lines(good_change()),
        "Parquet called avro": lambda: parquet(good_change()),
        "gzip called avro": lambda: gzip.compress(good_avro(good_change())),
    },
    "corrupt_object": {
        "the header is cut": lambda: good_avro(good_change())[:60],
        "the header's lengths are damaged": lambda: b"Obj\x01" + b"\xff" * 200,
        "no schema in the header": lambda: good_avro(good_change()).replace(b"avro.schema", b"avro.schemb", 1),
        "the schema is no JSON": lambda: schema_head(b'{"type": "record"'),
        "the schema's JSON nests without end": lambda: schema_head(b"[" * 50_000),
        "a codec that is not Avro's": lambda: schema_head(json.dumps(GOOD).encode(), b"lz4"),
        "a header without end": lambda: b"Obj\x01" + encoded_long(1) + encoded_long(10**9) + bytes(1_100_000),
        "cut inside a block": lambda: good_avro(good_change())[:-20],
        "cut inside the mark behind a block": lambda: good_avro(good_change())[:-1],
        "another mark behind a block": lambda: flipped(good_avro(good_change()), -1),
        "a block of a negative length": lambda: container("null", schema=GOOD) + b"\x02\x01" + bytes(20),
        "a block without length": lambda: container("null", schema=GOOD) + b"\xff" * 30,
        "fewer records than the block says": lambda: container("null", (3, bytes(6)), schema=GOOD),
        "more records than the block says": lambda: container("null", (1, bytes(12)), schema=GOOD),
        "bytes behind the last block": lambda: good_avro(good_change()) + b"tail",
        "a snappy block with another checksum": lambda: flipped(good_avro(good_change(), codec="snappy"), -17),
        "a deflate block of garbage": lambda: container("deflate", (1, b"\xff" * 40), schema=GOOD),
        "a zstandard block of garbage": lambda: container("zstandard", (1, b"\x00" * 40), schema=GOOD),
        "a bzip2 block that is cut": lambda: container("bzip2", (1, PACK["bzip2"](bytes(6))[:-4]), schema=GOOD),
        "an xz block of garbage": lambda: container("xz", (1, b"xz" * 20), schema=GOOD),
    },
    "expansion_limit": {
        **{f"a {codec} bomb": partial(bomb, codec) for codec in PACK if codec != "null"},
        "many blocks that are too much together": lambda: container("deflate", *[large_block()] * 20, schema=GOOD),
        "more records than the limit": lambda: container("null", (2**60, bytes(60)), schema=GOOD),
    },
    "object_too_large": {"larger than the limit": lambda: good_avro(good_change(name="x" * 3 * MIB))},
}
SCHEMA: Makers = {
    "unusable_schema": {
        "the schema is no record": lambda: of_schema("int"),
        "a record without fields": lambda: of_schema({"type": "record", "name": "V", "fields": []}),
        "fields that are no list": lambda: of_schema({"type": "record", "name": "V", "fields": "id"}),
        "two fields of one name": lambda: of_schema(
            {"type": "record", "name": "V", "fields": [{"name": "id", "type": "int"}] * 2}
        ),
        "two columns that differ in case": lambda: of_schema(flattened(id="int", ID="int")),
        "a column that Sluice keeps itself": lambda: of_schema(flattened(id="int", _sluice_position="string")),
        "a column that Hudi keeps itself": lambda: of_schema(flattened(id="int", _hoodie_record_key="string")),
        "an envelope whose sides differ": lambda: of_schema(
            envelope(after=["null", avro_record({"x": "int"}, name="Other")])
        ),
        "an envelope whose source is no record": lambda: of_schema(envelope(source="string")),
        "an envelope whose row is no record": lambda: of_schema(
            envelope(before=["null", "string"], after=["null", "string"])
        ),
    },
    "unsupported_type": {
        "a column of two types": lambda: of_schema(flattened(id="int", v=["int", "string"])),
        "a column of a type that nothing defines": lambda: of_schema(flattened(id="int", v="no.such.Type")),
        "a number under a name that nobody knows": lambda: of_schema(
            flattened(id="int", v=["null", {"type": "long", "connect.name": "com.acme.Clock"}])
        ),
    },
    "schema_too_complex": {
        "a type that holds itself": lambda: of_schema(flattened("V", id="int", v=["null", "V"])),
        "types without end": lambda: of_schema(flattened(id="int", v=deep(60))),
        "five thousand columns": lambda: of_schema(flattened(id="int", **{f"c{n}": "int" for n in range(5_000)})),
        "an array of nothing": lambda: of_schema(flattened(id="int", v={"type": "array", "items": "null"})),
    },
    "incompatible_schema": {
        "the key is no column": lambda: good_avro(
            {"ident": 1, **{name: None for name in META}}, schema=flattened(ident="int")
        ),
        "a column of another type than the table's": lambda: good_avro(
            good_change(name=5), schema=flattened(id=["null", "long"], name=["null", "long"])
        ),
    },
}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
VALUE: Makers = {
    "null_record_key": {
        "a null key": lambda: two_bad(id=None),
        "an envelope with neither side": lambda: good_avro(
            {"before": None, "after": None, "source": {"lsn": 1}, "op": "c"}, schema=envelope()
        ),
    },
    "unsupported_operation": {"an operation that nobody knows": lambda: two_bad(op="x")},
    "unordered_change": {
        "no log position": lambda: two_bad(lsn=None),
        "a negative log position": lambda: two_bad(lsn=-4),
    },
    "undecodable_value": {"text that is not UTF-8": lambda: two_bad(name="MARK").replace(b"MARK", b"\xff\xfe\x00A")},
    "value_out_of_range": {
        "a timestamp beyond 64 bits of microseconds": lambda: forged(
            "at", {"type": "long", "connect.name": "io.debezium.time.Timestamp"}, "long", 2**62
        ),
        "a decimal of more digits than its type": lambda: forged("price", DECIMAL, "bytes", b"\x7f\xff\xff\xff"),
        "a time with zone that is none": lambda: forged(
            "zoned", {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}, "string", "yesterday"
        ),
    },
}
VALUE_LIMITS: Makers = {
    "too_many_bad_rows": {
        "more bad rows than the limit": lambda: good_avro(*[good_change(id=None)] * 4, good_change(id=102))
    }
}
JSON: Makers = {
    "empty_object": {"no bytes, as JSON": lambda: b""},
    "not_json_lines": {
        "blank lines only": lambda: b"\n \n",
        "Avro called JSON": lambda: good_avro(good_change()),
        "an array": lambda: b"[1, 2]\n",
    },
}
GZIP: Makers = {
    "damaged_gzip": {
        "gzip of garbage": lambda: b"\x1f\x8b" + b"\xff" * 40,
        "gzip that is cut": lambda: gzip.compress(lines(*[good_change()] * 50))[:-12],
    }
}
ZSTD: Makers = {"damaged_zstd": {"zstd of garbage": lambda: b"\x28\xb5\x2f\xfd" + b"\xff" * 40}}
GZIP_BOMB: Makers = {
    "expansion_limit": {"a gzip bomb": lambda: gzip.compress(b'{"id": 1, "name": "' + b" " * 9 * MIB + b'"}')}
}
JSON_LINES: Makers = {
    "damaged_json": {
        "a line that is cut": lambda: lines(good_change(id=103), b'{"id": 5, "na', good_change(id=104)),
        "a line that nests without end": lambda: lines(
            good_change(id=105), b'{"id": ' + b"[" * 5_000, good_change(id=106)
        ),
        "half of a surrogate pair": lambda: lines(good_change(id=107), b'{"id": 8, "name": "\\ud800"}'),
        "a number of five thousand digits": lambda: lines(good_change(id=118), b'{"id": ' + b"9" * 5_000 + b"}"),
        "a value that nests without end": lambda: lines(
            good_change(id=119),
            b'{"id": 1, "name": "x", "doc": ' + b"[" * 150 + b"]" * 150 + b', "__op": "c", "__lsn": 7}',
        ),
    },
    "not_json_lines": {
        "a line that is not UTF-8": lambda: lines(good_change(id=108), b'{"id": 9, "name": "\xff"}'),
        "a line that is no object": lambda: lines(good_change(id=109), b"5"),
    },
    "undecodable_value": {
        "a value that is not what its schema says": lambda: lines(
            *({"schema": CHANGED, "payload": good_change(id=id, name=None)} for id in (110, "x"))
        )
    },
    "null_record_key": {"a null key, as JSON": lambda: lines(good_change(id=111), good_change(id=None))},
    "unsupported_operation": {
        "an operation that nobody knows, as JSON": lambda: lines(
            good_change(id=113), good_change(op="x"), good_change(id=114)
        )
    },
    "unordered_change": {"no log position, as JSON": lambda: lines(good_change(id=115), good_change(lsn=None))},
    "expansion_limit": {
        "a line longer than a block may be": lambda: lines(good_change(id=116), good_change(name="x" * (MIB + 1)))
    },
    "schema_too_complex": {
        "a line of five thousand fields": lambda: lines(
            good_change(id=117), {**good_change(), **{f"c{n}": 1 for n in range(5_000)}}
        )
    },
}
JSON_LIMITS: Makers = {
    "too_many_bad_rows": {"more bad lines than the limit": lambda: lines(good_change(id=122), *[b'{"id"'] * 4)},
    "too_many_schemas": {
        "a hundred schemas": lambda: lines(
            *({"schema": connect(**{name: "string"}), "payload": {"id": 1, "name": None, name: None}} for name in NAMES)
        )
    },
}
PARQUET: Makers = {
    "empty_object": {"no bytes, as Parquet": lambda: b""},
    "not_parquet": {
        "Avro called Parquet": lambda: good_avro(good_change()),
        "Parquet that is cut": lambda: parquet(good_change())[:-30],
    },
    "damaged_parquet": {
        "a footer longer than the file": lambda: (
            parquet(good_change())[:-8] + (3 * MIB).to_bytes(4, "little") + b"PAR1"
        ),
        "a footer of garbage": lambda: parquet_footer_says(lambda footer: b"\xff" * len(footer)),
        "pages of garbage": lambda: b"PAR1" + bytes(60) + parquet(good_change())[64:],
    },
    "unsupported_parquet": {"encrypted": lambda: parquet(good_change())[:-4] + b"PARE"},
    "expansion_limit": {
        "a dictionary bomb": lambda: parquet(*[good_change(id=n, name="x" * 100_000) for n in range(100)]),
        "more rows than the limit, as Parquet": lambda: parquet(*[good_change(id=n) for n in range(5_001)]),
    },
    "schema_too_complex": {
        "a wide schema, as Parquet": lambda: parquet(good_change(), **{f"c{n}": pa.int32() for n in range(5_000)})
    },
    "unusable_schema": {"a deep schema, as Parquet": lambda: parquet(good_change(), v=deep_list(40))},
    "too_many_bad_rows": {
        "more bad rows than the limit, as Parquet": lambda: parquet(*[good_change(id=None)] * 4, good_change(id=125))
    },
    "deletions_unmarked": {
        "deletions in a column that no rule names, as Parquet": lambda: plain_parquet(
            {"Op": "I", "id": 130}, {"Op": "D", "id": 131}
        )
    },
}
PARQUET_ROWS: Makers = {
    "undecodable_value": {
        "text that is not UTF-8, as Parquet": not_utf8,
        "a list of text that is not UTF-8": lambda: not_utf8(nested=True),
    },
    "unsupported_operation": {
        "an operation that nobody knows, as Parquet": lambda: parquet(good_change(id=123), good_change(op="x"))
    },
    "unordered_change": {"no log position, as Parquet": lambda: parquet(good_change(id=124), good_change(lsn=None))},
    "null_record_key": {"a null key, as Parquet": lambda: parquet(good_change(id=112), good_change(id=None))},
}
CSV: Makers = {
    "empty_object": {"no bytes, as CSV": lambda: b""},
    "not_csv": {
        "Parquet called CSV": lambda: parquet(good_change()),
        "CSV in UTF-16": lambda: "id,name\n1,x\n".encode("utf-16"),
    },
    "csv_without_header": {"CSV without a header": lambda: b"1,x\n2,y\n"},
}
CSV_IN_GZIP: Makers = {"damaged_gzip": {"gzip of garbage, as CSV": lambda: b"\x1f\x8b" + b"\xff" * 40}}


def cases(ending: str, makers: Makers, rows: int = 0) -> list[Case]:
    return [Case(name, ending, make, code, rows) for code, made in makers.items() for name, make in made.items()]


CASES = [
    *cases("avro", CONTAINER),
    *cases("avro", SCHEMA),
    *cases("avro", VALUE, rows=1),
    *cases("avro", VALUE_LIMITS),
    *cases("json", JSON),
    *cases("json.gz", GZIP),
    *cases("json.zst", ZSTD),
    *cases("json.gz", GZIP_BOMB),
    *cases("json", JSON_LINES, rows=1),
    *cases("json", JSON_LIMITS),
    *cases("parquet", PARQUET),
    *cases("parquet", PARQUET_ROWS, rows=1),
    *cases("csv", CSV),
    *cases("csv.gz", CSV_IN_GZIP),
]

#: Keys that lead nowhere: what becomes of them before a byte is read, and a part of the reason or rule.
KEYS = [
    ("topics/t/t+0+1.avro/", 10, "parked", "names no file"),
    ("topics/t/t+0+1.tsv", 10, "parked", "extension"),
    ("topics/t/t+0+1", 10, "parked", "extension"),
    ("somewhere/file.avro", 10, "parked", "names a topic"),
    ("topics//file.avro", 10, "parked", "names a topic"),
    ("topics/a topic/file.avro", 10, "parked", "not one that Kafka allows"),
    ("topics/x/'; drop table t; --+0+1.avro", 10, "parked", "not one that Kafka allows"),
    ("topics/t/" + "t" * 250 + "+0+1.avro", 10, "parked", "not one that Kafka allows"),
    ("topics/t/t+0+99999999999999999999.avro", 10, "parked", "no rule"),
    ("topics/unknown.topic/unknown.topic+0+1.avro", 10, "parked", "no rule"),
    ("topics/t/t+0+1.keys.avro", 10, "ignored", "keys_file"),
    ("topics/t/t+0+1.headers.avro", 10, "ignored", "headers_file"),
    ("topics/t/tombstone/t+0+1.avro", 10, "ignored", "tombstone_folder"),
    ("topics/t/_SUCCESS", 0, "ignored", "hidden_file"),
    ("topics/t/", 0, "ignored", "folder_marker"),
    ("topics/t_$folder$", 0, "ignored", "folder_marker"),
]
