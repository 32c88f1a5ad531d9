"""The life of a row: which changes won and why, and the state of the table after each commit."""

import pytest

from sluice.changes.position import encode
from sluice_cli.trace.row_changes import FoundChange
from sluice_cli.trace.row_life import ForgottenRow, RowLife
from sluice_cli.trace.row_story import MergedBatch, describe, story


def change(position, op="u", unchanged=(), deleted=False, **values):
    return FoundChange(
        f"k{position}", "v", int(position), 0, position, op, deleted or op == "d", 1, values, frozenset(unchanged)
    )


def batch(name, at, *changes, truncates=()):
    return MergedBatch(name, f"2026{at:04d}", at, changes, tuple((None, place) for place in truncates))


def verdicts(chapters):
    return [[(item.change.position, item.verdict) for item in chapter.judged] for chapter in chapters]


def test_the_newest_change_of_a_batch_wins_in_any_order_of_arrival():
    chapters = story([batch("b1", 1, change("2", a=2), change("1", "c", a=1))], columns=["a"])
    assert verdicts(chapters) == [[("1", "overtaken"), ("2", "won")]]
    assert chapters[0].row.values == {"a": 2}
    assert chapters[0].judged[1].why == "the newest of 2 changes in the first batch with this row"


def test_an_older_change_that_comes_late_loses_also_against_a_deletion():
    chapters = story([batch("b2", 2, change("1", "c", a=1)), batch("b1", 1, change("3", "d"))], columns=["a"])
    assert [chapter.batch for chapter in chapters] == ["b1", "b2"], "in the order of the commits"
    assert verdicts(chapters) == [[("3", "won")], [("1", "lost")]]
    assert chapters[1].row.deleted and not chapters[1].changed and "3" in chapters[1].judged[0].why


@pytest.mark.parametrize("counted", [0, 1])
def test_a_later_change_that_lost_says_what_to_do(counted):
    def placed(lsn, offset, at):
        kind, parts = ("postgres", (lsn,)) if lsn is not None else ("offset", ())
        return FoundChange("k", "v", offset, 0, encode(0, kind, parts, offset), "u", False, at, {"a": offset})

    def why(*changes):
        told = [MergedBatch(f"b{at}", f"2026{at}", at, (one,), (), counted) for at, one in enumerate(changes)]
        together = story([MergedBatch("b", "2026", 1, changes, (), counted)], columns=["a"])
        reasons = {item.why for chapter in (story(told, columns=["a"])[-1], *together) for item in chapter.judged}
        return sum("raise the table's `generation`" in text for text in reasons)

    assert why(placed(400, 10, 1), placed(300, 20, 2)) == 2
    assert why(placed(400, 10, 2), placed(300, 20, 1)) == 0
    # Of offsets alone the batch tells, by its objects.
    assert why(placed(None, 20, 1), placed(None, 10, 2)) == 2 * counted


def test_a_redelivered_change_repeats_what_the_table_holds():
    chapters = story(
        [batch("b1", 1, change("1", "c", a=1), change("1", "c", a=1)), batch("b2", 2, change("1", "c", a=1))],
        columns=["a"],
    )
    assert verdicts(chapters) == [[("1", "won"), ("1", "repeated")], [("1", "repeated")]]


def test_after_a_rebuild_a_repeated_change_writes_the_row_anew():
    first, again, third = (batch(f"b{at}", at, change("1", "c", a=1)) for at in (1, 3, 4))
    chapters = story([first, again, third], columns=["a"], rebuilt_at=[2])
    assert verdicts(chapters) == [[("1", "won")], [("1", "won")], [("1", "repeated")]]
    assert chapters[1].judged[0].why == "the first change of this row since the table was rebuilt"
    assert [chapter.rebuilt_at for chapter in chapters] == [None, 2, None] and chapters[1].changed
    assert describe(chapters[1])["rebuilt_at"] == 2


def test_a_rebuild_ends_the_floor_of_a_truncate():
    chapters = story(
        [batch("b1", 1, change("1", "c", a=1), truncates=("5",)), batch("b2", 3, change("1", "c", a=1))],
        columns=["a"],
        rebuilt_at=[2],
    )
    assert verdicts(chapters)[1] == [("1", "won")]


def test_a_forgotten_row_stays_out_in_a_replay_and_a_newer_change_is_a_new_row():
    chapters = story(
        [
            batch("b1", 1, change("2", "c", a=1)),
            batch("b2", 3, change("2", "c", a=1)),
            batch("b3", 4, change("4", "u", a=4), change("1", a=0)),
        ],
        columns=["a"],
        life=RowLife(forgotten=ForgottenRow("2", "19700101000000002")),
    )
    assert verdicts(chapters) == [[("2", "won")], [("2", "forgotten")], [("1", "forgotten"), ("4", "won")]]
    assert chapters[1].row is None and chapters[2].row.values == {"a": 4}
    assert chapters[2].judged[1].why == "the first change of this row since it was forgotten"
    unknown = story(
        [batch("b1", 1, change("2", "c", a=1))], columns=["a"], life=RowLife(forgotten=ForgottenRow("2", None))
    )
    assert verdicts(unknown) == [[("2", "won")]]


def test_a_change_that_loses_supplies_the_column_that_the_winner_came_without():
    chapters = story(
        [batch("b1", 1, change("3", unchanged=["toast"], a=3)), batch("b2", 2, change("2", toast="long", a=2))],
        columns=["a", "toast"],
    )
    assert verdicts(chapters) == [[("3", "won")], [("2", "supplied")]]
    assert chapters[1].row.values == {"a": 3, "toast": "long"} and "toast" in chapters[1].judged[0].why


def test_a_truncate_ends_the_row_and_what_is_older_than_it():
    chapters = story(
        [batch("b1", 1, change("1", "c", a=1)), batch("b2", 2, truncates=("5",)), batch("b3", 3, change("4", a=4))],
        columns=["a"],
    )
    assert verdicts(chapters) == [[("1", "won")], [], [("4", "truncated")]]
    assert chapters[1].truncated_at == "5" and chapters[1].row.deleted and chapters[2].row.deleted


def test_an_ignored_deletion_keeps_the_values():
    chapters = story(
        [batch("b1", 1, change("1", "c", a=1)), batch("b2", 2, change("2", "d"))], columns=["a"], ignore_deletes=True
    )
    assert verdicts(chapters)[1] == [("2", "ignored")]
    assert chapters[1].row.values == {"a": 1}
    assert not chapters[1].row.deleted


@pytest.mark.parametrize("value", [None, "", "NULL", "qu\"o'te", "東京/=+&", "\x00\x1b"])
def test_any_value_survives(value):
    (chapter,) = story([batch("b1", 1, change("1", "c", a=value))], columns=["a"])
    assert describe(chapter)["row"]["values"] == {"a": value}
    assert describe(chapter)["changes"][0]["values"] == {"a": value}
