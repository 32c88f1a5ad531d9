"""README's transcript is what a run said, without what a reader can do without."""

from sluice_bench.transcript import README, WIDTH, with_transcript

LOG = (
    """Starting the emulator
The local stack is up after 3.9 s

== Seven tables land

$ sluice put x
local stack sluice at http://127.0.0.1:1
37 objects\t1 KiB


[10 s] 37 claimed
  won  update  topics/a.b/year=2026/a.b+0+0000000007.avro offset 7  position 0000.00000000000000000001.00000000000000712497.0000000000.00000000000000002985
"""
    + "x" * 400
    + "\n"
)


def test_a_run_is_shortened_and_stands_where_the_last_one_stood():
    before = README.read_text(encoding="utf-8")
    after = with_transcript(before, LOG)
    summary = after[after.index("```text\n") : after.index("<!-- end of transcript")].splitlines()
    assert summary[1:6] == ["== Seven tables land", "", "$ sluice put x", "37 objects  1 KiB", ""]
    assert summary[6] == "  won  update  …/a.b+0+0000000007.avro offset 7  position …712497"
    assert len(summary[7]) == WIDTH and summary[8:] == ["```"]
    assert after.replace("\n".join(summary), "") == before.replace(
        before[before.index("```text\n") : before.index("\n<!-- end of transcript")], ""
    )


def test_the_transcript_in_readme_is_of_a_run_that_explained_everything():
    whole = README.read_text(encoding="utf-8")
    assert "unexplained: 0" in whole[whole.index("<!-- transcript") : whole.index("<!-- end of transcript")]
