"""Rows without a position and without an offset in their objects' names are ordered by when their objects came."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders import avro_object
from support.workbench import COW, MOR, Workbench, params, table

from sluice.batch.manifest import ManifestObject
from sluice.config.table import TableConfig

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Price",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "double"}],
}
SECOND, DAY = 1_764_000_000_000, 86_400_000
Rows = Iterable[tuple[int, float]]
IDS = range(1, 6)
DAY_1 = [(id, 10.0 + id) for id in IDS]
DAY_2 = [(id, 20.0 + id) for id in reversed(IDS)]  # in another order
DAY_3 = [(id, 30.0 + id) for id in IDS]


def csv(rows: Rows) -> bytes:
    return ("id,price\n" + "".join(f"{id},{price}\n" for id, price in rows)).encode()


def records(rows: Rows) -> list[dict[str, Any]]:
    return [{"id": id, "price": price} for id, price in rows]


def parquet(rows: Rows) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records(rows)), body)
    return body.getvalue()


BODIES: dict[str, Callable[[Rows], bytes]] = {
    "csv": csv,
    "json": lambda rows: "".join(json.dumps(row) + "\n" for row in records(rows)).encode(),
    "parquet": parquet,
    "avro": lambda rows: avro_object(SCHEMA, records(rows)),
}


def dump(
    bench: Workbench, name: str, rows: Rows, at: int | None, format: str = "csv", folder: str = "drop"
) -> ManifestObject:
    """An object whose name tells no offset, put at a time (None: claimed by a release that didn't ask for it)."""
    mark = bench.put_schema(SCHEMA) if format in ("avro", "parquet") else None
    key = f"{folder}/{name}.{format}"
    return bench.put_file(BODIES[format](rows), key, modified_at=at, schema=mark, format=format)


def prices(bench: Workbench, config: TableConfig) -> list[tuple[Any, ...]]:
    return bench.rows(config, "id", "price")


def config_of(name: str, table_type: str, **settings: Any) -> TableConfig:
    types = {"id": "long", "price": "double"}
    return table(name, table_type=table_type, json_types=types, key_pattern="drop/.*", **settings)


EVERY = product(BODIES, ("cow", "mor"), (False, True))


@pytest.mark.parametrize(("format", "table_type", "in_tasks"), params(EVERY, short={("parquet", "cow", False)}))
def test_the_dump_that_came_last_stays_in_whatever_batches_and_order(
    bench: Workbench, format: str, table_type: str, in_tasks: bool
) -> None:
    if in_tasks:
        bench.in_tasks()
    apart, together = config_of("apart", table_type), config_of("together", table_type)
    days = [
        dump(bench, f"2026-11-0{number}", rows, SECOND + number * DAY, format)
        for number, rows in enumerate((DAY_1, DAY_2, DAY_3), 1)
    ]
    for config, batches in ((apart, [[days[0]], [days[1]], [days[2]]]), (together, [[days[2], days[0], days[1]]])):
        outcome = None
        for batch in batches:
            outcome = bench.merge(config, batch, after=outcome)
            assert not outcome.quarantined and not outcome.parked
        assert prices(bench, config) == DAY_3
        late = bench.merge(config, [days[1]], after=outcome)  # also one that comes late, or again
        assert late.instant is None and prices(bench, config) == DAY_3
    assert bench.rows(apart, "id", "_sluice_position") == bench.rows(together, "id", "_sluice_position")


@COW
def test_a_table_of_an_earlier_release_goes_on(bench: Workbench, table_type: str) -> None:
    config = config_of("before", table_type, history=True)
    outcome = bench.merge(config, [dump(bench, "1", DAY_1, None)])
    outcome = bench.merge(config, [dump(bench, "2", DAY_2, SECOND)], after=outcome)
    assert prices(bench, config) == sorted(DAY_2)
    bench.merge(config, [dump(bench, "3", DAY_3, SECOND + 1)], after=outcome)
    assert prices(bench, config) == DAY_3
    assert len(bench.rows(config.history_table, "id")) == 3 * len(IDS)


@pytest.mark.parametrize("in_tasks", [False, True], ids=["driver", "tasks"])
def test_of_one_second_the_greater_key_stays_and_of_one_key_the_later_version(bench: Workbench, in_tasks: bool) -> None:
    if in_tasks:
        bench.in_tasks()
    config = config_of("second", "cow")
    objects = [
        dump(bench, "b", [(1, 1.0), (2, 2.0)], SECOND + 1),
        dump(bench, "b", [(1, 9.0), (2, 9.0), (3, 9.0)], SECOND),
        dump(bench, "c", [(2, 3.0)], SECOND),
    ]
    bench.merge(config, objects)
    assert prices(bench, config) == [(1, 1.0), (2, 3.0), (3, 9.0)]


def test_the_name_gives_the_order_where_the_pattern_has_a_group_for_it(bench: Workbench) -> None:
    config = replace(config_of("named", "cow"), key_pattern="drop/(?P<order>[0-9-]+)[.]csv")
    newest = dump(bench, "2026-11-03", DAY_3, SECOND)
    copied = dump(bench, "2026-11-02", DAY_2, SECOND + 9 * DAY)  # put again, after a migration of the bucket
    outcome = bench.merge(config, [newest])
    bench.merge(config, [copied], after=outcome)
    assert prices(bench, config) == DAY_3
    corrected = dump(bench, "2026-11-03", DAY_1, SECOND + 10 * DAY)
    bench.merge(config, [corrected], after=outcome)
    assert prices(bench, config) == DAY_1


@pytest.mark.parametrize("in_tasks", [False, pytest.param(True, marks=pytest.mark.whole)], ids=["driver", "tasks"])
def test_rows_that_their_position_leaves_tied_are_ordered_by_their_objects(bench: Workbench, in_tasks: bool) -> None:
    if in_tasks:
        bench.in_tasks()
    types = {"id": "long", "price": "long", "note": "string"}
    apart, together = (
        replace(config_of(name, "cow", position="price"), json_types=types) for name in ("apart", "together")
    )
    bodies = (
        b"price,id,note\n7,3,a\n7,1,a\n7,2,a\n",
        b"price,id,note\n7,1,b\n7,2,b\n8,3,b\n",
        b"price,id,note\n7,1,c\n7,3,c\n",
    )
    days = [
        bench.put_file(body, f"drop/{number}.csv", modified_at=SECOND + number * DAY, format="csv")
        for number, body in enumerate(bodies)
    ]
    for config, batches in ((apart, [[days[2]], [days[0]], [days[1]]]), (together, [[days[1], days[2], days[0]]])):
        for batch in batches:
            assert not bench.merge(config, batch).quarantined
        assert bench.rows(config, "id", "note") == [(1, "c"), (2, "b"), (3, "b")]
        assert bench.merge(config, days).instant is None, "the same objects again"


def test_a_dump_does_not_win_over_changes_of_a_log(bench: Workbench) -> None:
    config = table("changes")
    first = bench.put_bytes(BODIES["json"](DAY_2), key="topics/x/x+0+0000000000.json", offset=0, format="json")
    outcome = bench.merge(config, [first])
    outcome = bench.merge(config, [dump(bench, "stray", DAY_1, SECOND, "json")], after=outcome)
    assert len(outcome.parked) == 1 and "which don't compare" in outcome.parked[0].reason
    assert prices(bench, config) == sorted(DAY_2)


@pytest.mark.parametrize("in_tasks", [False, pytest.param(True, marks=pytest.mark.whole)], ids=["driver", "tasks"])
@MOR
def test_an_older_change_does_not_win_where_folders_split_a_kafka_partition(
    bench: Workbench, table_type: str, in_tasks: bool
) -> None:
    if in_tasks:
        bench.in_tasks()
    config = table("split", table_type=table_type)

    def put(folder: str, first: int, rows: Rows) -> ManifestObject:
        key = f"topics/x/{folder}/x+0+{first:010d}.json"
        return bench.put_bytes(BODIES["json"](rows), key=key, offset=first, format="json")

    opened = put("status=open", 0, [(1, 0.0), (1, 31.0)])  # of offsets 0 and 31
    paid = put("status=paid", 1, [*((100 + number, float(number)) for number in range(1, 30)), (1, 30.0)])
    outcome = bench.merge(config, [opened, paid])
    assert [error.code for error in outcome.quarantined] == ["overlap"]
    assert prices(bench, config) == [(1, 31.0)]


@pytest.mark.parametrize("in_tasks", [False, pytest.param(True, marks=pytest.mark.whole)], ids=["driver", "tasks"])
@MOR
def test_records_are_ordered_by_the_offsets_that_they_carry(bench: Workbench, table_type: str, in_tasks: bool) -> None:
    if in_tasks:
        bench.in_tasks()
    config = table("carried", table_type=table_type, coordinates=("at_partition", "at_offset"))

    def put(folder: str, first: int, *rows: tuple[int, float, int]) -> ManifestObject:
        lines = [{"id": id, "price": price, "at_partition": 0, "at_offset": offset} for id, price, offset in rows]
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
        return bench.put_bytes(body, key=f"topics/x/{folder}/x+0+{first:010d}.json", offset=first, format="json")

    opened = put("status=open", 0, (1, 0.0, 0), (1, 31.0, 31))
    paid = put("status=paid", 1, (2, 1.0, 1), (3, 2.0, 2), (1, 30.0, 30))
    outcome = bench.merge(config, [opened])
    outcome = bench.merge(config, [paid], after=outcome)
    assert not outcome.quarantined and prices(bench, config) == [(1, 31.0), (2, 1.0), (3, 2.0)]
