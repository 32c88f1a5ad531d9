"""A complete dump replaces its table: rows that it lacks are deleted once, whatever the batches, order and crashes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from support.workbench import COW, SCHEMA, Died, Workbench, dies_at, params, row, table

from sluice.batch.dumps import REFUSED, as_dump
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import Outcome
from sluice.config.rules.snapshot import SnapshotRule
from sluice.config.table import TableConfig

SECOND, DAY = 1_764_000_000_000, 86_400_000
Prices = dict[int, float]


def config_of(name: str, dumps: str = "object", *, most_deleted: int = 50, **settings: Any) -> TableConfig:
    rule, types = SnapshotRule(dumps, most_deleted=most_deleted), {"id": "long", "price": "double"}
    return table(name, json_types=types, key_pattern="drop/.*", snapshot=rule, **settings)


def file(bench: Workbench, key: str, rows: Prices | str, at: int) -> ManifestObject:
    text = rows if isinstance(rows, str) else "id,price\n" + "".join(f"{id},{price}\n" for id, price in rows.items())
    return bench.put_file(text.encode(), f"drop/{key}.csv", modified_at=at, format="csv")


def dump(bench: Workbench, config: TableConfig, day: int, rows: Prices | str) -> ManifestObject:
    """A whole dump in one object, as a run claims it."""
    return as_dump(file(bench, f"{day}", rows, SECOND + day * DAY), config)


def marker(bench: Workbench, day: int, *, replaces: str | None) -> ManifestObject:
    at = SECOND + day * DAY + 999_000
    return replace(bench.put_file(b"", f"drop/{day}/_SUCCESS", modified_at=at, format="marker"), replaces=replaces)


def alive(bench: Workbench, config: TableConfig) -> Prices:
    rows = bench.rows_by_hudi_rs(config, "id", "price", "__deleted")
    return {id: price for id, price, deleted in rows if not deleted}


def of(ids: Iterable[int], day: int) -> Prices:
    return {id: day * 100.0 + id for id in ids}


DAYS = [of(range(1, 11), 1), of(range(3, 12), 2), of([3, 4, 5, 6, 7, 12], 3)]


EVERY = product(("cow", "mor"), ("soft", "hard"))


@pytest.mark.parametrize(("table_type", "delete_mode"), params(EVERY, short={("cow", "hard"), ("mor", "soft")}))
def test_rows_that_a_later_dump_lacks_are_deleted_in_any_order_and_batches(
    bench: Workbench, table_type: str, delete_mode: str
) -> None:
    chosen = {"table_type": table_type, "delete_mode": delete_mode}
    for name, batches in (("ordered", [[0], [1], [2]]), ("late", [[2], [0, 1]]), ("together", [[1, 2, 0]])):
        config = config_of(f"{name}_{table_type}_{delete_mode}", **chosen)
        days = [dump(bench, config, number, rows) for number, rows in enumerate(DAYS, 1)]
        outcome: Outcome | None = None
        for batch in batches:
            outcome = bench.merge(config, [days[number] for number in batch], after=outcome)
            assert not outcome.quarantined and not outcome.parked
        assert alive(bench, config) == DAYS[2]
        again = bench.merge(config, days, after=outcome)  # replayed, or restored from a copy
        assert again.instant is None and alive(bench, config) == DAYS[2]


@COW
def test_a_folder_replaces_with_its_marker_and_not_before(bench: Workbench, table_type: str) -> None:
    config = config_of("folder", "folder", table_type=table_type, partition_by=("part",), freshness_s=0)
    config = replace(config, json_types={"id": "long", "part": "string"}, record_key=("id",))
    first = file(bench, "1/a", "id,part\n1,x\n2,x\n3,y\n4,y\n", SECOND + DAY)
    place = f"t{(SECOND + DAY) // 1000:011d}"
    outcome = bench.merge(config, [first, marker(bench, 1, replaces=place)])
    second = [
        file(bench, f"2/{name}", f"id,part\n{ids}", SECOND + 2 * DAY + at)
        for name, ids, at in (("a", "1,x\n", 0), ("b", "3,z\n5,z\n", 5_000))
    ]
    for item in second:
        outcome = bench.merge(config, [item], after=outcome)
    assert [row[0] for row in bench.rows(config, "id", "__deleted") if not row[1]] == [1, 2, 3, 4, 5]
    ends = marker(bench, 2, replaces=f"t{(SECOND + 2 * DAY) // 1000:011d}")
    outcome = bench.merge(config, [ends], after=outcome)
    assert outcome.counts["truncated"] == 2 and not outcome.quarantined
    rows = bench.rows_by_hudi_rs(config, "id", "part", "__deleted")
    assert [row[:2] for row in rows if not row[2]] == [(1, "x"), (3, "z"), (5, "z")]
    assert bench.merge(config, [ends], after=outcome).instant is None


def test_ghosts_of_a_restored_source_go_with_the_marker_of_the_generation(bench: Workbench) -> None:
    config = table("ghosts", snapshot=SnapshotRule("generation"), history=True)
    outcome = bench.apply(config, *(row("r", 100, id) for id in range(10)), schema=SCHEMA)
    config = replace(config, generation=1)
    outcome = bench.apply(config, *(row("r", 50, id) for id in range(5, 12)), schema=SCHEMA, after=outcome)
    assert len([1 for _, deleted in bench.rows(config, "id", "__deleted") if not deleted]) == 12
    outcome = bench.merge(config, [marker(bench, 1, replaces="")], after=outcome)
    assert [id for id, deleted in bench.rows(config, "id", "__deleted") if not deleted] == [10, 11, 5, 6, 7, 8, 9]
    ended = [id for id, op in bench.rows(config.history_table, "id", "_sluice_op") if op == "d"]
    assert set(range(5)) <= set(ended)


@pytest.mark.parametrize("rows", [{}, {1: 1.0, 2: 2.0}], ids=["empty", "partial"])
def test_a_dump_that_lacks_too_many_rows_is_refused_and_may_be_allowed(bench: Workbench, rows: Prices) -> None:
    config = config_of("refused")
    outcome = bench.merge(config, [dump(bench, config, 1, DAYS[0])])
    bad = dump(bench, config, 2, rows)
    outcome = bench.merge(config, [bad], after=outcome)
    assert [error.code for error in outcome.quarantined] == ["dump_lacks_rows"]
    assert alive(bench, config) == DAYS[0]
    allowed = replace(config, snapshot=SnapshotRule("object", most_deleted=100))
    outcome = bench.merge(allowed, [replace(bad, attempt=1)], after=outcome)
    assert not outcome.quarantined and alive(bench, config) == rows


def test_an_empty_dump_beside_the_first_one_is_refused_too(bench: Workbench) -> None:
    config = config_of("first")
    outcome = bench.merge(config, [dump(bench, config, 1, DAYS[0]), dump(bench, config, 2, {})])
    assert [error.code for error in outcome.quarantined] == ["dump_lacks_rows"]
    assert alive(bench, config) == DAYS[0]


def test_a_dump_with_rows_set_aside_deletes_nothing_until_they_are_merged(bench: Workbench) -> None:
    config = config_of("holed")
    outcome = bench.merge(config, [dump(bench, config, 1, DAYS[0])])
    holed = dump(bench, config, 2, "id,price\n1,7\n2,no number\n" + "".join(f"{id},7\n" for id in range(4, 10)))
    outcome = bench.merge(config, [holed], after=outcome)
    assert outcome.counts["quarantined_rows"] == 1 and not outcome.counts.get("truncated")
    assert set(alive(bench, config)) == set(DAYS[0])


def test_a_marker_is_refused_where_a_file_of_its_batch_is(bench: Workbench) -> None:
    config = config_of("broken", "folder")
    outcome = bench.merge(config, [file(bench, "1/a", DAYS[0], SECOND + DAY)])
    broken = file(bench, "2/b", 'id,price\n1,"\n', SECOND + 2 * DAY)
    good = file(bench, "2/a", of(range(1, 9), 2), SECOND + 2 * DAY)
    ends = marker(bench, 2, replaces=f"t{(SECOND + 2 * DAY) // 1000:011d}")
    outcome = bench.merge(config, [broken, good, ends], after=outcome)
    assert "dump_incomplete" in {error.code for error in outcome.quarantined}
    assert alive(bench, config) == {**DAYS[0], **of(range(1, 9), 2)}


def test_a_refused_dump_without_a_marker_stays_so_where_its_run_died(bench: Workbench) -> None:
    """Else `sluice verify` would take its rows to be deleted."""
    config = config_of("unmarked", "folder")
    config = replace(config, snapshot=SnapshotRule("folder", marker=""))
    outcome = bench.merge(config, [file(bench, "1/a", DAYS[0], SECOND + DAY)])
    broken = 'id,price\n1,"\n'  # set aside, and its truncate with it
    for day, rows, next_rows, refused in (
        (2, of([1], 2), of([52], 2), {REFUSED: 1}),
        (4, DAYS[0], of([54], 4), {}),
        (6, DAYS[0], broken, {}),
    ):
        first = file(bench, f"{day}/a", rows, SECOND + day * DAY)
        later = file(bench, f"{day + 1}/a", next_rows, SECOND + (day + 1) * DAY)
        later = replace(later, replaces=f"t{(SECOND + day * DAY) // 1000:011d}")
        manifest = bench.manifest(config, [first, later], after=outcome)
        merged = bench.merge_manifest(manifest, config)
        bench.new_run()
        found = bench.resolve(manifest, config)
        for one in (merged, found):
            assert one is not None and {name: n for name, n in one.counts.items() if name == REFUSED} == refused
        outcome = merged


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.whole), pytest.param(3, marks=pytest.mark.whole)]
)
def test_any_history_of_dumps_and_crashes_leaves_the_newest_dump(bench: Workbench, seed: int) -> None:
    draw = random.Random(seed)
    config = config_of(f"any_{seed}", most_deleted=100, table_type=draw.choice(["cow", "mor"]))
    contents = [of(draw.sample(range(8), draw.randint(0, 8)), day) for day in range(1, 6)]
    waiting = [dump(bench, config, day, rows) for day, rows in enumerate(contents, 1)]
    draw.shuffle(waiting)
    came: list[ManifestObject] = []
    outcome: Outcome | None = None
    while waiting:
        batch = [waiting.pop() for _ in range(min(len(waiting), draw.randint(1, 2)))]
        batch += draw.sample(came, min(len(came), draw.randint(0, 1)))  # some come again
        manifest = bench.manifest(config, batch, after=outcome)
        settled: Outcome | None = None
        while settled is None:
            try:
                settled = bench.merge_manifest(manifest, config, still_held=dies_at(draw.randint(1, 9)))
            except Died:
                bench.new_run()
                settled = bench.resolve(manifest, config)
        outcome = replace(settled, watch=settled.watch or (outcome.watch if outcome else {}))
        came += batch
        newest = max(came, key=lambda item: item.modified_at or 0)
        day = ((newest.modified_at or 0) - SECOND) // DAY
        assert alive(bench, config) == contents[day - 1]
