"""Which rolled-back instants are gone for good, so that files of theirs belong to no write."""

import pytest

from sluice.hudi.file_slices import data_file
from sluice.hudi.stopped_writers import Undone, looked_at, undone_for_good, unnamed
from sluice.hudi.timeline import Timeline


def at(second: int) -> str:
    return f"202405011015{second:02d}000"


FILES = {10: "commit", 20: "commit", 25: "compaction.requested", 30: "rollback", 40: "commit.requested"}
TIMELINE = Timeline.of([f"{at(second)}.{kind}" for second, kind in FILES.items()])


@pytest.mark.parametrize(
    ("second", "undone"),
    [
        pytest.param(15, Undone(gone=frozenset([at(15)])), id="gone"),
        pytest.param(20, Undone(), id="completed later, at the same instant"),
        pytest.param(25, Undone(), id="a compaction that is planned again"),
        pytest.param(40, Undone(), id="under way again"),
        pytest.param(5, Undone(perhaps_archived=frozenset([at(5)])), id="passed by archival"),
    ],
)
def test_the_active_timeline_tells_what_became_of_a_rolled_back_instant(second, undone):
    assert undone_for_good([at(second)], TIMELINE) == undone


def base(id, second, token="0-1-2", partition=""):
    return data_file(f"{partition}{id}-0_{token}_{at(second)}.parquet", 1)


def test_a_base_file_that_its_commit_does_not_name_is_late():
    zombie, again = base("c", 10), base("a", 20, token="0-9-9")
    log = data_file(f".a-0_{at(10)}.log.1_0-1-2", 1)
    files = [base("a", 10), base("b", 10, partition="p/"), zombie, base("a", 20), again, log]
    in_commits = {
        at(10): ["a-0_0-1-2_" + at(10) + ".parquet", base("b", 10, partition="p/").path],
        at(20): [base("a", 20).path],
    }
    assert unnamed(files, in_commits) == (zombie, again)


def test_files_of_commits_that_were_not_read_or_name_nothing_stay():
    assert unnamed([base("a", 10), base("b", 20)], {at(20): []}) == ()


def test_the_oldest_commit_and_the_newest_ones_are_looked_at():
    commits = [at(second) for second in range(30)]
    assert looked_at(commits) == (commits[0], *commits[10:])
    assert looked_at(commits[:3]) == tuple(commits[:3]) and looked_at([]) == ()


def test_what_was_rolled_back_on_a_table_without_a_commit_is_gone():
    assert undone_for_good([at(5)], Timeline.of([f"{at(30)}.rollback"])) == Undone(gone=frozenset([at(5)]))
