"""A schema beyond the limits is refused before anything resolves or decodes with it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from support.avro_containers import header

from sluice.config.limits import Limits
from sluice.errors import SchemaTooComplex
from sluice.schema.limits import MAX_NAME, MAX_TEXT_BYTES, MAX_TEXT_VALUES, MAX_WEIGHTLESS, check_schema, parse_schema
from sluice_formats.avro_header import Head, parse_header


def record(name: str, *types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)]}


def nested(levels: int, inner: Any = "int") -> Any:
    for _ in range(levels):
        inner = {"type": "array", "items": inner}
    return inner


def doubling(levels: int) -> dict[str, Any]:
    """Every record holds the one before it twice."""
    return record(
        "A", record("N0", "int"), *(record(f"N{level}", f"N{level - 1}", f"N{level - 1}") for level in range(1, levels))
    )


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (record("A", "A"), "recursion"),
        (record("A", ["null", "A"]), "recursion"),
        (record("A", {"type": "array", "items": "A"}), "recursion"),
        ({**record("A", "x.A"), "namespace": "x"}, "recursion"),
        (record("A", record("B", ["null", "A"])), "recursion"),
        (record("A", nested(40)), "depth"),
        (record("A", record("N0", "int"), *(record(f"N{level}", f"N{level - 1}") for level in range(1, 40))), "depth"),
        (doubling(25), "types"),
        (record("A", *["int"] * 4_097), "columns"),
        (record("A", ["int"] * 30_000), "types"),
        (record("A", *["null"] * (MAX_WEIGHTLESS + 1)), "weightless"),
        (record("A", {"type": "array", "items": "null"}), "weightless"),
        (record("A", {"type": "array", "items": record("E")}), "weightless"),
        (record("A", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "weightless"),
        (record("A", {"type": "map", "values": nested(40)}), "depth"),
        (record("A" * (MAX_NAME + 1), "int"), "name"),
        ({**record("A", "int"), "namespace": "n" * (MAX_NAME + 1)}, "name"),
        (record("A", {"type": "int", "connect.name": "n" * (MAX_NAME + 1)}), "name"),
        ({"type": "record", "name": "A", "fields": [{"name": "n" * (MAX_NAME + 1), "type": "int"}]}, "name"),
    ],
)
def test_a_schema_of_absurd_depth_or_width_is_refused(schema: Any, what: str) -> None:
    began = time.process_time()
    with pytest.raises(SchemaTooComplex) as refused:
        check_schema(schema)
    assert refused.value.facts["what"] == what and not refused.value.retriable
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'"' + b"a" * MAX_TEXT_BYTES + b'"', "bytes"),
        (b"[" + b"[]," * (MAX_TEXT_VALUES // 2) + b"[]]", "values"),
        (b"[" + b"0," * MAX_TEXT_VALUES + b"0]", "values"),
        (b'{"a":' * MAX_TEXT_VALUES, "values"),
    ],
)
def test_the_json_of_a_schema_is_measured_before_it_is_parsed(text: bytes, what: str) -> None:
    with pytest.raises(SchemaTooComplex) as refused:
        parse_schema(text)
    assert refused.value.facts["what"] == what


def test_json_that_nests_without_end_is_refused_without_recursion() -> None:
    schema: Any = {}
    for _ in range(100_000):
        schema = {"type": schema}
    with pytest.raises(SchemaTooComplex):
        check_schema(schema)
    while schema:  # a hundred thousand levels are taken apart one by one: the interpreter would recurse
        schema = schema.pop("type")


@pytest.mark.parametrize(
    "schema",
    [
        record("A", *[["null", "string"]] * 4_000),
        record("A", nested(20)),
        doubling(8),
        record(
            "Envelope",
            ["null", record("Value", "int", ["null", "string"])],
            ["null", "Value"],
            record("Source", "string", "long"),
        ),
        record("A", {"type": "map", "values": "null"}),
        5,
        None,
        "int",
        [],
        {"type": "record", "fields": 7},
        {"type": 3},
        {"type": "array"},
        {"type": "record", "name": 4, "fields": [5, {"name": "x"}]},
    ],
)
def test_what_is_no_larger_than_tables_are_is_left_to_whoever_understands_it(schema: Any) -> None:
    check_schema(schema)


def test_the_widest_schema_that_limits_allow_is_parsed() -> None:
    field = {"type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}], "default": None}
    schema = {"type": "record", "name": "A", "fields": [{"name": f"column_{n}", **field} for n in range(4_096)]}
    check_schema(parse_schema(json.dumps(schema).encode()))


def test_limits_are_the_tables_own() -> None:
    check_schema(record("A", nested(3)), Limits(schema_depth=5))
    with pytest.raises(SchemaTooComplex):
        check_schema(record("A", nested(3)), Limits(schema_depth=3))
    with pytest.raises(SchemaTooComplex):
        check_schema(record("A", "int", "int"), Limits(schema_columns=1))


@pytest.mark.parametrize(
    ("limits", "step"),
    [
        (Limits(schema_columns=1), "or raise the table's limit schema_columns (at most 4,096) and push it, then "),
        (Limits(schema_types=2), "or raise the table's limit schema_types (at most 1,000,000) and push it, then "),
    ],
)
def test_a_limit_that_can_be_raised_is_named(limits: Limits, step: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in "abc"]}
    with pytest.raises(SchemaTooComplex) as refused:
        check_schema(schema, limits)
    assert f"{step}`sluice quarantine retry --code schema_too_complex`" in refused.value.next_step


def test_a_bound_that_is_fixed_leaves_the_source_alone_to_change() -> None:
    fields = [{"name": f"c{number}", "type": "int"} for number in range(5_000)]
    with pytest.raises(SchemaTooComplex) as refused:
        check_schema({"type": "record", "name": "R", "fields": fields})
    assert refused.value.next_step == "Simplify the schema at the source"


def test_the_head_of_an_object_with_such_a_schema_is_refused() -> None:
    head = header((b"avro.schema", json.dumps(doubling(25)).encode()), (b"avro.codec", b"null"))
    with pytest.raises(SchemaTooComplex):
        parse_header(Head(head, True))
