"""What could not be merged on a running stack: listed, shown, taken back in as if it had come in time, or given up."""

import json
import secrets
from typing import Any

import pytest
from judging.running_stack import RunningStack
from support import builders
from support.shapes import lines

from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(600)


def change(op: str, lsn: int, id: int | None, name: str | None = None) -> dict[str, Any]:
    return builders.change(op, lsn, source_ts_ms=lsn, id=id, name=name)


# In the order of the source. The second object exceeds one table's limit, and the third has a row without a key.
EARLY = [change("c", 10, 1, "one"), change("c", 11, 2, "two"), change("c", 12, 3, "three")]
LONG = [
    change("u", 20, 1, "lost: 30 is newer"),
    change("d", 21, 2),
    change("c", 22, 4, "four"),
    change("u", 23, 3, "drei"),
    change("c", 24, 5, "five"),
    change("u", 25, 5, "fuenf"),
]
LATE = [change("u", 30, 1, "eins"), change("c", 31, None, "no key"), change("c", 32, 6, "six")]
MERGED = [(1, "eins"), (3, "drei"), (4, "four"), (5, "fuenf"), (6, "six")]


@pytest.mark.whole  # emulated/cli/test_quarantine.py and spark/test_merge_table.py prove its halves
def test_a_poison_object_is_listed_and_merged_after_a_fix_as_if_it_came_in_time(stack: RunningStack) -> None:
    database = f"poison{secrets.token_hex(3)}"
    in_time, later = f"{database}.in_time", f"{database}.later"
    rules = [{"topic": table, "table": table, "record_key": "id"} for table in (in_time, later)]
    stack.configure([rules[0], {**rules[1], "limits": {"object_rows": 5}}])
    for table in (in_time, later):
        for offset, changes in ((0, EARLY), (10, LONG), (20, LATE)):
            stack.put(f"topics/{table}/{table}+0+{offset:010d}.json", lines(*changes))
    damaged = f"topics/{later}/{later}+0+0000000030.avro"
    stack.put(damaged, b"no container")
    stack.wait(240, strict=False)

    listed = {entry["key"].rpartition("+")[2]: entry for entry in entries(stack) if later in entry["key"]}
    assert {name: (entry["kind"], entry["codes"], entry["rows"]) for name, entry in listed.items()} == {
        "0000000010.json": ("object", ["expansion_limit"], 0),
        "0000000020.json": ("rows", ["null_record_key"], 1),
        "0000000030.avro": ("object", ["not_avro"], 0),
    }
    poison = listed["0000000010.json"]
    shown = stack.describe("quarantine", "show", poison["id"])
    assert (shown["table"], shown["version"]) == (later, poison["version"])
    assert "more than 5 records" in shown["reason"] and "sluice quarantine retry" in shown["reason"]
    (row,) = stack.describe("quarantine", "show", listed["0000000020.json"]["id"])["rows_shown"]
    assert (row["record"], row["offset"], json.loads(row["content"])["name"]) == (1, 21, "no key")
    assert rows(stack, in_time) == MERGED and rows(stack, later) == [(1, "eins"), (2, "two"), (3, "three"), (6, "six")]

    stack.configure(rules)  # the fix
    note = "the limit was too low"
    assert len(stack.describe("quarantine", "retry", poison["id"], "--note", note)["retried"]) == 1
    stack.wait(240, strict=False)
    assert rows(stack, later) == rows(stack, in_time) == MERGED
    decisions = stack.describe("quarantine", "list", "--decided")["decisions"]
    (decision,) = [decision for decision in decisions if decision["id"] == poison["id"]]
    assert (decision["verb"], decision["code"], decision["note"]) == ("retried", "expansion_limit", note)

    refused = stack.describe("quarantine", "retry", damaged, accept=(1,))
    assert [entry["key"] for entry in refused["left"]] == [damaged] and refused["retried"] == []
    for choice in ((damaged,), ("--table", later), ("--table", in_time)):
        stack.sluice("quarantine", "discard", *choice, "--yes", "--note", "written by a test")
    assert not [entry for entry in entries(stack) if database in entry["key"]]
    states = {
        item["key"].rpartition("+")[2]: (item["state"], item.get("rule"))
        for item in stack.ledger_objects(stack.target.bronze, prefix=f"topics/{later}")
    }
    assert states == {
        "0000000000.json": ("committed", None),
        "0000000010.json": ("committed", None),
        "0000000020.json": ("committed", None),
        "0000000030.avro": ("ignored", "discarded"),
    }
    assert rows(stack, later) == MERGED


def entries(stack: RunningStack) -> list[dict[str, Any]]:
    return stack.describe("quarantine", "list")["entries"]


def rows(stack: RunningStack, table: str) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["name"]) for row in read_table(stack.target, table).to_pylist())
