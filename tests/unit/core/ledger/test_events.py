"""Events: what each change of the ledger is announced as, and that every detail fits its documented schema."""

from dataclasses import replace

import jsonschema
import pytest

from sluice.lane.machine import HALT_AFTER_FAILURES, LEDGER_LOST
from sluice.ledger import events
from sluice.ledger.announcement import announcement
from sluice.ledger.events import (
    KINDS,
    LateTable,
    LedgerChange,
    batch_events,
    freshness_late,
    is_refused_object,
    lane_halted,
    newly_committed,
    objects_refused,
    table_failed,
)

AT = 1_714_557_600_000
BATCH = {"batch": "b", "lane": "main", "run": "r", "objects": 3, "bytes": 9, "claimed_at": AT, "committed_at": AT + 5}
ADDED = {"column": "email", "change": "added", "from": None, "to": "string"}
PARTS = {
    "a.x": {"state": "committed", "instant": "1", "counts": {"quarantined_objects": 1}, "columns": [ADDED]},
    "a.y": {"state": "committed", "instant": None, "no_change": True, "counts": {"quarantined_rows": 2}},
    "a.z": {"state": "committed", "instant": "3", "counts": {"read": 2}},
}
OF_TABLE, OF_LANE = {"pk": "table#a.x", "sk": "table"}, {"pk": "lane#main", "sk": "lane"}
FAILED = {**OF_TABLE, "failures": 2, "last_error": "no memory\nat line 1. Give the lane more", "backoff_until": AT}
BLOCKED = {**FAILED, "blocked": {"code": "table_went_back", "error": "gone"}}
HALTED = {**OF_LANE, "state": "halted", "failures": HALT_AFTER_FAILURES, "last_run_id": "run-5"}
HALTED |= {"reason": "FAILED: no memory"}
LATE = LateTable("a.x", "main", 1200, 60, 7, AT, "no memory")


def change(new, old=None, id="1"):
    return LedgerChange(id, old, new)


def refused(key, **more):
    return change({"pk": f"object#s-bronze/{key}", "sk": "v", "state": "quarantined", **more}, id=key)


def details():
    """An example of every kind."""
    yield events.BATCH_COMMITTED, announcement(BATCH, PARTS, stack="s")
    yield from batch_events(BATCH, PARTS, stack="s")
    yield events.TABLE_FAILED, table_failed(change(FAILED), stack="s")
    yield events.TABLE_FAILED, table_failed(change(BLOCKED), stack="s")
    yield events.OBJECT_QUARANTINED, objects_refused([refused("k", table="a.x", code="not_avro")], stack="s")
    yield events.OBJECT_QUARANTINED, objects_refused([refused("k")], stack="s")
    yield events.FRESHNESS_LATE, freshness_late(LATE, stack="s")
    yield events.FRESHNESS_LATE, freshness_late(LateTable("a.x", "main", 1, 0, 1), stack="s")
    yield events.LANE_HALTED, lane_halted(change(HALTED), stack="s")
    yield events.LANE_HALTED, lane_halted(change({**HALTED, "last_run_id": None, "reason": None}), stack="s")


EXAMPLES = list(details())
SCHEMAS = {kind.detail_type: kind.schema() for kind in KINDS}


@pytest.mark.parametrize(
    ("kind", "detail"), EXAMPLES, ids=[f"{n}-{kind.replace(' ', '')}" for n, (kind, _) in enumerate(EXAMPLES)]
)
def test_a_detail_fits_its_schema_and_has_no_other_field(kind, detail):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[kind])
    jsonschema.validate(detail, SCHEMAS[kind])
    assert set(detail) == set(SCHEMAS[kind]["properties"])
    assert "\n" not in detail["message"] and detail["stack"] == "s"


def test_every_kind_has_an_example_and_its_schema_refuses_what_lacks_a_field():
    assert {kind for kind, _ in EXAMPLES} == set(SCHEMAS)
    for kind, detail in EXAMPLES:
        for name in detail:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({key: value for key, value in detail.items() if key != name}, SCHEMAS[kind])


def test_messages_name_the_table_or_the_lane():
    messages = [detail["message"] for _, detail in EXAMPLES]
    assert messages[:8] == [
        "batch b committed 3 tables",
        "1 object and 2 rows quarantined: a.x, a.y",
        "a.x changed its schema: email added",
        "a.x failed, 2 in a row, next attempt at 2024-05-01T10:00:00.000Z: no memory",
        "a.x failed, 2 in a row, it waits for a decision: no memory",
        "1 object quarantined on arrival (not_avro): a.x",
        "1 object quarantined on arrival (unknown): of no table",
        "a.x is 1,200 s older than its freshness of 60 s allows; its last error: no memory",
    ]
    assert messages[9] == f"lane main was halted after {HALT_AFTER_FAILURES} runs without progress: FAILED: no memory"


@pytest.mark.parametrize(
    ("new", "old", "announced"),
    [
        (FAILED, {**FAILED, "failures": 1}, True),
        (FAILED, None, True),
        (FAILED, FAILED, False),
        ({**FAILED, "failures": 0}, FAILED, False),
        ({**FAILED, "sk": "lane"}, None, False),
        (None, FAILED, False),
    ],
)
def test_only_one_more_failure_of_a_table_is_news(new, old, announced):
    assert (table_failed(change(new, old), stack="s") is not None) is announced


RUNNING = {**HALTED, "state": "running", "failures": HALT_AFTER_FAILURES - 1}
LOST = {**HALTED, "state": "paused", "reason": LEDGER_LOST, "failures": 0}


@pytest.mark.parametrize(
    ("new", "old", "announced"),
    [
        (HALTED, RUNNING, True),
        ({**HALTED, "failures": HALT_AFTER_FAILURES + 1}, {**HALTED, "state": "running"}, False),
        (HALTED, HALTED, False),
        (LOST, RUNNING, True),
        (LOST, LOST, False),
        ({**LOST, "reason": None}, RUNNING, False),
        ({**FAILED, "state": "halted"}, None, False),
    ],
    ids=["halts", "tries again", "stays", "loses its ledger", "stays lost", "is paused by hand", "is no lane"],
)
def test_a_lane_is_announced_when_it_halts_and_not_each_hour(new, old, announced):
    assert (lane_halted(change(new, old), stack="s") is not None) is announced


@pytest.mark.parametrize(
    ("old", "is_refused"),
    [(None, True), ("pending", True), ("parked", True), ("claimed", False), ("quarantined", False)],
)
def test_objects_that_a_batch_quarantines_are_announced_with_it_alone(old, is_refused):
    quarantined = refused("k")
    before = None if old is None else {**quarantined.new, "state": old}
    assert is_refused_object(replace(quarantined, old=before)) is is_refused
    assert not is_refused_object(change({"pk": "batch#b", "sk": "table#a.x", "state": "quarantined"}))


def test_objects_are_gathered_by_table_and_code_with_some_keys():
    changes = [refused(f"topics/a b/{n}", table=f"a.t{n % 2}", code="not_avro") for n in range(25)]
    detail = objects_refused(changes, stack="s")
    assert (detail["objects"], detail["codes"], len(detail["keys"])) == (25, {"not_avro": 25}, events.KEYS_NAMED)
    assert detail["keys"][0] == "topics/a b/0"
    assert [(table["table"], table["objects"]) for table in detail["tables"]] == [("a.t0", 13), ("a.t1", 12)]


def test_an_id_is_that_of_the_change_and_a_new_one_for_another():
    assert table_failed(change(FAILED, id="7"), stack="s")["id"] == "7"
    first, second = (objects_refused([refused(key)], stack="s")["id"] for key in ("a", "b"))
    assert first != second and first == objects_refused([refused("a")], stack="s")["id"]
    hour = 3_600_000
    assert replace(LATE, last_commit_at=AT + 1).episode == LATE.episode
    assert replace(LATE, last_commit_at=AT + hour).episode != LATE.episode


def test_a_part_that_failed_whole_changed_no_schema():
    parts = {"a.x": {"state": "quarantined", "counts": {}, "columns": [ADDED]}}
    assert list(batch_events(BATCH, parts, stack="s")) == []


@pytest.mark.parametrize(
    ("old", "new", "batch"),
    [
        ({"state": "claimed"}, {"sk": "batch", "state": "committed", "batch": "b"}, "b"),
        (None, {"sk": "batch", "state": "claimed", "batch": "b"}, None),
        ({"state": "claimed"}, {"sk": "batch", "state": "returned", "batch": "b"}, None),
        ({"state": "claimed"}, {"sk": "table#a.x", "state": "committed", "batch": "b"}, None),
        ({"state": "claimed"}, {"sk": "v1", "state": "committed", "batch": "b"}, None),
        ({"state": "committed"}, {"sk": "batch", "state": "committed", "batch": "b"}, None),
        ({"state": "committed"}, None, None),
    ],
)
def test_a_batch_is_committed_once(old, new, batch):
    assert newly_committed(change(new, old)) == batch
