"""Which deletions carry no key: decided by the traces that each replica identity of PostgreSQL leaves."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.changes.keyless_deletion import DeletionColumns, seen_null, without_key

# id and code are NOT NULL, note and size may be null, and size has a declared default.
COLUMNS = DeletionColumns(("id",), ("code", "note", "size"), frozenset(("note", "size")), {"size": 7})


def row(id: Any, code: Any = "", note: Any = None, size: Any = 7) -> dict[str, Any]:
    return {"id": id, "code": code, "note": note, "size": size}


@pytest.mark.parametrize(
    ("deletion", "lacking"),
    [
        (row(0, "a"), True),  # REPLICA IDENTITY USING INDEX on code
        (row("", "a"), True),
        (row(b"\0", "a"), True),  # a decimal
        (row({"scale": 0, "value": b"\0"}, "a"), True),
        (row("1970-01-01T00:00:00.000000Z", "a"), True),
        (row(0), False),  # DEFAULT, and the key is 0
        (row(0, size=None), False),
        (row(5), False),
        (row(5, "a"), False),
        (row(0, "a", "n"), False),  # FULL, and the key is 0
        (row(0, "a", size=8), False),
        (row(0, "a", "n", 8), False),
    ],
)
def test_a_deletion_lacks_its_key_where_only_columns_of_an_index_are_filled(
    deletion: dict[str, Any], lacking: bool
) -> None:
    assert without_key([deletion], COLUMNS) == [lacking]


def test_a_key_of_several_columns_is_lacking_where_all_of_them_are_defaults() -> None:
    columns = DeletionColumns(("a", "b"), ("code", "n"))
    deletions = [{"a": 0, "b": "", "code": "x", "n": 0}, {"a": 1, "b": "", "code": "", "n": 0}]
    assert without_key(deletions, columns) == [True, False]


def test_another_whole_row_of_the_object_shows_that_deletions_are_whole() -> None:
    columns = DeletionColumns(("id",), ("code",))
    assert without_key([{"id": 0, "code": "a"}], columns) == [True]
    assert without_key([{"id": 0, "code": "a"}, {"id": 3, "code": "b"}], columns) == [False, False]
    assert without_key([{"id": 0, "code": "a"}, {"id": 3, "code": ""}], columns) == [True, False]


def test_a_whole_row_of_several_filled_columns_is_taken_for_one() -> None:
    assert without_key([{"id": 0, "code": "a", "n": 4}], DeletionColumns(("id",), ("code", "n"))) == [False]


def test_columns_that_are_null_in_a_row_may_be_null() -> None:
    assert seen_null([{"a": 1, "b": None}, {"a": 1, "b": 2}], ("a", "b")) == {"b"}
