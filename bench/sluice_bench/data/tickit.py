"""Writes a folder of bronze objects: a TICKIT-like snapshot as the S3 sink writes it, and single changes to it.

python -m sluice_bench.data.tickit FOLDER [--scale 1.0] [--rows-per-object 25000] [--codec null|snappy]
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sluice_bench.data.debezium_objects import key_only, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import Row, Sizes, row

DEFAULT_SEED = 20_080_101


@dataclass(frozen=True)
class Dataset:
    """A generated dataset: seed, sizes and rows per object. `prefix` precedes every topic's name."""

    sizes: Sizes
    seed: int = DEFAULT_SEED
    rows_per_object: int = 25_000
    codec: str = "null"
    prefix: str = ""


@dataclass(frozen=True)
class Piece:
    """One object of the snapshot: rows first+1 .. first+count of a table, at Kafka offset `first`."""

    table: str
    first: int
    count: int


def pieces(dataset: Dataset) -> Iterator[Piece]:
    """The snapshot's objects, largest tables first, so that several processes end at about the same time."""
    for table, rows in sorted(dataset.sizes.by_table().items(), key=lambda item: -item[1]):
        for first in range(0, rows, dataset.rows_per_object):
            yield Piece(table, first, min(dataset.rows_per_object, rows - first))


def snapshot_object(dataset: Dataset, piece: Piece) -> bytes:
    """The Avro object of one piece: snapshot reads (`r`), all at the snapshot's one position."""
    records = [
        record(piece.table, row(piece.table, piece.first + n, seed=dataset.seed, sizes=dataset.sizes), op="r", change=0)
        for n in range(1, piece.count + 1)
    ]
    return object_bytes(piece.table, records, dataset.codec)


def change_object(
    dataset: Dataset, table: str, number: int, *, change: int, op: str = "u", ts_ms: int, **columns: object
) -> tuple[str, bytes]:
    """Key and bytes of an object with one change, as the sink writes it when its rotation time passes.

    An update of row `number` with `columns` set, an insert ('c'), or a delete ('d') with only the key. `change` (from
    1) is its place after the snapshot and after every lower number.
    """
    if change < 1:
        raise ValueError(f"a change comes after the snapshot: change must be at least 1, not {change}")
    values: Row = row(table, number, seed=dataset.seed, sizes=dataset.sizes) | columns
    if op == "d":
        values = key_only(table, values)
    key = object_key(table, dataset.sizes.by_table()[table] + change - 1, prefix=dataset.prefix)
    return key, object_bytes(table, [record(table, values, op=op, change=change, ts_ms=ts_ms)], dataset.codec)


def _write(job: tuple[Path, Dataset, Piece]) -> int:
    folder, dataset, piece = job
    path = folder / object_key(piece.table, piece.first, prefix=dataset.prefix)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_bytes(snapshot_object(dataset, piece))


def write_snapshot(folder: Path, dataset: Dataset, processes: int | None = None) -> dict[str, int]:
    """Write the snapshot to `folder`, on every core by default. Returns objects, rows and bytes."""
    work = [(folder, dataset, piece) for piece in pieces(dataset)]
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        size = sum(pool.map(_write, work))
    return {"objects": len(work), "rows": dataset.sizes.total, "bytes": size}


def main() -> None:
    """Write a snapshot and print its description as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rows-per-object", type=int, default=25_000)
    parser.add_argument("--codec", choices=("null", "snappy"), default="null")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--prefix", default="", help="prefix of every topic's name")
    given = parser.parse_args()
    dataset = Dataset(Sizes.scaled(given.scale), given.seed, given.rows_per_object, given.codec, given.prefix)
    started = time.perf_counter()
    written = write_snapshot(given.folder, dataset)
    print(
        json.dumps(
            {**written, "seconds": round(time.perf_counter() - started, 1), "scale": given.scale, "seed": given.seed}
        )
    )


if __name__ == "__main__":
    main()
