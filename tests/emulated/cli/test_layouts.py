"""Objects whose keys follow a layout of their own: a rule with a `key_pattern` takes them, also those that wait."""

import json

import pytest
from bad_input import plain_parquet
from emulation.stack import describe

from sluice.ledger import keys as items
from sluice_cli.main import run

KEYS = ("dms/hr/employee/LOAD00000001.parquet", "dms/hr/employee/2026/20261121-134010000.parquet")
RULES = """
tables:
  - topic: hr.*
    table: hr.{1}
    record_key: id
    key_pattern: 'dms/(?P<topic>[^/]+/[^/]+)/(?:.*/)?(?:LOAD[0-9A-F]{8}|[0-9]{8}-[0-9]+)[.]parquet'
"""


@pytest.fixture
def unnamed(stack):
    ids = []
    for key in KEYS:
        ids.append(stack.write(key, plain_parquet({"id": 1})))
        stack.admit(ids[-1], items.PARKED, table=None, lane=None, topic=None, reason="names no topic", format=None)
    return stack, ids


def test_a_push_takes_waiting_objects_whose_keys_a_new_pattern_reads(unnamed, tmp_path, invoked, capsys):
    stack, ids = unnamed
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    assert run(["config", "push", str(file), "--json"]) == 0
    pushed = describe(capsys)
    assert (pushed["unparked"], pushed["warnings"]) == (2, [])
    found = stack.ledger.objects.get(ids)
    assert {(record.state, record.table, record.topic, record.format) for record in found.values()} == {
        ("pending", "hr.employee", "hr.employee", "parquet")
    }
    waiting = stack.ledger.pending.oldest("main", 9)
    assert {(item.id, item.topic, item.format) for item in waiting} == {(id, "hr.employee", "parquet") for id in ids}
    assert run(["config", "push", str(file), "--json"]) == 0
    assert describe(capsys)["unparked"] == 0


def test_a_push_says_where_a_rule_does_not_fit_what_its_pattern_finds(unnamed, tmp_path, capsys):
    file = tmp_path / "rules.yaml"
    file.write_text(RULES.replace("record_key: id", "record_key: idd"))
    assert run(["config", "push", str(file), "--json"]) == 2
    capsys.readouterr()
    assert run(["config", "push", str(file), "--yes", "--json"]) == 0
    (risk,) = describe(capsys)["plan"]["risks"]
    assert "hr.employee: record_key: idd is not a column of the objects that wait (did you mean id?)" in risk


@pytest.mark.parametrize(
    "keys, mistake",
    [
        ("topic: hr.*, key_pattern: dms/.*", "names no topic, and the rule takes several"),
        ("topic: hr.x, key_pattern: '(a+)+'", "repeats a group"),
        ("topic: hr.x, key_pattern: '.*.*.*x'", "may take too long"),
        ("topic: hr.x, format: json", "has no effect without key_pattern"),
        ("topic: hr.x, key_pattern: a, format: xlsx", "'xlsx' is not one of avro, json, parquet"),
    ],
)
def test_a_mistake_in_a_layout_is_named_with_its_line(tmp_path, capsys, keys, mistake):
    file = tmp_path / "rules.yaml"
    file.write_text(f"tables:\n  - {{table: hr.x, record_key: id, {keys}}}\n")
    assert run(["config", "check", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "line 2" in out + err and mistake in out + err


def test_discover_proposes_the_pattern_and_a_push_of_it_takes_what_waits(stack, capsys, invoked):
    rows = "".join(f"{number},n{number},2026-11-21\n" for number in range(30))
    keys = {
        "dms/hr/employee/LOAD00000001.csv": f"employee_id,name,at\n{rows}".encode(),
        "aiven/shop.orders-3-120.gz": "".join(f'{{"orders_id": {number}}}\n' for number in range(30)).encode(),
        "readme.txt": b"x",
    }
    ids = []
    for key, body in keys.items():
        ids.append(stack.write(key, body))
        stack.admit(ids[-1], items.PARKED, table=None, lane=None, topic=None, reason="names no topic", format=None)
    assert run(["config", "discover", "--write", "--json"]) == 0
    out, err = capsys.readouterr()
    found = {each["topic"]: each for each in json.loads(out)["proposals"]}
    assert {topic: (each["key_pattern"], each["format"]) for topic, each in found.items()} == {
        "hr.employee": ("dms/hr/employee/.*", None),
        "shop.orders": (r"aiven/shop\.orders-(?P<partition>[0-9]+)-(?P<offset>[0-9]+)\.gz", "json"),
    }
    assert "1 parked object whose key names no topic and fits no known layout" in err
    assert run(["config", "push", "tables.yaml", "--json"]) == 0
    assert describe(capsys)["unparked"] == 2
    records = stack.ledger.objects.get(ids)
    assert [(records[id].state, records[id].table, records[id].format, records[id].offset) for id in ids] == [
        ("pending", "hr.employee", "csv", None),
        ("pending", "shop.orders", "json", 120),
        ("parked", None, None, None),
    ]
    assert run(["config", "discover", "--json"]) == 0
    assert describe(capsys)["proposals"] == []
