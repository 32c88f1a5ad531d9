"""Columns that a change omits as unchanged: filled from the newest older change, in any order of arrival."""

from __future__ import annotations

import base64

from support.builders import change, flattened
from support.workbench import Workbench, table

MARK = "__debezium_unavailable_value"
TEXT, BYTES = ["null", "string"], ["null", "bytes"]
TEXTS, INTS = (["null", {"type": "array", "items": kind}] for kind in ("string", "int"))
WIDE = flattened(
    {"id": "int", "text": TEXT, "coded": TEXT, "raw": BYTES, "texts": TEXTS, "ints": INTS, "n": ["null", "int"]}
)


def test_every_form_of_the_placeholder_is_recognized_only_in_its_own_column(bench: Workbench) -> None:
    config = table()
    coded = base64.b64encode(MARK.encode()).decode()
    summary = {"text": "t", "coded": "c", "raw": b"r", "texts": ["x", MARK], "ints": [1]}
    marks = {"text": MARK, "coded": coded, "raw": MARK.encode(), "texts": [MARK], "ints": list(MARK.encode())}
    bench.apply(config, *(change("c", 1, id=id, n=1, **summary) for id in range(6)), schema=WIDE)
    updates = [
        change("u", 2, id=id, n=2, **{**dict.fromkeys(summary), name: marks[name]}) for id, name in enumerate(summary)
    ]
    outcome = bench.apply(config, *updates, change("u", 2, id=5, n=2, **marks), schema=WIDE)

    columns = list(summary)
    rows = [dict(zip(columns, row[1:])) for row in bench.rows(config, "id", *columns)]
    assert rows[:5] == [{**dict.fromkeys(summary), name: summary[name]} for name in summary]
    assert rows[5] == summary and outcome.counts["owed"] == 0
