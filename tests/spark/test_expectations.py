"""Rows that aren't as their table expects are counted or set aside on every path into a table."""

from __future__ import annotations

import pytest
from support.workbench import SCHEMA, Workbench, row, table

from sluice.batch.outcome import Outcome
from sluice.config.rules.expectations import Expectations
from sluice.config.table import TableConfig

EXPECTED = {"name": {"matches": "[a-z]+", "not_null": True}}


def merged(bench: Workbench, config: TableConfig) -> list[Outcome]:
    """A first load, and a merge after it: each with one row of three that isn't as expected."""
    first = bench.put([row("c", 1, 1, name="a"), row("c", 2, 2, name="B"), row("c", 3, 3, name="c")], SCHEMA)
    then = bench.put([row("u", 4, 1, name=None), row("d", 5, 2, name=None), row("u", 6, 3, name="x")], SCHEMA)
    return [bench.merge(config, [first]), bench.merge(config, [then])]


@pytest.mark.whole
def test_rows_that_are_not_as_expected_are_counted_by_arrow_and_by_spark(bench: Workbench) -> None:
    here = table(expect=Expectations("report", EXPECTED))
    for outcome in merged(bench, here):
        assert outcome.counts["unexpected"] == 1 and any("`expect`" in note for note in outcome.notes)
    there = table("tasks", history=True, expect=Expectations("count", EXPECTED))
    assert [outcome.counts["unexpected"] for outcome in merged(bench.in_tasks(), there)] == [1, 1]
    for config in (here, there):
        assert bench.rows(config, "id", "name", "__deleted") == [(1, None, False), (2, None, True), (3, "x", False)]


@pytest.mark.whole
def test_rows_that_are_not_as_expected_are_set_aside_and_the_rest_is_merged(bench: Workbench) -> None:
    config = table(expect=Expectations("quarantine", EXPECTED))
    for outcome in merged(bench, config):
        assert [aside.codes for aside in outcome.quarantined_rows] == [{"unexpected_value": 1}]
        assert "unexpected" not in outcome.counts
    assert bench.rows(config, "id", "name", "__deleted") == [(1, "a", False), (2, None, True), (3, "x", False)]
