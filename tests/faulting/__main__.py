"""Runs faults on a local stack of its own and writes docs/evidence/faults.md. Resumable; ends by itself.

    python -m faulting [NAME ...] [--times 1] [--again]

A NAME stands for every fault that begins with it; none for all. Faults that were run at this commit as often as asked
are left out, unless --again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from judging.running_stack import local_stack

from faulting import report
from faulting.proxy import fault_proxy
from faulting.strike import Struck, strike
from faulting.table import FAULTS, named
from faulting.world import SETTINGS

REPOSITORY = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run what is outstanding. Returns 0 if all that was asked for is clean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="faults whose names begin with one of these; all by default"
    )
    parser.add_argument("--times", type=int, default=1, help="how often each fault is run")
    parser.add_argument("--again", action="store_true", help="run faults that were run at this commit, too")
    given = parser.parse_args()
    try:
        faults = named(given.names)
    except ValueError as unknown:
        parser.error(str(unknown))
    commit, runs = _commit(), report.kept()
    done = {} if given.again else {name: sum(run["commit"] == commit for run in made) for name, made in runs.items()}
    todo = [fault for fault in faults for _ in range(given.times - done.get(fault.name, 0))]
    print(f"{len(faults)} of {len(FAULTS)} faults, {len(todo)} runs to do", flush=True)
    failed = []
    outstanding = list(enumerate(todo, 1))
    while outstanding:  # on a new stack after a fault that raised: it may have left what the next one would wait for
        with tempfile.TemporaryDirectory(prefix="sluice-faults-") as home, local_stack(Path(home) / "stack") as stack:
            assert stack.target.endpoint is not None
            with fault_proxy(stack.target.endpoint) as proxy:
                while outstanding:
                    number, fault = outstanding.pop(0)
                    print(f"[{number}/{len(todo)}] {fault.name}: {fault.strikes}", flush=True)
                    began = time.monotonic()
                    try:
                        struck = strike(fault, stack, proxy)
                    except Exception:
                        traceback.print_exc()
                        failed.append(fault.name)
                        break
                    report.keep(_record(struck, commit, time.monotonic() - began))
                    report.main()
                    print(f"    {_described(struck)}", flush=True)
                    if not struck.verdict.clean:
                        failed.append(fault.name)
    report.main()
    print(f"{len(todo) - len(failed)} of {len(todo)} runs clean" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed else 0


def _described(struck: Struck) -> str:
    verdict = struck.verdict
    return (
        f"{'clean' if verdict.clean else 'NOT CLEAN'} after {struck.seconds:.0f} s: {verdict.rows} rows, "
        f"{verdict.lost} lost, {verdict.doubled} doubled, {verdict.wrong} wrong, {verdict.aside} rightly set aside "
        f"{dict(verdict.problems) or ''}"
    )


def _record(struck: Struck, commit: str, took: float) -> dict:
    verdict = struck.verdict
    return {
        "fault": struck.fault,
        "commit": commit,
        "at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "seconds": struck.seconds,
        "took": round(took, 1),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[1], 1),
        "job_runs": struck.runs,
        "happened": dict(struck.happened),
        "clean": verdict.clean,
        "rows": verdict.rows,
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "wrong": verdict.wrong,
        "aside": verdict.aside,
        "settings": list(SETTINGS),
        "problems": {kind: list(items) for kind, items in verdict.problems.items()},
    }


def _commit() -> str:
    """The commit, with '+changes' if the tree differs in more than the report."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!docs/evidence/faults.json", ":!docs/evidence/faults.md")
    return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")


if __name__ == "__main__":
    sys.exit(main())
