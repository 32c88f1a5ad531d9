"""The life of a row from the versions in its table, on tables that Spark wrote, and the objects to open beside it."""

import shutil
from dataclasses import replace

import pytest
from support.silver_tables import (
    FORGOTTEN_AT,
    SILVER_FOLDER,
    SilverFolder,
    kept_change,
    position_of,
    put_forgetting,
    put_history,
)

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMITTED, Outcome, RowErrorCount
from sluice.changes.row_history import Row
from sluice.config.table import HARD, IGNORE, TableConfig
from sluice.errors import UsageError
from sluice_cli.trace import row_life as life_module
from sluice_cli.trace.row_changes import FoundChange
from sluice_cli.trace.row_life import (
    UNKNOWN,
    ForgottenRow,
    RowLife,
    RowVersion,
    forgotten_row,
    row_as_of,
    row_life,
    with_history,
)
from sluice_cli.trace.row_search import objects_to_open
from sluice_cli.trace.row_story import MergedBatch, story

LOADED, MOVED, NOTED = "20261121080011861", "20261121080012602", "20261121080013968"  # the commits of moma.works
CONFIG = TableConfig("moma.works", "moma", "works", "works", ("id",))
CLEAN = {"read": 2, "winning": 2, "overtaken": 0, "losing": 0, "repeated": 0}


def life_of(key, *, instants=(LOADED, MOVED, NOTED), purged=False):
    place = SilverFolder(SILVER_FOLDER)
    return row_life(place, "moma.works", [key], instants, purged=purged, tick=lambda instant: None)


def test_every_version_of_a_row_is_read_from_the_table_with_the_change_that_it_is():
    life = life_of("6")
    expected = [(LOADED, position_of(6)), (MOVED, position_of(13)), (NOTED, position_of(22))]
    assert [(item.instant, item.row.position) for item in life.versions] == expected
    assert [item.row.values["name"] for item in life.versions] == ["six", "six b", "six c"]
    change = life.versions[-1].change
    assert (change.key, change.version, change.offset, change.op) == ("topics/t/t+0+0000000000.avro", "v1", 22, "u")
    assert change.values["note"] == "n6" and "id" not in change.values and life.versions[-1].values["id"] == 6
    assert life.reason is None and life.knows(LOADED) and not life.knows_before(LOADED)


@pytest.mark.parametrize(
    ("key", "versions"),
    [
        ("1", [(LOADED, "one", False), (MOVED, "one moved", False)]),
        ("2", [(LOADED, "two", False), (MOVED, None, True)]),
        ("7", [(NOTED, "seven", False)]),
        ("5", [(LOADED, "five", False)]),
    ],
)
def test_a_row_is_found_in_the_partition_that_it_moved_to_and_as_a_deleted_one(key, versions):
    life = life_of(key)
    assert [(item.instant, item.row.values.get("name"), item.row.deleted) for item in life.versions] == versions
    assert life.knows(LOADED), "a row that is not there was not there before, either"


@pytest.mark.parametrize("key", ["99", "x", "", "9" * 30])
def test_a_key_that_the_table_does_not_hold_has_no_versions(key):
    assert life_of(key) == RowLife((), LOADED)
    assert life_of(key, purged=True) == RowLife((), NOTED), "it may have been there, and purged"


def test_a_moment_before_the_readable_history_is_refused_with_its_limit():
    life = life_of("6", instants=("20200101000000000", LOADED, MOVED))
    assert [item.instant for item in life.versions] == [LOADED, MOVED]
    assert life.known_from == LOADED and f"its files begin with {LOADED}" in life.reason
    nothing = row_life(SilverFolder(SILVER_FOLDER), "moma.none", ["6"], [LOADED], purged=False, tick=print)
    assert nothing.known_from is None and "moma.none" in nothing.reason and not nothing.knows(NOTED)


def test_after_another_row_was_forgotten_the_newest_version_is_still_read(tmp_path):
    shutil.copytree(SILVER_FOLDER, tmp_path / "silver")
    put_forgetting(tmp_path / "silver", "moma.works", ["99"], position_of(30))
    place = SilverFolder(tmp_path / "silver")
    life = row_life(place, "moma.works", ["6"], (LOADED, MOVED, NOTED), purged=False, tick=print)
    assert [item.instant for item in life.versions] == [NOTED] and life.known_from == NOTED
    assert f"its files begin with {FORGOTTEN_AT}" in life.reason
    assert forgotten_row(place, "moma.works", ["6"]) is None
    assert forgotten_row(place, "moma.works", ["99"]) == ForgottenRow(position_of(30), FORGOTTEN_AT)
    gone = row_life(place, "moma.works", ["99"], (LOADED, NOTED), purged=False, tick=print)
    assert gone.versions == () and not gone.knows(NOTED)
    for file in (tmp_path / "silver/moma/works/.hoodie").glob(f"{FORGOTTEN_AT}*"):
        file.unlink()
    assert forgotten_row(place, "moma.works", ["99"]) == ForgottenRow(position_of(30), None)


def test_of_a_row_that_changes_all_the_time_only_the_newest_versions_are_read(monkeypatch):
    monkeypatch.setattr(life_module, "VERSIONS", 2)
    life = life_of("6")
    assert [item.instant for item in life.versions] == [MOVED, NOTED] and life.known_from == MOVED


def test_a_version_that_a_rewritten_table_repeats_is_no_change_of_the_row():
    rows = Row("1", False, {"a": 1}), Row("1", False, {"a": 1}), Row("2", False, {"a": 2})
    life = RowLife(tuple(RowVersion(str(at), row, {}) for at, row in enumerate(rows)), "0")
    assert [life.written(str(at)) is not None for at in range(4)] == [True, False, True, False]


def item(name):
    return ManifestObject("b", name, "v", 1, None, "json", "t", 0, 0, 1)


def version(instant, name, **more):
    change = FoundChange(name, "v", 0, 0, instant, "u", False, 1, {"a": instant})
    return RowVersion(instant, Row(instant, False, {"a": instant}), {}, more.get("change", change))


ITEMS = (item("1"), item("2"), item("3"))
LIFE = RowLife((version("20", "2"), version("40", "3")), "20")


def opened(instant, *, counts=CLEAN, life=LIFE, config=CONFIG, checked=(), quarantined_rows=()):
    outcome = Outcome("b", "t", COMMITTED, 1, instant, counts=counts, quarantined_rows=quarantined_rows)
    return [item.key for item in objects_to_open(ITEMS, outcome, config, life, set(checked))]


def test_no_object_is_opened_if_every_change_of_the_batch_won_and_is_in_the_table():
    assert opened("20") == opened("30") == opened(None) == []
    assert opened("40", checked=["40"]) == ["3"], "the object that brought the row, to compare it with the table"


@pytest.mark.parametrize(
    "counts", [{}, {"read": 1}, *({**CLEAN, name: 1} for name in ("overtaken", "losing", "supplied", "truncates"))]
)
def test_all_objects_are_opened_of_a_batch_in_which_a_change_may_have_lost(counts):
    assert opened("30", counts=counts) == opened(None, counts=counts) == ["1", "2", "3"]


def test_all_objects_are_opened_if_the_table_does_not_show_the_batchs_changes():
    assert opened("10") == ["1", "2", "3"], "before what time travel reads"
    assert opened("20", life=UNKNOWN) == ["1", "2", "3"]
    assert opened("20", life=RowLife((version("20", "2", change=None),), "20")) == ["1", "2", "3"], "no lineage"
    ignoring = TableConfig("t", "d", "t", "t", ("id",), delete_mode=IGNORE)
    assert opened("20", config=ignoring) == ["1", "2", "3"]
    assert opened("20", config=TableConfig("t", "d", "t", "t", ("id",), delete_mode=HARD)) == []


def test_objects_with_quarantined_rows_and_the_source_object_of_the_row_are_opened():
    aside = (RowErrorCount(ITEMS[0].id.hash, 1),)
    assert opened("20", quarantined_rows=aside) == ["1", "2"]
    assert opened("30", quarantined_rows=aside) == ["1"]


def test_a_story_takes_from_the_table_what_no_object_was_opened_for():
    late = FoundChange("late", "v", 0, 0, "10", "u", False, 1, {"a": "10"})
    batches = [
        MergedBatch("b0", "05", 0, ()),
        MergedBatch("b1", "20", 1),
        MergedBatch("b2", None, 2, (late,)),
        MergedBatch("b3", "40", 3),
        MergedBatch("b4", "50", 4, ()),
    ]
    chapters = story(batches, columns=(), life=LIFE, from_the_start=False)
    actual = [[(judged.verdict, judged.change.key) for judged in chapter.judged] for chapter in chapters]
    assert actual == [[("newest", "2")], [("lost", "late")], [("won", "3")]]
    assert [chapter.row.values for chapter in chapters] == [{"a": "20"}, {"a": "20"}, {"a": "40"}]
    assert "20" in chapters[2].judged[0].why


@pytest.fixture
def with_changes(tmp_path):
    """A place where `crm.user` has a history table, with three changes and the end of a life by a truncate."""
    shutil.copytree(SILVER_FOLDER / "crm", tmp_path / "crm")
    ended = {**kept_change(2, None, 4, "d"), "_sluice_object": None, "_sluice_offset": None}
    first = (kept_change(1, "ann", 1, "u"), kept_change(2, "bob", 2), kept_change(1, None, 0))
    put_history(
        tmp_path, [*first, kept_change(1, None, 3, "u", unchanged=("name",)), kept_change(3, None, 3, "d"), ended]
    )
    return SilverFolder(tmp_path)


def test_every_change_of_a_row_is_read_from_the_history_table(with_changes):
    life = with_history(UNKNOWN, with_changes, "crm.user", ["1"])
    assert life.history == "crm.user_history"
    changes = [(change.position, change.key, change.version, change.op, change.values) for change in life.changes]
    assert sorted(changes, key=lambda change: change[0]) == [
        (position_of(0), "0.avro", "v", "c", {"date": None, "name": None}),
        (position_of(1), "1.avro", "v", "u", {"date": None, "name": "ann"}),
        (position_of(3), "3.avro", "v", "u", {"date": None}),
    ]
    assert [change.unchanged for change in life.changes if change.offset == 3] == [{"name"}]
    (change,) = with_history(UNKNOWN, with_changes, "crm.user", ["2"]).changes
    assert change.offset == 2, "the end of a life by a truncate is no change of the source's"


def test_a_life_without_a_readable_or_bounded_history_stays_as_it_is(with_changes, monkeypatch):
    assert with_history(UNKNOWN, with_changes, "crm.nothing", ["1"]) is UNKNOWN
    assert with_history(UNKNOWN, SilverFolder(SILVER_FOLDER), "crm.user", ["1"]) is UNKNOWN
    monkeypatch.setattr(life_module, "CHANGES", 2)
    assert with_history(UNKNOWN, with_changes, "crm.user", ["1"]) is UNKNOWN


@pytest.mark.parametrize(
    ("key", "minute", "name"), [("1", 0, None), ("1", 1, "ann"), ("2", 1, "absent"), ("99", 2, "absent")]
)
def test_a_row_is_read_as_of_a_moment_before_its_table_begins(with_changes, key, minute, name):
    past, note = row_as_of(with_changes, "crm.user", [key], f"197001010{minute:03d}30000")
    assert (past["row"] or {"name": "absent"})["name"] == name
    assert past["key"] == {"id": key} and past["from_history"] and "from crm.user_history" in note


def test_a_row_is_read_as_of_a_moment_from_its_table_while_that_has_it(with_changes):
    past, _ = row_as_of(with_changes, "crm.user", ["1"], "20261121080015045")
    assert (past["row"]["name"], past["from_history"]) == ("ann", False)
    deleted, _ = row_as_of(with_changes, "crm.user", ["3"], "20261121080015045")
    assert deleted["row"] is None
    with pytest.raises(UsageError, match="The key of crm.user is id"):
        row_as_of(with_changes, "crm.user", ["1", "2"], "20261121080015045")


def test_a_row_of_a_history_table_is_refused_by_name(with_changes):
    for key in (["1"], ["1", position_of(1)]):
        with pytest.raises(UsageError, match="crm.user_history is a history table"):
            row_as_of(with_changes, "crm.user_history", key, "20261121080015045")


def test_where_a_history_has_a_batchs_changes_only_a_truncate_opens_its_objects():
    config = replace(CONFIG, history=True)
    item = ManifestObject("b", "1.avro", "v", 1, None, "json", "t", 0, 0, 1)
    life = RowLife(changes=())

    def opened(life, config, **counts):
        outcome = Outcome("b", "moma.works", COMMITTED, 1, LOADED, counts={**CLEAN, **counts})
        return objects_to_open([item], outcome, config, life, set())

    assert opened(life, config, losing=1) == [] and opened(life, config, truncates=1) == [item]
    assert opened(life, CONFIG) == [item], "a batch from before the history began"
    assert opened(UNKNOWN, config) == [item], "a history that can't be read"
