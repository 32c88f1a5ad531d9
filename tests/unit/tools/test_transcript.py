"""The demonstration's page holds the shortened output of a run, and README an excerpt."""

from tools.transcript import DEMO_PAGE, EXCERPT, EXCERPT_LINES, README, WIDTH, with_transcript

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


def test_a_run_is_shortened_and_stands_where_the_last_one_stood():
    before = DEMO_PAGE.read_text(encoding="utf-8")
    after = with_transcript(before, LOG)
    summary = after[after.index("```text\n") : after.index("<!-- end of transcript")].splitlines()
    assert summary[1:6] == ["== Seven tables land", "", "$ sluice put x", *PUT]
    assert summary[6:8] == ["", "  won  update  …/a.b+0+0000000007.avro offset 7  position …712497"]
    long = summary[8:-1]
    assert len(long) > 2 and all(len(line) <= WIDTH for line in long) and summary[-1] == "```"
    assert " ".join(long).split() == ["n", "objects", "wait"] * 20
    last = before[before.index("```text\n") : before.index("\n<!-- end of transcript")]
    assert after.replace("\n".join(summary), "") == before.replace(last, "")


def test_the_kept_transcript_explains_every_object():
    assert "unexplained: 0" in DEMO_PAGE.read_text(encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    excerpt = readme[readme.index(EXCERPT[0]) : readme.index(EXCERPT[1])]
    assert "unexplained: 0" in excerpt and excerpt.count("\n") <= EXCERPT_LINES + 2
