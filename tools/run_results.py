"""Sums up test runs from their JUnit files: the slowest test files, and one line of totals at the end.

Usage: python tools/run_results.py RESULTS.xml ... Exits with 1 if a test failed or a file is missing.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SHOWN = 10
FAILED = ("failure", "error")


@dataclass(frozen=True)
class Case:
    """One test: its file, its seconds with set-up and tear-down, and `passed`, `failed` or `skipped`."""

    file: str
    seconds: float
    result: str


def cases(junit: str) -> list[Case]:
    """The tests of a JUnit document of pytest's family xunit1, which names files. Raises ParseError."""
    return [
        Case(test.get("file", "?"), float(test.get("time", 0)), _result({child.tag for child in test}))
        for test in ElementTree.fromstring(junit).iter("testcase")
    ]


def _result(tags: Iterable[str]) -> str:
    if not set(FAILED).isdisjoint(tags):
        return "failed"
    return "skipped" if "skipped" in tags else "passed"


def slowest(run: Iterable[Case], most: int = SHOWN) -> list[tuple[str, float]]:
    """The files that took longest, with their seconds."""
    seconds: Counter[str] = Counter()
    for case in run:
        seconds[case.file] += case.seconds
    return seconds.most_common(most)


def totals(run: Sequence[Case]) -> str:
    """For example "2966 passed, 0 failed, 8 skipped"."""
    counts = Counter(case.result for case in run)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    return f"{counts['passed']} passed, {counts['failed']} failed{skipped}"


def main(files: Sequence[str]) -> int:
    """Print the summary of the files; returns the exit status."""
    missing = [file for file in files if not Path(file).is_file()]
    run = [case for file in files if file not in missing for case in cases(Path(file).read_text(encoding="utf-8"))]
    print(f"\nThe {SHOWN} slowest files, in seconds of their tests:")
    for file, seconds in slowest(run):
        print(f"{seconds:8.1f}  {file}")
    for file in missing:
        print(f"no results: {file}")
    print(totals(run))
    return 1 if missing or any(case.result == "failed" for case in run) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
