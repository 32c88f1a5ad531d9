"""The record that an object was committed lives as long as the object: what S3 holds is enough to rebuild a lost ledger."""

from __future__ import annotations

import pytest
from driving.world import LANE, World, configuration, emulated_dynamodb

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.objects import ObjectId

MANIFESTS = "_sluice/manifests/"


@pytest.fixture()
def world():
    with emulated_dynamodb() as client:
        yield World(client, configuration(linger_s=2))


def rebuilt(listing: list[ObjectId], documents: dict[str, str]) -> dict[ObjectId, tuple[str, str | None]]:
    """State and batch of every listed version by manifests and outcomes alone. What no outcome tells of is to be merged: pending."""
    found: dict[ObjectId, tuple[str, str | None]] = dict.fromkeys(listing, ("pending", None))
    for text in (text for key, text in documents.items() if key.startswith(MANIFESTS)):
        manifest = Manifest.from_json(text)
        for table, part in manifest.tables.items():
            outcome = (
                Outcome.from_json(documents[f"{manifest.batch}/{table}"])
                if f"{manifest.batch}/{table}" in documents
                else None
            )
            if outcome is not None:
                bad = {error.object for error in outcome.quarantined}
                found.update(
                    {
                        item.id: ("quarantined" if item.id.hash in bad else "committed", manifest.batch)
                        for item in part.objects
                    }
                )
    return found


def test_a_lost_ledger_can_be_rebuilt_from_listing_manifests_and_outcomes(world):
    orders, customers, lines = world.put("shop.orders", 3), world.put("shop.customers", 2), world.put("shop.lines", 2)
    listing = orders + customers + lines
    world.merger.quarantined = frozenset({orders[1]})  # one bad object
    world.merger.before["shop.customers"].append(
        ValueError("once")
    )  # a part whose objects return, and go into another batch
    world.merger.no_change = frozenset({"shop.lines"})  # a part without a commit
    world.run()
    world.clock.advance(world.ledger.lane(LANE).due_at - world.clock.now_ms())
    world.run()
    assert sum(key.startswith(MANIFESTS) for key in world.documents.stored) == 2
    late = world.put("shop.orders")  # one that no run has seen

    records = world.ledger.get_objects(listing + late)
    states = {
        identity: (record.state, record.batch if record.state in ("committed", "quarantined") else None)
        for identity, record in records.items()
    }
    assert rebuilt(listing + late, world.documents.stored) == states
    assert {state for state, _ in states.values()} == {"committed", "quarantined", "pending"}
