"""`sluice wait` with a ledger and a bucket that change while it waits."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.lane.machine import LaneState
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.account.lane import describe_lane
from sluice_cli.ingest.survey import progress_line, survey
from sluice_cli.ingest.wait import _print, set_aside_lines, waiting_lines
from sluice_cli.ingest.waiter import LONGEST_PAUSE_S, Waiter

NOW = 1_700_000_000_000
RULE = TableRule(topic="crm.public.user", table="crm.user", record_key=("id",), freshness_s=60)
CONFIGURATION = Configuration((RULE,))
A, B = (ObjectId("bronze", key, "v1") for key in "ab")


class SteppingStack:
    """A bucket and a ledger that take one step whenever the waiter sleeps."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.listed, self.states, self.seconds, self.shown, self.asked, self.tables = [A], {}, 0.0, [], [], []
        self.noted = []
        self.configuration = CONFIGURATION
        self.step()

    def step(self):
        if self.steps:
            for name, value in self.steps.pop(0).items():
                setattr(self, name, value)

    def sleep(self, seconds):
        assert 0 <= seconds <= LONGEST_PAUSE_S
        self.seconds += max(seconds, 0.1)
        self.step()

    def identities(self):
        return tuple(self.listed)

    @property
    def ledger(self):
        """The parts of the ledger that the waiter reads."""
        return SimpleNamespace(
            lanes=SimpleNamespace(all=self.lanes),
            tables=SimpleNamespace(all=lambda: self.tables, get_many=self.table_states),
            objects=SimpleNamespace(get=self.get_objects),
            batches=SimpleNamespace(unsettled=lambda lane: []),
        )

    def lanes(self):
        return [LaneState("main", "starting", run_id="r", job_run_id="j", start_requested_at=NOW - 4000)]

    def table_states(self, tables):
        return {**{table: TableState(table) for table in tables}, **{state.table: state for state in self.tables}}

    def get_objects(self, ids):
        self.asked.append(list(ids))
        taken = {"lane": "main", "table": "crm.user", "topic": "crm.public.user"}
        return {id: ObjectRecord(id, self.states[id], NOW, **taken) for id in ids if id in self.states}

    def wait(self, timeout=60.0):
        times = {"clock": lambda: self.seconds, "sleep": self.sleep, "now": lambda: NOW}
        said = {"show": self.shown.append, "note": self.noted.append, "is_local": True}
        return Waiter(self.ledger, self.identities, lambda: self.configuration, **said, **times).wait(timeout)


def test_it_ends_when_all_is_committed_and_names_what_it_waited_for():
    stepping = SteppingStack({}, {"states": {A: "pending"}}, {"states": {A: "claimed"}}, {"states": {A: "committed"}})
    outcome = stepping.wait()
    assert outcome.survey.clean and outcome.survey.counts == {"committed": 1}
    states = [f"1 {state} · main: Spark is starting (4 s)" for state in ("unseen", "pending", "claimed")]
    assert [line.split("] ")[1] for line in stepping.shown] == states


def test_progress_counts_the_tables_that_are_settled_and_names_those_in_work():
    lanes = [LaneState("main", "running", run_id="r", job_run_id="j", held_at=NOW - 5_000)]
    ids = [ObjectId("bronze", key, "v1") for key in "abcd"]

    def seen(*states):
        of = zip(ids, states, ("crm.user", "crm.user", "crm.city", "crm.land"), strict=True)
        records = {id: ObjectRecord(id, state, NOW, lane="main", table=table) for id, state, table in of}
        return survey(ids, records, lanes)

    whole = seen("claimed", "claimed", "claimed", "claimed")
    some = seen("committed", "claimed", "committed", "pending")
    line = progress_line(some, NOW, 7.0, waited_for=whole.waiting_tables)
    assert line == (
        "[7 s] 1 of 3 tables · 2 committed, 1 claimed, 1 pending"
        " · main: Spark is running for 5 s, merging crm.user (1 object), last progress 5 s ago"
    )
    assert "merging crm.city (1 object), crm.land (1 object) and 1 more" in progress_line(whole, NOW, 1.0)


def test_progress_tells_a_slow_batch_from_one_that_hangs():
    lane = LaneState("main", "running", run_id="r", job_run_id="j", held_at=NOW - 600_000, alive_at=NOW - 300_000)
    record = ObjectRecord(A, "claimed", NOW, lane="main", table="crm.user")
    seen = survey([A], {A: record}, [lane])
    parts = [{"state": "committed", "settled_at": NOW - age} for age in (12_000, 40_000)] + [{"state": "claimed"}]
    line = progress_line(seen, NOW, 7.0, parts={"main": parts})
    assert line.endswith("for 10 min, merging crm.user (1 object), 2 of 3 tables settled, last progress 12 s ago")
    assert progress_line(seen, NOW, 7.0).endswith("merging crm.user (1 object), last progress 5 min ago")


def aside(key, state, at, rows=0, **more):
    facts = {"lane": "main", "table": "crm.user", "listed_at": None if at is None else f"{at:013d}"}
    facts |= {"quarantined_rows": rows, "row_codes": {"null_record_key": rows} if rows else {}}
    reason = "no rule takes it" if state != "committed" else None
    return ObjectRecord(ObjectId("bronze", key, "v1"), state, NOW, **{"reason": reason, **facts, **more})


def lines_of(*records, began=NOW):
    seen = survey([record.id for record in records], {record.id: record for record in records}, [])
    return list(set_aside_lines(seen, began, lambda record, code: f"{code} it is"))


def test_only_what_was_set_aside_since_the_wait_began_is_listed():
    assert lines_of(
        aside("old-q", "quarantined", NOW - 3_600_000),
        aside("new-q", "quarantined", NOW + 5_000),
        aside("old-r", "committed", NOW - 3_600_000, rows=188),
        aside("older-r", "committed", NOW - 7_200_000, rows=1_700),
        aside("new-r", "committed", NOW + 5_000, rows=2),
        aside("old-p", "parked", NOW - 3_600_000),
    ) == [
        "parked\t1 object from before: `sluice quarantine list --parked`",
        "quarantined\tcrm.user\t1 object\tno rule takes it\tnew-q",
        "quarantined\t1 object from before: `sluice quarantine list`",
        "rows quarantined\tcrm.user\t2 rows of 1 object\tnull_record_key\tnew-r\tnull_record_key it is"
        "\t`sluice quarantine list --table crm.user --code null_record_key`",
        "rows quarantined\t1,888 rows of 2 objects from before: `sluice quarantine list`",
    ]


def test_objects_of_one_table_and_reason_are_one_line_with_an_example():
    no_avro, codes = {"code": "not_avro"}, {"unexpected_value": 2, "null_record_key": 1}
    quarantined = [aside(f"q-{n}", "quarantined", NOW, reason=f"Block {n} is no Avro", **no_avro) for n in range(10)]
    quarantined += [aside("other", "quarantined", NOW, reason="No Avro", table="crm.city", **no_avro)]
    quarantined += [aside(f"p-{n}", "parked", NOW, table=None, topic="crm.new") for n in range(3)]
    quarantined += [aside(f"r-{n}", "committed", NOW, rows=3, row_codes=codes) for n in range(4)]
    assert lines_of(*quarantined) == [
        "parked\tcrm.new\t3 objects\tno rule takes it\tfor example p-0",
        "quarantined\tcrm.user\t10 objects\tnot_avro\tfor example q-0\tBlock 0 is no Avro; and 9 other reasons: "
        "`sluice quarantine list`",
        "quarantined\tcrm.city\t1 object\tnot_avro\tother\tNo Avro",
        "rows quarantined\tcrm.user\t4 rows of 4 objects\tnull_record_key\tfor example r-0\tnull_record_key it is"
        "\t`sluice quarantine list --table crm.user --code null_record_key`",
        "rows quarantined\tcrm.user\t8 rows of 4 objects\tunexpected_value\tfor example r-0\tunexpected_value it is"
        "\t`sluice quarantine list --table crm.user --code unexpected_value`",
    ]


def test_objects_that_still_wait_are_listed_by_state_and_table():
    ids = [ObjectId("bronze", f"k{n}", "v1") for n in range(4)]
    of = zip(ids, ("crm.a", "crm.a", "crm.b"), strict=False)
    records = {id: ObjectRecord(id, "pending", NOW, lane="main", table=table) for id, table in of}
    expected = ["pending\tcrm.a\t2 objects\tfor example k0", "pending\tcrm.b\t1 object\tk2", "unseen\t-\t1 object\tk3"]
    assert list(waiting_lines(survey(ids, records, []))) == expected


FRESHNESS = "crm.user commits at most every 1 min (freshness); next in 23 s"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"last_commit_at": NOW - 37_000}, FRESHNESS),
        ({"last_commit_at": NOW - 37_000, "pinned": None}, FRESHNESS),  # its rows were all quarantined
        ({"last_commit_at": NOW - 37_000, "backoff_until": NOW + 30_000}, "crm.user failed; retrying in 30 s"),
    ],
)
def test_progress_shows_why_and_how_long_a_table_holds_its_objects_back(state, words):
    table = TableState("crm.user", **{"pinned": {"topic": "crm.public.user"}, **state})
    first = {"states": {A: "pending"}, "tables": [table]}
    stepping = SteppingStack(first, {"states": {A: "claimed"}}, {"states": {A: "committed"}})
    stepping.wait()
    assert [line.split(" · ")[2:] for line in stepping.shown] == [[words], []]


def test_a_table_that_is_paused_ends_it_at_once():
    paused = Configuration(tuple(replace(rule, paused=True) for rule in CONFIGURATION.rules))
    stepping = SteppingStack({"states": {A: "pending"}, "tables": [TableState("crm.user")], "configuration": paused})
    outcome = stepping.wait(60)
    assert [(table.table, table.lane, table.objects) for table in outcome.blocked] == [("crm.user", "main", 1)]
    assert outcome.seconds < 1


def test_settings_that_differ_from_the_data_end_it_with_the_reason(capsys):
    pinned = {**CONFIGURATION.table_for_topic("crm.public.user").pinned, "record_key": ["no"]}
    outcome = SteppingStack({"states": {A: "pending"}, "tables": [TableState("crm.user", pinned=pinned)]}).wait(60)
    assert outcome.seconds < 1
    _print(outcome, 60)
    said = capsys.readouterr().err
    assert "blocked: crm.user has data whose record_key is no and would become id, and 1 object will wait" in said
    assert "`sluice pause main`, `sluice rebuild table crm.user`, push again, `sluice resume main`" in said


def test_an_object_that_arrived_meanwhile_is_waited_for_too():
    first, arrived = {"states": {A: "pending"}}, {"listed": [A, B], "states": {A: "committed"}}
    stepping = SteppingStack(first, arrived, {"states": {A: "committed", B: "committed"}})
    assert stepping.wait().survey.counts == {"committed": 2}


def test_settled_objects_are_not_asked_for_again():
    first = {"listed": [A, B], "states": {A: "committed", B: "pending"}}
    stepping = SteppingStack(first, {"states": {A: "committed", B: "committed"}})
    stepping.wait()
    assert stepping.asked == [[A, B], [B]]


def test_an_object_that_vanished_before_it_was_seen_does_not_hold_it_up():
    stepping = SteppingStack({"listed": [A, B], "states": {A: "committed"}}, {"listed": [A]})
    assert stepping.wait().survey.counts == {"committed": 1}
    assert stepping.seconds > 10


def test_it_gives_up_at_its_timeout():
    outcome = SteppingStack({"states": {A: "claimed"}}).wait(3.0)
    assert not outcome.survey.settled and 3.0 <= outcome.seconds < 4.0


@pytest.mark.parametrize(("backoff_until", "quoted"), [(NOW + 90_000, 1), (NOW, 0), (None, 0)])
def test_a_timeout_quotes_the_last_error_of_a_table_in_back_off(backoff_until, quoted, capsys):
    failed = {"failures": 2, "last_error": "Out of memory. `sluice pause LANE`", "backoff_until": backoff_until}
    state = TableState("crm.user", pinned={"topic": "crm.public.user"}, **failed)
    outcome = SteppingStack({"states": {A: "pending"}, "tables": [state]}).wait(3.0)
    _print(outcome, 3.0)
    said = capsys.readouterr().err
    quote = "crm.user failed; retrying in 1 min 30 s. Its last error: Out of memory. `sluice pause main`\n"
    assert said.count(quote) == said.count("Out of memory") == quoted and "error: Not settled within 3 s\n" in said


STARTING = LaneState("l", "starting", run_id="r", start_requested_at=NOW)
RUNNING = LaneState("l", "running", run_id="r", held_at=NOW - 60_000)
HALTED = LaneState("l", "halted", failures=5, reason="killed")
FAILED = LaneState("l", arrivals=1, failures=1, backoff_until=NOW + 30_000)
DUE = "a run is due with the next supervision"


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        (LaneState("l"), "idle"),
        (LaneState("l", arrivals=1), DUE),
        (LaneState("l", due_at=NOW + 30_000), "idle, due in 30 s"),
        (STARTING, "a run is requested (0 s)"),
        (replace(STARTING, job_run_id="j", pause_requested=True), "Spark is starting (0 s), then the lane pauses"),
        (replace(RUNNING, pause_requested=True), "Spark is running for 1 min, pauses after its batch"),
        (replace(RUNNING, idle_until=NOW + 65_400), "Spark waits for objects until 22:14:25Z"),
        (replace(RUNNING, idle_until=NOW), "Spark is running for 1 min"),
        (LaneState("l", "paused"), "paused"),
        (HALTED, "halted after 5 failed runs: killed"),
        (replace(HALTED, backoff_until=NOW + 600_000), "halted after 5 failed runs, trying again in 10 min: killed"),
        (FAILED, "retrying in 30 s after 1 failed run"),
        (replace(FAILED, backoff_until=NOW, reason="killed"), f"{DUE} after 1 failed run: killed"),
    ],
)
def test_a_lanes_activity_is_described_briefly(lane, words):
    assert describe_lane(lane, NOW) == words
