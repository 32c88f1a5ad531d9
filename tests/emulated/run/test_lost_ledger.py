"""The record that an object was committed lives as long as the object: a lost ledger can be rebuilt from S3."""

import pytest
from driving.lane import LANE, SimulatedLane, configuration
from emulation.ledger_table_schema import create_ledger_table
from support.builders import note_commit

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.lane.machine import LEDGER_LOST, PAUSED
from sluice.objects import ObjectId
from sluice_spark.run.loop import RELEASED

MANIFESTS = "_sluice/manifests/"


@pytest.fixture
def simulated(client):
    return SimulatedLane(client, configuration(linger_s=2))


def rebuilt(listing: list[ObjectId], documents: dict[str, str]) -> dict[ObjectId, tuple[str, str | None]]:
    """State and batch of every listed version by manifests and outcomes alone.

    What no outcome tells of is to be merged: pending.
    """
    states: dict[ObjectId, tuple[str, str | None]] = dict.fromkeys(listing, ("pending", None))
    for text in (text for key, text in documents.items() if key.startswith(MANIFESTS)):
        manifest = Manifest.from_json(text)
        for table, part in manifest.tables.items():
            if (document := documents.get(f"{manifest.batch}/{table}")) is not None:
                bad = {error.object for error in Outcome.from_json(document).quarantined}
                for item in part.objects:
                    states[item.id] = "quarantined" if item.id.hash in bad else "committed", manifest.batch
    return states


def test_a_lost_ledger_can_be_rebuilt_from_listing_manifests_and_outcomes(simulated):
    listing = simulated.put("shop.orders", 3) + simulated.put("shop.customers", 2) + simulated.put("shop.lines", 2)
    simulated.merger.quarantined = frozenset({listing[1]})  # one bad object
    # A part whose objects return, and go into another batch.
    simulated.merger.before["shop.customers"].append(ValueError("once"))
    simulated.merger.no_change = frozenset({"shop.lines"})  # a part without a commit
    simulated.run()
    simulated.clock.advance(simulated.ledger.lanes.get(LANE).due_at - simulated.clock.now_ms())
    simulated.run()
    assert sum(key.startswith(MANIFESTS) for key in simulated.documents.stored) == 2
    late = simulated.put("shop.orders")  # one that no run has seen

    records = simulated.ledger.objects.get(listing + late)
    states = {
        identity: (record.state, record.batch if record.state in ("committed", "quarantined") else None)
        for identity, record in records.items()
    }
    assert rebuilt(listing + late, simulated.documents.stored) == states
    assert {state for state, _ in states.values()} == {"committed", "quarantined", "pending"}


def test_an_empty_ledger_beside_manifests_pauses_its_lane(simulated):
    simulated.put("shop.orders", 2)
    simulated.run()
    create_ledger_table(simulated._client, "empty")
    lost = SimulatedLane(simulated._client, configuration(), ledger_table="empty")
    lost.documents = simulated.documents
    again = lost.put("shop.orders", 2)
    assert lost.run().how == RELEASED
    lane = lost.ledger.lanes.get(LANE)
    assert (lane.state, lane.reason) == (PAUSED, LEDGER_LOST)
    assert lost.states(again) == {"pending": 2} and lost.merger.calls == []
    assert len(lost.events("ledger_lost")) == 1
    lost.ledger.lanes.resume(LANE)
    lost.run()
    assert lost.states(again) == {"committed": 2}


def test_a_ledger_that_knows_of_its_manifests_pauses_no_lane(simulated):
    simulated.put("shop.orders", 2)
    dying = simulated.start()
    simulated.merger.before["shop.orders"].append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):  # its manifest is there before anything is committed
        simulated.loop(dying).run()
    simulated.lapse(dying)
    assert simulated.run().batches == 1
    create_ledger_table(simulated._client, "rebuilt")
    rebuilt_lane = SimulatedLane(simulated._client, configuration(), ledger_table="rebuilt")
    rebuilt_lane.documents = simulated.documents
    (outcome,) = [text for key, text in simulated.documents.stored.items() if "manifests/" not in key]
    note_commit(rebuilt_lane.ledger, Outcome.from_json(outcome), {})
    more = rebuilt_lane.put("shop.orders")
    rebuilt_lane.run()
    assert rebuilt_lane.states(more) == {"committed": 1}
