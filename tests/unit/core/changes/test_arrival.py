"""Rows that only their objects order: by the name's own order, the time in S3, the key, and the place in the object."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sluice.changes.outdated import ChangePlace, suspicion
from sluice.changes.position import (
    AMONG_TIES,
    MYSQL,
    NUMBER,
    OFFSET_ONLY,
    POSTGRES,
    among_ties,
    encode,
    encode_arrival,
    generation_of,
    is_adopted,
    is_by_offset_alone,
    log_place,
    place_of_object,
    tie_of,
)
from sluice.config.key_pattern import KEY_PATTERN, named_by
from sluice_cli.trace.row import short_position

SECOND = 1_764_000_000_000


def at(key: str, time: int, number: int, order: str | None = None, generation: int = 0) -> str:
    return encode_arrival(generation, place_of_object(key, time, order), number)


def test_positions_sort_by_time_then_key_then_version_then_place() -> None:
    rising = [
        at("z", SECOND, 5),
        at("a", SECOND + 1_000, 7),
        at("a", SECOND + 1_000, 8),
        at("a", SECOND + 1_001, 0),  # the next version of the key in the same second
        at("a.csv", SECOND + 1_000, 0),
        at("é", SECOND + 1_000, 0),
        at("a", SECOND + 2_000, 0),
        at("a", 9_999_999_999_000, 0),
        at("a", SECOND, 0, generation=1),
    ]
    assert sorted(rising) == rising and len(set(rising)) == len(rising)


@pytest.mark.parametrize("order", [None, "042026"])
@pytest.mark.parametrize(("kind", "parts"), [(POSTGRES, (7,)), (MYSQL, ("b.000001", 4, 0)), (NUMBER, (7, 0))])
def test_changes_at_one_place_sort_as_their_objects_do(kind: str, parts: tuple[Any, ...], order: str | None) -> None:
    def tied(key: str, time: int, number: int, by_key: bool = True, parts: tuple[Any, ...] = parts) -> str:
        return among_ties(encode(0, kind, parts, number), tie_of(place_of_object(key, time, order), by_key=by_key))

    rising = [
        encode(0, kind, parts, 10**20 - 1),  # of an earlier release
        tied("z", SECOND, 5),
        tied("z", SECOND + 1_000, 9, by_key=False),
        tied("a", SECOND + 1_000, 7),
        tied("b", SECOND + 1_000, 0),
        tied("b", SECOND + 1_000, 1),
        tied("b", SECOND + 1_001, 0),
        encode(0, kind, (*parts[:-1], parts[-1] + 1), 0),
    ]
    assert sorted(rising) == rising and len(set(rising)) == len(rising)
    for position in rising[1:-1]:
        assert re.sub(AMONG_TIES, "", position[:-21]) == rising[0][:-21]
        assert short_position(position) == short_position(rising[0])


def test_they_are_above_every_other_kind() -> None:
    new = at("k", 0, 0)
    assert new > encode(0, OFFSET_ONLY, (), 10**20 - 1)
    assert new > encode(0, POSTGRES, (10**20 - 1,), 10**20 - 1)
    assert at("k", 0, 0, order="011") > at("k", 9_999_999_999_999, 99)  # names that begin to say the order
    assert not is_by_offset_alone(new) and not is_adopted(new)
    assert generation_of(at("k", SECOND, 0, generation=12)) == 12
    assert log_place(OFFSET_ONLY, new) is None


PATTERN = "drop/(?P<order>.*)[.]csv"


@pytest.mark.parametrize(
    "rising",
    [
        ["drop/2025-12-31.csv", "drop/2026-1-2.csv", "drop/2026-01-03.csv", "drop/2026-11-01.csv"],
        ["drop/9.csv", "drop/10.csv", "drop/0100.csv"],
        ["drop/2026/11/01.csv", "drop/2026/11/01 00:00.csv", "drop/2026/11/01T07:00:00Z.csv"],
        ["drop/year=2026/month=9/day=30.csv", "drop/year=2026/month=10/day=1.csv"],
        ["drop/20261101-134010000.csv", "drop/20261101-134010001.csv"],
    ],
)
def test_a_group_of_the_pattern_orders_objects_by_its_numbers(rising: list[str]) -> None:
    assert KEY_PATTERN.parse(PATTERN) == PATTERN
    names = [named_by(PATTERN, key) for key in rising]
    orders = [name.order for name in names if name is not None]
    assert len(orders) == len(rising)
    times = range(SECOND + 10_000, SECOND, -1_000)  # put in the opposite order
    positions = [at(key, time, 0, order) for key, time, order in zip(rising, times, orders)]
    assert all(before < after for before, after in zip(positions, positions[1:]))


@pytest.mark.parametrize("order", ["latest", "01-11-2026", "1.11.2026", "3 Nov 2026", "2026-11-01+02:00", "v2", ""])
def test_what_is_no_order_does_not_match(order: str) -> None:
    assert named_by(PATTERN, f"drop/{order}.csv") is None


def test_a_row_of_an_older_object_is_not_later_for_its_place_there() -> None:
    older, newer = (ChangePlace(at("k", time, number), 0, None) for time, number in ((SECOND, 9), (SECOND + 1_000, 2)))
    assert suspicion(older, newer) is None
