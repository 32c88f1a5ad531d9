"""Which rows and changes a truncate of a source table concerns, and the row that follows from their floors."""

from __future__ import annotations

import itertools

import pytest

from sluice.changes.row_history import Change, Row, row_after
from sluice.changes.source_tables import MOST_FLOORS, Floors, concerns, source_table
from sluice.hudi.own_metadata import FLOOR_PROPERTY, later_of

JAN, FEB = "d.public.jan", "d.public.feb"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("d", "public", "t"), "d.public.t"),
        (("d", None, "t"), "d..t"),
        (("a.b", None, "c\\"), "a\\.b..c\\\\"),
        (("d", "public", None), None),
        (("d", "public", ""), None),
        (("d", 5, "t"), "d..t"),
    ],
)
def test_a_source_table_is_named_by_database_schema_and_table(parts: tuple[object, ...], text: str | None) -> None:
    assert source_table(*parts) == text


def test_tables_with_dots_in_their_names_are_told_apart() -> None:
    assert source_table("a.b", "", "c") != source_table("a", "b", "c") != source_table("a", "", "b.c")


@pytest.mark.parametrize(
    ("truncated", "source", "topic", "concerned"),
    [
        (JAN, JAN, "all", True),
        (JAN, FEB, "all", False),
        (None, FEB, "all", True),
        (None, None, "all", True),
        # A row whose source table isn't known is of the table that its topic is named after.
        ("d.public.orders", None, "src.public.orders", True),
        ("d.public.orders", None, "orders", True),
        ("d.public.my orders", None, "src.public.my_orders", True),
        ("d..a\\.b", None, "src.d.a.b", True),
        ("d.public.orders", None, "src.public.all_orders", False),
        (JAN, None, "src.public.orders", False),
        (JAN, None, "", True),
    ],
)
def test_a_truncate_concerns_its_own_source_table(
    truncated: str | None, source: str | None, topic: str, concerned: bool
) -> None:
    assert concerns(truncated, source, topic) is concerned


def test_each_source_table_has_a_floor_that_only_rises() -> None:
    floors = Floors("3", topic="src.public.jan").raised([(JAN, "7"), (FEB, "5"), (JAN, "6"), (None, "4")])
    assert [floors.of(source) for source in (JAN, FEB, "d.public.mar", None)] == ["7", "5", "4", "7"]
    assert floors.raised([(JAN, "7"), (None, "1")]) == floors and floors and not Floors(topic="t")
    assert Floors.from_text(floors.to_text(), floors.topic) == floors


def test_the_property_of_an_earlier_release_is_a_floor_of_every_source_table() -> None:
    floors = Floors.from_text("0000.5", "t")
    assert (floors.of(JAN), floors.of(None), floors.to_text()) == ("0000.5", "0000.5", "0000.5")
    assert not Floors.from_text(None, "t") and Floors.from_text("", "t").to_text() == ""


def test_a_restored_table_has_the_higher_floor_of_each_source_table() -> None:
    noted = (
        Floors("2").raised([(JAN, "7"), (FEB, "5")]).to_text(),
        "4",
        Floors().raised([(JAN, "6"), (FEB, "8")]).to_text(),
    )
    for order in itertools.permutations(noted):
        floors = Floors.from_text(later_of([{FLOOR_PROPERTY: text} for text in order])[FLOOR_PROPERTY], "all")
        assert [floors.of(source) for source in (JAN, FEB, None)] == ["7", "8", "4"]


def test_the_floors_that_were_raised_last_are_kept() -> None:
    floors = Floors().raised((str(number), f"{number:05d}") for number in range(MOST_FLOORS + 1))
    assert len(floors.by_source) == MOST_FLOORS and floors.of("0") == "" and floors.of("1") == "00001"


MOVED = (
    Change("10", "c", False, {"a": "jan"}, source=JAN),
    Change("20", "d", True, source=JAN),
    Change("21", "c", False, {"a": "feb"}, source=FEB),
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_row_that_moved_to_another_source_table_outlives_a_truncate_of_the_first(order: tuple[int, ...]) -> None:
    row, floors = None, Floors(topic="all")
    for number in order:
        if number < len(MOVED):
            row = row_after(row, [MOVED[number]], columns=["a"], floor=floors)
        else:
            floors = floors.raised([(JAN, "99")])
            row = row_after(row, [], columns=["a"], floor=floors)
    assert row == Row("21", False, {"a": "feb"}) and row.source == FEB


def test_a_truncate_deletes_the_row_of_its_own_source_table_and_older_changes_lose() -> None:
    floors = Floors(topic="all").raised([(JAN, "50")])
    stored = Row("10", False, {"a": 1}, source=JAN)
    older = [Change("40", "u", False, {"a": 2}, source=JAN)]
    assert row_after(stored, older, columns=["a"], floor=floors) == Row("10", True)
    of_other = Row("10", False, {"a": 1}, source=FEB)
    assert row_after(of_other, [], columns=["a"], floor=floors) == Row("10", False, {"a": 1})
