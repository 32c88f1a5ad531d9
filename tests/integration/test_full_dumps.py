"""Daily dumps and a restored source through a stack: rows that a complete dump lacks go, and the verbs know why."""

import secrets
from typing import Any

import pytest
from judging.running_stack import RunningStack
from support.builders import avro_object, change, flattened

from sluice_bench.measure.ledger_times import await_until
from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(900)

SCHEMA = flattened({"id": "long", "v": ["null", "string"]})


def csv(rows: dict[int, float]) -> bytes:
    return ("id,price\n" + "".join(f"{id},{price}\n" for id, price in rows.items())).encode()


def prices(day: int, ids: range) -> dict[int, float]:
    return {id: day * 100.0 + id for id in ids}


def rows_of(stack: RunningStack, table: str, value: str) -> dict[int, Any]:
    return {row["id"]: row[value] for row in read_table(stack.target, table).to_pylist()}


@pytest.mark.whole
def test_daily_dumps_replace_their_tables_and_ghosts_go_with_a_marker(stack: RunningStack) -> None:
    run = secrets.token_hex(3)
    types, drop = {"id": "long", "price": "double"}, f"drop{run}"
    shared = {"record_key": "id", "types": types, "freshness": "0s", "snapshot": {"replace": "folder"}}
    rules: list[dict[str, Any]] = [
        {
            **{"topic": f"{kind}{run}", "table": f"s{run}.{kind}", "table_type": kind},
            **{"key_pattern": f"{drop}/{kind}/(?P<order>[0-9-]+)/.*", **shared},
        }
        for kind in ("cow", "mor")
    ]
    topic = f"r{run}.public.t"
    ghosts = {"topic": topic, "table": f"s{run}.t", "record_key": "id", "snapshot": {"replace": "generation"}}
    whole = {**rules[0], "topic": f"one{run}", "table": f"s{run}.one", "snapshot": {"replace": "object"}}
    whole = {**whole, "key_pattern": f"{drop}/one/.*"}
    stack.configure([*rules, ghosts, whole])

    def put(day: str, rows: dict[int, float], *, complete: bool = True) -> None:
        for kind in ("cow", "mor"):
            for name, ids in (("a", sorted(rows)[:4]), ("b", sorted(rows)[4:])):
                stack.put(f"{drop}/{kind}/{day}/{name}.csv", csv({id: rows[id] for id in ids}))
            if complete:
                stack.put(f"{drop}/{kind}/{day}/_SUCCESS", b"")

    def snapshot(lsn: int, offset: int, ids: range) -> None:
        body = avro_object(SCHEMA, [change("r", lsn, id=id, v="a") for id in ids])
        stack.put(f"topics/{topic}/partition=0/{topic}+0+{offset:010d}.avro", body)

    put("2026-11-01", prices(1, range(1, 11)))
    stack.put(f"{drop}/one/1.csv", csv(prices(1, range(1, 11))))
    snapshot(100, 0, range(10))
    stack.wait(240)
    put("2026-11-02", prices(2, range(3, 12)), complete=False)
    stack.put(f"{drop}/one/2.csv", csv(prices(2, range(3, 12))))
    stack.wait(240)
    for kind in ("cow", "mor"):
        assert rows_of(stack, f"s{run}.{kind}", "price") == {**prices(1, range(1, 3)), **prices(2, range(3, 12))}
    assert rows_of(stack, f"s{run}.one", "price") == prices(2, range(3, 12))
    for kind in ("cow", "mor"):
        stack.put(f"{drop}/{kind}/2026-11-02/_SUCCESS", b"")
    stack.put(f"{drop}/one/3.csv", csv({}))
    stack.configure([*rules, {**ghosts, "generation": 1}, whole])
    snapshot(50, 10, range(5, 12))
    stack.wait(240, strict=False)
    stack.put(f"topics/{topic}/_SUCCESS", b"")
    stack.wait(240, strict=False)
    for kind in ("cow", "mor"):
        assert rows_of(stack, f"s{run}.{kind}", "price") == prices(2, range(3, 12))
    assert rows_of(stack, f"s{run}.one", "price") == prices(2, range(3, 12))
    assert set(rows_of(stack, f"s{run}.t", "v")) == set(range(5, 12))
    (entry,) = stack.describe("quarantine", "list", "--table", f"s{run}.one")["entries"]
    assert entry["codes"] == ["dump_lacks_rows"]
    assert "full dump" in stack.sluice("row", f"s{run}.cow", "1")
    put("2026-10-31", prices(0, range(1, 30)))  # an older one, late
    stack.wait(240, strict=False)
    for kind in ("cow", "mor"):
        assert rows_of(stack, f"s{run}.{kind}", "price") == prices(2, range(3, 12))
    for table in ("cow", "mor", "one", "t"):
        assert stack.describe("verify", f"s{run}.{table}")["disagreements"] == []
    assert stack.describe("audit", "--prefix", drop)["contradictions"] == []
    allowed = {**whole, "snapshot": {"replace": "object", "most_deleted": 100}}
    stack.configure([*rules, {**ghosts, "generation": 1}, allowed])
    stack.sluice("quarantine", "retry", "--code", "dump_lacks_rows", "--table", f"s{run}.one")
    stack.wait(240)
    assert rows_of(stack, f"s{run}.one", "price") == {}
    stack.sluice("pause", "main")
    await_until(
        lambda: stack.target.ledger.lanes.get("main").state == "paused", timeout_s=120, what="the end of the run"
    )
    stack.sluice("rebuild", "table", f"s{run}.mor", "--yes")
    stack.sluice("resume", "main")
    stack.wait(240)
    assert rows_of(stack, f"s{run}.mor", "price") == prices(2, range(3, 12))
    assert stack.describe("verify", f"s{run}.mor")["disagreements"] == []
