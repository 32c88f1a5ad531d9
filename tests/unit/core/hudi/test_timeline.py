"""The timeline without a JVM: instants from file names, commits from their content."""

import pytest

from sluice.errors import UnreadableCommit
from sluice.hudi.timeline import COMPACTION, COMPLETED, INFLIGHT, REQUESTED, Commit, Instant, Timeline, instant_of


def test_every_file_of_an_instant_is_known_by_its_name_and_named_so_again():
    for name, instant in {
        "20240501101500123.commit": Instant("20240501101500123", "commit", COMPLETED),
        "20240501101500123.inflight": Instant("20240501101500123", "commit", INFLIGHT),
        "20240501101500123.commit.requested": Instant("20240501101500123", "commit", REQUESTED),
        "20240501101500123.deltacommit.inflight": Instant("20240501101500123", "deltacommit", INFLIGHT),
        "20240501101500123.compaction.requested": Instant("20240501101500123", COMPACTION, REQUESTED),
        "20240501101500.replacecommit": Instant("20240501101500", "replacecommit", COMPLETED),
    }.items():
        assert (instant_of(name), instant.file) == (instant, name)


def test_what_is_no_instant_is_left_out():
    names = ("hoodie.properties", "20240501.commit", "x20240501101500123.commit", "20240501101500123", "")
    assert [instant_of(name) for name in names] == [None] * 5


def test_an_instant_is_listed_once_in_its_latest_state_and_a_compaction_as_a_commit():
    names = "1.deltacommit 1.deltacommit.requested 1.deltacommit.inflight 2.compaction.requested 2.compaction.inflight"
    names += " 2.commit 3.compaction.requested 4.clean"
    timeline = Timeline.of([*(f"2024050110150000{name}" for name in names.split()), "hoodie.properties"])
    assert [(instant.time[-1], instant.action, instant.state) for instant in timeline.instants] == [
        ("1", "deltacommit", COMPLETED),
        ("2", "commit", COMPLETED),
        ("3", COMPACTION, REQUESTED),
        ("4", "clean", COMPLETED),
    ]
    assert timeline.newest.time[-1] == "2"
    assert [instant.time[-1] for instant in timeline.pending] == ["3"]


def test_a_commit_that_is_not_json_is_refused_and_an_empty_one_is_empty():
    instant = Instant("20240501101500123", "commit", COMPLETED)
    assert Commit.of(instant, b"") == Commit("", "")
    for damaged in (b"{", b"[]", b'{"partitionToWriteStats": {"": [7]}}'):
        with pytest.raises(UnreadableCommit):
            Commit.of(instant, damaged)


def test_only_partitions_that_a_commit_empties_are_listed():
    instant = Instant("20240501101500123", "replacecommit", COMPLETED)
    body = (
        '{"operationType": "%s", "partitionToWriteStats": {"a=1": []}, "partitionToReplaceFileIds": {"a=1": '
        '["f"], "a=2": ["g"]}}'
    )
    assert Commit.of(instant, (body % "INSERT_OVERWRITE_TABLE").encode()).emptied == {"a=2"}
    assert Commit.of(instant, (body % "CLUSTER").encode()).emptied == frozenset()


@pytest.mark.parametrize(
    ("active", "lost"), [(["1", "2"], True), ([], True), (["1", "3"], False), (["4", "5"], False)], ids=str
)
def test_a_commit_is_gone_where_it_is_neither_active_nor_archived(active, lost):
    timeline = Timeline.of([f"2024050110150000{number}.commit" for number in active])
    assert timeline.lacks("20240501101500003") is lost
