"""Next steps: commands of `sluice` that help, as values until they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice_cli.terminal.guard import shell_text
from sluice_cli.terminal.options import named_stack

#: The verbs below a group, by the word that steps name them with. A verb that moves is one entry here.
TYPED: Mapping[str, str] = {
    "schema": "table schema",
    **{
        name: f"ops {name}"
        for name in ("adopt-bucket", "batch", "catalog", "cost", "dlq", "logs", "replay", "runs", "services")
    },
}
_COMMAND = re.compile(r"`sluice ([a-z][^`]*)`")
_RETRY_OF_CODE = re.compile(r"quarantine retry --code \w+$")


@dataclass(frozen=True, init=False)
class Step:
    """A verb of `sluice` with its arguments and options, and what it does. As a text its command is in backquotes."""

    verb: str
    words: tuple[str, ...]
    note: str

    def __init__(self, verb: str, *words: str, note: str = "") -> None:
        for name, value in (("verb", verb), ("words", words), ("note", note)):
            object.__setattr__(self, name, value)

    @property
    def command(self) -> str:
        """What is typed in a shell, with the stack that the command line named."""
        return f"{_beginning()}{_typed(self.verb)}{''.join(f' {shell_text([word])}' for word in self.words)}"

    def __str__(self) -> str:
        return f"`{self.command}` {self.note}".rstrip()


def in_a_row(*steps: Step) -> str:
    """Steps of which each is taken only if the one before succeeded, as one command in backquotes."""
    return f"`{' && '.join(step.command for step in steps)}`"


def in_order(steps: Iterable[Step]) -> str:
    """Steps of which one follows the other, in words; empty without any."""
    return ", then ".join(map(str, steps))


def completed(text: str, **names: str | None) -> str:
    """A text of the core or the ledger, whose commands say TABLE, LANE or FILE, with these names if they are known.

    A retry, which errors name by the code alone, names the table too.
    """

    def command(match: re.Match[str]) -> str:
        commands = []
        for words in match[1].split(" && sluice "):
            if names.get("TABLE") and _RETRY_OF_CODE.search(words):
                words += " --table TABLE"
            for place, name in names.items():
                words = re.sub(rf"\b{place}\b", lambda _, name=name: shell_text([name]), words) if name else words
            commands.append(f"{_beginning()}{_typed(words)}")
        return f"`{' && '.join(commands)}`"

    return _COMMAND.sub(command, text)


def _beginning() -> str:
    stack = named_stack.get()
    return f"{shell_text(['sluice', *(('--stack', stack) if stack else ())])} "


def _typed(verb: str) -> str:
    first, blank, rest = verb.partition(" ")
    return f"{TYPED.get(first, first)}{blank}{rest}"
