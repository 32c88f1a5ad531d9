"""The breakages of tests/mutants.toml fit the code, and cover the rules that docs/evidence/guarantees.md names."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_breakage_applies_once_and_names_a_test(tool: ModuleType) -> None:
    breakages = tool.mutants()
    assert len(breakages) >= 25 and len({mutant.name for mutant in breakages}) == len(breakages)
    for mutant in breakages:
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.before) == 1 and mutant.after != mutant.before, mutant.name
        path, _, name = mutant.test.partition("::")
        assert (ROOT / path).exists(), mutant.name
        definition = f"def {name.partition('[')[0]}("
        assert not name or definition in (ROOT / path).read_text(encoding="utf-8"), mutant.name


def test_every_breakage_breaks_a_rule_that_is_documented(tool: ModuleType) -> None:
    page = (ROOT / "docs" / "evidence" / "guarantees.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"^### ([a-z-]+)\.", page, re.M))
    broken = {mutant.rule for mutant in tool.mutants()}
    assert broken <= rules and len(broken) >= 18
