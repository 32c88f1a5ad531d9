"""The soak's world: the same seed gives the same objects and faults, and its page is made from the kept report."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from faulting.world import Made
from soaking.faults import FAULTS, plan
from soaking.report import PAGE, kept, page
from soaking.world import TABLES, TEXTS, SoakWorld

from sluice.objects import ObjectId
from sluice_bench.data.debezium_objects import SOURCES


def world(seed: int) -> SoakWorld:
    return SoakWorld(None, seed, database="soak")  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_objects_in_whatever_order_tables_come() -> None:
    one, other = world(7), world(7)
    forth = {name: [landed(one, name) for _ in range(9)] for name in TABLES}
    back = {name: [landed(other, name) for _ in range(9)] for name in reversed(TABLES)}
    for name in TABLES:
        assert [records(made.body) for made in forth[name]] == [records(made.body) for made in back[name]]
    assert [one.expected(table) for table in one.tables] == [other.expected(table) for table in other.tables]
    assert [one.changes(table) for table in one.tables] == [other.changes(table) for table in other.tables]
    assert records(forth["venue_plain"][0].body) != records(world(8).next_object("venue_plain").body)


@pytest.mark.parametrize("name", TABLES)
def test_the_oracle_is_the_fold_of_what_is_generated(name: str) -> None:
    made, rows, every, aside = world(3), {}, 0, 0
    table = TABLES[name]
    expects = table.rule["expect"]["columns"] if "expect" in table.rule else {}
    for _ in range(60):
        one = landed(made, name)
        for number, change in enumerate(records(one.body)):
            key, deleted = change[SOURCES[table.source].key], change["__deleted"] == "true"
            meets = all(rule["min"] <= change[column] <= rule.get("max", 9999) for column, rule in expects.items())
            assert (number in one.unexpected) == (not deleted and not meets)
            every += meets or deleted
            aside += not meets and not deleted
            if not deleted and meets:
                rows[key] = change[TEXTS[table.source]]
            elif deleted and not table.keeps_deleted:
                rows.pop(key)
    assert rows == made.expected(f"soak.{name}") and len(rows) > 50
    assert made.changes(f"soak.{name}").total() == every and bool(aside) == bool(expects)


def test_a_short_soak_has_each_kind_of_fault_and_the_same_seed_the_same_ones() -> None:
    weights = sum(fault.weight for fault in FAULTS)
    assert {fault.name for fault, _ in plan(5, weights)} == {fault.name for fault in FAULTS}
    assert plan(5, 30) == plan(5, 30) != plan(6, 30)
    assert plan(5, 30)[:7] == plan(5, 7)


def test_the_page_is_made_from_the_kept_report() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(kept()), "run `python -m soaking.report`"


def landed(made: SoakWorld, name: str) -> Made:
    """The table's next object, as if it were put."""
    one = made.next_object(name)
    made.put_objects.append((one, ObjectId("bronze", one.key, "1")))
    return one


def records(body: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(body)))  # type: ignore[arg-type]
