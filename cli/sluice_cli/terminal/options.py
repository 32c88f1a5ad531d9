"""The options and arguments of verbs, as Typer's: `Annotated[str | None, option("--lane LANE", "Only this lane.")]`.

Durations are the options whose `parser` is `seconds`, or one of `at_least`. What a verb's code asks of the command line
besides, whatever the verb, are context variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s?(s|m|min|h|d)?")
_UNIT_S = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def option(written: str, meaning: str, **settings: Any) -> Any:
    """An option as its help writes it: its names, and the word for its value where it takes one."""
    names = [word for word in written.split() if word.startswith("-")]
    value = " ".join(written.split()[len(names) :])
    return typer.Option(*names, metavar=value or None, help=meaning, **settings)


def argument(word: str, meaning: str, **settings: Any) -> Any:
    """An argument, and the word that its help has for it."""
    return typer.Argument(metavar=word, help=meaning, **settings)


Stack = Annotated[str | None, option("--stack NAME", "A deployed stack instead of the local one (also SLUICE_STACK).")]
Json = Annotated[bool, option("--json", "Print JSON on stdout.")]
DryRun = Annotated[bool, option("--dry-run", "Show what would be done, and change nothing.")]
Yes = Annotated[bool, option("--yes", "Don't ask.")]
TableName = Annotated[str, argument("TABLE", "database.table")]
# The stack that the command line names, before or behind the verb; next steps name it too.
named_stack: ContextVar[str | None] = ContextVar("named_stack", default=None)
# The stacks that were named already, where several verbs run one after the other; None names each time.
stacks_named: ContextVar[set[str] | None] = ContextVar("stacks_named", default=None)
# The command line, for records of decisions; the root command sets it.
command_line: ContextVar[str] = ContextVar("command_line", default="sluice")


class TimeSpan(float):
    """Seconds that help shows as tables.yaml has them, for an option's default: `15m`, `1h`, `90s`."""

    def __str__(self) -> str:
        from sluice.config.values import DURATION  # a command without durations need not load it

        return str(DURATION.write(int(self))) if self and self.is_integer() else f"{float(self):g}s"


def seconds(given: Any) -> float:
    """`90`, `90s`, `5m`, `5min`, `2h` or `1d` in seconds, for an option's `parser`. Raises typer.BadParameter."""
    match = _DURATION.fullmatch(str(given).strip())
    if match is None:
        raise typer.BadParameter(
            f"{given if str(given).strip() else repr(given)} is not a duration: give seconds, or 90s, 5m, 2h"
        )
    return float(match[1]) * _UNIT_S[match[2]]


def at_least(least_s: float) -> Callable[[Any], float]:
    """A parser as `seconds` that refuses less than `least_s`."""

    def parse(given: Any) -> float:
        value = seconds(given)
        if value < least_s:
            raise typer.BadParameter(f"{given} is less than {TimeSpan(least_s)}")
        return value

    return parse
