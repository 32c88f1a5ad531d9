"""Runs cases on a stack side by side, step by step, and judges what each reader sees after each step."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from judging.cases import Case
from judging.fixture_sets import FixtureSet, Phase
from judging.readers import Reader
from judging.running_stack import RunningStack
from judging.verdict import Verdict, judge
from sluice.config.table import MOR
from sluice.services.requests import COMPACTION

LANE = "main"
COMPACTED_AT_ONCE = 4


@dataclass(frozen=True)
class Judgement:
    """The verdict on one reader, case and phase.

    `seconds` is the time from the step's first put to the last commit of all its cases.
    """

    case: str
    phase: str
    reader: str
    equal: bool
    differences: Mapping[str, Mapping]
    rows: int
    seconds: float

    def to_dict(self) -> dict:
        """Plain JSON values."""
        return asdict(self)


def run_cases(
    cases: Sequence[tuple[Case, FixtureSet]],
    stack: RunningStack,
    readers: Sequence[Reader],
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    compacted: bool = False,
    report: Callable[[Judgement], None] = lambda judgement: None,
) -> list[Judgement]:
    """Land the cases side by side (step n of each before step n+1 of any) and judge each after each of its steps.

    With `compacted`, merge-on-read tables are compacted at the end and judged once more. The lane is paused while the
    first and largest step's objects are put, so that they make one or two batches; otherwise the first ones are merged
    while the last are still being put, and each table several times.

    Side by side, because a batch then merges many tables at once, as for a user, and because the waits are shared.
    """
    stack.configure([rule for case, fixtures in cases for rule in case.rules(fixtures.plan.topics)])
    judgements: list[Judgement] = []
    plans = [(case, fixtures, case.steps(fixtures)) for case, fixtures in cases]
    for number in range(max(len(steps) for _, _, steps in plans)):
        now = [(case, fixtures, steps[number]) for case, fixtures, steps in plans if number < len(steps)]
        started = time.monotonic()
        held_back = number == 0  # later a pause would end the living run, and have Spark start anew
        if held_back:
            stack.sluice("pause", LANE)
        _put(stack, [[(case.key(item.key), item.file) for item in objects] for case, _, (_, objects) in now])
        if held_back:
            stack.sluice("resume", LANE)
        stack.wait(timeout_s, strict=False)  # rows that are rightly in quarantine: what is lacking is judged
        seconds = time.monotonic() - started
        judgements += _judgements(
            [(case, fixtures, phase, phase.name) for case, fixtures, (phase, _) in now],
            readers,
            environment,
            seconds=seconds,
            report=report,
        )
    if compacted:
        mergeable = [(case, fixtures, steps[-1][0]) for case, fixtures, steps in plans if case.table_type == MOR]
        started = time.monotonic()
        _compact(
            stack, [case.table(topic) for case, fixtures, _ in mergeable for topic in fixtures.plan.topics], timeout_s
        )
        judgements += _judgements(
            [(case, fixtures, phase, f"{phase.name} compacted") for case, fixtures, phase in mergeable],
            readers,
            environment,
            seconds=time.monotonic() - started,
            report=report,
        )
    return judgements


def _compact(stack: RunningStack, tables: Sequence[str], timeout_s: float) -> None:
    """Compact every table, several at a time, since most of a request is the wait for its outcome."""

    def one(table: str) -> None:
        stack.sluice_process(
            "services", "run", table, "--service", COMPACTION, "--wait", str(int(timeout_s)), timeout_s=timeout_s + 60
        )

    with ThreadPoolExecutor(COMPACTED_AT_ONCE) as pool:
        list(pool.map(one, tables))


def _judgements(
    landed: Sequence[tuple[Case, FixtureSet, Phase, str]],
    readers: Sequence[Reader],
    environment: Mapping[str, str],
    *,
    seconds: float,
    report: Callable[[Judgement], None],
) -> list[Judgement]:
    """Judge the cases by every reader. The readers run side by side, since each waits for much of its time."""

    def by(reader: Reader) -> list[Judgement]:
        judgements = []
        for case, fixtures, phase, called in landed:
            if reader.reads(case, at_end=phase == fixtures.phases[-1]):
                verdict, rows = _judged(case, fixtures, phase, reader, environment)
                judgements.append(
                    Judgement(
                        case.id, called, reader.name, verdict.equal, verdict.differences(), rows, round(seconds, 1)
                    )
                )
        return judgements

    with ThreadPoolExecutor(len(readers)) as pool:
        all_judged = [judgement for judgements in pool.map(by, readers) for judgement in judgements]
    for judgement in all_judged:
        report(judgement)
    return all_judged


def _put(stack: RunningStack, sequences: Sequence[Sequence[tuple[str, Path]]]) -> None:
    """Put the objects of each case in order, and the cases side by side."""
    stack.target.client("s3")  # made before threads share it

    def put_all(objects: Sequence[tuple[str, Path]]) -> None:
        for key, file in objects:
            stack.put(key, file)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put_all, sequences))


def _judged(
    case: Case, fixtures: FixtureSet, phase, reader: Reader, environment: Mapping[str, str]
) -> tuple[Verdict, int]:
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        files = {case.table(topic): Path(folder) / f"{topic.rsplit('.', 1)[1]}.jsonl" for topic in fixtures.plan.topics}
        reader.write_rows(files)
        rows = sum(file.read_bytes().count(b"\n") for file in files.values())
        return judge(fixtures, Path(folder), phase, environment), rows
