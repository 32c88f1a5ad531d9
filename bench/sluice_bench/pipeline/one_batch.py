"""Measures small work in a lingering run: a change of each of 30 small tables, and 1,000 changes of a large table.

python -m sluice_bench.pipeline.one_batch [--tables 30] [--rows 1000000] [--changes 1000] [--rounds 5] [--table-type T]
"""

import argparse
import dataclasses
import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES, object_bytes, object_key, record
from sluice_bench.data.tickit import Dataset, Piece, pieces, snapshot_object
from sluice_bench.data.tickit_rows import Sizes, row
from sluice_bench.measure import ledger_times
from sluice_bench.measure.percentiles import rounded_summary
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack

CAVEATS = (
    "The run lingers. A round is timed by the ledger, from its first batch's claim to its last batch's commit.",
    "Changes are spread evenly over the large table, so that every file of it is written anew.",
)
SMALL, LARGE = "venue", "listing"
SMALL_ROWS = 100
PUTS_AT_ONCE, TIMEOUT_S = 16, 1_200.0
TS_MS = 1_795_228_800_000
Put = tuple[str, bytes]


def run(tables: int, rows: int, changes: int, rounds: int, table_type: str) -> list[dict[str, Any]]:
    """Load the tables, then measure each shape `rounds` times, after a round that isn't counted."""
    name = f"one{secrets.token_hex(3)}"
    small = [Dataset(dataclasses.replace(Sizes(), venue=SMALL_ROWS), prefix=f"{name}.{n}.") for n in range(tables)]
    large = Dataset(dataclasses.replace(Sizes(), listing=rows), codec="snappy", prefix=f"{name}.")
    values = []
    with bench_stack() as stack:
        stack.configure(
            [_rule(dataset, SMALL, f"{name}.small{n}", table_type) for n, dataset in enumerate(small)]
            + [_rule(large, LARGE, f"{name}.large", table_type)]
        )
        _put(stack, [put for dataset in small for put in _snapshot(dataset, SMALL)])
        _put(stack, _snapshot(large, LARGE))
        stack.wait(TIMEOUT_S)
        for number in range(rounds + 1):
            shapes = {
                f"a change of each of {tables} tables": [_changed(one, SMALL, number, 1) for one in small],
                f"{changes:,} changes of {rows:,} rows": [_changed(large, LARGE, number, changes)],
            }
            for shape, puts in shapes.items():
                measured = _measure(stack, puts)
                print(f"{shape}, round {number} of {rounds}: {measured['seconds']} s (local)", flush=True)
                if number:
                    values.append({"shape": shape, "round": number, **measured})
    return values


def _rule(dataset: Dataset, table: str, name: str, table_type: str) -> dict[str, Any]:
    source = SOURCES[table]
    return {
        "topic": dataset.prefix + source.topic,
        "table": name,
        "record_key": [source.key],
        "partition_by": [],
        "table_type": table_type,
    }


def _snapshot(dataset: Dataset, table: str) -> Iterator[Put]:
    of_table = [piece for piece in pieces(dataset) if piece.table == table]
    keys = (object_key(table, piece.first, prefix=dataset.prefix) for piece in of_table)
    if len(of_table) == 1:
        yield next(keys), snapshot_object(dataset, of_table[0])
        return
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from zip(keys, pool.map(_made, [(dataset, piece) for piece in of_table]), strict=True)


def _made(of: tuple[Dataset, Piece]) -> bytes:
    return snapshot_object(*of)


def _changed(dataset: Dataset, table: str, number: int, changes: int) -> Put:
    """An object with updates of so many rows, evenly spread; `number` is its place among those of the table."""
    rows, first = dataset.sizes.by_table()[table], number * changes
    records = [
        record(
            table,
            row(
                table,
                1 + (place * rows // changes + number) % rows,
                seed=dataset.seed + number + 1,
                sizes=dataset.sizes,
            ),
            op="u",
            change=first + place + 1,
            ts_ms=TS_MS + number,
        )
        for place in range(changes)
    ]
    return object_key(table, rows + first, prefix=dataset.prefix), object_bytes(table, records)


def _put(stack: RunningStack, puts: Iterator[Put] | Sequence[Put]) -> None:
    s3, bronze = stack.target.client("s3"), stack.target.bronze
    with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
        list(pool.map(lambda put: s3.put_object(Bucket=bronze, Key=put[0], Body=put[1]), puts))


def _measure(stack: RunningStack, puts: Sequence[Put]) -> dict[str, Any]:
    before = {str(item["pk"]) for item in _batches(stack)}
    _put(stack, puts)
    stack.wait(TIMEOUT_S)
    batches = [item for item in _batches(stack) if str(item["pk"]) not in before]
    claimed = min(int(item["claimed_at"]) for item in batches)
    committed = max(int(item["committed_at"]) for item in batches)
    return {
        "seconds": round((committed - claimed) / 1000, 3),
        "batches": len(batches),
        "load": round(os.getloadavg()[0], 2),
    }


def _batches(stack: RunningStack) -> list[dict[str, Any]]:
    items = ledger_times.batch_items(stack.target.client("dynamodb"), stack.target.ledger_table)
    return [item for item in items if item["sk"] == "batch" and item.get("committed_at")]


def main() -> None:
    """Measure, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--table-type", choices=("cow", "mor"), default="cow")
    given = parser.parse_args()
    values = run(given.tables, given.rows, given.changes, given.rounds, given.table_type)
    shapes = dict.fromkeys(value["shape"] for value in values)
    results = {
        shape: rounded_summary([float(value["seconds"]) for value in values if value["shape"] == shape])
        for shape in shapes
    }
    file = keep("one-batch", parameters=vars(given), caveats=CAVEATS, values=values, summary=results)
    say("Small work in a lingering run", CAVEATS, results, file)


if __name__ == "__main__":
    main()
