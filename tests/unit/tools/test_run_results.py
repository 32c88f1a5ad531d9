"""The summary at the end of a CI run: the slowest files and the totals of all its parts."""

from pathlib import Path

from tools.run_results import main

JUNIT = """<testsuites><testsuite>
<testcase file="tests/a.py" name="one" time="1.5"/>
<testcase file="tests/a.py" name="two" time="2.0"><failure message="no"/></testcase>
<testcase file="tests/b.py" name="three" time="0.5"><skipped message="later"/></testcase>
<testcase file="tests/b.py" name="four" time="9.0"><error message="in its fixture"/></testcase>
</testsuite></testsuites>"""


def test_the_totals_are_the_last_line_and_failures_or_missing_results_fail(tmp_path: Path, capsys):
    (tmp_path / "all.xml").write_text(JUNIT)
    (tmp_path / "good.xml").write_text(JUNIT.replace("failure", "system-out").replace("error", "system-out"))
    assert main([str(tmp_path / "good.xml"), str(tmp_path / "all.xml")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 2 failed, 2 skipped"
    assert main([str(tmp_path / "good.xml")]) == 0
    assert main([str(tmp_path / "good.xml"), str(tmp_path / "gone.xml")]) == 1
