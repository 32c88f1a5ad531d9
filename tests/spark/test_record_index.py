"""A table that has grown finds its rows by the record index, and stays the same table for every reader."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import MOR, Workbench, row, table

from sluice.hudi import table_properties, write_choices
from sluice_spark.hudi.recovery import roll_back_unfinished


def indexed(bench: Workbench, config: Any) -> bool:
    return write_choices.has_record_index(bench.properties(config).get(table_properties.METADATA_PARTITIONS))


@pytest.mark.whole
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_grown_table_gets_the_record_index_and_rows_move_and_lose_as_before(
    bench: Workbench, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("RECORD_INDEX_ROWS", "RECORD_INDEX_ROWS_BY_ARROW"):
        monkeypatch.setattr(write_choices, limit, 4)
    config = table(table_type=table_type, partition_by=("place",))
    bench.apply(config, row("c", 1, 1), row("c", 2, 2), row("c", 3, 3))
    bench.apply(config, row("c", 4, 4), row("u", 5, 1, name="simple"))
    assert not indexed(bench, config)

    bench.apply(config, row("u", 6, 2, place="B", name="moved"), row("c", 7, 5, place=None))
    assert indexed(bench, config)
    bench.new_run()
    again = [row("u", 8, 2, place="C", name="again"), row("d", 9, 3), row("u", 1, 4, name="late"), row("c", 10, 6)]
    bench.apply(config, *again)

    expected = [(1, "A", "simple"), (2, "C", "again"), (3, None, None), (4, "A", "n"), (5, None, "n"), (6, "A", "n")]
    assert bench.rows_by_both(config, "id", "place", "name") == sorted(expected, key=str)
    # A row that moves counts once more: to B, to C, and as deleted to the null partition.
    assert bench.hudi(config).look().rows == 9


@pytest.mark.whole
@MOR
def test_a_write_that_died_and_a_compaction_leave_the_record_index_true(
    bench: Workbench, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(table_type=table_type, index="record")
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    assert indexed(bench, config)
    hudi = bench.hudi(config)
    client = hudi.client()
    instant = client.startCommit()
    client.close()
    assert roll_back_unfinished(hudi) == (instant,)
    bench.new_run()
    bench.apply(config, row("c", 3, 3))
    bench.apply(config, row("u", 4, 1, name="after"))
    if table_type == "mor":
        assert hudi.compact_all() is not None
        bench.new_run()
    bench.apply(config, row("u", 5, 3, name="found"), row("u", 6, 2, name="too"))

    expected = [(1, "after"), (2, "too"), (3, "found")]
    assert bench.rows_by_both(config, "id", "name") == expected


@pytest.mark.whole
def test_files_that_pyarrow_wrote_leave_the_record_index_true(bench: Workbench) -> None:
    config = table(index="record")
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    assert indexed(bench, config)
    left = bench.events.names().count("left_to_spark")
    bench.apply(config, row("u", 3, 1, name="one"), row("c", 4, 3), row("c", 5, 4))
    bench.apply(config, row("u", 6, 3, name="three"))
    assert bench.events.names().count("left_to_spark") == left
    assert keys_of_index(bench, config) == ["1", "2", "3", "4"]
    bench.in_tasks().apply(config, row("u", 7, 4, name="four"), row("c", 8, 5))
    bench.in_driver().apply(config, row("u", 9, 5, name="five"), row("d", 10, 2, name=None))
    assert bench.events.names().count("left_to_spark") == left

    expected = [(1, "one"), (2, None), (3, "three"), (4, "four"), (5, "five")]
    assert bench.rows_by_both(config, "id", "name") == expected
    assert keys_of_index(bench, config) == ["1", "2", "3", "4", "5"]


def keys_of_index(bench: Workbench, config: Any) -> list[str]:
    """The keys that the record index holds."""
    entries = bench.spark.read.format("hudi").load(f"{bench.path(config)}/.hoodie/metadata").where("type = 5")
    return sorted(entry["key"] for entry in entries.select("key").collect())


@pytest.mark.whole
def test_a_table_written_anew_and_one_told_to_go_back_keep_each_row_once(bench: Workbench) -> None:
    config = table(index="record", partition_by=("place",))
    price = {"type": "bytes", "logicalType": "decimal"}
    priced, finer = (
        flattened({"id": "int", "place": ["null", "string"], "price": {**price, "precision": digits, "scale": scale}})
        for digits, scale in ((6, 2), (8, 4))
    )
    first = [change("c", lsn, id=lsn, place=place, price=bytes([lsn])) for lsn, place in ((1, "A"), (2, "B"))]
    bench.apply(config, *first, schema=priced)
    bench.apply(config, change("u", 3, id=2, place="A", price=b"\x64"), schema=finer)
    assert indexed(bench, config)
    bench.apply(config, change("u", 4, id=1, place="B", price=b"\x65"), schema=finer)
    rows = [(id, place, str(price)) for id, place, price in bench.rows(config, "id", "place", "price")]
    assert rows == [(1, "B", "0.0101"), (2, "A", "0.0100")]

    simple = table(index="simple", partition_by=("place",))
    bench.new_run()
    bench.apply(simple, change("u", 5, id=1, place="C", price=b"\x66"), schema=finer)
    assert not indexed(bench, simple)
    assert bench.rows(simple, "id", "place") == [(1, "C"), (2, "A")]
