"""`shape` says what a record is whose fields look like another kind's, in each format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bad_input import plain_parquet
from support.builders import avro_object, avro_record
from support.shapes import config, item, lines, rows_in, schemas_in

from sluice.config.delete_when import DeleteWhen
from sluice.errors import UnusableSchema
from sluice.schema.avro import ENVELOPE, PLAIN, read_writer_schema
from sluice_formats.decode import decode
from sluice_spark.merge.plan import plan_read

ROWS: list[dict[str, Any]] = [{"id": 1, "op": "u", "source": {"app": "till"}, "before": {"price": 5}, "v": 7}]
BY, OLD = avro_record({"app": "string"}, name="By"), avro_record({"price": "int"}, name="Old")
SCHEMA = avro_record({"id": "int", "op": "string", "source": BY, "before": OLD, "v": "int"}, name="Audit")


BODIES = {"parquet": plain_parquet(*ROWS), "json": lines(*ROWS), "avro": avro_object(SCHEMA, ROWS)}


def schema_of(format: str, shape: str | None) -> dict[str, Any]:
    return dict(schemas_in(BODIES[format], format, config(shape=shape))[0][0])


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
    (row,) = rows_in(decoded)
    assert not decoded.rows and (row["id"], row["op"], row["v"]) == (1, "u", 7)
    assert json.loads(row["before"]) == {"price": 5} and json.loads(row["source"]) == {"app": "till"}


def test_a_row_without_an_envelopes_fields_is_no_envelope_whatever_the_rule_says() -> None:
    schema = avro_record({"id": "int"}, name="R")
    with pytest.raises(UnusableSchema, match="no envelopes"):
        read_writer_schema(schema, ENVELOPE)
