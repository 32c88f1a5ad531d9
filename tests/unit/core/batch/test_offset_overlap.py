"""Only objects of an append-only table with the same Kafka records under different keys are refused."""

from __future__ import annotations

import pytest

from sluice.batch.kafka_watch import RANGES_KEPT, KafkaWatch, overlapping
from sluice.changes.log_restart import SeenObject
from sluice.changes.position import OFFSET_ONLY


def seen(key: str, first: int, last: int, *, partition: int | None = 0, version: str = "v") -> SeenObject:
    return SeenObject(f"{key}@{version}", key, partition, first, last, OFFSET_ONLY, "x")


def refused(*batches: list[SeenObject]) -> list[str]:
    ranges, objects = (), []
    for batch in batches:
        ranges, errors = overlapping(KafkaWatch.from_dict(KafkaWatch(ranges=ranges).to_dict()).ranges, batch)
        assert all(error.code == "overlap" for error in errors.values())
        objects += list(errors)
    return objects


@pytest.mark.parametrize("apart", [False, True])
def test_records_under_two_keys_of_a_folder_cost_the_object_that_came_later(apart: bool) -> None:
    first, second = [seen("t/t+0+100", 100, 149)], [seen("t/t+0+130", 130, 160), seen("t/t+0+150", 150, 159)]
    assert refused(first, second) == ["t/t+0+130@v"] if apart else refused([*first, *second]) == ["t/t+0+130@v"]


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("the same key, written again and longer", seen("t/t+0+100", 100, 199, version="w")),
        ("the next one", seen("t/t+0+150", 150, 160)),
        ("another partition of Kafka", seen("t/t+1+120", 120, 130, partition=1)),
        ("another folder, into which a partitioner sorts records from among these", seen("u/t+0+120", 120, 130)),
        ("a name that tells no offset", seen("t/file", 0, 200, partition=None)),
    ],
)
def test_what_shares_no_record_goes_on(what: str, other: SeenObject) -> None:
    assert refused([seen("t/t+0+100", 100, 149)], [other]) == []


def test_as_many_ranges_are_kept_as_a_tables_item_bears() -> None:
    ranges, _ = overlapping((), [seen(f"t/t+0+{n}", n, n) for n in range(RANGES_KEPT + 50)])
    assert len(ranges) == RANGES_KEPT and ranges[-1].first == RANGES_KEPT + 49
