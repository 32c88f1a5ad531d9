"""The ledger on an emulated DynamoDB: admission, the lane, claiming and settling, and races between them."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError
from emulation.aws import set_fields
from emulation.ledger_table_schema import create_ledger_table
from support.builders import aws_error

from sluice.batch.manifest import Manifest, ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, QUARANTINED, ObjectError, Outcome
from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject, Decision, wakes
from sluice.objects import ObjectId
from sluice.silver_keys import manifest_key
from sluice_aws.admission.reassign import Unparked, unpark
from sluice_aws.errors import BatchTaken, ForeignObjects, LedgerBusy, UnsettledParts
from sluice_aws.ledger import pending
from sluice_aws.ledger.ledger import Ledger

NOW = 1_700_000_000_000
LANE = "main"
MARK = {"generation": 3, "offset": 7, "kind": "postgres", "highest": "0003.1.1"}


class CountedClient:
    """A client that counts its calls, and fails the next ones on demand: {operation: [errors]}.

    One call at a time, because the emulator copies its tables while others write: calls of several
    threads interleave as on DynamoDB, each whole.
    """

    def __init__(self, client):
        self._client = client
        self._one_at_a_time = threading.Lock()
        self.calls = Counter()
        self.failures = {}

    def __getattr__(self, operation):
        call = getattr(self._client, operation)

        def counted(**arguments):
            with self._one_at_a_time:
                self.calls[operation] += 1
                if self.failures.get(operation):
                    raise self.failures[operation].pop(0)
                return call(**arguments)

        return counted


@pytest.fixture
def client(emulated):
    create_ledger_table(emulated, "ledger")
    yield CountedClient(emulated)
    emulated.delete_table(TableName="ledger")


@pytest.fixture
def waits():
    return []


@pytest.fixture
def ledger(client, waits):
    return Ledger(client, "ledger", sleep=waits.append)


def an_object(n=0, table="shop.orders", state=items.PENDING, version=None, **more):
    identity = ObjectId("bronze", f"topics/{table}/part-{n:05d}.avro", version or f"v{n}")
    facts = {"lane": LANE, "table": table, "topic": table, "format": "avro", "size": 10 + n, "etag": f"e{n}", **more}
    return AdmittedObject(identity, state, NOW + n, noticed_at=NOW, via="s3", **facts)


def record_of(ledger, one):
    return ledger.objects.get([one.id])[one.id]


def waiting(ledger, admitted, run="run-1"):
    """Objects that are pending, in a lane that a run holds."""
    for one in admitted:
        ledger.objects.admit(one)
    return held(ledger, run)


def a_table(name="shop.orders", **more):
    return TableConfig(name, *name.split("."), **{"topic": name, "record_key": ("id",), **more})


def a_manifest(admitted, run="run-1", created_at=NOW):
    parts = {}
    names = ("size", "schema", "format", "topic", "kafka_partition", "offset", "admitted_at")
    for one in admitted:
        facts = {name: getattr(one, name) for name in names}
        listed = ManifestObject(one.id.bucket, one.id.key, one.id.version, **facts)
        parts.setdefault(one.table, []).append(listed)
    tables = {table: TablePart(a_table(table).to_dict(), tuple(listed)) for table, listed in parts.items()}
    return open_manifest(LANE, run, created_at, "c1", tables)


def opened(ledger, manifest, run="run-1", job="job-1"):
    return ledger.batches.open(manifest, manifest_key(LANE, manifest.batch), run, job)


def held(ledger, run="run-1", job="job-1"):
    ledger.lanes.request_start(LANE, run, NOW)
    ledger.lanes.started(LANE, run, job)
    return ledger.lanes.hold(LANE, run, job, 1, NOW)


def claimed(ledger, admitted, run="run-1"):
    waiting(ledger, admitted, run)
    manifest = a_manifest(admitted, run)
    assert opened(ledger, manifest, run)
    ledger.batches.claim(manifest)
    return manifest


def committed(manifest, table="shop.orders", **more):
    counts = {"read": 3, "written": 2}
    return Outcome(manifest.batch, table, COMMITTED, NOW + 5, instant="20260101000000000", counts=counts, **more)


def restarted(*objects):
    """What an outcome says of objects of a log that began again."""
    errors = tuple(ObjectError(one.id.hash, LOG_RESTARTED, "fell") for one in objects)
    return {"parked": errors, "parked_generation": 3}


def taken_over(ledger):
    """The job run of run-1 is found dead, and run-2 holds the lane."""
    ledger.lanes.lapse(LANE, "run-1", NOW, job_run_id="job-1")
    assert ledger.lanes.request_start(LANE, "run-2", NOW + 60_000)
    assert ledger.lanes.hold(LANE, "run-2", "job-2", 1, NOW)


def settle(ledger, outcome, objects, run="run-1"):
    return ledger.batches.settle(LANE, outcome.batch, outcome, [one.id for one in objects], run, NOW)


def settle_all(ledger, manifest, run="run-1"):
    for table, part in manifest.tables.items():
        settle(ledger, committed(manifest, table), part.objects, run)
    return ledger.batches.close(LANE, manifest.batch, run, NOW + 6)


def unparked(ledger, generation):
    """What a push of this generation frees."""
    rule = TableRule("shop.orders", ("id",), topic="shop.orders", lane=LANE, generation=generation)
    return unpark(ledger, Configuration((rule,)), lambda: NOW + 9)


class TestAdmission:
    def test_a_new_object_is_written_with_its_listing_in_two_calls(self, ledger, client):
        assert ledger.objects.admit(an_object()) == "new"
        assert client.calls == {"query": 1, "transact_write_items": 1}
        (listed,) = ledger.pending.oldest(LANE, 10)
        assert (listed.id, listed.table, listed.size) == (an_object().id, "shop.orders", 10)
        record, names = record_of(ledger, an_object()), an_object().__dataclass_fields__
        assert replace(record, batch=None) == type(record)(**{name: getattr(an_object(), name) for name in names})

    def test_a_redelivered_object_is_recognized_and_wakes_only_while_pending(self, ledger):
        one = an_object()
        answers = [ledger.objects.admit(one), ledger.objects.admit(one)]
        assert answers == ["new", "already_pending"] and all(wakes(answer) for answer in answers)
        claimed(ledger, [one])
        assert ledger.objects.admit(one) == "already_claimed" and not wakes("already_claimed")

    def test_concurrent_notices_of_one_object_admit_it_once(self, ledger):
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(ledger.objects.admit, [an_object()] * 16))
        assert Counter(answers) == {"new": 1, "already_pending": 15}
        assert len(ledger.pending.oldest(LANE, 100)) == 1

    def test_a_lost_race_for_the_item_answers_the_state_that_won(self, ledger, client, monkeypatch):
        one = an_object()
        ledger.objects.admit(one)
        monkeypatch.setattr(client, "query", lambda **arguments: {"Items": []}, raising=False)
        assert ledger.objects.admit(one) == "already_pending"

    def test_the_bytes_that_were_merged_last_are_superseded(self, ledger):
        manifest = claimed(ledger, [an_object(0)])
        again = an_object(0, version="later")
        while_claimed = replace(again, id=replace(again.id, version="while-claimed"))
        assert ledger.objects.admit(while_claimed, generation=0) == "new"
        settle_all(ledger, manifest)
        settle_all(ledger, claimed(ledger, [while_claimed]))
        assert ledger.objects.admit(again, generation=0) == "superseded"
        assert ledger.objects.admit(again, generation=0) == "already_superseded"
        changed = replace(again, id=replace(again.id, version="other"), etag="other")
        assert ledger.objects.admit(changed, generation=0) == "new"
        (superseded,) = ledger.objects.in_state("superseded")
        assert superseded.id == again.id
        assert ledger.rebuilds.replay([superseded], LANE, {}, NOW + 9, while_paused=False) == 1
        assert {item.id.version: item.generation for item in ledger.pending.oldest(LANE, 9)} == {
            "later": 0,  # also once the table has a higher one
            "other": None,
        }

    @pytest.mark.parametrize(
        "other, generation",
        [
            ({}, 1),  # a reload after a restore: what was merged under generation 0 loses to newer rows of it
            ({}, None),
            ({"modified_at": 5}, 0),  # its rows are newer than those of other objects
            ({"table": "shop.people"}, 0),  # the key was of another table
        ],
    )
    def test_equal_bytes_are_merged_where_their_rows_would_count_again(self, ledger, other, generation):
        settle_all(ledger, claimed(ledger, [an_object(0)]))
        again = replace(an_object(0, version="later"), **other)
        assert ledger.objects.admit(again, generation=generation) == "new"

    def test_bytes_that_another_version_followed_are_merged_again(self, ledger):
        settle_all(ledger, claimed(ledger, [an_object(0)]))
        between = replace(an_object(0, version="between"), etag="other", admitted_at=an_object(0).admitted_at + 1)
        settle_all(ledger, claimed(ledger, [between]))
        assert ledger.objects.admit(an_object(0, version="again"), generation=0) == "new"

    @pytest.mark.parametrize("state", ["parked", "quarantined", "ignored"])
    def test_an_object_that_is_not_merged_is_listed_with_its_reason(self, ledger, state):
        one = an_object(state=state, reason="because")
        assert ledger.objects.admit(one) == "new"
        assert ledger.objects.admit(replace(one, state=items.PENDING)) == f"already_{state}"
        (record,) = ledger.objects.in_state(state)
        assert (record.id, record.reason) == (one.id, "because")
        assert ledger.pending.oldest(LANE, 10) == []

    def test_an_object_of_a_restarted_log_waits_for_a_higher_generation(self, ledger):
        one, two = an_object(0), an_object(1)
        manifest = claimed(ledger, [one, two])
        watch = {"marks": {"0": {**MARK, "restarted_at": 5}}}
        assert settle(ledger, committed(manifest, **restarted(two), watch=watch), [one, two])
        ledger.batches.close(LANE, manifest.batch, "run-1", NOW + 6)
        record = record_of(ledger, two)
        expected = ("parked", LOG_RESTARTED, "fell", 3)
        assert (record.state, record.code, record.reason, record.parked_generation) == expected
        state = ledger.tables.get("shop.orders")
        assert state.watch == watch and (state.totals["objects"], state.totals.get("objects_quarantined", 0)) == (1, 0)
        for generation, moved in ((3, 0), (4, 1), (4, 0)):
            assert unparked(ledger, generation) == Unparked(moved, frozenset({LANE} if moved else ()))
        (listed,), freed = ledger.pending.oldest(LANE, 10), record_of(ledger, two)
        assert (listed.id, listed.attempt) == (two.id, 1)
        assert (freed.attempt, freed.batch, freed.code, freed.parked_generation) == (1, None, None, None)

    @pytest.mark.parametrize(
        ("watched", "partition", "offsets"),
        [("0", 0, (0, 1)), ("-1", None, (None, None)), ("-2", None, (0, 1))],
        ids=["offsets", "times", "numbers"],
    )
    def test_a_parked_object_is_freed_once_its_log_is_one_of_several(self, ledger, watched, partition, offsets):
        objects = [an_object(n, kafka_partition=partition, offset=offset) for n, offset in enumerate(offsets)]
        manifest = claimed(ledger, objects)
        watch = {"marks": {watched: {**MARK, "restarted_at": 5}}}
        assert settle(ledger, committed(manifest, **restarted(objects[1]), watch=watch), objects)
        ledger.batches.close(LANE, manifest.batch, "run-1", NOW + 6)
        assert unparked(ledger, 3) == Unparked(0, frozenset())
        third = claimed(ledger, [an_object(2)])
        outcome = committed(third, watch={"marks": {watched: {**MARK, "several": True}}})
        assert settle(ledger, outcome, [an_object(2)])
        assert unparked(ledger, 3) == Unparked(1, frozenset({LANE}))
        assert [item.id for item in ledger.pending.oldest(LANE, 10)] == [objects[1].id]

    def test_a_deleted_object_of_a_restarted_log_is_quarantined_outside_any_batch(self, ledger):
        one, two = an_object(0), an_object(1)
        manifest = claimed(ledger, [one, two])
        assert settle(ledger, committed(manifest, **restarted(two)), [one, two])
        record = record_of(ledger, two)
        assert ledger.objects.quarantine_parked(record, "lost_before_read", "gone", NOW + 7)
        assert not ledger.objects.quarantine_parked(record, "lost_before_read", "gone", NOW + 8)
        assert unparked(ledger, 4) == Unparked(0, frozenset())
        entry = record_of(ledger, two)
        expected = ("quarantined", "lost_before_read", None, None)
        assert (entry.state, entry.code, entry.batch, entry.parked_generation) == expected
        totals = ledger.tables.get("shop.orders").totals
        assert ledger.quarantine.discard(entry, Decision(two.id, "discarded", NOW + 10, "sluice", "me", "quarantined"))
        assert ledger.tables.get("shop.orders").totals == totals

    def test_an_unparked_object_waits_under_the_table_that_takes_it_now(self, ledger):
        ledger.objects.admit(an_object(state=items.PARKED, table="shop.orders", reason="no rule"))
        (record,) = ledger.objects.in_state("parked")
        config = a_table("shop.sold", topic="shop.orders", lane="big")
        assert ledger.objects.unpark(record, config, NOW + 9)
        assert not ledger.objects.unpark(record, config, NOW + 9)
        assert [one.table for one in ledger.pending.oldest("big", 10)] == ["shop.sold"]
        assert list(ledger.objects.in_state("parked")) == []

    def test_a_deleted_pending_object_is_quarantined_and_no_longer_waits(self, ledger):
        ledger.objects.admit(an_object())
        record = record_of(ledger, an_object())
        assert ledger.objects.quarantine_pending(record, "lost_before_read", "the version is gone", NOW)
        assert ledger.pending.oldest(LANE, 10) == []
        assert [record.code for record in ledger.objects.in_state("quarantined")] == ["lost_before_read"]

    def test_a_record_is_forgotten_only_when_nothing_waits_for_it(self, ledger):
        waits, ignored = an_object(0), an_object(1, state=items.IGNORED)
        for one, forgotten in ((waits, False), (ignored, True)):
            ledger.objects.admit(one)
            assert ledger.objects.forget(record_of(ledger, one)) is forgotten
        assert list(ledger.objects.get([waits.id, ignored.id])) == [waits.id]


class TestPending:
    def test_a_long_backlog_of_one_table_hides_no_other_table(self, ledger):
        for n in range(40):
            ledger.objects.admit(an_object(n, "shop.many"))
        for n, table in enumerate(["shop.a", "shop.man", "shop.many_more", "shop.z"]):
            ledger.objects.admit(an_object(500 + n, table))
        counts = Counter(one.table for one in ledger.pending.oldest(LANE, 5))
        assert counts == {"shop.many": 5, "shop.a": 1, "shop.man": 1, "shop.many_more": 1, "shop.z": 1}

    def test_pending_objects_come_oldest_first_and_are_all_seen_when_few(self, ledger):
        for n in reversed(range(30)):
            ledger.objects.admit(an_object(n, f"shop.t{n % 3}"))
        assert [one.admitted_at for one in ledger.pending.oldest(LANE, 100)] == [NOW + n for n in range(30)]

    def test_another_lane_is_not_read(self, ledger):
        ledger.objects.admit(an_object(lane="other"))
        assert ledger.pending.oldest(LANE, 10) == [] and len(ledger.pending.oldest("other", 10)) == 1

    def test_a_backlog_is_counted_by_table(self, ledger):
        for n in range(20):
            ledger.objects.admit(an_object(n, "shop.a" if n % 2 else "shop.b"))
        counts = ledger.pending.counts(LANE)
        expected = (10, sum(10 + n for n in range(1, 20, 2)), NOW + 1)
        assert (counts["shop.a"].objects, counts["shop.a"].bytes, counts["shop.a"].oldest) == expected
        assert counts["shop.b"].objects == 10

    @pytest.mark.parametrize("listed", [1, 2, 5, 100])
    def test_a_backlog_that_is_not_listed_is_counted_all_the_same(self, ledger, monkeypatch, listed):
        monkeypatch.setattr(pending, "EXACTLY", listed)
        monkeypatch.setattr(pending, "SAMPLED", 1)
        tables = {"shop.a": 17, "shop.a_b": 1, "shop.b": 40, "shop.z": 2}
        for n, table in enumerate(name for name, number in tables.items() for _ in range(number)):
            ledger.objects.admit(an_object(n, table))
        numbers = ledger.pending.counts(LANE)
        assert {table: count.objects for table, count in numbers.items()} == tables
        assert {table: count.oldest - NOW for table, count in numbers.items()} == {
            "shop.a": 0, "shop.a_b": 17, "shop.b": 18, "shop.z": 58,
        }  # fmt: skip


class TestLane:
    def test_a_lane_nobody_reached_is_idle(self, ledger):
        assert ledger.lanes.get(LANE).state == "idle" and ledger.lanes.all() == []

    def test_a_wake_counts_and_answers_the_state_in_one_call(self, ledger, client):
        ledger.lanes.wake(LANE)
        client.calls.clear()
        assert ledger.lanes.wake(LANE).arrivals == 2
        assert client.calls == {"update_item": 1}
        assert [state.lane for state in ledger.lanes.all()] == [LANE]

    def test_of_many_who_want_to_start_an_idle_lane_one_does(self, ledger):
        ledger.lanes.wake(LANE)
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda n: ledger.lanes.request_start(LANE, f"run-{n}", NOW), range(8)))
        (won,) = [answer for answer in answers if answer is not None]
        assert ledger.lanes.get(LANE).run_id == won.run_id

    def test_of_two_job_runs_under_one_run_id_one_holds_and_repeats_itself(self, ledger):
        ledger.lanes.request_start(LANE, "run-1", NOW)
        assert ledger.lanes.hold(LANE, "run-1", "job-1", 1, NOW) is not None
        assert ledger.lanes.hold(LANE, "run-1", "job-2", 1, NOW) is None
        assert ledger.lanes.hold(LANE, "run-1", "job-1", 2, NOW) is None
        assert ledger.lanes.hold(LANE, "run-1", "job-1", 1, NOW + 1) is not None
        assert not ledger.lanes.started(LANE, "run-1", "job-2")
        assert ledger.lanes.holds(LANE, "run-1", "job-1") and not ledger.lanes.holds(LANE, "run-1", "job-2")

    def test_an_arrival_between_looking_and_releasing_refuses_the_release(self, ledger):
        held(ledger)
        seen = ledger.lanes.get(LANE).arrivals
        ledger.lanes.wake(LANE)
        assert not ledger.lanes.release(LANE, "run-1", seen, None, NOW)
        assert ledger.lanes.release(LANE, "run-1", seen + 1, NOW + 60, NOW)
        state = ledger.lanes.get(LANE)
        expected = ("idle", NOW + 60, 1, None, "run-1")
        assert (state.state, state.due_at, state.arrivals_seen, state.run_id, state.last_run_id) == expected

    def test_a_release_whose_answer_was_lost_is_known_again(self, client):
        held(Ledger(client, "ledger"))

        class Repeating:
            """A client that sends each update twice, as botocore does where the first answer doesn't come."""

            get_item = staticmethod(client.get_item)

            def update_item(self, **arguments):
                client.update_item(**arguments)
                return client.update_item(**arguments)

        assert Ledger(Repeating(), "ledger").lanes.release(LANE, "run-1", 0, None, NOW)
        assert not Ledger(client, "ledger").lanes.release(LANE, "run-1", 0, None, NOW), "it is no longer the run's"

    def test_releases_racing_wakes_lose_none(self, ledger):
        held(ledger)
        woken = threading.Barrier(2)

        def wake_once():
            woken.wait()
            return ledger.lanes.wake(LANE)

        with ThreadPoolExecutor(1) as threads:
            for n in range(2, 22):
                seen = ledger.lanes.get(LANE).arrivals
                woke = threads.submit(wake_once)
                woken.wait()
                released = ledger.lanes.release(LANE, f"run-{n - 1}", seen, None, NOW)
                answer = woke.result()
                state = ledger.lanes.get(LANE)
                if not released:
                    assert state.state == "running" and state.arrivals > seen
                    assert ledger.lanes.release(LANE, f"run-{n - 1}", state.arrivals, None, NOW)
                else:
                    assert answer.state == "idle" and state.arrivals > state.arrivals_seen
                ledger.lanes.request_start(LANE, f"run-{n}", NOW)
                ledger.lanes.hold(LANE, f"run-{n}", f"job-{n}", 1, NOW)

    def test_a_transition_goes_through_while_arrivals_pour_in(self, ledger):
        stop = threading.Event()

        def pour():
            while not stop.wait(0.001):  # the client's lock lets only those in who wait for it at the right moment
                ledger.lanes.wake(LANE)

        with ThreadPoolExecutor(1) as threads:
            pouring = threads.submit(pour)
            try:
                assert held(ledger) is not None
                assert ledger.lanes.progressed(LANE, "run-1")
            finally:
                stop.set()
            pouring.result()

    def test_a_lapse_names_the_job_run_that_was_seen_dead(self, ledger):
        held(ledger)
        assert ledger.lanes.lapse(LANE, "run-1", NOW, job_run_id=None) is None
        assert ledger.lanes.lapse(LANE, "run-1", NOW, job_run_id="job-2") is None
        after = ledger.lanes.lapse(LANE, "run-1", NOW, job_run_id="job-1", reason="killed")
        assert (after.state, after.failures, after.backoff_until, after.arrivals) == ("idle", 1, NOW + 30_000, 1)
        assert ledger.lanes.request_start(LANE, "run-2", NOW + 29_999) is None
        assert ledger.lanes.request_start(LANE, "run-2", NOW + 30_000) is not None

    def test_pausing_a_running_lane_asks_it_to_end_and_resuming_counts_as_an_arrival(self, ledger):
        held(ledger)
        assert ledger.lanes.pause(LANE).pause_requested
        assert ledger.lanes.release(LANE, "run-1", 0, None, NOW)
        assert ledger.lanes.get(LANE).state == "paused"
        assert ledger.lanes.pause(LANE).state == "paused"
        resumed = ledger.lanes.resume(LANE)
        assert (resumed.state, resumed.arrivals) == ("idle", 1)


def cut_after_the_first_transaction(client):
    """The process dies: of the next transactions one takes effect, and the others never leave."""
    transact = client._client.transact_write_items
    left = [1]

    def cut(**arguments):
        if not left:
            del client.__dict__["transact_write_items"]
            raise ConnectionError("cut")
        left.pop()
        return transact(**arguments)

    client.__dict__["transact_write_items"] = cut


def opening_cut(ledger, client):
    """Objects of so many tables that a batch of them is opened by several transactions, of which one took effect."""
    admitted = [an_object(n, f"shop.t{n}") for n in range(120)]
    waiting(ledger, admitted)
    cut_after_the_first_transaction(client)
    with pytest.raises(ConnectionError):
        opened(ledger, a_manifest(admitted))
    return admitted


class TestClaiming:
    def test_a_batch_is_opened_only_by_the_lanes_holder(self, ledger):
        manifest = a_manifest([an_object()])
        assert not opened(ledger, manifest)
        held(ledger)
        assert not opened(ledger, manifest, job="job-2")
        assert opened(ledger, manifest) and opened(ledger, manifest)
        (pointer,) = ledger.batches.unsettled(LANE)
        expected = (manifest.batch, manifest_key(LANE, manifest.batch), ("shop.orders",), frozenset())
        assert (pointer.batch, pointer.s3_key, pointer.tables, pointer.settled_tables) == expected

    def test_a_claim_takes_objects_out_of_pending_and_repeats_harmlessly(self, ledger, client):
        admitted = [an_object(n, f"shop.t{n % 2}") for n in range(52)]
        manifest = claimed(ledger, admitted)
        assert ledger.pending.oldest(LANE, 1000) == []
        assert sorted(ledger.batches.claim(manifest)) == sorted(one.id for one in admitted)
        assert {record.batch for record in ledger.objects.get(one.id for one in admitted).values()} == {manifest.batch}

    def test_a_claim_that_died_half_way_is_finished_by_repeating_it(self, ledger):
        admitted = [an_object(n) for n in range(52)]
        manifest = claimed(ledger, admitted[:26])
        whole = Manifest(manifest.batch, LANE, "run-1", NOW, "c1", a_manifest(admitted).tables)
        for one in admitted[26:]:
            ledger.objects.admit(one)
        assert len(ledger.batches.claim(whole)) == 52
        assert ledger.pending.oldest(LANE, 1000) == []

    def test_an_object_is_claimed_by_one_batch_however_many_threads_try(self, ledger):
        admitted = [an_object(n) for n in range(30)]
        waiting(ledger, admitted)
        manifests = [a_manifest(admitted[start : start + 20]) for start in (0, 5, 10)]
        with ThreadPoolExecutor(3) as threads:
            taken = list(threads.map(ledger.batches.claim, manifests))
        assert Counter(identity for ids in taken for identity in ids) == {one.id: 1 for one in admitted}
        for manifest, ids in zip(manifests, taken, strict=True):
            assert {ledger.objects.get([identity])[identity].batch for identity in ids} <= {manifest.batch}

    @pytest.mark.parametrize("table", ["shop.people", "shop.orders"])
    def test_an_object_moved_to_another_table_or_lane_is_left_out_of_a_claim(self, ledger, table):
        gone, stays = an_object(1), an_object(2)
        waiting(ledger, [gone, stays])
        manifest = a_manifest([gone, stays])
        assert opened(ledger, manifest)
        other = a_table(table, topic="shop.orders", lane="side")
        gone_before = record_of(ledger, gone)
        assert ledger.objects.reroute(gone_before, other, NOW)
        assert ledger.batches.claim(manifest) == [stays.id]
        (listed,) = ledger.pending.oldest("side", 10)
        assert (listed.id, listed.table, listed.admitted_at) == (gone.id, table, gone.admitted_at)
        assert ledger.pending.oldest(LANE, 10) == []
        assert not ledger.objects.reroute(record_of(ledger, stays), other, NOW)
        assert not ledger.objects.quarantine_pending(gone_before, "lost_before_read", "gone", NOW)
        assert ledger.pending.oldest("side", 10)[1:] == []

    @pytest.mark.parametrize("table, merged", [("shop.people", False), ("shop.orders", True)])
    def test_an_object_moved_to_another_table_is_merged_whole_and_by_its_generation(self, ledger, table, merged):
        one = an_object(merged=True, rows_aside="rows", generation=3, first_batch="b-1", replayed_at=NOW)
        ledger.objects.admit(one)
        other = a_table(table, topic="shop.orders", lane="side")
        assert ledger.objects.reroute(record_of(ledger, one), other, NOW)
        for moved in (*ledger.pending.oldest("side", 9), record_of(ledger, one)):
            facts = (moved.merged, moved.rows_aside, moved.generation, moved.first_batch, moved.replayed_at)
            assert facts == ((True, "rows", 3, "b-1", NOW) if merged else (False, None, None, None, None))

    def test_an_existing_batch_is_distinguished_from_a_lost_lane(self, ledger):
        manifest = claimed(ledger, [an_object()])
        assert settle_all(ledger, manifest)
        with pytest.raises(BatchTaken) as raised:
            opened(ledger, manifest)
        assert raised.value.facts == {"batch": manifest.batch, "state": "committed", "run": "run-1"}
        ledger.lanes.lapse(LANE, "run-1", NOW, job_run_id="job-1")
        assert not opened(ledger, manifest)

    def test_a_batch_of_more_tables_than_one_transaction_takes_is_opened(self, ledger):
        manifest = a_manifest([an_object(n, f"shop.t{n}") for n in range(150)])
        held(ledger)
        assert opened(ledger, manifest)
        assert len(ledger.batches.parts(manifest.batch)) == 150
        assert len(ledger.batches.unsettled(LANE)[0].tables) == 150

    def test_a_batch_whose_opening_was_cut_is_opened_by_the_next_run(self, ledger, client):
        admitted = opening_cut(ledger, client)
        assert ledger.batches.unsettled(LANE) == []
        taken_over(ledger)
        manifest = a_manifest(admitted, "run-2")
        assert opened(ledger, manifest, "run-2", "job-2")
        assert {part["run"] for part in ledger.batches.parts(manifest.batch).values()} == {"run-2"}
        assert len(ledger.batches.claim(manifest)) == 120

    def test_a_part_of_a_cut_opening_does_not_keep_its_batch_open(self, ledger, client):
        admitted = opening_cut(ledger, client)
        another = a_table("shop.another", topic="shop.t0")
        assert ledger.objects.reroute(record_of(ledger, admitted[0]), another, NOW)
        manifest = a_manifest([replace(admitted[0], table="shop.another"), *admitted[1:]])
        assert opened(ledger, manifest)
        assert len(ledger.batches.claim(manifest)) == 120
        assert settle_all(ledger, manifest)

    def test_no_part_is_put_again_beside_a_batch_of_another_run(self, ledger):
        admitted = [an_object(n, f"shop.t{n}") for n in range(120)]
        manifest = claimed(ledger, admitted)
        taken_over(ledger)
        with pytest.raises(BatchTaken) as raised:
            opened(ledger, manifest, "run-2", "job-2")
        assert raised.value.facts == {"batch": manifest.batch, "state": "claimed", "run": "run-1"}
        assert {part["run"] for part in ledger.batches.parts(manifest.batch).values()} == {"run-1"}

    def test_a_returned_batch_is_opened_for_another_table(self, ledger):
        one = an_object()
        waiting(ledger, [one])
        before = a_manifest([one])
        assert opened(ledger, before)
        assert ledger.batches.return_to_pending(before.batch, "shop.orders", [], LANE, "run-1", "job-1") == []
        assert ledger.batches.close(LANE, before.batch, "run-1", NOW)
        people = a_table("shop.people", topic="shop.orders")
        assert ledger.objects.reroute(record_of(ledger, one), people, NOW)
        after = a_manifest([replace(one, table="shop.people")])
        assert after.batch == before.batch
        assert opened(ledger, after) and ledger.batches.claim(after) == [one.id]


class TestSettling:
    def test_settling_a_part_commits_its_objects_and_updates_the_table(self, ledger):
        admitted = [an_object(n) for n in range(3)]
        manifest = claimed(ledger, admitted)
        assert settle(ledger, committed(manifest), admitted)
        assert {record.state for record in ledger.objects.get(one.id for one in admitted).values()} == {"committed"}
        state = ledger.tables.get("shop.orders")
        expected = (NOW + 5, "20260101000000000", NOW + 5, manifest.batch)
        assert (state.last_commit_at, state.last_instant, state.last_instant_at, state.last_batch) == expected
        assert state.totals == {"read": 3, "written": 2, "objects": 3, "commits": 1}
        assert ledger.batches.unsettled(LANE)[0].settled_tables == {"shop.orders"}

    def test_settling_again_changes_and_counts_nothing(self, ledger):
        admitted = [an_object(n) for n in range(3)]
        manifest = claimed(ledger, admitted)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: settle(ledger, committed(manifest), admitted), range(4)))
        assert sorted(answers) == [False, False, False, True]
        assert ledger.tables.get("shop.orders").totals["objects"] == 3

    def test_settling_that_died_behind_the_objects_is_finished(self, ledger):
        admitted = [an_object(n) for n in range(3)]
        manifest = claimed(ledger, admitted)
        set_fields(ledger, items.object_key(admitted[0].id), state="committed")
        assert settle(ledger, committed(manifest), admitted, "run-2")

    def test_one_bad_object_is_quarantined_and_the_others_commit(self, ledger):
        admitted = [an_object(n) for n in range(3)]
        manifest = claimed(ledger, admitted)
        outcome = committed(manifest, quarantined=(ObjectError(admitted[1].id.hash, "corrupt", "a block ends early"),))
        settle(ledger, outcome, admitted)
        (bad,) = ledger.objects.in_state("quarantined")
        expected = (admitted[1].id, "corrupt", "a block ends early", manifest.batch)
        assert (bad.id, bad.code, bad.reason, bad.batch) == expected
        assert ledger.tables.get("shop.orders").totals["objects_quarantined"] == 1

    def test_a_part_quarantined_whole_leaves_the_tables_pace_alone(self, ledger):
        manifest = claimed(ledger, [an_object()])
        outcome = Outcome(manifest.batch, "shop.orders", QUARANTINED, committed_at=NOW, reason="no common type")
        settle(ledger, outcome, [an_object()])
        state = ledger.tables.get("shop.orders")
        assert (state.last_commit_at, state.last_error) == (None, None), "its objects have the reason"
        assert ledger.batches.close(LANE, manifest.batch, "run-1", NOW)

    def test_objects_of_another_batch_are_not_settled(self, ledger):
        manifest = claimed(ledger, [an_object(0)])
        ledger.objects.admit(an_object(1))
        with pytest.raises(ForeignObjects):
            settle(ledger, committed(manifest), [an_object(0), an_object(1)])

    def test_a_batch_closes_behind_its_last_part_and_its_pointer_goes(self, ledger):
        manifest = claimed(ledger, [an_object(0, "shop.a"), an_object(1, "shop.b")])
        with pytest.raises(UnsettledParts):
            ledger.batches.close(LANE, manifest.batch, "run-1", NOW)
        assert settle_all(ledger, manifest)
        assert not ledger.batches.close(LANE, manifest.batch, "run-1", NOW)
        assert ledger.batches.unsettled(LANE) == []
        assert ledger.batches.get(manifest.batch)["state"] == "committed"
        assert ledger.lanes.get(LANE).progressed

    def test_a_run_without_its_lane_returns_nothing_and_the_next_finishes_its_batch(self, ledger):
        admitted = [an_object(n) for n in range(60)]
        manifest = claimed(ledger, admitted)
        ids = [one.id for one in admitted]
        taken_over(ledger)
        assert ledger.batches.return_to_pending(manifest.batch, "shop.orders", ids, LANE, "run-1", "job-1") is None
        assert {record.state for record in ledger.objects.get(ids).values()} == {"claimed"}
        assert ledger.batches.parts(manifest.batch)["shop.orders"]["state"] == "claimed"
        assert ledger.pending.oldest(LANE, 100) == []
        assert ledger.batches.return_to_pending(manifest.batch, "shop.orders", ids, LANE, "run-2", "job-2") == ids

    def test_what_a_split_part_returns_keeps_the_generation_that_it_was_claimed_under(self, ledger):
        admitted = [an_object(n) for n in range(2)]
        manifest = claimed(ledger, admitted)
        ids = [one.id for one in admitted]
        assert ledger.batches.return_to_pending(manifest.batch, "shop.orders", ids, LANE, "run-1", "job-1", 3) == ids
        returned = [*ledger.pending.oldest(LANE, 10), *ledger.objects.get(ids).values()]
        assert [one.generation for one in returned] == [3] * 4

    def test_a_split_part_returns_its_objects_with_their_age_and_can_be_claimed_again(self, ledger):
        admitted = [an_object(n) for n in range(3)]
        waiting(ledger, admitted)
        before = ledger.pending.oldest(LANE, 10)
        manifest = claimed(ledger, admitted)
        ids = [one.id for one in admitted]
        assert ledger.batches.return_to_pending(manifest.batch, "shop.orders", ids, LANE, "run-1", "job-1") == ids
        assert ledger.batches.return_to_pending(manifest.batch, "shop.orders", ids, LANE, "run-1", "job-1") == []
        assert ledger.pending.oldest(LANE, 10) == before
        assert ledger.batches.close(LANE, manifest.batch, "run-1", NOW)
        assert ledger.batches.get(manifest.batch)["state"] == "returned"
        assert opened(ledger, manifest)
        assert sorted(ledger.batches.claim(manifest)) == sorted(ids)
        assert settle_all(ledger, manifest)


class TestTables:
    def test_failures_back_a_table_off_until_it_commits(self, ledger):
        ledger.tables.record_error("shop.orders", "boom", NOW + 1)
        state = ledger.tables.record_error("shop.orders", "boom", NOW + 2)
        assert (state.failures, state.backoff_until, state.last_error) == (2, NOW + 2, "boom")
        settle_all(ledger, claimed(ledger, [an_object()]))
        state = ledger.tables.get("shop.orders")
        assert (state.failures, state.backoff_until, state.last_error) == (0, None, None)
        assert [table.table for table in ledger.tables.all()] == ["shop.orders"]

    def test_what_a_table_was_written_with_is_pinned_once(self, ledger):
        pinned = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "t"}
        assert ledger.tables.pin("shop.orders", pinned) and ledger.tables.pin("shop.orders", pinned)
        assert not ledger.tables.pin("shop.orders", {**pinned, "table_type": "mor"})
        assert ledger.tables.get_many(["shop.orders", "shop.unknown"])["shop.orders"].pinned == pinned

    def test_the_name_of_a_history_is_pinned_when_it_begins_and_stays_after_its_end(self, ledger):
        pinned = {"record_key": ["id"], "topic": "t"}
        historied = {**pinned, "history": "log"}
        assert all(ledger.tables.pin("shop.orders", pinning) for pinning in (pinned, historied, pinned, historied))
        assert not ledger.tables.pin("shop.orders", {**pinned, "history": "other"})
        assert not ledger.tables.pin("shop.orders", {**historied, "record_key": ["no"]})
        assert ledger.tables.get("shop.orders").pinned == historied

    def test_a_history_that_begins_later_is_pinned_beside_settings_that_are_unset(self, ledger):
        config = a_table(topic="t")
        begun = replace(config, history=True)
        assert ledger.tables.pin("shop.orders", config.pinned) and ledger.tables.pin("shop.orders", begun.pinned)
        assert ledger.tables.get("shop.orders").pinned == begun.pinned
        assert not ledger.tables.pin("shop.orders", replace(config, position="at").pinned)


class TestHistory:
    def test_ignored_parts_of_messages_are_listed_once_with_bounded_excerpts(self, ledger):
        assert ledger.history.ignore_message("m1", 0, "unknown", "x" * 5000, NOW)
        assert not ledger.history.ignore_message("m1", 0, "unknown", "x" * 5000, NOW)
        (part,) = ledger.history.ignored_messages()
        assert (part.message_id, part.reason, len(part.excerpt)) == ("m1", "unknown", 1000)

    def test_counters_add_up_and_checkpoints_come_back(self, ledger):
        assert (ledger.history.count("ignored"), ledger.history.count("ignored", 4)) == (1, 5)
        assert (ledger.history.counter("ignored"), ledger.history.counter("none")) == (5, 0)
        assert ledger.history.checkpoint() is None
        ledger.history.put_checkpoint({"bucket": "bronze", "key": "a b"}, NOW)
        assert ledger.history.checkpoint() == {"bucket": "bronze", "key": "a b"}

    def test_a_runs_item_keeps_when_it_was_asked_for_held_and_ended(self, ledger):
        ledger.history.run_started("run-1", LANE, NOW)
        ledger.history.run_started("run-1", LANE, NOW + 1, "job-1")
        ledger.history.run_ended("run-1", "released", None, 3, NOW + 2)
        run = ledger.history.run("run-1")
        expected = (NOW, NOW + 1, NOW + 2, 3, "released")
        assert (run["requested_at"], run["started_at"], run["ended_at"], run["batches"], run["state"]) == expected


class TestTrouble:
    @staticmethod
    def cancelled(*codes):
        error = {"Code": "TransactionCanceledException", "Message": ""}
        answer = {"Error": error, "CancellationReasons": [{"Code": code} for code in codes]}
        return ClientError(answer, "TransactWriteItems")

    def test_conflicts_and_throttling_of_a_transaction_are_waited_out(self, ledger, client, waits):
        errors = [self.cancelled(code, "None") for code in ("TransactionConflict", "ThrottlingError")]
        client.failures["transact_write_items"] = errors
        assert ledger.objects.admit(an_object()) == "new"
        assert len(waits) == 2

    def test_a_transaction_that_stays_busy_is_an_error_that_a_retry_helps(self, ledger, client, waits):
        client.failures["transact_write_items"] = [self.cancelled("TransactionConflict", "None")] * 20
        with pytest.raises(LedgerBusy) as raised:
            ledger.objects.admit(an_object())
        assert raised.value.retriable and len(waits) == 8

    def test_a_transaction_cancelled_for_any_other_reason_raises_the_original_error(self, ledger, client):
        client.failures["transact_write_items"] = [self.cancelled("ValidationError", "None")]
        with pytest.raises(ClientError):
            ledger.objects.admit(an_object())

    def test_a_wake_that_meets_a_transaction_is_repeated(self, ledger, client):
        client.failures["update_item"] = [aws_error("TransactionConflictException", "UpdateItem")]
        assert ledger.lanes.wake(LANE).arrivals == 1

    def test_keys_left_unread_are_read_again(self, ledger, client, monkeypatch):
        for n in range(3):
            ledger.objects.admit(an_object(n))
        real = client._client.batch_get_item
        answers = []

        def partial(**arguments):
            keys = arguments["RequestItems"]["ledger"]["Keys"]
            answer = real(RequestItems={"ledger": {"Keys": keys[:1], "ConsistentRead": True}})
            answer["UnprocessedKeys"] = {"ledger": {"Keys": keys[1:], "ConsistentRead": True}} if keys[1:] else {}
            answers.append(answer)
            return answer

        monkeypatch.setattr(client, "batch_get_item", partial, raising=False)
        assert len(ledger.objects.get(an_object(n).id for n in range(3))) == 3 and len(answers) == 3
