"""What real connectors wrote, through the whole stack, equals the rows that the source databases had.

`make test` lands three sets at one go, into both table types; Spark reads after the last phase.
`make test-all` lands every pair of them, and both readers read after each phase.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pytest
from judging.cases import OTHERS, SIDE_OBJECTS, Case, pairwise
from judging.fixture_sets import FixtureSet, SetMissing, find_set
from judging.readers import Reader, RustReader, SparkReader
from judging.running_stack import RunningStack
from judging.session import Judgement, run_cases
from support.extent import WHOLE

from sluice_local.images.jars import HUDI, ensure_jars
from sluice_local.images.java import find_java

pytestmark = pytest.mark.timeout(1800)

CASES = (*pairwise(), *OTHERS)
# Flattened records and envelopes, both table types. All pairs, paces and the other sets are left to `make test-all`.
IN_SHORT = {"tickit_small-at_least_once-one_go-mor", "pagila_env-shuffled-one_go-cow", SIDE_OBJECTS.id}
TIMEOUT_S = 900.0


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
                every_phase=WHOLE,
            )
        )
        yield (RustReader(stack.target), spark)


@pytest.fixture(scope="module")
def judgements(
    request: pytest.FixtureRequest, stack: RunningStack, readers: tuple[Reader, ...]
) -> Mapping[str, list[Judgement]]:
    """Land the selected cases side by side in one Spark application. A case whose set is missing is left out."""
    selected = {
        item.callspec.params["case"]
        for item in request.session.items
        if item.path == request.path and "case" in item.callspec.params
    }
    cases = [(case, in_extent(case)) for case in CASES if case in selected and not missing(case)]
    by_case: dict[str, list[Judgement]] = {}
    for judgement in run_cases(cases, stack, readers, os.environ, timeout_s=TIMEOUT_S):
        by_case.setdefault(judgement.case, []).append(judgement)
    return by_case


def in_extent(case: Case) -> FixtureSet:
    """The case's set. `make test` lands it without partitions, whose many files take most of the time."""
    fixtures = find_set(case.set_name, os.environ)
    if WHOLE:
        return fixtures
    topics = {topic: replace(keyed, partition_by=()) for topic, keyed in fixtures.plan.topics.items()}
    return replace(fixtures, plan=replace(fixtures.plan, topics=topics))


def missing(case: Case) -> str:
    """Why a case can't run here; empty when it can."""
    try:
        find_set(case.set_name, os.environ)
    except SetMissing as reason:
        return str(reason)
    return ""


def needs_its_set(case: Case):
    reason = missing(case)
    marks = [pytest.mark.skip(reason=reason)] if reason else []
    return pytest.param(case, id=case.id, marks=marks if case.id in IN_SHORT else [*marks, pytest.mark.whole])


@pytest.mark.parametrize("case", [needs_its_set(case) for case in CASES])
def test_every_table_equals_the_source_by_both_readers(case: Case, judgements: Mapping[str, list[Judgement]]):
    mine = judgements[case.id]
    steps = len(case.steps(find_set(case.set_name, os.environ)))
    assert Counter(judgement.reader for judgement in mine) == {
        RustReader.name: steps,
        f"spark-hudi-{HUDI}": steps if WHOLE else 1,
    }
    assert not [judgement for judgement in mine if not judgement.equal], "\n".join(
        f"{j.phase} by {j.reader}: {j.differences}" for j in mine if not j.equal
    )


@pytest.mark.parametrize("case", [needs_its_set(SIDE_OBJECTS)])
def test_side_objects_give_no_row_and_are_ignored_by_a_named_rule(
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
