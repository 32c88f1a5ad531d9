"""`sluice ops services list|run`: lists table services and what is due, and requests services now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from sluice.config.table import TableConfig
from sluice.errors import CommandFailed, UsageError
from sluice.names import did_you_mean
from sluice.services.policy import applies_to
from sluice.services.requests import FAILED, ICEBERG, SERVICES
from sluice_aws.clock import epoch_ms
from sluice_cli.account.service import describe_due, due_entries, service_entries
from sluice_cli.status.status import print_services
from sluice_cli.terminal.known_names import check_table, configured_table
from sluice_cli.terminal.options import Json, Stack, TableName, TimeSpan, argument, option, seconds
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.services import request_services, wait_for_services
from sluice_cli.terminal.stack import chosen_target, lane_names

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_services(
    table: Annotated[str | None, argument("[TABLE]", "Only this table: database.table")] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the open or last request of each service of each table, then the services that are due.

    Examples:

      sluice ops services list moma.artists
      sluice ops services list --json | jq '.services[].error'
    """
    target = chosen_target(stack)
    ledger, configuration, now = target.ledger, target.configuration(without_ledger=True), epoch_ms()
    states = [state for state in ledger.tables.all() if table in (None, state.table)]
    if not states:
        check_table(target, table)
    in_use = {state.table for state in states}
    requests = [
        request
        for lane in lane_names(ledger, configuration)
        for request in ledger.services.of_lane(lane)
        if request.table in in_use
    ]
    entries = service_entries(states, requests)
    due = due_entries(configuration, states, requests, now)
    if as_json:
        print_json({"services": entries, "due": due})
        return
    print_services(entries, now)
    if not entries and not due:
        say("No service was requested yet, and none is due")
    for entry in due:
        print_line(describe_due(entry))


@app.command("run")
def run_services(
    table: TableName,
    service: Annotated[
        list[str] | None,
        option(
            "--service -s SERVICE",
            f"One of {', '.join(SERVICES)}, or {ICEBERG}, which makes the Iceberg table again. Repeat it for "
            f"several. Default: all that apply to the table, without {ICEBERG}.",
        ),
    ] = None,
    wait_s: Annotated[
        float,
        option(
            "--wait DURATION",
            "How long to wait for the requests to end: 90s, 5m. Exits with 1 if one failed or is still open.",
            parser=seconds,
        ),
    ] = TimeSpan(0),
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Request table services now, regardless of the table's policy.

    The lane's run executes them between two batches; an idle lane starts a run. A service with an open request is not
    requested again. To sync the catalog, use `sluice ops catalog sync`.

    Examples:

      sluice ops services run moma.artworks
      sluice ops services run moma.artworks --service compaction --wait 5m
    """
    target = chosen_target(stack)
    config, state = configured_table(target, table)
    wanted = _wanted(service, config)
    if state.last_instant is None:
        raise CommandFailed(f"{table} has no data yet", next_step="Services run after the table's first commit")
    requests = request_services(target, config, wanted)
    ended = wait_for_services(target.ledger, requests, wait_s) if wait_s else requests
    entries = service_entries([], ended)
    if as_json:
        print_json({"services": entries})
    else:
        print_services(entries, epoch_ms())
    if wait_s and any(request.open or request.state == FAILED for request in ended):
        raise typer.Exit(1)


def _wanted(given: Sequence[str] | None, config: TableConfig) -> tuple[str, ...]:
    """The services to request, in their best order. Raises UsageError."""
    names = (*SERVICES, ICEBERG)
    unknown = [name for name in given or () if name not in names]
    if unknown:
        raise UsageError(
            f"{unknown[0]!r} is not a service{did_you_mean(unknown[0], names)}",
            next_step=f"Name one of these services: {', '.join(names)}",
        )
    useless = [name for name in given or () if not applies_to(name, config)]
    if useless:
        raise UsageError(
            f"{useless[0]} does not apply to {config.table}: {_WHY_NOT[useless[0]]}",
            next_step="Name another service, or none for all that apply",
        )
    return tuple(name for name in names if (name in given if given else name != ICEBERG and applies_to(name, config)))


_WHY_NOT = {
    "compaction": "the table is copy-on-write",
    "clustering": "its rule names no clustering columns (services: clustering: by)",
    ICEBERG: "its rule doesn't say iceberg: true",
    "purge": "deleted rows are kept (delete_mode isn't hard)",
}
