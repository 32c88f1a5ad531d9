"""Operations of a source in any order: truncates, messages, deletes of every kind, key changes, reinserted rows."""

from __future__ import annotations

from typing import Any

from support.builders import change, envelope, flattened
from support.workbench import COW, Workbench, table

TEXT = ["null", "string"]
SCHEMA = flattened({"id": ["null", "int"], "place": TEXT, "name": TEXT, "big": TEXT})
ENVELOPES = envelope(
    {"id": "int", "place": TEXT, "name": TEXT, "big": TEXT}, {"lsn": ["null", "long"], "ts_ms": "long"}
)
MARK = "__debezium_unavailable_value"


def row(
    op: str, lsn: int, id: int, place: str | None = "A", name: str | None = "n", big: str | None = "b"
) -> dict[str, Any]:
    return change(op, lsn, id=id, place=place, name=name, big=big)


def of_no_row(op: str, lsn: int) -> dict[str, Any]:
    """A truncate or a message as the connector writes it: no key, no row."""
    return change(op, lsn, id=None, place=None, name=None, big=None)


def whole(op: str, lsn: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "ts_ms": 1}}


@COW
def test_a_truncate_deletes_earlier_rows_and_is_counted(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    bench.apply(config, row("c", 10, 1), row("c", 11, 2, "B"), row("c", 12, 3), row("u", 60, 4), schema=SCHEMA)
    later = [row("u", 20, 1, "C"), of_no_row("t", 50), row("c", 55, 2, "B", "again"), of_no_row("m", 56)]
    outcome = bench.apply(config, *later, schema=SCHEMA)
    assert outcome.counts.items() >= {"truncates": 1, "truncated": 2, "messages": 1, "losing": 1}.items()
    wanted = [
        (1, None, None, True, "t"),
        (2, "B", "again", False, "c"),
        (3, None, None, True, "t"),
        (4, "A", "n", False, "u"),
    ]
    columns = ("id", "place", "name", "__deleted", "_sluice_op")
    assert bench.rows_by_both(config, *columns) == wanted

    assert bench.merge(config, [bench.put([of_no_row("t", 50), of_no_row("t", 40)], SCHEMA, offset=2_000)]).no_change

    bench.merge(config, [bench.put([row("c", 61, 1, "D", "behind it"), row("u", 62, 2, "E")], SCHEMA, offset=3_000)])
    assert bench.left_to_spark() is None
    bench.merge(config, [bench.put([row("c", 49, 3, "D", "before it"), row("u", 63, 2, "E")], SCHEMA, offset=4_000)])
    assert bench.left_to_spark() is None
    wanted = [(1, "D", "behind it", False, "c"), (2, "E", "n", False, "u"), *wanted[2:]]
    assert bench.rows_by_both(config, *columns) == wanted


def test_envelopes_delete_with_and_without_values_truncate_and_carry_messages(bench: Workbench) -> None:
    config, full = table(), {"id": 1, "place": "A", "name": "n", "big": "b"}
    bare = {"id": 2, "place": None, "name": None, "big": None}
    first = [
        whole("c", 5, None, {**full, "id": 9}),
        whole("t", 8, None, None),
        whole("r", 10, None, full),
        whole("c", 11, None, {**full, "id": 2}),
        whole("c", 12, None, {**full, "id": 3}),
    ]
    bench.apply(config, *first, schema=ENVELOPES)
    then = [whole("d", 20, full, None), whole("d", 21, bare, None), whole("m", 22, None, None)]
    outcome = bench.apply(config, *then, whole("u", 23, None, {**full, "id": 3, "big": MARK}), schema=ENVELOPES)
    assert (outcome.counts["deleted"], outcome.counts["messages"], outcome.quarantined) == (2, 1, ())
    assert bench.rows(config, "id", "name", "big", "__deleted") == [
        (1, None, None, True),
        (2, None, None, True),
        (3, "n", "b", False),
    ]


def test_changes_without_a_log_position_are_ordered_by_offset_and_say_what_to_set(bench: Workbench) -> None:
    config = table()
    without = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "__lsn"]}
    later = bench.put([row("u", 0, 1, name="second")], without, offset=200)
    outcome = bench.merge(config, [later])
    bench.merge(config, [bench.put([row("c", 0, 1, name="first")], without, offset=100)])
    assert bench.rows(config, "id", "name") == [(1, "second")]
    assert "add.fields" in outcome.notes[0] and "lsn" in outcome.notes[0]
