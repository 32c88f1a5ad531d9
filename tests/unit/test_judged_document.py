"""The document of what was judged says what the results say, and how many there are not."""
import pytest

from sluice_bench.judge_all import all_cases
from sluice_bench.judged_document import text


def result(case: str, *equal: bool) -> dict:
    readings = [{"case": case, "phase": "end", "reader": reader, "equal": same, "rows": 10} for reader, same in zip(("hudi-rs", "spark"), equal)]
    return {"case": case, "equal": all(equal), "machine": {"commit": "abc"}, "judgements": readings}


def test_equal_different_and_missing_cases_are_told_apart_by_set_and_reader():
    first, second = [case.id for case in all_cases() if case.set_name == "tickit_small"][:2]
    written = text([result(first, True, True), result(second, True, False)])
    assert f"**1 of {len(all_cases())} cases equal**; {len(all_cases()) - 2} have no result. 4 readings of 40 rows. Commit abc." in written
    assert "| tickit_small | 2 | 1 | 2, 2 | 2, 1 |" in written


def test_a_document_of_nothing_is_refused():
    with pytest.raises(ValueError, match="make judge-all"):
        text([])
