"""Runs the demonstration, and writes docs/evidence/demo.md, an excerpt in README.md and docs/evidence/waterfall.svg.

python tools/transcript.py [--log FILE]   # --log: from a stored log; docs/evidence/waterfall.svg stays
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sluice_cli.terminal.output import wrapped

ROOT = Path(__file__).resolve().parents[1]
README, DEMO_PAGE, PICTURE = (
    ROOT / "README.md",
    ROOT / "docs" / "evidence" / "demo.md",
    ROOT / "docs" / "evidence" / "waterfall.svg",
)
TRANSCRIPT = ("<!-- transcript: made by `make transcript` -->\n```text\n", "```\n<!-- end of transcript -->")
EXCERPT = ("<!-- excerpt: made by `make transcript` -->\n```text\n", "```\n<!-- end of excerpt -->")
EXCERPT_LINES = 20
WIDTH = 100
# Stdout as a terminal of WIDTH columns shows it, without colours. Stderr is none, so that no line is overwritten.
DEMO = "import sys; sys.stdout.isatty = lambda: True; from sluice_cli.main import main; main()"
TERMINAL = {"COLUMNS": str(WIDTH), "LINES": "50", "TERM": "dumb"}
# Lines that a reader can do without: the stack's place, progress, ids.
_LEFT_OUT = re.compile(
    r"local stack sluice at |\[\d+ s\] |Written to |Starting|Packing|Deploying|user |sys |real "
    r"|\d+ changes? of it in |1 object in quarantine or"
)
_FOLDER = re.compile(r"topics/[^ \t]*/(?=[^/ \t]+\.avro)")
_POSITION = re.compile(r"(0000\.)[\d.]*?0*([1-9]\d*)\.0000000000\.\d{20}")
_ANSWER = re.compile(r"[0-9]|settled in ")  # of `sluice put` and `sluice wait`
_BATCH = re.compile(r"^batch b-.*\n(?:  \S.*\n)*", re.MULTILINE)  # of `sluice trace`
_CONTINUED = re.compile(r"  (?! )")  # a line that goes on with the one before it, in a terminal


def shortened(log: str) -> Iterator[str]:
    """The interesting lines without folders of keys, and those of stderr wrapped as a terminal wraps them."""
    blank = True
    for line in _BATCH.sub("", log.split("== ", 1)[-1]).splitlines():
        if _LEFT_OUT.match(line) or blank and not line.strip():
            continue
        blank = not line.strip()
        shown = _POSITION.sub(r"…\2", _FOLDER.sub("…/", line.rstrip()))
        yield from wrapped(shown, WIDTH, whole=shown if shown.startswith("$ ") else "")


def with_transcript(page: str, log: str) -> str:
    """The page with another transcript. Raises ValueError if it has no place for one."""
    return _between(page, TRANSCRIPT, "== " + "\n".join(shortened(log)).strip())


def with_excerpt(readme: str, log: str) -> str:
    """README with another excerpt: the objects, the end, and the proof.

    Raises ValueError if it has no place for one.
    """
    lines = list(shortened(log))
    lines_left = []
    for number, line in enumerate(lines):
        if line.startswith(("$ sluice put ", "$ sluice wait ")):
            lines_left += [line, *_first_answer(lines[number + 1 :])]
        elif line.startswith("Proof: "):
            lines_left.append(line)
    return _between(readme, EXCERPT, "\n".join(lines_left[:EXCERPT_LINES]))


def _first_answer(lines: Iterable[str]) -> Iterator[str]:
    """The first answer of a command, with the lines that continue it. A blank line ends what the command printed."""
    begun = False
    for line in lines:
        if not line or begun and not _CONTINUED.match(line):
            return
        begun = begun or bool(_ANSWER.match(line))
        if begun:
            yield line


def _between(page: str, marks: tuple[str, str], text: str) -> str:
    begin, end = page.index(marks[0]) + len(marks[0]), page.index(marks[1])
    return page[:begin] + text + "\n" + page[end:]


def main() -> None:
    """Run the demonstration, or read a stored log, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    if given.log is not None:
        log = given.log.read_text(encoding="utf-8", errors="replace")
    else:
        done = subprocess.run(
            [sys.executable, "-u", "-c", DEMO, "demo", "--svg", str(PICTURE)],
            cwd=ROOT,
            env={**os.environ, **TERMINAL},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        log = done.stdout
        if done.returncode:
            sys.exit(log)
    README.write_text(with_excerpt(README.read_text(encoding="utf-8"), log), encoding="utf-8")
    DEMO_PAGE.write_text(with_transcript(DEMO_PAGE.read_text(encoding="utf-8"), log), encoding="utf-8")


if __name__ == "__main__":
    main()
