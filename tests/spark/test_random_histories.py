"""Random histories of a table against an oracle: any order, grouping and repetition gives the changes applied once in position order."""
from __future__ import annotations

import random
from typing import Any

import pytest
from workbench import Workbench, change, flattened, table

SCHEMA = flattened({"id": "int", "place": ["null", "string"], "name": ["null", "string"]})
PLACES = ["A", "B", "", "a/b", None]
Change = dict[str, Any]


def history(draw: random.Random, keys: int) -> list[Change]:
    """Creates, updates, moves and deletes of a few keys, in position order."""
    changes, lsn = [], 100
    for key in range(keys):
        for _ in range(draw.randint(2, 6)):
            lsn += draw.randint(1, 5)
            if draw.random() < 0.3:
                changes.append(change("d", lsn, id=key, place=draw.choice(PLACES), name=""))
            else:
                changes.append(change("u", lsn, id=key, place=draw.choice(PLACES), name=f"n{lsn}"))
    return sorted(changes, key=lambda item: item["__lsn"])


def oracle(applied: list[Change]) -> list[tuple[Any, ...]]:
    """The rows after these changes, each applied once, in position order."""
    rows: dict[int, tuple[Any, ...]] = {}
    for item in sorted(applied, key=lambda item: item["__lsn"]):
        gone = item["__op"] == "d"
        rows[item["id"]] = (item["id"], None if gone else item["place"], None if gone else item["name"], gone)
    return sorted(rows.values(), key=str)


@pytest.mark.parametrize(("table_type", "partition_by", "seed"), [
    ("cow", ("place",), 1), ("mor", ("place",), 2), ("mor", (), 3), ("cow", (), 4)])
def test_any_order_grouping_and_repetition_gives_the_same_table(bench: Workbench, table_type: str, partition_by: tuple[str, ...], seed: int) -> None:
    draw = random.Random(seed)
    config = table(table_type=table_type, partition_by=partition_by)
    objects: list[tuple[Any, list[Change]]] = []
    rest = history(draw, keys=5)
    while rest:
        size = draw.randint(1, 4)
        objects.append((bench.put(rest[:size], SCHEMA), rest[:size]))
        rest = rest[size:]
    deliveries = objects + draw.sample(objects, len(objects) // 2)
    draw.shuffle(deliveries)
    applied: list[Change] = []
    while deliveries:
        size = draw.randint(1, 5)
        batch, deliveries = deliveries[:size], deliveries[size:]
        bench.merge(config, list(dict.fromkeys(item for item, _ in batch)))
        applied += [item for _, changes in batch for item in changes]
        assert bench.rows(config, "id", "place", "name", "__deleted") == oracle(applied)
    columns = ("id", "place", "name", "__deleted", "_sluice_position")
    assert bench.rows_by_hudi_rs(config, *columns) == bench.rows(config, *columns)
