"""Compares reading and merging a first load with another checkout of this repository.

Both run in turns, each in its own process that stays warm.

python -m sluice_bench.tables.merge_cost OTHER_CHECKOUT [--pairs 7] [--warm-up 2] [--tables sale,listing]
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sluice_bench.measure.percentiles import ratios
from sluice_bench.measure.results import keep, say
from sluice_bench.tables.in_process_world import emulated_s3, make_buckets, s3_client
from sluice_bench.tables.merge_cost_side import READY

CAVEATS = (
    (
        "Only the job's code (functions, spark) comes from the other checkout. The data and the measurement are "
        "this checkout's."
    ),
    (
        "Tables are local files, without ledger and lane: only reading, deciding and committing are timed. The "
        "first merges of a process, during which Java compiles, are separate values."
    ),
)
OTHER, THIS = "other", "this"
OWN = Path(__file__).resolve().parents[3]


class SideEnded(Exception):
    """A side's process ended before its answer; its output is above."""


@contextmanager
def side(checkout: Path, endpoint: str, tables: str) -> Iterator[subprocess.Popen]:
    """A ready process that merges with a checkout's code."""
    path = [
        *(str(checkout / part) for part in ("functions", "spark")),
        *(str(OWN / part) for part in ("local", "cli", "bench")),
    ]
    command = [sys.executable, "-m", "sluice_bench.tables.merge_cost_side", endpoint, tables]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        while (line := answer(process)).strip() != READY:
            print(line, end="", flush=True)
        yield process


def answer(process: subprocess.Popen) -> str:
    """The next line of a side. Raises SideEnded."""
    line = process.stdout.readline()
    if not line:
        raise SideEnded(f"{process.args[2]} ended with {process.wait()}")
    return line


def merge(process: subprocess.Popen) -> dict[str, float]:
    """Merge every table by one side. Returns seconds and processor seconds over all tables."""
    process.stdin.write("merge\n")
    process.stdin.flush()
    tables = json.loads(answer(process)).values()
    return {name: round(sum(table[name] for table in tables), 3) for name in ("seconds", "processor_s")}


def compared(values: Sequence[Mapping], name: str) -> dict[str, object]:
    """Ratios of this checkout to the other, pair by pair, and their median."""
    return ratios([value[THIS][name] for value in values], [value[OTHER][name] for value in values])


def main() -> None:
    """Merge in turns, keep every value, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=2, help="pairs that warm up and are not counted")
    parser.add_argument(
        "--tables", default="sale,listing", help="of: category, date, event, listing, sale, user, venue"
    )
    given = parser.parse_args()
    values = []
    with emulated_s3() as endpoint, ExitStack() as open_sides:
        make_buckets(s3_client(endpoint))
        sides = {
            name: open_sides.enter_context(side(checkout.resolve(), endpoint, given.tables))
            for name, checkout in ((OTHER, given.other), (THIS, OWN))
        }
        for number in range(given.warm_up + given.pairs):
            order = (OTHER, THIS) if number % 2 else (THIS, OTHER)  # in alternating order, so that heat affects both
            values.append({name: merge(sides[name]) for name in order})
            print(f"{number + 1} of {given.warm_up + given.pairs}: {values[-1]} (local)", flush=True)
        for process in sides.values():
            process.stdin.close()
    warm = values[given.warm_up :]
    summary = {
        "seconds": compared(warm, "seconds"),
        "processor_s": compared(warm, "processor_s"),
        "first, seconds": compared(values[:1], "seconds"),
    }
    commit = subprocess.run(
        ["git", "-C", str(given.other), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    file = keep(
        "merge-cost", parameters={**vars(given), "other": commit}, caveats=CAVEATS, values=values, summary=summary
    )
    say("Merging compared with another checkout", CAVEATS, summary, file)


if __name__ == "__main__":
    main()
