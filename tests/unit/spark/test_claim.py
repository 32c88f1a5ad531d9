"""What a look at the lane reads of long backlogs: what the batch can take, and of what can't be claimed only that it is
there.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sluice.batch.claim import TableState, still_wanted
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.ledger import keys as items
from sluice_aws.ledger.pending import PendingLedger
from sluice_spark.run.claim import SETTLING, Claimed, ClaimStep, NothingClaimable
from sluice_spark.run.step import unknown_time

LANE, BATCH = "main", 800
OF_A_TABLE = 300  # read of it at the first look, at most


class CountingTable:
    """Pending items by partition, in sort order, and how many of them were read; every read must be strongly
    consistent, which `query` alone is.
    """

    def __init__(self, backlog: dict[str, int]) -> None:
        self.read = 0
        numbers = random.Random(7)
        stored: dict[str, list[tuple[str, dict]]] = {}
        for table, count in backlog.items():
            for number in range(count):
                admitted_at, shard, name = 1_000 + number, numbers.randrange(items.SHARDS), f"{number:08x}"
                item = {"bucket": "b", "key": f"{table}/{number}", "version": "v", "table": table, "size": 1}
                item |= {"admitted_at": admitted_at, "topic": table, "format": "avro"}
                entry = f"{items.of_table(table)}{admitted_at:013d}#{name}", item
                stored.setdefault(items.pending_partition(LANE, shard), []).append(entry)
        self._stored = {partition: sorted(listed, key=lambda entry: entry[0]) for partition, listed in stored.items()}
        self._keys = {partition: [sk for sk, _ in listed] for partition, listed in self._stored.items()}

    def map(self, function, arguments):
        return [function(argument) for argument in arguments]

    def query(self, pk, *, after=None, prefix=None, limit=None, fields=()):
        keys = self._keys.get(pk, [])
        begin = bisect_right(keys, after) if after is not None else bisect_left(keys, prefix)
        end = len(keys) if prefix is None else bisect_left(keys, prefix + "\uffff")
        while True:
            page = [item for _, item in self._stored.get(pk, [])[begin : min(end, begin + limit)]]
            self.read += len(page)
            yield page
            begin += limit
            if begin >= end:
                return


class InPlace:
    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done


RULE = TableRule(table="shop.{1}", record_key=("id",), topic="shop.*")


def taken(backlog, states=(), now_ms=10_000_000, rule=RULE, arrival=unknown_time):
    """What one look takes of a backlog, and how many items it read."""
    configuration = Configuration((rule,), (LaneConfig(LANE, batch_objects=BATCH),))
    counting = CountingTable(backlog)
    of_table = {state.table: state for state in states}
    ledger = SimpleNamespace(
        pending=PendingLedger(counting),
        tables=SimpleNamespace(
            get_many=lambda tables: {table: of_table.get(table, TableState(table)) for table in tables}
        ),
        batches=SimpleNamespace(open=lambda *_: True, claim=lambda manifest: [item.id for item in manifest.objects]),
    )
    ports = SimpleNamespace(
        ledger=ledger,
        manifests=SimpleNamespace(put_manifest=lambda manifest, still_held: "key"),
        merger=None,
        clock=SimpleNamespace(now_ms=lambda: now_ms),
        log=SimpleNamespace(event=lambda *_, **__: None),
        background=InPlace(),
        arrival=arrival,
    )
    hold = SimpleNamespace(identity=SimpleNamespace(lane=LANE, run="r", job_run_id="j"), still_held=lambda: True)
    in_force = SimpleNamespace(refresh=lambda: configuration, current=configuration, outgrown=False)
    step = ClaimStep(ports, hold, in_force)
    return step.take(frozenset()), counting.read


def test_a_new_table_waits_for_its_objects_and_keeps_the_run_meanwhile():
    settled = 1_002 + SETTLING.quiet_ms  # the third object came at 1,002
    nothing, _ = taken({"shop.a": 3}, now_ms=settled - 1)
    assert nothing == NothingClaimable(settled, settled)
    claimed, _ = taken({"shop.a": 3}, now_ms=settled)
    assert by_table(claimed) == {"shop.a": 3}


def by_table(claimed):
    return {table: len(part.objects) for table, part in claimed.manifest.tables.items()}


@pytest.mark.parametrize(
    ("backlog", "expected", "reads"),
    [
        ({"shop.a": 3, "shop.b": 4}, {"shop.a": 3, "shop.b": 4}, 7),
        ({"shop.a": 3_000}, {"shop.a": BATCH}, OF_A_TABLE + 1.6 * BATCH),
        (
            {f"shop.t{number}": 1_000 for number in range(4)},
            {f"shop.t{number}": 200 for number in range(4)},
            4 * OF_A_TABLE + 2.5 * BATCH,
        ),
        (
            {"shop.a": 2_000, "shop.b": 110, "shop.c": 5},
            {"shop.a": BATCH - 115, "shop.b": 110, "shop.c": 5},
            2 * OF_A_TABLE + 3 * BATCH,
        ),
    ],
    ids=["small", "one long", "four long", "long and short"],
)
@pytest.mark.long
def test_a_look_fills_its_batch_in_turns_and_reads_little_more_than_it_takes(backlog, expected, reads):
    claimed, read = taken(backlog)
    assert isinstance(claimed, Claimed) and by_table(claimed) == expected
    assert read <= reads
    part = claimed.manifest.tables.get("shop.a")
    oldest = sorted(item.admitted_at for item in part.objects) if part else []
    assert oldest == list(range(1_000, 1_000 + len(oldest)))  # the oldest, none left out in between


def test_a_look_reads_little_of_a_table_that_cannot_be_claimed():
    nothing, read = taken({"shop.a": 2_000}, (TableState("shop.a", blocked={"error": "x"}),))
    assert isinstance(nothing, NothingClaimable) and read <= OF_A_TABLE
    claimed, read = taken({"shop.a": 2_000, "shop.b": 10}, (TableState("shop.a", backoff_until=99_000_000),))
    assert by_table(claimed) == {"shop.b": 10} and read <= OF_A_TABLE + 10


def test_remaining_reads_fill_the_batch_shared_by_tables_that_have_more():
    assert still_wanted({"a": 200, "b": 7}, {"a": 200, "b": 200}, 5_000) == {"a": 200 + 4_793}
    assert still_wanted({"a": 200, "b": 200}, {"a": 200, "b": 200}, 1_001) == {"a": 501, "b": 501}
    for read, asked, most in (({"a": 3}, {"a": 200}, 5_000), ({"a": 200}, {"a": 200}, 200), ({}, {}, 5)):
        assert still_wanted(read, asked, most) == {}


def times(rule=RULE, **fields):
    """The times of four objects as they are claimed, each with its number as its key; `fields` of the last item."""

    class Backlog(CountingTable):
        def __init__(self, backlog):
            super().__init__(backlog)
            for listed in self._stored.values():
                for _, item in listed:
                    item.update(fields if item["key"].endswith("/3") else {})

    backlog = {"shop.a": 4}
    asked = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"{__name__}.CountingTable", Backlog)
        claimed, _ = taken(backlog, rule=rule, arrival=lambda id: asked.append(id.key) or 5_000)
    (part,) = claimed.manifest.tables.values()
    return sorted(asked), {item.key[-1]: item.modified_at for item in part.objects}


def test_a_claim_asks_for_the_times_that_admission_did_not_and_that_order_rows():
    others = [f"shop.a/{number}" for number in range(3)]
    alike = dict.fromkeys("012", 5_000)
    assert times() == ([*others, "shop.a/3"], {**alike, "3": 5_000})
    assert times(modified_at=7_000) == (others, {**alike, "3": 7_000})
    assert times(offset=7) == (others, {**alike, "3": None})
    # Its rows are stored without: what comes again must have the same positions.
    assert times(first_batch="b-1", replayed_at=8) == (others, {**alike, "3": None})
    assert times(merged=True) == (others, {**alike, "3": None})
    assert times(first_batch="b-1", replayed_at=8, modified_at=7_000) == (others, {**alike, "3": 7_000})
    assert times(replace(RULE, coordinates=("p", "o")))[0] == []
    assert times(replace(RULE, append_only=True, record_key=()))[0] == []
