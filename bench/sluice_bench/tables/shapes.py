"""Measures loads and batches of changes by the shape of a table, one JSON file a cell of the matrix.

Resumable: cells with a result in bench/results/shapes are not run again, unless --again. The summary names each cell
that takes more than twice the seconds of a neighbour, and says why by shapes_explained.json, which is written by hand.

python -m sluice_bench.tables.shapes [--only TEXT] [--rows 10000] [--again]
"""

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from support.builders import flattened
from support.workbench import Workbench

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import Outcome
from sluice.changes.hidden_columns import DELETED
from sluice.config.table import HISTORY, TableConfig
from sluice.services.requests import PURGE
from sluice_bench.data.shaped_changes import COLUMNS, NESTED, ShapedChanges, encoded
from sluice_bench.measure.machine import describe_machine, forget_peaks, peaks_mb, process_tree
from sluice_bench.measure.percentiles import percentile
from sluice_bench.measure.results import RESULTS, keep, say
from sluice_bench.measure.written_bytes import FILES, KINDS, WrittenBytes
from sluice_bench.tables.in_process_world import OwnS3, own_s3
from sluice_bench.tables.index_costs import CORES, session
from sluice_bench.tables.shape_cells import LISTS, NEW_COLUMN, PURGED, TRUNCATE, ShapeCell, dear, matrix, selected

CAVEATS = (
    (
        "Tables are local files; on S3 each file takes a few round trips more. `requests` to S3 are those for objects "
        "and schemas alone."
    ),
    (
        "Cells run one after the other in one warm process. A batch has 3 % new rows, 1 % deletes and 2 % moves. "
        "`first_s` is the first batch after a load. `s` is the median of up to three after it, if any, and the "
        "columns behind it are that batch's."
    ),
    "CPU seconds are those of the driver, its JVM, which holds the tasks too, and Python workers, without the S3's.",
    (
        "Memory is the peak of resident memory while a batch is merged. The driver's has the benchmark's own, and its "
        "JVM may take 6 GB. Of the workers that still run after it, it is the largest one's."
    ),
)
FOLDER = RESULTS / "shapes"
EXPLAINED = Path(__file__).with_name("shapes_explained.json")  # by the cell's name, why it costs more than a neighbour
BATCHES, ENOUGH_S, PURGED_CHANGES = 4, 60, 1_000  # no batch begins after so many seconds of a cell
JVM, WORKER = "java", "python"
WARM_UP = (ShapeCell("cow", 10, 1_000, 100), ShapeCell("mor", 10, 1_000, 100))


class Meter:
    """Measures the steps of one table."""

    def __init__(self, bench: Workbench, config: TableConfig, s3: OwnS3) -> None:
        self._bench, self._config, self._s3 = bench, config, s3
        path = bench.local_path(config)
        self._written = WrittenBytes(path, *([path.with_name(path.name + HISTORY)] if config.history else []))

    def merge(self, name: str, objects: Sequence[ManifestObject], after: Outcome | None) -> tuple[Outcome, dict]:
        """Merge objects as one batch. Returns its outcome and measures.

        Raises AssertionError unless all is committed.
        """
        self._written.look()
        before = process_tree(os.getpid(), without=self._s3.process_id)
        forget_peaks(before)
        events, requests, began = len(self._bench.events.seen), self._s3.requests(), time.perf_counter()
        outcome = self._bench.merge(self._config, objects, after=after)
        seconds = time.perf_counter() - began
        used = process_tree(os.getpid(), without=self._s3.process_id)
        written, peaks = self._written.look(), peaks_mb(used)
        own = peaks.pop(os.getpid())
        if outcome.instant is None or outcome.quarantined or outcome.quarantined_rows:
            raise AssertionError(f"not everything was committed: {outcome.to_json()}")
        return outcome, {
            "step": name,
            "seconds": round(seconds, 3),
            "cpu_s": round(sum(used.values()) - sum(before.values()), 2),
            "bytes": sum(written[kind] for kind in KINDS),
            "bytes_by_kind": {kind: written[kind] for kind in KINDS},
            "files": written[FILES],
            "rewritten": outcome.counts.get("rewritten", 0),
            "requests": self._s3.requests() - requests,
            "way": way(self._bench.events.seen[events:]),
            "stages_ms": {stage.name: stage.ms for stage in outcome.stages},
            "driver_mb": own[1],
            "jvm_mb": max((peak for program, peak in peaks.values() if program == JVM), default=0),
            "worker_mb": max((peak for program, peak in peaks.values() if program.startswith(WORKER)), default=0),
        }


def way(events: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The way that a part took, and why."""
    left = [
        f"{name.removeprefix('left_to_')}: {' '.join(filter(None, (fields['reason'], fields.get('detail'))))}"
        for name, fields in events
        if name in ("left_to_spark", "left_to_tasks")
    ]
    return ", ".join(left) or "arrow"


def put(
    bench: Workbench, cell: ShapeCell, rows: Sequence[dict], number: int, more: Mapping[str, object]
) -> ManifestObject:
    """Rows as an object of the cell's format."""
    offset = number * 10_000_000
    if cell.format == "avro":
        types = {**COLUMNS, **(NESTED if cell.kind == LISTS else {}), **dict.fromkeys(more, "string")}
        return bench.put(rows, flattened({name: ["null", kind] for name, kind in types.items()}), offset=offset)
    key = f"topics/src.public.t/partition=0/src.public.t+0+{offset:010d}.{cell.format}"
    return bench.put_bytes(encoded(rows, cell.format), key=key, offset=offset, format=cell.format)


def run(
    bench: Workbench, s3: OwnS3, cell: ShapeCell, load: Sequence[ManifestObject], home: Path
) -> list[dict[str, Any]]:
    """The measures of a load and of batches after it. Raises AssertionError for another number of rows."""
    bench.services = replace(bench.services, tables_uri=home.as_uri())
    bench.new_run()
    config, source = cell.config(), ShapedChanges(cell.rows, nested=cell.kind == LISTS)
    meter = Meter(bench, config, s3)
    outcome, measured = meter.merge("load", load, None)
    steps = [measured]
    if cell.kind == PURGED:
        outcome, _ = meter.merge("deletes", [put(bench, cell, source.batch(PURGED_CHANGES), len(load), {})], outcome)
        purge(bench, config)
    for number in range(1, BATCHES + 1):
        if sum(step["seconds"] for step in steps[1:]) > ENOUGH_S:
            break
        more = {f"more{number}": "new"} if cell.kind == NEW_COLUMN else {}
        rows = source.batch(cell.changes, truncate=cell.kind == TRUNCATE, more=more)
        outcome, measured = meter.merge(f"batch {number}", [put(bench, cell, rows, len(load) + number, more)], outcome)
        steps.append(measured)
    stored = bench.spark.read.format("hudi").load(bench.path(config))
    living = stored.where(f"not coalesce({DELETED}, false)").count()
    if living != source.living:
        raise AssertionError(f"{living} rows live where the source has {source.living}")
    return steps


def purge(bench: Workbench, config: TableConfig) -> None:
    """Remove the deleted rows of a table."""
    from sluice_spark.services.slice import SliceRates, serve_table

    at_once = replace(config, services=replace(config.services, purge_horizon_s=0))
    more = True
    while more:
        more = serve_table(
            bench.spark,
            config=at_once,
            service=PURGE,
            services=bench.services,
            rates=SliceRates(cores=CORES),
            still_held=lambda: True,
            slice_s=20,
            raise_floor=lambda positions: None,
        ).more


def run_all(cells: Sequence[ShapeCell]) -> int:
    """Run cells and keep their results. Returns how many failed, whose traces are printed.

    Those with the same objects follow each other.
    """
    failed = 0
    spark = session("6g")
    for _, group in groupby([*WARM_UP, *cells], key=lambda cell: cell.data):
        same = list(group)
        with own_s3() as s3, tempfile.TemporaryDirectory(prefix="sluice-shapes-") as home:
            bench = Workbench(spark, s3.endpoint, Path(home))
            snapshot = ShapedChanges(same[0].rows, nested=same[0].kind == LISTS).snapshot()
            load = [put(bench, same[0], rows, number, {}) for number, rows in enumerate(snapshot)]
            for cell in same:
                try:
                    with tempfile.TemporaryDirectory(prefix="table-", dir=home) as folder:
                        steps = run(bench, s3, cell, load, Path(folder))
                except Exception:  # the next cells are worth their time
                    traceback.print_exc()
                    failed += 1
                else:
                    print(cell.name, *((step["step"], step["seconds"], step["way"]) for step in steps), flush=True)
                    if cell not in WARM_UP:
                        document = {"cell": cell.name, "machine": describe_machine(), "steps": steps}
                        partial = FOLDER / f"{cell.name}.partial"
                        partial.write_text(json.dumps(document, indent=1) + "\n")
                        partial.replace(FOLDER / f"{cell.name}.json")
    spark.stop()
    return failed


def summary(
    results: Mapping[ShapeCell, Mapping[str, Any]], explained: Mapping[str, str]
) -> dict[str, dict[str, object]]:
    """A line a cell, and why those take their time that take more than a neighbour."""
    typical = {cell: _typical(result["steps"]) for cell, result in results.items()}
    loads = {cell: result["steps"][0]["seconds"] for cell, result in results.items()}
    dear_batches = dear({cell: step["seconds"] for cell, step in typical.items()}, of="batch")
    dear_loads = dear(loads, of="load")
    return {
        cell.name: {
            "load_s": loads[cell],
            "first_s": results[cell]["steps"][1]["seconds"],
            "s": step["seconds"],
            "cpu_s": step["cpu_s"],
            "written_mb": round(step["bytes"] / 1e6, 2),
            **{
                name: step[name]
                for name in ("files", "rewritten", "requests", "driver_mb", "jvm_mb", "worker_mb", "way")
            },
            "way of the load": results[cell]["steps"][0]["way"],
            "machine's load": results[cell]["machine"]["load_1_5_15"][0],
            "times a neighbour's": ", ".join(filter(None, (dear_batches.get(cell), dear_loads.get(cell)))),
            "why": explained.get(cell.name, "not explained yet" if cell in dear_batches or cell in dear_loads else ""),
        }
        for cell, step in typical.items()
    }


def _typical(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    later = steps[2:] or steps[1:]
    median = percentile([step["seconds"] for step in later], 0.5)
    return next(step for step in later if step["seconds"] == median)


def main() -> int:
    """Run the cells without a result, then keep and print a summary of all. Returns 0 if all succeeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cells whose names contain this, of the whole matrix"
    )
    parser.add_argument("--rows", type=int, help="only cells of so many rows; 10,000,000 are run by this alone")
    parser.add_argument("--again", action="store_true", help="run cells that have a result, too")
    given = parser.parse_args()
    chosen = selected(given.only, given.rows)
    todo = [cell for cell in chosen if given.again or not (FOLDER / f"{cell.name}.json").exists()]
    print(f"{len(chosen)} cells, {len(chosen) - len(todo)} have a result, {len(todo)} to run", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = run_all(todo) if todo else 0
    files = {cell: FOLDER / f"{cell.name}.json" for cell in matrix()}
    results = {cell: json.loads(file.read_text()) for cell, file in files.items() if file.exists()}
    if results:
        lines = summary(results, json.loads(EXPLAINED.read_text()))
        values = [results[cell] for cell in results]
        file = keep("shapes", parameters=vars(given), caveats=CAVEATS, values=values, summary=lines)
        say("Loads and changes by shape", CAVEATS, lines, file)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
