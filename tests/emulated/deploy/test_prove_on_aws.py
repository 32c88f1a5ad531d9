"""The proof on AWS: what its record says and hides, and that it removes nothing of others."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest
from judging.fixture_sets import find_set

from sluice_cli.terminal.stack import chosen_target
from tools import prove_on_aws
from tools.prove_on_aws import Proof, Unshown, Wrong, record, remove


@pytest.fixture
def proof(stack):
    return Proof(chosen_target("s"), find_set("tickit_small", {}))


def fails(proof):
    raise Wrong(f"s3://{proof.target.bronze}/k of 123456789012 | is gone")


def is_not_here(proof):
    raise Unshown("no emulator has it")


def test_a_record_says_what_failed_and_what_it_cannot_show_without_names(proof):
    for name, step in (("a", lambda _: "seen"), ("b", fails), ("c", is_not_here)):
        proof.run(name, step)
    text = record(proof, dt.datetime(2026, 5, 1, tzinfo=dt.timezone.utc))
    assert "Failed: b." in text and "Not shown here: c: no emulator has it." in text
    assert "| a | passed | 0 | seen |" in text and "s3://NAME/k of ACCOUNT / is gone" in text


def test_only_what_is_of_the_stack_is_removed(tmp_path, monkeypatch):
    record_file = tmp_path / "proof.json"
    monkeypatch.setattr(prove_on_aws, "KEPT", record_file)
    record_file.write_text(json.dumps({"buckets": ["sluice-proof-silver", "lake"], "ledger": "sluice-proof-ledger"}))
    with pytest.raises(Wrong, match="lake is not of the stack sluice-proof"):
        remove("sluice-proof")
    assert record_file.exists()


def test_every_record_is_listed_and_has_no_account():
    folder = prove_on_aws.ROOT / "docs" / "proven"
    page = (folder / "index.md").read_text(encoding="utf-8")
    for file in folder.glob("20*.md"):
        text = file.read_text(encoding="utf-8")
        assert f"]({file.name})" in page and not re.search(r"\d{12}\b", text.partition("|")[2])
