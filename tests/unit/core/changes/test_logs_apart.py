"""Several servers write into one topic: a key that names them keeps their logs apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.batch.kafka_watch import KafkaWatch, is_of_one_log, watched
from sluice.changes.log_restart import LOGS_KEPT, Mark, SeenObject, judge
from sluice.changes.position import POSTGRES, encode
from sluice.config.table import TableConfig

GB = 1024**3
CONFIG = TableConfig("db.t", "db", "t", "x", ("__db", "id"))


def seen(first: int, lsn: int, at: int, log: str | None) -> SeenObject:
    position = encode(0, POSTGRES, (lsn,), first + 9)
    return SeenObject(f"o{first}", f"t+0+{first}.avro", 0, first, first + 9, POSTGRES, position, at, log=log)


IN_TURNS = [seen(10 * n, (50 * GB if n % 2 == 0 else 2 * GB) + n, n, "ab"[n % 2]) for n in range(8)]


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_logs_in_turns_park_nothing_where_the_key_names_them(at_once: int) -> None:
    watch = KafkaWatch()
    for start in range(0, 8, at_once):
        judged = watched(watch, IN_TURNS[start : start + at_once], CONFIG)
        assert judged.parked == {}
        watch = KafkaWatch.from_dict(judged.watch.to_dict())
    assert sorted(watch.marks[0].apart) == ["a", "b"] and watch.marks[0].offset == 79


def test_logs_that_nothing_names_are_parked_with_the_way_to_tell_them_apart() -> None:
    reasons = judge({}, [replace(item, log=None) for item in IN_TURNS], generation=0).parked
    assert list(reasons) == ["o70"] and "record_key: [__name" in reasons["o70"]


def test_a_log_of_several_that_restarts_is_parked_alone() -> None:
    marks = judge({}, IN_TURNS, generation=0).marks
    marks = {partition: Mark.from_dict(mark.to_dict()) for partition, mark in marks.items()}
    later = [seen(80, GB, 90, "a"), seen(90, 2 * GB + 99, 91, "b"), seen(100, GB + 9, 92, "a")]
    judged = judge(marks, later, generation=0)
    assert sorted(judged.parked) == ["o100", "o80"] and judged.marks[0].restarted_at is None


@pytest.mark.parametrize(
    ("items", "settings", "one"),
    [
        (IN_TURNS, {}, False),
        ([replace(item, servers=("7",)) for item in IN_TURNS], {}, True),  # databases of one server
        ([replace(item, servers=(f"{at % 2}",)) for at, item in enumerate(IN_TURNS)], {}, False),
        ([], {}, False),
        (IN_TURNS, {"position": "at"}, True),
        ([replace(item, log=None) for item in IN_TURNS[::2]], {"merged": True, "record_key": ("id",)}, True),
        ([replace(item, log=None) for item in IN_TURNS], {"merged": True, "record_key": ("id",)}, False),
        (
            [replace(item, log=None, topic=f"x{at % 2}") for at, item in enumerate(IN_TURNS)],
            {"merged": True, "record_key": ("id",)},
            False,
        ),
        ([replace(item, log=None) for item in IN_TURNS], {"record_key": ("id",)}, True),
    ],
)
def test_rows_of_several_logs_do_not_compare_with_a_floor(
    items: list[SeenObject], settings: dict[str, Any], one: bool
) -> None:
    config = replace(CONFIG, **settings)
    watch = KafkaWatch()
    for item in items:
        watch = watched(watch, [item], config).watch
    assert is_of_one_log(watch, config) is one


def test_an_object_of_several_logs_is_compared_with_none() -> None:
    judged = judge({}, [seen(0, 50 * GB, 1, ""), seen(10, GB, 2, ""), seen(20, 60 * GB, 3, "")], generation=0)
    assert judged.parked == {} and judged.marks[0].apart == {}


def test_the_logs_with_the_newest_changes_are_kept() -> None:
    logs = [seen(10 * n, GB + n, n, f"log{n}") for n in range(LOGS_KEPT + 1)]
    assert len(judge({}, logs, generation=0).marks[0].apart) == LOGS_KEPT
