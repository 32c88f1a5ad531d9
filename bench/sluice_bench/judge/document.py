"""Writes docs/evidence/judged.md from the matrix's kept results: which recorded sets equal their sources, by reader.

python -m sluice_bench.judge.document [--take]   # --take: first copy the results of bench/results/judge
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from judging.cases import PLANS

from sluice_bench.judge import results
from sluice_bench.judge.matrix import RESULTS_FOLDER, all_cases
from sluice_bench.judge.results import Judged

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "evidence" / "judged.md"
_HEAD = """# Judged against the source databases

Results of `make judge-all`. It puts objects written by real Debezium and Kafka Connect into a local stack, in every
order that their set lists, in one batch and phase by phase, into tables of both types. It reads them after each
phase, and merge-on-read tables again after their compaction, by hudi-rs, by Spark with the release's Hudi, and by
Spark with Hudi 0.15.0. Equal means that every row and every value is the source database's own at that moment. Made
from [judged.json](judged.json), which has each case and its commit. Don't edit by hand.
"""
_FOOT = """
In copy-on-write tables Hudi 0.15.0 takes a partition column's value from the path, where empty text equals null and
numbers are guessed. So it reads copy-on-write tables only of sets without such values, and merge-on-read tables of
all sets.
"""


def text(judged_cases: Mapping[str, Judged]) -> str:
    """The document from the kept results."""
    cases = [case.id for case in all_cases()]
    judged = [judged_cases[case] for case in cases if case in judged_cases]
    readers = sorted({reader for case in judged for reader in case.readings})
    missing = len(cases) - len(judged)
    summed = f"**{sum(case.whole for case in judged)} of {len(cases)} cases equal**" + (
        f"; {missing} not judged yet" if missing else ""
    )
    readings, rows = sum(sum(case.readings.values()) for case in judged), sum(case.rows for case in judged)
    summed += f". {readings:,} readings of {rows:,} rows in total."
    commits = Counter(case.commit for case in judged)
    summed += (
        f" Tables made by commit {', '.join(f'{commit} ({cases})' for commit, cases in commits.most_common())}."
        if commits
        else ""
    )
    head = f"| set | cases judged | equal | {' | '.join(f'readings by {reader}, equal' for reader in readers)} |"
    return "\n".join(
        [_HEAD, summed, "", head, "|---|---:|---:|" + "---:|" * len(readers), *_rows(judged, readers), _FOOT]
    )


def _rows(judged: Iterable[Judged], readers: Iterable[str]) -> Iterable[str]:
    for name in PLANS:
        mine = [case for case in judged if case.case.startswith(f"{name}-")]
        if mine:
            by_reader = [
                f"{sum(case.readings.get(reader, 0) for case in mine):,}, "
                f"{sum(case.equal.get(reader, 0) for case in mine):,}"
                for reader in readers
            ]
            yield f"| {name} | {len(mine)} | {sum(case.whole for case in mine)} | {' | '.join(by_reader)} |"


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--take", action="store_true", help="first copy the results of bench/results/judge")
    if parser.parse_args().take:
        results.keep(
            results.judged(json.loads(file.read_text(encoding="utf-8")))
            for file in sorted(RESULTS_FOLDER.glob("*.json"))
        )
    DOCUMENT.write_text(text(results.kept()), encoding="utf-8")


if __name__ == "__main__":
    main()
