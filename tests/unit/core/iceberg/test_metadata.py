"""The Iceberg metadata beside a Hudi table: ids of columns, snapshots that stay, files that nobody names."""

import json

from sluice.hudi.timeline import Timeline
from sluice.iceberg import metadata as tables
from sluice.iceberg.columns import NAME_MAPPING, columns_after, current_fields, glue_columns

TYPES = {"id": "int", "price": "decimal(8,2)", "tags": "array<float>", "at": "timestamp", "__deleted": "boolean"}
HIDDEN = ("_hoodie_record_key", "__deleted")


def instants(*numbers):
    return [f"202601010000{number:05d}" for number in numbers]


def timeline(*numbers, cleaned=()):
    return Timeline.of([f"{one}.commit" for one in instants(*numbers)] + [f"{one}.clean" for one in instants(*cleaned)])


def followed(before, number, seen, *, types=TYPES, now_ms=0, complete=True):
    """The metadata after the commit of this number, on a timeline."""
    (instant,) = instants(number)
    version = 1 if before is None else before["last-sequence-number"] + 1
    made = tables.NextSnapshot(instant, f"s3://b/{tables.snapshot_file(tables.LIST, instant, version)}", "append", {})
    columns = columns_after(before, types, hidden=HIDDEN)
    start = before or tables.new_metadata("s3://b", "u", "db.t")
    return tables.with_snapshot(start, made, columns, timeline=seen, now_ms=now_ms, complete=complete)


def shown(metadata):
    return [snapshot["summary"][tables.INSTANT] for snapshot in metadata["snapshots"]]


def test_ids_of_columns_stay_through_additions_and_wider_types():
    first = followed(None, 1, timeline(1))
    ids = {field["name"]: field["id"] for field in current_fields(first)}
    assert list(ids) == ["id", "price", "tags", "at"]  # what is hidden is mapped, and not shown
    names = [entry["names"] for entry in json.loads(first["properties"][NAME_MAPPING])]
    assert ["_hoodie_record_key"] in names and ["__deleted"] in names
    wider = {"new": "string", **TYPES, "id": "bigint", "price": "decimal(12,2)", "tags": "array<double>"}
    second = followed(first, 2, timeline(1, 2), types=wider)
    assert {name: ids[name] for name in ids} == {
        field["name"]: field["id"] for field in current_fields(second) if field["name"] in ids
    }
    assert dict(glue_columns(second)) == {
        **{"new": "string", "id": "bigint", "price": "decimal(12,2)", "tags": "array<double>", "at": "timestamp"}
    }
    assert len(second["schemas"]) == 2 and shown(second) == instants(1, 2)
    assert second["snapshots"][0]["schema-id"] != second["snapshots"][1]["schema-id"]


def test_a_rewritten_column_gets_another_id_and_older_snapshots_leave():
    first = followed(None, 1, timeline(1))
    second = followed(first, 2, timeline(1, 2), types={**TYPES, "id": "string", "price": "decimal(12,4)"})
    ids = [{field["name"]: field["id"] for field in current_fields(one)} for one in (first, second)]
    assert ids[0]["id"] != ids[1]["id"] and ids[0]["price"] != ids[1]["price"] and ids[0]["tags"] == ids[1]["tags"]
    assert shown(second) == instants(2) and [schema["schema-id"] for schema in second["schemas"]] == [1]


def test_a_cleaning_takes_what_no_reader_since_its_horizon_needs():
    state = None
    for number in (1, 3, 5):
        state = followed(state, number, timeline(*range(1, number + 1)))
    # Commit 2 came between, so what 1 shows ended there; what 3 shows ended at 4.
    for horizon, left in ((2, (3, 5)), (1, (1, 3, 5)), (3, (3, 5)), (4, (5,)), (9, (5,))):
        cleaned = tables.before_cleaning(state, instant=instants(7)[0], horizon=instants(horizon)[0])
        assert shown(cleaned) == instants(*left), horizon
    assert "parent-snapshot-id" not in cleaned["snapshots"][0]
    assert tables.is_up_to_date(cleaned, timeline(1, 2, 3, 4, 5, cleaned=(7,)))
    assert not tables.is_up_to_date(state, timeline(1, 2, 3, 4, 5, cleaned=(7,)))


def test_snapshots_of_undone_commits_leave_and_those_before_them_stay():
    state = followed(followed(None, 1, timeline(1)), 2, timeline(1, 2))
    assert shown(followed(state, 3, timeline(1, 3), complete=False)) == instants(1, 3)
    assert shown(followed(state, 1, timeline(1), complete=False)) == instants(1)
    assert shown(followed(state, 3, timeline(1, 2, 3), complete=False)) == instants(3)  # files are gone, and why?


def test_a_cleaning_that_was_not_announced_leaves_the_newest_snapshot_at_most():
    state = followed(followed(None, 1, timeline(1)), 2, timeline(1, 2))
    assert shown(followed(state, 4, timeline(1, 2, 4, cleaned=(3,)))) == instants(2, 4)
    assert shown(followed(state, 4, timeline(1, 2, 4, cleaned=(3,)), complete=False)) == instants(4)


def test_old_snapshots_leave_once_there_are_many_and_no_reader_has_begun_with_them():
    state = None
    for number in range(1, tables.MOST_SNAPSHOTS + 6):
        state = followed(state, number, timeline(number), now_ms=0)
    assert len(shown(state)) == tables.MOST_SNAPSHOTS + 5
    last = tables.MOST_SNAPSHOTS + 6
    much_later = state["last-updated-ms"] + 2 * tables.LEAST_AGE_MS
    assert len(shown(followed(state, last, timeline(last), now_ms=much_later))) == tables.MOST_SNAPSHOTS


def test_files_that_no_snapshot_and_no_older_reader_needs_are_named():
    state = followed(followed(followed(None, 1, timeline(1)), 2, timeline(1, 2)), 3, timeline(1, 2, 3))
    cleaned = tables.before_cleaning(state, instant=instants(4)[0], horizon=instants(3)[0])
    one, two, three = instants(1, 2, 3)
    needed = ["v3.metadata.json", "v4.metadata.json", "version-hint.text", f"files-{three}-3.avro", "a.deletes.parquet"]
    gone = ["v1.metadata.json", f"snap-{one}-1.avro", f"deletes-{two}-2.avro", "b.deletes.parquet"]
    assert tables.unnamed([*needed, *gone], cleaned, {"a"}) == gone
