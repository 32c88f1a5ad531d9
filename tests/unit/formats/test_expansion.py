"""A small object that expands too far is refused during decompression, by a budget."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from support.avro_containers import PACK, SCHEMA, container, deflated, encoded_long, record
from support.builders import avro_record
from support.shapes import batch_plan

from sluice.batch.manifest import ManifestObject
from sluice.config.limits import MIB, Limits
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit
from sluice.schema.limits import weight_of
from sluice_formats.decode import Decoded, decode
from sluice_formats.errors import CorruptObject

CONFIG = TableConfig(table="db.t", database="db", name="t", topic="x", record_key=("id",))
ITEM = ManifestObject("bronze", "k", "v1", 1, None, "avro", "x", 0, 500, 0)
HUGE = 16 * MIB


DEFAULT_LIMITS = Limits()


def plan(limits: Limits = DEFAULT_LIMITS, schema: Any = SCHEMA) -> Any:
    return batch_plan(replace(CONFIG, limits=limits), schema).plan


def read(*blocks: tuple[int, bytes], schema: Any = SCHEMA, codec: str = "null", **limits: int) -> Decoded:
    return decode(container(codec, *blocks, schema=schema), ITEM, plan(Limits(**limits), schema))


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    """By codec, one block of 16 MiB in a few kilobytes (snappy: in less than one megabyte)."""
    plain = record(1, bytes(HUGE))
    return {codec: container(codec, (1, pack(plain))) for codec, pack in PACK.items() if codec != "null"}


@pytest.mark.parametrize("codec", [codec for codec in PACK if codec != "null"])
def test_a_bomb_of_every_codec_is_refused_within_bounded_memory(bombs: dict[str, bytes], codec: str) -> None:
    assert len(bombs[codec]) < HUGE / 15
    tracemalloc.start()
    try:
        with pytest.raises(ExpansionLimit):
            decode(bombs[codec], ITEM, plan(Limits(block_bytes=MIB)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


@pytest.mark.parametrize("codec", PACK)
def test_every_codec_is_read_and_damage_of_it_is_corrupt(codec: str) -> None:
    plain = record(1, b"one" * 50) + record(2, b"two" * 50)
    packed = PACK[codec](plain)
    (batch,) = read((2, packed), (1, PACK[codec](record(3, b"x"))), codec=codec).batches
    assert batch.column("id").to_pylist() == [1, 2, 3]
    for damaged in (packed[:-3], packed[: len(packed) // 2], b"", bytes(len(packed))[:-1] + b"\x7f"):
        with pytest.raises(CorruptObject):
            read((2, damaged), codec=codec)


def test_many_small_blocks_share_one_budget() -> None:
    block = (1, deflated(record(1, bytes(MIB))))
    with pytest.raises(ExpansionLimit):
        read(*[block] * 8, codec="deflate", decoded_bytes=4 * MIB)
    assert len(read(*[block] * 3, codec="deflate", decoded_bytes=8 * MIB).batches) == 1


def test_a_block_that_declares_too_many_records_is_refused_before_they_are_decoded() -> None:
    with pytest.raises(ExpansionLimit):
        read((2**62, record(1, b"x")))


def test_a_block_with_a_wrong_record_count_is_corrupt() -> None:
    two = record(1, b"x") + record(2, b"y")
    for said in (3, 1, 0, 1_000_000):
        with pytest.raises(CorruptObject):
            read((said, two))


def test_a_length_that_no_object_has_is_corrupt() -> None:
    whole = container("null", (1, record(1, b"x")))
    start = len(container("null"))
    for block in (b"\x02" + b"\xff" * 12, b"\x02\x01", b"\x01\x00", b"\x02" + encoded_long(2**60), b"\x02"):
        with pytest.raises(CorruptObject):
            decode(whole[:start] + block + bytes(20), ITEM, plan())
    with pytest.raises(CorruptObject):
        decode(whole[:-1] + b"\x01", ITEM, plan())  # the mark between blocks is another


def test_an_array_that_declares_more_items_than_bytes_is_corrupt() -> None:
    schema = avro_record({"id": "int", "a": {"type": "array", "items": "int"}}, name="V")
    with pytest.raises(CorruptObject):
        read((1, encoded_long(1) + encoded_long(2**62) + b"\x02"), schema=schema)


DECIMAL = avro_record({"scale": "int", "value": "bytes"}, name="VariableScaleDecimal", namespace="io.debezium.data")


def test_short_encoded_numbers_with_too_many_digits_are_refused_while_rendered() -> None:
    schema = avro_record({"id": "int", "n": DECIMAL}, name="V")
    one = encoded_long(1) + encoded_long(131_072) + encoded_long(1) + b"\x01"
    tracemalloc.start()
    try:
        with pytest.raises(ExpansionLimit):
            read((1_000, one * 1_000), schema=schema, decoded_bytes=4 * MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
    (batch,) = read((2, one * 2), schema=schema, decoded_bytes=4 * MIB).batches
    assert [len(text) for text in batch.column("n").to_pylist()] == [131_074] * 2


@pytest.mark.parametrize(
    "items, weight",
    [
        (["null", "string"], 4),
        ({"type": "long", "logicalType": "timestamp-micros"}, 4),
        ({"type": "array", "items": "int"}, 24),
        (DECIMAL, 24),
        (["null", {"type": "map", "values": "int"}], 24),
    ],
)
def test_a_list_of_very_many_items_is_refused_before_they_are_objects(items: Any, weight: int) -> None:
    for kind in ({"type": "array", "items": items}, {"type": "map", "values": items}):
        schema = avro_record({"id": "int", "a": ["null", kind]}, name="V")
        assert weight_of(schema) == weight
        with pytest.raises(ExpansionLimit):
            read((1, deflated(bytes(MIB // weight + 1))), schema=schema, codec="deflate", block_bytes=MIB)
    assert weight_of(SCHEMA) == weight_of(avro_record({"p": DECIMAL}, name="V")) == 1


def test_such_numbers_within_json_have_an_exponent() -> None:
    schema = avro_record({"id": "int", "n": {"type": "map", "values": DECIMAL}}, name="V")
    one = encoded_long(1) + encoded_long(1) + b"\x02k" + encoded_long(131_072) + encoded_long(1) + b"\x07" + b"\x00"
    (batch,) = read((1, one), schema=schema).batches
    assert batch.column("n").to_pylist() == ['{"k":7E-131072}']


def test_of_records_with_very_many_columns_few_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice_formats.records.CHUNK_CELLS", 100)
    schema = avro_record({"id": "int", **{f"c{n}": "boolean" for n in range(9)}}, name="V")
    batches = read((25, (b"\x02" + bytes(9)) * 25), schema=schema).batches
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
