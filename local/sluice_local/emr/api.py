"""The HTTP API of EMR Serverless for applications and job runs (botocore's model of 2021-07-13)."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from sluice_local.emr.service import ApiRefusal, Service
from sluice_local.processes import LOOPBACK

_LOG = logging.getLogger(__name__)
_LONGEST_BODY = 1 << 20

Query = Mapping[str, list[str]]
_Handler = Callable[[Service, Mapping[str, str], Query, Mapping[str, Any]], Mapping[str, Any]]


def _one(query: Query, name: str, default: str = "") -> str:
    return query.get(name, [default])[0]


_APPLICATION = r"/applications/(?P<application>[0-9a-z]+)"
_RUN = rf"{_APPLICATION}/jobruns/(?P<run>[0-9a-z]+)"
_ROUTES: list[tuple[str, str, _Handler]] = [
    ("POST", r"/applications", lambda s, p, q, b: s.create_application(b)),
    ("GET", r"/applications", lambda s, p, q, b: s.list_applications(states=q.get("states", []))),
    ("GET", _APPLICATION, lambda s, p, q, b: s.get_application(p["application"])),
    ("DELETE", _APPLICATION, lambda s, p, q, b: s.delete_application(p["application"])),
    ("POST", rf"{_APPLICATION}/start", lambda s, p, q, b: s.start_application(p["application"])),
    ("POST", rf"{_APPLICATION}/stop", lambda s, p, q, b: s.stop_application(p["application"])),
    ("POST", rf"{_APPLICATION}/jobruns", lambda s, p, q, b: s.start_job_run(p["application"], b)),
    (
        "GET",
        rf"{_APPLICATION}/jobruns",
        lambda s, p, q, b: s.list_job_runs(
            p["application"],
            states=q.get("states", []),
            created_after=_one(q, "createdAtAfter"),
            created_before=_one(q, "createdAtBefore"),
            most=int(_one(q, "maxResults", "50")),
            token=_one(q, "nextToken"),
        ),
    ),
    ("GET", _RUN, lambda s, p, q, b: s.get_job_run(p["application"], p["run"])),
    (
        "DELETE",
        _RUN,
        lambda s, p, q, b: s.cancel_job_run(
            p["application"], p["run"], grace=float(_one(q, "shutdownGracePeriodInSeconds", "120"))
        ),
    ),
    ("GET", r"/tags/(?P<arn>.+)", lambda s, p, q, b: s.list_tags(unquote(p["arn"]))),
    # Not an operation of the service: tests make the stand-in misbehave by it.
    ("PUT", r"/_stand-in/behaviour", lambda s, p, q, b: s.behave(b)),
]
_COMPILED = [(method, re.compile(f"^{path}$"), handler) for method, path, handler in _ROUTES]


def serve(service: Service, port: int, bind: str = LOOPBACK) -> ThreadingHTTPServer:
    """A listening server of `service` on an IPv4 address. The caller calls `serve_forever` and `shutdown`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            try:
                if length > _LONGEST_BODY:
                    raise ApiRefusal("ValidationException", "the request is too large")
                body = json.loads(self.rfile.read(length) or b"{}")
                status, answer, kind = 200, _dispatch(service, self.command, url.path, parse_qs(url.query), body), None
            except ApiRefusal as refused:
                status, answer, kind = refused.status, {"message": refused.message}, refused.code
            except ValueError as error:
                status, answer, kind = 400, {"message": str(error)}, "ValidationException"
            except Exception as error:  # every request gets an answer, as from the service
                _LOG.exception("%s %s failed", self.command, url.path)
                status, answer, kind = 500, {"message": repr(error)}, "InternalServerException"
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if kind:
                self.send_header("x-amzn-ErrorType", kind)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            _LOG.debug(format, *args)

    return _Server((bind, port), Handler)


class _Server(ThreadingHTTPServer):
    """Ignores clients that end within a request, as functions do when the emulator ends."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        gone = isinstance(sys.exc_info()[1], ConnectionError)
        _LOG.log(logging.DEBUG if gone else logging.ERROR, "a request of %s ended early", client_address, exc_info=True)


def _dispatch(service: Service, method: str, path: str, query: Query, body: Mapping[str, Any]) -> Mapping[str, Any]:
    for wanted, pattern, handler in _COMPILED:
        match = pattern.match(path)
        if match and method == wanted:
            return handler(service, match.groupdict(), query, body)
    raise ApiRefusal("ValidationException", f"{method} {path} is not an operation of this stand-in")
