"""What a walkthrough keeps of what was said: all but this machine's names, and of SAM's tables their length."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

# What SAM says of every change and event is a table of some hundred lines; the rest of what it says is kept.
_TABLE_ROW = re.compile(r"^(-{20,}|(\+ |\* |- )?(Add|Modify|Delete|CREATE_|UPDATE_|DELETE_|Operation|ResourceStatus|Replacement)\b.*|(Key|Description|Value)\s{5,}.*|\s{8,}\S.*)$")
_BLANKS = re.compile(r"\n{3,}")


@dataclass
class Transcript:
    """What was run and what it said, without what is this machine's own."""

    hidden: list[tuple[str, str]]
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        for real, shown in self.hidden:
            text = text.replace(real, shown)
        self.lines += text.splitlines()
        print(text, flush=True)

    def text(self) -> str:
        """The lines, of SAM's tables their numbers of rows only."""
        kept: list[str] = []
        left_out = 0
        for line in [*self.lines, ""]:
            if _TABLE_ROW.match(line):
                left_out += 1
                continue
            if left_out:
                kept.append(f"[{left_out} lines of a table of resources]")
                left_out = 0
            kept.append(line.rstrip())
        return _BLANKS.sub("\n\n", "\n".join(kept)).strip() + "\n"
