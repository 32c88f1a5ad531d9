"""Objects whose keys follow a layout of their own: a rule with a `key_pattern` takes them, also those that wait."""

import json
from pathlib import Path

import pytest
from support.bad_input import plain_parquet

from sluice.ledger import keys as items
from sluice_cli.config.source import read_tables

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
        stack.park(ids[-1], None, reason="names no topic", format=None)
    return stack, ids


def test_a_push_takes_waiting_objects_whose_keys_a_new_pattern_reads(unnamed, tmp_path, invoked, sluice):
    stack, ids = unnamed
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    pushed = sluice.json("config push", str(file))
    assert (pushed["unparked"], pushed["warnings"]) == (2, [])
    records = stack.ledger.objects.get(ids)
    assert {(record.state, record.table, record.topic, record.format) for record in records.values()} == {
        ("pending", "hr.employee", "hr.employee", "parquet")
    }
    waiting = stack.ledger.pending.oldest("main", 9)
    assert {(item.id, item.topic, item.format) for item in waiting} == {(id, "hr.employee", "parquet") for id in ids}
    assert sluice.json("config push", str(file))["unparked"] == 0


def test_a_push_says_where_a_rule_does_not_fit_what_its_pattern_finds(unnamed, tmp_path, sluice):
    file = tmp_path / "rules.yaml"
    file.write_text(RULES.replace("record_key: id", "record_key: idd"))
    sluice("config push", str(file), "--json", code=2)
    (risk,) = sluice.json("config push", str(file), "--yes")["plan"]["risks"]
    assert "hr.employee: record_key: idd is not a column of the objects that wait (did you mean id?)" in risk


def test_discover_proposes_the_pattern_and_a_push_of_it_takes_what_waits(stack, sluice, invoked):
    rows = "".join(f"{number},n{number},2026-11-21\n" for number in range(30))
    keys = {
        "dms/hr/employee/LOAD00000001.csv": f"employee_id,name,at\n{rows}".encode(),
        "aiven/shop.orders-3-120.gz": "".join(f'{{"orders_id": {number}}}\n' for number in range(30)).encode(),
        "readme.txt": b"x",
    }
    ids = []
    for key, body in keys.items():
        ids.append(stack.write(key, body))
        stack.park(ids[-1], None, reason="names no topic", format=None)
    out, err = sluice("config discover --write --json")
    by_topic = {proposal["topic"]: proposal for proposal in json.loads(out)["proposals"]}
    assert {topic: (proposal["key_pattern"], proposal["format"]) for topic, proposal in by_topic.items()} == {
        "hr.employee": ("dms/hr/employee/.*", None),
        "shop.orders": (r"aiven/shop\.orders-(?P<partition>[0-9]+)-(?P<offset>[0-9]+)\.gz", "json"),
    }
    assert "no rule is proposed for 1 parked object, readme.txt: the key has no folder" in err
    assert "write a rule with `topic`, `table`, `record_key` and a `key_pattern`" in err
    assert json.loads(out)["unnamed"][0]["example"] == "readme.txt"
    assert sluice.json("config push tables.yaml")["unparked"] == 2
    records = stack.ledger.objects.get(ids)
    assert [(records[id].state, records[id].table, records[id].format, records[id].offset) for id in ids] == [
        ("pending", "hr.employee", "csv", None),
        ("pending", "shop.orders", "json", 120),
        ("parked", None, None, None),
    ]
    assert sluice.json("config discover")["proposals"] == []
    assert sluice("config discover").out == "No topic waits for a rule\n"


@pytest.mark.parametrize("waits", [True, False])
def test_no_pattern_is_proposed_that_takes_objects_of_a_named_topic(stack, sluice, waits):
    rows = "".join(f'{{"film_id": {number}}}\n' for number in range(30)).encode()
    folder = "topics/pagila.public.film"
    stack.admit(
        stack.write(f"{folder}/pagila.public.film+0+0.json", rows),
        items.PARKED if waits else items.COMMITTED,
        topic="pagila.public.film",
        format="json",
        **({"table": None, "lane": None} if waits else {}),
    )
    stray = stack.write(f"{folder}/films.dat", rows)
    stack.park(stray, None, reason="names no topic", format=None)
    out, err = sluice("config discover")
    assert "key_pattern" not in out and ("topic: pagila.public.film" in out) == waits
    assert (
        f"{folder}/films.dat: a pattern for its folder would also take the objects of topic pagila.public.film" in err
    )


def test_the_rule_of_a_named_topic_takes_a_folder_of_the_same_topic_too(stack, tmp_path, invoked, sluice):
    rows = "".join(f'{{"film_id": {number}}}\n' for number in range(30)).encode()
    ids = [stack.write(key, rows) for key in ("topics/shop.film/shop.film+0+0.json", "shop/film/old.json")]
    for id, topic in zip(ids, ("shop.film", None), strict=True):
        stack.park(id, topic, format="json")
    err = sluice("config discover").err
    assert "shop/film/old.json: other objects' names tell the topic shop.film too: a `key_pattern` in its rule" in err
    file = tmp_path / "rules.yaml"
    file.write_text("tables: [{topic: shop.film, table: shop.film, record_key: film_id, key_pattern: 'shop/film/.*'}]")
    sluice("config push", str(file), "--yes")
    assert {record.table for record in stack.ledger.objects.get(ids).values()} == {"shop.film"}


def test_the_rule_of_a_folder_comes_after_those_of_folders_in_it(stack, sluice):
    numbers = range(30)
    rows = {
        "drop/prices/a.json": "".join(f'{{"prices_id": {number}}}\n' for number in numbers),
        "drop/prices/old/b.json": "".join('{"x": 1}\n' for _ in numbers),
    }
    for key, body in rows.items():
        id = stack.write(key, body.encode())
        stack.park(id, None, reason="names no topic", format="json")
    said = sluice("config discover --write", code=1).err
    assert "open: drop.prices: key_pattern. Its pattern also fits keys of prices.old" in said
    assert not Path("tables.yaml").exists(), "alone, the folder's rule takes the objects of the folder in it"
    sluice("config discover --write --key prices.old=x")
    rules = read_tables(Path("tables.yaml").read_text())
    assert {key: rules.match_key(key).name.topic for key in rows} == dict(
        zip(rows, ("drop.prices", "prices.old"), strict=True)
    )
