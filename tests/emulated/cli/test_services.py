"""`sluice ops services`, and table services in `sluice status`."""

import pytest
from emulation.stack import NOW
from support.builders import note_commit

from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.rules.table_rule import TableRule
from sluice.config.services import Pace, ServicePolicy
from sluice.services.requests import ServiceReport

TABLE = "shop.orders"
POLICY = ServicePolicy(compaction=Pace(commits=2))


@pytest.fixture
def served(stack):
    """A merge-on-read table with two commits."""
    stack.configure(TableRule(TABLE, ("id",), topic="orders", table_type="mor", services=POLICY))
    stack.ledger.lanes.wake("main")
    stack.ledger.tables.pin(TABLE, {"topic": "orders"})
    note_commit(stack.ledger, Outcome("b", TABLE, COMMITTED, instant="20240101", committed_at=NOW), {"commits": 2})
    return stack


def test_a_service_requested_by_hand_ignores_the_policy_and_wakes_the_lane(served, invoked, sluice):
    (entry,) = sluice.json("ops services run", TABLE, "--service", "cleaning")["services"]
    expected = ("cleaning", "requested", "sluice ops services run shop.orders --service cleaning --json")
    assert (entry["service"], entry["state"], entry["requested_by"]) == expected
    assert invoked == [("s-supervise", "Event")]
    assert "cleaning of shop.orders is already requested" in sluice("ops services run", TABLE, "-s", "cleaning").err


def test_without_a_name_all_that_concern_the_table_are_asked_for(served, invoked, sluice):
    requested = sluice.json("ops services run", TABLE)["services"]
    assert [entry["service"] for entry in requested] == ["archival", "cleaning", "compaction"]


def test_iceberg_metadata_is_written_again_only_by_name(served, invoked, sluice):
    served.configure(TableRule(TABLE, ("id",), topic="orders", iceberg=True))
    served.ledger.tables.pin(TABLE, {"topic": "orders"})
    for arguments, services in (([], ["archival", "cleaning"]), (["-s", "iceberg"], ["iceberg"])):
        requested = sluice.json("ops services run", TABLE, *arguments)["services"]
        assert [entry["service"] for entry in requested] == services


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop.other"], "There is no table 'shop.other'"),
        ([TABLE, "-s", "vacuum"], "'vacuum' is not a service"),
        ([TABLE, "-s", "compact"], "'compact' is not a service; did you mean compaction?"),
        ([TABLE, "-s", "clustering"], "names no clustering columns"),
        ([TABLE, "-s", "iceberg"], "doesn't say iceberg: true"),
        ([TABLE, "-s", "purge"], "delete_mode isn't hard"),
    ],
)
def test_what_cannot_be_asked_for_is_a_wrong_command_line(served, invoked, sluice, arguments, message):
    assert message in sluice("ops services run", *arguments, code=2).err and invoked == []


def test_waiting_ends_with_the_report_or_with_failure(served, invoked, sluice):
    sluice("ops services run", TABLE, "-s", "compaction", code=None)
    sluice("ops services run", TABLE, "-s", "compaction", "--wait", "0")
    served.serve(TABLE, "compaction", ServiceReport(4, 1, 4_096, 1_024, 10, 1_500, "20240102"))
    assert "compaction\tdone" in (out := sluice("ops services list", TABLE).out)
    assert "4 files of 4.0 KiB -> 1 file of 1.0 KiB, 10 rows, 1.5 s" in out


def test_list_shows_what_is_due_by_the_policy_and_why(served, sluice):
    document = sluice.json("ops services list")
    assert document == {
        "services": [],
        "due": [
            {"table": TABLE, "service": "catalog", "reason": "2 commits since the last run"},
            {"table": TABLE, "service": "compaction", "reason": "2 commits since the last run"},
        ],
    }
    sluice("ops services list shop.none", code=2)
