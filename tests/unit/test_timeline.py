"""The timeline without a JVM: instants by their files' names, commits by their content, both of tables that Spark wrote."""
import pytest
from emulated_aws import emulated_aws
from silver_tables import SILVER, put_tables

from sluice.timeline import COMPACTION, COMPLETED, INFLIGHT, REQUESTED, Commit, Instant, Timeline, UnreadableCommit, instant_of
from sluice_aws.timeline import NoSuchCommit, TimelineReader


@pytest.fixture(scope="module")
def reader():
    with emulated_aws():
        yield TimelineReader(put_tables(), SILVER)


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
    assert [instant_of(name) for name in ("hoodie.properties", "20240501.commit", "x20240501101500123.commit", "20240501101500123", "")] == [None] * 5


def test_an_instant_is_told_once_in_its_furthest_state_and_a_compaction_becomes_a_commit():
    timeline = Timeline.of([
        "20240501101500001.deltacommit", "20240501101500001.deltacommit.requested", "20240501101500001.deltacommit.inflight",
        "20240501101500002.compaction.requested", "20240501101500002.compaction.inflight", "20240501101500002.commit",
        "20240501101500003.compaction.requested", "20240501101500004.clean", "hoodie.properties",
    ])
    assert [(instant.time[-1], instant.action, instant.state) for instant in timeline.instants] == [
        ("1", "deltacommit", COMPLETED), ("2", "commit", COMPLETED), ("3", COMPACTION, REQUESTED), ("4", "clean", COMPLETED)]
    assert timeline.newest.time[-1] == "2"
    assert [instant.time[-1] for instant in timeline.pending] == ["3"]


def test_a_timeline_that_spark_wrote_is_read_in_order_and_from_an_instant_on(reader):
    whole = reader.timeline("moma.works")
    assert [instant.action for instant in whole.commits] == ["deltacommit"] * 3
    second = whole.commits[1]
    part = reader.timeline("moma.works", since=second.time)
    assert part.commits == whole.commits[1:]
    assert part.holds(second.time) and part.after(second.time) == whole.commits[2:]
    assert reader.timeline("moma.nothing") == Timeline()


def test_a_commit_says_its_operation_schema_batch_partitions_and_files(reader):
    newest = reader.timeline("moma.artists").newest
    commit = reader.commit("moma.artists", newest)
    assert (commit.operation, commit.extra["sluice.table"], commit.compacted) == ("UPSERT", "moma.artists", False)
    assert '"_sluice_position"' in commit.schema
    assert commit.partitions == {"nationality=German", "nationality=American", "nationality=__HIVE_DEFAULT_PARTITION__"}
    (german,) = [file for file in commit.files if file.partition == "nationality=German"]
    assert (german.rows, german.inserts, german.updates, german.deletes, german.log) == (2, 1, 1, 1, False)
    assert german.previous == reader.timeline("moma.artists").commits[0].time
    assert reader.commit("moma.artists", newest) is commit


def test_log_files_are_told_from_base_files(reader):
    commit = reader.commit("moma.works", reader.timeline("moma.works").newest)
    assert {file.path.rsplit('/', 1)[-1].startswith('.'): file.log for file in commit.files} == {True: True, False: False}


def test_a_commit_that_was_archived_meanwhile_is_said_to_be_gone(reader):
    with pytest.raises(NoSuchCommit):
        reader.commit("moma.works", Instant("20200101000000000", "deltacommit", COMPLETED))


def test_a_commit_that_is_no_json_is_refused_and_an_empty_one_says_nothing():
    instant = Instant("20240501101500123", "commit", COMPLETED)
    assert Commit.of(instant, b"") == Commit("", "")
    for damaged in (b"{", b"[]", b'{"partitionToWriteStats": {"": [7]}}'):
        with pytest.raises(UnreadableCommit):
            Commit.of(instant, damaged)


def test_partitions_that_a_commit_leaves_empty_are_told_and_those_it_wrote_are_not():
    instant = Instant("20240501101500123", "replacecommit", COMPLETED)
    body = '{"operationType": "%s", "partitionToWriteStats": {"a=1": []}, "partitionToReplaceFileIds": {"a=1": ["f"], "a=2": ["g"]}}'
    assert Commit.of(instant, (body % "INSERT_OVERWRITE_TABLE").encode()).emptied == {"a=2"}
    assert Commit.of(instant, (body % "CLUSTER").encode()).emptied == frozenset()


def test_partition_folders_are_listed_at_every_level(reader):
    assert list(reader.partition_paths("moma.artists", ("nationality",))) == [
        "nationality=American", "nationality=Côte%2Fd Ivoire%3Dx", "nationality=German", "nationality=__HIVE_DEFAULT_PARTITION__"]
    assert list(reader.partition_paths("crm.user", ("a", "b"))) == []


def test_a_tables_properties_are_read_as_java_writes_them(reader):
    found = reader.properties("moma.artists")
    assert (found["hoodie.table.name"], found["hoodie.table.version"]) == ("artists", "6")
    assert reader.properties("moma.nothing") is None
