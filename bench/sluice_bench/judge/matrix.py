"""Judges the whole matrix of recorded sets against the source databases' rows: sets x orders x pace x table type.

Resumable. Spark, hudi-rs and Hudi 0.15.0 read every table, and merge-on-read tables again after their compaction.

    python -m sluice_bench.judge.matrix [--side-by-side 8] [--only TEXT] [--again]

Keeps one JSON file per case in bench/results/judge/. Unless --again, skips cases with a file there and cases that are
equal in docs/evidence/judged.json.
"""

import argparse
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from judging.cases import Case, matrix
from judging.fixture_sets import SetMissing, find_set
from judging.readers import Reader, RustReader, SparkReader
from judging.running_stack import RunningStack
from judging.session import Judgement, run_cases

from sluice_bench.judge.results import Judged, judged, kept
from sluice_bench.measure.machine import describe_machine
from sluice_bench.measure.results import RESULTS
from sluice_bench.measure.stack import bench_stack
from sluice_local.images.jars import HUDI, ensure_jars
from sluice_local.images.java import find_java

RESULTS_FOLDER = RESULTS / "judge"
OLD_HUDI = "0.15.0"  # of Athena's generation of readers
# In copy-on-write tables the old reader takes partition values from the path, where empty text equals null and
# numbers are guessed. So it reads sets with only text there.
COPIES_FOR_THE_OLD = ("types_flat_precise", "outbox_json_confluent", "outbox_json_lenses")
TIMEOUT_S = 900.0


def all_cases() -> tuple[Case, ...]:
    """The matrix."""
    return tuple(matrix())


@contextmanager
def all_readers(stack: RunningStack) -> Iterator[tuple[Reader, ...]]:
    """Open hudi-rs, Spark with the release's Hudi, and Spark with the Hudi of Athena's generation."""
    java = find_java(os.environ)
    with ExitStack() as open_readers:
        spark = [
            open_readers.enter_context(
                SparkReader(
                    silver_bucket=stack.target.silver,
                    s3=stack.s3,
                    jars=ensure_jars(version),
                    java_home=java.home,
                    hudi=version,
                    copies_of=sets,
                )
            )
            for version, sets in ((HUDI, None), (OLD_HUDI, COPIES_FOR_THE_OLD))
        ]
        yield (RustReader(stack.target), *spark)


def outstanding(cases: Sequence[Case], folder: Path, judged_before: Mapping[str, Judged]) -> list[Case]:
    """The cases without a result here that aren't equal in the repository's kept results."""
    equal = {name for name, result in judged_before.items() if result.whole}
    return [case for case in cases if case.id not in equal and not (folder / f"{case.id}.json").exists()]


def keep_case(case: Case, judgements: Sequence[Judgement], folder: Path) -> bool:
    """Write a case's result atomically. Returns whether every reader saw the source's rows after every phase."""
    mine = [judgement for judgement in judgements if judgement.case == case.id]
    equal = bool(mine) and all(judgement.equal for judgement in mine)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{case.id}.partial"
    partial.write_text(
        json.dumps(
            {"case": case.id, "equal": equal, "machine": describe_machine(), "judgements": [j.to_dict() for j in mine]},
            indent=1,
        )
        + "\n"
    )
    partial.replace(folder / f"{case.id}.json")
    return equal


def main() -> int:
    """Run the outstanding cases. Returns 0 if all cases have a result and are equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side-by-side", type=int, default=8, help="number of cases that run side by side")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--again", action="store_true", help="run cases that have a result, too")
    parser.add_argument("--results", type=Path, default=RESULTS_FOLDER)
    given = parser.parse_args()
    cases = [case for case in all_cases() if given.only in case.id]
    todo = cases if given.again else outstanding(cases, given.results, kept())
    print(f"{len(cases)} cases, {len(cases) - len(todo)} have a result, {len(todo)} to run", flush=True)
    if todo:
        with bench_stack() as stack, all_readers(stack) as readers:
            for start in range(0, len(todo), given.side_by_side):
                _run(todo[start : start + given.side_by_side], stack, readers, given.results)
    return _tell(cases, given.results)


def _run(cases: Sequence[Case], stack: RunningStack, readers: Sequence[Reader], folder: Path) -> None:
    wanted = [
        replace(case, run=secrets.token_hex(3)) for case in cases
    ]  # unique, since an interrupted case leaves tables behind
    try:
        together = [(case, find_set(case.set_name, os.environ)) for case in wanted]
    except SetMissing as missing:
        sys.exit(str(missing))
    judgements = run_cases(
        together,
        stack,
        readers,
        os.environ,
        timeout_s=TIMEOUT_S,
        compacted=True,
        report=lambda j: print(
            f"{'equal    ' if j.equal else 'DIFFERENT'} {j.case} after {j.phase} by {j.reader}: {j.rows} rows",
            flush=True,
        ),
    )
    for case in wanted:
        keep_case(case, judgements, folder)


def _tell(cases: Sequence[Case], folder: Path) -> int:
    files = {case.id: folder / f"{case.id}.json" for case in cases}
    here = {name: judged(json.loads(file.read_text())) for name, file in files.items() if file.exists()}
    results_by_case = {name: result for name, result in {**kept(), **here}.items() if name in files}
    different = sorted(name for name, result in results_by_case.items() if not result.whole)
    print(
        f"{len(results_by_case) - len(different)} of {len(cases)} cases equal"
        + "".join(f"\n  different: {name}" for name in different)
    )
    return 0 if len(results_by_case) == len(cases) and not different else 1


if __name__ == "__main__":
    sys.exit(main())
