"""Measures the time until ten thousand objects of one change each are committed, put at once over seven tables.

python -m sluice_bench.pipeline.small_objects [--objects 10000] [--scale 0.02] [--table-type cow]
"""

import argparse
import secrets
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from judging.running_stack import RunningStack

from sluice_bench.data.tickit import Dataset, change_object, write_snapshot
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure import ledger_times
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack, table_rules

CAVEATS = (
    (
        "Each object updates one row of an existing table: nearly all of the time is spent per object, and hardly"
        " any per row."
    ),
    "The emulator serves one request at a time, so puts, admission and reads wait for each other.",
)
TIMEOUT_S = 1_800.0
PUTS_AT_ONCE = 8
TS_MS = 1_795_228_800_000


def run(objects: int, scale: float, table_type: str) -> dict[str, Any]:
    """Load the tables, put the changes, and wait until the ledger lists them as committed."""
    database = f"small{secrets.token_hex(3)}"
    dataset = Dataset(Sizes.scaled(scale), prefix=f"{database}.")
    with bench_stack() as stack, tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch:
        stack.configure(table_rules(dataset.prefix, database, table_type))
        write_snapshot(Path(scratch), dataset)
        for file in sorted(path for path in Path(scratch).rglob("*.avro")):
            stack.put(str(file.relative_to(scratch)), file)
        stack.wait(TIMEOUT_S)
        before = _batches(stack)
        changes = _changes(dataset, objects)
        s3, bronze = stack.target.client("s3"), stack.target.bronze
        began = time.time()
        with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
            list(pool.map(lambda change: s3.put_object(Bucket=bronze, Key=change[0], Body=change[1]), changes))
        put_s = time.time() - began
        stack.wait(TIMEOUT_S)
        batches = {batch: item for batch, item in _batches(stack).items() if batch not in before}
    committed = max(int(item["committed_at"]) for item in batches.values()) / 1000
    seconds = committed - began
    return {
        "objects": objects,
        "seconds": round(seconds, 2),
        "objects_per_second": round(objects / seconds, 1),
        "put_s": round(put_s, 2),
        "batches": len(batches),
        "runs": len({item["run"] for item in batches.values()}),
        "after_last_put_s": round(seconds - put_s, 2),
    }


def _changes(dataset: Dataset, objects: int) -> list[tuple[str, bytes]]:
    """Changes of one row each, in turn over the tables."""
    sizes = dataset.sizes.by_table()
    tables = sorted(sizes)
    found = []
    for number in range(objects):
        table, change = tables[number % len(tables)], number // len(tables) + 1
        found.append(change_object(dataset, table, 1 + change % sizes[table], change=change, ts_ms=TS_MS + number))
    return found


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
    file = keep("small-objects", parameters=vars(given), caveats=CAVEATS, values=[value], summary=value)
    say("Small objects", CAVEATS, value, file)


if __name__ == "__main__":
    main()
