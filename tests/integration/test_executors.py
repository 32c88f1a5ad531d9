"""Tasks in executors of their own: what connectors wrote equals the source's rows, also after an executor died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from judging.cases import Case
from judging.fixture_sets import SetMissing, find_set
from judging.readers import RustReader
from judging.running_stack import RunningStack, local_stack
from judging.session import Judgement, run_cases

pytestmark = [pytest.mark.timeout(1800), pytest.mark.whole]

EXECUTORS = 2
# With repetitions the objects of a table are more than what the driver reads by itself.
LOAD_AND_CHANGES = [Case("pagila_env", "at_least_once", "one_go", kind) for kind in ("cow", "mor")]
AFTER_A_DEATH = [Case("pagila_env", "reversed", "one_go", "cow", run="again")]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    try:
        find_set(LOAD_AND_CHANGES[0].set_name, os.environ)
    except SetMissing as reason:
        pytest.skip(str(reason))
    with local_stack(tmp_path_factory.mktemp("executors"), "--executors", str(EXECUTORS)) as stack:
        yield stack


def judged(stack: RunningStack, cases: list[Case]) -> list[Judgement]:
    selected = [(case, find_set(case.set_name, os.environ)) for case in cases]
    return run_cases(selected, stack, [RustReader(stack.target)], os.environ, timeout_s=900.0)


def executors(stack: RunningStack) -> list[int]:
    """The processes of this stack's executors."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        backend = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
        if backend in words and any(str(stack.home).encode() in word for word in words):
            processes.append(int(process.name))
    return processes


def test_a_load_and_its_changes_equal_the_source_over_two_executors(stack: RunningStack) -> None:
    judgements = judged(stack, LOAD_AND_CHANGES)
    assert judgements and not [judgement for judgement in judgements if not judgement.equal]
    assert len(executors(stack)) == EXECUTORS


def test_a_run_goes_on_after_an_executor_died(stack: RunningStack) -> None:
    died = executors(stack)[0]
    os.kill(died, signal.SIGKILL)
    judgements = judged(stack, AFTER_A_DEATH)
    assert judgements and not [judgement for judgement in judgements if not judgement.equal]
    assert died not in executors(stack)
