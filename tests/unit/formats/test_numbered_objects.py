"""Objects whose names have an offset and no Kafka partition: numbers that begin again park what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.builders import avro_object, change, flattened
from support.shapes import config, item, judged_in_turn, lines, seen_in

from sluice.batch.kafka_watch import Watched, only_partition, watched
from sluice.changes.log_restart import SeenObject
from sluice.config.table import TableConfig

PATTERN = r"(?P<topic>t)/[^/]+/(?P<offset>\d+)\.(?:json|avro)"
TABLE = config("id", key_pattern=PATTERN)
FIRST_DAY = [("t/05/0.json", 1), ("t/05/5.json", 2), ("t/05/7.json", 3)]


def seen(key: str, value: int, table: TableConfig = TABLE, *, lsn: int | None = None, at: int = 0) -> SeenObject:
    """An object as a read task sees it: of rows, or with an `lsn` of changes."""
    number = int(key.rpartition("/")[2].partition(".")[0])
    body = lines({"id": 1, "value": value})
    if lsn is not None:
        body = avro_object(flattened({"id": "int"}), [change(id=1, lsn=lsn, source_ts_ms=at)])
    one = replace(item("json" if lsn is None else "avro"), key=key, offset=number, kafka_partition=None)
    return seen_in(body, one, table)


def merged(*batches: list[SeenObject], table: TableConfig = TABLE) -> Watched:
    return judged_in_turn(batches, table)


def test_numbers_that_begin_again_park_all_that_follows_until_the_generation() -> None:
    before = [seen(*one) for one in FIRST_DAY]
    again, next_one = seen("t/06/0.json", 4), seen("t/06/5.json", 5)
    assert sorted(merged(before, [again, next_one]).parked) == sorted((again.object, next_one.object))
    result = merged(before, [again], [next_one])
    assert list(result.parked) == [next_one.object] and "`generation`" in result.parked[next_one.object]
    raised = replace(TABLE, generation=1)
    assert not watched(result.watch, [seen("t/06/0.json", 4, raised), seen("t/06/5.json", 5, raised)], raised).parked


@pytest.mark.parametrize(
    "batches",
    [
        [FIRST_DAY, [("t/05/8.json", 4)], [("t/05/6.json", 9)]],  # a late one
        [FIRST_DAY, [("t/05/0.json", 9)]],  # written again under its key
        [FIRST_DAY, [("t/06/0.json", 1)]],  # copied
        [[*FIRST_DAY, ("t/06/0.json", 9)]],  # beside the others: of another partition, for all that is known
        [FIRST_DAY, [("t/04/3.json", 9)]],
    ],
)
def test_numbers_that_do_not_begin_again_go_on(batches: list[list[tuple[str, int]]]) -> None:
    result = merged(*([seen(*one) for one in batch] for batch in batches))
    assert not result.parked and not result.refused
    assert only_partition(result.watch, generation=0) is None


@pytest.mark.parametrize("settings", [{"append_only": True}, {"merged": True}])
def test_numbers_of_a_table_without_one_order_are_not_judged(settings: dict[str, Any]) -> None:
    keys = () if "append_only" in settings else ("id",)
    table = config(*keys, key_pattern=PATTERN, **settings)
    batches = [[seen(*one, table) for one in FIRST_DAY], [seen("t/06/0.json", 4, table)]]
    assert not merged(*batches, table=table).parked and not merged(*batches, table=table).refused


def test_numbered_objects_of_a_log_that_restarted_are_parked() -> None:
    before = [seen("t/05/5.avro", 0, lsn=10 * 2**30, at=1_000)]
    after = seen("t/05/6.avro", 0, lsn=2**20, at=2_000)
    assert list(merged(before, [after]).parked) == [after.object]


def test_offsets_of_the_records_themselves_tell_a_topic_that_was_made_again() -> None:
    table = config("id", coordinates=("p", "o"))

    def of_records(key: str, *offsets: int, partition: int = 3, value: int = 0) -> SeenObject:
        body = lines(*({"id": 1, "p": partition, "o": offset, "value": value} for offset in offsets))
        return seen_in(body, replace(item("json"), key=key, offset=None, kafka_partition=None), table)

    first = of_records("a", 7, 8, 9)
    assert (first.partition, first.first, first.last) == (3, 7, 9)
    signs = merged([first], [of_records("b", 10)], table=table).signs
    assert signs is not None and not signs.anew and signs.all_follow
    signs = merged([first], [of_records("b", 7, 8, value=1)], table=table).signs
    assert signs is not None and signs.anew
    signs = merged([first], [of_records("b", 7, partition=4, value=1)], table=table).signs
    assert signs is not None and not signs.anew
    unsorted = of_records("a", 9, 7, 8)
    assert (unsorted.first, unsorted.sample) == (7, None)
    signs = merged([unsorted], [of_records("b", 7, 8, 9)], table=table).signs
    assert signs is not None and not signs.anew


def test_records_of_several_logs_with_their_own_offsets_are_not_judged() -> None:
    table = config("id", coordinates=("p", "o"), merged=True)

    def of_log(key: str, offset: int, lsn: int, at: int) -> SeenObject:
        schema = flattened({"id": "int", "p": "int", "o": "long"})
        body = avro_object(schema, [change(id=1, p=0, o=offset, lsn=lsn, source_ts_ms=at)])
        return seen_in(body, replace(item("avro"), key=key, offset=None, kafka_partition=None), table)

    assert not merged([of_log("a", 1, 10 * 2**30, 1_000)], [of_log("b", 2, 2**20, 2_000)], table=table).parked
