"""`shape` says what a record is whose fields look like another kind's, in each format."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders import avro_object, avro_record
from support.shapes import config, item, lines

from sluice.config.delete_when import DeleteWhen
from sluice.errors import UnusableSchema
from sluice.schema.avro import ENVELOPE, PLAIN, read_writer_schema
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.decode import decode, schemas_of
from sluice_formats.parquet_footer import read_footer
from sluice_spark.merge.plan import plan_read

ROWS: list[dict[str, Any]] = [{"id": 1, "op": "u", "source": {"app": "till"}, "before": {"price": 5}, "v": 7}]
SCHEMA = avro_record(
    {
        "id": "int",
        "op": "string",
        "source": avro_record({"app": "string"}, name="By"),
        "before": avro_record({"price": "int"}, name="Old"),
        "v": "int",
    },
    name="Audit",
)


def parquet() -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), body)
    return body.getvalue()


BODIES = {"parquet": parquet(), "json": lines(*ROWS), "avro": avro_object(SCHEMA, ROWS)}


def schema_of(format: str, shape: str | None) -> dict[str, Any]:
    body = BODIES[format]
    if format == "parquet":
        return dict(read_footer(body, True).schema)
    if format == "avro":
        return dict(parse_header(Head(body, True)).schema)
    return schemas_of(body, format, config(shape=shape))[0][0]


@pytest.mark.parametrize("format", BODIES)
def test_a_row_with_the_fields_of_an_envelope_is_a_row_where_the_rule_says_so(format: str) -> None:
    assert read_writer_schema(schema_of(format, None)).shape == ENVELOPE
    table = config(shape=PLAIN, delete_when=DeleteWhen(on=False))
    schema = schema_of(format, PLAIN)
    writer = read_writer_schema(schema, PLAIN)
    assert writer.shape == PLAIN and writer.fingerprint == read_writer_schema(schema).fingerprint
    plan = plan_read(
        table, batch="b", writers=[writer], stored=None, inferred={item(format).id.hash: json.dumps(schema)}
    ).plan
    decoded = decode(BODIES[format], item(format), plan)
    (row,) = [row for batch in decoded.batches for row in batch.to_pylist()]
    assert not decoded.rows and (row["id"], row["op"], row["v"]) == (1, "u", 7)
    assert json.loads(row["before"]) == {"price": 5} and json.loads(row["source"]) == {"app": "till"}


def test_a_row_without_an_envelopes_fields_is_no_envelope_whatever_the_rule_says() -> None:
    schema = avro_record({"id": "int"}, name="R")
    with pytest.raises(UnusableSchema, match="no envelopes"):
        read_writer_schema(schema, ENVELOPE)
