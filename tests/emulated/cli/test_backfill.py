"""`sluice backfill`: history in the bucket is admitted once, at a pace, after an estimate, also after a break."""

import pytest
from support.builders import avro_object, failing_for, flattened

from sluice_aws.admission.admit import Admission
from sluice_aws.errors import LedgerBusy
from sluice_cli.ingest.backfill import Backfill
from sluice_cli.ingest.workload import Throttle

TABLES = 'tables: [{topic: crm.public.*, table: "crm.{1}", record_key: id}]'
KEY = "topics/crm.public.{0}/crm.public.{0}+0+{1:010d}.avro"
BODY = avro_object(flattened({"id": "long"}), [{"id": 1, "__lsn": 1}])


@pytest.fixture
def history(stack, tables, invoked, sluice):
    """A bucket with objects that no notice announced: of two tables, one without a rule, one that is no change."""
    sluice("config push", tables(TABLES))
    stack.old = [stack.write(KEY.format("user", number), BODY) for number in range(5)]
    stack.old += [stack.write(KEY.format("city", 1), BODY)]
    stack.write("topics/else/else+0+1.avro", BODY)
    stack.write("topics/crm.public.user/_SUCCESS", b"")
    return stack


def states(stack, ids):
    return [record.state for record in stack.ledger.objects.get(ids).values()]


def test_a_dry_run_estimates_objects_bytes_time_and_cost_and_changes_nothing(history, sluice):
    document = sluice.json("backfill --dry-run")
    assert (document["objects"], document["bytes"]) == (6, 6 * len(BODY))
    assert {table: counts["objects"] for table, counts in document["tables"].items()} == {"crm.user": 5, "crm.city": 1}
    assert sorted(document["left"].values()) == [1, 1] and any("no rule" in reason for reason in document["left"])
    assert document["estimate"]["seconds"] >= 60 and document["estimate"]["usd"] > 0
    assert document["admitted"] == {} and states(history, history.old) == []
    out = sluice("backfill --dry-run").out
    assert "to merge: 6 objects" in out and "left: 1 object: parked" in out and "US dollars (list prices" in out


def test_objects_are_admitted_once_and_their_lanes_woken(history, sluice, invoked):
    assert sluice.json("backfill --yes")["admitted"] == {"ignored": 1, "parked": 1, "pending": 6}
    assert states(history, history.old) == ["pending"] * 6
    assert history.ledger.lanes.get("main").arrivals > 0 and ("s-supervise", "Event") in invoked
    assert "The ledger knows every object" in sluice("backfill --yes").out


def test_without_a_terminal_it_needs_a_yes(history, sluice):
    assert "--yes" in sluice("backfill", code=2).err and states(history, history.old) == []


def test_an_interrupted_backfill_goes_on_behind_its_last_page(history, monkeypatch, sluice):
    def paged(self):
        """Pages of two."""
        marker = self.after
        while True:
            page = self._target.objects.version_page("s-bronze", marker, prefix=self._prefix, page_size=2)
            marker = page.next_marker
            yield page.versions, marker
            if marker is None:
                return

    monkeypatch.setattr(Backfill, "_pages", paged)
    put = Backfill._put_checkpoint
    pages = []

    def dies(self, marker):
        put(self, marker)
        pages.append(marker)
        if len(pages) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Backfill, "_put_checkpoint", dies)
    sluice("backfill --yes", code=130)
    before = len(states(history, history.old))
    assert 0 < before < 6
    out, err = sluice("backfill --yes --json")
    assert "Goes on behind" in err
    assert states(history, history.old) == ["pending"] * 6 and pages[-1] is None


def test_an_object_that_fails_is_named_and_tried_again_by_the_repetition(history, monkeypatch, sluice):
    refuses = failing_for(lambda notice: "city" in notice.id.key, LedgerBusy("It is busy"), Admission.admit)
    with monkeypatch.context() as busy:
        busy.setattr(Admission, "admit", refuses)
        assert "could not be admitted: repeat the command" in sluice("backfill --yes", code=1).err
    sluice("backfill --yes")
    assert states(history, history.old) == ["pending"] * 6


def test_the_pace_holds_to_so_many_objects_a_second():
    times, slept = iter([0.0, 0.1, 9.0]), []
    throttle = Throttle(10, clock=lambda: next(times), sleep=slept.append)
    throttle.after(20)
    throttle.after(20)
    assert slept == [1.9]
