"""The oracle of faults and soak: what tables must hold by their rules, and that each difference is found."""

from __future__ import annotations

import io
from collections import Counter
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
import yaml
from faulting.oracle import MASKED, Change, changes_in, compared_changes, compared_rows, hashed, rows_after, unlike
from faulting.world import RULES, SETTINGS, TABLES, Made, Put, World
from soaking.world import TABLES as SOAKED
from soaking.world import SoakWorld

from sluice_bench.data.debezium_objects import SOURCES
from sluice_cli.config.source import read_tables

STACK: Any = SimpleNamespace(
    target=SimpleNamespace(
        stack="sluice", client=lambda service: SimpleNamespace(create_secret=lambda **secret: secret["SecretString"])
    )
)
TOLD = Counter([Change(1, 10, "a"), Change(1, 11, None), Change(2, 12, "b")])
NOTHING = {"lost": 0, "doubled": 0, "wrong": 0}


def world() -> World:
    return World(STACK, database="fault")


def records(made: Made) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(made.body)))  # type: ignore[arg-type]


def landed(rounds: int) -> World:
    made = world()
    for number in range(rounds):
        made.puts += [Put(f"fault.{one.name}", one.key, f"v{number}", one) for one in made.next_round()]
    return made


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_the_rules_of_faults_and_soak_are_valid(table_type: str) -> None:
    for rules, names in (
        (World(STACK, table_type=table_type, database="fault").rules(), TABLES),
        (SoakWorld(STACK, 1, database="soak").rules(), SOAKED),
    ):
        read = read_tables(yaml.safe_dump({"tables": rules}))
        assert {rule.table.partition(".")[2] for rule in read.rules} == set(names)
        assert any(rule.append_only for rule in read.rules) and any(rule.history for rule in read.rules)
        assert any(rule.columns.hash and rule.columns.exclude for rule in read.rules)
    assert SETTINGS == ("append_only", "columns", "expect", "history", "partition_by")
    assert next(iter(TABLES)) not in RULES, "table services strike the first table, which has no rule of its own"


def test_what_a_fault_puts_is_told_record_by_record() -> None:
    for made in (put.made for put in landed(3).puts):
        told = iter(made.changes)
        column = SOURCES[made.name].key
        for number, record in enumerate(records(made)):
            if number in made.unexpected:
                assert (record["week"], record["__deleted"]) == (99, "false")
                continue
            text = None if record["__deleted"] == "true" else record[TABLES[made.name]]
            assert next(told) == Change(record[column], record["__source_ts_ms"], text)
        assert next(told, None) is None


def test_a_later_round_has_an_unexpected_change_of_a_row_and_moves_others() -> None:
    made = landed(3)
    (aside,) = {put.key: put for put in made.puts[-4:] if put.made.unexpected}.values()
    assert made.unexpected()[aside.key, "v2"] == aside.made.unexpected and len(aside.made.unexpected) == 2
    keys = {records(aside.made)[number]["dateid"] for number in aside.made.unexpected}
    assert len(keys & made.expected("fault.date").keys()) == 1
    states = [{record["userid"]: record["state"] for record in records(put.made)} for put in made.puts[1::4]]
    assert any(states[0][key] != states[1][key] for key in states[0].keys() & states[1].keys() if states[1][key])


def test_other_records_under_a_key_are_appended_to_those_before() -> None:
    made = landed(1)
    before = made.changes("fault.event")
    first = made.puts[-1]
    made.puts.append(Put(first.table, first.key, "v9", made.next_round()[-1]))
    assert made.changes("fault.event") > before and max(made.changes("fault.event").values()) == 1


def test_rows_are_the_fold_of_changes_in_the_order_of_the_source() -> None:
    assert rows_after(reversed(list(TOLD))) == {2: "b"}
    assert rows_after(TOLD, keeps_deleted=True) == {1: "a", 2: "b"}


@pytest.mark.parametrize(
    ("stored", "differences"),
    [
        (TOLD, {}),
        (Counter({Change(1, 10, "a"): 1, Change(1, 11, None): 2}), {"lost": 1, "doubled": 1}),
        (TOLD - Counter([Change(2, 12, "b")]) + Counter([Change(2, 12, "x")]), {"lost": 1, "wrong": 1}),
        (TOLD + Counter([Change(9, 1, "x")]), {"wrong": 1}),
    ],
)
def test_a_change_that_is_lost_doubled_or_wrong_is_found(stored: Counter[Change], differences: dict[str, int]) -> None:
    assert compared_changes(TOLD, stored) == Counter({"rows": 3, **NOTHING, **differences})


def test_a_record_that_must_be_there_twice_is_lost_once_if_it_is_there_once() -> None:
    assert compared_changes(TOLD + TOLD, TOLD)["lost"] == 3 == compared_changes(TOLD, TOLD + TOLD)["doubled"]


def test_a_row_that_is_lost_doubled_or_wrong_is_found() -> None:
    form = world().form("fault.venue")
    rows = [{"venueid": key, "venuename": text} for key, text in ((1, "a"), (1, "a"), (2, "x"), (9, "z"))]
    assert compared_rows({1: "a", 2: "b", 3: "c"}, rows, form) == Counter(rows=3, lost=1, doubled=1, wrong=2)


def test_changes_of_a_history_table_are_told_by_the_sources_time() -> None:
    form = world().form("fault.user")
    assert form.history == "fault.user_history" and form.text == "city"
    hidden = {"_sluice_source_ts_ms": 7, "__deleted": False, "userid": 1, "city": "x"}
    assert changes_in([hidden, {**hidden, "__deleted": True}], form) == Counter([Change(1, 7, "x"), Change(1, 7, None)])


def test_columns_that_are_not_left_out_or_not_concealed_are_found() -> None:
    form = world().form("fault.date")
    assert "holiday" not in form.columns and "day" not in form.columns and form.text == "weekday"
    good = {**dict.fromkeys(form.columns, ""), "qtr": MASKED, "month": hashed("MAY")}
    assert unlike(form, good, [good, {**good, "month": None}]) == []
    assert unlike(form, {**good, "holiday": 1}, [good]) == ["holiday is there"]
    assert unlike(form, form.columns - {"week"}, []) == ["week is missing"]
    assert unlike(form, good, [{**good, "qtr": "3"}]) == ["qtr is not concealed"]
    assert unlike(form, good, [{**good, "month": "MAY"}]) == ["month is not concealed"]


def test_an_object_that_comes_again_counts_by_its_key_where_records_are_appended() -> None:
    made = SoakWorld(STACK, 5, database="soak")
    for name in ("event_appended", "user_by_state"):
        one = made.next_object(name)
        for key, version in ((one.key, "1"), (one.key, "2"), (one.key.replace("/day=21/", "/day=22/"), "1")):
            made.put_objects.append((one, SimpleNamespace(key=key, version=version)))  # type: ignore[arg-type]
        assert set(made.changes(f"soak.{name}").values()) == {2} and len(one.changes) > 3
    assert len(made.expected("soak.user_by_state")) <= len(set(made.changes("soak.user_by_state")))
