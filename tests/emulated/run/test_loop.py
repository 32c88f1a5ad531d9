"""The life of a run over the real ledger: claiming, failures, take-over, lingering, release of the lane."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from driving.lane import LANE, SimulatedLane, configuration, two_threads
from driving.mortality import Killed, Mortality

from sluice.batch.manifest import Manifest
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.errors import SluiceError, TableWentBack
from sluice.lane.job_policy import scope_of
from sluice.lane.machine import IDLE, PAUSED, RUNNING, wanted_at
from sluice.lane.supervision import NOTHING, START, next_step
from sluice.ports import Report
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.lanes.supervise import Supervisor
from sluice_spark.errors import LaneLost, NoBundle, SparkDied
from sluice_spark.run.hold import RunIdentity
from sluice_spark.run.loop import LOST, REFUSED, RELEASED


def of_rule(**settings):
    """A configuration of one rule, for all topics of shop unless these settings say otherwise."""
    return configuration(
        rules=[TableRule(**{"table": "shop.{1}", "topic": "shop.*", "record_key": ("id",), **settings})]
    )


@pytest.fixture
def simulated(client):
    return SimulatedLane(client, configuration())


def test_a_run_merges_what_is_pending_settles_it_and_gives_the_lane_back(simulated):
    orders, customers = simulated.put("shop.orders", 3), simulated.put("shop.customers", 2)
    end = simulated.run()
    assert (end.how, end.batches) == (RELEASED, 1)
    assert simulated.states(orders + customers) == {"committed": 5}
    assert [table for _, table, _ in simulated.tables.commits] == ["shop.orders", "shop.customers"]
    lane = simulated.ledger.lanes.get(LANE)
    assert (lane.state, lane.due_at, lane.arrivals_seen) == (IDLE, None, lane.arrivals)
    assert simulated.ledger.history.run("run-1")["state"] == "released"


def test_a_driver_that_is_refused_exits_without_effect_and_starts_no_spark(simulated):
    simulated.put()
    identity = simulated.start()
    end = simulated.loop(replace(identity, job_run_id="00other")).run()
    assert (end.how, end.batches) == (REFUSED, 0)
    assert simulated.merger.calls == []
    assert simulated.ledger.lanes.get(LANE).job_run_id == identity.job_run_id
    assert [event["event"] for event in simulated.events("hold_refused")] == ["hold_refused"]


def test_a_second_attempt_of_the_same_job_run_is_refused(simulated):
    identity = simulated.start()
    assert simulated.ledger.lanes.hold(LANE, identity.run, identity.job_run_id, 1, simulated.clock.now_ms())
    assert simulated.loop(replace(identity, attempt=2)).run().how == REFUSED


def test_what_arrives_while_a_run_lingers_is_merged_by_the_same_run(simulated):
    first, late = simulated.put(), simulated.arriving(30, "shop.customers")
    assert simulated.run().batches == 2
    assert simulated.states(first + late) == {"committed": 2}


def test_arrivals_during_a_merge_form_one_batch_however_many_notices_announce_them(simulated):
    first, rest = simulated.put("shop.orders"), []

    def arrive():
        del simulated.merger.during["shop.orders"]
        for table in ("shop.orders", "shop.customers", "shop.lines"):
            for _ in range(5):
                rest.extend(simulated.put(table, 2))
        simulated.clock.wait(1)  # new tables wait a moment for more objects

    simulated.merger.during["shop.orders"] = arrive
    assert simulated.run().batches == 2
    assert simulated.states(first + rest) == {"committed": 31}
    assert len(simulated.tables.commits) == 4


def test_a_run_lingers_as_configured_after_its_last_batch_and_keeps_workers_warm(simulated):
    simulated.put()
    simulated.run()
    assert 60 <= simulated.clock.seconds < 62
    assert simulated.merger.calls.count("keep_warm") >= 10


def test_an_idle_run_queries_pending_objects_only_after_a_new_arrival(simulated):
    simulated.put()
    queries = []

    def counting(name, port):
        if name == "ledger":
            oldest = port.pending.oldest
            port.pending.oldest = lambda *arguments: queries.append(arguments) or oldest(*arguments)
        return port

    simulated.run(around=counting)
    assert len(queries) == 2  # the one that found the object, and the one that found nothing


def test_an_arrival_between_the_last_look_and_the_release_is_not_lost(simulated):
    simulated.put()
    late = []
    release = simulated.ledger.lanes.release

    def arrives_first(*arguments):
        if not late:
            late.extend(simulated.put("shop.customers"))
        return release(*arguments)

    simulated.ledger.lanes.release = arrives_first
    assert simulated.run().batches == 2
    assert simulated.states(late) == {"committed": 1}
    assert len(simulated.events("release_refused")) == 1


def test_objects_that_wait_for_freshness_keep_the_run_alive_until_they_are_due(client):
    simulated = SimulatedLane(client, configuration(freshness_s=100))
    early, late = simulated.put(), simulated.arriving(10)
    assert simulated.run().batches == 2
    assert simulated.states(early + late) == {"committed": 2}
    assert simulated.clock.seconds >= 100
    settled = [event["at"] for event in simulated.events("part_settled")]
    assert settled[1] - settled[0] >= 100_000


def test_what_a_full_batch_left_does_not_wait_for_freshness(client):
    simulated = SimulatedLane(client, configuration(freshness_s=7_200, batch_objects=2))
    backlog, late = simulated.put(n=7), simulated.arriving(30)
    assert simulated.run().batches == 4
    assert simulated.states(backlog) == {"committed": 7}
    assert simulated.states(late) == {"pending": 1}
    assert simulated.clock.seconds < 75


def test_a_backlog_leaves_the_freshness_of_other_tables_alone(client):
    simulated = SimulatedLane(client, configuration(freshness_s=7_200, batch_objects=4))
    simulated.put("shop.customers")
    simulated.run()
    backlog, late = simulated.put("shop.orders", 20), []
    simulated.merger.during["shop.orders"] = lambda: late.extend(simulated.put("shop.customers"))
    simulated.clock.advance(7_200_000)
    late.extend(simulated.put("shop.customers"))
    simulated.run()
    assert simulated.states(backlog) == {"committed": 20}
    assert simulated.states(late)["committed"] == 1
    assert [table for _, table, _ in simulated.tables.commits].count("shop.customers") == 2


def test_what_comes_during_the_first_load_of_a_table_does_not_wait_for_freshness(client):
    simulated = SimulatedLane(client, configuration(freshness_s=7_200))
    first, during, late = simulated.put(), [], []

    def arrive():
        simulated.merger.during["shop.orders"] = lambda: late.extend(simulated.put() if not late else ())
        during.extend(simulated.put())

    simulated.merger.during["shop.orders"] = arrive
    assert simulated.run().batches == 2
    assert simulated.states(first + during) == {"committed": 2}
    assert simulated.states(late) == {"pending": 1}


def test_a_freshness_of_hours_keeps_no_run_alive_and_the_schedule_starts_the_next(client):
    simulated = SimulatedLane(client, configuration(freshness_s=7_200))
    simulated.put()
    late = simulated.arriving(10)
    assert simulated.run().how == RELEASED
    assert 60 <= simulated.clock.seconds < 75  # it lingered, and no longer
    due_at = simulated.ledger.tables.get("shop.orders").last_commit_at + 7_200_000
    lane = simulated.ledger.lanes.get(LANE)
    assert (lane.state, lane.due_at) == (IDLE, due_at)
    assert (next_step(lane, due_at - 1).action, next_step(lane, due_at).action) == (NOTHING, START)
    simulated.clock.advance(due_at - simulated.clock.now_ms())
    simulated.run()
    assert simulated.states(late) == {"committed": 1}


def test_what_comes_due_soon_keeps_the_run_alive_no_longer_than_for_itself(client):
    rules = [
        TableRule(table=f"shop.{name}", record_key=("id",), topic=f"shop.{name}", freshness_s=seconds)
        for name, seconds in (("orders", 110), ("customers", 7_200))
    ]
    simulated = SimulatedLane(client, configuration(rules=rules))
    simulated.put("shop.orders"), simulated.put("shop.customers")
    late = simulated.arriving(10, "shop.orders", "shop.customers")
    assert simulated.run().how == RELEASED
    assert simulated.states(late) == {"committed": 1, "pending": 1}
    assert 110 <= simulated.clock.seconds < 190
    committed_at = simulated.ledger.tables.get("shop.customers").last_commit_at
    assert simulated.ledger.lanes.get(LANE).due_at == committed_at + 7_200_000


def test_a_run_at_its_maximum_age_writes_when_what_waits_is_due(client):
    simulated = SimulatedLane(client, configuration(freshness_s=120, max_age_s=100))
    simulated.put()
    simulated.clock.at(10, lambda: simulated.put())
    assert simulated.run().how == RELEASED
    lane = simulated.ledger.lanes.get(LANE)
    committed_at = simulated.ledger.tables.get("shop.orders").last_commit_at
    assert (lane.state, lane.due_at) == (IDLE, committed_at + 120_000)
    assert 100 <= simulated.clock.seconds < 102


def test_a_run_ends_without_claiming_when_its_lane_gets_another_table(client):
    before = of_rule(table="shop.orders", topic="shop.orders", freshness_s=0)
    simulated = SimulatedLane(client, before)
    merged, late = simulated.put(), []

    def pushed():
        more = TableRule("shop.customers", ("id",), topic="shop.customers")
        simulated.file.content = Configuration((*before.rules, more), before.lanes)
        late.extend(simulated.put("shop.customers") + simulated.put())  # of a table that the run knows, too

    simulated.clock.at(10, pushed)
    assert simulated.run(scope=scope_of(before, LANE).name).how == RELEASED
    lane = simulated.ledger.lanes.get(LANE)
    expected = (IDLE, simulated.clock.now_ms(), {"committed": 1}, {"pending": 2})
    assert (lane.state, lane.due_at, simulated.states(merged), simulated.states(late)) == expected
    assert simulated.clock.seconds < 20
    assert len(simulated.events("configuration_outgrown")) == 1
    assert simulated.run(scope=scope_of(simulated.file.content, LANE).name).how == RELEASED
    assert simulated.states(late) == {"committed": 2}


def test_a_run_adopts_a_configuration_that_keeps_its_lanes_tables(client):
    before = configuration(linger_s=60)
    simulated = SimulatedLane(client, before)
    simulated.put()
    simulated.clock.at(10, lambda: setattr(simulated.file, "content", configuration(linger_s=20)))
    simulated.clock.at(11, simulated.put)
    assert simulated.run(scope=scope_of(before, LANE).name).batches == 2
    assert simulated.clock.seconds < 40


def test_a_run_at_its_maximum_age_leaves_claimable_objects_due_at_once(client):
    simulated = SimulatedLane(client, configuration(max_age_s=100))
    simulated.put()
    late = []

    def much_later():
        simulated.clock.advance(100_000)
        late.extend(simulated.put("shop.customers"))

    simulated.merger.during["shop.orders"] = much_later
    assert simulated.run().how == RELEASED
    lane = simulated.ledger.lanes.get(LANE)
    assert (lane.state, lane.due_at) == (IDLE, simulated.clock.now_ms())
    assert simulated.states(late) == {"pending": 1}


def test_a_pause_ends_the_run_after_its_batch_and_leaves_the_rest_pending(simulated):
    simulated.put()
    late = []

    def pause():
        simulated.ledger.lanes.pause(LANE)
        late.extend(simulated.put("shop.customers"))

    simulated.merger.during["shop.orders"] = pause
    end = simulated.run()
    assert (end.how, end.batches) == (RELEASED, 1)
    assert simulated.ledger.lanes.get(LANE).state == PAUSED
    assert simulated.states(late) == {"pending": 1}


def test_a_lane_that_is_lost_before_a_commit_stops_the_run_without_another_write(simulated):
    orders, customers = simulated.put("shop.orders"), simulated.put("shop.customers")
    identity = simulated.start()
    simulated.merger.during["shop.customers"] = lambda: simulated.lapse(identity)  # the first of the two
    writes = []

    def watched(name, port):
        if name == "documents":
            put = port.put_outcome
            port.put_outcome = lambda outcome: writes.append(outcome) or put(outcome)
        return port

    end = simulated.loop(identity, around=watched).run()
    assert end.how == LOST
    assert simulated.tables.commits == [] and writes == []
    assert "abandon" in simulated.merger.calls
    assert simulated.states(orders + customers) == {"claimed": 2}  # for whoever takes over


def test_a_run_whose_lane_is_lost_before_it_gives_objects_back_gives_none_back(simulated):
    ids = simulated.put(n=3)
    identity = simulated.start()
    simulated.merger.before["shop.orders"].append(RuntimeError("no"))

    def watched(name, port):
        if name == "ledger":
            note = port.tables.record_error
            # Behind the last check, before the first object.
            port.tables.record_error = lambda *noted: (note(*noted), simulated.lapse(identity))[0]
        return port

    assert simulated.loop(identity, around=watched).run().how == LOST
    assert simulated.states(ids) == {"claimed": 3}
    assert "abandon" in simulated.merger.calls


def test_a_lane_that_is_lost_while_idle_stops_the_run(simulated):
    simulated.put()
    identity = simulated.start()
    simulated.clock.at(20, lambda: simulated.lapse(identity))
    assert simulated.loop(identity).run().how == LOST


def test_a_failed_table_returns_its_objects_with_back_off_and_stops_no_other(simulated):
    orders, customers = simulated.put("shop.orders", 2), simulated.put("shop.customers", 2)
    simulated.merger.before["shop.orders"].append(ValueError("a column went missing"))
    identity = simulated.start()
    simulated.clock.at(5, lambda: simulated.ledger.lanes.pause(LANE))
    simulated.loop(identity).run()
    assert simulated.states(customers) == {"committed": 2}
    assert simulated.states(orders) == {"pending": 2}
    state = simulated.ledger.tables.get("shop.orders")
    assert state.failures == 1 and state.last_error == "a column went missing"
    assert state.backoff_until - simulated.events("table_failed")[0]["at"] == 30_000
    assert simulated.tables.rolled_back == ["shop.orders"]
    assert simulated.ledger.batches.unsettled(LANE) == []


def test_a_failed_table_is_tried_again_when_its_back_off_is_over(simulated):
    orders = simulated.put("shop.orders", 2)
    simulated.merger.before["shop.orders"] += [ValueError("once"), ValueError("twice")]
    assert simulated.run().how == RELEASED
    assert simulated.states(orders) == {"pending": 2}
    lane = simulated.ledger.lanes.get(LANE)
    assert lane.due_at == simulated.ledger.tables.get("shop.orders").backoff_until  # 60 s: longer than the linger
    simulated.clock.advance(max(0, lane.due_at - simulated.clock.now_ms()))
    simulated.run()
    assert simulated.states(orders) == {"committed": 2}
    assert simulated.ledger.tables.get("shop.orders").failures == 0


def test_a_table_that_went_back_waits_for_a_decision_and_stops_no_other(simulated):
    first = simulated.put("shop.orders")
    simulated.run()
    simulated.merger.before["shop.orders"].append(TableWentBack("shop.orders is gone", table="shop.orders"))
    orders, customers = simulated.put("shop.orders", 2), simulated.put("shop.customers")
    simulated.run()
    assert (simulated.states(first + customers), simulated.states(orders)) == ({"committed": 2}, {"pending": 2})
    state = simulated.ledger.tables.get("shop.orders")
    assert (state.blocked["code"], state.blocked["error"]) == ("table_went_back", "shop.orders is gone")
    assert "sluice table accept" in state.last_error
    assert simulated.ledger.lanes.get(LANE).due_at is None  # nothing starts for it

    later = simulated.put("shop.orders")
    simulated.run()
    assert simulated.states(orders + later) == {"pending": 3}
    assert not simulated.ledger.tables.accept("shop.orders", None, seen=replace(state, last_instant="another instant"))
    assert simulated.ledger.tables.accept("shop.orders", None, seen=state)
    simulated.ledger.lanes.wake(LANE)
    simulated.run()
    assert simulated.states(orders + later) == {"committed": 3}


def test_a_batch_names_the_last_commit_of_each_of_its_tables(simulated):
    simulated.put("shop.orders")
    simulated.run()
    last = simulated.ledger.tables.get("shop.orders").last_instant
    simulated.put("shop.orders")
    simulated.put("shop.customers")
    simulated.run()
    newest = Manifest.from_json(list(simulated.documents.stored.values())[-3])
    expected = {"shop.orders": last, "shop.customers": None}
    assert {table: part.last_instant for table, part in newest.tables.items()} == expected


def test_a_write_that_raised_after_its_commit_was_there_is_settled_and_not_repeated(simulated):
    orders = simulated.put("shop.orders", 2)
    simulated.merger.after["shop.orders"].append(TimeoutError("save() hung"))
    simulated.run()
    assert simulated.states(orders) == {"committed": 2}
    assert len(simulated.tables.commits) == 1
    assert len(simulated.events("commit_found_after_failure")) == 1


def test_a_table_that_cannot_even_be_resolved_stays_claimed_and_stops_no_other(simulated):
    orders, customers = simulated.put("shop.orders"), simulated.put("shop.customers")
    simulated.merger.before["shop.orders"].append(ValueError("broken"))
    simulated.merger.resolving["shop.orders"].append(ValueError("no timeline"))
    more = simulated.arriving(2, "shop.orders", "shop.customers")
    assert simulated.run().batches == 3
    assert simulated.states(customers + orders + more) == {"committed": 4}
    of_orders = [objects for _, table, objects in simulated.tables.commits if table == "shop.orders"]
    assert of_orders[0] == frozenset(orders)  # its own batch first, when its back-off was over


def test_an_unresolved_part_is_left_to_the_next_run_with_the_lane_due_then(client):
    simulated = SimulatedLane(client, configuration(linger_s=5))
    orders = simulated.put("shop.orders")
    simulated.merger.before["shop.orders"].append(ValueError("broken"))
    simulated.merger.resolving["shop.orders"] += [ValueError("no timeline")]
    assert simulated.run().how == RELEASED
    lane = simulated.ledger.lanes.get(LANE)
    assert simulated.states(orders) == {"claimed": 1}
    assert lane.due_at == simulated.ledger.tables.get("shop.orders").backoff_until
    simulated.clock.advance(max(0, lane.due_at - simulated.clock.now_ms()))
    assert simulated.run().batches == 1
    assert simulated.states(orders) == {"committed": 1}


def test_an_object_is_quarantined_and_the_rest_of_its_table_is_committed(simulated):
    good, bad = simulated.put("shop.orders", 2)
    simulated.merger.quarantined = frozenset({bad})
    simulated.run()
    assert (simulated.state_of(good), simulated.state_of(bad)) == ("committed", "quarantined")


def test_a_part_without_newer_rows_is_settled_without_a_commit_and_pins_nothing(simulated):
    orders = simulated.put()
    simulated.merger.no_change = frozenset({"shop.orders"})
    simulated.run()
    assert simulated.tables.commits == []
    assert simulated.states(orders) == {"committed": 1}
    assert simulated.ledger.tables.get("shop.orders").pinned is None


def test_a_table_is_pinned_to_what_its_first_commit_was_written_with(simulated):
    simulated.put()
    simulated.run()
    assert simulated.ledger.tables.get("shop.orders").pinned["record_key"] == ["id"]


def test_a_changed_key_of_a_table_with_data_is_refused_and_its_objects_wait(simulated):
    simulated.put()
    simulated.clock.at(5, lambda: setattr(simulated.file, "content", of_rule(record_key=("other",), freshness_s=0)))
    late = simulated.arriving(6, "shop.orders", "shop.customers")
    assert simulated.run().how == RELEASED
    assert simulated.states(late) == {"pending": 1, "committed": 1}
    assert "sluice rebuild table" in simulated.ledger.tables.get("shop.orders").last_error
    assert len(simulated.events("table_refused")) == 1
    assert simulated.ledger.lanes.get(LANE).due_at is None


def test_objects_of_a_tables_second_topic_wait_with_a_warning_and_the_table_goes_on(simulated):
    regex = r"[a-z]+\.(?P<t>orders)"
    simulated.file.content = of_rule(table="shop.{t}", topic=None, topic_regex=regex, freshness_s=0)
    first = simulated.put()
    simulated.run()
    other, more = simulated.put(topic="archive.orders"), simulated.put()
    simulated.run()
    assert (simulated.states(first + more), simulated.states(other)) == ({"committed": 2}, {"pending": 1})
    error = simulated.ledger.tables.get("shop.orders").last_error
    assert "archive.orders wait for shop.orders, which topic shop.orders feeds" in error
    assert simulated.ledger.lanes.get(LANE).due_at is None


def test_a_changed_configuration_is_used_by_the_next_batch(simulated):
    simulated.put()
    simulated.clock.at(5, lambda: setattr(simulated.file, "content", of_rule(time_travel_h=1, freshness_s=0)))
    simulated.clock.at(6, simulated.put)
    simulated.run()
    assert [config["time_travel_h"] for config in simulated.merger.merged_with.values()] == [168, 1]


def test_a_broken_configuration_changes_nothing_and_is_reported_once(simulated):
    orders = simulated.put()
    simulated.clock.at(5, lambda: setattr(simulated.file, "content", SluiceError("not a configuration")))
    second, third = simulated.arriving(6), simulated.arriving(12)
    simulated.run()
    assert simulated.states(orders + second + third) == {"committed": 3}
    assert len(simulated.events("configuration_broken")) == 1


def test_objects_of_a_table_that_another_lane_has_now_are_not_claimed(client):
    simulated = SimulatedLane(client, of_rule(lane="big"))
    orders = simulated.put()
    assert simulated.run().batches == 0
    assert simulated.states(orders) == {"pending": 1}


def test_the_next_run_finishes_a_batch_under_its_own_id_and_only_then_claims(simulated):
    first = simulated.put("shop.orders") + simulated.put("shop.customers")
    simulated.merger.before["shop.customers"].append(KeyboardInterrupt())
    simulated.die(KeyboardInterrupt)
    late = simulated.put("shop.orders")
    simulated.merger.calls.clear()
    assert simulated.run().batches == 2
    batches = [batch for batch, _, _ in simulated.tables.commits]
    assert batches[0] == batches[1] != batches[2]
    expected = ["prepare", "resolve shop.customers", "merge shop.customers", "merge shop.orders"]
    assert simulated.merger.calls[:4] == expected
    assert simulated.states(first + late) == {"committed": 3}


def test_an_outcome_whose_commit_is_gone_is_not_believed(simulated):
    orders = simulated.put("shop.orders")
    simulated.die(Killed, around=Mortality(dies_behind="documents.put_outcome").around)
    assert len(simulated.tables.commits) == 1
    simulated.tables.commits.clear()  # a writer that came back may have undone it
    simulated.run()
    assert simulated.states(orders) == {"committed": 1}
    assert simulated.tables.times_committed() == dict.fromkeys(orders, 1)


def test_an_idle_lane_with_an_open_batch_is_woken(simulated):
    orders = simulated.put("shop.orders")
    dying, mortality = simulated.start(), Mortality(dies_behind="documents.put_outcome")
    with pytest.raises(Killed):
        simulated.loop(dying, around=mortality.around).run()
    lanes, now = simulated.ledger.lanes, simulated.clock.now_ms
    assert lanes.release(LANE, dying.run, lanes.get(LANE).arrivals, None, now()), "as an operator may do by hand"
    assert wanted_at(lanes.get(LANE)) is None and simulated.ledger.pending.oldest(LANE, 10) == []
    emr = JobRuns(None, "no application")
    supervisor = Supervisor(ledger=simulated.ledger, job_runs=emr, starter=None, report=Mock(spec=Report), now=now)
    assert supervisor.wake_forgotten(lanes.all(), simulated.file.content) == (LANE,)
    simulated.run()
    assert simulated.states(orders) == {"committed": 1}
    assert supervisor.wake_forgotten(lanes.all(), simulated.file.content) == ()


def test_an_object_rerouted_before_its_claim_is_merged_into_its_new_table(simulated):
    (moved,) = simulated.put("shop.orders")
    identity = simulated.start()

    def reroutes_first(name, port):
        if name == "ledger":
            claim = port.batches.claim

            def claim_behind_a_reroute(manifest):
                port.batches.claim = claim
                simulated.file.content = of_rule(table="shop.orders_v2", topic="shop.orders")
                record = port.objects.get([moved])[moved]
                now_of = simulated.file.content.table_for_topic("shop.orders")
                assert port.objects.reroute(record, now_of, simulated.clock.now_ms())
                port.lanes.wake(LANE)
                return claim(manifest)

            port.batches.claim = claim_behind_a_reroute
        return port

    assert simulated.loop(identity, around=reroutes_first).run().how == RELEASED
    assert simulated.state_of(moved) == "committed"
    ((_, table, objects),) = simulated.tables.commits
    assert (table, objects) == ("shop.orders_v2", frozenset({moved}))
    assert simulated.ledger.tables.get("shop.orders").last_commit_at is None


def test_the_configuration_of_a_taken_over_batch_is_the_one_it_was_claimed_under(simulated):
    simulated.put()
    simulated.merger.before["shop.orders"].append(KeyboardInterrupt())
    simulated.die(KeyboardInterrupt)
    simulated.file.content = of_rule(record_key=("other",), freshness_s=0)
    simulated.run()
    (config,) = simulated.merger.merged_with.values()
    assert config["record_key"] == ("id",) or config["record_key"] == ["id"]


@pytest.mark.parametrize("end", [SparkDied("gone"), NoBundle("no jar")])
def test_the_end_of_spark_ends_the_run_and_blames_no_table(simulated, end):
    orders = simulated.put()
    simulated.merger.before["shop.orders"].append(end)
    dying = simulated.start()
    with pytest.raises(type(end)):
        simulated.loop(dying).run()
    assert simulated.ledger.tables.get("shop.orders").failures == 0
    assert simulated.ledger.lanes.get(LANE).state == RUNNING
    simulated.lapse(dying)
    simulated.run()
    assert simulated.states(orders) == {"committed": 1}


def test_tables_of_a_batch_are_merged_in_parallel_and_a_lost_lane_stops_them_all(client):
    simulated = SimulatedLane(client, configuration(), threads=4)
    simulated.put("shop.orders"), simulated.put("shop.customers"), simulated.put("shop.items")
    identity = simulated.start()
    simulated.merger.before["shop.orders"].append(LaneLost("taken"))
    with two_threads() as pool:
        assert simulated.loop(identity, executor=pool).run().how == LOST
    assert simulated.merger.calls.count("abandon") >= 1


def test_every_batch_records_where_its_time_went(simulated):
    simulated.put()
    simulated.run()
    (event,) = simulated.events("profile")
    stages = "pending plan manifest open claim merge outcome settle close wall".split()
    assert set(stages) <= set(event["seconds"])
    assert event["batch"] and event["run"] == "run-1" and event["oldest_waited_s"] >= 0


def test_a_batch_takes_no_more_than_its_budget_and_the_rest_follows(client):
    simulated = SimulatedLane(client, configuration(batch_objects=2))
    orders = simulated.put(n=5)
    assert simulated.run().batches == 3
    assert simulated.states(orders) == {"committed": 5}


def test_a_run_gives_signs_of_life_while_it_waits_and_none_while_a_batch_hangs(client):
    simulated = SimulatedLane(client, configuration(linger_s=1_500))
    simulated.put()
    signs = []
    simulated.merger.during["shop.orders"] = lambda: (
        simulated.clock.advance(3_600_000),
        signs.append(simulated.ledger.lanes.get(LANE).alive_at),
    )
    simulated.clock.at(4_500, lambda: signs.append(simulated.ledger.lanes.get(LANE).alive_at))
    assert simulated.run().how == RELEASED
    assert signs[0] is None
    assert simulated.clock.now - signs[1] < 1_500_000
    assert simulated.ledger.lanes.get(LANE).alive_at is None


def test_a_run_that_lingers_says_until_when_and_takes_it_back_with_the_next_claim(simulated):
    said = {}

    def note(moment):
        said[moment] = simulated.ledger.lanes.get(LANE).idle_until

    simulated.put()
    simulated.clock.at(30, lambda: note("waits"))
    simulated.clock.at(40, lambda: simulated.put("shop.customers"))
    simulated.merger.during["shop.customers"] = lambda: note("merges")
    simulated.run()
    settled = [event["at"] for event in simulated.events("part_settled")]
    assert said["waits"] - settled[0] == pytest.approx(60_000, abs=1_000)
    assert said["merges"] is None and simulated.ledger.lanes.get(LANE).idle_until is None


def test_a_take_over_within_a_run_ends_its_wait_for_objects(simulated):
    said = []
    simulated.put()
    simulated.merger.before["shop.orders"].append(ValueError("the merge fails"))
    simulated.merger.resolving["shop.orders"].append(ValueError("and what it left can't be removed at once"))
    resolve = simulated.merger.resolve_part

    def resolving(*arguments):
        said.append(simulated.ledger.lanes.get(LANE).idle_until)
        return resolve(*arguments)

    simulated.merger.resolve_part = resolving
    simulated.clock.at(20, lambda: said.append(simulated.ledger.lanes.get(LANE).idle_until))
    simulated.run()
    assert [until is None for until in said] == [True, False, True]


def test_a_run_that_nobody_asked_for_holds_nothing(simulated):
    assert simulated.loop(RunIdentity(LANE, "run-unknown", "00job")).run().how == REFUSED
