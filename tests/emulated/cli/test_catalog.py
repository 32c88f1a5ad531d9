"""`sluice ops catalog` and `sluice table ddl` on an emulated stack, over tables that Spark wrote."""

import re

import pytest
from emulation.aws import set_fields
from emulation.stack import SHARED
from support.silver_tables import put_tables

from sluice.config.rules.table_rule import TableRule
from sluice.config.table import MOR
from sluice.ledger.keys import table_key


@pytest.fixture
def moma(stack):
    """A stack with two tables of one database, one of them without a rule."""
    stack.configure(
        TableRule("moma.artists", ("id",), topic="moma.public.artists", partition_by=("nationality",)),
        TableRule("moma.works", ("id",), topic="moma.public.works", partition_by=("nationality",), table_type=MOR),
    )
    for table in ("moma.artists", "moma.works", "crm.user"):
        stack.ledger.tables.pin(table, {"topic": table.replace(".", ".public.")})
    put_tables(stack.s3, "s-silver")
    return stack


def test_a_dry_run_shows_the_difference_and_changes_nothing_and_a_sync_makes_it(moma, sluice):
    shown = sluice("ops catalog sync moma.artists --dry-run")
    assert shown.out.splitlines()[1:] == [
        "moma\tcreate\tdatabase",
        "moma.artists_all\tcreate\t",
        "moma.artists_all\tpartitions\t4 added",
        "moma.artists\tcreate\t",
    ]
    assert shown.err.splitlines()[-1] == "1 table would change, 0 up to date"
    assert SHARED.client("glue").get_databases()["DatabaseList"] == []
    assert sluice.json("ops catalog sync moma.artists")["tables"][0]["changed"]
    assert not sluice.json("ops catalog sync moma.artists --dry-run")["tables"][0]["changed"]


def test_a_sync_by_hand_ends_the_failure_that_status_shows(moma, sluice):
    for table in ("moma.artists", "moma.works"):
        set_fields(moma.ledger, table_key(table), catalog_failed={"at": 1, "error": "AccessDenied"})

    def failing():
        return [state.table for state in moma.ledger.tables.all() if state.catalog_failed]

    sluice("ops catalog sync moma.artists --dry-run")
    assert failing() == ["moma.artists", "moma.works"]
    sluice("ops catalog sync moma.artists")
    assert failing() == ["moma.works"]
    moma.ledger.tables.clear_catalog_failure("moma.works", {"at": 0, "error": "AccessDenied"})
    assert failing() == ["moma.works"], "a failure after the one that was seen stays"


def test_a_database_is_created_once_for_all_its_tables(moma, sluice):
    out = sluice("ops catalog sync moma.artists moma.works --dry-run").out
    assert "moma.works_all_ro\tcreate\t" in out and out.count("moma\tcreate\tdatabase") == 1


def test_every_table_with_data_is_synced_and_one_that_fails_stops_no_other(moma, sluice):
    report = sluice.json("ops catalog sync", code=1)
    assert [table["table"] for table in report["tables"]] == ["moma.artists", "moma.works"]
    (failure,) = report["failed"]
    assert (failure["table"], failure["code"]) == ("crm.user", "table_not_configured")


def test_a_table_of_other_partitions_is_dropped_by_the_command_that_the_sync_prints(moma, sluice):
    sluice("ops catalog sync moma.artists")
    moma.configure(TableRule("moma.artists", ("id",), topic="moma.public.artists"))
    step = sluice("ops catalog sync moma.artists", code=1).err.splitlines()[-1]
    drop, again = re.findall("`([^`]*)`", step)
    words = drop.partition("delete-table ")[2].split()
    options = dict(zip(words[::2], words[1::2], strict=True))
    SHARED.client("glue").delete_table(DatabaseName=options["--database-name"], Name=options["--name"])
    sluice(*again.split()[1:])


@pytest.mark.parametrize(("history", "name"), [(True, "artists_history"), ("log", "log")])
def test_a_history_table_is_synced_shown_and_declared_as_its_table_is(moma, sluice, history, name):
    settings = {"partition_by": ("nationality",), "history": history}
    moma.configure(TableRule("moma.artists", ("id",), topic="moma.public.artists", **settings))
    for item in moma.s3.list_objects_v2(Bucket="s-silver", Prefix="moma/artists/")["Contents"]:
        body = moma.s3.get_object(Bucket="s-silver", Key=item["Key"])["Body"].read()
        key = item["Key"].replace("moma/artists/", f"moma/{name}/", 1)
        moma.s3.put_object(Bucket="s-silver", Key=key, Body=body.replace(b"moma.artists", f"moma.{name}".encode()))
    synced = [table["table"] for table in sluice.json("ops catalog sync moma.artists")["tables"]]
    assert synced == ["moma.artists", f"moma.{name}"]
    assert {entry["is"] for entry in sluice.json("ops catalog show", f"moma.{name}")["entries"]} == {"table", "view"}
    for engine in ("spark", "redshift", "athena"):
        shown = sluice("table ddl", f"moma.{name}", "--engine", engine).out
        assert "is_current" in shown and f"{name}_all" in shown
