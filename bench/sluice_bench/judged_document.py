"""Writes docs/judged.md: which recorded sets equal their source databases' rows, by reader, from the results of judge_all.

    python -m sluice_bench.judged_document [--results bench/results/judge]
"""
import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judging.cases import PLANS
from sluice_bench.judge_all import RESULTS_FOLDER, all_cases

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "judged.md"
_HEAD = """# Judged against the source databases

What `make judge-all` found: objects that real Debezium and Kafka Connect wrote, put into a local stack in every order that their set lists, in one batch and phase by phase, into tables of both types,
and read after each phase, merge-on-read tables once more after their compaction, by hudi-rs, by Spark with the Hudi of the release, and by Spark with Hudi 0.15.0. Equal means that every row
and every value is the one that the source database itself gave at that moment. Made by `python -m sluice_bench.judged_document`; don't edit by hand.
"""

_FOOT = """Hudi 0.15.0 takes a partition column's value from the path in copy-on-write tables, where empty text and null are one and a number is guessed;
of these it is judged on the sets that have no such value. Merge-on-read tables it reads in all sets."""


def text(results: Sequence[Mapping[str, Any]]) -> str:
    """The document of the results. Raises ValueError when there are none."""
    if not results:
        raise ValueError("no case has a result: run `make judge-all` first")
    judgements = [judgement for result in results for judgement in result["judgements"]]
    readers = sorted({judgement["reader"] for judgement in judgements})
    wanted = len(all_cases())
    commits = sorted({result["machine"]["commit"] for result in results})
    equal = sum(bool(result["equal"]) for result in results)
    lines = [_HEAD, f"**{equal} of {wanted} cases equal**" + (f"; {wanted - len(results)} have no result" if len(results) < wanted else "")
             + f". {len(judgements):,} readings of {sum(judgement['rows'] for judgement in judgements):,} rows. Commit {', '.join(commits)}.", "",
             f"| set | cases | equal | {' | '.join(f'readings by {reader}, equal' for reader in readers)} |", "|---|---:|---:|" + "---:|" * len(readers)]
    lines += _rows(results, readers)
    lines += ["", _FOOT]
    return "\n".join(lines) + "\n"


def _rows(results: Sequence[Mapping[str, Any]], readers: Sequence[str]) -> Iterable[str]:
    for name in PLANS:
        mine = [result for result in results if result["case"].startswith(f"{name}-")]
        if not mine:
            continue
        by_reader = []
        for reader in readers:
            seen = [judgement["equal"] for result in mine for judgement in result["judgements"] if judgement["reader"] == reader]
            by_reader.append(f"{len(seen):,}, {sum(seen):,}")
        yield f"| {name} | {len(mine)} | {sum(bool(result['equal']) for result in mine)} | {' | '.join(by_reader)} |"


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS_FOLDER)
    given = parser.parse_args()
    DOCUMENT.write_text(text([json.loads(file.read_text(encoding="utf-8")) for file in sorted(given.results.glob("*.json"))]), encoding="utf-8")


if __name__ == "__main__":
    main()
