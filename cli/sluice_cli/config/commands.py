"""`sluice config`: checks a tables.yaml, and shows the configuration in force and the schema of the file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sluice.config.document import Configuration
from sluice.cost import Assumptions, Load, freshness_advice
from sluice.errors import CommandFailed, UsageError
from sluice_cli.config.push import File, fit_of_stack, read_with_warnings, say_remarks, summary
from sluice_cli.config.rule_text import configuration_text
from sluice_cli.config.yaml_lines import ConfigurationMistakes, name_of
from sluice_cli.terminal.guard import json_escaped
from sluice_cli.terminal.options import Json, Stack, option
from sluice_cli.terminal.output import print_json, print_line
from sluice_cli.terminal.stack import chosen_target, configuration_in_force
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted

NOTHING_PUSHED = "No configuration has been pushed"

app = typer.Typer(no_args_is_help=True)

WithWaitingObjects = Annotated[
    bool,
    option("--waiting", "Look also at the stack: at the columns of its tables, and at objects that wait for new ones."),
]


@app.command()
def check(file: File, waiting: WithWaitingObjects = False, as_json: Json = False, stack: Stack = None) -> None:
    """Name every mistake in a tables.yaml with its line. Needs no stack, unless --waiting looks at one.

    Examples:

      sluice config check tables.yaml
      sluice config check tables.yaml --waiting
    """
    try:
        configuration, warnings = read_with_warnings(file)
    except ConfigurationMistakes as error:
        if not as_json:
            raise
        print_json(
            {
                "valid": False,
                "mistakes": [
                    {"line": item.line, "column": item.column or None, "where": item.where, "message": item.message}
                    for item in error.mistakes
                ],
            }
        )
        raise typer.Exit(1) from error
    notes = freshness_notes(configuration)
    if waiting:
        target = chosen_target(stack)
        fit = fit_of_stack(target, configuration, configuration_in_force(target))
        warnings, notes = (*warnings, *map(str, fit.misfits)), (*notes, *fit.notes)
    say_remarks(warnings, notes)
    if as_json:
        print_json(
            {
                "valid": True,
                "version": configuration.version,
                "rules": len(configuration.rules),
                "lanes": list(configuration.lane_names()),
                "warnings": list(warnings),
                "notes": list(notes),
            }
        )
    else:
        print_line(f"{name_of(file)} is valid: {summary(configuration)}")


@app.command()
def show(
    earlier: Annotated[int, option("--earlier N", "The one before the last N pushes that changed it.", min=0)] = 0,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Print the configuration in force as a tables.yaml: what differs from the defaults in each rule.

    --json prints what functions and Spark read. With --earlier, a push of the output goes back.

    Examples:

      sluice config show
      sluice config show --json | jq '.rules[].table'
      sluice config show --earlier 1 > tables.yaml && sluice config push tables.yaml
    """
    target = chosen_target(stack)
    configuration = target.config_store.earlier(earlier) if earlier else target.configuration()
    if configuration is None and earlier:
        raise UsageError(f"There were fewer than {counted(earlier, 'push', 'pushes')} before", next_step="Ask for less")
    if configuration is None:
        raise CommandFailed(NOTHING_PUSHED, next_step=f"{Step('config push', 'tables.yaml')}")
    if as_json:
        print(json_escaped(configuration.to_json()))
    else:
        when = "Earlier" if earlier else "In force"
        print(f"# {when}: {summary(configuration)}\n{configuration_text(configuration)}", end="")


@app.command()
def schema() -> None:
    """Print the JSON Schema of tables.yaml, for editors. Needs no stack.

    Example:

      sluice config schema > tables.schema.json
    """
    from sluice_cli.config.model import schema_text

    sys.stdout.write(schema_text())


def freshness_notes(configuration: Configuration) -> tuple[str, ...]:
    """Return the lanes that would cost more than streaming jobs if an object came every minute.

    Only of lanes whose rules name each topic: the tables of a pattern are unknown.
    """
    notes = []
    for name in configuration.lane_names():
        rules = [rule for rule in configuration.rules if rule.lane == name and not rule.paused]
        if not rules or any(rule.topic is None or "*" in rule.topic for rule in rules):
            continue
        load = Load(name, len(rules), 60, 1, 0.1)
        lane = configuration.lane(name)
        given = Assumptions(linger_s=lane.linger_s, least_executors=lane.min_executors)
        advice = freshness_advice(load, min(rule.freshness_s for rule in rules), given)
        if advice is not None:
            notes.append(f"lane {name}, if an object comes every minute: {advice.described}")
    return tuple(notes)
