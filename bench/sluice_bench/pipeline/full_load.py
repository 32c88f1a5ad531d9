"""Measures the full load: 424,319 rows in seven tables by one run of Sluice.

Runs alternate with an always-on job (the peer) and a bare write of the same objects.

python -m sluice_bench.pipeline.full_load [--rounds 3] [--scale 1.0] [--peers streaming,tuned,bare] [--table-type cow]
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from judging.readers import read_session
from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES
from sluice_bench.data.tickit import Dataset, write_snapshot
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure import ledger_times
from sluice_bench.measure.machine import cpu_seconds
from sluice_bench.measure.percentiles import ratios, summary
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack, table_rules
from sluice_local.cache import cache_directory
from sluice_local.home import Home
from sluice_local.images.jars import ensure_jars
from sluice_local.images.java import find_java, trust_options

CAVEATS = (
    (
        "Sluice is timed from the first batch's claim to the last batch's commit, by the ledger. The times from "
        "the first put and with Spark's start are separate values."
    ),
    "Each round begins with a new run (`sluice`); its process then loads the same rows into other tables (`warm`).",
    (
        "The peer's queries run one after the other in a running session. Its start is a separate value, since an"
        " always-on job starts only once."
    ),
    "Only one side's Spark runs at a time, next to the emulator that serves both.",
    (
        "`cpu_s` are processor seconds of a side's processes, their start included and the emulator left out. The raw"
        " values have the emulator's and the load."
    ),
)
DRIVER_MEMORY = "4g"
SPARK_AVRO = (
    "org.apache.spark:spark-avro_2.12:3.5.7"  # Spark's Avro source is a separate package, which only the peer needs
)
TIMEOUT_S = 900.0
LANE, WARM = "main", "warm"
PEERS = {
    "streaming": ("streaming", False),
    "tuned": ("streaming", True),
    "bare": ("bare", False),
    "read": ("read", False),
}


def load_with_sluice(stack: RunningStack, folder: Path, prefix: str, *, warm: bool) -> dict[str, object]:
    """Put all objects, wait until they are settled, and read the times from the ledger.

    `warm`: into the run that lingers; else a new run begins, without any other object in the lane.
    """
    database = prefix.rstrip(".")
    if not warm:
        _end_run(stack)
    files = sorted(path for path in folder.rglob("*.avro"))
    before = processor_time(stack)
    put_at = time.time()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: stack.put(str(file.relative_to(folder)), file), files))
    put_s = time.time() - put_at
    stack.wait(TIMEOUT_S)
    waited_s = time.time() - put_at
    after = processor_time(stack)
    items = ledger_times.batch_items(stack.target.client("dynamodb"), stack.target.ledger_table)
    parts = [item for item in items if str(item["sk"]).startswith(f"table#{database}.")]
    wanted = {item["pk"] for item in parts}
    batches = [item for item in items if item["pk"] in wanted and item["sk"] == "batch"]
    claimed, committed = min(int(b["claimed_at"]) for b in batches), max(int(b["committed_at"]) for b in batches)
    return {
        "design": WARM if warm else "sluice",
        "seconds": round((committed - claimed) / 1000, 2),
        "from_first_put_s": round(committed / 1000 - put_at, 2),
        "put_s": round(put_s, 2),
        "waited_s": round(waited_s, 2),
        **{name: round(after[name] - before[name], 2) for name in after},
        "load": round(os.getloadavg()[0], 2),
        "batches": len(batches),
        "runs": len({b["run"] for b in batches}),
        "commits": len(parts),
        "objects": len(files),
        "parts": {
            str(part["sk"]).removeprefix("table#"): {
                "counts": part.get("counts"),
                "started_at": part.get("started_at"),
                "committed_at": part.get("committed_at"),
            }
            for part in parts
        },
    }


def _end_run(stack: RunningStack) -> None:
    """Have the lane begin a new run with its next object."""

    def lane() -> dict[str, Any]:
        return ledger_times.lane_item(stack.target.client("dynamodb"), stack.target.ledger_table, LANE)

    if not lane():
        return  # no object has come yet
    stack.sluice("pause", LANE)
    ledger_times.await_until(
        lambda: lane().get("state") == "paused",
        timeout_s=TIMEOUT_S,
        what="the end of the run before",
    )
    stack.sluice("resume", LANE)


def processor_time(stack: RunningStack) -> dict[str, float]:
    """Processor seconds so far of the emulator with the functions, and of all else: stand-in, driver and workers."""
    pids = Home(stack.home).description().pids
    emulator = cpu_seconds(pids["emulator"])
    return {"emulator_cpu_s": emulator, "cpu_s": cpu_seconds(pids["owner"]) - emulator}


def load_with_peer(stack: RunningStack, folder: Path, prefix: str, peer: str, table_type: str) -> dict[str, object]:
    """Run a peer over the objects that Sluice has just loaded from a folder."""
    keys = [str(file.relative_to(folder)) for file in sorted(folder.rglob("*.avro"))]
    newest = {key.split("/")[1].removeprefix(prefix): key for key in keys}
    samples = {table: newest[source.topic] for table, source in SOURCES.items()}
    return run_peer(stack, samples, prefix, peer, table_type)


def run_peer(
    stack: RunningStack, samples: Mapping[str, str], prefix: str, peer: str, table_type: str
) -> dict[str, object]:
    """Run a peer over all objects of topics of this prefix. `samples` has the key of an object of each table.

    Raises RuntimeError with the peer's output.
    """
    mode, tuned = PEERS[peer]
    target = stack.target
    bronze = f"s3a://{target.bronze}"
    tables = {
        table: (f"{bronze}/topics/{prefix}{source.topic}", f"{bronze}/{samples[table]}", source.key)
        for table, source in SOURCES.items()
    }
    job = {
        "tables": tables,
        "into": f"s3a://{target.silver}/_peer/{prefix}{peer}-{secrets.token_hex(4)}",
        "table_type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[table_type],
        "tuned": tuned,
    }
    cache = cache_directory(os.environ)
    session = read_session(ensure_jars(), stack.s3) | {
        "spark.jars.packages": SPARK_AVRO,
        "spark.jars.ivy": str(cache / "ivy"),
        "spark.default.parallelism": "2",
    }
    java = find_java(os.environ)
    options = " ".join(trust_options(os.environ, cache / "ivy"))
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f'--driver-memory {DRIVER_MEMORY} --driver-java-options "{options}" pyspark-shell',
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("peer.py")), mode, json.dumps(session), json.dumps(job)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tempfile.gettempdir(),
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the peer {peer} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    total = next(line for line in lines if line.get("total"))
    return {
        "design": peer,
        "seconds": total["writes_s"] if mode == "bare" else total["seconds"],
        "session_s": total["session_s"],
        "cpu_s": total["cpu_s"],
        "load": round(os.getloadavg()[0], 2),
        "rows": total["rows"],
        "tables": {line["table"]: line["seconds"] for line in lines if "table" in line},
    }


def run(rounds: int, scale: float, peers: Sequence[str], table_type: str) -> tuple[Mapping, list[dict]]:
    """Run Sluice, cold and warm, and then each peer `rounds` times, each load of Sluice on new topics and tables.

    Returns the summary and all measurements.
    """
    values: list[dict] = []
    with bench_stack() as stack, tempfile.TemporaryDirectory(prefix="sluice-bench-tickit-") as scratch:
        for number in range(rounds):
            prefixes = {design: f"{design}{number}x{secrets.token_hex(3)}." for design in ("sluice", WARM)}
            # Both before the run begins: it ends where a push gives it tables that it may not write.
            stack.configure(
                [rule for start in prefixes.values() for rule in table_rules(start, start.rstrip("."), table_type)]
            )
            for design in ("sluice", WARM, *peers):
                if design in prefixes:
                    prefix = prefixes[design]
                    folder = Path(scratch) / prefix
                    written = write_snapshot(folder, Dataset(Sizes.scaled(scale), prefix=prefix))
                    measured = load_with_sluice(stack, folder, prefix, warm=design == WARM)
                else:
                    measured = load_with_peer(stack, folder, prefix, design, table_type)
                values.append({"round": number, "rows_put": written["rows"], "bytes_put": written["bytes"], **measured})
                print(f"round {number} {design}: {measured['seconds']} s (local)", flush=True)
    return summarized(values, peers), values


def summarized(values: Sequence[Mapping], peers: Sequence[str]) -> dict[str, object]:
    """Seconds, rows and megabytes (10^6 bytes of Avro) per second for each design, and ratios to each peer."""
    designs = ("sluice", WARM, *peers)
    mine = {design: [v for v in values if v["design"] == design] for design in designs}
    seconds = {design: [float(v["seconds"]) for v in mine[design]] for design in designs}
    summaries: dict[str, object] = {f"{design}_s": summary(measured) for design, measured in seconds.items()}
    for design in designs:
        summaries[f"{design}, rows/s"] = summary([round(v["rows_put"] / v["seconds"]) for v in mine[design]])
        summaries[f"{design}, MB/s"] = summary([round(v["bytes_put"] / 1e6 / v["seconds"], 2) for v in mine[design]])
        summaries[f"{design}_cpu_s"] = summary([float(v["cpu_s"]) for v in mine[design]])
    for peer in peers:
        for design in ("sluice", WARM):
            summaries[f"{design}_to_{peer}"] = ratios(seconds[design], seconds[peer])
    return summaries


def main() -> None:
    """Run, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--peers", default="streaming,tuned,bare", help="of: " + ", ".join(PEERS))
    parser.add_argument("--table-type", choices=("cow", "mor"), default="cow")
    given = parser.parse_args()
    peers = [peer for peer in given.peers.split(",") if peer]
    results, values = run(given.rounds, given.scale, peers, given.table_type)
    file = keep("full-load", parameters=vars(given), caveats=CAVEATS, values=values, summary=results)
    say("Full load", CAVEATS, results, file)


if __name__ == "__main__":
    main()
