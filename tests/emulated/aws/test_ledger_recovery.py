"""Recovery of a lost ledger, or of one restored to an older point, from bronze, manifests and outcomes."""

import json
from dataclasses import replace

import pytest
from driving.lane import LANE, SimulatedLane, configuration
from emulation.ledger_table_schema import create_ledger_table

from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import ObjectError, Outcome, RowErrorCount
from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.rules.table_rule import TableRule
from sluice.ledger.recovery import Recovery
from sluice.silver_keys import BEGUN, FINISHED, manifest_key
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger

TABLES = ("shop.orders", "shop.customers", "shop.lines")
# What only notices and people knew; and the generation that a part was claimed under which returned: the manifest of
# the batch that merged it has it.
UNKNOWN = dict.fromkeys("noticed_at via sequencer etag unparked_at replayed_at listed_at generation".split())
RULE = TableRule(table="shop.{1}", record_key=("id",), topic="shop.*", freshness_s=0, generation=1)
MISSING = {"missing": 2, "older": 0, "right": 0, "unknown": 1, "raced": 0}
MOVED_TO = "_sluice/replaced/crm.other/0000000000020/"


@pytest.fixture
def simulated(client):
    for name in ("other", "third"):
        create_ledger_table(client, name)
    return SimulatedLane(client, configuration(linger_s=2, rules=[RULE]))


def other_ledger(simulated, name="other"):
    """Another table of the same account, empty at first."""
    return Ledger(simulated._client, name, threads=1)


def manifests(simulated):
    return [Manifest.from_json(text) for key, text in simulated.documents.stored.items() if "/manifests/" in key]


def recovery(simulated, rebuilt=None, dropped=None):
    recovered = Recovery({**(rebuilt or {}), **(dropped or {})}, dropped or {})
    for manifest in manifests(simulated):
        outcomes = {table: simulated.documents.outcome(manifest.batch, table) for table in manifest.tables}
        recovered.add(manifest, {table: outcome for table, outcome in outcomes.items() if outcome is not None})
    return recovered


def recover(simulated, ledger, listing, **how):
    result = recovery(simulated, **how)
    settled = [identity for identity in map(result.settled, listing) if identity is not None]
    done = ledger.recovery.restore_objects(settled, {})
    for table, state in result.tables().items():
        ledger.recovery.restore_table(table, state, purge_floors={})
    return done


def a_history(simulated):
    """Parts that committed, that changed nothing, that failed once and returned, and a bad object; then one that nobody
    has merged.
    """
    listing = simulated.put("shop.orders", 3) + simulated.put("shop.customers", 2) + simulated.put("shop.lines", 2)
    simulated.merger.quarantined = frozenset({listing[1]})
    simulated.merger.before["shop.customers"].append(ValueError("once"))
    simulated.merger.no_change = frozenset({"shop.lines"})
    simulated.run()
    simulated.clock.advance(simulated.ledger.lanes.get(LANE).due_at - simulated.clock.now_ms())
    simulated.run()
    return listing


def records_of(ledger, listing):
    return {identity: replace(record, **UNKNOWN) for identity, record in ledger.objects.get(listing).items()}


def test_an_empty_ledger_recovers_the_state_of_every_object_and_table(simulated):
    listing = a_history(simulated)
    late = simulated.put("shop.orders")
    lost, empty = simulated.ledger, other_ledger(simulated)
    done = recover(simulated, empty, listing + late)
    assert (done.added, done.corrected, done.unchanged, done.raced) == (7, 0, 0, 0)
    assert records_of(empty, listing) == records_of(lost, listing)
    assert late[0] not in records_of(empty, late)
    for table in TABLES:
        was, now = lost.tables.get(table), empty.tables.get(table)
        assert now == replace(was, failures=0, backoff_until=None, services_since=was.services_since), table
    assert [record.id for record in empty.objects.in_state("quarantined")] == [listing[1]]
    again = recover(simulated, empty, listing)
    assert (again.added, again.corrected, again.unchanged) == (0, 0, 7)


def test_a_recovered_ledger_knows_the_history_that_a_table_had(simulated):
    for history in (True, False):
        rule = TableRule("shop.{1}", ("id",), topic="shop.*", freshness_s=0, history=history)
        simulated.file.content = configuration(linger_s=2, rules=[rule])
        simulated.put("shop.orders")
        simulated.run()
    empty = other_ledger(simulated)
    recover(simulated, empty, [])
    pinned = simulated.ledger.tables.get("shop.orders").pinned
    assert empty.tables.get("shop.orders").pinned == pinned and pinned["history"] == "orders_history"


def test_an_older_ledger_is_corrected_and_keeps_its_later_records(simulated):
    older = other_ledger(simulated)
    first = simulated.put(n=2)
    simulated.run()
    recover(simulated, older, first)  # the point it is restored to
    second = simulated.put(n=2)
    for record in simulated.ledger.objects.get(second).values():
        older.objects.admit(replace(record, state="pending"))
    waiting = older.pending.oldest(LANE, 10)
    simulated.run()
    retried = simulated.ledger.objects.get(first)[first[0]]
    assert len(waiting) == 2 and retried.state == "committed"
    done = recover(simulated, older, first + second)
    assert (done.added, done.corrected, done.unchanged) == (0, 2, 2)
    assert older.pending.oldest(LANE, 10) == []
    assert records_of(older, first + second) == records_of(simulated.ledger, first + second)
    assert older.tables.get("shop.orders").totals == simulated.ledger.tables.get("shop.orders").totals


def test_an_object_that_was_merged_twice_counts_once_in_a_recovered_ledger(simulated):
    listing = simulated.put("shop.orders", 3)
    simulated.run()
    records = list(simulated.ledger.objects.get(listing[:2]).values())
    simulated.ledger.rebuilds.replay(records, LANE, {}, simulated.clock.now_ms(), while_paused=False)
    simulated.ledger.lanes.wake(LANE)
    simulated.run()
    empty = other_ledger(simulated)
    recover(simulated, empty, listing)
    assert empty.tables.get("shop.orders").totals["objects"] == 3
    first = {id: record.first_batch for id, record in simulated.ledger.objects.get(listing).items()}
    assert first == {id: record.first_batch for id, record in empty.objects.get(listing).items()}
    assert [first[id] is not None for id in listing] == [True, True, False]
    assert empty.tables.get("shop.orders").totals == simulated.ledger.tables.get("shop.orders").totals


def test_rows_and_objects_that_were_set_aside_or_parked_are_so_again(simulated):
    recovered, listing = Recovery({}), simulated.put(n=3)
    simulated.run()
    (manifest,) = manifests(simulated)
    rows, parked, plain = listing
    outcome = replace(
        simulated.documents.outcome(manifest.batch, "shop.orders"),
        parked=(ObjectError(parked.hash, LOG_RESTARTED, "fell"),),
        parked_generation=0,
        quarantined_rows=(RowErrorCount(rows.hash, 2, {"null_record_key": 2}),),
    )
    recovered.add(manifest, {"shop.orders": outcome})
    ledger = other_ledger(simulated)
    assert ledger.recovery.restore_objects(list(map(recovered.settled, listing)), {plain: "etag"}).added == 3
    of_rows, of_parked, of_plain = map(ledger.objects.get(listing).get, listing)
    expected = ("committed", 2, {"null_record_key": 2})
    assert (of_rows.state, of_rows.quarantined_rows, of_rows.row_codes) == expected
    assert (of_parked.state, of_parked.code, of_parked.parked_generation) == ("parked", LOG_RESTARTED, 0)
    assert (of_plain.state, of_plain.etag) == ("committed", "etag")
    assert [record.id for record in ledger.quarantine.objects_with_rows()] == [rows]
    assert [record.id for record in ledger.objects.in_state("parked")] == [parked]


def test_objects_merged_before_a_rebuild_are_merged_again_under_their_generation(simulated):
    before = simulated.put("shop.orders", 2)
    simulated.run()
    rebuilt = simulated.clock.now_ms()
    simulated.clock.advance(1_000)
    after = simulated.put("shop.orders")
    simulated.run()
    ledger = other_ledger(simulated)
    recover(simulated, ledger, before + after, rebuilt={"shop.orders": rebuilt})
    waiting = {item.id: (item.attempt, item.generation) for item in ledger.pending.oldest(LANE, 10)}
    assert waiting == dict.fromkeys(before, (1, 1))
    assert ledger.objects.get(after)[after[0]].state == "committed"


def test_objects_of_a_dropped_table_stay_ignored_until_a_table_takes_them_again(simulated):
    before, back = simulated.put("shop.orders", 2), simulated.put("shop.orders")
    simulated.run()
    ledger, dropped = simulated.ledger, simulated.clock.now_ms()
    ledger.drops.objects("shop.orders", list(ledger.objects.get(before + back).values()), dropped)
    simulated.clock.advance(1_000)
    config = simulated.file.content.table_for_topic("shop.orders", "")
    assert ledger.objects.unpark(ledger.objects.get(back)[back[0]], config, simulated.clock.now_ms())
    ledger.lanes.wake(LANE)
    simulated.run()
    expected = records_of(ledger, before + back)
    assert [record.state for record in expected.values()] == ["ignored", "ignored", "committed"]
    drop = {"dropped": {"shop.orders": dropped}}
    assert recover(simulated, ledger, before + back, **drop).unchanged == 3
    empty, older = (other_ledger(simulated, name) for name in ("other", "third"))
    recover(simulated, empty, before + back, **drop)
    assert records_of(empty, before + back) == expected
    recover(simulated, older, before)  # the point it is restored to, before the drop
    assert recover(simulated, older, before, **drop).corrected == 2
    assert records_of(older, before) == records_of(ledger, before)


def test_an_object_that_its_batch_may_not_have_merged_is_merged_again(simulated):
    taken, left = simulated.put("shop.orders"), simulated.put("shop.orders")
    simulated.run()
    ((key, text),) = [(key, text) for key, text in simulated.documents.stored.items() if "/manifests/" in key]
    manifest = Manifest.from_json(text)
    outcome = simulated.documents.outcome(manifest.batch, "shop.orders")
    # One of the two was gone elsewhere between plan and claim.
    simulated.documents.put_outcome(replace(outcome, counts={"objects": 1}))
    elsewhere = Manifest.from_json(text.replace(manifest.batch, "b-later"))
    objects = tuple(item for item in elsewhere.objects if item.id in left)
    part = replace(elsewhere.tables["shop.orders"], objects=objects)
    elsewhere = replace(elsewhere, tables={"shop.orders": part})
    ledger = other_ledger(simulated)
    assert recover(simulated, ledger, taken + left).added == 2 and key == manifest_key(LANE, manifest.batch)
    assert {item.id for item in ledger.pending.oldest(LANE, 10)} == set(taken + left)
    assert recover(simulated, simulated.ledger, taken + left).unchanged == 2  # a ledger that knows which keeps it
    simulated.documents.put_manifest(elsewhere)
    simulated.documents.put_outcome(replace(outcome, batch="b-later", counts={"objects": 1}))
    third = other_ledger(simulated, "third")
    assert recover(simulated, third, taken + left).added == 2
    assert simulated.states(left) == {"committed": 1}
    records = third.objects.get(taken + left)
    assert [records[identity].state for identity in taken + left] == ["pending", "committed"]


def test_the_command_refills_an_empty_ledger_and_refuses_while_a_lane_may_run(stack, invoked, tables, sluice):
    sluice("config push", tables("tables: [{topic: crm.public.user, table: crm.user, record_key: id}]"))
    merged, fresh, again = stack.write("merged"), stack.write("fresh"), stack.write("again")
    batch(stack, "b-1", "crm.user", (merged,), at=10)
    batch(stack, "b-2", "crm.other", (again,), at=10)
    begun = {"at": 20, "lane": "main", "to": MOVED_TO, "topic": "t", "table": "crm.other", "gone": []}
    properties = "crm/user/.hoodie/hoodie.properties"
    stack.s3.put_object(Bucket="s-silver", Key=properties, Body=b"sluice.purged_below=0002.7\n")
    stack.s3.put_object(Bucket="s-silver", Key=f"{MOVED_TO}rebuild.json", Body=json.dumps(begun).encode())
    document = sluice.json("rebuild ledger --dry-run")
    assert document == {
        "changed": False,
        "objects": MISSING,
        "tables": ["crm.user"],
        "rebuilds_unfinished": ["crm.other"],
        "lanes_that_may_run": ["main"],
        "skipped_documents": [],
    }
    assert "sluice pause main" in sluice("rebuild ledger --yes", code=1).err
    assert stack.ledger.objects.get([merged]) == {}
    sluice("pause main")
    assert sluice.json("rebuild ledger --yes")["objects"] == MISSING
    records = stack.ledger.objects.get([merged, fresh, again])
    assert {identity.key: (record.state, record.batch, bool(record.etag)) for identity, record in records.items()} == {
        "merged": ("committed", "b-1", True),
        "again": ("pending", None, True),
    }
    user, other = stack.ledger.tables.get("crm.user"), stack.ledger.tables.get("crm.other")
    expected = ("b-1", {"objects": 1, "commits": 1, "uncounted_commits": 1}, {"2": "0002.7"}, ["id"])
    assert (user.last_batch, user.totals, user.purge_floors, user.pinned["record_key"]) == expected
    # Half moved: nothing claims it before it was finished.
    assert other.rebuild["to"] == MOVED_TO


def test_repeated_bytes_of_an_earlier_generation_stay_superseded_when_recovered(stack, tmp_path, sluice):
    """Admitted anew, their changes would be of the present generation and win over all later ones."""
    rule = "{topic: crm.public.user, table: crm.user, record_key: id, generation: 1}"
    (tmp_path / "tables.yaml").write_text(f"tables: [{rule}]")
    sluice("config push", str(tmp_path / "tables.yaml"))
    first, repeated = stack.write("twice", b"same"), stack.write("twice", b"same")
    other, newest = stack.write("twice", b"other"), stack.write("later")
    soon = epoch_ms() + 60_000
    batch(stack, "b-1", "crm.user", (first,), at=10)
    batch(stack, "b-2", "crm.user", (newest,), at=soon, generation=1)
    sluice("pause main")
    done = sluice.json("rebuild ledger --dry-run")["objects"]
    assert sluice.json("rebuild ledger --yes")["objects"] == done and (done["missing"], done["unknown"]) == (3, 1)
    records = stack.ledger.objects.get([first, repeated, other, newest])
    assert {id: (record.state, record.generation) for id, record in records.items()} == {
        first: ("committed", None),
        repeated: ("superseded", 0),
        newest: ("committed", None),
    }


def test_bytes_that_came_back_are_not_superseded_when_recovered(stack, sluice):
    """Behind another version, or under another generation, they are no repetition at their admission either."""
    behind = [stack.write("back", body) for body in (b"same", b"other", b"same")]
    raised = [stack.write("raised", b"same") for _ in range(2)]
    soon = epoch_ms() + 60_000
    batch(stack, "b-1", "crm.user", (behind[0], behind[1]), at=10)
    batch(stack, "b-2", "crm.of_raised", (raised[0],), at=10)
    for table in ("crm.user", "crm.of_raised"):
        batch(stack, f"b-3-{table}", table, (stack.write("x"),), at=20, generation=int(table != "crm.user"))
        batch(stack, f"b-4-{table}", table, (stack.write("y"),), at=soon, generation=1)
    assert sluice.json("rebuild ledger --yes")["objects"]["unknown"] == 2
    assert stack.ledger.objects.get([behind[2], raised[1]]) == {}


@pytest.mark.parametrize(("finished", "state"), [(False, "pending"), (True, "ignored")])
def test_a_drop_that_was_given_up_ignores_no_objects_in_a_rebuilt_ledger(stack, sluice, finished, state):
    merged = stack.write("merged")
    batch(stack, "b-1", "crm.other", (merged,), at=10)
    dropped = {"at": 20, "lane": "main", "to": MOVED_TO, "table": "crm.other", "dropped": True}
    for name in (BEGUN, FINISHED)[: 1 + finished]:
        stack.s3.put_object(Bucket="s-silver", Key=f"{MOVED_TO}{name}", Body=json.dumps(dropped).encode())
    sluice("rebuild ledger --yes")
    assert stack.ledger.objects.get([merged])[merged].state == state


def batch(stack, name, table, objects, *, at, generation=0):
    config = TableRule(table=table, record_key=("id",), topic="t", generation=generation).apply("t")
    listed = tuple(stack.listed(item, "t", admitted_at=at) for item in objects)
    manifest = Manifest(name, "main", "r", at, "v", {table: TablePart(config.to_dict(), listed)})
    outcome = Outcome(name, table, "committed", at, instant="1", counts={"objects": len(objects)})
    stack.put_documents(manifest, outcome)
