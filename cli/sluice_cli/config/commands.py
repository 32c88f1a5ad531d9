"""`sluice config`: checks a tables.yaml, puts it in force, and shows the configuration in force."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sluice.config.document import Configuration
from sluice.errors import ChangeRefused, CommandFailed, UsageError
from sluice.ledger.ports import Ledger
from sluice_aws.admission.reassign import Unparked, unpark
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import ConfigurationUnreadable
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.configuration import CONFIGURATION_KEY, HISTORY_PREFIX, PUSHES, ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.config.model import schema_text
from sluice_cli.config.review import known_tables, lane_names, raised_generations, review
from sluice_cli.config.source import read_tables, unknown_options
from sluice_cli.config.yaml_lines import ConfigurationMistakes
from sluice_cli.terminal.guard import json_escaped
from sluice_cli.terminal.output import Json, Stack, chosen_target, counted, print_json, say
from sluice_cli.terminal.stack import supervise_now

NOTHING_PUSHED = "No configuration has been pushed"

app = typer.Typer(
    no_args_is_help=True,
    help="Map topics to tables: check tables.yaml, put it in force, show the configuration in force.",
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A tables.yaml.")]
WithWaiting = Annotated[
    bool,
    typer.Option(
        "--with-waiting",
        help="If a generation rises, merge pending objects under the new one: they are all of the new log. "
        "Objects that a failed batch returned keep their generation.",
    ),
]
WithWaitingObjects = Annotated[
    bool,
    typer.Option("--waiting", help="Look also whether the rules fit the stack's objects that wait for new tables."),
]


@app.command()
def check(file: File, waiting: WithWaitingObjects = False, as_json: Json = False, stack: Stack = None) -> None:
    """Name every mistake in a tables.yaml with its line. Needs no stack, unless --waiting looks at one.

    Examples:

      sluice config check tables.yaml

      sluice config check tables.yaml --waiting
    """
    try:
        configuration = _read(file)
    except ConfigurationMistakes as error:
        if not as_json:
            raise
        print_json(
            {
                "valid": False,
                "mistakes": [
                    {"line": item.line, "where": item.where, "message": item.message} for item in error.mistakes
                ],
            }
        )
        raise typer.Exit(1) from error
    warnings = unknown_options(configuration)
    if waiting:
        target = chosen_target(stack)
        objects, ledger = Objects(target.client("s3")), DynamoDbLedger(target.client("dynamodb"), target.ledger_table)
        before = _in_force(objects, target, ledger)
        warnings = (*warnings, *_fit(objects, ledger, configuration, before))
    for warning in warnings:
        say(f"warning: {warning}")
    if as_json:
        print_json(
            {
                "valid": True,
                "version": configuration.version,
                "rules": len(configuration.rules),
                "lanes": list(configuration.lane_names()),
                "warnings": list(warnings),
            }
        )
    else:
        print(f"{file}: {_summary(configuration)}")


@app.command()
def push(file: File, with_waiting: WithWaiting = False, as_json: Json = False, stack: Stack = None) -> None:
    """Put a tables.yaml in force. The next batch uses it.

    The file is checked first, and an invalid one changes nothing. Changes that can't be made in place are
    refused: the key, partition columns, type or topic of a table that has data, and a higher generation
    while objects of the old log may be pending. Parked objects that now have a table become pending, and
    their lanes are woken.

    Example:

      sluice config push tables.yaml
    """
    configuration = _read(file)
    target = chosen_target(stack)
    objects = Objects(target.client("s3"))
    ledger = DynamoDbLedger(target.client("dynamodb"), target.ledger_table)
    before = _in_force(objects, target, ledger)
    raised = () if with_waiting else raised_generations(ledger, before, configuration)
    found = review(
        configuration,
        ledger.tables.all(),
        known_tables(ledger, before),
        {lane.lane: lane for lane in ledger.lanes.all()},
        raised,
    )
    fit = () if found.refusals else _fit(objects, ledger, configuration, before)
    warnings = (*unknown_options(configuration), *found.warnings, *fit)
    for warning in warnings:
        say(f"warning: {warning}")
    if found.refusals:
        raise ChangeRefused("Refused, nothing has changed:\n" + "\n".join(found.refusals), refusals=found.refusals)
    changed = before is None or before.version != configuration.version
    if changed:
        _store(objects, target.artifacts, configuration, ledger)
    unparked = unpark(ledger, configuration, epoch_ms)
    lanes = _wake(target, ledger, unparked, lane_names(ledger, before, configuration) if changed else ())
    if as_json:
        print_json(
            {
                "version": configuration.version,
                "changed": changed,
                "unparked": unparked.objects,
                "woken": sorted(lanes),
                "warnings": list(warnings),
            }
        )
    else:
        print(f"{'In force' if changed else 'Already in force'}: {_summary(configuration)}")
        if unparked.objects:
            print(f"{counted(unparked.objects, 'parked object')} now pending")
        if lanes:
            print(f"Woken: {', '.join(sorted(lanes))}")


@app.command()
def show(stack: Stack = None) -> None:
    """Print the configuration in force as JSON: what functions and Spark read.

    Example:

      sluice config show | jq '.rules[].table'
    """
    target = chosen_target(stack)
    configuration = ConfigStore(Objects(target.client("s3")), target.artifacts).load()
    if configuration is None:
        raise CommandFailed(NOTHING_PUSHED, next_step="`sluice config push tables.yaml`")
    print(json_escaped(configuration.to_json()))


@app.command()
def schema() -> None:
    """Print the JSON Schema of tables.yaml, for editors. Needs no stack.

    Example:

      sluice config schema > tables.schema.json
    """
    sys.stdout.write(schema_text())


def _read(file: Path) -> Configuration:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} can't be read: {error}", next_step="Name a tables.yaml in UTF-8") from error
    try:
        return read_tables(text)
    except ConfigurationMistakes as error:
        raise ConfigurationMistakes(list(error.mistakes), str(file)) from error


def _in_force(objects: Objects, target: Target, ledger: Ledger) -> Configuration | None:
    try:
        return ConfigStore(objects, target.artifacts, history=ledger.history).load()
    except ConfigurationUnreadable as error:
        # A push repairs it.
        say(f"warning: {error.message}")
        return None


def _fit(
    objects: Objects, ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> tuple[str, ...]:
    """Return where rules don't fit the objects that wait for new tables."""
    from sluice_cli.config.waiting import waiting_warnings  # loads Arrow

    return waiting_warnings(objects, ledger, configuration, before)


def _store(objects: Objects, bucket: str, configuration: Configuration, ledger: Ledger) -> None:
    """Store the configuration, after its copy in the history and the count of pushes.

    In this order the configuration in force is always found by its version, and its loss is noticed.
    """
    ledger.history.count(PUSHES)
    data = configuration.to_json().encode("utf-8")
    objects.put(bucket, f"{HISTORY_PREFIX}{configuration.version}.json", data, content_type="application/json")
    objects.put(bucket, CONFIGURATION_KEY, data, content_type="application/json")


def _wake(target: Target, ledger: Ledger, unparked: Unparked, changed: tuple[str, ...]) -> frozenset[str]:
    """Wake the lanes of unparked objects, and the `changed` lanes with pending objects: they may be claimable now."""
    lanes = set(unparked.lanes) | {lane for lane in changed if ledger.pending.oldest(lane, 1)}
    for lane in sorted(lanes):
        ledger.lanes.wake(lane)
    if lanes:
        supervise_now(target)
    return frozenset(lanes)


def _summary(configuration: Configuration) -> str:
    lanes = configuration.lane_names()
    counts = f"{counted(len(configuration.rules), 'rule')}, {counted(len(lanes), 'lane')} ({', '.join(lanes)})"
    return f"{counts}, version {configuration.version[:12]}"
