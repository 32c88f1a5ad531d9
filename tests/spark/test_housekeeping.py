"""A short active timeline and a whole time-travel window: archival by number, cleaning by age."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from support.builders import change, flattened
from support.workbench import Workbench, table

from sluice.config.services import ServicePolicy
from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice.hudi.timeline import instant_ms
from sluice_spark.hudi import housekeeping
from sluice_spark.hudi.facts import KnownTables
from sluice_spark.hudi.housekeeping import keep_house
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.recovery import roll_back_unfinished

SCHEMA = flattened({"id": "int", "place": "string", "name": ["null", "string"]})
COLUMNS = ("id", "place", "name")
COMMITS, KEPT, MOST = 9, 3, 5


@pytest.fixture(autouse=True)
def short_timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi_options, "MIN_COMMITS", KEPT)
    monkeypatch.setattr(hudi_options, "MAX_COMMITS", MOST)
    monkeypatch.setattr(hudi_options, "DELTA_COMMITS_PER_COMPACTION", 2)  # what a compaction will count stays active


def history(bench: Workbench, config: TableConfig, *, first: int = 0) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Commit three rows, then changes of one row each. Returns every instant with the rows at that moment."""
    states: list[tuple[str, list[tuple[Any, ...]]]] = []
    now = {id: (id, "north", "at 0") for id in (1, 2, 3)}
    for number in range(first, first + COMMITS):
        changed = list(now) if number == first else [1 + number % 3]
        for id in changed:
            now[id] = (id, "south" if number == first + 4 else now[id][1], f"at {number}")
        changes = [change("u", 10 + number, id=id, place=now[id][1], name=now[id][2]) for id in changed]
        outcome = bench.apply(config, *changes, schema=SCHEMA)
        assert outcome.instant is not None
        states.append((outcome.instant, sorted(now.values())))
    return states


def by_hudi_rs(bench: Workbench, config: TableConfig, instant: str) -> list[tuple[Any, ...]]:
    reader = HudiTableBuilder.from_base_uri(str(bench.local_path(config))).build()
    rows = pa.Table.from_batches(reader.read(HudiReadOptions().with_as_of_timestamp(instant))).to_pylist()
    return sorted((row["id"], row["place"], row["name"]) for row in rows)


def test_a_cleaning_that_was_cut_off_is_carried_out_and_nothing_else_is_cleaned(bench: Workbench) -> None:
    config = table(time_travel_h=1)
    states = history(bench, config)
    hudi, jvm = bench.hudi(config), HudiJvm(bench.spark)
    client = hudi.client(hudi_options.CLEANING_OPTIONS)
    instant = str(client.createNewInstantTime(True))
    chosen = {"horizon": states[4][0], "policy": hudi_options.CLEANING_POLICY, "partitioned": False}
    planned = jvm.save_cleaner_plan(jvm.hudi_table(client), client, instant, **chosen)
    client.close()

    assert roll_back_unfinished(hudi) == (instant,)

    assert sum(planned.values()) == 3  # the newest before the horizon is what a reader of the horizon sees
    assert len(list(bench.local_path(config).glob("*.parquet"))) == COMMITS - 3
    assert [bench.rows_as_of(config, moment, *COLUMNS) for moment, _ in states[4:]] == [rows for _, rows in states[4:]]


@pytest.mark.whole
def test_a_run_that_found_nothing_to_clean_waits_before_it_looks_again(bench: Workbench) -> None:
    config, tables = table(time_travel_h=24), KnownTables()
    states = history(bench, config)
    hudi, horizon_ms = bench.hudi(config), instant_ms(states[6][0])
    window_ms = config.time_travel_h * write_choices.HOUR_MS
    before_a_look_ms = horizon_ms + window_ms // write_choices.CLEANINGS_PER_WINDOW - 1

    assert keep_house(hudi, now_ms=horizon_ms, tables=tables).files == 0
    assert keep_house(hudi, now_ms=before_a_look_ms, tables=tables).cleaning is None
    assert keep_house(hudi, now_ms=horizon_ms + window_ms, tables=tables).files > 0


@pytest.mark.parametrize("most", [200, 2], ids=["few files", "many files"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"partition_by": ("place",)}, pytest.param({"table_type": "mor"}, marks=pytest.mark.whole)],
    ids=["flat", "partitioned", "logs"],
)
def test_small_batches_and_their_housekeeping_need_no_executor(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], most: int
) -> None:
    monkeypatch.setattr(housekeeping, "CLEANED_IN_DRIVER", most)
    config, tables = table(time_travel_h=1, **settings), KnownTables()
    states, jobs = bench.jobs_of(lambda: history(bench, config))
    assert jobs == 0
    hudi, now_ms = bench.hudi(config), instant_ms(states[-2][0]) + write_choices.HOUR_MS
    house, jobs = bench.jobs_of(lambda: keep_house(hudi, now_ms=now_ms, tables=tables))
    if config.table_type == "cow":
        assert house.files > 2 and (jobs == 0) is (most > 2)
    assert house.archived > 0 and bench.rows(config, *COLUMNS) == states[-1][1]


def test_a_table_without_services_is_compacted_behind_its_own_commits(bench: Workbench) -> None:
    config = table(table_type="mor", services=ServicePolicy(on=False))
    states = history(bench, config)
    assert len(list((bench.local_path(config) / ".hoodie").glob("*.commit"))) > 1
    assert bench.rows(config, *COLUMNS) == states[-1][1]


@pytest.mark.whole
def test_a_table_that_no_service_came_to_is_compacted_beside_its_housekeeping(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_choices, "UNSERVED_DELTA_COMMITS", 4)
    config, tables = table(table_type="mor"), bench.services.tables
    hudi = bench.hudi(config)
    merged: list[str | None] = []
    for number in range(6):
        bench.apply(config, change("u", 10 + number, id=1, place="A", name=f"at {number}"), schema=SCHEMA)
        merged.append(keep_house(hudi, now_ms=0, tables=tables).compacted)
        tables.keep(config, hudi.look())
    assert [instant is not None for instant in merged] == [False, False, False, True, False, False]
    assert bench.rows(config, "name") == [("at 5",)]


@pytest.mark.whole
def test_what_replaced_a_whole_table_stays_active_until_what_it_replaced_is_cleaned(bench: Workbench) -> None:
    config = table(time_travel_h=1)
    before = history(bench, config)
    bench.rewrite(config)
    bench.new_run()
    after = history(bench, config, first=20)

    bench.keep_house(config, horizon=before[0][0])

    assert [name for name in bench.timeline(config) if name.endswith(".replacecommit")]
    assert len(bench.rows(config, "id")) == 3
    instant, rows = before[4]
    assert bench.rows_as_of(config, instant, *COLUMNS) == by_hudi_rs(bench, config, instant) == rows

    assert bench.keep_house(config, horizon=after[6][0]).files > 0
    bench.keep_house(config, horizon=after[6][0])

    assert not [name for name in bench.timeline(config) if name.endswith(".replacecommit")]
    assert (
        bench.rows(config, "id", "place", "name")
        == after[-1][1]
        == sorted(bench.rows_by_hudi_rs(config, "id", "place", "name"))
    )
