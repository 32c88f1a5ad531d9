"""Measures how ten thousand waiting objects of one change each are worked off, over seven tables.

The lane is paused until all of them are in the ledger. Spark's own Avro source then reads the same objects.

python -m sluice_bench.pipeline.small_objects [--objects 10000] [--scale 0.02] [--table-type cow]
"""

import argparse
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judging.memory import Memory
from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES
from sluice_bench.data.tickit import Dataset, change_object, write_snapshot
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure import driver_log, ledger_times
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack, table_rules
from sluice_bench.pipeline.full_load import processor_time, run_peer

CAVEATS = (
    (
        "Each object updates one row of an existing table: nearly all of the time is spent per object, and hardly"
        " any per row."
    ),
    (
        "The emulator serves one request at a time, some 10 ms each. `emulator_cpu_s` is its share of the processor"
        " time, with the functions' own."
    ),
    (
        "Spark's Avro source only reads the objects, those of the tables' first load among them: it decides nothing and"
        " writes nothing."
    ),
)
TIMEOUT_S, TIMEOUT_PER_OBJECT_S = 1_800.0, 0.1
PUTS_AT_ONCE, WAVE = 8, 10_000  # the emulator's queue takes the longer the more messages it holds
MOST_FOR_SPARK = 10_000
LANE = "main"
MEMORY_S, LOOK_S = 5.0, 2.0  # between two looks at the processes, and at the progress
NUMBERS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
TS_MS = 1_795_228_800_000


def run(objects: int, scale: float, table_type: str) -> dict[str, Any]:
    """Load the tables, put the changes, wait until the ledger lists them as committed, and read them with Spark."""
    database = f"small{secrets.token_hex(3)}"
    dataset = Dataset(Sizes.scaled(scale), prefix=f"{database}.")
    timeout_s = max(TIMEOUT_S, TIMEOUT_PER_OBJECT_S * objects)
    with bench_stack() as stack, tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        stack.configure(table_rules(dataset.prefix, database, table_type))
        write_snapshot(Path(scratch), dataset)
        for file in sorted(path for path in Path(scratch).rglob("*.avro")):
            stack.put(str(file.relative_to(scratch)), file)
        stack.wait(TIMEOUT_S)
        before, read_before = _batches(stack), _changes_read(stack)
        changes = _changes(dataset, objects)
        stack.sluice("pause", LANE)
        s3, bronze = stack.target.client("s3"), stack.target.bronze
        with _most_memory(stack) as memory:
            began = time.monotonic()
            for first in range(0, objects, WAVE):
                with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
                    wave = changes[first : first + WAVE]
                    list(pool.map(lambda change: s3.put_object(Bucket=bronze, Key=change[0], Body=change[1]), wave))
                _admitted(stack, timeout_s)
            admitted_s = time.monotonic() - began
            status_s = _counted(stack, objects)
            cpu = processor_time(stack)
            stack.sluice("resume", LANE)
            _merged(stack, read_before + objects, timeout_s)
            cpu = {name: round(value - cpu[name], 1) for name, value in processor_time(stack).items()}
            stack.wait(timeout_s)
        batches = [item for batch, item in _batches(stack).items() if batch not in before]
        peer = _read_by_spark(stack, dataset, changes) if objects <= MOST_FOR_SPARK else {}
    claimed = min(int(item["claimed_at"]) for item in batches) / 1000
    committed = max(int(item["committed_at"]) for item in batches) / 1000
    seconds = committed - claimed
    return {
        "objects": objects,
        "put_and_admitted_s": round(admitted_s, 2),
        "status_s": round(status_s, 2),
        "claimed_to_committed_s": round(seconds, 2),
        "objects_per_second": round(objects / seconds, 1),
        **cpu,
        "batches": len(batches),
        "runs": len({item["run"] for item in batches}),
        **{f"most_memory_mb_{name}": value for name, value in asdict(memory[0]).items()},
        **({**peer, "times_spark": round(seconds / peer["spark_avro_s"], 2)} if peer else {}),
    }


@contextmanager
def _most_memory(stack: RunningStack) -> Iterator[list[Memory]]:
    """The most memory that the stack's processes hold during the block, as the one element of a list."""
    most, ended = [Memory()], threading.Event()

    def look() -> None:
        while not ended.wait(MEMORY_S):
            most[0] = most[0].most(Memory.of_stack(stack.home))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield most
    finally:
        ended.set()
        watching.join()


def _admitted(stack: RunningStack, timeout_s: float) -> None:
    """Wait until the queue holds no notice."""
    sqs, url = stack.target.client("sqs"), stack.target.outputs["QueueUrl"]

    def no_notice() -> bool:
        time.sleep(LOOK_S)
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=NUMBERS)["Attributes"]
        return not sum(int(attributes[name]) for name in NUMBERS)

    ledger_times.await_until(no_notice, timeout_s=timeout_s, what="the admission of all objects")


def _counted(stack: RunningStack, objects: int) -> float:
    """Have `status` count the objects. Returns its seconds. Raises RuntimeError for another number."""
    began = time.monotonic()
    answer = json.loads(stack.sluice("status", "--json"))
    seconds = time.monotonic() - began
    waiting = sum(table["pending"]["objects"] for table in answer["tables"])
    if waiting != objects:
        raise RuntimeError(f"{waiting:,} of {objects:,} objects are in the ledger")
    return seconds


def _changes_read(stack: RunningStack) -> int:
    return sum(event["read"] for event in driver_log.events(stack.home) if event["event"] == "merged")


def _merged(stack: RunningStack, changes: int, timeout_s: float) -> None:
    """Wait until the log of the run tells of as many changes. The emulator, which has one process, is not asked."""

    def all_merged() -> bool:
        time.sleep(LOOK_S)
        return _changes_read(stack) >= changes

    ledger_times.await_until(all_merged, timeout_s=timeout_s, what="the merge of all objects")


def _read_by_spark(stack: RunningStack, dataset: Dataset, changes: Sequence[tuple[str, bytes]]) -> dict[str, float]:
    """Read every column of the same objects with Spark's Avro source, table by table in a session that runs."""
    samples = {table: changes[number][0] for number, table in enumerate(sorted(SOURCES))}
    read = run_peer(stack, samples, dataset.prefix, "read", "cow")
    return {"spark_avro_s": float(read["seconds"]), "spark_avro_cpu_s": float(read["cpu_s"])}


def _changes(dataset: Dataset, objects: int) -> list[tuple[str, bytes]]:
    """Changes of one row each, in turn over the tables."""
    sizes = dataset.sizes.by_table()
    tables = sorted(sizes)
    put_objects = []
    for number in range(objects):
        table, change = tables[number % len(tables)], number // len(tables) + 1
        put_objects.append(
            change_object(dataset, table, 1 + change % sizes[table], change=change, ts_ms=TS_MS + number)
        )
    return put_objects


def _batches(stack: RunningStack) -> dict[str, dict[str, Any]]:
    items = ledger_times.batch_items(stack.target.client("dynamodb"), stack.target.ledger_table)
    return {str(item["pk"]): item for item in items if item["sk"] == "batch" and item.get("committed_at")}


def main() -> None:
    """Measure, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--scale", type=float, default=0.02)
    parser.add_argument("--table-type", choices=("cow", "mor"), default="cow")
    given = parser.parse_args()
    value = run(given.objects, given.scale, given.table_type)
    name = "small-objects" if given.objects <= MOST_FOR_SPARK else "backlog"
    file = keep(name, parameters=vars(given), caveats=CAVEATS, values=[value], summary=value)
    say("Small objects", CAVEATS, value, file)


if __name__ == "__main__":
    main()
