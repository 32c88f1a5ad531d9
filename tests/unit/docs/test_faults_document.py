"""The page of faults lists exactly the faults that there are, and says what their runs came to."""

import re

from faulting import report
from faulting.fault import Fault
from faulting.table import FAULTS, named

FAULT = Fault("broken", "somewhere", lambda scene: None, nearest="it only bends")


def run(**more):
    facts = {"fault": "broken", "commit": "abc", "seconds": 61.2, "took": 100.0, "cores": 2, "load": 1.5, "job_runs": 1}
    verdict = {"happened": {"rolled_back": 2}, "clean": True, "rows": 9, "lost": 0, "doubled": 0, "wrong": 0}
    return {**facts, **verdict, "problems": {}, **more}


def test_the_page_lists_exactly_the_faults_of_the_table():
    text = report.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", text, re.MULTILINE) == [fault.name for fault in FAULTS]
    assert text == report.page(FAULTS, report.kept()), "run `python -m faulting.report`"


def test_names_of_faults_are_unique_and_chosen_by_their_beginning():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) and sum(fault.sample for fault in FAULTS) <= 3
    assert [fault.name for fault in named([names[0]])] == names[:1] and len(named([])) == len(names)


def test_the_page_sums_runs_and_names_what_is_only_near():
    text = report.page([FAULT], {"broken": [run(), run(seconds=90.0, lost=1, clean=False)]})
    assert "**1 of 2 runs clean**" in text and "1 of 18 rows lost" in text
    assert "| `broken` | somewhere | 2 | 2 job runs started, rolled_back 4 | 61 to 90 | 1 | 0 | 0 |" in text
    assert "- `broken`: it only bends" in text


def test_the_page_counts_rows_set_aside_and_says_which_runs_had_no_rules():
    text = report.page([FAULT], {"broken": [run(aside=3, settings=["expect"]), run(aside=2)]})
    assert "0 wrong, 5 rightly set aside. 1 of these runs are older" in text
    assert "older" not in report.page([FAULT], {"broken": [run(settings=["expect"])]})


def test_a_problem_of_a_run_stands_in_its_line():
    text = report.page([FAULT], {"broken": [run(problems={"audit": ["two_batches"]}, clean=False)]})
    assert "**audit: two_batches**" in text


def test_runs_at_another_commit_go_when_a_fault_is_run_again(tmp_path):
    file, name = tmp_path / "faults.json", FAULTS[0].name
    for commit in ("old", "new", "new"):
        report.keep(run(fault=name, commit=commit), file)
    assert [strike["commit"] for strike in report.kept(file)[name]] == ["new", "new"]
