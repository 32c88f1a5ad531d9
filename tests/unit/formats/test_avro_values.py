"""The decoder of Avro's values: equal to fastavro's reading, strict where that guesses, without a schema's words."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any
from unittest.mock import patch

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.avro_containers import encoded_long
from support.builders import avro_record

from sluice_formats.avro_values import decoder_of
from sluice_formats.errors import CorruptObject

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=200),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def types(draw: st.DrawFn, depth: int = 3, names: list[int] | None = None) -> Typed:
    """A type, and a strategy of its values."""
    names = [0] if names is None else names
    kinds = [*VALUES, "enum", "fixed", *(("array", "map", "record", "optional", "union") if depth else ())]
    kind = draw(st.sampled_from(kinds))
    if kind in VALUES:
        return draw(st.sampled_from((kind, {"type": kind}))), VALUES[kind]
    names[0] += 1
    name = f"T{names[0]}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        size = draw(st.integers(0, 5))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "record":
        own = [draw(types(depth - 1, names)) for _ in range(draw(st.integers(1, 4)))]
        fields = {f"f{number}": typed for number, typed in enumerate(own)}
        written = [{"name": field, "type": inner} for field, (inner, _) in fields.items()]
        values = st.fixed_dictionaries({field: values for field, (_, values) in fields.items()})
        return {"type": "record", "name": name, "fields": written}, values
    if kind == "union":
        return ["string", "null", "long", "boolean"], st.one_of(*(VALUES[own] for own in ("string", "null", "long")))
    inner, values = draw(types(depth - 1, names))
    if kind == "optional":
        assume(not isinstance(inner, list) and inner not in ("null", {"type": "null"}))
        return draw(st.sampled_from(([inner, "null"], ["null", inner]))), st.none() | values
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=4)
    return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=9), values, max_size=4)


def encoded(schema: Any, values: list[Any]) -> bytes:
    body, parsed = io.BytesIO(), fastavro.parse_schema(schema)
    for value in values:
        fastavro.schemaless_writer(body, parsed, value)
    return body.getvalue()


def by_fastavro(schema: Any, body: bytes, count: int) -> tuple[list[Any], int]:
    source, parsed = io.BytesIO(body), fastavro.parse_schema(schema)
    options: Any = {"handle_unicode_errors": "surrogateescape"}
    return [fastavro.schemaless_reader(source, parsed, None, **options) for _ in range(count)], source.tell()


@given(st.data())
def test_values_are_those_of_fastavro_and_damage_is_never_another_value(data: st.DataObject) -> None:
    schema, strategy = data.draw(types())
    values = data.draw(st.lists(strategy, min_size=1, max_size=3))
    body = encoded(schema, values)
    with patch("sluice_formats.avro_values._MOST_FIELDS", data.draw(st.sampled_from((0, 3, 1_000)))):
        decode = decoder_of(schema)
    assert repr(decode(body + b"behind", 0, len(values))) == repr(by_fastavro(schema, body, len(values)))
    damaged = bytearray(body[: data.draw(st.integers(0, len(body)))])
    for place in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=3)):
        damaged[place : place + 1] = data.draw(st.binary(min_size=1, max_size=2))
    try:
        decoded = decode(bytes(damaged), 0, len(values))
    except Exception:  # of any kind: the caller refuses the object
        return
    assert json.dumps(decoded, default=repr) == json.dumps(
        by_fastavro(schema, bytes(damaged), len(values)), default=repr
    )


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "F", "size": 0},
        avro_record({"a": "null", "b": avro_record({"c": "null"}, name="Inner")}),
        {"type": "array", "items": "null"},
    ],
)
def test_a_list_of_values_without_bytes_is_no_longer_than_the_bytes(items: Any) -> None:
    decode = decoder_of({"type": "array", "items": items})
    lists = encoded_long(3) + encoded_long(2**40) * 9
    with pytest.raises((ValueError, IndexError)):
        decode(lists, 0, 1)
    ((few,), _) = decode(encoded_long(2) + bytes(3), 0, 1)
    assert len(few) == 2


def test_names_are_of_the_namespace_around_them_and_never_part_of_the_code() -> None:
    hostile = "x'] = long_at; import os #\n"
    schema = avro_record(
        {
            hostile: ["null", avro_record({"i": "int"}, name="Row")],
            "same": ["null", "Row"],
            "full": "a.b.Row",
            "other": {"type": "enum", "name": "c.Row", "symbols": ["in progress", hostile]},
            "again": "c.Row",
        },
        name="Envelope",
        namespace="a.b",
    )
    body = b"\x02\x02" + b"\x02\x04" + b"\x06" + b"\x02" + b"\x00"
    assert decoder_of(schema)(body, 0, 1) == (
        [{hostile: {"i": 1}, "same": {"i": 2}, "full": {"i": 3}, "other": hostile, "again": "in progress"}],
        len(body),
    )


def test_code_of_very_many_fields_is_bounded() -> None:
    wide = [avro_record({f"c{n}": ["null", "int"] for n in range(4_000)}, name=f"R{number}") for number in range(5)]
    schema = avro_record({own["name"]: own for own in wide}, name="V")
    tracemalloc.start()
    try:
        decode = decoder_of(schema)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    ((decoded,), _) = decode(bytes(20_000), 0, 1)
    assert peak < 32 * 1024**2 and decoded["R4"]["c3999"] is None


def test_a_list_of_more_fixed_values_than_bytes_ends_with_the_bytes() -> None:
    decode = decoder_of({"type": "array", "items": {"type": "fixed", "name": "F", "size": 4}})
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cut"):
            decode(encoded_long(2**20) + b"abcd", 0, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1024**2


@pytest.mark.parametrize(
    "schema, body",
    [
        ("int", b"\xff" * 10 + b"\x01"),  # more than 64 bits
        ("string", b"\x01"),
        ("string", encoded_long(4) + b"abc"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04"),
        (["null", "int"], b"\x01\x02"),
        (["null", "int"], b"\x04\x02"),
        (["int", "string", "null"], b"\x01"),
        ({"type": "array", "items": "int"}, encoded_long(2**62) + b"\x02"),
        ("double", b"\x00" * 7),
        ("boolean", b""),
    ],
)
def test_damaged_values_are_refused(schema: Any, body: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017  # of any kind: the caller refuses the object
        decoder_of(schema)(body, 0, 1)


@pytest.mark.parametrize(
    "schema", ["text", {"type": "Row"}, {"type": "fixed", "name": "F", "size": "4; x"}, {"type": "array"}, 7, [None]]
)
def test_a_schema_of_types_that_do_not_exist_is_refused(schema: Any) -> None:
    with pytest.raises(CorruptObject):
        decoder_of(schema)
