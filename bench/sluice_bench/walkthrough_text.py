"""Shortens the output of a walkthrough: without this machine's names, and with only the length of SAM's tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# SAM's tables of changes, events and outputs have some hundred lines, and its output of a build repeats six times.
_LEFT_OUT = re.compile(
    r"^(-{20,}|(\+ |\* |- )?(Add|Modify|Delete|(CREATE|UPDATE|DELETE)_[A-Z_]+|Operation|ResourceStatus|Replacement)\s.*"
    r"|(Key|Description|Value)\s{5,}.*|\s{8,}\S.*"
    r"|Manifest file is changed .*|Building codeuri: .*|Valid cache found.*|\w+: (Running|Current) .*"
    r"|python3 -m pip .*|\s--target .*|cp -R .*|find .* -name __pycache__ .*"
    r"|\s+Uploading to \S+\s+\d+ / \d+\s+\((?!100).*|\s+File with same data already exists .*"
    r"|\s+- (Deleting|Could not find and delete) .*)$"
)
END = "end"
_BLANKS = re.compile(r"\n{3,}")


@dataclass
class Transcript:
    """Commands and their output, without this machine's names."""

    hidden: list[tuple[str, str]]
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        for real, shown in self.hidden:
            text = text.replace(real, shown)
        self.lines += text.splitlines()
        print(text, flush=True)

    def text(self) -> str:
        """The lines, with the number of those left out."""
        kept: list[str] = []
        left_out = 0
        for line in [*self.lines, END]:
            if _LEFT_OUT.match(line):
                left_out += 1
                continue
            if left_out and not line:
                continue  # blank lines between two left out
            if left_out:
                kept.append(f"[{left_out} lines]")
                left_out = 0
            kept.append(line.rstrip())
        kept.pop()
        return _BLANKS.sub("\n\n", "\n".join(kept)).strip() + "\n"
