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


def unnamed(stack, key, body, format=None):
    """An object that waits for a rule, as its key names no topic."""
    return stack.park(stack.write(key, body), None, reason="names no topic", format=format)


@pytest.fixture
def files(stack):
    return [unnamed(stack, key, plain_parquet({"id": 1})) for key in KEYS]


def test_a_push_takes_waiting_objects_whose_keys_a_new_pattern_reads(stack, files, tables, invoked, sluice):
    file, ids = tables(RULES), files
    pushed = sluice.json("config push", file)
    assert (pushed["unparked"], pushed["warnings"]) == (2, [])
    facts = {(record.state, record.table, record.topic, record.format) for record in map(stack.record, ids)}
    assert facts == {("pending", "hr.employee", "hr.employee", "parquet")}
    waiting = stack.ledger.pending.oldest("main", 9)
    assert {(item.id, item.topic, item.format) for item in waiting} == {(id, "hr.employee", "parquet") for id in ids}
    assert sluice.json("config push", file)["unparked"] == 0


def test_a_push_says_where_a_rule_does_not_fit_what_its_pattern_finds(files, tables, sluice):
    file = tables(RULES.replace("record_key: id", "record_key: idd"))
    sluice("config push --json", file, code=2)
    (risk,) = sluice.json("config push --yes", file)["plan"]["risks"]
    assert "hr.employee: record_key: idd is not a column of the objects that wait (did you mean id?)" in risk


def test_discover_proposes_the_pattern_and_a_push_of_it_takes_what_waits(stack, sluice, invoked):
    rows = "".join(f"{number},n{number},2026-11-21\n" for number in range(30))
    keys = {
        "dms/hr/employee/LOAD00000001.csv": f"employee_id,name,at\n{rows}".encode(),
        "aiven/shop.orders-3-120.gz": "".join(f'{{"orders_id": {number}}}\n' for number in range(30)).encode(),
        "readme.txt": b"x",
    }
    ids = [unnamed(stack, key, body) for key, body in keys.items()]
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
    assert [(record.state, record.table, record.format, record.offset) for record in map(stack.record, ids)] == [
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
    id, about = stack.write(f"{folder}/pagila.public.film+0+0.json", rows), {"topic": "pagila.public.film"}
    place = {"table": None, "lane": None} if waits else {}
    stack.admit(id, items.PARKED if waits else items.COMMITTED, format="json", **about, **place)
    unnamed(stack, f"{folder}/films.dat", rows)
    out, err = sluice("config discover")
    assert "key_pattern" not in out and ("topic: pagila.public.film" in out) == waits
    others = "would also take the objects of topic pagila.public.film"
    assert f"{folder}/films.dat: a pattern for its folder {others}" in err


def test_the_rule_of_a_named_topic_takes_a_folder_of_the_same_topic_too(stack, tables, invoked, sluice):
    rows = "".join(f'{{"film_id": {number}}}\n' for number in range(30)).encode()
    ids = [stack.write(key, rows) for key in ("topics/shop.film/shop.film+0+0.json", "shop/film/old.json")]
    for id, topic in zip(ids, ("shop.film", None), strict=True):
        stack.park(id, topic, format="json")
    err = sluice("config discover").err
    assert "shop/film/old.json: other objects' names tell the topic shop.film too: a `key_pattern` in its rule" in err
    rule = "{topic: shop.film, table: shop.film, record_key: film_id, key_pattern: 'shop/film/.*'}"
    sluice("config push --yes", tables(f"tables: [{rule}]"))
    assert {stack.record(id).table for id in ids} == {"shop.film"}


def test_the_rule_of_a_folder_comes_after_those_of_folders_in_it(stack, sluice):
    numbers = range(30)
    rows = {
        "drop/prices/a.json": "".join(f'{{"prices_id": {number}}}\n' for number in numbers),
        "drop/prices/old/b.json": "".join('{"x": 1}\n' for _ in numbers),
    }
    for key, body in rows.items():
        unnamed(stack, key, body.encode(), "json")
    said = sluice("config discover --write", code=1).err
    assert "open: drop.prices: key_pattern. Its pattern also fits keys of prices.old" in said
    assert not Path("tables.yaml").exists(), "alone, the folder's rule takes the objects of the folder in it"
    sluice("config discover --write --key prices.old=x")
    rules = read_tables(Path("tables.yaml").read_text())
    assert [rules.match_key(key).name.topic for key in rows] == ["drop.prices", "prices.old"]
