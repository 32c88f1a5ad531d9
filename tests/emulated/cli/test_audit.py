"""`sluice audit`: each object version is accounted for, each contradiction is found, unknown objects are admitted."""

from functools import partialmethod
from unittest.mock import Mock

import pytest
from emulation.merged_stack import BREAKAGES, TABLE, instant, merged_stack
from emulation.stack import NOW, cloudformation
from support.builders import avro_object, change, flattened

from sluice.ledger import keys as items
from sluice.ledger.audit import CONTRADICTIONS
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.past_batches import PastBatches
from sluice_aws.s3.timelines import TimelineReader


@pytest.fixture
def merged(stack):
    """A stack with two commits after an archived one, a batch without a change, and objects in other states."""
    return merged_stack(stack)


def codes(document):
    return {contradiction["code"] for contradiction in document["contradictions"]}


def test_every_version_is_listed_with_its_commit_or_the_reason_why_not(merged, sluice):
    document = sluice.json("audit --objects")
    assert document["clean"] and document["contradictions"] == []
    assert document["objects"] == {"committed": 5, "parked": 1, "pending": 1, "quarantined": 1, "too_young": 1}
    assert document["committed"] == {"active": 3, "archived": 1, "no_change": 1}
    by_key = {entry["key"]: entry for entry in document["object_versions"]}
    assert (by_key["a"]["table"], by_key["a"]["batch"], by_key["a"]["instant"]) == (TABLE, merged.batch, instant(2))
    assert (by_key["old"]["place"], by_key["again"]["place"]) == ("archived", "no_change")
    assert (by_key["bad"]["state"], by_key["bad"]["reason"]) == ("quarantined", "corrupt")
    assert by_key["aside"]["reason"] == "no table takes its topic"
    assert sluice("audit").out.splitlines() == [
        "9 object versions: 5 committed, 1 parked, 1 pending, 1 quarantined, 1 too new to be in the ledger (too_young)",
        "committed: 3 in active commits, 1 in archived commits, 1 without a change",
        "4 outcomes of batches compared with the timelines of their tables",
        "no contradiction",
    ]
    out = sluice("audit --prefix a --objects").out
    assert "3 object versions: 2 committed, 1 parked" in out and "no contradiction" in out
    assert f"a\t{merged.first.version}\tcommitted\t{TABLE}\t{merged.batch}\t{instant(2)}\tactive\t-" in out


@pytest.mark.parametrize("code", BREAKAGES)
def test_a_contradiction_is_found_with_its_next_step(merged, sluice, code):
    BREAKAGES[code](merged)
    document = sluice.json("audit", code=1)
    entries = [entry for entry in document["contradictions"] if entry["code"] == code]
    assert entries and all(entry["next_step"] for entry in entries) and not document["clean"]
    out = sluice("audit", code=1).out
    assert f"{CONTRADICTIONS[code][0]}: {len(entries)} ({code})\n" in out and "\n  next step: " in out
    assert "TABLE" not in out or len({entry["table"] for entry in entries}) > 1 or entries[0]["table"] is None


def test_an_object_in_two_batches_contradicts_nothing_else(merged, sluice):
    merged.commit_again(merged.first)
    assert codes(sluice.json("audit", code=1)) == {"two_batches"}


@pytest.fixture
def unannounced(merged, tables, sluice):
    """A change object that no notice announced, and one that the ledger lost though a batch merged it."""
    sluice("config push", tables("tables:\n  - {topic: crm.public.user, table: crm.user, record_key: id}\n"))
    merged.lose_record(merged.first)
    body = avro_object(flattened({"id": "long"}), [change(id=1)])
    key = "topics/crm.public.user/partition=0/crm.public.user+0+0000000001.avro"
    cloudformation().parameters = {"ReconcileGraceSeconds": "0"}
    merged.remove_version("new")
    return merged.stack.write(key, body)


def test_repair_admits_what_no_notice_announced_and_leaves_what_a_batch_merged(merged, unannounced, invoked, sluice):
    assert codes(sluice.json("audit", code=1)) == {"unknown_object", "lost_record"} and invoked == []
    ledger = merged.stack.ledger
    arrivals = ledger.lanes.get("main").arrivals
    out = sluice("audit --repair", code=1).out
    assert f"repaired: {unannounced.key} is pending" in out
    assert "but not in the ledger: 1 (lost_record)\n" in out and "unknown_object" not in out
    assert merged.first not in ledger.objects.get([merged.first])
    assert ledger.lanes.get("main").arrivals == arrivals + 1 and invoked == [("s-supervise", "Event")]
    assert sluice.json("audit --repair", code=1)["repaired"] == [] and len(invoked) == 1


def test_an_object_that_cannot_be_admitted_stays_a_contradiction(merged, unannounced, invoked, monkeypatch, sluice):
    monkeypatch.setattr(Objects, "head_bytes", Mock(side_effect=ConnectionError("no route")))
    assert codes(sluice.json("audit --repair", code=1)) == {"unknown_object", "lost_record"} and invoked == []


def test_a_batch_that_is_merged_during_the_audit_contradicts_nothing(merged, monkeypatch, sluice):
    newest, timeline = PastBatches.newest, TimelineReader.timeline
    begun, listed = [], []

    def then_opened(self, **how):
        yield from newest(self, **how)
        identity = merged.stack.admit(merged.stack.write("late"))
        begun.append((merged.opened(identity), identity))

    def then_committed(self, table, **how):
        read = timeline(self, table, **how)
        listed.append(len(read.commits))
        while begun:
            batch, identity = begun.pop()
            merged.commit_file(5, batch)
            merged.settled(batch, identity, at=5)
        return read

    monkeypatch.setattr(PastBatches, "newest", then_opened)
    monkeypatch.setattr(TimelineReader, "timeline", then_committed)
    monkeypatch.setattr(Objects, "version_page", partialmethod(Objects.version_page, page_size=2))
    assert sluice.json("audit")["committed"]["active"] == 4
    assert listed == [3, 4]  # the timeline is read again for the batch that came after it


def test_a_batch_that_is_opened_between_two_pages_contradicts_nothing(merged, monkeypatch, sluice):
    page = Objects.version_page
    opened = []

    def then_opened(self, bucket, marker, prefix):
        versions = page(self, bucket, marker, page_size=2)
        if marker is not None and not opened:
            opened.append(merged.opened(merged.stack.admit(merged.stack.write("zz"))))
        return versions

    monkeypatch.setattr(Objects, "version_page", then_opened)
    assert sluice.json("audit")["objects"]["claimed"] == 1


def abandon(merged, identity):
    """A claim whose batch is not open, and has neither outcome nor pointer."""
    batch = merged.opened(identity)
    merged.lose_item(items.manifest_pointer_key("main", batch))
    return batch


def test_repair_ends_an_abandoned_claim_by_its_batchs_outcome(merged, invoked, sluice):
    merged.edit(merged.bad, state="claimed")
    assert "repaired: bad is quarantined" in sluice("audit --repair").out
    assert merged.stack.ledger.objects.get([merged.bad])[merged.bad].code == "corrupt"
    sluice("audit --json")


def test_repair_makes_an_object_pending_again_whose_claim_no_outcome_ended(merged, invoked, sluice):
    waits = merged.stack.admit(merged.stack.write("late"))
    batch = abandon(merged, waits)
    assert "`sluice audit --repair` ends the claim" in sluice("audit", code=1).out
    assert "repaired: late is pending" in sluice("audit --repair").out and invoked == [("s-supervise", "Event")]
    again = merged.stack.ledger.objects.get([waits])[waits]
    assert (again.state, again.batch, again.attempt) == ("pending", None, 1)
    (listed,) = [item for item in merged.stack.ledger.pending.oldest("main", 10) if item.id == waits]
    assert listed.attempt == 1
    assert merged.opened(waits, attempt=1) != batch  # a batch of its own, that can be opened


def test_repair_lists_a_pending_object_whose_listing_is_gone(merged, invoked, sluice):
    before = merged.stack.ledger.pending.oldest("main", 10)
    BREAKAGES["unlisted"](merged)
    assert merged.stack.ledger.pending.oldest("main", 10) == []
    assert "repaired: waits is pending" in sluice("audit --repair").out and invoked == [("s-supervise", "Event")]
    assert merged.stack.ledger.pending.oldest("main", 10) == before
    sluice("audit")


def test_an_object_that_is_claimed_during_the_audit_is_not_unlisted(merged, monkeypatch):
    ledger = merged.stack.ledger
    (record,) = ledger.objects.get([merged.waits]).values()
    assert ledger.objects.unlisted([record]) == frozenset()
    merged.opened(merged.waits)
    assert ledger.objects.unlisted([record]) == frozenset() and not ledger.objects.list_again(record)


def test_the_claim_of_an_open_batch_is_not_ended(merged):
    waits = merged.stack.admit(merged.stack.write("late"))
    merged.opened(waits)
    claimed = merged.stack.ledger.objects.get([waits])[waits]
    assert not merged.stack.ledger.recovery.end_claim(claimed, None, NOW)
    assert merged.stack.ledger.objects.get([waits])[waits] == claimed
