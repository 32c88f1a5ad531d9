"""`sluice serve`: silver tables over HTTP, read only, for programs on this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Annotated

from sluice.errors import UsageError
from sluice_cli.errors import CannotListen
from sluice_cli.terminal.options import Stack, TimeSpan, at_least, option
from sluice_cli.terminal.output import say
from sluice_cli.terminal.stack import chosen_target

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_TOKEN = "SLUICE_SERVE_TOKEN"  # not an option: other users of the machine see a command's options
SHORTEST_TOKEN = 16


def serve(
    host: Annotated[str, option("--host ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("--port N", "The port; 0 takes a free one.", min=0, max=65_535)] = 8017,
    rows: Annotated[int, option("--rows N", "Maximum number of rows per page.", min=1, max=100_000)] = 10_000,
    seconds: Annotated[
        float, option("--seconds DURATION", "Maximum time for one answer: 30s, 2m.", parser=at_least(0.1))
    ] = TimeSpan(30),
    at_once: Annotated[int, option("--at-once N", "Tables read at the same time.", min=1, max=64)] = 4,
    queries: Annotated[
        Path | None,
        option("--queries FOLDER", "Also answer the saved queries, NAME.sql.", exists=True, file_okay=False),
    ] = None,
    token_file: Annotated[
        Path | None,
        option(
            "--token-file FILE",
            f"Answer only requests with this bearer token. Default: the environment's {_TOKEN}, if it is set.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    fresh: Annotated[
        float, option("--fresh DURATION", "How old an answer may be beside a newer commit.", parser=at_least(0))
    ] = TimeSpan(1),
    page: Annotated[
        bool, option("--page/--no-page", "Swagger UI at /docs; its script comes from a public CDN.")
    ] = True,
    stack: Stack = None,
) -> None:
    """Serve the silver tables over HTTP, read only, until Ctrl-C.

    /tables lists them, /tables/NAME shows the columns, /tables/NAME/rows a page of rows, /tables/NAME/row?key= one row.
    /openapi.json describes all parameters, and /docs is a page to try them. An answer has the table's newest commit as
    its ETag, and is kept until the next one. With --queries, /salesbyseller/3 is the SELECT of sales_by_seller.sql with
    3 for its $parameter, kept until one of its tables has a commit. /metrics is for Prometheus, /health for probes.

    Without a token, everyone who reaches the address reads every table. The default address is 127.0.0.1, out of reach
    of other machines and of web pages of other sites, but not of other users of this machine: give a token on a shared
    host, and put a proxy with TLS in front of any other address.

    Examples:

      sluice serve
      curl 'http://127.0.0.1:8017/tables/moma.artists/rows?where=nationality:eq:German&limit=10'
      curl 'http://127.0.0.1:8017/tables/moma.artists/row?key=299&as_of=2026-05-01T10:15:00Z'
      sluice serve --queries queries/ && curl http://127.0.0.1:8017/salesbyseller/3
      sluice --stack prod serve --host 0.0.0.0 --no-page --token-file /run/secrets/sluice
    """
    import uvicorn

    from sluice_read.serve.api import ServeLimits, api
    from sluice_read.serve.pages import PageLimits
    from sluice_read.serve.queries import saved_queries

    token = _token(token_file)
    saved = () if queries is None else saved_queries(queries)
    target = chosen_target(stack)
    local, shown = _is_local(host), f"[{host}]" if ":" in host else host
    app = api(
        target,
        ServeLimits(max_rows=rows, at_once=at_once, fresh_s=fresh, page=PageLimits(seconds=seconds)),
        hosts=(*_LOCAL_NAMES, shown) if local else ("*",),
        page=page,
        queries=saved,
        token=token,
    )
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", server_header=False, proxy_headers=False, lifespan="off"
    )
    listening = _listening(host, port)
    say(f"Serving silver tables at http://{shown}:{listening.getsockname()[1]}/tables until Ctrl-C")
    if not local and token is None:
        say("Whoever reaches this address reads every table: there is no authentication")
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it again after it has answered what was asked
        say("Ended")


def _token(file: Path | None) -> str | None:
    """The token that requests must carry; None for none. Raises UsageError for one that is empty or not one word."""
    text = os.environ.get(_TOKEN) if file is None else file.read_text(encoding="utf-8").strip()
    if text is None:
        return None
    if len(text) < SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        where = _TOKEN if file is None else str(file)
        raise UsageError(
            f"{where} is no token: it has at least {SHORTEST_TOKEN} ASCII characters without blanks",
            next_step="Make one: `openssl rand -hex 32`",
        )
    return text


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. uvicorn's own ends the process where it can't. Raises CannotListen."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Connections inherit it; asyncio sets it for sockets alone that it opens, and answers then wait 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        # Python adds the address to some of these texts.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise CannotListen(f"Port {port} of {host} can't be listened on: {reason}", host=host, port=port) from error


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
