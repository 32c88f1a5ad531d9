"""The row that results from changes, by the table of examples, and how a stored row differs from it."""

from dataclasses import replace

import pytest
from support.merge_cases import COLUMNS, EMPTIED, EVERY, KEEPING, KEEPING_ALL, TRUNCATED_AT, UNCHANGED_NULLS, row_text

from sluice.changes.position import among_ties, place_of_object, tie_of
from sluice.changes.row_history import (
    BACK,
    LOST,
    NEVER,
    NO_TOMBSTONE,
    OTHER_OWED,
    OTHER_POSITION,
    OTHER_VALUES,
    Change,
    Row,
    adopted,
    disagreement,
    never_came,
    row_after,
)


@pytest.mark.parametrize("group", [EVERY, EMPTIED, UNCHANGED_NULLS, KEEPING, KEEPING_ALL], ids=lambda _: "")
def test_the_row_of_each_example_results_batch_by_batch_and_at_once(group):
    ignores = "delete_mode" in group.settings
    floor = f"0000.{TRUNCATED_AT:020d}.{0:020d}" if group.truncated and not ignores else NEVER
    in_batches, at_once = {}, {}
    for id in range(len(group.examples)):
        first, *later = group.changes_of(id)
        row = row_after(None, first, columns=COLUMNS, ignore_deletes=ignores)
        for changes in later:
            row = row_after(row, changes, columns=COLUMNS, floor=floor, ignore_deletes=ignores)
        once = row_after(None, sum(later, first), columns=COLUMNS, floor=floor, ignore_deletes=ignores)
        for rows, result in ((in_batches, row), (at_once, once)):
            if result is not None:
                values = [result.values.get(name) for name in COLUMNS]
                rows[id] = row_text(result.deleted, values, result.position, result.owed)
    assert group.by_name(in_batches) == group.rows
    # Which change is older than an ignored deletion depends on what came before it.
    assert group is KEEPING or group.by_name(at_once) == group.rows_at_once


ROW, GONE = Row("2", False, {"a": 1, "b": None}), Row("2", True)


@pytest.mark.parametrize(
    ("expected", "stored", "kind"),
    [
        (ROW, ROW, None),
        (ROW, Row("2", False, {"b": None, "a": 1}), None),
        (ROW, Row("2", False, ROW.values, {"b": "1"}), OTHER_OWED),
        (Row("2", False, ROW.values, {"b": "1"}), ROW, OTHER_OWED),
        (GONE, GONE, None),
        (None, None, None),
        (GONE, None, NO_TOMBSTONE),
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
    assert disagreement(GONE, None, purged=GONE.position) is None


def test_a_row_that_an_ignored_delete_hid_stays_deleted_once_deletes_count():
    hidden = Row("2", True, {}, {"*": NEVER})
    assert row_after(hidden, [Change("1", "d", True)], columns=COLUMNS) == Row("2", True)


def test_values_that_never_came_are_those_that_no_change_of_the_row_has():
    changes = [
        Change("2", "u", False, {"a": 2, "c": None}, frozenset("b")),
        Change("3", "u", False, {"a": 3}, frozenset("bc")),
    ]
    row = row_after(None, changes, columns=["a", "b", "c"])
    assert (row.values, sorted(row.owed)) == ({"a": 3, "b": None, "c": None}, ["b", "c"])
    assert never_came(row, changes) == ("b",)
    supplied = [*changes, Change("1", "c", False, {"a": 1, "b": 1, "c": 1})]
    assert never_came(row_after(None, supplied, columns=["a", "b", "c"]), supplied) == ()
    assert never_came(GONE, changes) == never_came(None, changes) == ()


@pytest.mark.parametrize("places", [["1" * 27], ["1" * 27, "2" * 27]])
def test_a_loaded_row_of_an_earlier_release_agrees_under_the_time_of_its_load(places):
    before = ["0" * 27] * len(places)
    now, then = (".".join(["0000", *parts, "0" * 20]) for parts in ([*before, *places], places))
    assert disagreement(Row(now, False, {"a": 1}), Row(then, False, {"a": 1})) is None
    tied = among_ties(now, tie_of(place_of_object("k", 5_000, "017"), by_key=True))
    assert {disagreement(Row(tied, False), Row(former, False)) for former in (tied, now, then)} == {None}
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


def test_values_that_changes_left_unchanged_may_be_an_adopted_rows():
    base = Row("0000.-20240101000000000", False, {"name": "a", "doc": "x", "note": None})
    columns, changes = list(base.values), [Change("1", "u", False, {"name": "b"}, frozenset(("doc", "note")))]
    row = row_after(base, changes, columns=columns)
    assert row.values == {"name": "b", "doc": "x", "note": None}
    expected = row_after(adopted(row), changes, columns=columns)
    assert disagreement(expected, row) is None and never_came(expected, changes) == ()
    later = [*changes, Change("2", "u", False, {"name": "c", "doc": "y"}, frozenset(("note",)))]
    stored = row_after(row, later[1:], columns=columns)
    assert disagreement(row_after(adopted(stored), later, columns=columns), stored) is None
    again = [*later, Change("3", "d", True), Change("4", "u", False, {"name": "d"}, frozenset(("doc", "note")))]
    stored = row_after(stored, again[2:], columns=columns)
    assert adopted(stored) is None and row_after(None, again, columns=columns) == stored


def test_deletions_count_or_not_by_the_merge_that_took_each():
    """As where `delete_mode` was changed."""
    created, deleted, ignored = Change("1", "c", False, {"a": 1}), Change("2", "d", True), Change("3", "d", True)
    soft = row_after(None, [created, deleted], columns=["a"])
    later = Change("4", "c", False, {"a": 4})
    for more in ([ignored], [ignored, later], [later]):
        stored = row_after(soft, more, columns=["a"], ignore_deletes=True)
        marked = [replace(change, ignored=change is ignored) for change in (created, deleted, *more)]
        assert row_after(None, marked, columns=["a"]) == stored
    assert row_after(None, [created, replace(ignored, ignored=True)], columns=["a"]) == Row("3", False, {"a": 1})
