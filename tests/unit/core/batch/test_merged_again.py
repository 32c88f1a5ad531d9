"""Objects and changes that are merged again count once."""

from dataclasses import replace

import pytest

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.part_counts import changes_of_table, merged_again, new_changes, new_objects
from sluice.changes.log_restart import SeenObject

NEW = ManifestObject("b", "new", "v", 1, None, "avro", "t", 0, 0, 5)
REPLAYED = replace(NEW, key="replayed", attempt=1, first_batch="b-1")
RETRIED = replace(NEW, key="retried", attempt=1, merged=True)


def seen(item, changes):
    return SeenObject(item.id.hash, item.key, 0, 0, changes, "x", None, changes=changes)


def test_replayed_objects_and_their_changes_are_counted_apart():
    items = (NEW, REPLAYED, RETRIED)
    counts = merged_again(items, [seen(item, 10) for item in items])
    assert counts == {"objects_again": 2, "read_again": 10}
    part = {"objects": 3, "read": 30, **counts}
    assert (new_objects(part), new_changes(part)) == (1, 20)


def test_objects_of_a_rebuilt_table_are_no_new_ones():
    rebuilt = replace(NEW, key="rebuilt", attempt=1, rebuilt_at=7)
    retried = replace(rebuilt, key="retried", attempt=2, merged=True)
    items = (NEW, rebuilt, retried)
    counts = merged_again(items, [seen(item, 10) for item in items])
    part = {"objects": 3, "read": 30, **counts}
    assert (new_objects(part), new_changes(part), changes_of_table(part)) == (1, 20, 30)


def test_an_object_that_could_not_be_read_again_does_not_count():
    assert merged_again([NEW, REPLAYED], [seen(NEW, 10)]) == {}


@pytest.mark.parametrize(
    ("counts", "objects", "changes"),
    [
        ({}, 0, 0),
        ({"objects": 5, "read": 50}, 5, 50),
        ({"objects": 5, "quarantined_objects": 1, "parked_objects": 2, "read": 20}, 2, 20),
        ({"objects": 5, "quarantined_objects": 1, "objects_again": 4, "read": 40, "read_again": 40}, 0, 0),
    ],
    ids=["nothing", "new", "set aside", "replayed"],
)
def test_new_objects_and_changes_leave_the_others_out(counts, objects, changes):
    assert (new_objects(counts), new_changes(counts)) == (objects, changes)


def test_a_manifest_without_replays_has_the_bytes_of_before():
    def text(item):
        return Manifest("b-2", "main", "r", 1, "c", {"t": TablePart({}, (item,))}).to_json()

    assert "first_batch" not in text(NEW) and "rebuilt_at" not in text(NEW)
    assert Manifest.from_json(text(REPLAYED)).objects == (REPLAYED,)
