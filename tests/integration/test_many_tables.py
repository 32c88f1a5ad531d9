"""200 tables in one lane, most of them quiet: 40 change at once, and are merged in one run and few batches."""

import secrets
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from judging.running_stack import RunningStack
from support.builders import avro_object

from sluice_read.reading import read_table

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]

TABLES, BUSY = 200, 40
LANE = "many"
SCHEMA = {
    "type": "record",
    "name": "V",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "__op", "type": "string"},
        {"name": "__lsn", "type": "long"},
    ],
}


def test_forty_of_two_hundred_tables_change_in_one_batch(
    stack: RunningStack, record_property: Callable[[str, object], None]
) -> None:
    database = f"many{secrets.token_hex(3)}"
    s3, bronze = stack.target.client("s3"), stack.target.bronze
    rules = [
        {"topic": f"{database}.t{number:03d}", "table": f"{database}.t{number:03d}", "record_key": "id", "lane": LANE}
        for number in range(TABLES)
    ]
    stack.configure(rules, lanes={LANE: {"linger": "1s"}})
    busy = [rule["table"] for rule in rules[:BUSY]]

    def change(lsn: int, name: str) -> float:
        """Put one object for each busy table, and return the seconds until all are merged."""
        body = avro_object(SCHEMA, [{"id": 7, "name": name, "__op": "c" if lsn == 1 else "u", "__lsn": lsn}])
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            for table in busy:
                key = f"topics/{table}/partition=0/{table}+0+{lsn:010d}.avro"
                pool.submit(s3.put_object, Bucket=bronze, Key=key, Body=body)
        stack.wait(600)
        return time.monotonic() - began

    def took(*words: str, accept: tuple[int, ...] = (0,)) -> float:
        began = time.monotonic()
        stack.sluice(*words, accept=accept)
        return time.monotonic() - began

    seconds = {"first objects": change(1, "first"), "changes": change(2, "second")}
    for words in (("status",), ("top", "--once"), ("config", "plan", str(stack.home / "judged-tables.yaml"))):
        seconds[" ".join(words[:2])] = took(*words)
    seen = ", ".join(f"{what}: {value:.1f} s" for what, value in seconds.items())
    record_property("seen", seen)

    objects = stack.ledger_objects(bronze, prefix=f"topics/{database}.")
    assert Counter(item["state"] for item in objects) == {"committed": 2 * BUSY}
    batches = Counter(item["batch"] for item in objects)
    assert len(batches) <= 6, f"{batches} {seen}"
    for table in busy:
        assert [(row["id"], row["name"]) for row in read_table(stack.target, table).to_pylist()] == [(7, "second")]
    listed = {entry["table"]: entry for entry in stack.describe("status")["tables"]}
    assert [listed[table]["committed"]["objects"] for table in busy] == [2] * BUSY
    assert max(seconds["status"], seconds["top --once"], seconds["config plan"]) < 30, seen
