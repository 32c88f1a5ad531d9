"""`sluice serve`: silver tables over HTTP, read only, for programs on this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Annotated

import typer

from sluice_cli.errors import CannotListen
from sluice_cli.terminal.durations import TimeSpan, at_least
from sluice_cli.terminal.output import Stack, chosen_target, say

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 8017,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, max=100_000, help="Maximum number of rows per page.")
    ] = 10_000,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="DURATION", parser=at_least(0.1), help="Maximum time for one answer: 30s, 2m."
        ),
    ] = TimeSpan(30),
    at_once: Annotated[
        int, typer.Option("--at-once", metavar="N", min=1, max=64, help="Tables read at the same time.")
    ] = 4,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Swagger UI at /docs; its script comes from a public CDN.")
    ] = True,
    stack: Stack = None,
) -> None:
    """Serve the silver tables over HTTP, read only, until Ctrl-C.

    /tables lists them, /tables/NAME shows the columns, /tables/NAME/rows a page of rows, /tables/NAME/row?key= one row.
    /openapi.json describes all parameters, and /docs is a page to try them. An answer has the table's newest commit as
    its ETag, and is kept until the next one.

    There is no authentication: everyone who reaches the address reads every table. The default is
    therefore 127.0.0.1, out of reach of other machines and of web pages of other sites. Put a proxy that asks for a
    password in front of any other.

    Examples:

      sluice serve

      curl 'http://127.0.0.1:8017/tables/moma.artists/rows?where=nationality:eq:German&limit=10'

      curl 'http://127.0.0.1:8017/tables/moma.artists/row?key=299&as_of=2026-05-01T10:15:00Z'

      sluice --stack prod serve --host 0.0.0.0 --no-page
    """
    import uvicorn

    from sluice_read.serve.api import ServeLimits, api
    from sluice_read.serve.pages import PageLimits

    target = chosen_target(stack)
    local, shown = _is_local(host), f"[{host}]" if ":" in host else host
    app = api(
        target,
        ServeLimits(max_rows=rows, at_once=at_once, page=PageLimits(seconds=seconds)),
        hosts=(*_LOCAL_NAMES, shown) if local else ("*",),
        page=page,
    )
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", server_header=False, proxy_headers=False, lifespan="off"
    )
    listening = _listening(host, port)
    say(f"Serving silver tables at http://{shown}:{listening.getsockname()[1]}/tables until Ctrl-C")
    if not local:
        say("Whoever reaches this address reads every table: there is no authentication")
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it again after it has answered what was asked
        say("Ended")


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. uvicorn's own ends the process where it can't. Raises CannotListen."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        # Python adds the address to some of these texts.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise CannotListen(f"Port {port} of {host} can't be listened on: {reason}", host=host, port=port) from error


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
