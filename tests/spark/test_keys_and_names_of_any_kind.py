"""Sources with unusual names and keys.

Keys and folder names of every type, names that no Hudi table can have, and rows without a log position.
"""

import json
from decimal import Decimal
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import COW, MOR, Workbench, table

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
DATE = {"type": "int", "connect.name": "io.debezium.time.Date"}
MILLIS = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
MICROS = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
KEY = {"b": "bytes", "d": DECIMAL, "day": DATE, "ms": MILLIS, "us": MICROS, "x": "double", "yes": "boolean"}
USUAL = {"b": b"\x00\xff", "d": Decimal("1.5000"), "day": 0, "ms": 0, "us": 0, "x": 0.1, "yes": True}
# Rows that differ in one column only, and values at the ends of what sources have.
ENDS = [
    (b"", Decimal("-1234567890123456.1234"), -719_162, -62_135_596_800_000, 253_402_300_799_999_999, 1e-300, False),
    (b",day:1", Decimal("0"), 2_932_896, -1, -1, -1e15, False),
]
ROWS: list[dict[str, Any]] = [
    *({**USUAL, **other} for other in ({}, {"b": b"\x00\xfe"}, {"d": Decimal("1.5001")}, {"ms": 1}, {"us": 1})),
    *(dict(zip(KEY, values)) for values in ENDS),
]


@pytest.mark.whole
def test_a_row_is_found_by_a_key_and_moves_between_folders_of_any_type(bench: Workbench) -> None:
    config = table(name="typed", record_key=tuple(KEY), partition_by=("in_b", "in_d", "in_day", "in_us"))
    folders = {f"in_{name}": ["null", KEY[name]] for name in ("b", "d", "day", "us")}
    schema = flattened({**KEY, **folders, "v": ["null", "string"]})

    def in_folders(place: dict[str, Any]) -> dict[str, Any]:
        return {name: place.get(name.removeprefix("in_")) for name in folders}

    # A first load is written by another path than an update.
    for turn, value in enumerate(("first", "same folders", "other folders")):
        placed = ROWS if turn < 2 else [*ROWS[1:], {}]
        changes = [
            change("u" if turn else "c", 100 * turn + at, **row, **in_folders(place), v=value)
            for at, (row, place) in enumerate(zip(ROWS, placed), 1)
        ]
        outcome = bench.apply(config, *changes, schema=schema)
        assert not outcome.quarantined and not outcome.quarantined_rows
        assert bench.rows(config, "v") == [(value,)] * len(ROWS)
    assert bench.rows(config, "b", "in_b") == bench.rows_by_hudi_rs(config, "b", "in_b")


KEYS = {
    "d": [Decimal("1.5000"), Decimal("0.0000"), Decimal("-1234567890123456.1234"), Decimal("0.0001")],
    "tiny": [Decimal("0.0000000001"), Decimal("0E-10"), Decimal("12.5000000000"), Decimal("-0.0000001000")],
    "whole": [Decimal("0"), Decimal("12345678901234567890"), Decimal("-7"), Decimal("100")],
    "day": [0, -719_162, 2_932_896, 19_700],
    "us": [0, -1, 253_402_300_799_999_999, 1_700_000_000_123_456],
    "yes": [True, False, True, False],
}


@COW
@pytest.mark.parametrize("record_key", [("us",), pytest.param(("whole",), marks=pytest.mark.whole), tuple(KEYS)])
def test_keys_of_arrow_have_the_texts_of_hudi(bench: Workbench, record_key: tuple[str, ...], table_type: str) -> None:
    decimals = {name: {**DECIMAL, "precision": 20, "scale": scale} for name, scale in (("tiny", 10), ("whole", 0))}
    schema = flattened({"d": DECIMAL, **decimals, "day": DATE, "us": MICROS, "yes": "boolean", "v": "string"})
    values = [dict(zip(KEYS, row)) for row in zip(*KEYS.values())]
    arrow, spark = (table(name=name, record_key=record_key, table_type=table_type) for name in ("arrow", "spark"))
    bench.services.tables.leave_to_spark(spark)
    for turn, rows in enumerate((values[:2], values[1:])):
        item = bench.put([change("u", 10 * turn + at, **row, v=f"{turn}") for at, row in enumerate(rows, 1)], schema)
        (bench if turn else bench.in_tasks()).merge(spark, [item])
        bench.merge(arrow, [item])
        assert bench.left_to_spark() is None
    wanted = bench.rows_by_hudi_rs(spark, "_hoodie_record_key", "v")
    assert len(wanted) == 4 and bench.rows_by_hudi_rs(arrow, "_hoodie_record_key", "v") == wanted


def test_columns_of_any_name_are_stored_and_read(bench: Workbench) -> None:
    config = table(name="named", record_key=("order_id",))
    for turn in (0, 1):
        constant = {"a.b`c": turn, "select": "x", "_id": "y", "": True, "__op": "u" if turn else "c"}
        changes = [
            {"order-id": n, "größe": f"v{turn}", "grüße": n + turn, "名前": n, "__lsn": 10 * turn + n, **constant}
            for n in (1, 2)
        ]
        body = "".join(json.dumps(record) + "\n" for record in changes).encode()
        key = f"topics/src.public.t/partition=0/src.public.t+0+{turn:010d}.json"
        bench.merge(config, [bench.put_bytes(body, key=key, format="json")])
    columns = ("order_id", "gr_u00f6_u00dfe", "gr_u00fc_u00dfe", "_u540d_u524d", "a_b_c", "select", "_id", "_")
    assert bench.rows_by_both(config, *columns) == [(n, "v1", n + 1, n, 1, "x", "y", True) for n in (1, 2)]


@MOR
def test_unchanged_columns_of_any_name_keep_their_values(bench: Workbench, table_type: str) -> None:
    config = table("worked", partition_by=("place",), table_type=table_type)
    names, mark = ("key", "file", "path", "bytes"), "__debezium_unavailable_value"
    schema = flattened(dict.fromkeys(("id", "place", "doc", *names), ["null", "string"]))
    own, left = {name: f"own {name}" for name in names}, dict.fromkeys(names, mark)

    def row(op: str, lsn: int, id: str | None, doc: str | None, others: dict[str, Any]) -> dict[str, Any]:
        return change(op, lsn, id=id, place="A", doc=doc, **others)

    none = dict.fromkeys(names)
    bench.apply(config, *(row("c", 10, id, "a", own) for id in "12"), row("u", 40, "3", mark, own), schema=schema)
    for changes in ([row("u", 30, "1", "b", left), row("c", 20, "3", "late", none)], [row("u", 50, "2", "c", left)]):
        bench.apply(config, *changes, row("t", 5, None, None, none), schema=schema)
    assert bench.left_to_spark() is None
    rows = [("1", "b", *own.values()), ("2", "c", *own.values()), ("3", "late", *own.values())]
    assert bench.rows_by_hudi_rs(config, "id", "doc", *names) == rows


def test_a_row_whose_partition_cannot_be_a_folder_is_set_aside(bench: Workbench) -> None:
    config = table(name="placed", partition_by=("place",))
    schema = flattened({"id": "int", "place": ["null", "string"]})
    places = ["x" * 300, "a\0b", "../" * 80, "..", "a/b=c%"]
    outcome = bench.apply(
        config, *(change("c", at, id=at, place=place) for at, place in enumerate(places)), schema=schema
    )
    assert outcome.quarantined_rows[0].codes == {"unusable_partition_value": 3}
    assert bench.rows(config, "place") == [("..",), ("a/b=c%",)]
