"""Measures reads of a merge-on-read table after many merges, with services on and off.

    python -m sluice_bench.tables.services_200 [--merges 200] [--rows 20000] [--changes 200]

Two tables get the same changes in turns. Services compact and clean one of them when they are due by its policy, and
never the other.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR, TableConfig
from sluice.hudi import options as hudi_options
from sluice.services.requests import CLEANING, COMPACTION
from sluice_aws.clock import WallClock
from sluice_bench.measure.results import RESULTS, keep, say
from sluice_bench.tables.in_process_world import Quiet
from sluice_bench.tables.index_costs import CORES, session
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.context import MergeServices
from sluice_spark.services.slice import SliceRates, serve_table

CAVEATS = (
    (
        "Tables are local files. On S3 each log file that a reader opens takes at least one round trip, so "
        "reading many files costs more there."
    ),
    ("Rows are written by the driver's Hudi code without reading objects: the table is measured, not the pipeline."),
    (
        "Stored files and bytes grow on both sides within the time-travel window, an hour here and longer than "
        "the run. What stays bounded is the number of files that a read opens."
    ),
    "A read is a snapshot query that counts rows and sums one column; the median of three is given.",
)
READS, SLICE_S = 3, 20
ON, OFF = "services on", "services off"


def config(name: str) -> TableConfig:
    """A merge-on-read table whose writes don't compact."""
    return TableConfig(
        table=f"bench.{name}",
        database="bench",
        name=name,
        topic=f"bench.{name}",
        record_key=("id",),
        table_type=MOR,
        time_travel_h=1,
    )


def changes(spark, numbers: Sequence[int], merge: int):
    """Rows as a merge would write them."""
    schema = f"id long, amount long, {hidden.POSITION} string, {hidden.DELETED} boolean"
    return spark.createDataFrame(
        [(number, merge, f"0000.{merge:020d}.{number:020d}", False) for number in numbers], schema
    )


def read_seconds(spark, path: str) -> float:
    """The median of a few snapshot reads."""
    taken = []
    for _ in range(READS):
        began = time.perf_counter()
        spark.read.format("hudi").options(**hudi_options.READ_OPTIONS).load(path).selectExpr(
            "count(*)", "sum(amount)"
        ).collect()
        taken.append(time.perf_counter() - began)
    return round(statistics.median(taken), 3)


def pending(jvm: HudiJvm, path: str) -> dict[str, int]:
    """The files a reader opens (newest base and log files), and all stored files."""
    stored = [
        file_
        for file_ in Path(path.removeprefix("file:")).iterdir()
        if file_.is_file() and (file_.suffix == ".parquet" or ".log." in file_.name) and file_.suffix != ".crc"
    ]
    bases: dict[str, str] = {}
    for file in stored:
        if file.suffix == ".parquet":
            group, _, instant = file.stem.split("_")
            bases[group] = max(instant, bases.get(group, ""))
    logs = [file_.name[1:].split("_")[:2] for file_ in stored if file_.suffix != ".parquet"]
    read = len(bases) + sum(bases.get(group) == rest.split(".")[0] for group, rest in logs)
    return {
        "read_files": read,
        "stored_files": len(stored),
        "stored_bytes": sum(file_.stat().st_size for file_ in stored),
        "read_bytes": jvm.size_bytes(jvm.meta_client(path)),
    }


class Table:
    """One of the two tables."""

    def __init__(self, spark, home: Path, name: str, clock: WallClock) -> None:
        self.config = config(name)
        self._spark = spark
        self._clock = clock
        self._services = MergeServices(
            objects=None,
            source=None,
            silver_bucket="",
            tables_uri=f"file:{home}",
            clock=clock,
            log=Quiet(),
            history=None,
        )  # type: ignore[arg-type]
        self._rates = SliceRates(cores=CORES)
        self.hudi = HudiTable(spark, self._services.table_path("bench", name), self.config)
        self.jvm = HudiJvm(spark)
        self.served = {COMPACTION: 0, CLEANING: 0}
        self.service_s = 0.0
        self.hudi.ensure_created()

    def merge(self, rows, merge: int) -> float:
        """Commit rows. Returns the seconds."""
        facts = self.hudi.look()
        operation = hudi_options.BULK_INSERT if facts.empty else hudi_options.UPSERT
        began = time.perf_counter()
        self.hudi.write(rows, operation=operation, batch=f"b-{merge}", run="bench", facts=facts, size_bytes=0)
        return round(time.perf_counter() - began, 3)

    def serve(self, merge: int) -> None:
        """Run the services that are due by the table's policy, slice by slice."""
        for service in self.served:
            if merge - self.served[service] >= self.config.services.pace(service).commits:
                self.served[service] = merge
                more = True
                while more:
                    began = time.perf_counter()
                    done = serve_table(
                        self._spark,
                        config=self.config,
                        service=service,
                        services=self._services,
                        rates=self._rates,
                        still_held=lambda: True,
                        slice_s=SLICE_S,
                        raise_floor=lambda positions: None,
                    )
                    self.service_s += time.perf_counter() - began
                    more = done.more


def plot(points: Sequence[dict], file: Path) -> None:
    """A picture of the read cost by merges, for both tables."""
    width, height, left, below = 720, 360, 60, 40
    most = max(point["read_s"] for point in points) or 1.0
    last = max(point["merge"] for point in points)
    lines = []
    for label, colour in ((ON, "#1b7f5c"), (OFF, "#b3402a")):
        spots = [
            (
                left + (width - left - 20) * point["merge"] / last,
                height - below - (height - below - 30) * point["read_s"] / most,
            )
            for point in points
            if point["table"] == label
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        lines.append(
            f'<text x="{spots[-1][0] - 90:.1f}" y="{spots[-1][1] - 8:.1f}" fill="{colour}">{escape(label)}</text>'
        )
    axes = (
        f'<path d="M{left} 20V{height - below}H{width - 10}" stroke="#444" fill="none"/>'
        f'<text x="8" y="16">seconds per read (local), at most {most:.2f}</text>'
        f'<text x="{width - 150}" y="{height - 12}">merges, to {last}</text>'
    )
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="#fff"/>{axes}{"".join(lines)}</svg>\n'
    )


def main() -> None:
    """Merge in turns, measure, keep the raw values, draw, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--merges", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="merges between two measured reads")
    given = parser.parse_args()
    if given.merges < 2 * given.every:
        parser.error("at least two measured reads are needed: the comparison is with the first")
    spark, clock, chosen = session(), WallClock(), random.Random(7)
    points: list[dict] = []
    with tempfile.TemporaryDirectory(prefix="sluice-services-") as folder:
        tables = {ON: Table(spark, Path(folder), "served", clock), OFF: Table(spark, Path(folder), "unserved", clock)}
        for merge in range(given.merges + 1):
            numbers = range(given.rows) if merge == 0 else sorted(chosen.sample(range(given.rows), given.changes))
            rows = changes(spark, numbers, merge)
            for label, table in tables.items():
                seconds = table.merge(rows, merge)
                if label == ON:
                    table.serve(merge)
                if merge == 1:
                    read_seconds(spark, table.hudi.path)  # the first reads measure the JVM's warm-up
                if merge and merge % given.every == 0:
                    points.append(
                        {
                            "table": label,
                            "merge": merge,
                            "merge_s": seconds,
                            "read_s": read_seconds(spark, table.hudi.path),
                            **pending(table.jvm, table.hudi.path),
                        }
                    )
                    print(points[-1], flush=True)
        service_s = round(tables[ON].service_s, 1)
    spark.stop()
    results = {"service_s": service_s}
    for label in (ON, OFF):
        of_label = [point for point in points if point["table"] == label]
        first, last = of_label[0], of_label[-1]
        results[label] = {
            f"read_at_{first['merge']}_s": first["read_s"],
            f"read_at_{last['merge']}_s": last["read_s"],
            "ratio": round(last["read_s"] / first["read_s"], 2),
            "files_read_first": first["read_files"],
            "files_read_last": last["read_files"],
            "stored_files": last["stored_files"],
            "stored_mb": round(last["stored_bytes"] / 1e6, 1),
        }
    file = keep("services", parameters=vars(given), caveats=CAVEATS, values=points, summary=results)
    picture = RESULTS / f"{file.stem}.svg"
    plot(points, picture)
    say("Reads with services on and off", CAVEATS, {**results, "picture": str(picture)}, file)


if __name__ == "__main__":
    main()
