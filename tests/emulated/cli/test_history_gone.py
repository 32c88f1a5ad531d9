"""The last commit of a history table in the ledger, and what `doctor` and `table accept` do about one that is gone."""

from dataclasses import replace

import pytest
from emulation.merged_stack import TABLE, Merged, instant
from emulation.stack import NOW

from sluice.batch.outcome import COMMITTED, Outcome
from sluice.errors import TableWentBack
from sluice.ledger.keys import table_key
from sluice.ledger.recovery import KnownTable
from sluice_aws.ledger import expressions as codec
from sluice_aws.ledger.rebuilds import RebuildLedger

TABLES = "tables:\n  - {topic: crm.public.user, table: crm.user, record_key: id, history: true}\n"
PINNED = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "crm.public.user"}


@pytest.fixture
def merged(stack, tables, sluice):
    """A table with a history table, whose last commits the ledger has and silver holds."""
    sluice("config push --yes", tables(TABLES))
    made = Merged(stack)
    item = stack.admit(stack.write("a"))
    batch = made.opened(item)
    made.commit_file(2, batch)
    history_commit(stack, 1)
    for table in ("user", "user_history"):
        key = f"crm/{table}/.hoodie/hoodie.properties"
        stack.s3.put_object(Bucket="s-silver", Key=key, Body=b"hoodie.table.name=user\nhoodie.table.version=6\n")
    outcome = Outcome(batch, TABLE, COMMITTED, NOW, instant=instant(2), history_instant=instant(1))
    assert stack.ledger.batches.settle("main", batch, outcome, [item], "run-1", NOW)
    assert stack.ledger.tables.pin(TABLE, {**PINNED, "history": "user_history"})
    return stack


def history_commit(stack, number):
    stack.s3.put_object(Bucket="s-silver", Key=f"crm/user_history/.hoodie/{instant(number)}.commit", Body=b"{}")


def gone(stack):
    stack.s3.delete_object(Bucket="s-silver", Key=f"crm/user_history/.hoodie/{instant(1)}.commit")


def found_by_doctor(sluice):
    return {item["about"]: item for item in sluice.json("doctor", code=None)}.get(f"table {TABLE}")


def test_doctor_fails_a_table_whose_history_table_lacks_its_last_commit(merged, sluice):
    assert merged.ledger.tables.get(TABLE).history_instant == instant(1)
    assert found_by_doctor(sluice) is None
    gone(merged)
    by_about = found_by_doctor(sluice)
    assert by_about["result"] == "fail" and f"crm.user_history {instant(1)} is gone" in by_about["found"]
    assert "sluice table accept" in by_about["advice"]


@pytest.mark.parametrize("restored", [False, True])
def test_accept_goes_on_with_the_history_table_as_it_is(merged, sluice, invoked, restored):
    gone(merged)
    if restored:
        history_commit(merged, 0)
    sluice("table accept", TABLE, "--yes")
    state = merged.ledger.tables.get(TABLE)
    assert (state.last_instant, state.history_instant) == (instant(2), instant(0) if restored else None)
    assert found_by_doctor(sluice) is None


def test_a_state_that_changed_since_it_was_judged_is_not_accepted(merged):
    tables = merged.ledger.tables
    seen = tables.get(TABLE)
    assert not tables.accept(TABLE, instant(2), None, seen=replace(seen, history_instant=instant(0)))
    tables.block(TABLE, TableWentBack("crm.user is behind", table=TABLE), NOW)
    assert not tables.accept(TABLE, instant(2), None, seen=seen), "it was blocked since"
    assert tables.accept(TABLE, instant(2), None, seen=tables.get(TABLE))


@pytest.mark.parametrize(("with_history", "expected"), [(False, instant(1)), (True, None)])
def test_a_rebuild_without_the_history_keeps_its_last_commit(merged, with_history, expected):
    merged.ledger.lanes.pause("main")
    state = merged.ledger.lanes.get("main")
    assert merged.ledger.lanes.release("main", "run-1", state.arrivals, None, NOW)
    rebuilds: RebuildLedger = merged.ledger.rebuilds
    rebuilds.begin(TABLE, "main", {"to": "x", "history": with_history})
    state = merged.ledger.tables.get(TABLE)
    assert (state.history_instant, state.last_instant) == (expected, None)


def test_a_lost_ledger_gets_the_last_commit_of_the_history_back(merged):
    outcome = Outcome("b", TABLE, COMMITTED, NOW, instant=instant(2), history_instant=instant(1))
    table = KnownTable(last=outcome, committed=outcome, historied=outcome, pinned=PINNED)
    merged.dynamodb.delete_item(TableName="s-ledger", Key=codec.item(table_key(TABLE)))
    assert merged.ledger.recovery.restore_table(TABLE, table, purge_floors={})
    assert merged.ledger.tables.get(TABLE).history_instant == instant(1)
