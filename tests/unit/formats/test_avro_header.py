"""The head of an Avro object: its schema and codec, and every cut or damage."""

import random
from typing import Any

import pytest
from support.avro_containers import header
from support.builders import avro_object, avro_record

from sluice.errors import SchemaTooComplex
from sluice_formats.avro_header import MAX_ENTRIES, Head, parse_header
from sluice_formats.errors import CorruptObject, HeaderCut, NotAvro

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "shop.public.orders.Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "__lsn", "type": ["null", "long"], "default": None},
        {"name": "__deleted", "type": ["null", "string"], "default": None},
    ],
}


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
def test_a_header_gives_the_schema_as_it_was_written_and_the_codec(codec):
    header = parse_header(Head(avro_object(SCHEMA, [{"id": 0}], codec=codec), True))
    assert (header.schema, header.codec) == (SCHEMA, codec)


def test_a_header_keeps_what_the_connector_added_to_the_schema():
    kind = {"type": "int", "connect.name": "io.debezium.time.Date"}
    schema = avro_record({"d": kind}, name="v", **{"connect.version": 1})
    assert parse_header(Head(avro_object(schema, []), True)).schema["fields"][0]["type"] == kind


def test_a_truncated_header_asks_for_more_bytes_or_reports_damage():
    data = avro_object(SCHEMA, [{"id": 0}])
    complete = data.index(b"avro.schema")
    for length in range(4, complete):
        with pytest.raises(HeaderCut):
            parse_header(Head(data[:length], False))
        with pytest.raises(CorruptObject):
            parse_header(Head(data[:length], True))


def test_damage_of_any_kind_is_one_of_the_named_errors():
    data, chance = avro_object(SCHEMA, [{"id": 0}]), random.Random(7)
    for _ in range(3_000):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            parse_header(Head(bytes(damaged), True))
        except (NotAvro, CorruptObject, SchemaTooComplex):
            pass


def test_a_codec_that_avro_lacks_is_not_cured_by_uploading_the_same_object_again():
    data = avro_object(SCHEMA, [{"id": 0}]).replace(b"\x08null", b"\x08lzma")
    with pytest.raises(CorruptObject, match="Let the writer use one of null, deflate, snappy"):
        parse_header(Head(data, True))


@pytest.mark.parametrize(
    ("written", "damaged"), [(b"avro.schema", b"avro.schemb"), (b"avro.codec\x08null", b"avro.codec\x08nulk")]
)
def test_a_header_without_schema_or_with_a_codec_that_is_not_avros_is_corrupt(written, damaged):
    with pytest.raises(CorruptObject):
        parse_header(Head(avro_object(SCHEMA, [{"id": 0}]).replace(written, damaged, 1), True))


def test_a_header_of_more_entries_than_any_writer_makes_is_corrupt():
    entries = [(b"%04d" % number, b"") for number in range(MAX_ENTRIES - 1)]
    schema = (b"avro.schema", b'{"type": "string"}')
    assert parse_header(Head(header(*entries, schema), True)).schema == {"type": "string"}
    with pytest.raises(CorruptObject):
        parse_header(Head(header(*entries, schema, (b"", b"")), True))


def test_a_header_may_give_the_size_of_its_map_and_says_where_the_blocks_begin():
    data = header((b"avro.schema", b'"int"'))
    sized = data[:4] + b"\x01" + b"\x24" + data[5:]  # minus one entry, of 18 bytes
    parsed = parse_header(Head(sized + b"block", True))
    assert (parsed.schema, parsed.codec, parsed.sync, parsed.end) == ("int", "null", bytes(16), len(sized))


@pytest.mark.parametrize(("doc", "shared"), [("", True), ("x" * 100_000, False)], ids=["as usual", "hostile"])
def test_objects_share_the_schema_that_each_of_them_repeats(doc, shared):
    schema = {**SCHEMA, "doc": doc}
    first, second = (parse_header(Head(avro_object(schema, [{"id": n}]), True)) for n in (1, 2))
    assert first.schema == second.schema == schema
    assert (first.schema is second.schema) == shared
