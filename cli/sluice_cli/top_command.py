"""`sluice top`: lanes, backlog, freshness and runs, looked at again and again."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from sluice_aws.clock import epoch_ms
from sluice_aws.config_store import ConfigStore
from sluice_aws.ledger import Ledger
from sluice_aws.objects import Objects
from sluice_cli.output import Json, Stack, chosen_target, print_json
from sluice_cli.top_view import look, screen

EVERY_S = 2.0
PIPE_WIDTH = 180
SHARE = 4  # a look that took long (a long backlog) is followed by a longer pause


def top(
    every: Annotated[float, typer.Option("--every", metavar="S", min=0.5, help="Seconds between two looks.")] = EVERY_S,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Watch lanes, what waits in them, how fresh tables are and what runs do, until Ctrl-C.

    Where stdout is no terminal, and with --json, it looks once. What was set aside is `sluice status`'s.

    Examples:

      sluice top

      sluice top --every 5

      sluice top --json | jq '.tables[] | select(.late)'
    """
    target = chosen_target(stack)
    ledger, store = (
        Ledger(target.client("dynamodb"), target.ledger_table),
        ConfigStore(Objects(target.client("s3")), target.artifacts),
    )
    document = look(ledger, epoch_ms(), store.load())
    if as_json:
        print_json(document)
        return
    if not sys.stdout.isatty():
        Console(width=PIPE_WIDTH).print(screen(document, height=sys.maxsize, width=PIPE_WIDTH))
        return
    console = Console()
    if once:
        console.print(_fitted(document, console))
        return
    _watch(ledger, store, document, every, console)


def _watch(ledger: Ledger, store: ConfigStore, document: dict[str, Any], every: float, console: Console) -> None:
    try:
        with Live(_fitted(document, console), console=console, screen=True, auto_refresh=False) as live:
            took = 0.0
            while True:
                time.sleep(max(every, SHARE * took))
                began = time.monotonic()
                document = look(ledger, epoch_ms(), store.load(), document)
                took = time.monotonic() - began
                live.update(_fitted(document, console), refresh=True)
    except KeyboardInterrupt:
        console.print(_fitted(document, console))


def _fitted(document: dict[str, Any], console: Console) -> RenderableType:
    return screen(document, height=console.height, width=console.width)
