"""One number is one key, whatever form it is written in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.builders import avro_object, change, flattened
from support.shapes import config, json_rows, lines, picked, read, rows_in

from sluice.schema.meaning import number_key
from sluice_formats.json.records import json_schemas
from sluice_formats.json.schema import agreed

NUMBER = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}


FORMS = "7=7 7.0=7 7.50=7.5 1E2=100 100=100 -0.0=0 0.00=0 -1.10=-1.1 1E-3=0.001 NaN=NaN seven=seven"


@pytest.mark.parametrize("form", [*FORMS.split(), "1E999999999=1E999999999"])
def test_a_number_has_one_text_as_a_key(form: str) -> None:
    written, key = form.split("=")
    assert number_key(written) == key


def test_numbers_with_a_scale_are_one_key_and_keep_their_form_elsewhere() -> None:
    schema = flattened({"id": NUMBER, "v": ["null", "io.debezium.data.VariableScaleDecimal"]})
    forms = [(b"\x64", 0), (b"\x01", -2), (b"\x27\x10", 2)]
    rows = [change(op="u", id={"scale": s, "value": v}, v={"scale": s, "value": v}) for v, s in forms]
    actual = rows_in(read(avro_object(schema, rows), "avro", config("id")))
    assert picked(actual, "id", "v") == [("100", "100"), ("100", "100"), ("100", "100.00")]


def test_text_that_looks_like_a_number_stays_a_text_key() -> None:
    assert picked(json_rows(lines({"id": "7.0"}, {"id": "007"})), "id") == [("7.0",), ("007",)]


def test_numbers_of_json_that_no_double_holds_are_one_key_by_their_value() -> None:
    rows = json_rows(b'{"id": 12345678901234567890}\n{"id": 100.00}\n{"id": 1E2}\n')
    assert picked(rows, "id") == [("12345678901234567890",), ("100",), ("100",)]


@pytest.mark.parametrize(("stored", "kind"), [({"id": "bigint"}, "long"), ({"id": "double"}, "double"), ({}, "double")])
def test_whole_numbers_with_a_point_fit_a_column_of_whole_numbers(stored: dict[str, Any], kind: str) -> None:
    schemas, inferred = json_schemas(b'{"id": 1.0}\n{"id": 2}\n{"id": 1E2}\n', {}, config().limits)
    (schema,) = agreed(schemas, stored)
    assert inferred and schema["fields"] == [{"name": "id", "type": ["null", kind]}]


@pytest.mark.parametrize("fraction", ["1.5", "1E20", "9007199254740993.0"])
def test_other_numbers_with_a_point_do_not(fraction: str) -> None:
    schemas, _ = json_schemas(f'{{"id": {fraction}}}\n'.encode(), {}, config().limits)
    assert agreed(schemas, {"id": "bigint"})[0]["fields"][0]["type"][1] != "long"


def test_a_declared_whole_number_may_have_a_point() -> None:
    table = config("id", json_types={"id": "long"})
    assert picked(json_rows(lines('{"id": 7.0}', '{"id": 1E2}'), table), "id") == [(7,), (100,)]
    bad: list[Any] = []
    assert json_rows(lines('{"id": 7.5}', json.dumps({"id": 1})), table, bad=bad) and len(bad) == 1


def test_a_key_of_empty_bytes_is_set_aside_as_one_of_empty_text() -> None:
    schema = flattened({"id": "bytes"})
    decoded = read(avro_object(schema, [change(id=b""), change(id=b"\0")]), "avro")
    assert [row.code for row in decoded.rows] == ["unusable_record_key"]
    assert picked(rows_in(decoded), "id") == [("AA==",)]
