"""Builds Avro objects as written by Debezium's flattening transform and Confluent's S3 sink."""

import datetime as dt
import functools
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import fastavro

from sluice_bench.data.tickit_rows import Row

SCHEMAS = (
    Path(__file__).resolve().parents[3] / "tests" / "data" / "tickit_small" / "schemas"
)  # recorded from the real connectors
SNAPSHOT_TS_MS = 1_795_228_708_000
BINLOG = "mysql-bin.000001"
SNAPSHOT_AT = MappingProxyType({"postgresql": 51_500_728, "mariadb": 697_175})
CHANGE_STEP = 1_000  # a source log advances by more than one between changes


@dataclass(frozen=True)
class Source:
    """A table's origin: its topic, its key, the database system, and the system's name for the schema."""

    topic: str
    key: str
    system: str
    database: str
    schema: str
    table: str


def _source(schema: str, table: str, key: str, system: str) -> Source:
    return Source(
        f"tickit.{schema}.{table}", key, system, "tickit" if system == "postgresql" else schema, schema, table
    )


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "user": _source("crm", "user", "userid", "postgresql"),
        "venue": _source("ems", "venue", "venueid", "postgresql"),
        "category": _source("ems", "category", "catid", "postgresql"),
        "event": _source("ems", "event", "eventid", "postgresql"),
        "date": _source("ecomm", "date", "dateid", "mariadb"),
        "listing": _source("ecomm", "listing", "listid", "mariadb"),
        "sale": _source("ecomm", "sale", "salesid", "mariadb"),
    }
)


@functools.cache
def writer_schema(table: str) -> Mapping:
    """The schema that a real connector registered for the table, parsed for fastavro."""
    return fastavro.parse_schema(json.loads((SCHEMAS / f"{SOURCES[table].topic}.v1.avsc").read_text()))


def key_only(table: str, values: Row) -> Row:
    """The values of a delete if the database logs only the key, as in real Debezium output.

    Nullable columns are null, the others their type's default.
    """
    defaults = {
        field["name"]: None if isinstance(field["type"], list) else "" if field["type"] == "string" else 0
        for field in writer_schema(table)["fields"]
    }
    return {name: value if name == SOURCES[table].key else defaults[name] for name, value in values.items()}


def record(table: str, values: Row, *, op: str, change: int, ts_ms: int = SNAPSHOT_TS_MS) -> Row:
    """One flattened change. `change` 0 is the snapshot, whose rows share one position; higher ones come later.

    A delete ('d') should have the values that the database logged: often only the key.
    """
    source = SOURCES[table]
    at = SNAPSHOT_AT[source.system] + change * CHANGE_STEP
    meta: Row = {
        "__deleted": "true" if op == "d" else "false",
        "__op": op,
        "__db": source.database,
        "__table": source.table,
        "__source_ts_ms": ts_ms,
    }
    if source.system == "postgresql":
        meta.update(__schema=source.schema, __lsn=at)
    else:
        meta.update(__file=BINLOG, __pos=at, __row=0)
    return {**values, **meta}


def object_bytes(table: str, records: Sequence[Row], codec: str = "null") -> bytes:
    """An Avro object container file of these records."""
    into = io.BytesIO()
    fastavro.writer(into, writer_schema(table), records, codec=codec)
    return into.getvalue()


def object_key(table: str, offset: int, day: dt.date = dt.date(2026, 11, 21), prefix: str = "") -> str:
    """The key that the sink's daily partitioner gives an object whose first record has this Kafka offset.

    `prefix` precedes the topic, so that one bucket can hold the same set many times.
    """
    topic = prefix + SOURCES[table].topic
    return f"topics/{topic}/year={day:%Y}/month={day:%m}/day={day:%d}/{topic}+0+{offset:010d}.avro"
