"""A record key that several rows of a snapshot share makes no table, and a later batch says so."""

from __future__ import annotations

from typing import Any

import pytest
from support.bad_input import plain_parquet
from support.workbench import SCHEMA, Workbench, row, table

ROWS = [row("r", 10, id, place="AB"[id % 2], name=f"n{id}") for id in range(6)]


def test_a_shared_key_sets_the_first_objects_aside_until_it_is_corrected(bench: Workbench) -> None:
    first, second = bench.put(ROWS[:3], SCHEMA), bench.put(ROWS[3:], SCHEMA)
    wrong = table(record_key=("place",))
    refused = bench.merge(wrong, [first, second])
    assert (refused.state, refused.instant) == ("quarantined", None)
    assert {(error.object, error.code) for error in refused.quarantined} == {
        (item.id.hash, "key_not_unique") for item in (first, second)
    }
    told = "6 rows of a snapshot have 2 values of place: 2 of them stand for several rows"
    assert told in refused.quarantined[0].reason
    corrected = bench.merge(table(), [first, second])
    assert (corrected.state, corrected.notes) == ("committed", ())
    assert len(bench.rows(table(), "id")) == 6


@pytest.mark.whole
def test_repetitions_other_snapshots_and_later_changes_share_their_key_rightly(bench: Workbench) -> None:
    again = [{**values, "name": "renamed", "__lsn": 20} for values in ROWS[:4]]
    objects = [
        bench.put(ROWS, SCHEMA, offset=0),
        bench.put(ROWS, SCHEMA, offset=0),  # after a crash, under another key
        bench.put(ROWS[2:], SCHEMA, offset=6),  # read again at the same place
        bench.put([*again, row("u", 25, 1), row("d", 26, 2), row("c", 27, 2)], SCHEMA, offset=20),
        bench.put([row("r", 30, 2, name="third")], SCHEMA, offset=40),
    ]
    outcome = bench.merge(table(), objects)
    assert (outcome.state, outcome.quarantined, outcome.notes) == ("committed", (), ())
    assert "shared_keys" not in outcome.counts


@pytest.mark.whole
def test_a_shared_key_of_a_later_batch_is_noted(bench: Workbench) -> None:
    config = table(record_key=("place",))
    bench.apply(config, row("c", 1, 1, place="A"))
    outcome = bench.apply(config, *ROWS)
    assert outcome.state == "committed"
    assert [note for note in outcome.notes if "6 rows of a snapshot have 2 values of place" in note]


@pytest.mark.whole
def test_plain_rows_of_one_object_that_nothing_orders_share_no_key(bench: Workbench) -> None:
    def put(*rows: dict[str, Any]) -> Any:
        return bench.put_file(plain_parquet(*rows), "topics/t/part-0.parquet", offset=0, format="parquet")

    whole = put({"id": 1, "name": "a"}, {"id": 2, "name": "a"})
    later = put({"id": 1, "name": "b"}, {"id": 2, "name": "b"}, {"id": 2, "name": "b"})
    wrong = bench.merge(table("named", record_key=("name",)), [whole, later])
    assert [error.code for error in wrong.quarantined] == ["key_not_unique"] * 2
    assert bench.merge(table(), [whole, later]).state == "committed", "the same key in another object is a later row"


def test_a_partition_column_that_no_object_has_makes_no_table(bench: Workbench) -> None:
    item = bench.put(ROWS, SCHEMA)
    refused = bench.merge(table(partition_by=("plaice",)), [item])
    assert (refused.state, refused.instant) == ("quarantined", None)
    assert [error.code for error in refused.quarantined] == ["incompatible_schema"]
    corrected = table(partition_by=("place",))
    assert bench.merge(corrected, [item]).state == "committed"
    assert bench.properties(corrected)["hoodie.table.partition.fields"] == "place"
