"""Completion of tables, lanes and topics by Tab, from the stack that the command line names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sluice_aws.stack import Target, find_target

Names = Callable[[Target], Sequence[str]]


def complete(command: Any) -> None:
    """Give the arguments and options of a command completion by what they hold."""
    for parameter in command.params:
        names = _names_of(parameter)
        if names is not None:
            parameter._custom_shell_complete = _completer(names)  # as Typer's `autocompletion` sets it


def _names_of(parameter: Any) -> Names | None:
    held = (parameter.metavar or "").strip("[].").replace("DATABASE.TABLE", "TABLE")
    return {"TABLE": tables, "TABLE|SQL": tables, "LANE": lanes, "TOPIC": topics}.get(held)


def _completer(names: Names) -> Callable[[Any, Any, str], list[Any]]:
    def completed(context: Any, parameter: Any, incomplete: str) -> list[Any]:
        from typer.core import CompletionItem

        stack = next((parent.params["stack"] for parent in _and_parents(context) if parent.params.get("stack")), None)
        try:
            names_found = names(find_target(stack, os.environ, Path.cwd()))
        except Exception:  # nothing is completed without a stack; an error would end up in the command line
            return []
        return [CompletionItem(name) for name in sorted(names_found) if name.startswith(incomplete)]

    return completed


def _and_parents(context: Any) -> list[Any]:
    contexts = []
    while context is not None:
        contexts.append(context)
        context = context.parent
    return contexts


def tables(target: Target) -> Sequence[str]:
    """Every table with data or configuration, `database.table`."""
    return [state.table for state in target.ledger.tables.all()]


def lanes(target: Target) -> Sequence[str]:
    """Every lane of the ledger."""
    return [state.lane for state in target.ledger.lanes.all()]


def topics(target: Target) -> Sequence[str]:
    """The topics that feed tables."""
    from sluice.config.pinned_topic import pinned_topic

    return [topic for state in target.ledger.tables.all() if (topic := pinned_topic(state.pinned)) is not None]
