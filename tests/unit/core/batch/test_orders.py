"""What can't be put in order with a table's changes is parked or refused: other positions, split partitions."""

from __future__ import annotations

from typing import Any

import pytest
from support.shapes import config, judged_in_turn

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.orders import OrderMark, fields_of
from sluice.changes.log_restart import SeenObject
from sluice.changes.position import ARRIVAL, NAMED, OFFSET_ONLY, POSTGRES, encode_arrival, place_of_object
from sluice.config.key_pattern import named_by
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig

CONFIG = config()


def seen(
    key: str, first: int = 0, last: int = 0, *, kind: str = OFFSET_ONLY, partition: int | None = 0, highest: str = "p"
) -> SeenObject:
    return SeenObject(key, key, partition, first, last, kind, highest)


def judged(*batches: list[SeenObject], table: TableConfig = CONFIG) -> Watched:
    return judged_in_turn(batches, table)


SPLIT = [seen("t/status=open/x+0+0", 0, 1), seen("t/status=paid/x+0+1", 1, 30)]


@pytest.mark.parametrize("apart", [False, True])
def test_an_object_of_a_kafka_partition_split_over_folders_is_refused(apart: bool) -> None:
    refused = (judged(*([name] for name in SPLIT)) if apart else judged(SPLIT)).refused
    assert list(judged(SPLIT[::-1]).refused) == list(refused)  # in whatever order they were admitted
    assert list(refused) == ["t/status=paid/x+0+1"] and refused["t/status=paid/x+0+1"].code == "overlap"
    assert "`coordinates`" in str(refused["t/status=paid/x+0+1"].next_step)


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("offsets that seem apart", seen("t/status=paid/x+0+50", 50, 60)),
        ("the time of records", seen("t/status=open/hour=11/x+0+1", 1, 30)),
        ("folders without names", seen("t/paid/x+0+1", 1, 30)),
    ],
)
def test_of_whatever_folders(what: str, other: SeenObject) -> None:
    assert list(judged([SPLIT[0], other]).refused) == [other.object]


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("the next hour", seen("t/status=open/hour=11/x+0+2", 2, 30)),
        ("another partition", seen("t/status=paid/x+1+1", 1, 30, partition=1)),
        ("the same records again", seen("t/status=open/hour=11/x+0+0", 0, 30)),
        ("the same folder, written again after a crash", seen("t/status=open/x+0+1", 1, 30)),
        ("changes with a log position", seen("t/status=paid/x+0+1", 1, 30, kind=POSTGRES)),
    ],
)
def test_what_offsets_put_in_order_goes_on(what: str, other: SeenObject) -> None:
    assert judged([SPLIT[0], other]).refused == {}


@pytest.mark.parametrize(
    "table",
    [
        config("status", "id"),  # a row never moves to another folder
        config("state", "id", columns=ColumnRules(rename={"status": "state"})),
        config(coordinates=("p", "o")),
        config(position="changed_at"),
        config(append_only=True),
    ],
    ids=["key", "renamed key", "coordinates", "position", "append_only"],
)
def test_a_table_with_another_order_takes_them(table: TableConfig) -> None:
    assert judged(SPLIT, table=table).refused == {}


def test_a_key_of_another_column_that_is_renamed_as_the_folders_puts_nothing_apart() -> None:
    renamed = config("status", "id", columns=ColumnRules(rename={"status": "state", "kind": "status"}))
    assert list(judged(SPLIT, table=renamed).refused) == ["t/status=paid/x+0+1"]


def test_a_refused_object_is_compared_with_nothing_and_its_log_is_not_watched() -> None:
    again = judged(SPLIT, [seen("t/status=paid/x+0+31", 31, 40), seen("t/status=open/x+0+31", 31, 31)])
    assert list(again.refused) == ["t/status=paid/x+0+31"]
    assert again.watch.marks[0].offset == 31


def test_times_and_partitions_in_folders_are_no_fields() -> None:
    folders = "topics/x/partition=3/year=2026/month=11/event_date=2026-11-02/dt=20261102/h=7/region=eu/day=monday"
    assert fields_of(folders) == (("region", "eu"), ("day", "monday"))


BY_LOG = seen("log", kind=POSTGRES, highest="0000.1.2")
BY_TIME = seen("dump.csv", kind=ARRIVAL, partition=None, highest="0000.t2")
BY_NAME = seen("2026-11-02.csv", kind=NAMED, partition=None, highest="0000.w2")
OF_BEFORE = seen("old.csv", kind=OFFSET_ONLY, partition=None, highest="0000.2")


@pytest.mark.parametrize(
    ("first", "second", "parked"),
    [
        (BY_LOG, BY_TIME, True),
        (BY_TIME, BY_LOG, True),
        (BY_NAME, BY_TIME, True),
        (BY_LOG, BY_NAME, True),
        (BY_TIME, BY_NAME, False),
        (BY_TIME, BY_TIME, False),
        (BY_TIME, OF_BEFORE, False),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_positions_that_do_not_compare_wait_for_a_higher_generation(
    first: SeenObject, second: SeenObject, parked: bool, apart: bool
) -> None:
    result = judged([first], [second]) if apart else judged([first, second])
    assert set(result.parked) == ({second.object} if parked else set())
    assert not parked or "generation" in result.parked[second.object]


def of_name(text: str) -> SeenObject:
    name = named_by("(?P<order>.*)", text)
    assert name is not None
    place = place_of_object(text, 1_764_000_000_000, name.order)
    return seen(text, kind=NAMED, partition=None, highest=encode_arrival(0, place, 3))


@pytest.mark.parametrize(
    ("names", "parked"),
    [
        (("20261102", "2026-11-03"), True),  # would lose to all dumps before it, and so would all later ones
        (("20261102T093000Z", "2026-11-02"), True),
        (("20261102093000", "20261103"), True),
        (("1793611800000", "1793698200"), True),  # milliseconds, seconds
        (("1793611800", "year=2026/month=11/day=4"), True),
        (("2026-11-03", "20261102"), True),  # would win though it is older
        (("20261102", "2026-11-01"), False),  # loses, and is older
        (("2026-11-01", "20261102"), False),
        (("2026-11-02", "2026-11-1"), False),
        (("20261102T0930Z", "20261103"), False),
        (("2026-11", "2026-12-01"), False),
        (("9", "10"), False),
        (("20261399", "2026-11-03"), False),  # no date
        (("2026", "20261102"), False),
        (("20261102", "20261102103000"), False),  # a full load, and a change of the same day
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_dates_of_names_in_another_form_wait_for_a_higher_generation(names: Any, parked: bool, apart: bool) -> None:
    first, second = map(of_name, names)
    result = judged([first], [second]) if apart else judged([first, second])
    assert list(result.parked) == ([second.object] if parked else [])
    assert not watched(result.watch, [second], config(generation=1)).parked
    of_two_sources = config("id", "__table")  # whose rows never compare
    assert not judged([first], [second], table=of_two_sources).parked


def test_a_table_merged_before_orders_were_watched_is_known_by_its_marks() -> None:
    before = judged([BY_LOG]).watch
    watch = watched(KafkaWatch(before.marks), [BY_TIME], CONFIG)
    assert list(watch.parked) == ["dump.csv"]


def test_a_higher_generation_begins_anew() -> None:
    after = watched(judged([BY_LOG]).watch, [BY_TIME], config(generation=1))
    assert after.parked == {} and after.watch.order == OrderMark(1, ARRIVAL)
    assert watched(after.watch, [BY_LOG], CONFIG).watch == after.watch  # a retried object of the generation before
