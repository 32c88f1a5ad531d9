"""An audit's round: phases follow one another, counts add up, and it is read back as it was stored."""

import json

from sluice.ledger.audit_round import BATCHES, BRONZE, DONE, ROUND_MS, TABLES, AuditRound


def test_phases_follow_one_another_and_counts_add_up():
    at = AuditRound(1_000, 1_000).behind(("k", "v"), {"no_outcome": 1}, 2_000)
    assert (at.phase, at.after, at.found) == (BRONZE, ("k", "v"), {"no_outcome": 1})
    at = at.behind(None, {"no_outcome": 2}, 3_000)
    assert (at.phase, at.after) == (BATCHES, None)
    at = at.behind(None, {"extra_commit": 1}, 4_000)
    assert at.phase == TABLES
    at = at.behind(None, {}, 5_000)
    assert (at.phase, at.found, at.ended_at) == (DONE, {}, 5_000)
    assert at.last_found == at.contradictions() == {"no_outcome": 3, "extra_commit": 1}


def test_a_done_round_waits_for_a_day_from_its_beginning():
    at = AuditRound(0, 0, phase=DONE, ended_at=ROUND_MS - 1)
    assert at.begun(ROUND_MS - 1) is at
    again = at.begun(ROUND_MS)
    assert (again.phase, again.began_at, again.ended_at) == (BRONZE, ROUND_MS, ROUND_MS - 1)
    assert again.begun(9 * ROUND_MS) is again  # one that takes longer goes on


def test_a_round_under_way_hides_nothing_that_the_last_one_found():
    at = AuditRound(0, 0, last_found={"no_outcome": 3, "extra_commit": 1}, ended_at=1)
    assert at.contradictions() == {"extra_commit": 1, "no_outcome": 3}
    assert at.behind(("k",), {"extra_commit": 2}, 2).contradictions() == {"extra_commit": 2, "no_outcome": 3}
    for _ in range(3):
        at = at.behind(None, {}, 3)
    assert at.contradictions() == {}


def test_a_round_is_read_back_as_it_was_stored():
    at = AuditRound(1, 0, BATCHES, ("k",), {"no_outcome": 1}, {"extra_commit": 2}, 7)
    assert AuditRound.from_dict(json.loads(json.dumps(at.to_dict())), 9) == at
    for unreadable in (None, {}, {"key": "k"}):
        assert AuditRound.from_dict(unreadable, 9) == AuditRound(9, 9)
