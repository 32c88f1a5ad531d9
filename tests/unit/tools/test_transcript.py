"""The demonstration's page holds the shortened output of a run, and README an excerpt."""

import os
import subprocess
import sys

from tools.transcript import (
    DEMO,
    DEMO_PAGE,
    EXCERPT,
    EXCERPT_LINES,
    README,
    TERMINAL,
    WIDTH,
    shortened,
    with_excerpt,
    with_transcript,
)

LOG = (
    """Starting the emulator
The local stack is up after 3.9 s

== Seven tables land

$ sluice put x
local stack sluice at http://127.0.0.1:1
37 objects, 1 KiB, to
  s3://bronze/topics/a.b/year=2026/a.b+0+0000000007.avro in 0.5 s


[10 s] 37 claimed
  won  update  topics/a.b/year=2026/a.b+0+0000000007.avro offset 7  position \
0000.00000000000000000001.00000000000000712497.0000000000.00000000000000002985
"""
    + "n objects wait " * 20
    + "\n"
)


PUT = ["37 objects, 1 KiB, to", "  s3://bronze/…/a.b+0+0000000007.avro in 0.5 s"]


def test_a_verb_is_recorded_as_in_a_terminal_of_the_pages_width():
    done = subprocess.run(
        [sys.executable, "-c", DEMO, "cost", "estimate"],
        env={**os.environ, **TERMINAL, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert not {"\t", "\x1b"} & set(done.stdout) and 80 < max(map(len, lines)) <= WIDTH
    assert lines[0].split()[:2] == ["load", "Sluice"] and lines[1].index("269") == lines[0].index("Sluice") + 3


def test_the_batch_of_a_trace_is_left_out_with_its_continuation():
    log = "== A\n\n$ sluice trace x\nbatch b-1, run run-main-1,\n  instant 2026\nkept\n"
    assert list(shortened(log)) == ["A", "", "$ sluice trace x", "kept"]


def test_a_run_is_shortened_and_stands_where_the_last_one_stood():
    before = DEMO_PAGE.read_text(encoding="utf-8")
    after = with_transcript(before, LOG)
    summary = after[after.index("```text\n") : after.index("<!-- end of transcript")].splitlines()
    assert summary[1:6] == ["== Seven tables land", "", "$ sluice put x", *PUT]
    assert summary[6:8] == ["", "  won  update  …/a.b+0+0000000007.avro offset 7  position …712497"]
    long = summary[8:-1]
    assert len(long) > 2 and all(len(line) <= WIDTH for line in long) and summary[-1] == "```"
    assert " ".join(long).split() == ["n", "objects", "wait"] * 20
    assert after.replace("\n".join(summary), "") == before.replace(
        before[before.index("```text\n") : before.index("\n<!-- end of transcript")], ""
    )


def test_the_excerpt_is_commands_answers_and_the_proof():
    aside = "quarantined  a.b\n  1 object\n  not_avro\n"
    settled = "settled in 2.0 s (in bronze: 37 committed)\n"
    waited = f"$ sluice wait --strict\nlocal stack sluice at x\n{aside}{settled}"
    log = f"{LOG}{waited}Proof: 1 object in bronze; unexplained: 0\n"
    whole = with_excerpt(README.read_text(encoding="utf-8"), log)
    excerpt = whole[whole.index(EXCERPT[0]) + len(EXCERPT[0]) : whole.index(EXCERPT[1])].splitlines()
    assert excerpt == [
        "$ sluice put x",
        *PUT,
        "$ sluice wait --strict",
        "settled in 2.0 s (in bronze: 37 committed)",
        "Proof: 1 object in bronze; unexplained: 0",
    ]


def test_the_kept_transcript_explains_every_object():
    assert "unexplained: 0" in DEMO_PAGE.read_text(encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    excerpt = readme[readme.index(EXCERPT[0]) : readme.index(EXCERPT[1])]
    assert "unexplained: 0" in excerpt and excerpt.count("\n") <= EXCERPT_LINES + 2
