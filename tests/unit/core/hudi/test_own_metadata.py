"""Which columns have the type of the table's schema in every file."""

from __future__ import annotations

import pytest

from sluice.changes import hidden_columns as hidden
from sluice.hudi.own_metadata import NONE_WIDENED, are_as_stored, with_widened

BEFORE, WIDENED, AFTER = "20260101000000000", "20260102000000000", "20260103000000000"


def test_in_a_table_in_which_nothing_became_wider_every_file_is_as_stored():
    assert are_as_stored(NONE_WIDENED, {"id": "bigint", "f": "double"}, oldest_file=BEFORE)


def test_a_widened_column_is_as_stored_once_every_file_is_newer_than_the_change():
    noted = with_widened(NONE_WIDENED, ["id"], newest=WIDENED)
    assert not are_as_stored(noted, {"id": "bigint", "name": "string"}, oldest_file=BEFORE)
    assert not are_as_stored(noted, {"id": "bigint"}, oldest_file=WIDENED)
    assert are_as_stored(noted, {"id": "bigint"}, oldest_file=AFTER)
    assert are_as_stored(noted, {"name": "string", "other": "bigint"}, oldest_file=BEFORE)


def test_a_later_change_is_noted_beside_the_earlier_ones():
    noted = with_widened(with_widened(NONE_WIDENED, ["n"], newest=BEFORE), ["id", "größe"], newest=WIDENED)
    between = "20260101120000000"
    expected = [True, False, False]
    assert [are_as_stored(noted, {name: "bigint"}, oldest_file=between) for name in ("n", "id", "größe")] == expected


@pytest.mark.parametrize("kind", ["bigint", "double", "decimal(18,4)", "array<bigint>", "array<array<double>>"])
def test_without_notes_a_column_of_a_type_that_others_widen_to_may_be_of_two(kind):
    assert with_widened(None, ["n"], newest=WIDENED) is None
    assert not are_as_stored(None, {"id": "string", "n": kind}, oldest_file=AFTER)


def test_without_notes_columns_of_types_that_nothing_widens_to_are_as_stored():
    kinds = {"id": "int", "t": "array<string>", hidden.POSITION: "string", hidden.OFFSET: "bigint"}
    assert are_as_stored(None, kinds, oldest_file=BEFORE)
