"""Manifests and outcomes: the same claim has the same id and bytes, and what is written is read back."""
from __future__ import annotations

import json

import pytest

from sluice import manifest as m
from sluice.identity import ObjectId
from sluice.table_config import TableConfig

CONFIG = TableConfig("shop.a", "shop", "a", topic="t", record_key=("id",), hudi={"x": "y"})


def an_object(n, key="topics/t/ü +%.avro"):
    return m.ManifestObject("bronze", key, f"v{n}", 10 + n, "f" * 32, "avro", "t", 0, n, 1_000 + n)


def a_manifest(*numbers, lane="main"):
    return m.open_manifest(lane, "run-1", 5, "c1", {"shop.a": m.TablePart(CONFIG.to_dict(), tuple(an_object(n) for n in numbers))})


def test_a_batch_id_depends_on_the_lane_and_the_objects_and_not_on_their_order():
    assert a_manifest(1, 2).batch == a_manifest(2, 1).batch
    assert len({a_manifest(1, 2).batch, a_manifest(1).batch, a_manifest(1, 2, lane="big").batch}) == 3
    assert m.batch_id("main", [ObjectId("b", "k", "v")]).startswith("b-") and len(a_manifest(1).batch) == 34


def test_a_manifest_is_read_back_as_it_was_with_the_configuration_it_was_claimed_under():
    written = a_manifest(1, 2)
    read = m.Manifest.from_json(written.to_json())
    assert read == written and read.to_json() == written.to_json()
    assert read.tables["shop.a"].objects == written.tables["shop.a"].objects
    assert read.tables["shop.a"].table_config == CONFIG
    assert read.tables["shop.a"].bytes == 23


def test_an_outcome_is_read_back_as_it_was():
    written = m.Outcome("b-1", "shop.a", m.COMMITTED, 7, "20260101000000000", False, {"read": 3}, (m.ObjectError("h", "corrupt", "why"),))
    read = m.Outcome.from_json(written.to_json())
    assert read == written and dict(read.counts) == {"read": 3}
    assert m.ObjectError.from_json(written.quarantined[0].to_json()) == written.quarantined[0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "tables": {"t": {}}}'])
def test_what_is_no_manifest_or_outcome_is_refused_as_such(text):
    with pytest.raises(m.UnreadableManifest):
        m.Manifest.from_json(text)
    with pytest.raises(m.UnreadableManifest):
        m.Outcome.from_json(text)


def test_an_error_record_that_is_cut_off_is_refused():
    with pytest.raises(m.UnreadableManifest):
        m.ObjectError.from_json(json.dumps({"object": "h"}))


def test_everything_of_a_batch_lies_under_its_own_name():
    assert m.manifest_key("main", "b-1") == "_sluice/manifests/main/b-1.json"
    assert m.outcome_key("b-1", "shop.a") == "_sluice/outcomes/b-1/shop.a.json"
    assert m.error_key("b-1", "shop.a", "h").startswith(m.error_prefix("b-1", "shop.a"))
    assert m.schema_key("f") == "_sluice/schemas/f.avsc"


def test_an_outcome_keeps_where_the_time_went_and_one_of_an_older_release_has_no_stages():
    written = m.Outcome("b-1", "shop.a", m.COMMITTED, 90, "20260101000000000", stages=(m.Stage("read", 10, 20), m.Stage("commit", 30, 40), m.Stage("housekeeping", 70, 15)))
    assert m.Outcome.from_json(written.to_json()) == written
    assert written.readable_at == 70
    older = json.loads(written.to_json())
    del older["stages"]
    assert m.Outcome.from_json(json.dumps(older)).readable_at == 90
