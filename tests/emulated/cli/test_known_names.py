"""Commands refuse names of tables, lanes, topics, prefixes and codes that a stack doesn't know, and say what it has."""

import shlex

import pytest

from sluice.ledger import keys as items
from sluice_cli.tables import details, inspect

USER, OTHERS = "{topic: crm.public.user, table: crm.user}", "{topic: crm.public.*, table: 'crm.{1}'}"
TABLES = f"defaults: {{record_key: id}}\ntables: [{USER}, {OTHERS}]"


@pytest.fixture
def configured(stack, invoked, tables, sluice):
    sluice("config push", tables(TABLES))
    stack.admit(stack.write("topics/crm.public.city/1"), items.PENDING, table="crm.city", topic="crm.public.city")
    stack.ledger.lanes.wake("main")
    return stack


MISTYPED_TABLE = "There is no table 'crm.usr'; did you mean crm.user?"
MISTYPED_PREFIX = "No key in bronze begins with 'topics/crm.public.cty/'"


#: The command lines by what they are answered.
UNKNOWN = {
    MISTYPED_TABLE: [
        "ops replay --table crm.usr --yes",
        "ops replay --table crm.usr --dry-run --json",
        "history --table crm.usr",
        "ops services run crm.usr",
        "verify crm.usr",
        "row crm.usr 7",
        "forget crm.usr 7 --dry-run",
        "table schema history crm.usr",
        "table schema diff crm.usr",
        "table schema diff crm.usr stored 5f1c",
        "table schema verdict crm.usr 5f1c",
        "ops catalog show crm.usr",
        "ops catalog sync crm.usr",
        "ops catalog sync crm.user crm.usr --dry-run",
        "table ddl crm.usr --engine spark",
        "table accept crm.usr --yes",
        "table adopt crm.usr --from s3://lake/crm/user",
        "rebuild table crm.usr --dry-run",
        "quarantine list --table crm.usr",
        "quarantine list --decided --table crm.usr",
        "quarantine retry --table crm.usr",
        "quarantine discard --table crm.usr --yes",
    ],
    "There is no topic 'shop.public.usr'": [
        "quarantine list --topic shop.public.usr",
        "quarantine discard --topic shop.public.usr --yes",
    ],
    "There is no lane 'mian'; did you mean main?": ["ops runs --lane mian", "pause mian"],
    MISTYPED_PREFIX: [
        "ops replay --prefix topics/crm.public.cty/ --yes",
        "ops replay --prefix topics/crm.public.cty/ --dry-run --json",
        "backfill --prefix topics/crm.public.cty/ --yes",
        "audit --prefix topics/crm.public.cty/",
    ],
}


def test_an_unknown_name_is_a_wrong_command_line(configured, sluice):
    for message, lines in UNKNOWN.items():
        for line in lines:
            out, err = sluice(*shlex.split(line), code=2)
            assert message in err and out == "", line


def test_the_next_step_lists_the_known_names(configured, sluice):
    assert "next step: Name one of these tables: crm.city, crm.user" in sluice("history --table nope", code=2).err
    assert "next step: Name one of these lanes: main" in sluice("ops runs --lane nope", code=2).err


KNOWN = [
    "ops replay --table crm.user --dry-run",
    "history --table crm.user",
    "history --table crm.city",
    "quarantine list --table crm.user",
    "quarantine list --topic crm.public.user",
    "quarantine list --topic crm.public.any",
    "quarantine list --code corrupt_object",
    "quarantine list --code unexpected_value",
    "quarantine list --code below_purge_floor",
    "quarantine list --code log_restarted",
    "ops runs --lane main",
]


def test_a_known_name_for_which_nothing_is_found_succeeds(configured, sluice):
    for line in KNOWN:
        assert sluice.json(*shlex.split(line)) is not None, line


def test_a_table_that_only_quarantine_knows_is_known(configured, sluice):
    stack = configured
    stack.admit(stack.write("topics/old/1"), items.QUARANTINED, table="crm.old", topic="old", code="corrupt_object")
    assert sluice.json("quarantine list --table crm.old --code overlap")["entries"] == []


def test_a_history_table_is_a_known_name(configured, sluice, tables):
    sluice("config push --yes", tables(TABLES.replace("record_key: id", "record_key: id, history: true")))
    sluice("history --table crm.user_history --json")
    assert "did you mean crm.user_history?" in sluice("history --table crm.user_histry", code=2).err


def test_a_mistyped_partition_is_answered_with_the_one_that_was_meant(monkeypatch, sluice):
    monkeypatch.setattr(inspect, "_listing", lambda target, table: None)
    monkeypatch.setattr(inspect, "chosen_target", lambda stack: None)
    file = details.FileRow("place=A", "f-0", None, None, 1, 0, 0, small=True)
    monkeypatch.setattr(details, "file_rows", lambda listing: [file])
    said = sluice("table files moma.works --partition plce=A", code=2).err
    assert "There is no partition 'plce=A'; did you mean place=A?" in said
    sluice("table files moma.works --partition place=A")
