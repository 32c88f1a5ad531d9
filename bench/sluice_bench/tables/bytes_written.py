"""Measures bytes written per byte of change, by Sluice with services and by Hudi's defaults.

The same batches go into four tables, copy-on-write and merge-on-read.

python -m sluice_bench.tables.bytes_written [--batches 100] [--changes 1000] [--rows 170000] [--history]
"""

import argparse
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sluice.batch.outcome import HISTORY_STAGE
from sluice.changes import hidden_columns as hidden
from sluice.config.table import COW, HISTORY, MOR, TableConfig
from sluice.hudi import options as hudi_options
from sluice_bench.data.debezium_objects import SOURCES, object_key
from sluice_bench.data.sale_changes import TABLE, SaleChanges
from sluice_bench.data.tickit import Dataset, pieces, snapshot_object
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.written_bytes import ACTIONS, KINDS, REWRITTEN, WrittenBytes
from sluice_bench.tables.in_process import InProcessTable
from sluice_bench.tables.in_process_world import emulated_s3
from sluice_bench.tables.index_costs import session
from sluice_bench.tables.plain_hudi import PlainTable, as_parquet
from sluice_local.emr.spark_command import JVM_OPTIONS

CAVEATS = (
    (
        "Bytes of change are the batches' Avro objects in bronze, uncompressed by the sink's default. The first "
        "load is not counted on either side."
    ),
    (
        "Bytes written are those of every new or changed file in the table's folder after each commit and "
        "service, without checksum files; for Sluice also manifest and outcome. `by_the_jvm` is the value of "
        "Hadoop's own counters, which include checksum files and files that were deleted at once."
    ),
    (
        "Tables are local files without partitions. The rows of a batch are chosen evenly from all rows, so copy-"
        "on-write rewrites nearly every file with every batch on both sides."
    ),
    (
        "Sluice uses the default policy, with one batch a minute. The run is shorter than the time-travel window,"
        " so it cleans nothing. Hudi's defaults keep ten commits and delete older files."
    ),
    (
        "Hudi's defaults are those of the data source of the same Hudi release, with only name, type, key and "
        "ordering set. Deletes use Hudi's own mark and remove rows; Sluice keeps them as hidden rows. A plain "
        "batch write never compacts a merge-on-read table, so inline compaction is on, with its default of every "
        "fifth delta commit."
    ),
)
SLUICE, HUDI = "sluice", "hudi"
RECORDS = "manifest_and_outcome"
HISTORY_MS = "history_ms"  # of the stage that writes the history table
TYPES = (COW, MOR)
DATABASE = "bench"


class Measured:
    """A table and the bytes that its steps wrote."""

    def __init__(self, spark, path: Path, *more: Path) -> None:
        self._spark = spark
        self._written = WrittenBytes(path, *more)
        self._counted = 0
        self.path = path
        self.steps: list[dict[str, object]] = []

    def start(self) -> None:
        """Start counting."""
        self._counted = self._by_the_jvm()

    def saw(self, batch: int, step: str, **more: int) -> None:
        """Record the bytes written since the last call."""
        counted = self._by_the_jvm()
        self.steps.append(
            {"batch": batch, "step": step, **self._written.look(), **more, "by_the_jvm": counted - self._counted}
        )
        self._counted = counted

    def total(self) -> Counter[str]:
        """The sum of all steps without the first load."""
        return sum(
            (
                Counter({name: value for name, value in step.items() if isinstance(value, int) and name != "batch"})
                for step in self.steps
                if step["batch"]
            ),
            Counter(),
        )

    def stored(self) -> int:
        """Bytes stored now."""
        return self._written.stored()

    def _by_the_jvm(self) -> int:
        return sum(
            int(statistics.getBytesWritten())
            for statistics in self._spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
        )


def living(spark, path: Path, columns: Sequence[str]) -> tuple:
    """Count and sums of the visible rows."""
    rows = spark.read.format("hudi").options(**hudi_options.READ_OPTIONS).load(path.as_uri())
    if hidden.DELETED in rows.columns:
        rows = rows.where(f"coalesce(cast({hidden.DELETED} as boolean), false) = false")
    return tuple(rows.selectExpr("count(*)", *[f"sum({name})" for name in columns]).first())


def config(table_type: str, *, history: bool = False) -> TableConfig:
    """A table's configuration with only its key and type set, and whether it has a history table."""
    source = SOURCES[TABLE]
    return TableConfig(
        table=f"{DATABASE}.{TABLE}_{table_type}",
        database=DATABASE,
        name=f"{TABLE}_{table_type}",
        topic=source.topic,
        record_key=(source.key,),
        table_type=table_type,
        history=history,
    )


def run(
    spark,
    endpoint: str,
    home: Path,
    dataset: Dataset,
    *,
    batches: int,
    changes: int,
    history: bool = False,
    ended: Callable[[], bool],
    progress: Callable[[str], None],
) -> tuple[dict[str, Measured], list[int]]:
    """Load, then merge the batches into all four tables in turns, until `ended`; with `history` Sluice's have one too.

    Returns the tables' steps and each batch's bytes.

    Raises AssertionError if the tables differ at the end.
    """
    ours = {kind: InProcessTable(spark, endpoint, home / SLUICE, config(kind, history=history)) for kind in TYPES}
    theirs = {kind: PlainTable(spark, home / HUDI, f"{TABLE}_{kind}", kind) for kind in TYPES}
    measured = {
        f"{SLUICE} {kind}": Measured(
            spark, table.path, *([table.path.with_name(table.path.name + HISTORY)] if history else [])
        )
        for kind, table in ours.items()
    } | {f"{HUDI} {kind}": Measured(spark, theirs[kind].path) for kind in TYPES}
    source, offset, sizes = SaleChanges(dataset, changes), 0, []
    for batch in range(batches + 1):
        if ended():
            break
        bodies = (
            [snapshot_object(dataset, piece) for piece in pieces(dataset) if piece.table == TABLE]
            if batch == 0
            else [source.batch()]
        )
        sizes.append(sum(map(len, bodies)))
        file = as_parquet(bodies, home / "batch.parquet")
        for kind in TYPES:
            bodies_by_key = {f"{kind}/{object_key(TABLE, offset + number)}": body for number, body in enumerate(bodies)}
            mine, other = measured[f"{SLUICE} {kind}"], measured[f"{HUDI} {kind}"]
            mine.start()
            outcome, records = ours[kind].merge(bodies_by_key, offset)
            spent = sum(stage.ms for stage in outcome.stages if stage.name == HISTORY_STAGE)
            mine.saw(batch, "merge", **{RECORDS: records, HISTORY_MS: spent})
            for service, _ in ours[kind].serve() if batch else ():
                mine.saw(batch, service)
            other.start()
            theirs[kind].write(file)
            other.saw(batch, "write")
        offset += dataset.sizes.sale if batch == 0 else changes
        progress(
            f"batch {batch} of {batches}: "
            + ", ".join(
                f"{name} {sum(one.total()[kind] for kind in KINDS) / 1e6:.1f} MB" for name, one in measured.items()
            )
        )
    shown = {name: living(spark, one.path, ("salesid", "qtysold", "pricepaid")) for name, one in measured.items()}
    if len(set(shown.values())) != 1 or shown[f"{SLUICE} {COW}"][0] != source.living:
        raise AssertionError(f"the tables differ, or aren't of {source.living} living rows: {shown}")
    return measured, sizes[1:]


def summary(measured: Mapping[str, Measured], sizes: Sequence[int]) -> dict[str, object]:
    """Bytes written by table, and bytes of change."""
    changed = sum(sizes)
    results: dict[str, object] = {}
    per_byte: dict[str, float] = {}
    for name, table in measured.items():
        total = table.total()
        written = sum(total[kind] for kind in (*KINDS, RECORDS))
        per_byte[name] = written / changed
        results[name] = {
            "written_per_byte_of_change": round(per_byte[name], 2),
            "written_mb": round(written / 1e6, 2),
            **{f"{kind}_mb": round(total[kind] / 1e6, 2) for kind in (*KINDS, RECORDS)},
            "rewritten_mb": round(total[REWRITTEN] / 1e6, 2),
            "by_the_jvm_mb": round(total["by_the_jvm"] / 1e6, 2),
            **{action: total[action] for action in sorted(ACTIONS)},
            "stored_mb": round(table.stored() / 1e6, 2),
            **({"history_s": round(total[HISTORY_MS] / 1000, 1)} if total[HISTORY_MS] else {}),
        }
    results |= {"batches": len(sizes), "changed_mb": round(changed / 1e6, 3)}
    return results | {
        f"{kind}_{SLUICE}_to_{HUDI}": round(per_byte[f"{SLUICE} {kind}"] / per_byte[f"{HUDI} {kind}"], 3)
        for kind in TYPES
    }


def main() -> None:
    """Merge, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=170_000)
    parser.add_argument(
        "--history",
        action="store_true",
        help="give Sluice's tables a history table, and count its bytes and seconds as theirs",
    )
    parser.add_argument(
        "--at-most",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="start no batch after this time, nor after a SIGTERM; the result says how many there were",
    )
    given = parser.parse_args()
    dataset = Dataset(Sizes(sale=given.rows))
    ends, asked_to_end = time.monotonic() + given.at_most, threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    with tempfile.TemporaryDirectory(prefix="sluice-bytes-") as folder, emulated_s3() as endpoint:
        spark = session(memory="3g", java=" ".join(JVM_OPTIONS))  # seconds don't matter, so with the least work
        measured, sizes = run(
            spark,
            endpoint,
            Path(folder),
            dataset,
            batches=given.batches,
            changes=given.changes,
            history=given.history,
            ended=lambda: asked_to_end.is_set() or time.monotonic() > ends,
            progress=lambda line: print(line, flush=True),
        )
        results = summary(measured, sizes)
        spark.stop()
    values = {"batch_bytes": sizes, "steps": {name: table.steps for name, table in measured.items()}}
    file = keep(
        "bytes-history" if given.history else "bytes",
        parameters=vars(given),
        caveats=CAVEATS,
        values=values,
        summary=results,
    )
    say("Bytes written per byte of change", CAVEATS, results, file)


if __name__ == "__main__":
    main()
