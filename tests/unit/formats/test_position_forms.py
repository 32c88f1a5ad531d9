"""A position column whose unit or form changes: its values don't compare with the table's and are set aside."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support.builders import avro_object, avro_record
from support.shapes import config, item, judged_in_turn, lines, seen_in

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.changes.log_restart import SeenObject, joined
from sluice.config.delete_when import DeleteWhen
from sluice.config.rules.change_rule import ChangeRule
from sluice.config.table import TableConfig

TABLE = config("id", position="at")
FORMS: dict[str, Any] = {
    "iso": lambda at: f"{datetime(2024, 5, 6, tzinfo=timezone.utc) + timedelta(milliseconds=at):%Y-%m-%dT%H:%M:%S.%fZ}",
    "s": lambda at: str(1_714_953_600 + at // 1_000),
    "ms": lambda at: str(1_714_953_600_000 + at),
    "us": lambda at: str(1_714_953_600_000_000 + 1_000 * at),
    "ns": lambda at: str(1_714_953_600_000_000_000 + 1_000_000 * at),
    "digits": lambda at: str(20240506000000 + at // 1_000),
    "dms": lambda at: f"20240506{at:027d}",
    "long": lambda at: f"{at + 10**28}",
}
ONE_FORM = {frozenset(("iso", "ns"))}  # both count nanoseconds


def seen(name: str, *values: Any, kind: str = "string", table: Any = TABLE) -> SeenObject:
    """An object as a read task sees it, with a row for each value of the position column."""
    rows = [{"id": number, "at": value} for number, value in enumerate(values)]
    body = avro_object(avro_record({"id": "int", "at": kind}), rows)
    return seen_in(body, replace(item("avro"), key=f"t/{name}"), table)


def merged(*batches: list[SeenObject], table: TableConfig = TABLE) -> Watched:
    return judged_in_turn(batches, table)


@pytest.mark.parametrize("one_batch", [False, True])
@pytest.mark.parametrize("after", FORMS)
@pytest.mark.parametrize("before", FORMS)
def test_positions_of_another_form_than_the_tables_are_parked(before: str, after: str, one_batch: bool) -> None:
    first = [seen("a", FORMS[before](1_001), FORMS[before](5_001))]
    later = [seen("b", FORMS[after](9_001))]
    result = merged(first + later) if one_batch else merged(first, later)
    same = before == after or frozenset((before, after)) in ONE_FORM
    assert bool(result.parked) is not same
    if not same:
        assert list(result.parked) == [later[0].object] and "`generation`" in result.parked[later[0].object]
        raised = replace(TABLE, generation=1)
        assert not watched(result.watch, [seen("b", FORMS[after](9_001), table=raised)], raised).parked


@pytest.mark.parametrize(("before", "after"), [("us", "ms"), ("ms", "s"), ("s", "ns"), ("ns", "us")])
def test_positions_as_numbers_are_parked_alike(before: str, after: str) -> None:
    first, later = (seen(form, int(FORMS[form](1_001)), kind="long") for form in (before, after))
    assert list(merged([first], [later]).parked) == [later.object]


BY_PATHS = config(change=ChangeRule(row="row", before="old", order=("at", "seq")))


def seen_by_paths(name: str, *values: Any, table: TableConfig = BY_PATHS) -> SeenObject:
    body = lines(*({"row": {"id": number}, "at": value, "seq": 1} for number, value in enumerate(values)))
    return seen_in(body, item("json", key=f"t/{name}", offset=int(name, 36)), table)


@pytest.mark.parametrize("after", FORMS)
@pytest.mark.parametrize("before", FORMS)
def test_orders_by_paths_of_another_form_are_parked_alike(before: str, after: str) -> None:
    first, later = seen_by_paths("a", FORMS[before](1_001)), seen_by_paths("b", FORMS[after](9_001))
    result = merged([first], [later], table=BY_PATHS)
    same = before == after or frozenset((before, after)) in ONE_FORM
    assert list(result.parked) == ([] if same else [later.object])
    assert merged([first, later], table=BY_PATHS).parked.keys() == result.parked.keys()
    both = seen_by_paths("c", FORMS["iso"](1_001), FORMS["ms"](9_001))
    assert list(merged([both], table=BY_PATHS).refused) == [both.object]
    for numbers in (("0/16B374D8", 5 * 10**9, 7 * 10**9), (9 * 10**27, 10**28 + 5), (10**26 - 1, 10**26 + 1)):
        *counts, last = (seen_by_paths(name, number) for name, number in zip("def", numbers))
        assert not merged(counts, [last], table=BY_PATHS).parked


def test_positions_of_two_forms_in_one_object_refuse_it() -> None:
    mixed = seen("a", FORMS["iso"](1_001), FORMS["ms"](2_001))
    assert merged([mixed]).refused[mixed.object].code == "unordered_change"
    pieces = [seen("a", FORMS["iso"](1_001)), seen("a", FORMS["ms"](2_001))]
    assert joined(pieces).places == mixed.places


@pytest.mark.parametrize(
    "counts",
    [
        # a log that grows
        [[1, 2], [10**9, 3 * 10**9], [5 * 10**9], [2 * 10**12], [20_240_506_000_000], [3 * 10**13], [2 * 10**15]],
        [[10**9, 2 * 10**12]],
        [[1_714_953_600_000], [0, 1], [10**9], [9 * 10**18]],  # what stands for no time, or for no end
        [[1_714_953_600_000], [10**9, 1_714_953_600_001]],
        [[7 * 10**9], [5 * 10**7]],
        # objects of a counter that come again
        [[3 * 10**9 + 7], [5 * 10**9 + 1], [10**12 + 7], [3 * 10**9 + 1]],
        [[8 * 10**11 + 3], [12 * 10**11 + 5], [2 * 10**9 + 9]],
        [[2 * 10**9 + 1, 10**12 + 7], [2 * 10**9 + 3]],
        [[3 * 10**9], [10**12]],  # as times decades apart
    ],
)
def test_positions_that_may_count_anything_go_on(counts: list[list[int]]) -> None:
    objects = [[seen(f"o{at}", *values, kind="long")] for at, values in enumerate(counts)]
    for end in range(1, len(objects) + 1):
        result = merged(*objects[:end])
        assert not result.parked and not result.refused


@pytest.mark.parametrize(("before", "after"), [(10, 4_000), (5_000, 10), (10, 11)])
def test_places_in_the_log_of_sql_server_count_no_time(before: int, after: int) -> None:
    texts = [f"0x{file:08x}{7:012x}" for file in (before, after)]
    for kind, values in (("string", texts), ("bytes", [bytes.fromhex(text[2:]) for text in texts])):
        objects = [seen(name, value, kind=kind) for name, value in zip("ab", values)]
        assert not merged(objects[:1], objects[1:]).parked and not merged([seen("c", *values, kind=kind)]).refused


def test_places_in_the_log_are_told_behind_rows_of_a_full_load() -> None:
    table = config("id", position="at", delete_when=DeleteWhen(column="op", values=("D",)))
    schema = avro_record({"id": "int", "at": ["null", "string"], "op": ["null", "string"]})
    rows = [{"id": 1}, {"id": 2, "at": f"0x{10:08x}{7:012x}", "op": "I"}]
    assert seen_in(avro_object(schema, rows), "avro", table).places == ((),)


def test_many_positions_of_one_form_are_told_by_their_ends() -> None:
    values = [FORMS["ms"](at) for at in range(1, 500)]
    assert seen("a", *values).places == seen("a", values[-1]).places
    assert len(seen("a", FORMS["iso"](1), *values).places[0]) == 2


def test_positions_of_typed_times_have_one_unit() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    first = seen("a", 1_714_953_600_000_001, kind=micros)  # type: ignore[arg-type]
    later = seen("b", 1_714_953_600_002, kind=millis)  # type: ignore[arg-type]
    assert first.places == ((),) and not merged([first], [later]).parked


@pytest.mark.parametrize("table", [TABLE, replace(TABLE, record_key=("__db", "id"))], ids=["of one", "of several"])
def test_the_generation_is_known_whatever_form_positions_have(table: TableConfig) -> None:
    micros: Any = {"type": "long", "logicalType": "timestamp-micros"}
    typed, text = (seen("a", 1_714_953_600_000_001, kind=micros), seen("b", FORMS["ms"](1)))
    for first in (typed, text):
        watch = watched(KafkaWatch(), [first], replace(table, generation=2)).watch
        assert KafkaWatch.from_dict(watch.to_dict()).generation == 2
        assert watched(watch, [text], replace(table, generation=1)) == Watched(watch)  # a retry of an earlier log
    assert watched(KafkaWatch(), [typed], table).watch == KafkaWatch()
