"""The verbs of a command by name. A verb's module is imported when the verb is called, not for a list of all.

Help and completion of the root show the table's own summaries; `tests/unit/cli/test_main.py` compares them with the
verbs' docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import CompletionItem

from sluice_cli.terminal.completion import complete
from sluice_cli.terminal.run import Commands


@dataclass(frozen=True)
class Verb:
    """A function or a group (a Typer app) as `module:name`, the panel of help it stands in, and its line there.

    `more` are the commands of a group that other modules hold, by name.
    """

    where: str
    panel: str
    summary: str
    more: Mapping[str, str] = field(default_factory=dict)

    def built(self, name: str, settings: Mapping[str, Any]) -> Any:
        """Import the verb and build its command, as a Typer app with these settings would."""
        root = typer.Typer(**settings)
        root.callback()(_nothing)
        found = _named(self.where)
        if isinstance(found, typer.Typer):
            root.add_typer(found, name=name)
            for each, where in self.more.items():
                if each not in (command.name for command in found.registered_commands):
                    found.command(each)(_named(where))
        else:
            root.command(name)(found)
        command = typer.main.get_group(root).commands[name]
        complete(command)
        return command


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _nothing() -> None:
    """A callback makes a Typer app a group, however many commands it has."""


class LazyCommands(MutableMapping[str, Any]):
    """The commands of `verbs` by name, each built when it is first asked for."""

    def __init__(self, verbs: Mapping[str, Verb], settings: Mapping[str, Any]) -> None:
        self._verbs, self._settings = verbs, settings
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = self._verbs[name].built(name, self._settings)
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._verbs or name in self._built

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._verbs, *self._built)))

    def __len__(self) -> int:
        return len(list(iter(self)))


def lazy_group(verbs: Mapping[str, Verb], settings: Mapping[str, Any]) -> type[Commands]:
    """The class of a group with these verbs; `settings` are those of its Typer app for every verb."""

    class LazyGroup(Commands):
        """A group whose help and completion show the verbs' summaries."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands = LazyCommands(verbs, settings)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write one section of help for each panel."""
            width = max(map(len, verbs))
            for panel in dict.fromkeys(verb.panel for verb in verbs.values()):
                with formatter.section(panel):
                    formatter.write_dl(
                        [(name.ljust(width), verb.summary) for name, verb in verbs.items() if verb.panel == panel]
                    )

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            """Complete a verb's name, or an option of the root."""
            self.commands, kept = {}, self.commands
            try:
                options = super().shell_complete(ctx, incomplete)
            finally:
                self.commands = kept
            return [
                *(
                    CompletionItem(name, help=verb.summary)
                    for name, verb in verbs.items()
                    if name.startswith(incomplete)
                ),
                *options,
            ]

    return LazyGroup
