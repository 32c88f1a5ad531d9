"""Sources with unusual names and keys.

Keys and folder names of every type, names that no Hudi table can have, and rows without a log position.
"""

import json
from decimal import Decimal
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench, table

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
DATE = {"type": "int", "connect.name": "io.debezium.time.Date"}
MILLIS = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
MICROS = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
KEY = {"b": "bytes", "d": DECIMAL, "day": DATE, "ms": MILLIS, "us": MICROS, "x": "double", "yes": "boolean"}
# Pairs that differ in one column only, and values at the ends of what sources have.
ROWS: list[dict[str, Any]] = [
    {"b": b"\x00\xff", "d": Decimal("1.5000"), "day": 0, "ms": 0, "us": 0, "x": 0.1, "yes": True},
    {"b": b"\x00\xfe", "d": Decimal("1.5000"), "day": 0, "ms": 0, "us": 0, "x": 0.1, "yes": True},
    {"b": b"\x00\xff", "d": Decimal("1.5001"), "day": 0, "ms": 0, "us": 0, "x": 0.1, "yes": True},
    {"b": b"\x00\xff", "d": Decimal("1.5000"), "day": 0, "ms": 1, "us": 0, "x": 0.1, "yes": True},
    {"b": b"\x00\xff", "d": Decimal("1.5000"), "day": 0, "ms": 0, "us": 1, "x": 0.1, "yes": True},
    {
        "b": b"",
        "d": Decimal("-1234567890123456.1234"),
        "day": -719_162,
        "ms": -62_135_596_800_000,
        "us": 253_402_300_799_999_999,
        "x": 1e-300,
        "yes": False,
    },
    {"b": b",day:1", "d": Decimal("0"), "day": 2_932_896, "ms": -1, "us": -1, "x": -1e15, "yes": False},
]


@pytest.mark.whole
def test_a_row_is_found_by_a_key_and_moves_between_folders_of_any_type(bench: Workbench) -> None:
    config = table(name="typed", record_key=tuple(KEY), partition_by=("in_b", "in_d", "in_day", "in_us"))
    folders = {
        "in_b": ["null", "bytes"],
        "in_d": ["null", DECIMAL],
        "in_day": ["null", DATE],
        "in_us": ["null", MICROS],
    }
    schema = flattened({**KEY, **folders, "v": ["null", "string"]})
    # A first load is written by another path than an update.
    for turn, value in enumerate(("first", "same folders", "other folders")):
        placed = ROWS if turn < 2 else [*ROWS[1:], {}]
        changes = [
            change(
                "u" if turn else "c",
                100 * turn + at,
                **row,
                **{f"in_{name}": place.get(name) for name in ("b", "d", "day", "us")},
                v=value,
            )
            for at, (row, place) in enumerate(zip(ROWS, placed), 1)
        ]
        outcome = bench.merge(config, [bench.put(changes, schema)])
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


@pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.whole)])
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
        changes = [
            {
                "order-id": n,
                "größe": f"v{turn}",
                "grüße": n + turn,
                "名前": n,
                "a.b`c": turn,
                "select": "x",
                "_id": "y",
                "": True,
                "__op": "u" if turn else "c",
                "__lsn": 10 * turn + n,
            }
            for n in (1, 2)
        ]
        body = "".join(json.dumps(each) + "\n" for each in changes).encode()
        bench.merge(
            config,
            [
                bench.put_bytes(
                    body, key=f"topics/src.public.t/partition=0/src.public.t+0+{turn:010d}.json", format="json"
                )
            ],
        )
    columns = ("order_id", "gr_u00f6_u00dfe", "gr_u00fc_u00dfe", "_u540d_u524d", "a_b_c", "select", "_id", "_")
    assert bench.rows(config, *columns) == [(n, "v1", n + 1, n, 1, "x", "y", True) for n in (1, 2)]
    assert bench.rows_by_hudi_rs(config, *columns) == bench.rows(config, *columns)


@pytest.mark.whole
def test_rows_of_an_incremental_snapshot_give_what_is_lacking_and_win_over_nothing(bench: Workbench) -> None:
    config = table(name="snapped")
    schema = flattened({"id": "int", "v": ["null", "string"]})
    bench.merge(config, [bench.put([change("u", 5, id=1, v="changed"), change("d", 6, id=2, v=None)], schema)])
    outcome = bench.merge(
        config, [bench.put([{**change("r", 0, id=n, v="read"), "__lsn": None} for n in (1, 2, 3)], schema)]
    )
    assert not outcome.quarantined_rows and outcome.counts["winning"] == 1
    assert bench.rows(config, "id", "v", "__deleted") == [(1, "changed", False), (2, None, True), (3, "read", False)]
    assert not outcome.notes, "the log began nowhere again"
    bench.merge(config, [bench.put([change("u", 1, id=3, v="changed")], schema)])
    assert bench.rows(config, "id", "v")[2] == (3, "changed")


def test_a_row_whose_partition_cannot_be_a_folder_is_set_aside(bench: Workbench) -> None:
    config = table(name="placed", partition_by=("place",))
    schema = flattened({"id": "int", "place": ["null", "string"]})
    places = ["x" * 300, "a\0b", "../" * 80, "..", "a/b=c%"]
    outcome = bench.merge(
        config, [bench.put([change("c", at, id=at, place=place) for at, place in enumerate(places)], schema)]
    )
    assert outcome.quarantined_rows[0].codes == {"unusable_partition_value": 3}
    assert bench.rows(config, "place") == [("..",), ("a/b=c%",)]
