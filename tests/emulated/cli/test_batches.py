"""`sluice ops batch`: what is open, what the next run does with it, and giving it up."""

import pytest
from emulation.stack import NOW
from support.builders import note_commit

from sluice.batch.manifest import TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.table import TableConfig
from sluice.ledger.recovery import KnownTable, counts_of


@pytest.fixture
def batch(stack):
    """An open batch of two tables, which a dead run left; the second table killed another run, too."""
    names, ledger = ["crm.user", "crm.user", "crm.task"], stack.ledger
    ids = [stack.admit(stack.write(f"k{n}"), table=table) for n, table in enumerate(names)]
    stack.hold()
    listed = [stack.listed(one, "t") for one in ids]
    parts = {
        table: TablePart(TableConfig(table, *table.split("."), topic="t", record_key=("id",)).to_dict(), tuple(objects))
        for table, objects in {"crm.user": listed[:2], "crm.task": listed[2:]}.items()
    }
    manifest = open_manifest("main", "run-1", NOW, "c1", parts)
    stack.put_documents(manifest)
    stack.claim(manifest)
    ledger.batches.begin_attempt(manifest.batch, "crm.task", NOW)
    ledger.lanes.lapse("main", "run-1", NOW, job_run_id="job")
    return manifest.batch


def test_a_commit_that_a_later_run_found_is_missing_in_the_changes_by_word(stack, sluice):
    outcome = Outcome("b-1", "crm.user", COMMITTED, NOW, instant="20260101000000000", counts={"inserted": 7})
    note_commit(stack.ledger, outcome, counts_of(outcome, {}))
    said = "its changes lack those of 1 commit, whose run died before recording it"
    assert f"crm.user: {said}\n" in sluice("table list").err
    (listed,) = sluice.json("table list")["tables"]
    assert (listed["changes"], listed["uncounted_commits"]) == (0, 1)
    assert [said in table["notes"] for table in sluice.json("status")["tables"]] == [True]


def test_a_replay_that_commits_nothing_leaves_changes_and_last_commit(stack, sluice):
    made = Outcome("b-1", "crm.user", COMMITTED, NOW, instant="20231114221318000")
    note_commit(stack.ledger, made, {"read": 7, "commits": 1, "objects": 1})
    replay = KnownTable(
        last=Outcome("b-2", "crm.user", COMMITTED, NOW + 86_400_000, no_change=True),
        committed=made,
        totals={"read": 14, "read_again": 7, "commits": 1, "objects": 1},
    )
    assert stack.ledger.recovery.restore_table("crm.user", replay, purge_floors={})
    (listed,) = sluice.json("table list")["tables"]
    assert (listed["changes"], listed["newest_commit"], listed["last_commit_at"]) == (7, made.instant, NOW)
    (table,) = sluice.json("status")["tables"]
    assert (table["last_commit_at"], table["committed"]["objects"]) == (NOW, 1)
    (table,) = sluice.json("top")["tables"]
    assert (table["last_commit_at"], table["changes"]) == (NOW, 7)


def test_a_table_of_an_open_batch_is_given_up_with_the_note_and_the_lane_woken(stack, batch, invoked, sluice):
    shown = sluice("ops batch give-up", batch[:6], "--table", "crm.task", "--note", "hangs").out
    assert f"{batch}: the next run quarantines crm.task" in shown
    (pointer,) = stack.ledger.batches.unsettled("main")
    assert pointer.attempts["crm.task"].given_up.endswith(": hangs")
    assert pointer.attempts["crm.user"].given_up is None
    assert invoked == [("s-supervise", "Event")]
    assert sluice.json("ops batch show")["batches"][0]["tables"][0]["next"] == "set_aside"


def test_a_batch_of_a_paused_lane_waits_for_its_resumption(stack, batch, invoked, sluice):
    stack.ledger.lanes.pause("main")
    assert "main is paused: `sluice resume main`" in sluice("ops batch give-up", batch).out and invoked == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["b-nothing"], "No open batch begins with"),
        (["b-", "--table", "crm.none"], "crm.none is not open"),
        ([""], "The name is empty"),
    ],
    ids=["no batch", "no table", "empty"],
)
def test_what_is_not_open_is_not_given_up(stack, batch, invoked, sluice, arguments, message):
    assert message in sluice("ops batch give-up", *arguments, code=2).err and invoked == []
