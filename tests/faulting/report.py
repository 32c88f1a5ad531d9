"""The kept runs of faults, docs/evidence/faults.json, and the page made from them, docs/evidence/faults.md.

python -m faulting.report

"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from faulting.fault import Fault
from faulting.table import FAULTS
from sluice_bench.measure.percentiles import percentile

DOCS = Path(__file__).resolve().parents[2] / "docs" / "evidence"
KEPT, PAGE = DOCS / "faults.json", DOCS / "faults.md"
NOT_RUN = "not run yet"

Run = Mapping[str, Any]

_HEAD = """# Faults

What becomes of four tables when something breaks while they are written, on the local stack: real Spark and Hudi,
with S3 and DynamoDB emulated. One table has no rule of its own; one has `history` and partitions between which rows
move; one has `columns` (excluded, renamed, masked and hashed) and `expect`, with objects that hold unexpected rows; one
is `append_only`. `make faults` strikes each fault while a batch runs or waits, lands another round of objects, waits
until all is committed, and judges: every table holds the rows that were put, the history table and the append-only one
every change once; left-out columns are absent, and exactly the unexpected rows are in quarantine; `sluice verify` and
`sluice audit` find nothing, no unfinished instant and no file of one is left, and the lane is at rest. Nothing helps a
recovery but the stack's own schedules, once a minute. Made from `faults.json`, which has each fault's runs at the
commit where it was run last. Don't edit by hand.

`make faults ARGS="killed"` runs the faults whose names begin with `killed`, `ARGS="--times 3"` each of them three
times, and `ARGS=--again` also those that were run at this commit. `make test` runs those marked with a star.

**Recovery** counts from the strike, or from the end of a fault that lasts, until everything that was put is committed:
the back-off of the lane, the start of Spark, and the merge of what was left and of another round. **Lost**,
**doubled** and **wrong** are rows, those of the history table too.
"""


def kept(file: Path = KEPT) -> dict[str, list[Run]]:
    """The kept runs by fault, oldest first."""
    by_fault: dict[str, list[Run]] = {}
    for run in json.loads(file.read_text(encoding="utf-8")) if file.exists() else ():
        by_fault.setdefault(run["fault"], []).append(run)
    return by_fault


def keep(run: Run, file: Path = KEPT) -> None:
    """Add a run. Runs of the same fault at other commits go. Each run is one line, so that a change is one line."""
    runs = kept(file)
    runs[run["fault"]] = [one for one in runs.get(run["fault"], ()) if one["commit"] == run["commit"]] + [run]
    places = {fault.name: number for number, fault in enumerate(FAULTS)}
    lines = [
        json.dumps(one, sort_keys=True)
        for name in sorted(runs, key=lambda name: (places.get(name, len(places)), name))
        for one in runs[name]
        if name in places
    ]
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def page(faults: Sequence[Fault], runs: Mapping[str, Sequence[Run]]) -> str:
    """The page: one line for each fault, and where a fault is only near to the one on AWS."""
    near = [f"- `{fault.name}`: {fault.nearest}" for fault in faults if fault.nearest]
    return "\n".join(
        [
            _HEAD,
            *_summed(faults, runs),
            "",
            "| fault | where it strikes | runs | what happened | recovery, s | lost | doubled | wrong |",
            "|---|---|---:|---|---:|---:|---:|---:|",
            *(_line(fault, runs.get(fault.name, ())) for fault in faults),
            "",
            *(["Faults that only come near to those on AWS:", "", *near, ""] if near else []),
        ]
    )


def _summed(faults: Sequence[Fault], runs: Mapping[str, Sequence[Run]]) -> Iterable[str]:
    every = [run for fault in faults for run in runs.get(fault.name, ())]
    if not every:
        yield NOT_RUN
        return
    clean = sum(run["clean"] for run in every)
    once = [run["seconds"] for run in every if run["job_runs"] == 1]
    rows = {kind: sum(run[kind] for run in every) for kind in ("rows", "lost", "doubled", "wrong")}
    commits = ", ".join(sorted({run["commit"] for run in every}))
    loads = [run["load"] for run in every]
    plain = sum(not run.get("settings") for run in every)
    aside = sum(run.get("aside", 0) for run in every)
    yield (
        f"**{clean} of {len(every)} runs clean**, of {sum(fault.name in runs for fault in faults)} of {len(faults)} "
        f"faults: "
        f"{rows['lost']} of {rows['rows']:,} rows lost, {rows['doubled']} doubled, {rows['wrong']} wrong"
        + (f", {aside:,} rightly set aside." if aside else ".")
        + (f" {plain} of these runs are older, and of three tables without such rules." if plain else "")
        + (
            f" Where Spark started once: recovery after {percentile(once, 0.5):.0f} s (p50), "
            f"{percentile(once, 0.95):.0f} s (p95), {max(once):.0f} s at most."
            if once
            else ""
        )
        + f" In all {sum(run['took'] for run in every) / 60:.0f} minutes on {every[0]['cores']} cores, at loads of "
        f"{min(loads):.1f} to {max(loads):.1f}; commit {commits}."
    )


def _line(fault: Fault, runs: Sequence[Run]) -> str:
    name = f"`{fault.name}`{' *' if fault.sample else ''}"
    if not runs:
        return f"| {name} | {fault.strikes} | 0 | {NOT_RUN} | | | | |"
    seconds = sorted(run["seconds"] for run in runs)
    recovery = f"{seconds[0]:.0f}" if len(seconds) == 1 else f"{seconds[0]:.0f} to {seconds[-1]:.0f}"
    sums = [sum(run[kind] for run in runs) for kind in ("lost", "doubled", "wrong")]
    return (
        f"| {name} | {fault.strikes} | {len(runs)} | {_happened(runs)} | {recovery} | "
        + " | ".join([*map(str, sums), ""]).rstrip()
    )


def _happened(runs: Sequence[Run]) -> str:
    """What drivers logged, summed over the runs."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run["happened"])
    started = sum(run["job_runs"] for run in runs)
    told = [f"{started} job run{'s' if started != 1 else ''} started"] if started else ["the living run went on"]
    told += [f"{name} {count}" for name, count in sorted(counts.items())]
    told += [f"**{kind}: {'; '.join(items[:3])}**" for run in runs for kind, items in run["problems"].items()]
    return ", ".join(told)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(FAULTS, kept()), encoding="utf-8")


if __name__ == "__main__":
    main()
