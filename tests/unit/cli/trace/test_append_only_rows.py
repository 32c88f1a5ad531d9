"""Records of an append-only table are compared with the rows that hold them, whatever identity these have."""

from sluice.changes.row_history import Change, Row
from sluice_cli.trace.verification import under_identities

KEY, MARKED = ("b/latest.json#0000000000",), ("b/latest.json#0000000000@0123456789abcdef",)
FIRST, AGAIN = (Change("0000.00000000000000000000", None, False, {"e": value}) for value in ("mon", "tue"))


def row(change):
    return Row(change.position, False, change.values)


def test_records_of_two_objects_of_one_name_are_under_the_rows_that_hold_them():
    stored = {KEY: row(FIRST), MARKED: row(AGAIN)}
    for listed in ([FIRST, AGAIN], [AGAIN, FIRST, AGAIN]):
        by_identity = under_identities({KEY: listed}, stored, ["e"])
        assert by_identity == {KEY: {FIRST.position: FIRST}, MARKED: {AGAIN.position: AGAIN}}


def test_a_record_that_no_row_holds_stays_under_its_own_identity():
    assert under_identities({KEY: [AGAIN]}, {MARKED: row(FIRST)}, ["e"]) == {KEY: {AGAIN.position: AGAIN}}
