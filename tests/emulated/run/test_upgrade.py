"""What each release stored is read by the code of today, and its work goes on: tests/data/releases has their worlds."""

from __future__ import annotations

import base64
import shlex

import pytest
from driving.lane import LANE, SimulatedLane
from emulation.pinned_world import Clock
from emulation.recorded_world import FOLDER, LINES, read_in_place, read_world, restore
from emulation.stack import new_stack

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.document import Configuration
from sluice.ledger.keys import CLAIMED, COMMITTED, QUARANTINED
from sluice_cli.main import run

RELEASES = sorted(FOLDER.glob("*.json.gz"))
PARSERS = {
    "config/": Configuration.from_json,
    "_sluice/manifests/": Manifest.from_json,
    "_sluice/outcomes/": Outcome.from_json,
}


@pytest.fixture(params=RELEASES, ids=lambda file: file.name.removesuffix(".json.gz"))
def upgraded(request, monkeypatch, tmp_path):
    """A stack that holds what a release left, and what that was."""
    world, clock = read_world(request.param), Clock()
    clock.pin(monkeypatch)
    (tmp_path / "work").mkdir()
    with new_stack(monkeypatch, tmp_path / "work") as stack:
        restore(world, stack, clock, monkeypatch, tmp_path / "silver")
        read_in_place(monkeypatch, tmp_path / "silver")
        yield stack, world


def documents(world):
    """The texts of a release's documents by key, each with what reads it."""
    for entry in (entry for versions in world["buckets"].values() for entry in versions):
        for prefix, parse in PARSERS.items():
            if entry["key"].startswith(prefix) and entry["key"].endswith(".json"):
                yield entry["key"], parse, base64.b64decode(entry["body"]).decode()


@pytest.mark.parametrize("file", RELEASES, ids=lambda file: file.name.removesuffix(".json.gz"))
def test_documents_of_a_release_keep_every_byte(file):
    texts = list(documents(read_world(file)))
    assert {parse for _, parse, _ in texts} == set(PARSERS.values())
    assert [key for key, parse, text in texts if parse(text).to_json() != text] == []


def test_commands_end_as_they_did_on_the_world_of_a_release(upgraded):
    _, world = upgraded
    assert set(world["exit_codes"]) <= set(LINES)
    assert {line: run(shlex.split(line)) for line in world["exit_codes"]} == world["exit_codes"]


def test_a_run_of_today_takes_over_the_batch_of_a_release_and_merges_what_waits(upgraded):
    stack, world = upgraded
    texts = list(documents(world))
    (configured,) = (parse(text) for key, parse, text in texts if key == "config/tables.json")
    simulated = SimulatedLane(stack.dynamodb, configured, ledger_table="s-ledger")
    simulated.clock.advance(world["now"] - simulated.clock.now_ms())
    for key, _, text in texts:
        name = key if "/manifests/" in key else key.removeprefix("_sluice/outcomes/").removesuffix(".json")
        simulated.documents.stored[name] = text
    ledger = simulated.ledger
    (pointer,) = ledger.batches.unsettled(LANE)
    manifest = simulated.documents.manifest(pointer.s3_key)
    owed = [item.id for name in set(pointer.tables) - pointer.settled_tables for item in manifest.tables[name].objects]
    waiting = [item.id for item in ledger.pending.oldest(LANE, 100)]
    assert owed and waiting and simulated.states(owed) == {CLAIMED: len(owed)}
    dead = ledger.lanes.get(LANE)
    ledger.lanes.lapse(LANE, dead.run_id, world["now"], job_run_id=dead.job_run_id)
    assert simulated.live_on(5) == 0, "no run dies"
    assert simulated.states([*owed, *waiting]) == {COMMITTED: len(owed) + len(waiting)}
    assert set(simulated.tables.times_committed().values()) == {1}
    assert not ledger.batches.unsettled(LANE)
    assert not ledger.pending.oldest(LANE, 1) and list(ledger.objects.in_state(QUARANTINED))
