"""Measures the time to readable while table services run without a pause, and checks every row afterwards.

    python -m sluice_bench.pipeline.latency_served [--changes 30] [--scale 0.5] [--background 500]

Seven merge-on-read tables share one lane, with compaction and cleaning after every commit. Before each measured
change to `listing`, an object with many changes goes into `sale`, so that there is always something to compact.
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES, object_bytes, object_key, record
from sluice_bench.data.tickit import Dataset, write_snapshot
from sluice_bench.data.tickit_rows import Sizes, row
from sluice_bench.measure import ledger_times
from sluice_bench.measure.driver_log import events
from sluice_bench.measure.percentiles import rounded_summary
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack, table_rules
from sluice_bench.pipeline.latency import LANE, LONG_LINGER, TIMEOUT_S, Changed, measure
from sluice_read.reading import read_table

CAVEATS = (
    (
        "Freshness and the queue's batching window are 0, and services are requested after every commit, far more"
        " often than by the default policy."
    ),
    "Changes whose wait overlaps no slice of a service are included. The number that overlap one is given.",
)
MEASURED, BUSY = "listing", "sale"
SERVICES = {
    "interval": 0,
    "compaction": {"commits": 1},
    "cleaning": {"commits": 1},
    "clustering": "off",
    "archival": {"commits": 1},
    "purge": "off",
}
BEGAN, ENDED = "service_began", frozenset({"service_slice_done", "service_done", "service_failed"})


@dataclass(frozen=True)
class Slice:
    """A slice of a service. Times are epoch seconds."""

    table: str
    service: str
    began: float
    ended: float
    failed: bool


def slices(home: Path) -> list[Slice]:
    """Every slice in the drivers' logs."""
    slices_read, open_slice = [], None
    for event in events(home):
        if event["event"] == BEGAN:
            open_slice = event
        elif event["event"] in ENDED and open_slice is not None:
            slices_read.append(
                Slice(
                    open_slice["table"],
                    open_slice["service"],
                    open_slice["at"] / 1000,
                    event["at"] / 1000,
                    event["event"] == "service_failed",
                )
            )
            open_slice = None
    return slices_read


def busy_object(dataset: Dataset, change: int, rows: int) -> tuple[str, bytes, Mapping[int, int]]:
    """An object that updates `rows` rows of the busy table: key, bytes, and each row's value."""
    size = dataset.sizes.by_table()[BUSY]
    numbers = [1 + (change * rows + n) * 7_919 % size for n in range(rows)]  # a prime step: spread over the table
    values = dict.fromkeys(numbers, 20_000 + change)
    first = (change - 1) * rows
    made = [
        record(
            BUSY,
            row(BUSY, number, seed=dataset.seed, sizes=dataset.sizes) | {"qtysold": values[number]},
            op="u",
            change=first + n + 1,
            ts_ms=int(time.time() * 1000),
        )
        for n, number in enumerate(values)
    ]
    return object_key(BUSY, size + first, prefix=dataset.prefix), object_bytes(BUSY, made), values


def check(stack: RunningStack, database: str, table: str, rows: int, column: str, expected: Mapping[int, int]) -> None:
    """Raise AssertionError if a row is missing, duplicate, or not as of its last change."""
    key = SOURCES[table].key
    rows_read = read_table(stack.target, f"{database}.{table}").select([key, column]).to_pylist()
    by_key = {item[key]: item[column] for item in rows_read}
    wrong = {number: by_key.get(number) for number, value in expected.items() if by_key.get(number) != value}
    if len(rows_read) != rows or len(by_key) != rows or wrong:
        raise AssertionError(
            f"{table}: {len(rows_read)} rows with {len(by_key)} keys instead of {rows}; "
            f"wrong: {dict(list(wrong.items())[:5])}"
        )


def run(changes: int, scale: float, background: int) -> tuple[list[Changed], list[Slice]]:
    """Load the tables, measure `changes` changes while services run, and check every row of both tables."""
    database = f"served{secrets.token_hex(3)}"
    dataset = Dataset(Sizes.scaled(scale), prefix=f"{database}.")
    sizes = dataset.sizes.by_table()
    with bench_stack() as stack, tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        rules = [{**rule, "services": SERVICES} for rule in table_rules(dataset.prefix, database, "mor")]
        stack.configure(rules, lanes={LANE: {"linger": LONG_LINGER}})
        write_snapshot(Path(scratch), dataset)
        for file in sorted(path for path in Path(scratch).rglob("*.avro")):
            stack.put(str(file.relative_to(scratch)), file)
        stack.wait(600.0)
        ledger_times.await_until(lambda: slices(stack.home), timeout_s=TIMEOUT_S, what="the first slice of a service")
        measured: list[Changed] = []
        busy: dict[int, int] = {}
        for change in range(1, changes + 2):
            key, body, values = busy_object(dataset, change, background)
            stack.put(key, body)
            busy |= values
            latency = measure(stack, dataset, database, MEASURED, 1 + change % sizes[MEASURED], change)
            print(f"{change - 1}/{changes}: {latency.seconds:.2f} s (local) {dict(latency.stages)}", flush=True)
            if change > 1:
                measured.append(latency)
        stack.wait(600.0)
        check(
            stack,
            database,
            MEASURED,
            sizes[MEASURED],
            "numtickets",
            {1 + change % sizes[MEASURED]: 10_000 + change for change in range(1, changes + 2)},
        )
        check(stack, database, BUSY, sizes[BUSY], "qtysold", busy)
        return measured, [one for one in slices(stack.home) if one.table.startswith(f"{database}.")]


def overlapping(measured: Sequence[Changed], served: Sequence[Slice]) -> int:
    """How many changes waited while a slice ran."""
    return sum(
        any(one.began < change.readable_at and one.ended > change.put_at for one in served) for change in measured
    )


def main() -> None:
    """Measure, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument(
        "--background", type=int, default=500, help="changed rows in the object before each measured change"
    )
    given = parser.parse_args()
    measured, served = run(given.changes, given.scale, given.background)
    results: dict[str, Any] = {"seconds": rounded_summary([one.seconds for one in measured])}
    for service in sorted({one.service for one in served}):
        results[f"slices of {service}, s"] = rounded_summary(
            [one.ended - one.began for one in served if one.service == service]
        )
    results |= {
        "changes that overlap a slice": overlapping(measured, served),
        "slices that failed": sum(one.failed for one in served),
    }
    values = {
        "changes": [{"put_at": one.put_at, "readable_at": one.readable_at, **one.stages} for one in measured],
        "slices": [vars(one) for one in served],
    }
    file = keep("latency-served", parameters=vars(given), caveats=CAVEATS, values=values, summary=results)
    say("Latency while table services run", CAVEATS, results, file)


if __name__ == "__main__":
    main()
