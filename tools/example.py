"""Plays an example of `examples/` on a local stack of its own, and compares what it reads with the expected rows.

    python tools/example.py moma        # make example NAME=moma

An example is a folder with `tables.yaml` and `steps.yaml`. Each step puts objects, waits until they are merged, and
reads. It ends with 1 when rows differ from the expected ones.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
JUDGE = ROOT / "tests" / "data" / "judge.py"
SLUICE = "import sys; from sluice_cli.main import main; sys.exit(main())"
WAIT_S = "600"
SHOWN_LINES = 12

Sluice = Callable[[Sequence[str]], str]  # runs a command of sluice, and returns its standard output
Say = Callable[[str], None]


@dataclass
class Played:
    """How many results were compared, and which of them differ."""

    compared: int = 0
    different: list[str] = field(default_factory=list)

    def compare(self, name: str, output: str, expected: str) -> None:
        """Count a result, and keep it where it differs."""
        self.compared += 1
        if rows_of(output) != rows_of(expected):
            self.different.append(f"{name}\n--- expected\n{expected.strip()}\n--- found\n{output.strip()}")


def names() -> list[str]:
    """The examples, by the names of their folders."""
    return sorted(file.parent.name for file in EXAMPLES.glob("*/steps.yaml"))


def rows_of(text: str) -> list[list[str]]:
    """The lines of a CSV text, header included."""
    return list(csv.reader(io.StringIO(text.strip())))


def play(folder: Path, sluice: Sluice, say: Say) -> Played:
    """Play every step of an example.

    Its configuration is in force already. `{step1}` in an argument is the moment after step 1.
    """
    played = Played()
    moments: dict[str, str] = {}
    for number, step in enumerate(yaml.safe_load((folder / "steps.yaml").read_text(encoding="utf-8")), 1):
        say(f"\n== {number}. {step['title']}")
        if "put" in step:
            _put(folder, step["put"], sluice)
            sluice(["wait", "--strict", "--timeout", WAIT_S])
        for arguments in step.get("run", ()):
            _shown(sluice([str(argument).format_map(moments) for argument in arguments]), say)
        for read in step.get("read", ()):
            _compare(folder, read, moments, sluice, played, say)
        if "judge" in step:
            _judge(folder, step["judge"], sluice, played)
        moments[f"step{number}"] = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    return played


def _put(folder: Path, put: str | Mapping[str, str], sluice: Sluice) -> None:
    """Put a folder of objects, or the objects of a phase of a recorded set."""
    if isinstance(put, str):
        sluice(["put", str(folder / put)])
        return
    recorded = folder / put["set"]
    manifest = json.loads((recorded / "manifest.json").read_text(encoding="utf-8"))
    (phase,) = [phase_ for phase_ in manifest["phases"] if phase_["phase"] == put["phase"]]
    with tempfile.TemporaryDirectory() as made:
        for key in phase["new_objects"]:
            target = Path(made) / key
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(recorded / "bronze" / key, target)
        sluice(["put", made])


def _compare(
    folder: Path, read: Mapping[str, Any], moments: Mapping[str, str], sluice: Sluice, played: Played, say: Say
) -> None:
    as_of = ["--as-of", str(read["as_of"]).format_map(moments)] if "as_of" in read else []
    output = sluice(["query", "--csv", *read.get("with", ()), *as_of, read["query"]])
    _shown(output, say)
    expected = read["rows"] if "rows" in read else (folder / read["file"]).read_text(encoding="utf-8")
    played.compare(" ".join([read["query"], *as_of]), output, expected)


def _judge(folder: Path, judge: Mapping[str, Any], sluice: Sluice, played: Played) -> None:
    """Compare whole tables with the rows that the source database answered."""
    with tempfile.TemporaryDirectory() as made:
        for name, table in judge["tables"].items():
            schema, _, bare = table.partition(".")
            rows = sluice(["query", "--json", f'select * from {schema}."{bare}"'])
            (Path(made) / f"{name}.jsonl").write_text(rows, encoding="utf-8")
        judged = subprocess.run(
            [sys.executable, str(JUDGE), str(folder / judge["set"]), made, "--phase", judge["phase"]],
            capture_output=True,
            text=True,
        )
    played.compared += len(judge["tables"])
    if judged.returncode:
        played.different.append(f"phase {judge['phase']}\n{judged.stdout}{judged.stderr}")


def _shown(text: str, say: Say) -> None:
    lines = text.rstrip().splitlines()
    for line in lines[:SHOWN_LINES]:
        say(f"   {line}")
    if len(lines) > SHOWN_LINES:
        say(f"   ... {len(lines) - SHOWN_LINES} more lines")


def _end(number: int, frame: object) -> None:
    """End the program as Ctrl-C does, so that the stack ends with it. A further signal must not interrupt that."""
    for signal_ in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> int:
    """Start a stack, play, compare, stop; stop it also on SIGTERM and SIGHUP."""
    parser = argparse.ArgumentParser(description="Play an example on a local stack, and compare its rows.")
    parser.add_argument("name", choices=names())
    name = parser.parse_args().name
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluice-example-") as home:
        environment = {**os.environ, "SLUICE_HOME": home, "SLUICE_STACK": ""}

        def sluice(arguments: Sequence[str], *, captured: bool = True) -> str:
            print(f"$ sluice {shlex.join(arguments)}", flush=True)
            done = subprocess.run(
                [sys.executable, "-c", SLUICE, *arguments],
                env=environment,
                stdout=subprocess.PIPE if captured else None,
                text=True,
                check=True,
            )
            return done.stdout or ""

        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end)
        try:
            sluice(["local", "up", "--detach", "--config", str(EXAMPLES / name / "tables.yaml")], captured=False)
            played = play(EXAMPLES / name, sluice, lambda line: print(line, flush=True))
        finally:
            sluice(["local", "down", "--yes"], captured=False)
    for difference in played.different:
        print(f"\nDifferent: {difference}", file=sys.stderr)
    equal = played.compared - len(played.different)
    seconds = time.monotonic() - began
    print(f"\n{name}: {equal} of {played.compared} results equal the expected rows ({seconds:.0f} s)")
    return 1 if played.different else 0


if __name__ == "__main__":
    sys.exit(main())
