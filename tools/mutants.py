"""Breaks the product on purpose, one line at a time, and shows which test notices each breakage.

Reads tests/mutants.toml. Works in a copy of the tracked files, so that nothing of the work tree changes. Ends with 1
when a test passes on a broken product.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "mutants.toml"
LONGEST_S = 900


@dataclass(frozen=True)
class Mutant:
    """One breakage: `before`, which occurs once in `file`, becomes `after`; `test` must fail then.

    `whole`: only in full, as `make test-all` runs it.
    """

    name: str
    rule: str
    file: str
    before: str
    after: str
    test: str
    whole: bool = False


def mutants() -> list[Mutant]:
    """All breakages of the list."""
    return [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]


def copied(into: Path) -> None:
    """Copy the tracked files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def notices(folder: Path, test: str, *, whole: bool) -> tuple[bool, str]:
    """Run a test in a copy; True if it fails there, and its last assertion."""
    paths = os.pathsep.join(str(folder / part) for part in ("functions", "spark", "cli", "deploy", "local"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, **({"SLUICE_WHOLE": "1"} if whole else {})},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{test} did not run:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    errors = [line[2:].strip() for line in done.stdout.splitlines() if line.startswith("E ")]
    return done.returncode == 1, next(iter(errors), "")


def main(names: Sequence[str]) -> int:
    """Break each chosen mutant (all without names), and print a line for each."""
    chosen = [mutant for mutant in mutants() if not names or mutant.name in names]
    survived = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as held:
        folder = Path(held)
        copied(folder)
        for number, mutant in enumerate(chosen, 1):
            file = folder / mutant.file
            whole = file.read_text(encoding="utf-8")
            file.write_text(whole.replace(mutant.before, mutant.after), encoding="utf-8")
            began = time.monotonic()
            failed, why = notices(folder, mutant.test, whole=mutant.whole)
            file.write_text(whole, encoding="utf-8")
            if not failed:
                survived.append(mutant.name)
            how = f"caught: {why[:110]}" if failed else "SURVIVED"
            print(
                f"{number}/{len(chosen)} {mutant.name} [{mutant.rule}] {time.monotonic() - began:.0f} s: {how}",
                flush=True,
            )
    print(f"{len(chosen) - len(survived)} of {len(chosen)} breakages caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
