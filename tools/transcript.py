"""Runs the demonstration, and writes docs/demo.md, an excerpt in README.md and docs/waterfall.svg.

python tools/transcript.py [--log FILE]   # --log: from a stored log; docs/waterfall.svg stays
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README, DEMO_PAGE, PICTURE = ROOT / "README.md", ROOT / "docs" / "demo.md", ROOT / "docs" / "waterfall.svg"
TRANSCRIPT = ("<!-- transcript: made by `make transcript` -->\n```text\n", "```\n<!-- end of transcript -->")
EXCERPT = ("<!-- excerpt: made by `make transcript` -->\n```text\n", "```\n<!-- end of excerpt -->")
EXCERPT_LINES = 20
DEMO = "from sluice_cli.main import main; main()"
# Lines that a reader can do without: the stack's place, progress, ids.
_LEFT_OUT = re.compile(
    r"local stack sluice at |\[\d+ s\] |Written to |batch b-|Starting|Packing|Deploying|user |sys |real "
    r"|\d+ changes? of it in |1 object in quarantine or"
)
_FOLDER = re.compile(r"topics/[^ \t]*/(?=[^/ \t]+\.avro)")
_POSITION = re.compile(r"(0000\.)[\d.]*?0*([1-9]\d*)\.0000000000\.\d{20}")
_ANSWER = re.compile(r"[0-9]|settled in ")  # of `sluice put` and `sluice wait`
WIDTH = 150


def shortened(log: str) -> Iterator[str]:
    """The interesting lines, shortened."""
    blank = True
    for line in log.split("== ", 1)[-1].replace("\t", "  ").splitlines():
        if _LEFT_OUT.match(line) or blank and not line.strip():
            continue
        blank = not line.strip()
        text = _POSITION.sub(r"…\2", _FOLDER.sub("…/", line.rstrip()))
        yield text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def with_transcript(page: str, log: str) -> str:
    """The page with another transcript. Raises ValueError if it has no place for one."""
    return _between(page, TRANSCRIPT, "== " + "\n".join(shortened(log)).strip())


def with_excerpt(readme: str, log: str) -> str:
    """README with another excerpt: the objects, the end, and the proof.

    Raises ValueError if it has no place for one.
    """
    lines = list(shortened(log))
    kept = []
    for number, line in enumerate(lines):
        if line.startswith(("$ sluice put ", "$ sluice wait ")):
            answers = [each for each in lines[number + 1 : number + 3] if _ANSWER.match(each)]
            kept += [line, *answers[:1]]
        elif line.startswith("Proof: "):
            kept.append(line)
    return _between(readme, EXCERPT, "\n".join(kept[:EXCERPT_LINES]))


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
