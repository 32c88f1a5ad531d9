"""What `sluice status` prints in a terminal of 80 columns, and before anything has arrived."""

from dataclasses import replace

import pytest
from support.builders import to_a_terminal, unstyled

from sluice.batch.claim import TableState
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.outdated import outdated_note
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig
from sluice.errors import ChangeRefused
from sluice.ledger.keys import QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.account.service import describe_report
from sluice_cli.account.table import table_entry, trouble_of_table
from sluice_cli.status.overview import _aside
from sluice_cli.status.status import print_status
from tools.status_pictures import NOW, sample_status


def lines_of(document, monkeypatch, capsys, width=80):
    to_a_terminal(monkeypatch, width)
    print_status(document, NOW)
    shown = capsys.readouterr()
    return unstyled(shown.out), shown.err


def quiet(tables):
    document = sample_status()
    nothing = {
        "objects": 0,
        "rows": 0,
        "messages": 0,
        "reasons": [],
        "more": False,
        "without_rule": 0,
        "rules_proposed": 0,
        "tables_left": [],
    }
    aside = {name: nothing for name in document["set_aside"]}
    parts = {"set_aside": aside, "quarantined_rows": nothing, "ignored_messages": nothing}
    return {**document, **parts, "tables": tables, "services": [], "services_due": []}


def test_a_table_that_lost_later_changes_says_so_until_its_generation_is_raised():
    config = TableConfig("crm.user", "crm", "user", "t", ("id",))
    watch = KafkaWatch().with_lost(3, generation=0).to_dict()
    state = TableState("crm.user", notes=(outdated_note("crm.user", 1), "other"), watch=watch)
    assert table_entry(state, NOW, config)["notes"] == [outdated_note("crm.user", 3), "other"]
    assert table_entry(state, NOW, replace(config, generation=1))["notes"] == ["other"]


@pytest.fixture
def refused():
    """The entry of a table whose settings differ from its data's, with the error as a run records it."""
    error = ChangeRefused(
        "crm.user has data whose " + "; ".join(f"column_{n} is a and would become b" for n in range(9))
    )
    rule = TableRule(topic="crm.public.user", table="crm.user", record_key=("id",), lane="slow")
    config = Configuration((rule,)).table_for_topic("crm.public.user")
    return table_entry(TableState("crm.user", last_error=str(error)), NOW, config)


def test_an_error_for_a_narrow_place_ends_after_a_whole_word(refused):
    (said,) = trouble_of_table(refused, NOW, characters=80)
    assert len(said) <= 81 and said.endswith("…") and refused["last_error"][len(said) - 1] in " ;,"


def test_a_command_of_a_failed_service_stands_in_one_piece(monkeypatch, capsys):
    document = sample_status()
    command = "`sluice ops catalog sync shop.order_lines_of_the_last_year`"
    error = {"code": "AccessDeniedException", "message": f"{command} shows the reason and retries"}
    failed = [{**each, "error": error} for each in document["services"]]
    for width in (80, 100, 130):
        lines, _ = lines_of({**document, "services": failed}, monkeypatch, capsys, width)
        assert sum(command in line for line in lines) == len(failed)


def test_a_service_that_found_nothing_to_do_says_so():
    report = {"files_before": 0, "files_after": 0, "bytes_before": 0, "bytes_after": 0, "rows": 0, "ms": 2_000}
    assert describe_report(report) == "nothing to do, 2.0 s"
    assert describe_report({**report, "rows": 3}).endswith("3 rows, 2.0 s")


def test_a_stack_that_nothing_reached_says_what_to_do_next(monkeypatch, capsys):
    lines, said = lines_of({**quiet([]), "lanes": []}, monkeypatch, capsys)
    assert lines == [] and "sluice put" in said and "sluice config discover" in said


def parked(document, code=None):
    reasons = [{"reason": "no rule takes this topic", "code": code, "objects": 23, "examples": []}]
    aside = {
        **document["set_aside"],
        "parked": {
            "objects": 23,
            "more": False,
            "reasons": reasons,
            "without_rule": 0 if code else 23,
            "rules_proposed": 0 if code else 23,
            "tables_left": [],
        },
    }
    return {**document, "set_aside": aside}


def test_objects_that_wait_for_a_table_are_told_of_discover_before_anything_else(monkeypatch, capsys):
    lines, said = lines_of(parked({**quiet([]), "lanes": []}), monkeypatch, capsys)
    assert "sluice put" not in said and "23 objects wait" in said and "next step: `sluice config discover`" in said
    assert "parked: 23" in lines


def test_a_reason_of_several_texts_is_said_once_with_its_number(capsys):
    def reason(number, objects):
        text = f"The Avro container ends inside a block; at: {number}"
        return {"reason": text, "code": "corrupt_object", "objects": objects, "examples": [f"k-{number}"]}

    other = {"reason": "Block 0 is no Avro", "code": "not_avro", "objects": 4, "examples": []}
    document = quiet([])
    aside = {**document["set_aside"][QUARANTINED], "objects": 7, "reasons": [reason(2, 2), other, reason(1, 1)]}
    print_status({**document, "set_aside": {**document["set_aside"], QUARANTINED: aside}}, NOW)
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split("  ", 2)[-1].strip() for line in lines if "Avro" in line]
    assert shown[0].endswith("Block 0 is no Avro")
    assert "corrupt_object, 2 texts, most often: The Avro container ends inside a block; at: 2" in shown[1]
    assert len(shown) == 2 and "(for example k-2)" in shown[1]


@pytest.mark.parametrize(("quarantined", "said"), [(0, "No table has an object yet"), (12, "No object is merged yet")])
def test_objects_are_asked_for_only_where_none_has_come(capsys, quarantined, said):
    document = {**quiet([]), "lanes": []}
    reasons = [{"reason": "no such key", "code": "incompatible_schema", "objects": quarantined, "examples": []}]
    found = {**document["set_aside"][QUARANTINED], "objects": quarantined, "reasons": reasons if quarantined else []}
    print_status({**document, "set_aside": {**document["set_aside"], QUARANTINED: found}}, NOW)
    out, err = capsys.readouterr()
    assert err.startswith(said) and ("sluice put" in err) == (not quarantined)
    assert ("sluice quarantine list" in out) == bool(quarantined)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_an_example_stands_on_one_line_with_its_words(monkeypatch, capsys, width):
    key = "topics/crm.public.user/year=2026/month=11/day=21/hour=08/crm.public.user+0+0000000000.json"
    document = quiet([])
    counts = {"Block 0 is no Avro": 4_711, "The object has no bytes": 1}
    reasons = [{"reason": why, "code": None, "objects": many, "examples": [key]} for why, many in counts.items()]
    aside = {**document["set_aside"][QUARANTINED], "objects": 4_712, "reasons": reasons}
    lines, _ = lines_of(
        {**document, "set_aside": {**document["set_aside"], QUARANTINED: aside}}, monkeypatch, capsys, width
    )
    examples = [line for line in lines if "(for example " in line]
    assert len(examples) == 2 and all(line.endswith("000000.json)") and len(line) <= width for line in examples)


def test_versions_of_one_object_are_one_example():
    versions = (("a", "1"), ("a", "2"), ("b", "1"))
    records = [ObjectRecord(ObjectId("bronze", key, number), "ignored", NOW, rule="r") for key, number in versions]
    (reason,) = _aside(records, {})["reasons"]
    assert (reason["objects"], reason["examples"]) == (3, ["a", "b"])
