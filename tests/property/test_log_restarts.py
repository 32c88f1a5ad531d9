"""However a log is cut, repeated, delayed and batched, no object is parked. After a restart no new object is merged."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.changes.log_restart import Mark, SeenObject, judge
from sluice.changes.position import POSTGRES, encode

MIB = 1024**2
START, RESTART = 20 * 1024 * MIB, 30 * MIB
DEEP = 400 * MIB  # how far back in the log a transaction reaches


def objects_of(draw: random.Random, changes: list[tuple[int, int]], first: int) -> list[SeenObject]:
    """Changes (LSN, source time) in the order in which they were written to Kafka from an offset on, cut into objects
    with gaps between offsets.
    """
    made, offset = [], first
    while changes:
        size = draw.randint(1, 5)
        taken, changes = changes[:size], changes[size:]
        last = offset + len(taken) - 1
        highest = max(encode(0, POSTGRES, (lsn,), offset) for lsn, _ in taken)
        made.append(SeenObject(f"o{offset}", "k", 0, offset, last, POSTGRES, highest, max(at for _, at in taken)))
        offset = last + 1 + draw.choice((0, 0, 3))
    return made


def log(draw: random.Random, begin: int, time: int, most: int) -> list[tuple[int, int]]:
    """A log's changes in the order of their commits: LSNs rise but for what long transactions bring, and the connector
    sends some again.
    """
    changes: list[tuple[int, int]] = []
    lsn = begin
    for _ in range(draw.randint(1, most)):
        lsn += draw.randint(0, 300 * MIB) if begin == START else draw.randint(0, MIB)
        time += draw.choice((0, 1, 50))
        changes.append((max(begin, lsn - draw.choice((0, 0, DEEP if begin == START else 0))), time))
        if draw.random() < 0.2:
            changes += changes[-draw.randint(1, len(changes)) :]
    return changes


def parked(batches: list[list[SeenObject]]) -> set[str]:
    marks: dict[int, Mark] = {}
    keys: set[str] = set()
    for batch in batches:
        judged = judge(marks, batch, generation=0)
        marks, keys = dict(judged.marks), keys | set(judged.parked)
    return keys


def cut(draw: random.Random, objects: list[SeenObject]) -> list[list[SeenObject]]:
    batches, rest = [], list(objects)
    while rest:
        size = draw.randint(1, 4)
        batches.append(rest[:size])
        rest = rest[size:]
    return batches


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_without_a_restart_nothing_is_parked_in_any_order(seed: int) -> None:
    draw = random.Random(seed)
    objects = objects_of(draw, log(draw, START, 1_000, 25), 100)
    objects += draw.sample(objects, draw.randint(0, len(objects)))
    draw.shuffle(objects)
    assert parked(cut(draw, objects)) == set()


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_after_a_restart_what_is_new_is_parked_and_what_is_old_never(seed: int) -> None:
    draw = random.Random(seed)
    old = objects_of(draw, log(draw, START, 1_000, 15), 100)
    new = objects_of(draw, log(draw, RESTART, 1_000_000, 15), 10_000)
    late = draw.sample(old[1:], draw.randint(0, len(old) - 1))  # some of the old ones come late, among the new
    mixed = new + late
    draw.shuffle(mixed)
    batches = cut(draw, [item for item in old if item not in late]) + cut(draw, mixed)
    assert parked(batches) == {item.object for item in new}
