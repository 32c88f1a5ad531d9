"""Writes docs/evidence/benchmarks.md from the raw results in docs/evidence/benchmarks, caveats before numbers.

python -m sluice_bench.document [--take]   # --take: first copy the newest results of bench/results
"""

import argparse
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sluice_bench.measure.results import CAVEATS, RESULTS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "evidence"
KEPT, DOCUMENT = DOCS / "benchmarks", DOCS / "benchmarks.md"
# The measurements in the order of the document, with the command of each.
BENCHMARKS = (
    (
        "latency-lingering",
        "Latency from put to readable, with a lingering run",
        "python -m sluice_bench.pipeline.latency lingering --changes 30",
    ),
    (
        "latency-idle",
        "Latency from put to readable, from idle",
        "python -m sluice_bench.pipeline.latency idle --changes 30",
    ),
    (
        "latency-served",
        "Latency from put to readable, while table services run",
        "python -m sluice_bench.pipeline.latency_served --changes 30",
    ),
    (
        "full-load",
        "Full load, compared with an always-on job and a bare write",
        "python -m sluice_bench.pipeline.full_load",
    ),
    (
        "one-batch",
        "A change of each of 30 tables, and 1,000 changes of a million rows",
        "python -m sluice_bench.pipeline.one_batch",
    ),
    (
        "merge-cost",
        "Reading and merging, compared with another commit",
        "python -m sluice_bench.tables.merge_cost CHECKOUT",
    ),
    ("admit", "Admission: objects per second and AWS calls per object", "python -m sluice_bench.pipeline.admit"),
    ("commits", "Two thousand commits into one table", "python -m sluice_bench.pipeline.commits_2000"),
    (
        "bytes",
        "Bytes written per byte of change, compared with Hudi's defaults",
        "python -m sluice_bench.tables.bytes_written",
    ),
    ("small-objects", "Ten thousand small objects", "python -m sluice_bench.pipeline.small_objects"),
    (
        "backlog",
        "A backlog of a hundred thousand small objects",
        "python -m sluice_bench.pipeline.small_objects --objects 100000",
    ),
    ("shapes", "Loads and changes by the shape of a table", "make bench-shapes"),
    ("services", "Two hundred merges with table services on and off", "python -m sluice_bench.tables.services_200"),
)
_HEAD = f"""# Benchmarks

Made by `make bench` from the raw values in [benchmarks](benchmarks): one file per benchmark with all values, the
machine and the commit. Don't edit by hand.

**All measurements are local.** They compare designs and releases, and promise nothing about a deployment.

{chr(10).join(f"- {caveat}" for caveat in CAVEATS)}
"""


def take(results: Path = RESULTS, folder: Path = KEPT) -> list[Path]:
    """Copy the newest result of each benchmark, with its picture if there is one. Returns the written files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, _, _ in BENCHMARKS:
        files = sorted(results.glob(f"{name}-[0-9]*.json"))
        if files:
            written += [
                Path(shutil.copyfile(file, folder / f"{name}{file.suffix}"))
                for file in (files[-1], files[-1].with_suffix(".svg"))
                if file.exists()
            ]
    return written


def text(folder: Path = KEPT) -> str:
    """The document from the kept results."""
    parts = [_HEAD]
    for name, title, command in BENCHMARKS:
        file = folder / f"{name}.json"
        parts.append(
            _section(title, command, json.loads(file.read_text(encoding="utf-8")), _picture(folder, name, title))
            if file.exists()
            else f"## {title}\nNot kept yet: `{command}`.\n"
        )
    return "\n".join(parts)


def _picture(folder: Path, name: str, title: str) -> list[str]:
    return [f"![{title}]({KEPT.name}/{name}.svg)", ""] if (folder / f"{name}.svg").exists() else []


def _section(title: str, command: str, result: Mapping[str, Any], picture: Iterable[str] = ()) -> str:
    machine = result["machine"]
    load = f", load {machine['load_1_5_15'][0]:.1f} when it ended" if machine.get("load_1_5_15") else ""
    lines = [
        f"## {title}",
        f"`{command}`; {result['measured_at'][:10]}, commit {machine['commit']}, "
        f"{machine['usable_cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB{load}.",
        "",
    ]
    lines += [f"- {caveat}" for caveat in result["caveats"] if caveat not in CAVEATS]
    lines += ["", *_table(result["summary"]), "", *picture]
    return "\n".join(lines)


def _table(summary: Mapping[str, Any]) -> Iterable[str]:
    """One row per line of the summary. Lines that are mappings with the same keys get a column for each key."""
    nested = {label: value for label, value in summary.items() if isinstance(value, Mapping)}
    columns = list(dict.fromkeys(name for value in nested.values() for name in value))
    if columns:
        yield f"| local | {' | '.join(columns)} |"
        yield "|---|" + "---:|" * len(columns)
        for label, value in nested.items():
            yield f"| {label} | {' | '.join(_describe(value.get(name)) for name in columns)} |"
    plain = {label: value for label, value in summary.items() if label not in nested}
    if plain:
        yield from ("",) if columns else ()
        yield "| local | |"
        yield "|---|---:|"
        yield from (f"| {label} | {_describe(value)} |" for label, value in plain.items())


def _describe(value: Any) -> str:
    return (
        ""
        if value is None
        else f"{value:,}"
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else json.dumps(value)
        if not isinstance(value, str)
        else value
    )


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--take", action="store_true", help="first copy the newest results of bench/results")
    if parser.parse_args().take:
        print("taken over:", ", ".join(file.name for file in take()) or "nothing")
    DOCUMENT.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
