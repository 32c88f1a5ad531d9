"""Asks the judge program whether a folder of rows equals the database's rows of a phase."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from judging.fixture_sets import BUNDLED, FixtureSet, Phase, shared_folders

EQUAL, DIFFERENT = 0, 1
DIVERGENCES = Path(__file__).resolve().parent / "divergences"  # of sets that have no divergence.json of their own


class JudgeFailed(RuntimeError):
    """The judge could not compare at all: its message, and nothing about the tables."""


@dataclass(frozen=True)
class Verdict:
    """The judge's result. `report` has by table: rows, missing, extra, doubled, different and examples."""

    equal: bool
    report: Mapping[str, Mapping]

    def differences(self) -> dict[str, Mapping]:
        """The tables that are not equal."""
        return {
            table: rows
            for table, rows in self.report.items()
            if "error" in rows or any(rows[kind] for kind in ("missing", "extra", "doubled", "different"))
        }


def judge(fixtures: FixtureSet, rows: Path, phase: Phase, environment: Mapping[str, str]) -> Verdict:
    """Run the judge on `<table>.jsonl` files. Raises JudgeFailed.

    The judge under SLUICE_FIXTURES takes precedence over the bundled copy.
    """
    return judge_rows(fixtures.folder, rows, phase.name, environment)


def judge_rows(folder: Path, rows: Path, phase: str, environment: Mapping[str, str]) -> Verdict:
    """As `judge`, for a set by its folder and a phase by its name.

    A set whose manifest has the keys of its tables is judged by them; DIVERGENCES says what its changes can't give.
    """
    command = [str(folder), str(rows), "--phase", phase, "--json"]
    if "keys" in json.loads((folder / "manifest.json").read_text()):
        program, divergence = BUNDLED / "judge_by_manifest.py", DIVERGENCES / f"{folder.name}.json"
        command += ["--divergence", str(divergence)] if divergence.exists() else []
    else:
        candidates = (folder / "judge.py" for folder in (*shared_folders(environment), BUNDLED))
        program = next(path for path in candidates if path.exists())
    done = subprocess.run([sys.executable, str(program), *command], capture_output=True, text=True)
    if done.returncode not in (EQUAL, DIFFERENT):
        raise JudgeFailed(f"{program.name} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return Verdict(done.returncode == EQUAL, json.loads(done.stdout))
