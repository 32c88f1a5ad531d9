"""How a stored row differs from the one that results from its changes."""

import pytest

from sluice.changes.row_history import (
    BACK,
    LOST,
    OTHER_POSITION,
    OTHER_VALUES,
    Change,
    Row,
    adopted,
    disagreement,
    row_after,
)

ROW, GONE = Row("2", False, {"a": 1, "b": None}), Row("2", True)


@pytest.mark.parametrize(
    ("expected", "stored", "kind"),
    [
        (ROW, ROW, None),
        (ROW, Row("2", False, {"b": None, "a": 1}, {"b": "1"}), None),
        (GONE, GONE, None),
        (None, None, None),
        (GONE, None, None),  # it was purged
        (None, GONE, None),  # a truncate removed it
        (ROW, None, LOST),
        (ROW, GONE, LOST),
        (GONE, ROW, BACK),
        (None, ROW, BACK),
        (ROW, Row("3", False, ROW.values), OTHER_POSITION),
        (GONE, Row("3", True), OTHER_POSITION),
        (ROW, Row("2", False, {"a": 2, "b": None}), OTHER_VALUES),
        (ROW, Row("2", False, {"a": 1}), OTHER_VALUES),
    ],
)
def test_a_row_agrees_or_says_how_it_differs(expected, stored, kind):
    assert disagreement(expected, stored) == kind


@pytest.mark.parametrize("places", [["1" * 27], ["1" * 27, "2" * 27]])
def test_a_loaded_row_of_an_earlier_release_agrees_under_the_time_of_its_load(places):
    before = ["0" * 27] * len(places)
    now, then = (".".join(["0000", *parts, "0" * 20]) for parts in ([*before, *places], places))
    assert disagreement(Row(now, False, {"a": 1}), Row(then, False, {"a": 1})) is None
    assert disagreement(Row(now, False, {"a": 1}), Row(then, False, {"a": 2})) == OTHER_VALUES
    assert disagreement(Row(then, False, {"a": 1}), Row(now, False, {"a": 1})) == OTHER_POSITION
    assert disagreement(Row(now, False), Row(".".join(["0000", *before, "0" * 20]), False)) == OTHER_POSITION


LOWEST = f"{0:04d}.{0:020d}"  # a Kafka offset alone, the first of its partition


@pytest.mark.parametrize(
    ("changes", "kind"),
    [([], None), ([Change(LOWEST, "u", False, {"name": "b"})], OTHER_POSITION), ([Change(LOWEST, "d", True)], BACK)],
    ids=["no-change", "changed-since", "deleted-since"],
)
def test_an_adopted_row_is_right_only_without_a_change_of_its_key(changes, kind):
    row = Row("0000.-20240101000000000", False, {"name": "a"})

    assert disagreement(row_after(adopted(row), changes, columns=["name"]), row) == kind
    assert adopted(Row(LOWEST, False)) is None and adopted(None) is None
