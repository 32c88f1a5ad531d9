"""Operations of a source in any order: truncates, messages, deletes of every kind, key changes, reinserted rows."""

from __future__ import annotations

from typing import Any

import pytest
from workbench import Workbench, change, flattened, table

TEXT = ["null", "string"]
SCHEMA = flattened({"id": ["null", "int"], "place": TEXT, "name": TEXT, "big": TEXT})
MARK = "__debezium_unavailable_value"
# Both table types share most of their code: `make test` runs one of them.
COW = pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.whole)])
MOR = pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.whole), "mor"])


def row(
    op: str, lsn: int, id: int, place: str | None = "A", name: str | None = "n", big: str | None = "b"
) -> dict[str, Any]:
    return change(op, lsn, id=id, place=place, name=name, big=big)


def of_no_row(op: str, lsn: int) -> dict[str, Any]:
    """A truncate or a message as the connector writes it: no key, no row."""
    return change(op, lsn, id=None, place=None, name=None, big=None)


def envelope() -> dict[str, Any]:
    value = {
        "type": "record",
        "name": "Value",
        "namespace": "src.public.t",
        "fields": [{"name": "id", "type": "int"}, *({"name": name, "type": TEXT} for name in ("place", "name", "big"))],
    }
    source = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": "lsn", "type": ["null", "long"]}, {"name": "ts_ms", "type": "long"}],
    }
    fields = [
        {"name": "before", "type": ["null", value]},
        {"name": "after", "type": ["null", "src.public.t.Value"]},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "src.public.t", "fields": fields}


def whole(op: str, lsn: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "ts_ms": 1}}


@COW
def test_a_truncate_deletes_earlier_rows_and_defeats_late_ones_of_unseen_keys(
    bench: Workbench, table_type: str
) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    bench.merge(config, [bench.put([row("c", 10, 1), row("c", 11, 2, "B"), row("c", 12, 3), row("u", 60, 4)], SCHEMA)])
    outcome = bench.merge(
        config,
        [
            bench.put(
                [row("u", 20, 1, "C"), of_no_row("t", 50), row("c", 55, 2, "B", "again"), of_no_row("m", 56)], SCHEMA
            )
        ],
    )
    assert (
        outcome.counts["truncates"],
        outcome.counts["truncated"],
        outcome.counts["messages"],
        outcome.counts["losing"],
    ) == (1, 2, 1, 1)
    wanted = [
        (1, None, None, True, "t"),
        (2, "B", "again", False, "c"),
        (3, None, None, True, "t"),
        (4, "A", "n", False, "u"),
    ]
    columns = ("id", "place", "name", "__deleted", "_sluice_op")
    assert bench.rows(config, *columns) == bench.rows_by_hudi_rs(config, *columns) == wanted

    bench.new_run()  # the position of the truncate is the table's own, not a run's
    late = bench.merge(config, [bench.put([row("u", 30, 1), row("c", 31, 9), row("u", 49, 3)], SCHEMA)])
    assert (late.no_change, late.counts["losing"]) == (True, 3)
    assert bench.merge(config, [bench.put([of_no_row("t", 50), of_no_row("t", 40)], SCHEMA, offset=2_000)]).no_change
    bench.merge(config, [bench.put([row("c", 70, 3), row("c", 71, 9)], SCHEMA)])
    assert [found[0] for found in bench.rows(config, "id", "__deleted") if not found[1]] == [2, 3, 4, 9]
    assert bench.rows(config, *columns) == bench.rows_by_hudi_rs(config, *columns)


@pytest.mark.whole
def test_a_partial_row_after_a_truncate_inherits_nothing_from_before_it(bench: Workbench) -> None:
    config = table()
    bench.merge(config, [bench.put([row("c", 10, id, big=f"old{id}") for id in (1, 2)], SCHEMA)])
    bench.merge(config, [bench.put([row("u", 60, 1, big=MARK), row("u", 60, 3, big=MARK)], SCHEMA)])
    bench.merge(config, [bench.put([of_no_row("t", 50), row("u", 65, 2, big=MARK)], SCHEMA)])
    bench.merge(config, [bench.put([row("u", 45, 3, big="older")], SCHEMA)])
    assert bench.rows(config, "id", "name", "big", "__deleted") == [
        (1, "n", None, False),
        (2, "n", None, False),
        (3, "n", None, False),
    ]
    bench.merge(config, [bench.put([row("c", 55, id, big=f"new{id}") for id in (1, 2, 3)], SCHEMA)])
    assert bench.rows(config, "id", "big") == [(1, "new1"), (2, "new2"), (3, "new3")]


@pytest.mark.whole
def test_a_first_batch_may_hold_a_truncate_and_rows_before_and_after_it(bench: Workbench) -> None:
    config = table()
    before = bench.put([row("c", 10, 1), row("c", 20, 2)], SCHEMA)
    bench.merge(config, [bench.put([of_no_row("t", 15)], SCHEMA), before])
    bench.merge(config, [bench.put([row("c", 12, 3)], SCHEMA)])
    assert bench.rows(config, "id", "__deleted") == [(2, False)]


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
    bench.merge(config, [bench.put(first, envelope())])
    outcome = bench.merge(
        config,
        [
            bench.put(
                [
                    whole("d", 20, full, None),
                    whole("d", 21, bare, None),
                    whole("m", 22, None, None),
                    whole("u", 23, None, {**full, "id": 3, "big": MARK}),
                ],
                envelope(),
            )
        ],
    )
    assert (outcome.counts["deleted"], outcome.counts["messages"], outcome.quarantined) == (2, 1, ())
    assert bench.rows(config, "id", "name", "big", "__deleted") == [
        (1, None, None, True),
        (2, None, None, True),
        (3, "n", "b", False),
    ]


@pytest.mark.whole
@MOR
def test_a_key_change_moves_a_row_whichever_half_comes_first(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    bench.merge(config, [bench.put([row("c", 10, id) for id in (1, 2, 3, 4)], SCHEMA)])
    gone, made = (
        [row("d", 20, 1, None), row("d", 21, 2, "A")],
        [row("c", 20, 11, name="moved"), row("c", 21, 12, "B", "moved")],
    )
    comes_and_goes = [row("c", 30, 5, "A"), row("d", 31, 5, None), row("c", 32, 5, "B", "second")]
    bench.merge(
        config,
        [bench.put([*made, *comes_and_goes], SCHEMA), bench.put([row("d", 41, 3, None), row("u", 40, 3, "C")], SCHEMA)],
    )
    # Two objects and two batches, the later half first. The partition changes and the row is deleted, in both orders.
    bench.merge(
        config,
        [
            bench.put([row("c", 52, 6, "B", "second"), row("u", 60, 4, "C")], SCHEMA),
            bench.put([*gone, row("c", 50, 6)], SCHEMA),
        ],
    )
    bench.merge(config, [bench.put([row("d", 51, 6, None), row("d", 59, 4, None), row("c", 49, 5, "Z")], SCHEMA)])
    wanted = [(11, "A", "moved"), (12, "B", "moved"), (4, "C", "n"), (5, "Z", "n"), (6, "B", "second")]
    assert [found[:3] for found in bench.rows(config, "id", "place", "name", "__deleted") if not found[3]] == wanted
    assert bench.rows(config, "id", "place", "name", "__deleted") == bench.rows_by_hudi_rs(
        config, "id", "place", "name", "__deleted"
    )


@pytest.mark.parametrize("delete_mode", [pytest.param("soft", marks=pytest.mark.whole), "hard"])
def test_a_deleted_row_is_hidden_and_an_older_change_that_comes_late_loses(bench: Workbench, delete_mode: str) -> None:
    config = table(delete_mode=delete_mode, partition_by=("place",))
    bench.merge(config, [bench.put([row("r", 10, 1), row("r", 10, 2)], SCHEMA)])
    bench.merge(config, [bench.put([row("d", 31, 2, None, None, None), row("d", 31, 3, None, None, None)], SCHEMA)])
    late = bench.merge(config, [bench.put([row("u", 25, 2, "B", "back?"), row("c", 20, 3)], SCHEMA)])
    assert late.no_change and bench.rows(config, "id", "__deleted") == [(1, False), (2, True), (3, True)]


@pytest.mark.whole
def test_an_ignored_delete_leaves_the_values_and_raises_the_position(bench: Workbench) -> None:
    config = table(delete_mode="ignore", partition_by=("place",), table_type="mor")
    bench.merge(config, [bench.put([row("r", 10, 1, "A", "kept"), row("r", 10, 2), row("u", 10, 4, big=MARK)], SCHEMA)])
    outcome = bench.merge(
        config,
        [
            bench.put(
                [
                    row("d", 31, 1, None, None, None),
                    row("d", 31, 3, None, None, None),
                    row("u", 20, 4),
                    row("d", 31, 4, None, None, None),
                ],
                SCHEMA,
            )
        ],
    )
    assert outcome.counts["deleted"] == 1  # the one of which nothing else is known: it has nothing to show
    late = bench.merge(config, [bench.put([row("u", 25, 1, "B", "late"), of_no_row("t", 15)], SCHEMA)])
    assert late.no_change and late.counts["losing"] == 1
    assert bench.rows(config, "id", "place", "name", "__deleted", "_sluice_op") == [
        (1, "A", "kept", False, "d"),
        (2, "A", "n", False, "r"),
        (3, None, None, True, "d"),
        (4, "A", "n", False, "d"),
    ]
    assert {found[0][5:25] for found in bench.rows(config, "_sluice_position")} == {f"{10:020d}", f"{31:020d}"}
    bench.merge(
        config,
        [bench.put([row("c", 20, 3, "C", "supplied")], SCHEMA), bench.put([row("u", 40, 1, "B", "alive")], SCHEMA)],
    )
    assert bench.rows(config, "id", "place", "name", "__deleted")[::2] == [
        (1, "B", "alive", False),
        (3, "C", "supplied", False),
    ]


@pytest.mark.whole
def test_a_batch_that_mostly_loses_at_no_later_time_is_noted_but_no_replay(bench: Workbench) -> None:
    config = table()
    late = bench.put([row("u", 500, id, name="late") for id in (1, 2)], SCHEMA)
    stored = bench.put([row("u", 1_000 + id, id) for id in (1, 2, 3)], SCHEMA)
    bench.merge(config, [stored])
    for harmless in (stored, late):
        outcome = bench.merge(config, [harmless])
        assert "outdated" not in outcome.counts and outcome.notes == ()
    # The source's log began again at a lower position: what is newer in Kafka has the lower one.
    outcome = bench.merge(config, [bench.put([row("u", 10, 1), row("u", 11, 2), row("c", 12, 4)], SCHEMA)])
    assert (outcome.counts["losing"], outcome.counts["outdated"]) == (2, 2)
    assert "generation" in outcome.notes[0] and ("noted", outcome.notes[0]) in [
        (name, fields.get("note")) for name, fields in bench.events.seen
    ]


def test_changes_without_a_log_position_are_ordered_by_offset_and_say_what_to_set(bench: Workbench) -> None:
    config = table()
    without = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "__lsn"]}
    later = bench.put([row("u", 0, 1, name="second")], without, offset=200)
    outcome = bench.merge(config, [later])
    bench.merge(config, [bench.put([row("c", 0, 1, name="first")], without, offset=100)])
    assert bench.rows(config, "id", "name") == [(1, "second")]
    assert "add.fields" in outcome.notes[0] and "lsn" in outcome.notes[0]
