"""How MiniStack lists the versions of objects whose keys XML can't hold."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest
from ministack.services import s3

from sluice_local.emulators.ministack_program import encode_keys

KEY = "a\x1b[31m\x01/b+ü%41.avro"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket with one object."""
    held = {"objects": {KEY: {"last_modified": "2026-05-01T00:00:00Z", "etag": '"e"', "size": 1}}}
    monkeypatch.setattr(s3, "_ensure_bucket", lambda name: held)
    monkeypatch.setattr(s3, "_list_object_versions", s3._list_object_versions)  # for the end of the test
    monkeypatch.setattr(s3, "_xml_body", s3._xml_body)
    encode_keys(s3)
    return "held-by-the-test"


def test_keys_are_encoded_for_a_client_that_asks_for_it(bucket: str) -> None:
    listing = fromstring(s3._list_object_versions(bucket, {"encoding-type": ["url"]})[2])
    namespace = listing.tag.removesuffix("ListVersionsResult")
    key = listing.find(f"{namespace}Version/{namespace}Key")
    assert key is not None and key.text == "a%1B%5B31m%01/b%2B%C3%BC%2541.avro"
    assert listing.findtext(f"{namespace}EncodingType") == "url"
