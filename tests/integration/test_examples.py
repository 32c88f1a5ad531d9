"""The examples, which repeat published demonstrations, on a local stack of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(steps.parent.name for steps in (ROOT / "examples").glob("*/steps.yaml"))


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_the_results_of_its_demonstration(name: str) -> None:
    subprocess.run([sys.executable, "tools/example.py", name], cwd=ROOT, check=True, timeout=1800)
