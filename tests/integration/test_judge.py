"""What real connectors wrote, through the whole stack, equals the rows that the source databases had: every pair of set, order, pace and table type."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest
from judging.cases import OTHERS, SIDE_OBJECTS, Case, pairwise
from judging.fixture_sets import SetMissing, find_set
from judging.readers import Reader, RustReader, SparkReader
from judging.running_stack import RunningStack, local_stack
from judging.session import Judgement, run_cases

from sluice_local.images.jars import HUDI, ensure_jars
from sluice_local.images.java import find_java

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(1_800)]

CASES = (*pairwise(), *OTHERS)
TIMEOUT_S = 900.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with local_stack(tmp_path_factory.mktemp("judged-stack")) as running:
        yield running


@pytest.fixture(scope="module")
def readers(stack: RunningStack) -> Iterator[tuple[Reader, ...]]:
    with ExitStack() as opened:
        spark = opened.enter_context(
            SparkReader(
                silver_bucket=stack.target.silver,
                s3=stack.s3,
                jars=ensure_jars(),
                java_home=find_java(os.environ).home,
                hudi=HUDI,
            )
        )
        yield (RustReader(stack.target), spark)


@pytest.fixture(scope="module")
def judgements(
    request: pytest.FixtureRequest, stack: RunningStack, readers: tuple[Reader, ...]
) -> Mapping[str, list[Judgement]]:
    """The selected cases land side by side, so that the stack and its one Spark application are shared; a case whose set is not here is left out."""
    selected = {
        item.callspec.params["case"]
        for item in request.session.items
        if item.path == request.path and "case" in item.callspec.params
    }
    cases = [(case, find_set(case.set_name, os.environ)) for case in CASES if case in selected and not missing(case)]
    found: dict[str, list[Judgement]] = {}
    for judgement in run_cases(cases, stack, readers, os.environ, timeout_s=TIMEOUT_S):
        found.setdefault(judgement.case, []).append(judgement)
    return found


def missing(case: Case) -> str:
    """Why a case can't run here; empty when it can."""
    try:
        find_set(case.set_name, os.environ)
    except SetMissing as reason:
        return str(reason)
    return ""


def needs_its_set(case: Case):
    reason = missing(case)
    return pytest.param(case, id=case.id, marks=pytest.mark.skip(reason=reason) if reason else ())


@pytest.mark.parametrize("case", [needs_its_set(case) for case in CASES])
def test_every_table_equals_the_databases_rows_by_both_readers_after_every_phase(
    case: Case, judgements: Mapping[str, list[Judgement]]
):
    mine = judgements[case.id]
    assert len(mine) == 2 * len(case.steps(find_set(case.set_name, os.environ)))
    assert not [judgement for judgement in mine if not judgement.equal], "\n".join(
        f"{j.phase} by {j.reader}: {j.differences}" for j in mine if not j.equal
    )


@pytest.mark.parametrize("case", [needs_its_set(SIDE_OBJECTS)])
def test_side_objects_give_no_row_and_are_ignored_by_a_rule_that_is_named(
    case: Case, judgements: Mapping[str, list[Judgement]], stack: RunningStack
):
    assert judgements[case.id][0].equal
    target, fixtures = stack.target, find_set(case.set_name, os.environ)
    side = [
        item
        for item in stack.ledger_objects(target.bronze, prefix=f"topics/{case.topic('')}")
        if item["state"] == "ignored"
    ]
    assert len(side) == fixtures.side_objects() > 0
    assert all(item["rule"] for item in side)
