"""Texts as record keys in Hudi: each is a distinct key; one that Hudi can't distinguish affects only its row."""

import pytest
from support.builders import change, flattened
from support.workbench import COW, Workbench, table

SCHEMA = flattened({"a": "string", "b": "string", "v": ["null", "string"], "place": ["null", "string"]})
# Hudi writes a key of several columns as "a:x,b:y", an empty part as __empty__ and a null one as __null__.
PAIRS = [
    ("__null__", "x"),
    ("__null__", "__null__"),
    ("1", "2,b:3"),
    ("a,b", "x"),
    ("b:", ",a:"),
    ("NULL", "null"),
    ("\u202e'\"", "\t,\n"),
    (" ", "-5"),
]
EMPTY = [("", "x"), ("x", "")]
MARKS = [("__empty__", "x"), ("x", "__empty__")]


@pytest.mark.parametrize(("key", "partition_by", "taken", "refused"), [
    (("a",), (), [*PAIRS[1:], *MARKS[:1]], [("", "")]),
    (("a", "b"), (), [*PAIRS, *MARKS], [*EMPTY, ("", ""), ("1,b:2", "3")]),
    (("a", "b"), ("place",), [*PAIRS, *EMPTY], [*MARKS, ("", ""), ("1,b:2", "3")]),
], ids=["one column", "two columns", "two columns of a table with partitions"])  # fmt: skip
@COW
def test_every_text_is_a_key_of_its_own_or_its_row_is_set_aside(
    bench: Workbench,
    key: tuple[str, ...],
    partition_by: tuple[str, ...],
    taken: list[tuple[str, str]],
    refused: list[tuple[str, str]],
    table_type: str,
) -> None:
    name = f"t_{table_type}_{len(key)}_{len(partition_by)}"
    config = table(name, record_key=key, partition_by=partition_by, table_type=table_type)
    for number, value in enumerate(("old", "new")):  # a first load is written by another path than an update
        changes = [
            change("u" if number else "c", 100 * number + at, a=a, b=b, v=value, place="p")
            for at, (a, b) in enumerate([*taken, *refused], 1)
        ]
        outcome = bench.apply(config, *changes, schema=SCHEMA)
        assert outcome.quarantined_rows[0].codes == {"unusable_record_key": len(refused)}
        assert sorted(bench.rows(config, "a", "b", "v")) == sorted((a, b, value) for a, b in taken)
