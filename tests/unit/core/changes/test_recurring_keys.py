"""Versions of one key of an append-only table: which of them are one object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest

from sluice.changes.recurring_keys import FIRST, SharedNumbers, mark_of, marks_of_versions, parts_of, without_mark

Content = Sequence[str]


def overlap(one: Mapping[int, str], other: Mapping[int, str]) -> SharedNumbers:
    common = one.keys() & other.keys()
    return SharedNumbers(len(common), sum(one[number] != other[number] for number in common))


def merged(batches: Sequence[Mapping[str, Content]]) -> Counter[str]:
    """The records that a table holds after these batches of versions."""
    table: dict[str, dict[int, str]] = {}
    for batch in batches:
        contents = {version: dict(enumerate(records)) for version, records in batch.items()}
        longest_first = sorted(batch, key=lambda version: (-len(batch[version]), version))
        overlaps = {(one, mark): overlap(contents[one], rows) for one in batch for mark, rows in table.items()}
        overlaps.update({(a, b): overlap(contents[a], contents[b]) for a in batch for b in batch if a < b})
        for version, mark in marks_of_versions(longest_first, list(table), overlaps).items():
            for number, record in contents[version].items():
                table.setdefault(mark, {}).setdefault(number, record)
    return Counter(record for rows in table.values() for record in rows.values())


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        pytest.param(["abc", "abcde"], "abcde", id="grows"),
        pytest.param(["abc", "ab", "abc"], "abc", id="is-cut-and-written-again"),
        pytest.param(["abc", "xy"], "abcxy", id="other-records"),
        pytest.param(["abc", "ab", "ax"], "abcax", id="one-record-differs"),
        pytest.param(["a", "ab", "ac"], "abac", id="two-continue-one"),
        pytest.param(["abc", "", "abc"], "abc", id="is-emptied"),
        pytest.param(["ab", "xy", "abc", "xyz"], "abcxyz", id="two-objects-grow"),
    ],
)
def test_the_rows_are_those_of_each_version_that_no_other_continues_in_any_order(
    versions: list[str], expected: str
) -> None:
    objects = [(f"bronze/key?versionId={number}", records) for number, records in enumerate(versions)]
    for order in permutations(objects):
        assert merged([{name: records} for name, records in order]) == Counter(expected)
        assert merged([dict(order)]) == Counter(expected)
        assert merged([dict(order[:2]), dict(order[1:])]) == Counter(expected), "some come again"


def test_a_version_of_which_the_table_has_rows_is_that_object_whatever_they_hold() -> None:
    differ = {("v", FIRST): SharedNumbers(3, 3)}  # a rule masks a column since
    assert marks_of_versions(["v"], [FIRST], differ) == {"v": mark_of("v")}
    assert marks_of_versions(["v"], [FIRST], differ, {"v": FIRST}) == {"v": FIRST}


def test_a_row_is_known_by_its_key_its_number_and_the_mark_of_its_object() -> None:
    mark = mark_of("bronze/a#1?versionId=2")
    assert parts_of("bronze/a#0000000001@ab#0000000007") == ("bronze/a#0000000001@ab", 7, FIRST)
    assert parts_of(f"bronze/a\n#0000000007{mark}") == ("bronze/a\n", 7, mark)
    with pytest.raises(ValueError):
        parts_of("bronze/a")


def test_an_identity_without_its_mark_is_that_of_the_object_alone() -> None:
    assert without_mark(f"b/k#{7:010d}@0123456789abcdef") == f"b/k#{7:010d}"
    assert without_mark(f"b/k#{7:010d}") == f"b/k#{7:010d}" and without_mark("text@ab") == "text@ab"
