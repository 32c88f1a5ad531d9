"""Measures the time from the return of PutObject to the row in a newly opened hudi-rs read.

python -m sluice_bench.pipeline.latency lingering|idle [--changes 20] [--scale 0.05] [--table listing] [--table-type T]
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES
from sluice_bench.data.tickit import Dataset, change_object, write_snapshot
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure import ledger_times
from sluice_bench.measure.driver_log import batch_profile
from sluice_bench.measure.percentiles import rounded_summary
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack, table_rules
from sluice_read.reading import open_table

LINGERING, IDLE = "lingering", "idle"
CAVEATS = (
    ("Freshness and the queue's batching window are 0. A deployment's defaults, 60 s and 2 s, trade latency for cost."),
    (
        "The table's timeline is listed every 20 ms, and the table opened and read when it has another commit: "
        "a reader that never stops takes most of a core from what is measured."
    ),
)
# One column per table, which a change sets to a unique value.
TEXT_COLUMN = {"user": "city", "venue": "venuename", "event": "eventname", "category": "catdesc"}
NUMBER_COLUMN = {"listing": "numtickets", "sale": "qtysold", "date": "week"}
LANE = "main"
TIMEOUT_S = 120.0
IDLE_LINGER = "1s"  # to be idle soon; the linger doesn't change the next start
LONG_LINGER = "10m"


@dataclass(frozen=True)
class Changed:
    """One measured change. Times are epoch seconds."""

    put_at: float
    readable_at: float
    read_s: float
    reads: int
    stages: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """From the return of the put to the end of the read with the row."""
        return self.readable_at - self.put_at


class Commits:
    """The completed commits of a table's timeline."""

    def __init__(self, s3: Any, bucket: str, folder: str) -> None:
        self._list = partial(s3.list_objects_v2, Bucket=bucket, Prefix=folder)
        self._newest = folder

    def has_more(self) -> bool:
        """Whether there is a commit that was not there at the last call."""
        keys = [item["Key"] for item in self._list(StartAfter=self._newest).get("Contents", ())]
        commits = [key for key in keys if key.endswith((".commit", ".deltacommit", ".replacecommit"))]
        self._newest = max(commits, default=self._newest)
        return bool(commits)


def measure(stack: RunningStack, dataset: Dataset, database: str, table: str, number: int, change: int) -> Changed:
    """Put an update of one row, and read the table until it is there. Raises TimeoutError."""
    column = TEXT_COLUMN.get(table) or NUMBER_COLUMN[table]
    value: Any = f"changed {change}" if table in TEXT_COLUMN else 10_000 + change
    key, body = change_object(dataset, table, number, change=change, ts_ms=int(time.time() * 1000), **{column: value})
    target, source = stack.target, SOURCES[table]
    timeline = Commits(target.client("s3"), target.silver, f"{database}/{table}/.hoodie/")
    timeline.has_more()
    version = target.client("s3").put_object(Bucket=target.bronze, Key=key, Body=body).get("VersionId", "null")
    put_at = time.time()
    reads: list[float] = []

    def readable() -> bool:
        if not timeline.has_more():
            return False
        started = time.perf_counter()
        opened = open_table(target, f"{database}.{table}")
        rows_there = any(
            number in batch.column(source.key).to_pylist() and _holds(batch, source.key, number, column, value)
            for batch in opened.batches()
        )
        reads.append(time.perf_counter() - started)
        return rows_there

    ledger_times.await_until(readable, timeout_s=TIMEOUT_S, what=f"change {change}")
    readable_at = time.time()
    return Changed(
        put_at,
        readable_at,
        reads[-1],
        len(reads),
        _stages(stack, key, version, f"{database}.{table}", put_at, readable_at),
    )


def _holds(batch: Any, key: str, number: int, column: str, value: Any) -> bool:
    position = batch.column(key).to_pylist().index(number)
    return batch.column(column)[position].as_py() == value


def _stages(
    stack: RunningStack, key: str, version: str, table: str, put_at: float, readable_at: float
) -> dict[str, float]:
    """Seconds between the moments in the ledger and the driver's log."""
    target = stack.target
    dynamodb = target.client("dynamodb")

    def closed() -> tuple[dict, dict] | None:
        """The object's item and its batch's items, once the whole batch is committed."""
        item = ledger_times.object_item(dynamodb, target.ledger_table, target.bronze, key, version)
        if not item or item.get("state") != "committed":
            return None
        items_by_sk = {
            str(item_read["sk"]): item_read
            for item_read in ledger_times.batch_items(dynamodb, target.ledger_table)
            if item_read["pk"] == f"batch#{item['batch']}"
        }
        return (item, items_by_sk) if items_by_sk["batch"].get("state") == "committed" else None

    item, parts = ledger_times.await_until(closed, timeout_s=TIMEOUT_S, what="the batch's settling")
    moments = [
        ("noticed", _seconds(item.get("noticed_at"))),
        ("admitted", _seconds(item.get("admitted_at"))),
        ("claimed", _seconds(parts["batch"].get("claimed_at"))),
        ("committed", _seconds(parts[f"table#{table}"].get("committed_at"))),
        ("readable", readable_at),
    ]
    stages, before = {}, put_at
    for name, at in moments:
        if at is not None:
            stages[f"to_{name}_s"] = round(at - before, 3)
            before = at
    return {**stages, **batch_profile(stack.home, str(item["batch"]), table)}


def _seconds(milliseconds: Any) -> float | None:
    return None if milliseconds is None else int(milliseconds) / 1000


def _until_idle(stack: RunningStack) -> None:
    target = stack.target
    dynamodb = target.client("dynamodb")
    ledger_times.await_until(
        lambda: ledger_times.lane_item(dynamodb, target.ledger_table, LANE).get("state") == "idle",
        timeout_s=TIMEOUT_S,
        what="the lane's release",
    )


def run(mode: str, changes: int, scale: float, table: str, table_type: str) -> list[Changed]:
    """Load the tables, make an uncounted first change, then measure `changes` changes one after the other."""
    database = f"latency{secrets.token_hex(3)}"
    dataset = Dataset(Sizes.scaled(scale), prefix=f"{database}.")
    with bench_stack() as stack, tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        linger = LONG_LINGER if mode == LINGERING else IDLE_LINGER
        stack.configure(table_rules(dataset.prefix, database, table_type), lanes={LANE: {"linger": linger}})
        write_snapshot(Path(scratch), dataset)
        for file in sorted(path for path in Path(scratch).rglob("*.avro")):
            stack.put(str(file.relative_to(scratch)), file)
        stack.wait(600.0)
        measured = []
        for change in range(1, changes + 2):
            if mode == IDLE:
                _until_idle(stack)
            latency = measure(stack, dataset, database, table, 1 + change % dataset.sizes.by_table()[table], change)
            print(f"{mode} {change - 1}/{changes}: {latency.seconds:.2f} s (local) {dict(latency.stages)}", flush=True)
            if change > 1:
                measured.append(latency)
    return measured


def main() -> None:
    """Measure, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=(LINGERING, IDLE))
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--table", choices=sorted(SOURCES), default="listing")
    parser.add_argument("--table-type", choices=("cow", "mor"), default="cow")
    given = parser.parse_args()
    measured = run(given.mode, given.changes, given.scale, given.table, given.table_type)
    results: dict[str, object] = {
        "seconds": rounded_summary([one.seconds for one in measured]),
        "read_s": rounded_summary([one.read_s for one in measured]),
    }
    for stage in sorted({name for one in measured for name in one.stages}):
        results[stage] = rounded_summary([one.stages[stage] for one in measured if stage in one.stages])
    values = [
        {
            "seconds": round(one.seconds, 3),
            "put_at": one.put_at,
            "read_s": round(one.read_s, 3),
            "reads": one.reads,
            **one.stages,
        }
        for one in measured
    ]
    file = keep(f"latency-{given.mode}", parameters=vars(given), caveats=CAVEATS, values=values, summary=results)
    say(f"Latency, {given.mode}", CAVEATS, results, file)


if __name__ == "__main__":
    main()
