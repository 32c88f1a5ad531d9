"""A change that lost although it is later than what it lost to is told from late, repeated and snapshot rows."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.batch.kafka_watch import FirstRecord, KafkaWatch, LostChanges, watched
from sluice.changes.log_restart import Mark, SeenObject
from sluice.changes.outdated import (
    BELOW,
    LATER,
    MOVED,
    REWOUND,
    UNTIMED,
    BatchSigns,
    ChangePlace,
    latest,
    outdated_note,
    suspicion,
)
from sluice.changes.position import MYSQL, OFFSET_ONLY, POSTGRES, encode, of_snapshot
from sluice.config.table import TableConfig

MB = 1024**2
CONFIG = TableConfig("db.t", "db", "t", "t", ("id",))


def pg(
    lsn: int | None, offset: int, at: int | None, *, partition: int | None = 0, op: str = "u", generation: int = 0
) -> ChangePlace:
    components = of_snapshot(POSTGRES, (lsn,)) if lsn is None else (lsn,)
    return ChangePlace(encode(generation, POSTGRES, components, offset), partition, at, op)


def by_offset(offset: int, at: int | None, *, partition: int | None = 0, generation: int = 0) -> ChangePlace:
    return ChangePlace(encode(generation, OFFSET_ONLY, (), offset), partition, at, "u")


def binlog(pos: int, offset: int, at: int) -> ChangePlace:
    return ChangePlace(encode(0, MYSQL, ("binlog.000001", pos, 0), offset), 0, at, "u")


@pytest.mark.parametrize(
    ("lost", "winner", "sign"),
    [
        (pg(100, 20, 2), pg(400, 10, 1), LATER),
        (binlog(100, 20, 2), binlog(400, 10, 1), LATER),  # within one file
        (pg(100, 20, 1), pg(400, 10, 1), UNTIMED),
        (pg(100, 20, None), pg(400, 10, 1), UNTIMED),
        # Sent again after a crash, late, newer, another generation, another partition, an unknown one.
        (pg(100, 20, 1), pg(400, 10, 2), None),
        (pg(100, 5, 2), pg(400, 10, 1), None),
        (pg(500, 20, 2), pg(400, 10, 1), None),
        (pg(400, 10, 2), pg(400, 10, 2), None),
        (pg(100, 20, 2), pg(400, 10, 1, generation=1), None),
        (pg(100, 20, 2, partition=1), pg(400, 10, 1), None),
        (pg(100, 20, 2, partition=None), pg(400, 10, 1, partition=None), None),
        # An incremental snapshot, and one that has the place up to which the log was confirmed.
        (pg(None, 20, 2, op="r"), pg(400, 10, 1), None),
        (pg(100, 20, 2, op="r"), pg(400, 10, 1), None),
        (pg(100, 20, 2, op="r"), pg(400 + 16 * MB, 10, 1), LATER),
        # The offset alone.
        (by_offset(3, 2, partition=1), by_offset(90, 1), LATER),
        (by_offset(3, None, partition=1), by_offset(90, 1), MOVED),
        (by_offset(3, 1, partition=1), by_offset(90, 1), None),
        (by_offset(3, 2), by_offset(90, 1), REWOUND),
        (by_offset(90, 2), by_offset(90, 1), REWOUND),
        (by_offset(3, None), by_offset(90, None), BELOW),
        (by_offset(3, 1), by_offset(90, 2), None),
        (by_offset(3, 1), by_offset(90, 1), None),
        (by_offset(3, 2), by_offset(90, 1, generation=1), None),
    ],
)
def test_a_change_is_suspicious_by_its_offset_its_partition_and_its_time(
    lost: ChangePlace, winner: ChangePlace, sign: str | None
) -> None:
    assert suspicion(lost, winner) == sign


def test_signs_of_the_batch_decide_what_a_time_alone_or_none_means() -> None:
    everything = dict.fromkeys((LATER, REWOUND, MOVED, BELOW), 1)
    assert BatchSigns().outdated(everything, keys=9) == 1
    assert BatchSigns(rewound=True).outdated(everything, keys=9) == 2
    assert BatchSigns(all_follow=True).outdated(everything, keys=9) == 2
    assert BatchSigns(anew=True).outdated(everything, keys=9) == 3
    assert BatchSigns().outdated({UNTIMED: 5}, keys=9) == 5
    assert BatchSigns().outdated({UNTIMED: 4}, keys=9) == 0


def seen(
    first: int, last: int, at: int | None = None, *, partition: int | None = 0, sample: str | None = "a"
) -> SeenObject:
    place = encode(0, OFFSET_ONLY, (), last)
    return SeenObject(f"{partition}-{first}-{at}", "k", partition, first, last, OFFSET_ONLY, place, at, sample=sample)


EMPTY = KafkaWatch()


def after(*objects: SeenObject, watch: KafkaWatch = EMPTY, **settings: Any) -> tuple[KafkaWatch, BatchSigns]:
    judged = watched(watch, objects, TableConfig(**{**vars(CONFIG), **settings}))
    assert judged.signs is not None
    return KafkaWatch.from_dict(judged.watch.to_dict()), judged.signs


def test_a_topic_is_made_anew_where_times_go_on_below_the_offsets_that_came() -> None:
    watch, signs = after(seen(0, 9, 5), seen(10, 19, 9))
    assert signs == BatchSigns(all_follow=True)
    assert after(seen(0, 4, 12), watch=watch)[1].rewound
    assert after(seen(0, 9, 5), seen(10, 19, 9), seen(0, 4, 12))[1].rewound  # all of it in one batch
    # A late object, and one that is merged again.
    assert not after(seen(5, 8, 4), watch=watch)[1].rewound
    assert not after(seen(10, 19, 9), watch=watch)[1].rewound
    assert not after(seen(20, 29, 12), watch=watch)[1].rewound


def test_a_topic_is_made_anew_where_another_record_is_at_the_lowest_offset() -> None:
    watch, signs = after(seen(7, 9))
    assert not signs.anew and watch.first_records == {0: FirstRecord(0, 7, "a")}
    assert not after(seen(7, 12), watch=watch)[1].anew  # the object has grown
    assert not after(seen(0, 6, sample="b"), watch=watch)[1].anew  # a late one
    assert not after(seen(7, 9, sample=None), watch=watch)[1].anew  # a replayed one
    later, signs = after(seen(7, 9, sample="b"), watch=watch)
    assert signs.anew and after(seen(8, 9), watch=later)[1].anew
    assert not after(seen(7, 9, sample="b"), watch=later, generation=1)[1].anew


def test_objects_follow_where_each_begins_behind_what_its_partition_brought() -> None:
    watch, _ = after(seen(0, 9), seen(10, 19))
    assert after(seen(20, 29), seen(0, 4, partition=1), watch=watch)[1].all_follow
    assert not after(seen(20, 29), seen(5, 9), watch=watch)[1].all_follow
    assert not after(seen(20, 29), seen(0, 4, partition=None), watch=watch)[1].all_follow


def test_an_earlier_generation_and_tables_without_a_log_are_not_judged() -> None:
    held = KafkaWatch({0: Mark(1, 9, OFFSET_ONLY, encode(1, OFFSET_ONLY, (), 9))})
    for config in (CONFIG, TableConfig("db.t", "db", "t", "t", ("id",), append_only=True)):
        assert watched(held, [seen(0, 9)], config).signs is None
    assert watched(KafkaWatch(), [seen(0, 9)], CONFIG).outdated({LATER: 2}, keys=9) == {"outdated": 2}
    assert watched(held, [seen(0, 9)], CONFIG).outdated({LATER: 2}, keys=9) == {}


def test_lost_changes_are_kept_until_the_generation_is_raised() -> None:
    watch = KafkaWatch().with_lost(2, generation=0).with_lost(0, generation=0).with_lost(3, generation=0)
    watch = KafkaWatch.from_dict(watch.to_dict())
    assert (watch.lost, watch.lost_under(0), watch.lost_under(1)) == (LostChanges(0, 5), 5, 0)
    assert watch.with_lost(0, generation=1).lost is None
    raised = watch.with_lost(1, generation=1)
    assert raised.with_lost(7, generation=0) == raised and raised.lost == LostChanges(1, 1)
    assert KafkaWatch.from_dict({}) == KafkaWatch()


def test_the_latest_change_is_that_of_the_latest_time_then_of_the_highest_offset() -> None:
    places = [pg(9, 30, None), pg(5, 10, 7), pg(4, 11, 7), pg(9, 20, 1)]
    assert latest(places) == places[2] and latest([]) is None
    assert "db.t" in outdated_note("db.t", 1) and "1 later change lost" in outdated_note("db.t", 1)
