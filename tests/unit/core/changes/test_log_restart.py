"""A restarted log is distinguished from snapshots, replays and late objects, and its objects are parked until the
generation is raised.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sluice.batch.kafka_watch import MOST_CHARACTERS, KafkaWatch, only_partition, watched
from sluice.changes.log_restart import (
    BY_TIME,
    UNNAMED,
    Mark,
    SeenObject,
    began_again,
    has_several_logs,
    judge,
    watched_partition,
)
from sluice.changes.position import MONGODB, MYSQL, OFFSET_ONLY, ORACLE, POSTGRES, SQLSERVER, encode, log_place
from sluice.config.table import TableConfig

GB = 1024**3
CONFIG = TableConfig("db.t", "db", "t", "src.public.t", ("id",))


def pg(
    first: int, lsn: int, at: int | None, *, last: int | None = None, partition: int | None = 0, **described: Any
) -> SeenObject:
    """An object of ten changes whose highest LSN is `lsn`, the newest made at `at`."""
    last = first + 9 if last is None else last
    names, highest = (f"o{partition}-{first}", f"t+0+{first}.avro"), encode(0, POSTGRES, (lsn,), last)
    return SeenObject(*names, partition, first, last, POSTGRES, highest, at, **described)


def mysql(first: int, file: str, at: int, **described: Any) -> SeenObject:
    described = {"logs": (file.rpartition(".")[0],), **described}
    highest = encode(0, MYSQL, (file, 4, 0), first + 9)
    return SeenObject(f"o{first}", "k", 0, first, first + 9, MYSQL, highest, at, **described)


def parked(*batches: list[SeenObject], generation: int = 0) -> list[str]:
    """The objects that are parked, over several batches of one table."""
    marks: dict[int, Mark] = {}
    collected: list[str] = []
    for batch in batches:
        judged = judge(marks, batch, generation=generation)
        marks = {partition: Mark.from_dict(mark.to_dict()) for partition, mark in judged.marks.items()}
        collected += sorted(judged.parked)
    return collected


@pytest.mark.parametrize("split", [False, True])
def test_rising_offsets_with_falling_positions_park_new_objects_but_not_late_ones(split: bool) -> None:
    before = [pg(0, 40 * GB, 100), pg(20, 41 * GB, 200)]
    after = [pg(30, 2 * GB, 300), pg(10, 40 * GB, 150), pg(40, 3 * GB, 400)]
    assert parked(before, after) == ["o0-30", "o0-40"] if split else parked(before + after) == ["o0-30", "o0-40"]


@pytest.mark.parametrize("topic", ["", "src.public.t", "src.other"])
def test_objects_without_offsets_are_judged_by_their_time_in_s3(topic: str) -> None:
    merged = replace(CONFIG, record_key=("__db", "id"))
    batches = [
        [pg(1_000, 40 * GB, 100, last=1_000)],
        [pg(2_000, 2 * GB, 90, last=2_000), pg(3_000, 41 * GB, 110, last=3_000)],  # one that comes late
        [pg(4_000, 41 * GB - GB // 2, 120, last=4_000)],
        [pg(5_000, 2 * GB, 130, last=5_000), pg(6_000, 3 * GB, 140, last=6_000)],
        [pg(7_000, 50 * GB, 150, last=7_000)],
    ]
    watch, actual = KafkaWatch(), list[str]()
    for batch in batches:
        seen = [replace(item, partition=BY_TIME, topic=topic) for item in batch]
        judged = watched(watch, seen, CONFIG if topic != "src.other" else merged)
        watch, actual = KafkaWatch.from_dict(json.loads(json.dumps(judged.watch.to_dict()))), actual + [*judged.parked]
        assert all("objects without an offset at 1970-01-01 00:00:05" in why for why in judged.parked.values())
    assert actual == ["o0-5000", "o0-6000", "o0-7000"]
    own = [replace(item, partition=BY_TIME) for batch in batches for item in batch]
    assert not watched(KafkaWatch(), own, replace(CONFIG, merged=True)).parked


def test_a_binlog_that_comes_late_without_offsets_is_no_restart() -> None:
    files = [mysql(at, f"b.{number:06d}", at) for at, number in ((1, 11), (2, 10), (3, 12), (4, 10))]
    assert parked([replace(item, partition=BY_TIME, last=item.first) for item in files]) == ["o4"]
    assert parked([replace(item, last=item.first) for item in files]) == ["o2", "o3", "o4"]


def test_a_log_that_restarts_is_parked_also_in_a_topic_that_was_made_anew() -> None:
    old, new = [pg(5_000, 40 * GB, 100)], [pg(0, 41 * GB, 200), pg(10, 42 * GB, 300)]
    restarted, expected = [pg(30, 2 * GB, 400), pg(40, 3 * GB, 500)], ["o0-30", "o0-40"]
    assert parked(old, new, restarted) == parked(old, *([item] for item in new), restarted) == expected
    # Objects of the former topic raise the offset until the new one goes on.
    late = [pg(4_000, 39 * GB, 90), pg(6_000, 40 * GB + 1, 110)]
    assert parked(old + new, new[1:], late, [pg(20, 43 * GB, 350)], restarted) == expected
    assert parked(old, late, [pg(4_500, 41 * GB, 95)], [pg(4_900, 2 * GB, 400)]) == []  # none of these is later


def test_lower_offsets_of_another_partition_or_log_are_of_no_new_topic() -> None:
    unnamed = [(9_000, "b.000005", 1_000), (500, "b.000006", 1_001), (600, "b.000005", 1_002), (610, "b.000006", 1_200)]
    assert parked(*([replace(mysql(*values), partition=UNNAMED)] for values in unnamed)) == []
    renamed = [(5_000, "mysql-bin.000100", 100), (0, "binlog.000200", 200), (10, "binlog.000200", 300)]
    assert parked(*([mysql(*values)] for values in renamed)) == []


def test_what_follows_stays_parked_also_when_the_new_log_has_grown_past_the_old_one() -> None:
    expected = ["o0-10", "o0-20"]
    assert parked([pg(0, 40 * GB, 100)], [pg(10, GB, 200)], [pg(20, 50 * GB, 300)], [pg(5, 39 * GB, 90)]) == expected


def test_a_raised_generation_starts_over() -> None:
    marks = judge({}, [pg(0, 40 * GB, 100)], generation=0).marks
    marks = judge(marks, [pg(10, GB, 200)], generation=0).marks
    freed = judge(marks, [pg(10, GB, 200), pg(20, 2 * GB, 300)], generation=1)
    assert freed.parked == {} and freed.marks[0].generation == 1 and freed.marks[0].restarted_at is None


def test_an_object_of_an_earlier_generation_is_not_judged_and_changes_no_watch() -> None:
    marks = judge({}, [pg(10, GB, 200)], generation=1).marks
    watch = watched(KafkaWatch(marks), [pg(0, 40 * GB, 100), pg(20, 2 * GB, 300)], CONFIG)
    assert (watch.watch, watch.parked) == (KafkaWatch(marks), {})


def test_a_single_kafka_partition_is_distinguished_from_none_and_several() -> None:
    one, both = [pg(0, GB, 100, partition=3)], [pg(0, GB, 100, partition=3), pg(0, GB, 100, partition=4)]
    watches = [watched(KafkaWatch(), seen, CONFIG).watch for seen in ([], one, both)]
    assert [only_partition(watch, generation=CONFIG.generation) for watch in watches] == [None, 3, None]
    assert only_partition(watches[1], generation=CONFIG.generation + 1) is None, "a generation that has just begun"


def test_objects_after_a_log_restart_are_recognized_before_reading() -> None:
    marks = judge({}, [pg(0, 40 * GB, 100), pg(10, GB, 200)], generation=0).marks
    places = [(0, 10), (0, 20), (0, 9), (1, 20), (None, 20), (0, None)]
    expected = [True, True, False, False, False, False]
    assert [began_again(marks, partition, offset, generation=0) for partition, offset in places] == expected
    assert not began_again(marks, 0, 20, generation=1)


@pytest.mark.parametrize(
    ("what", "second"),
    [
        ("a snapshot that is read again stands where the log is by then", pg(10, 41 * GB, 300)),
        ("a replay has no later source time", pg(10, GB, 100)),
        ("late objects have lower offsets", pg(0, GB, 300, last=5)),
        ("a key that is written again, longer, begins where it began", pg(0, GB, 300, last=30)),
        ("a transaction that began a while ago commits late", pg(10, 40 * GB - GB // 2, 300)),
        ("without a source time a replay looks the same", pg(10, GB, None)),
        ("a name without an offset tells no order", pg(10, GB, 300, partition=None)),
    ],
)
def test_what_is_no_restart_goes_on(what: str, second: SeenObject) -> None:
    assert parked([pg(0, 40 * GB, 100)], [second]) == []


def test_a_long_transaction_over_several_objects_is_no_restart() -> None:
    assert parked([pg(0, 40 * GB, 100)], [pg(10, 30 * GB, 200), pg(20, 35 * GB, 200), pg(30, 41 * GB, 210)]) == []


@pytest.mark.parametrize(
    ("high", "low", "far"),
    [
        (40 * GB, 39 * GB, True),
        (40 * GB, 39 * GB + 1, False),
        (GB, GB // 2, True),
        (GB, GB // 2 + 1, False),
        (20 * 1024**2, 1, True),
        (10 * 1024**2, 1, False),
    ],
)
def test_how_far_is_by_far_in_postgresql(high: int, low: int, far: bool) -> None:
    assert bool(parked([pg(0, high, 100)], [pg(10, low, 200)])) == far


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (mysql(10, "mysql-bin.000001", 200), "its changes are later"),
        (mysql(10, "binlog.000125", 200), "the binlog is called 'binlog' and was 'mysql-bin'"),
        (mysql(10, "mysql-bin.000125", 200, servers=("9",)), "of server 9 and were of 1"),
        (mysql(10, "mysql-bin.000125", 200, servers=("1", "9")), None),
        (mysql(10, "mysql-bin.000125", 200), None),
        (mysql(10, "mysql-bin.000124", 50), None),
    ],
)
def test_binlogs_fall_by_their_number_and_change_by_their_name_and_server(second: SeenObject, why: str | None) -> None:
    marks = judge({}, [mysql(0, "mysql-bin.000125", 100, servers=("1",))], generation=0).marks
    reasons = list(judge(marks, [second], generation=0).parked.values())
    assert (why is None) == (not reasons)
    described = ("raise the table's `generation`", "sluice config push", "sluice quarantine discard")
    assert all(why in reason and all(step in reason for step in described) for reason in reasons if why)


@pytest.mark.parametrize(
    ("kind", "high", "low", "restarts"),
    [
        (SQLSERVER, ("0000012a:00000010:0003", None, 1), ("0000002a:00000010:0003", None, 1), True),
        (SQLSERVER, ("0000012a:00000010:0003", None, 1), ("0000012a:00000004:0003", None, 1), False),
        (ORACLE, (900_000, 900_000, None, 0), (700_000, 700_000, None, 0), True),
        (ORACLE, (900_000, 900_000, None, 0), (899_000, 899_000, None, 0), False),
        (MONGODB, (900_000, 1), (1, 1), False),
        (OFFSET_ONLY, (), (), False),
    ],
)
def test_every_source_has_its_own_measure(kind: str, high: Any, low: Any, restarts: bool) -> None:
    def at(first: int, components: Any, time: int) -> SeenObject:
        return SeenObject(f"o{first}", "k", 0, first, first, kind, encode(0, kind, components, first), time)

    assert bool(parked([at(0, high, 100)], [at(10, low, 200)])) == restarts
    assert (log_place(kind, encode(0, kind, high, 1)) is None) == (kind in (MONGODB, OFFSET_ONLY))


def test_an_unknown_partition_is_compared_with_the_one_that_restarted() -> None:
    later = [pg(10, GB, 300), pg(0, GB, 310, partition=1), pg(0, 39 * GB, 90, partition=2)]
    assert parked([pg(0, 40 * GB, 100)], later) == ["o0-10", "o1-0"]


def plain(first: int) -> SeenObject:
    return SeenObject(f"o{first}", "k", 0, first, first + 9, OFFSET_ONLY, encode(0, OFFSET_ONLY, (), first + 9))


def test_another_kind_of_position_goes_on_where_what_is_written_later_is_higher() -> None:
    judged = judge(judge({}, [plain(0)], generation=0).marks, [pg(10, 40 * GB, 100)], generation=0)
    assert judged.marks[0].kind == POSTGRES and not judged.parked
    assert not judge(judged.marks, [plain(5)], generation=0).parked  # it comes late, and is older


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        # as the advice for incomplete positions has it
        (plain(5_000), mysql(6_000, "b.000003", 100), "are MySQL's and were the Kafka offset alone"),
        (pg(0, 40 * GB, 100), plain(10), "are the Kafka offset alone and were PostgreSQL's"),
        (mysql(0, "b.000003", 100), replace(plain(10), highest=encode(0, OFFSET_ONLY, (), 2)), "were MySQL's"),
    ],
)
def test_positions_of_another_kind_that_lose_to_all_stored_wait_for_a_generation(
    before: SeenObject, after: SeenObject, why: str
) -> None:
    marks = judge({}, [before], generation=0).marks
    (reason,) = judge(marks, [after], generation=0).parked.values()
    assert why in reason and "raise the table's `generation`" in reason
    assert not judge(marks, [after], generation=1).parked


def test_only_what_the_sources_log_orders_is_judged() -> None:
    before = watched(KafkaWatch(), [pg(0, 40 * GB, 100)], CONFIG).watch
    again = KafkaWatch.from_dict(before.to_dict())
    assert again == before
    assert list(watched(again, [pg(10, GB, 200)], CONFIG).parked) == ["o0-10"]
    for config in (replace(CONFIG, position="last_update"), replace(CONFIG, append_only=True)):
        assert watched(again, [pg(10, GB, 200)], config).parked == {}


def test_partitions_beyond_the_limit_are_forgotten_oldest_first_unless_one_waits() -> None:
    """Anybody who may write objects can name any partition; an item that grew too large could never be settled, and
    would stop its whole lane.
    """
    long = tuple(f"{n:x}" * 200 for n in range(16))
    marks = {n: Mark(0, 9, MYSQL, "0" * 48, n, long, restarted_at=7 if n == 3 else None) for n in range(300)}
    watch = watched(KafkaWatch(marks), [], CONFIG).watch
    assert len(json.dumps(watch.to_dict())) < MOST_CHARACTERS * 1.01 and len(marks) > len(watch.marks) > 50
    assert 3 in watch.marks and 299 in watch.marks and not {0, 1, 2} & set(watch.marks)
    few = {n: mark for n, mark in marks.items() if n < 10}
    assert watched(KafkaWatch(few), [], CONFIG).watch.marks == few


def test_a_log_that_goes_on_after_a_fall_is_one_of_several_in_its_partition() -> None:
    marks: dict[int, Mark] = {}
    came = [pg(0, 50 * GB, 100), pg(10, 2 * GB, 105), pg(20, 50 * GB + 1000, 110), pg(30, 2 * GB + 1000, 115)]
    collected = []
    for item in came:
        judged = judge(marks, [item], generation=0)
        marks = {partition: Mark.from_dict(mark.to_dict()) for partition, mark in judged.marks.items()}
        collected.append((sorted(judged.parked), has_several_logs(marks, 0, generation=0)))
    assert collected == [([], False), (["o0-10"], False), ([], True), ([], True)]
    assert not has_several_logs(marks, 0, generation=1) and not has_several_logs(marks, 1, generation=0)
    assert judge(marks, [came[1]], generation=0).parked == {}


@pytest.mark.parametrize(
    "after",
    [
        [pg(20, 20 * GB, 110), pg(30, 40 * GB - 5, 120), pg(40, 40 * GB + 1, 130)],  # it grew past the old one by steps
        [pg(20, 49 * GB, 110)],  # the old log would have grown by 9 GiB without an object
        [pg(20, 40 * GB + 1, 100)],  # an object of before, under a new offset
    ],
    ids=["steps", "far above", "not later"],
)
def test_a_log_that_restarted_and_passes_its_old_end_stays_parked(after: list[SeenObject]) -> None:
    before = [pg(0, 40 * GB, 100)], [pg(10, 2 * GB, 105)]
    assert parked(*before, *([item] for item in after)) == ["o0-10", *(f"o0-{item.first}" for item in after)]


def test_a_log_that_climbs_within_one_batch_stays_parked() -> None:
    climb = [pg(20 + 10 * at, at * GB // 2, 110 + at) for at in range(5, 90)]
    assert len(parked([pg(0, 40 * GB, 100)], [pg(10, 2 * GB, 105)], climb)) == 1 + len(climb)


def test_what_lost_its_positions_meanwhile_is_not_freed_by_the_log_that_goes_on() -> None:
    offsets = SeenObject("o10", "k", 0, 10, 19, OFFSET_ONLY, encode(0, OFFSET_ONLY, (), 19), 105)
    for between in ([offsets], [pg(10, 2 * GB, 104), replace(offsets, object="o30", first=30, last=39)]):
        marks = judge({}, [pg(0, 40 * GB, 100)], generation=0).marks
        for item in [*between, pg(50, 40 * GB + 1000, 110)]:
            judged = judge(marks, [item], generation=0)
            marks = judged.marks
        assert judged.parked and not has_several_logs(marks, 0, generation=0)


def test_a_restart_among_several_logs_frees_nothing() -> None:
    marks = {0: Mark(0, 29, POSTGRES, encode(0, POSTGRES, (40 * GB,), 29), 100, several=True)}
    other = SeenObject("o30", "k", 0, 30, 39, MYSQL, encode(0, OFFSET_ONLY, (), 39), 105)
    judged = judge(marks, [other], generation=0)
    assert judged.parked and not has_several_logs(judged.marks, 0, generation=0)


def test_a_mark_of_a_later_release_is_read() -> None:
    assert Mark.from_dict({**Mark(0, 1, POSTGRES, "0").to_dict(), "unheard": 1}) == Mark(0, 1, POSTGRES, "0")


MERGED = replace(CONFIG, merged=True)


def test_each_topic_of_a_table_has_kafka_partitions_of_its_own():
    """One log in two topics: offsets of one say nothing of those of the other, and a restart is one topic's."""
    own = [pg(first, 10 * GB + first, first, topic=MERGED.topic) for first in (0, 10)]
    other = [
        replace(pg(first, 9 * GB + first, 100 + first, topic="other"), object=f"other-{first}") for first in (500, 510)
    ]
    judged = watched(KafkaWatch(), [*own, *other], MERGED)
    assert not judged.parked and len(judged.watch.marks) == 2 and only_partition(judged.watch, generation=0) is None
    assert judged.watch.marks[0].offset == 19 and KafkaWatch.from_dict(judged.watch.to_dict()) == judged.watch
    fell = replace(pg(520, 16, 900, topic="other"), object="fell")
    judged = watched(judged.watch, [fell, pg(20, 10 * GB + 20, 900, topic=MERGED.topic)], MERGED)
    assert list(judged.parked) == ["fell"] and "Kafka partition 0 of another topic" in judged.parked["fell"]
    number = watched_partition(0, "other", MERGED.topic)
    assert began_again(judged.watch.marks, number, 530, generation=0)
    assert not began_again(judged.watch.marks, 0, 530, generation=0)


def test_offsets_of_two_topics_order_nothing_unless_the_key_names_the_source():
    seen = [replace(pg(0, 1, 1, topic=topic), object=topic, kind=OFFSET_ONLY) for topic in (MERGED.topic, "other")]
    refused = watched(KafkaWatch(), seen, MERGED).refused
    assert {name: error.code for name, error in refused.items()} == {"other": "two_topics"}
    assert not watched(KafkaWatch(), seen, replace(MERGED, record_key=("__db", "id"))).refused
