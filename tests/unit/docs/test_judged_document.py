"""The document of judged cases agrees with the stored results and counts the missing ones."""

from sluice_bench.judge import results
from sluice_bench.judge.document import DOCUMENT, text
from sluice_bench.judge.matrix import all_cases, outstanding
from sluice_bench.judge.results import judged


def result(case: str, *equal: bool) -> dict:
    readings = [
        {"case": case, "phase": "end", "reader": reader, "equal": same, "rows": 10}
        for reader, same in zip(("hudi-rs", "spark"), equal, strict=False)
    ]
    return {"case": case, "equal": all(equal), "machine": {"commit": "abc"}, "judgements": readings}


def test_the_document_is_made_of_the_kept_results():
    assert DOCUMENT.read_text(encoding="utf-8") == text(results.kept()), "run `python -m sluice_bench.judge.document`"


def test_equal_different_and_missing_cases_are_counted_by_set_and_reader():
    first, second = [case.id for case in all_cases() if case.set_name == "tickit_small"][:2]
    written = text({first: judged(result(first, True, True)), second: judged(result(second, True, False))})
    assert f"**1 of {len(all_cases())} cases equal**; {len(all_cases()) - 2} not judged yet. " in written
    assert "not judged yet. 4 readings of 40 rows in total. Tables made by commit abc (2)." in written
    assert "| tickit_small | 2 | 1 | 2, 2 | 2, 1 |" in written


def test_a_case_has_one_result_over_all_machines_and_a_newer_one_replaces_it(tmp_path):
    first, second, *_ = all_cases()
    file = tmp_path / "judged.json"
    results.keep([judged(result(first.id, False))], file)
    results.keep([judged(result(first.id, True))], file)
    assert [case.whole for case in results.kept(file).values()] == [True]
    assert outstanding([first, second], tmp_path, results.kept(file)) == [second]


def test_a_case_that_differed_is_judged_again(tmp_path):
    first, second, *_ = all_cases()
    stored = {first.id: judged(result(first.id, True, False)), second.id: judged(result(second.id, True, True))}
    assert outstanding([first, second], tmp_path, stored) == [first]
