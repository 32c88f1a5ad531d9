"""Manifests: the same claim has the same id and bytes, and reading returns what was written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.batch.manifest import Manifest, ManifestObject, TablePart, batch_id, open_manifest
from sluice.config.table import TableConfig
from sluice.errors import UnreadableManifest
from sluice.objects import ObjectId

CONFIG = TableConfig("shop.a", "shop", "a", topic="t", record_key=("id",), hudi={"x": "y"})


def an_object(n, key="topics/t/ü +%.avro"):
    return ManifestObject("bronze", key, f"v{n}", 10 + n, "f" * 32, "avro", "t", 0, n, 1_000 + n)


def a_manifest(*numbers, lane="main"):
    part = TablePart(CONFIG.to_dict(), tuple(an_object(n) for n in numbers))
    return open_manifest(lane, "run-1", 5, "c1", {"shop.a": part})


def test_a_batch_id_depends_on_the_lane_and_the_objects_and_not_on_their_order():
    assert a_manifest(1, 2).batch == a_manifest(2, 1).batch
    assert len({a_manifest(1, 2).batch, a_manifest(1).batch, a_manifest(1, 2, lane="big").batch}) == 3
    assert batch_id("main", [ObjectId("b", "k", "v")]).startswith("b-") and len(a_manifest(1).batch) == 34


def test_a_manifest_is_read_back_unchanged_with_its_pinned_configuration():
    written = a_manifest(1, 2)
    read = Manifest.from_json(written.to_json())
    assert read == written and read.to_json() == written.to_json()
    assert read.tables["shop.a"].objects == written.tables["shop.a"].objects
    assert read.tables["shop.a"].table_config == CONFIG
    assert read.tables["shop.a"].bytes == 23


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The manifest is not JSON"),
        ("[]", "This is not a manifest: it has no format"),
        ("{}", "This is not a manifest: it has no format"),
        ('{"format": 2}', "The manifest has format 2, this release reads 1"),
        ('{"format": 1}', "The manifest's batch is missing"),
        ('{"format": 1, "batch": "b", "lane": 5}', "The manifest's lane is not text"),
        (a_manifest(1).to_json().replace('"config"', '"x"'), "The manifest lacks a field, or has one of another type"),
    ],
)
def test_what_is_no_manifest_is_refused_in_words(text, said):
    with pytest.raises(UnreadableManifest) as refused:
        Manifest.from_json(text)
    assert refused.value.message == said


def test_the_same_objects_taken_back_in_are_another_batch():
    parts = (TablePart(CONFIG.to_dict(), (replace(an_object(1), attempt=attempt),)) for attempt in (0, 1))
    first, again = (open_manifest("main", "r", 1, "c", {"shop.a": part}) for part in parts)
    assert Manifest.from_json(first.to_json()).batch != again.batch
    assert Manifest.from_json(again.to_json()).objects[0].attempt == 1
