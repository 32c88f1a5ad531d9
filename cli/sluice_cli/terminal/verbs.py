"""The verbs of a command by name. A verb's module is imported when the verb is called, not for a list of all.

Completion of the root shows the table's own summaries, and its help their beginnings; `tests/unit/cli/test_main.py`
compares them with the verbs' docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import CompletionItem, TyperGroup

from sluice_cli.terminal.completion import complete
from sluice_cli.terminal.output import say

_LONGEST_SUMMARY = 400  # characters of a verb's first sentence


@dataclass(frozen=True)
class Verb:
    """A function or a group (a Typer app) as `module:name` below `sluice_cli`, its line of help, and the panel of it.

    The line is also the help of a group whose app has none of its own.

    `more` are the commands and groups of a group that other modules hold, by name. A group of `below` has no module of
    its own, and imports each of these verbs when it is called. Help and completion of the root don't list a `hidden`
    one: the Makefile calls it.
    """

    where: str
    summary: str
    panel: str = "Commands"
    more: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, Verb] = field(default_factory=dict)
    hidden: bool = False

    @property
    def subject(self) -> str:
        """The summary's beginning, up to its first details: the list of all verbs is looked through, not read."""
        return re.split(r"[.:](?: |$)", self.summary)[0]

    def built(self, name: str, settings: Mapping[str, Any]) -> Any:
        """Import the verb and build its command, as a Typer app with these settings would."""
        root = typer.Typer(**settings)
        root.callback()(_nothing)
        if self.below:
            group = typer.Typer(help=self.summary, no_args_is_help=True)
            root.add_typer(group, name=name, cls=lazy_group(TyperGroup, self.below, settings, {}))
            group.callback()(_nothing)
            return typer.main.get_group(root).commands[name]
        target = _named(self.where)
        if isinstance(target, typer.Typer):
            root.add_typer(target, name=name, cls=Group, help=target.info.help or self.summary)
            for verb, where in self.more.items():
                _add(target, verb, _named(where))
        else:
            root.command(name)(target)
        command = typer.main.get_group(root).commands[name]
        for each in _and_below(command):
            complete(each)
            _without_types(each)
            _with_whole_examples(each)
        return command


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(f"sluice_cli.{module}"), name)


def _add(group: typer.Typer, name: str, verb: Any) -> None:
    """Add a command or a group to a group, unless it is there from a call before."""
    if isinstance(verb, typer.Typer):
        if name not in (info.name for info in group.registered_groups):
            group.add_typer(verb, name=name, cls=Group)
    elif name not in (info.name for info in group.registered_commands):
        group.command(name)(verb)


def _nothing() -> None:
    """A callback makes a Typer app a group, however many commands it has."""


class Group(TyperGroup):
    """A group of verbs, whose help shows their summaries in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each verb with the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_LONGEST_SUMMARY)) for name, command in self.commands.items()]
            )


def _and_below(command: Any) -> Iterator[Any]:
    """A command, and those below it."""
    yield command
    for sub in getattr(command, "commands", {}).values():
        yield from _and_below(sub)


def _without_types(command: Any) -> None:
    """Have the help of a command show arguments without braces and Python's types."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = (parameter.metavar or parameter.name.upper()).strip("[]")
            usage = shown if parameter.required else f"[{shown}]"
            parameter.display_type_rich = lambda ctx: ""
            parameter.get_usage_pieces = lambda ctx, usage=usage: [usage]


def _with_whole_examples(command: Any) -> None:
    """Have the help of a command break no line of an example: it is copied to a shell."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(f"\b\n{text}" if text.startswith(" ") else text for text in paragraphs)


class LazyCommands(Mapping[str, Any]):
    """The commands of `verbs` by name, each built when it is first asked for."""

    def __init__(self, verbs: Mapping[str, Verb], settings: Mapping[str, Any]) -> None:
        self._verbs = verbs
        self._built = cache(lambda name: verbs[name].built(name, settings))

    def __getitem__(self, name: str) -> Any:
        return self._built(name)

    def __contains__(self, name: object) -> bool:
        return name in self._verbs

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)


def lazy_group(
    base: type[TyperGroup], verbs: Mapping[str, Verb], settings: Mapping[str, Any], moved: Mapping[str, str]
) -> type[TyperGroup]:
    """The class of a group with these verbs; `settings` are those of its Typer app for every verb.

    `moved` are earlier names, and the words that are typed now: an earlier name still works, with a note on stderr.
    """

    class LazyGroup(base):  # type: ignore[valid-type, misc]
        """A group whose help shows what the verbs do in a few words, and whose completion shows their summaries."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands: Mapping[str, Any] = LazyCommands(verbs, settings)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write one section of help for each panel of verbs."""
            listed = {name: verb for name, verb in verbs.items() if not verb.hidden}
            width = max(map(len, listed))
            for panel in dict.fromkeys(verb.panel for verb in listed.values()):
                with formatter.section(panel):
                    formatter.write_dl(
                        [(name.ljust(width), verb.subject) for name, verb in listed.items() if verb.panel == panel]
                    )

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Find the command that the arguments name, by its earlier name too."""
            now = moved.get(args[0])
            if now is not None:
                if not ctx.resilient_parsing:  # as completion parses
                    say(f"`sluice {args[0]}` is now `sluice {now}`")
                args = [*now.split(), *args[1:]]
            return super().resolve_command(ctx, args)

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            """Complete a verb's name, or an option of the root."""
            listed = {name: verb for name, verb in verbs.items() if name.startswith(incomplete) and not verb.hidden}
            self.commands, commands = {}, self.commands  # the group's own completion builds each verb
            try:
                options = super().shell_complete(ctx, incomplete)
            finally:
                self.commands = commands
            return [*(CompletionItem(name, help=verb.summary) for name, verb in listed.items()), *options]

    return LazyGroup
