"""What completes a full dump, from which place on it replaces the table, and how much it may delete."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.batch.claim import PendingObject
from sluice.batch.dumps import DumpFile, as_dump, as_merged, complete_folder, complete_generation, floors_of, refusal_of
from sluice.batch.manifest import Manifest, TablePart, open_manifest
from sluice.batch.outcome import Outcome, RowErrorCount
from sluice.changes.position import begins_dump, encode_arrival, encode_floor, place_of_object
from sluice.config.rules.snapshot import FOLDER, OBJECT, SnapshotRule
from sluice.config.table import TableConfig
from sluice.objects import ObjectId

SECOND, DAY = 1_764_000_000_000, 86_400_000


def config_of(dumps: str = FOLDER, most_deleted: int = 50, pattern: str = "drop/.*") -> TableConfig:
    snapshot = SnapshotRule(dumps, most_deleted=most_deleted)
    return TableConfig("s3.p", "s3", "p", "p", ("id",), key_pattern=pattern, snapshot=snapshot)


def waiting(key: str, at: int | None = SECOND, *, admitted_at: int = 1, offset: int | None = None) -> PendingObject:
    return PendingObject("b", key, "v", 9, None, "csv", "p", None, offset, admitted_at, modified_at=at, table="s3.p")


def file(key: str, at: int = SECOND, *, is_merged: bool = True, trouble: str | None = None) -> DumpFile:
    return DumpFile(ObjectId("b", key, "v"), at, is_merged, trouble)


MARKER = waiting("drop/2/_SUCCESS", SECOND + 9_000, admitted_at=5)


def test_a_folder_begins_with_its_oldest_file_and_older_rows_are_below_it() -> None:
    files = [file("drop/2/b", SECOND + 5_000), file("drop/2/a", SECOND)]
    folder = complete_folder(MARKER, files, config_of(), claimed=())
    assert folder.error is None and folder.replaces is not None
    floor = encode_floor(3, folder.replaces)
    assert floor < encode_arrival(3, place_of_object("drop/2/a", SECOND), 0)
    assert floor > encode_arrival(3, place_of_object("drop/2/z", SECOND - 1, None), 10**20 - 1)
    assert floor > encode_arrival(2, place_of_object("drop/3/z", SECOND + DAY), 0) and begins_dump(floor)


def test_a_folder_named_by_its_day_begins_with_that_day_whenever_it_was_written() -> None:
    config = config_of(pattern="drop/(?P<order>[0-9-]+)/.*")
    copied = file("drop/2026-11-02/a", SECOND + 9 * DAY)
    folder = complete_folder(waiting("drop/2026-11-02/_SUCCESS"), [copied], config, claimed=())
    later = as_dump(waiting("drop/2026-11-03/a"), replace(config, snapshot=SnapshotRule(OBJECT)))
    assert folder.replaces is not None and later.replaces is not None and folder.replaces < later.replaces


def test_a_folder_waits_for_files_that_are_neither_merged_nor_claimed() -> None:
    files = [file("drop/2/a"), file("drop/2/b", is_merged=False), file("drop/2/c", is_merged=False)]
    folder = complete_folder(MARKER, files, config_of(), claimed=[files[1].id])
    assert folder.waits == "The dump drop/2/ waits for 1 of its objects, such as drop/2/c"
    assert complete_folder(MARKER, files[:2], config_of(), claimed=[files[1].id]).replaces is not None


def test_a_folder_is_refused_for_a_file_that_can_not_be_merged_or_without_any() -> None:
    folder = complete_folder(MARKER, [file("drop/2/a", trouble="is quarantined")], config_of(), claimed=())
    assert folder.error is not None and "drop/2/a is quarantined" in str(folder.error)
    empty = complete_folder(MARKER, [], config_of(), claimed=())
    assert empty.error is not None and "has no files" in str(empty.error)
    allowed = complete_folder(MARKER, [], config_of(most_deleted=100), claimed=())
    assert allowed.replaces == f"t{(SECOND + 9_000) // 1000:011d}"


def test_a_marker_of_a_rebuild_deletes_nothing_where_its_files_have_expired() -> None:
    folder = complete_folder(replace(MARKER, rebuilt_at=1), [], config_of(), claimed=())
    assert folder.error is None and folder.replaces is None


def test_a_generation_waits_for_older_objects_alone() -> None:
    older, younger = waiting("drop/a", admitted_at=1), waiting("drop/b", admitted_at=9)
    assert complete_generation(MARKER, [older, MARKER], [], claimed=[MARKER.id]).waits is not None
    assert complete_generation(MARKER, [older, MARKER], [], claimed=[MARKER.id, older.id]).replaces == ""
    assert complete_generation(MARKER, [MARKER, younger], [], claimed=[MARKER.id]).replaces == ""
    assert complete_generation(MARKER, [], [file("x", trouble="is parked")], claimed=()).error is not None
    assert encode_floor(1, "") > encode_arrival(0, place_of_object("z", SECOND), 0) and begins_dump(encode_floor(1, ""))


def test_an_object_that_its_offset_orders_is_no_dump() -> None:
    config = config_of(OBJECT)
    assert as_dump(waiting("drop/a", offset=3), config).replaces is None
    assert as_dump(waiting("drop/a"), config_of(FOLDER)).replaces is None
    newer = as_dump(waiting("drop/a", SECOND + 1), config)  # the next version of the key, in the same second
    assert floors_of([newer], config) > floors_of([], config)
    assert encode_arrival(0, place_of_object("drop/a", SECOND), 7) < min(floors_of([newer], config))


@pytest.mark.parametrize(
    ("deleted", "left", "most", "refused"),
    [(5, 5, 50, False), (6, 5, 50, True), (1, 0, 99, True), (9, 0, 100, False), (0, 0, 0, False), (1, 99, 0, True)],
)
def test_a_dump_deletes_at_most_its_rules_share(deleted: int, left: int, most: int, refused: bool) -> None:
    assert (refusal_of(deleted, left, config_of(most_deleted=most)) is not None) == refused


def test_what_completes_a_dump_is_in_the_manifest_and_others_keep_their_bytes() -> None:
    config = config_of(OBJECT)
    plain, dump = waiting("drop/a"), replace(waiting("drop/b"), replaces="")
    part = TablePart(config.to_dict(), (plain.in_manifest(), dump.in_manifest()))
    text = open_manifest("main", "r", 1, "v", {"s3.p": part}).to_json()
    assert text.count('"replaces"') == 1
    assert [item.replaces for item in Manifest.from_json(text).objects] == [None, ""]


def test_a_dump_with_rows_set_aside_was_merged_without_its_truncate() -> None:
    dump = replace(waiting("drop/b"), replaces="t1")
    whole = Outcome("b", "s3.p", "committed", 1)
    holed = replace(whole, quarantined_rows=(RowErrorCount(dump.id.hash, 1),))
    assert as_merged(dump, whole) is dump and as_merged(dump, holed).replaces is None
