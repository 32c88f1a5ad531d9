"""One object version has one identity in notices and listings."""

import pytest

from sluice.errors import UnidentifiedObject
from sluice.objects import ObjectId, identify


def test_a_version_id_identifies_and_the_etag_does_not_matter():
    assert identify("b", "k", "v1", "e1") == identify("b", "k", "v1", '"e2"') == ObjectId("b", "k", "v1")


def test_the_version_called_null_is_a_version():
    assert identify("b", "k", "null", "e").version == "null"


@pytest.mark.parametrize("etag", ["abc-2", '"abc-2"'])
def test_without_a_version_the_etag_identifies_with_or_without_its_quotes(etag):
    identity = identify("b", "k", None, etag)
    assert (identity.version, identity.version_id, identity.etag) == ("etag:abc-2", None, "abc-2")


def test_a_listing_of_an_unversioned_bucket_agrees_with_its_notices():
    assert identify("b", "k", "null", '"e"', bucket_versioned=False) == identify("b", "k", None, "e")


def test_an_object_with_neither_version_nor_etag_is_refused():
    for version, etag in ((None, None), ("", ""), (None, '""')):
        with pytest.raises(UnidentifiedObject):
            identify("b", "k", version, etag)


@pytest.mark.parametrize("bucket, key", [("", "k"), ("b", ""), ("b", "é" * 513)])
def test_what_s3_could_not_hold_is_refused(bucket, key):
    with pytest.raises(UnidentifiedObject):
        identify(bucket, key, "v", None)


def test_the_hash_is_the_same_in_every_release():
    assert ObjectId("b", "topics/é", "v").hash == "3cf6412f78c91e9388fd07e5072b73bf"


def test_a_row_names_its_object_by_bucket_key_and_version():
    assert ObjectId("b", "a/k", "v").lineage == "b/a/k?versionId=v"
