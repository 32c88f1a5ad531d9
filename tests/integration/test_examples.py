"""Every example gives the rows that it says."""

from __future__ import annotations

import pytest
from judging.running_stack import RunningStack

from tools.example import EXAMPLES, names, play


@pytest.mark.whole
@pytest.mark.parametrize("name", names())
def test_an_example_gives_its_expected_rows(stack: RunningStack, name: str) -> None:
    stack.sluice("config", "push", "--yes", str(EXAMPLES / name / "tables.yaml"))
    played = play(EXAMPLES / name, lambda arguments: stack.sluice(*arguments), lambda _: None)
    assert played.compared and not played.different, "\n".join(played.different)
