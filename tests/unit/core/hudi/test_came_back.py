"""What becomes of a commit that was completed after its roll-back."""

import pytest

from sluice.hudi.stopped_writers import KEEP, TOO_LATE, UNDO, Written, suspects, verdict
from sluice.hudi.timeline import COMMIT, DELTA_COMMIT, REPLACE_COMMIT

BACK = Written("2", COMMIT, "b-1")
CLUSTERING = Written("2", REPLACE_COMMIT)


@pytest.mark.parametrize(
    ("came_back", "others", "expected"),
    [
        pytest.param(BACK, [Written("1", COMMIT, "b-0")], KEEP, id="the only commit of its batch"),
        pytest.param(BACK, [Written("3", COMMIT, "b-1")], UNDO, id="its batch was committed again"),
        pytest.param(
            BACK, [Written("3", COMMIT, "b-1", frozenset("2"))], KEEP, id="seen by the merge that repeated it"
        ),
        pytest.param(
            BACK,
            [Written("3", COMMIT, "b-1"), Written("4", COMMIT, "b-2", frozenset("1"))],
            UNDO,
            id="nothing built on it",
        ),
        pytest.param(
            BACK, [Written("3", COMMIT, "b-1"), Written("4", COMMIT, "b-2", frozenset("2"))], TOO_LATE, id="built on"
        ),
        pytest.param(
            BACK, [Written("3", COMMIT, "b-1"), Written("4", REPLACE_COMMIT)], TOO_LATE, id="perhaps clustered since"
        ),
        pytest.param(CLUSTERING, [Written("3", COMMIT, "b-1")], UNDO, id="a clustering"),
        pytest.param(CLUSTERING, [Written("3", COMMIT, "b-1", frozenset("2"))], TOO_LATE, id="a clustering, built on"),
    ],
)
def test_a_commit_that_came_back_is_undone_only_where_it_repeats_rows(came_back, others, expected):
    assert verdict(came_back, [came_back, *others], merge_on_read=False) == expected


def test_a_compaction_since_then_makes_it_too_late():
    back = Written("2", DELTA_COMMIT, "b-1")
    commits = [back, Written("3", DELTA_COMMIT, "b-1"), Written("4", COMMIT)]
    assert verdict(back, commits, merge_on_read=True) == TOO_LATE


def test_a_compaction_that_was_rolled_back_and_carried_out_again_is_no_suspect():
    completed = [("1", COMMIT), ("2", DELTA_COMMIT), ("3", REPLACE_COMMIT)]
    assert suspects(completed, ["1", "2", "9"], merge_on_read=True) == ["2"]
    assert suspects(completed, ["1", "2", "9"], merge_on_read=False) == ["1", "2"]
