"""Every object that waits for a person is in the index by its state, however it came into that state."""

from __future__ import annotations

import pytest
from emulation.merged_stack import TABLE, Merged
from emulation.stack import NOW

from sluice.batch.outcome import COMMITTED, ObjectError, Outcome, RowErrorCount
from sluice.errors import SluiceError
from sluice.ledger import keys as items


@pytest.mark.parametrize("state", [items.PARKED, items.QUARANTINED, items.IGNORED])
def test_an_object_that_admission_sets_aside_is_listed(stack, state):
    identity = stack.admit(stack.write("a"), state)
    assert [record.id for record in stack.ledger.objects.in_state(state)] == [identity]


def test_objects_that_a_batch_sets_aside_are_listed(stack):
    merged = Merged(stack)
    bad, parks, holed, good = (stack.admit(stack.write(name)) for name in ("bad", "parks", "holed", "good"))
    batch = merged.opened(bad, parks, holed, good)
    outcome = Outcome(
        batch,
        TABLE,
        COMMITTED,
        NOW,
        instant="20240501101500002",
        quarantined=(ObjectError(bad.hash, "corrupt", "cut off"),),
        quarantined_rows=(RowErrorCount(holed.hash, 2, {"no_key": 2}),),
        parked=(ObjectError(parks.hash, "log_restarted", "fell"),),
        parked_generation=0,
    )
    assert stack.ledger.batches.settle("main", batch, outcome, [bad, parks, holed, good], "run-1", NOW)
    objects = stack.ledger.objects
    assert [record.id for record in objects.in_state(items.QUARANTINED)] == [bad]
    assert [record.id for record in objects.in_state(items.PARKED)] == [parks]
    assert [record.id for record in stack.ledger.quarantine.objects_with_rows()] == [holed]


def test_every_object_of_a_part_that_is_quarantined_whole_is_listed(stack):
    merged = Merged(stack)
    ids = [stack.admit(stack.write(name)) for name in "ab"]
    batch = merged.opened(*ids)
    outcome = Outcome.set_aside(batch, TABLE, ids, SluiceError("kills its run"), NOW)
    assert stack.ledger.batches.settle("main", batch, outcome, ids, "run-1", NOW)
    assert {record.id for record in stack.ledger.objects.in_state(items.QUARANTINED)} == set(ids)
