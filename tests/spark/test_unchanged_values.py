"""Columns that a change omits as unchanged: filled from the newest older change, in any order of arrival."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench, table

MARK = "__debezium_unavailable_value"
TEXT, BYTES, TEXTS, INTS = (
    ["null", "string"],
    ["null", "bytes"],
    ["null", {"type": "array", "items": "string"}],
    ["null", {"type": "array", "items": "int"}],
)
SCHEMA = flattened({"id": "int", "place": TEXT, "n": ["null", "int"], "big": TEXT})
WIDE = flattened(
    {"id": "int", "text": TEXT, "coded": TEXT, "raw": BYTES, "texts": TEXTS, "ints": INTS, "n": ["null", "int"]}
)


def row(op: str, lsn: int, id: int, big: str | None, place: str | None = "A") -> dict[str, Any]:
    return change(op, lsn, id=id, place=place, n=lsn, big=big)


def test_every_form_of_the_placeholder_is_recognized_only_in_its_own_column(bench: Workbench) -> None:
    config = table()
    coded = base64.b64encode(MARK.encode()).decode()
    summary = {"text": "t", "coded": "c", "raw": b"r", "texts": ["x", MARK], "ints": [1]}
    marks = {"text": MARK, "coded": coded, "raw": MARK.encode(), "texts": [MARK], "ints": list(MARK.encode())}
    bench.merge(config, [bench.put([change("c", 1, id=id, n=1, **summary) for id in range(6)], WIDE)])
    updates = [
        change("u", 2, id=id, n=2, **{**dict.fromkeys(summary), name: marks[name]}) for id, name in enumerate(summary)
    ]
    outcome = bench.merge(config, [bench.put([*updates, change("u", 2, id=5, n=2, **marks)], WIDE)])

    columns = list(summary)
    rows = [dict(zip(columns, found[1:])) for found in bench.rows(config, "id", *columns)]
    assert rows[:5] == [{**dict.fromkeys(summary), name: summary[name]} for name in summary]
    assert rows[5] == summary and outcome.counts["owed"] == 0


@pytest.mark.whole
def test_a_column_whose_value_never_comes_is_null_and_counted_as_owed(bench: Workbench) -> None:
    config = table()
    outcome = bench.merge(config, [bench.put([row("u", 30, 1, MARK), row("u", 30, 2, "x")], SCHEMA)])
    assert (outcome.counts["owed"], outcome.counts["winning"]) == (1, 2)
    assert bench.rows(config, "id", "big", "_sluice_owed") == [(1, None, '{"big":""}'), (2, "x", None)]

    again = bench.merge(config, [bench.put([row("u", 40, 1, MARK)], SCHEMA)])
    assert again.counts["owed"] == 1
    late = bench.merge(config, [bench.put([row("u", 35, 1, "late")], SCHEMA)])
    assert (late.counts["supplied"], late.counts["winning"], late.counts["losing"], late.counts["owed"]) == (1, 0, 0, 0)
    assert [found[:3] for found in bench.rows(config, "id", "n", "big")] == [(1, 40, "late"), (2, 30, "x")]
