"""Change records as their origins document them, for tests of shapes that no recorded set has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.row_errors import RowError
from sluice.changes.log_restart import SeenObject
from sluice.config.table import TableConfig
from sluice.schema.avro import read_writer_schema
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.decode import Decoded, decode, schemas_of
from sluice_formats.json.records import json_schemas
from sluice_formats.parquet_footer import read_footer
from sluice_spark.merge.plan import PlannedRead, plan_read


# The change event of https://debezium.io/documentation/reference/3.5/connectors/postgresql.html#postgresql-create-events,
# in Connect's JSON form with its schema.
def _struct(name: str, optional: bool, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": optional, "name": name}


def _fields(optional: bool, **kinds: str) -> list[dict[str, Any]]:
    return [{"type": kind, "optional": optional, "field": name} for name, kind in kinds.items()]


_SERVER = "PostgreSQL_server.inventory.customers"
_CUSTOMER = _fields(False, id="int32", first_name="string", last_name="string", email="string")
_SOURCE = [
    *_fields(False, version="string", connector="string", name="string", ts_ms="int64"),
    *_fields(True, snapshot="boolean"),
    *_fields(False, db="string"),
    *_fields(True, sequence="string"),
    *_fields(False, schema="string", table="string"),
    *_fields(True, txId="int64", lsn="int64", xmin="int64"),
]
CREATE_SCHEMA: dict[str, Any] = _struct(
    f"{_SERVER}.Envelope",
    False,
    [
        *({**_struct(f"{_SERVER}.Value", True, _CUSTOMER), "field": side} for side in ("before", "after")),
        {**_struct("io.debezium.connector.postgresql.Source", False, _SOURCE), "field": "source"},
        *_fields(False, op="string"),
        *_fields(True, ts_ms="int64"),
    ],
)
CREATE: dict[str, Any] = {
    "before": None,
    "after": {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"},
    "source": {
        "version": "3.5.2.Final",
        "connector": "postgresql",
        "name": "PostgreSQL_server",
        "ts_ms": 1559033904863,
        "snapshot": True,
        "db": "postgres",
        "sequence": '["24023119","24023128"]',
        "schema": "public",
        "table": "customers",
        "txId": 555,
        "lsn": 24023128,
        "xmin": None,
    },
    "op": "c",
    "ts_ms": 1559033904863,
}
# The delete event of the same page (#postgresql-delete-events), with the default replica identity.
DELETE: dict[str, Any] = {
    **CREATE,
    "before": {"id": 1, "first_name": "", "last_name": "", "email": ""},
    "after": None,
    "op": "d",
    "source": {**CREATE["source"], "lsn": 46523128, "ts_ms": 1559033904963, "snapshot": None},
}


def lines(*records: Mapping[str, Any] | str) -> bytes:
    """Newline-delimited JSON as the sinks write it."""
    return "".join(
        (record if isinstance(record, str) else json.dumps(record, separators=(",", ":"))) + "\n" for record in records
    ).encode()


def wrapped(schema: Mapping[str, Any], *payloads: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Records in Connect's wrapper."""
    return [{"schema": schema, "payload": payload} for payload in payloads]


def config(*key: str, **settings: Any) -> TableConfig:
    return TableConfig("db.t", "db", "t", "x", key or ("id",), **settings)


def item(format: str, key: str = "x+0+500", **values: Any) -> ManifestObject:
    return ManifestObject("bronze", f"{key}.{format}", "v1", 1, None, format, "x", 0, values.pop("offset", 500), 0)


def batch_plan(
    table: TableConfig, *schemas: Any, scanned: ManifestObject | None = None, stored: Any = None, **how: Any
) -> PlannedRead:
    """The plan of a batch whose objects have these writer schemas. The types of `scanned` were inferred: its schema is
    the first.
    """
    # Parsed from copies, since fastavro marks the schema that it parses.
    writers = [read_writer_schema(json.loads(json.dumps(schema))) for schema in schemas]
    if scanned is not None:
        how["inferred"] = {scanned.id.hash: json.dumps(schemas[0])}
    return plan_read(table, batch="b", writers=writers, stored=stored, **how)


def schemas_in(body: bytes, format: str, table: TableConfig) -> tuple[Sequence[Any], bool]:
    """The schemas of an object of any format, and whether their types are inferred."""
    if format in ("avro", "parquet"):
        return [read_footer(body, True).schema if format == "parquet" else parse_header(Head(body, True)).schema], False
    return schemas_of(body, format, table)


def read(body: bytes, at: ManifestObject | str, table: TableConfig | None = None) -> Decoded:
    """What a read task gives of an object, or of one of this format, whose schemas alone make the plan."""
    table, at = table or config(), item(at) if isinstance(at, str) else at
    schemas, inferred = schemas_in(body, at.format, table)
    planned = batch_plan(table, *schemas, scanned=at if inferred else None)
    for refusal in planned.refused.values():
        raise refusal
    return decode(body, at, planned.plan)


def seen_in(body: bytes, at: ManifestObject | str, table: TableConfig | None = None) -> SeenObject:
    """What is seen of an object all of whose rows are read."""
    decoded = read(body, at, table)
    assert not decoded.rows, decoded.rows
    return decoded.seen


def rows_in(decoded: Decoded) -> list[dict[str, Any]]:
    return [row for batch in decoded.batches for row in batch.to_pylist()]


def json_rows(
    body: bytes,
    table: TableConfig | None = None,
    *,
    at: ManifestObject | None = None,
    bad: list[RowError] | None = None,
) -> list[dict[str, Any]]:
    """A JSON object's rows as a read task gives them: scanned for its schemas, then read."""
    table, at = table or config(), at or item("json")
    schemas, guessed = json_schemas(body, table.json_types, table.limits)
    plan = batch_plan(table, *schemas, scanned=at if guessed else None).plan
    decoded = decode(body, at, plan)
    if bad is not None:
        bad.extend(decoded.rows)
    else:
        assert not decoded.rows, decoded.rows
    return rows_in(decoded)


def picked(rows: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def judged_in_turn(batches: Sequence[Sequence[SeenObject]], table: TableConfig) -> Watched:
    """The last batch, judged with what was known after those before it, as the ledger keeps it."""
    result = Watched(KafkaWatch())
    for batch in batches:
        result = watched(KafkaWatch.from_dict(result.watch.to_dict()), batch, table)
    return result
