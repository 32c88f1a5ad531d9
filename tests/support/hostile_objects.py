"""Small objects that take much memory: beyond the bounds of what is decoded, and just within them.

As a program, admits the objects of one kind and prints what became of them and the most memory that it took.
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sluice.admission.notices import Notice
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.objects import ObjectId
from sluice_aws.admission.admit import Admission
from sluice_aws.admission.heads import Heads
from sluice_aws.s3.schemas import SchemaStore
from sluice_formats.avro_header import Head
from support.avro_containers import encoded_varint, header

HEADER_BYTES, FOOTER_BYTES = 1024**2 - 1_000, 4 * 1024**2 - 1_000  # a little less than is read at most
SCHEMA_VALUES, HELD_VALUES = 131_000, 99_000  # likewise, of the values that are taken
FIELD = b'{"name":"x","type":"int"}'
CHAIN = b'{"a":' * 100 + b"1" + b"}" * 100  # objects of one entry take most memory for their bytes


def schema_of(fields: bytes = FIELD, more: bytes = b"") -> bytes:
    return b'{"type":"record","name":"A",' + more + b'"fields":[' + fields + b"]}"


def of_schema(schema: bytes) -> tuple[str, bytes]:
    return "avro", header((b"avro.schema", schema))


def parquet(*fields: bytes) -> tuple[str, bytes]:
    """A file of nothing but a footer, of these fields of its struct."""
    footer = b"".join(fields) + b"\x00"
    return "parquet", b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def structs(field: bytes, number: int, items: bytes) -> bytes:
    """A field of the footer that is a list of structs."""
    return field + b"\xfc" + encoded_varint(number) + items


def binary(field: bytes, value: bytes) -> bytes:
    return field + encoded_varint(len(value)) + value


SCHEMA, ROWS, NO_GROUPS, METADATA = b"\x29", b"\x16\x02", b"\x19\x0c", b"\x19"
COLUMN = b"\x15\x02" + binary(b"\x38", b"x") + b"\x00"


def group(name: bytes, children: int) -> bytes:
    return binary(b"\x48", name) + b"\x15" + encoded_varint(children << 1) + b"\x00"


def footer_of_structs(number: int) -> tuple[str, bytes]:
    struct = b"\x15\x02\x00"
    return parquet(structs(SCHEMA, FOOTER_BYTES // 3 - number, struct * (FOOTER_BYTES // 3 - number)), ROWS)


def footer_of_groups() -> tuple[str, bytes]:
    """Ten thousand groups in one with a name of a megabyte."""
    groups = group(b"r", 1) + group(b"n" * 1_000_000, 10_000) + (group(b"g", 1) + COLUMN) * 10_000
    return parquet(structs(SCHEMA, 20_002, groups), ROWS, NO_GROUPS)


def widest_footer(number: int) -> tuple[str, bytes]:
    """4,000 columns, what may be held besides, and a schema in the metadata."""
    columns = b"".join(b"\x15\x02" + binary(b"\x38", b"c%04d" % name) + b"\x00" for name in range(4_000))
    pairs = (HELD_VALUES - 3 * 4_000) // 2 - number
    schema = binary(b"\x18", b"parquet.avro.schema") + binary(b"\x18", fullest_schema(number)) + b"\x00"
    return parquet(
        structs(SCHEMA, 4_001, group(b"r", 4_000) + columns),
        ROWS,
        NO_GROUPS,
        structs(METADATA, pairs + 1, b"\x18\x00\x00" * pairs + schema),
    )


def fullest_schema(number: int) -> bytes:
    chains = b",".join([CHAIN] * (SCHEMA_VALUES // 101 - number))
    return schema_of(more=b'"junk":[' + chains + b"],")


def compressed_json(number: int) -> tuple[str, bytes]:
    """A record of a megabyte without a schema: nothing bounds the number of its values."""
    return "json.gz", gzip.compress(b'{"a":[' + b",".join([CHAIN] * (HEADER_BYTES // 602 - number)) + b"]}\n", 1)


def named_types() -> tuple[str, bytes]:
    """Four thousand types in a namespace of most of a megabyte."""
    fields = b",".join(b'{"name":"f%d","type":{"type":"fixed","name":"F%d","size":1}}' % (n, n) for n in range(4_000))
    namespace = b"n" * (HEADER_BYTES - len(fields) - 100)
    return of_schema(schema_of(fields, b'"namespace":"' + namespace + b'",'))


def semantic_types() -> tuple[str, bytes]:
    """Four thousand columns of a type with a semantic name of most of a megabyte."""
    others = b"".join(b',{"name":"f%d","type":"E"}' % n for n in range(4_000))
    name = b"n" * (HEADER_BYTES - len(others) - 200)
    enum = b'{"type":"enum","name":"E","symbols":["A"],"connect.name":"' + name + b'"}'
    return of_schema(schema_of(b'{"name":"x","type":' + enum + b"}" + others))


def many(make: Callable[[int], tuple[str, bytes]], times: int) -> list[tuple[str, bytes]]:
    return [make(number) for number in range(times)]


KINDS: dict[str, Callable[[], list[tuple[str, bytes]]]] = {
    "footers_of_structs": lambda: many(footer_of_structs, 4),
    "schemas_of_values": lambda: many(
        lambda n: of_schema(schema_of(more=b'"junk":[' + b'{"a":1},' * (HEADER_BYTES // 8 - 10 - n) + b"0],")), 32
    ),
    "long_names": lambda: [named_types(), semantic_types(), footer_of_groups()],
    "widest_footers": lambda: many(widest_footer, 4),
    "fullest_schemas": lambda: many(lambda n: of_schema(fullest_schema(n)), 8),
    "compressed_json": lambda: many(compressed_json, 8),
}


class Bucket:
    """S3 with objects in memory."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        self._bodies = bodies

    def head_bytes(self, id: ObjectId, limit: int) -> Head:
        body = self._bodies[id.key]
        return Head(bytes(memoryview(body)[:limit]), len(body) <= limit)

    def tail_bytes(self, id: ObjectId, limit: int) -> Head:
        body = self._bodies[id.key]
        return Head(bytes(memoryview(body)[-limit:]), len(body) <= limit)

    def put(self, bucket: str, key: str, data: bytes, **_: Any) -> None: ...


def admitted(objects: list[tuple[str, bytes]]) -> dict[str, int]:
    """What becomes of objects that are all admitted at the same time, by code or state."""
    bodies = {f"topics/t/partition=0/t+0+{n:010d}.{ending}": body for n, (ending, body) in enumerate(objects)}
    bucket: Any = Bucket(bodies)
    ledger: Any = SimpleNamespace(objects=SimpleNamespace(admit=lambda written, generation: "new"))
    fit: Any = SimpleNamespace(check=lambda writer, config: None)
    admission = Admission(
        ledger=ledger,
        heads=Heads(bucket),
        schemas=SchemaStore(bucket, "silver"),
        fit=fit,
        arrival=lambda id: 0,
        now=lambda: 0,
    )
    configuration = Configuration((TableRule(table="db.t", record_key=("x",), topic="t"),))
    notices = [
        Notice(ObjectId("bronze", key, "v"), len(body), None, None, "created", "s3") for key, body in bodies.items()
    ]
    result = admission.admit_all(notices, configuration)
    assert not result.failed, result.failed
    written = [one.written for one in result.done.values()]
    return Counter(record.code or record.state for record in written)


def most_memory() -> int:
    """The most bytes that this process had in memory. `getrusage` counts those of the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    threading.stack_size(1024**2)  # a limit on the process counts the whole of each
    resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]) * 1024**2,) * 2)
    become = admitted(KINDS[sys.argv[1]]())
    print(json.dumps({"become": become, "megabytes": most_memory() // 1024**2}))
