"""The audit's judgements: a life by the rules has no contradiction, and each way to break one is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.hudi.timeline import Timeline
from sluice.ledger import audit
from sluice.ledger.audit import AuditedPart, Membership, TableCommits, judge_object, judge_part, place_of
from sluice.ledger.keys import CLAIMED, COMMITTED, IGNORED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId

OBJECT = ObjectId("bronze", "k", "v")
TABLE = "crm.user"


def part(batch="b-1", *, state=COMMITTED, instant="20240101000000002", **more):
    return AuditedPart(batch, TABLE, "main", 3, state=state, instant=instant, **{"whole": True, **more})


def member(batch="b-1", end=COMMITTED, attempt=0, **more):
    return Membership(part(batch, **({"state": None} if end is None else {}), **more), attempt, end)


def record(state=COMMITTED, batch="b-1", attempt=0):
    return ObjectRecord(OBJECT, state, 1, table=TABLE, lane="main", batch=batch, attempt=attempt)


def code(entry, *listed_in, young=False, open_batches=(), rebuilding=()):
    return judge_object(entry, listed_in, young=young, open_batches=open_batches, rebuilding=rebuilding).code


@pytest.mark.parametrize(
    ("entry", "listed_in", "expected"),
    [
        (None, (), audit.UNKNOWN_OBJECT),
        (None, (member(end=None),), audit.UNKNOWN_OBJECT),
        (None, (member(),), audit.LOST_RECORD),
        (None, (member(end=QUARANTINED, whole=False),), audit.LOST_RECORD),
        (record(PENDING, None), (member(),), audit.LEDGER_BEHIND),
        (record(IGNORED, None), (member(),), audit.LEDGER_BEHIND),
        (record(QUARANTINED), (member(),), audit.LEDGER_BEHIND),
        (record(CLAIMED, "b-2"), (member(), member("b-2", None)), audit.LEDGER_BEHIND),
        (record(), (member(), member("b-2", attempt=1)), audit.LEDGER_BEHIND),
        (record(batch="b-2"), (member(), member("b-2")), audit.TWO_BATCHES),
        (record(batch="b-2"), (member(), member("b-2", whole=False)), audit.TWO_BATCHES),
        (record(CLAIMED), (member(end=None),), audit.ABANDONED_CLAIM),
        (record(), (), audit.NO_MANIFEST),
        (record(batch=None), (), audit.NO_MANIFEST),
        (record(), (member(end=None),), audit.NO_OUTCOME),
        (record(), (member(end=PARKED),), audit.OUTCOME_DISAGREES),
        (record(), (member(void=True),), audit.NOT_REBUILT),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_contradiction_about_an_object_is_named(entry, listed_in, expected):
    assert code(entry, *listed_in) == expected
    assert expected in audit.CONTRADICTIONS


def test_an_object_whose_notice_may_still_come_is_too_young():
    assert judge_object(None, (), young=True, open_batches=()) == audit.ObjectVerdict(audit.TOO_YOUNG)
    assert code(None, member(), young=True) == audit.LOST_RECORD


@pytest.mark.parametrize(
    ("entry", "listed_in"),
    [
        (record(CLAIMED, "open"), (member("open", None),)),
        (record(CLAIMED, "open"), (member("open"),)),  # its outcome is written, and not settled yet
        (record(PENDING, None), (member(whole=False),)),  # the batch may not have got it
        (record(PENDING, None, attempt=1), (member(void=True),)),  # its table is rebuilt
        (record(batch="b-2", attempt=1), (member(), member("b-2", attempt=1))),  # retried for its rows
        (record(QUARANTINED, None), (member(end=PARKED),)),  # it was gone while it was parked
        (record(IGNORED), (member(end=QUARANTINED),)),  # discarded
    ],
    ids=["claimed", "settling", "not claimed", "replayed", "retried", "lost", "discarded"],
)
def test_states_on_the_way_contradict_nothing(entry, listed_in):
    assert code(entry, *listed_in, open_batches=("open",)) is None


def test_an_unfinished_rebuild_explains_objects_that_still_wait_for_it():
    assert code(record(), member(void=True), rebuilding=(TABLE,)) is None


@st.composite
def lives(draw):
    """An object's record and parts after some batches: claimed, returned, set aside and retried, committed, rebuilt."""
    entry, parts, attempt = record(PENDING, None), [], 0
    for number in range(draw(st.integers(0, 6))):
        batch = f"b-{number}"
        end = draw(st.sampled_from(["returned", "not claimed", COMMITTED, QUARANTINED, PARKED]))
        if end in ("returned", "not claimed"):
            whole = end == "returned"
            parts.append(member(batch, None if whole else COMMITTED, attempt, whole=False))
            continue
        parts.append(member(batch, end, attempt, whole=draw(st.booleans())))
        entry = record(end, batch, attempt)
        after = draw(st.sampled_from(["rests", "retried", "rebuilt"]))
        if after == "rests":
            break
        if after == "rebuilt" and end == COMMITTED:
            parts = [replace(item, part=replace(item.part, void=True)) for item in parts]
        attempt += 1
        entry = record(PENDING, None, attempt)
    return entry, tuple(parts)


@given(lives())
@pytest.mark.long
def test_a_life_by_the_rules_has_no_contradiction(life):
    contradiction, parts = life
    assert code(contradiction, *parts) is None


@given(lives())
def test_a_lost_outcome_of_a_committed_object_is_found(life):
    contradiction, parts = life
    if contradiction.state != COMMITTED:
        return
    broken = [
        replace(item, end=None, part=replace(item.part, state=None)) if item.part.batch == contradiction.batch else item
        for item in parts
    ]
    assert code(contradiction, *broken) == audit.NO_OUTCOME
    assert code(None, *parts) == audit.LOST_RECORD


COMMITS = TableCommits(
    Timeline.of(f"2024010100000000{n}.commit" for n in (2, 3, 5)),
    {"20240101000000002": "b-1", "20240101000000003": "b-2"},
)


@pytest.mark.parametrize(
    ("instant", "place"),
    [
        ("20240101000000002", audit.ACTIVE),
        ("20240101000000001", audit.ARCHIVED),
        ("20240101000000004", audit.MISSING),
        (None, audit.NO_CHANGE),
    ],
    ids=["active", "archived", "missing", "no change"],
)
def test_a_part_is_on_the_timeline_before_it_or_nowhere(instant, place):
    assert place_of(part(instant=instant), COMMITS) == place
    assert place_of(part(instant=instant, void=True), COMMITS) == audit.REBUILT
    if instant is not None:
        assert place_of(part(instant=instant), TableCommits()) == audit.MISSING  # the table is gone


def judged(audited):
    contradiction = judge_part(audited, COMMITS)
    return None if contradiction is None else (contradiction.code, contradiction.instant)


def test_an_outcome_must_name_the_only_commit_of_its_batch():
    assert judged(part()) is None
    assert judged(part("b-0", instant="20240101000000001")) is None
    assert judged(part("b-0", instant="20240101000000004")) == (audit.COMMIT_MISSING, "20240101000000004")
    assert judged(part("b-9", instant="20240101000000003")) == (audit.FOREIGN_COMMIT, "20240101000000003")
    assert judged(part("b-2", instant="20240101000000001")) == (audit.EXTRA_COMMIT, "20240101000000003")
    assert judged(part("b-2", instant=None)) == (audit.EXTRA_COMMIT, "20240101000000003")
    assert judged(part("b-2", state=QUARANTINED, instant=None)) == (audit.EXTRA_COMMIT, "20240101000000003")
    assert judged(part("b-2", state=None, instant=None)) is None  # it is open
    assert judged(part("b-0", instant="20240101000000004", void=True)) is None


def test_a_commit_of_an_unknown_batch_is_found_and_services_have_none():
    (contradiction,) = audit.without_outcome(TABLE, COMMITS, ["b-1"])
    expected = (audit.COMMIT_WITHOUT_OUTCOME, "b-2", "20240101000000003")
    assert (contradiction.code, contradiction.batch, contradiction.instant) == expected
    assert audit.without_outcome(TABLE, COMMITS, ["b-1", "b-2"]) == ()


def test_an_object_in_two_batches_is_shown_by_the_other_batch_alone():
    facts = {"young": False, "open_batches": ()}
    both = (member(), member("b-2"))
    assert audit.judge_by_own_batch(record(), both, **facts).code is None
    assert audit.judge_by_other_batches(record(), both, **facts).code == audit.TWO_BATCHES
    shown = (member(end=PARKED), member("b-2"))
    assert audit.judge_by_own_batch(record(), shown, **facts).code == audit.OUTCOME_DISAGREES
    assert audit.judge_by_other_batches(record(), shown, **facts).code is None
