"""The page of readers agrees with the kept results, and explains everything that differs."""

from sluice_bench.readers.document import DOCUMENT, EXPLAINED, cells, explained, text
from sluice_bench.readers.write import expected


def test_the_page_is_made_of_the_kept_results() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == text(cells()) + "\n", "run `python -m sluice_bench.readers.document`"


def test_every_difference_is_explained_and_every_reason_is_of_one() -> None:
    reasons = {explained(cell) for cell in cells() if cell["result"] != "equal"}
    assert {reason for reason in EXPLAINED if reason.always} <= reasons <= set(EXPLAINED)


def test_the_newest_change_of_a_key_is_expected_wherever_it_stands() -> None:
    changes = [{"id": 1, "__lsn": lsn, "__op": op, "n": lsn} for lsn, op in ((2, "u"), (3, "d"), (1, "r"))]
    assert expected([[changes]], ("id", "n", "__deleted")) == [[1, 3, True]]
    every = expected([[changes]], ("n", "__deleted"), every_change=True)
    assert every == [[1, False], [2, False], [3, True]]
