"""Which rolled-back instants are gone for good, so that files of theirs belong to no write."""

import pytest

from sluice.hudi.late_files import Undone, undone_for_good
from sluice.hudi.timeline import Timeline


def at(second: int) -> str:
    return f"202405011015{second:02d}000"


TIMELINE = Timeline.of(
    [
        f"{at(10)}.commit",
        f"{at(20)}.commit",
        f"{at(25)}.compaction.requested",
        f"{at(30)}.rollback",
        f"{at(40)}.commit.requested",
    ]
)


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param(15, Undone(gone=frozenset([at(15)])), id="gone"),
        pytest.param(20, Undone(), id="completed later, at the same instant"),
        pytest.param(25, Undone(), id="a compaction that is planned again"),
        pytest.param(40, Undone(), id="under way again"),
        pytest.param(5, Undone(perhaps_archived=frozenset([at(5)])), id="passed by archival"),
    ],
)
def test_the_active_timeline_tells_what_became_of_a_rolled_back_instant(second, found):
    assert undone_for_good([at(second)], TIMELINE) == found


def test_what_was_rolled_back_on_a_table_without_a_commit_is_gone():
    assert undone_for_good([at(5)], Timeline.of([f"{at(30)}.rollback"])) == Undone(gone=frozenset([at(5)]))
