"""The parts of the product keep to the lines that tests/budgets.toml allows."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[3]
BUDGETS = tomllib.loads((ROOT / "tests" / "budgets.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", BUDGETS)
def test_a_part_has_no_more_lines_than_its_budget(part: str) -> None:
    budget = BUDGETS[part]
    files = [path for folder in budget["folder"].split() for path in (ROOT / folder).rglob("*.py")]
    lines = sum(len(path.read_bytes().splitlines()) for path in files)
    assert files and lines <= budget["most"] * 100, f"{lines:,} lines: shorten, or raise the budget and say why"
    assert lines > (budget["most"] - 5) * 100, f"{lines:,} lines: lower the budget, so that it holds"
