"""The newer merged version of an entry in quarantine."""

from dataclasses import replace

import pytest

from sluice.ledger.keys import CLAIMED, COMMITTED, QUARANTINED, SUPERSEDED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.ingest.newer_versions import COMPARED, newer_merged


def version(name, state, sequencer=None, admitted_at=0):
    return ObjectRecord(ObjectId("b", "k", name), state, admitted_at, sequencer=sequencer)


def unasked(identity):
    raise AssertionError(f"S3 was asked for the time of {identity}")


def test_sequencers_are_compared_as_s3_documents_it():
    bad = version("bad", QUARANTINED, "00A")
    for sequencer, newer in (("00B", True), ("00A1", True), ("009FF", False), ("00A", False), ("00a0", False)):
        other = version("other", COMMITTED, sequencer)
        assert (newer_merged(bad, [other, bad], unasked) == other) is newer, sequencer


def test_only_a_merged_version_counts():
    bad = version("bad", QUARANTINED, "1")
    assert newer_merged(bad, [version("a", CLAIMED, "2"), version("b", QUARANTINED, "3")], unasked) is None
    merged = [version("a", COMMITTED, "2"), version("b", COMMITTED, "3")]
    assert newer_merged(bad, merged, unasked) == merged[1]


def test_a_superseded_version_counts_by_the_merged_version_that_has_its_bytes():
    bad = version("bad", QUARANTINED, "2")
    first = replace(version("first", COMMITTED, "1"), etag="e", size=3)
    again = replace(version("again", SUPERSEDED, "3"), etag="e", size=3)
    assert newer_merged(bad, [first, bad, again], unasked) == again
    assert newer_merged(bad, [replace(first, state=CLAIMED), bad, again], unasked) is None, "it is merged again"
    assert newer_merged(bad, [replace(first, size=4), bad, again], unasked) is None
    assert newer_merged(bad, [bad, again], unasked) is None, "what is gone can't be compared"


def test_the_bytes_of_an_entry_uploaded_again_leave_its_rows_missing():
    entry = replace(version("entry", COMMITTED, "1"), etag="e", size=3, quarantined_rows=2)
    again = replace(version("again", SUPERSEDED, "2"), etag="e", size=3)
    assert newer_merged(entry, [entry, again], unasked) is None
    assert newer_merged(version("bad", QUARANTINED, "0"), [entry, again], unasked) is None


@pytest.mark.parametrize("lacks", ["quarantined_rows", "discarded_rows"])
def test_a_newer_version_without_all_its_rows_is_not_merged(lacks):
    holed = replace(version("holed", COMMITTED, "2"), **{lacks: 1})
    assert newer_merged(version("bad", QUARANTINED, "1"), [holed], unasked) is None


def test_the_times_in_s3_count_for_versions_that_a_listing_found():
    bad = version("bad", QUARANTINED, admitted_at=9)
    merged = [version("new", COMMITTED, "1", admitted_at=1), version("old", COMMITTED, admitted_at=10)]
    times = {"bad": 2_000, "old": 1_000, "new": 3_000}
    assert newer_merged(bad, merged, lambda identity: times[identity.version]) == merged[0]
    assert newer_merged(bad, merged[1:], lambda identity: times[identity.version]) is None
    assert newer_merged(bad, merged, lambda identity: None) is None, "what is gone can't be compared"


def test_few_versions_of_a_key_are_asked_of_s3():
    asked = []
    merged = [version(str(number), COMMITTED) for number in range(50)]
    assert newer_merged(version("bad", QUARANTINED), merged, lambda identity: asked.append(identity) or 5) is None
    assert len(asked) == COMPARED + 1
