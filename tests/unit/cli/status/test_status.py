"""What `sluice status` prints in a terminal of 80 columns, and before anything has arrived."""

from dataclasses import replace

from support.builders import to_a_terminal, unstyled

from sluice.batch.claim import TableState
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.outdated import outdated_note
from sluice.config.table import TableConfig
from sluice.ledger.keys import QUARANTINED
from sluice_cli.account.table import table_entry
from sluice_cli.status.status import print_status
from tools.status_pictures import NOW, sample_status


def lines_of(document, monkeypatch, capsys, width=80):
    to_a_terminal(monkeypatch, width)
    print_status(document, NOW)
    shown = capsys.readouterr()
    return unstyled(shown.out), shown.err


def quiet(tables):
    document = sample_status()
    counts = dict.fromkeys(("objects", "rows", "messages", "without_rule", "rules_proposed"), 0)
    nothing = {**counts, "reasons": [], "more": False, "tables_left": []}
    aside = {name: nothing for name in document["set_aside"]}
    parts = {"set_aside": aside, "quarantined_rows": nothing, "ignored_messages": nothing}
    return {**document, **parts, "tables": tables, "services": [], "services_due": []}


def test_a_table_that_lost_later_changes_says_so_until_its_generation_is_raised():
    config = TableConfig("crm.user", "crm", "user", "t", ("id",))
    watch = KafkaWatch().with_lost(3, generation=0).to_dict()
    state = TableState("crm.user", notes=(outdated_note("crm.user", 1), "other"), watch=watch)
    assert table_entry(state, NOW, config)["notes"] == [outdated_note("crm.user", 3), "other"]
    assert table_entry(state, NOW, replace(config, generation=1))["notes"] == ["other"]


def test_a_stack_that_nothing_reached_says_what_to_do_next(monkeypatch, capsys):
    lines, said = lines_of({**quiet([]), "lanes": []}, monkeypatch, capsys)
    assert lines == [] and "sluice put" in said and "sluice config discover" in said


def parked(document, code=None):
    reasons = [{"reason": "no rule takes this topic", "code": code, "objects": 23, "examples": []}]
    counts = {"objects": 23, **dict.fromkeys(("without_rule", "rules_proposed"), 0 if code else 23)}
    parked_objects = {**counts, "reasons": reasons, "more": False, "tables_left": []}
    return {**document, "set_aside": {**document["set_aside"], "parked": parked_objects}}


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
