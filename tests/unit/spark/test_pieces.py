"""Pieces of large Avro objects: read one by one, they are what the object is when it is read at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support import builders
from support.builders import avro_record, change, envelope, flattened
from support.shapes import batch_plan, config, rows_in

from sluice.batch.manifest import ManifestObject
from sluice.changes.log_restart import SeenObject, joined
from sluice.config.delete_when import DeleteWhen
from sluice.config.limits import Limits
from sluice_aws.s3.objects import ObjectSource
from sluice_formats import avro
from sluice_formats.decode import decode
from sluice_formats.records import ReaderPlan
from sluice_spark.merge.by_arrow.large import pieces
from sluice_spark.merge.by_arrow.large.pieces import ObjectPiece, divided_objects
from sluice_spark.merge.rows import LeftToSpark

ITEM = ManifestObject("bronze", "topics/x/x+0+500.avro", "v1", 0, None, "avro", "x", 0, 500, 0)
UNNAMED = replace(ITEM, offset=None, kafka_partition=None, modified_at=1_700_000_000_000)
SCHEMA = flattened({"id": "int", "note": ["null", "bytes"]})
SOURCE = ObjectSource("eu-west-1", "silver")
MARKER = bytes(range(100, 116))


class Bucket:
    """S3 that has one object."""

    ranges_served = True

    def __init__(self, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        self.body = body
        self.ranges: list[int] = []
        monkeypatch.setattr(pieces, "task_objects", lambda source: self)

    def has_ranges(self, id: Any) -> bool:
        return self.ranges_served

    def chunks(self, id: Any) -> Iterator[bytes]:
        return (self.body[place : place + 1_000] for place in range(0, len(self.body), 1_000))

    def range_bytes(self, id: Any, start: int, length: int) -> bytes:
        self.ranges.append(length)
        return self.body[start : start + length]

    def divided(
        self, item: ManifestObject, plan: ReaderPlan, size: int
    ) -> tuple[list[ObjectPiece], list[ManifestObject]]:
        objects: Any = self
        return divided_objects([item], plan, objects, piece_bytes=size)

    def read(self, own: list[ObjectPiece], plan: ReaderPlan) -> tuple[list[dict[str, Any]], SeenObject]:
        """The changes of the pieces, read in any order, and what was seen of their object."""
        seen: dict[int, SeenObject] = {}
        context: Any = SimpleNamespace(add=lambda own, piece: seen.update({piece: own}))
        reader = pieces.share_reader(plan, SOURCE, context)
        rows = {piece.first: [row for batch in reader([piece]) for row in batch.to_pylist()] for piece in own[::-1]}
        return [row for first in sorted(rows) for row in rows[first]], joined([seen[first] for first in sorted(seen)])


def avro_object(schema: dict[str, Any], rows: list[dict[str, Any]], **how: Any) -> bytes:
    return builders.avro_object(schema, rows, marker=MARKER, **how)


def plan_of(schema: dict[str, Any] = SCHEMA, **settings: Any) -> ReaderPlan:
    return batch_plan(config(**settings), schema).plan


def whole(body: bytes, item: ManifestObject, plan: ReaderPlan) -> tuple[list[dict[str, Any]], SeenObject]:
    decoded = decode(body, item, plan)
    return rows_in(decoded), decoded.seen


ROWS = [change(id=number, note=b"n" * 50) for number in range(500)]
BODY = avro_object(SCHEMA, ROWS, block=500)
WHOLE = replace(ITEM, size=len(BODY))


def pieces_are_left(body: bytes, monkeypatch: pytest.MonkeyPatch, *, plan: ReaderPlan, size: int = 2_000) -> None:
    bucket = Bucket(body, monkeypatch)
    parts, _ = bucket.divided(replace(ITEM, size=len(body)), plan, size)
    with pytest.raises(LeftToSpark, match="pieces"):
        bucket.read(parts, plan)


@pytest.mark.long
@pytest.mark.parametrize("item", [ITEM, UNNAMED], ids=["offset", "arrival"])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_pieces_of_any_size_are_the_object(item: ManifestObject, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of()
    for seed in range(120):
        random_ = random.Random(seed)
        notes = [None, b"", b"note" * random_.randint(1, 30)]
        notes += [MARKER, MARKER + b"\x02\x04" + MARKER * 3][: seed % 3]
        rows = [
            change(random_.choice("cud"), random_.randint(1, 50), id=random_.randint(1, 9), note=random_.choice(notes))
            for _ in range(random_.randint(1, 200))
        ]
        body = avro_object(SCHEMA, rows, codec=codec, block=random_.choice((1, 100, 700)))
        own = replace(item, size=len(body))
        bucket = Bucket(body, monkeypatch)
        size = random_.randint(20, 600)
        parts, others = bucket.divided(own, plan, size)
        assert bool(parts) == (2 * size < len(body)) == (not others)
        if parts:
            assert bucket.read(parts, plan) == whole(body, own, plan), seed


def test_a_piece_takes_its_own_bytes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    body = avro_object(SCHEMA, [change(id=number, note=bytes([1]) * 90) for number in range(2_000)], block=500)
    bucket, plan = Bucket(body, monkeypatch), plan_of()
    parts, others = bucket.divided(replace(ITEM, size=len(body)), plan, 10_000)
    bucket.read(parts, plan)
    assert not others and len(parts) >= len(body) // 10_000 - 1
    assert max(bucket.ranges) < 11_000


@pytest.mark.parametrize("at", [0.2, 0.5, 0.9])
def test_an_object_with_a_damaged_block_is_read_whole(at: float, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytearray(BODY)
    place = body.index(b"n" * 50, int(at * len(body)))
    body[place - 1] = 0x7F  # a longer text than the block holds
    pieces_are_left(bytes(body), monkeypatch, plan=plan_of())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body[:-5],
        lambda body: body + b"\x02",
        lambda body: body[: len(body) // 2] + body[len(body) // 2 + 1 :],
    ],
    ids=["cut", "longer", "shifted"],
)
def test_an_object_whose_blocks_do_not_meet_is_read_whole(spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = spoil(BODY)
    item = replace(ITEM, size=len(body))
    assert Bucket(body, monkeypatch).divided(item, plan_of(), 2_000) == ([], [item])


def test_an_object_is_read_whole_where_the_server_has_no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(BODY, monkeypatch)
    assert len(bucket.divided(WHOLE, plan_of(), 2_000)[0]) > 10
    bucket.ranges_served = False
    assert bucket.divided(WHOLE, plan_of(), 2_000) == ([], [WHOLE])


def test_an_object_of_too_many_blocks_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "_MOST_BLOCKS", 10)
    assert Bucket(BODY, monkeypatch).divided(WHOLE, plan_of(), 2_000) == ([], [WHOLE])


def test_plain_rows_are_divided_only_where_no_column_may_mark_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = avro_record({"id": "int", "s": "string"}, name="R")
    body = avro_object(schema, [{"id": number, "s": "iud"[number // 167]} for number in range(500)], block=100)
    bucket, item = Bucket(body, monkeypatch), replace(ITEM, size=len(body))
    plan = plan_of(schema)
    assert bucket.divided(item, plan, 300) == ([], [item])
    assert bucket.divided(item, replace(plan, config=config(delete_when=DeleteWhen(on=False))), 300)[0]
    assert bucket.divided(item, replace(plan, config=config(append_only=True)), 300)[0]


def test_a_piece_with_a_row_that_cannot_be_merged_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*ROWS[:400], {**ROWS[400], "__op": "x"}, *ROWS[401:]]
    pieces_are_left(avro_object(SCHEMA, rows, block=500), monkeypatch, plan=plan_of())


def test_a_record_of_two_changes_leaves_its_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes behind it have other numbers than the records before them say."""
    schema = envelope({"id": "int"}, {"lsn": ["null", "long"]})
    rows = [
        {"before": {"id": number - (number == 300)}, "after": {"id": number}, "source": {"lsn": number}, "op": "u"}
        for number in range(1, 500)
    ]
    pieces_are_left(avro_object(schema, rows, block=200), monkeypatch, plan=plan_of(schema), size=500)


@pytest.mark.parametrize(
    "settings, item, size",
    [
        ({"limits": Limits(object_rows=400)}, ITEM, 2_000),
        ({"limits": Limits(object_bytes=2_000)}, ITEM, 500),
        ({"key_pattern": "{topic}-{end_offset}.avro"}, ITEM, 2_000),
        ({}, replace(ITEM, key="topics/x/x(0_799).avro", offset=None), 2_000),
        ({}, replace(ITEM, key="topics/x/0/00000799.avro", offset=None), 2_000),
        ({}, replace(ITEM, replaces="0003"), 2_000),
        ({}, replace(ITEM, format="parquet"), 2_000),
        ({}, ITEM, 1_000_000),
    ],
    ids=["rows", "bytes", "pattern", "lenses", "lenses folders", "dump", "format", "small"],
)
def test_an_object_beyond_its_limits_or_of_another_form_is_read_whole(
    settings: dict[str, Any], item: ManifestObject, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, plan = replace(item, size=len(BODY)), plan_of()
    plan = replace(plan, config=replace(plan.config, **settings))
    assert Bucket(BODY, monkeypatch).divided(item, plan, size) == ([], [item])


def test_what_is_seen_of_pieces_is_that_of_their_object() -> None:
    seen = SeenObject("o", "k", 0, 5, 9, "postgres", "0002", 7, ("a",), ("1",), (("c max", 1),), 3, "s", "db")
    other = replace(seen, last=14, highest="0009", newest_ms=None, logs=("b",), unexpected=(("c max", 2),), log="e")
    both = joined([seen, other])
    assert (both.first, both.last, both.highest, both.newest_ms, both.logs) == (5, 14, "0009", 7, ("a", "b"))
    assert (both.unexpected, both.changes, both.sample, both.log) == ((("c max", 3),), 6, "s", "")
    assert joined([seen, replace(other, log=None)]).log == "db"
