"""The soak's world: the same seed gives the same objects and faults, and its page is made from the kept report."""

from __future__ import annotations

import io
import os
from typing import Any

import fastavro
import pytest
from judging.memory import Memory
from soaking.faults import FAULTS, plan
from soaking.report import PAGE, kept, page
from soaking.world import TABLES, TEXTS, SoakWorld

from sluice_bench.data.debezium_objects import SOURCES


def world(seed: int) -> SoakWorld:
    return SoakWorld(None, seed, database="soak")  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_objects_in_whatever_order_tables_come() -> None:
    one, other = world(7), world(7)
    forth = {name: [one.next_object(name).body for _ in range(9)] for name in TABLES}
    back = {name: [other.next_object(name).body for _ in range(9)] for name in reversed(TABLES)}
    for name in TABLES:
        assert [records(body) for body in forth[name]] == [records(body) for body in back[name]]
    assert [one.expected(table) for table in one.tables] == [other.expected(table) for table in other.tables]
    assert records(forth["venue_plain"][0]) != records(world(8).next_object("venue_plain").body)


@pytest.mark.parametrize("name", TABLES)
def test_the_oracle_is_the_fold_of_what_is_generated(name: str) -> None:
    made, rows = world(3), {}
    table = TABLES[name]
    for _ in range(60):
        for change in records(made.next_object(name).body):
            key = change[SOURCES[table.source].key]
            if change["__deleted"] == "false":
                rows[key] = change[TEXTS[table.source]]
            elif not table.keeps_deleted:
                rows.pop(key)
    assert rows == made.expected(f"soak.{name}") and len(rows) > 50


def test_a_short_soak_has_each_kind_of_fault_and_the_same_seed_the_same_ones() -> None:
    weights = sum(fault.weight for fault in FAULTS)
    assert {fault.name for fault, _ in plan(5, weights)} == {fault.name for fault in FAULTS}
    assert plan(5, 30) == plan(5, 30) != plan(6, 30)
    assert plan(5, 30)[:7] == plan(5, 7)


def test_the_page_is_made_from_the_kept_report() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(kept()), "run `python -m soaking.report`"


def test_the_memory_of_this_process_is_found_and_its_growth_is_per_function() -> None:
    found = Memory.now({os.getpid()}, set())
    assert found.emulator > 10 and found.drivers == 0
    assert Memory(functions=600, function_processes=6).per_function == 100


def records(body: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(body)))  # type: ignore[arg-type]
