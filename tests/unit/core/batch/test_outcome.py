"""Outcomes: reading returns what this or an older release wrote, and refuses anything else."""

from __future__ import annotations

import json

import pytest

from sluice.batch.outcome import COMMITTED, ObjectError, Outcome, Stage
from sluice.errors import UnreadableManifest


def test_an_outcome_is_read_back_as_it_was():
    errors = (ObjectError("h", "corrupt", "why"),)
    written = Outcome("b-1", "shop.a", COMMITTED, 7, "20260101000000000", False, {"read": 3}, errors)
    read = Outcome.from_json(written.to_json())
    assert read == written and dict(read.counts) == {"read": 3}
    assert ObjectError.from_json(written.quarantined[0].to_json()) == written.quarantined[0]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "tables": {"t": {}}}']
)
def test_what_is_no_outcome_is_refused_as_such(text):
    with pytest.raises(UnreadableManifest):
        Outcome.from_json(text)


def test_an_error_record_that_is_cut_off_is_refused():
    with pytest.raises(UnreadableManifest):
        ObjectError.from_json(json.dumps({"object": "h"}))


def test_an_outcome_keeps_its_stages_and_one_of_an_older_release_has_none():
    stages = (Stage("read", 10, 20), Stage("commit", 30, 40), Stage("housekeeping", 70, 15))
    written = Outcome("b-1", "shop.a", COMMITTED, 90, "20260101000000000", stages=stages)
    assert Outcome.from_json(written.to_json()) == written
    assert written.readable_at == 70
    older = json.loads(written.to_json())
    del older["stages"]
    assert Outcome.from_json(json.dumps(older)).readable_at == 90
