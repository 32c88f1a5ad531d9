"""A proxy between drivers and the emulator: it catches, refuses, delays or cuts off what a rule matches."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

S3, DYNAMODB, OTHER = "s3", "dynamodb", "other"
LONGEST_HOLD_S = 300.0  # a caught request that nobody lets go is cut off
_UPSTREAM_S = 120.0


@dataclass(frozen=True)
class Request:
    """One request: `path` is decoded, with its bucket; `operation` is DynamoDB's."""

    service: str
    method: str
    path: str
    query: str
    operation: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    """An answer as the service gives it: an HTTP status and the service's error code."""

    status: int
    code: str
    message: str = "answered by the fault proxy"

    def content(self, request: Request) -> tuple[str, bytes]:
        """The content type and the body, in the form of the request's service."""
        if request.service == DYNAMODB:
            kind = f"com.amazonaws.dynamodb.v20120810#{self.code}"
            return "application/x-amz-json-1.0", json.dumps({"__type": kind, "message": self.message}).encode()
        text = f"<Error><Code>{self.code}</Code><Message>{self.message}</Message><RequestId>fault</RequestId></Error>"
        return "application/xml", b'<?xml version="1.0" encoding="UTF-8"?>' + text.encode()


class CutOff(Exception):
    """Drop the connection without an answer."""


@dataclass
class Rule:
    """What happens to the requests that `matches` finds, from the one behind `skip`, at most `times` of them.

    `before` is done before a request is forwarded, and may give the answer in its place; `after` when its answer is
    known, and not yet given. Both may raise CutOff.
    """

    matches: Callable[[Request], bool]
    before: Callable[[Request], Answer | None] | None = None
    after: Callable[[Request], None] | None = None
    skip: int = 0
    times: int | None = None
    seen: int = 0
    struck: int = 0


class Trap:
    """Holds the first request that it gets, so that its sender can be killed or stopped there."""

    def __init__(self) -> None:
        self._caught, self._go = threading.Event(), threading.Event()
        self.request: Request | None = None
        self.forward = False

    def __call__(self, request: Request) -> None:
        """Wait until `let_go`; cut the request off unless it is to be forwarded."""
        self.request = request
        self._caught.set()
        self._go.wait(LONGEST_HOLD_S)
        if not self.forward:
            raise CutOff

    def wait(self, timeout_s: float) -> Request:
        """The request, once it is caught. Raises TimeoutError."""
        if not self._caught.wait(timeout_s):
            raise TimeoutError(f"no request was caught within {timeout_s:.0f} s")
        assert self.request is not None
        return self.request

    def let_go(self, *, forward: bool = False) -> None:
        """Forward the request now, however late, or cut it off."""
        self.forward = forward
        self._go.set()


@dataclass
class FaultProxy:
    """A running proxy. Rules are asked in their order, and the first one that matches a request decides."""

    port: int
    _rules: list[Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def rule(self, matches: Callable[[Request], bool], **how: Any) -> Iterator[Rule]:
        """Apply a rule for the length of a block."""
        rule = Rule(matches, **how)
        with self._lock:
            self._rules.append(rule)
        try:
            yield rule
        finally:
            with self._lock:
                self._rules.remove(rule)

    def rule_for(self, request: Request) -> Rule | None:
        """The rule that strikes this request, counted."""
        with self._lock:
            for rule in self._rules:
                if rule.matches(request):
                    rule.seen += 1
                    if rule.seen > rule.skip and (rule.times is None or rule.struck < rule.times):
                        rule.struck += 1
                        return rule
        return None


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Run a proxy of an endpoint, on 127.0.0.1, for the length of a block."""
    place = urlsplit(upstream)
    host, port = str(place.hostname), int(place.port or 80)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _relay(self) -> None:
            request = self._request()
            rule = proxy.rule_for(request)
            try:
                answer = rule.before(request) if rule is not None and rule.before is not None else None
                if answer is not None:
                    kind, content = answer.content(request)
                    self._send(answer.status, [("Content-Type", kind), ("Content-Length", str(len(content)))], content)
                    return
                status, headers, content = self._forwarded(request.body)
                if rule is not None and rule.after is not None:
                    rule.after(request)
                self._send(status, headers, content)
            except (CutOff, OSError):  # OSError: the client is dead, or the emulator has ended
                self._cut_off()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = _relay

        def _request(self) -> Request:
            target = self.headers.get("X-Amz-Target") or ""
            url = urlsplit(self.path)
            service = DYNAMODB if target.startswith("DynamoDB") else OTHER if target else S3
            if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
                body = self._chunks()
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return Request(service, self.command, unquote(url.path), url.query, target.rpartition(".")[2], body)

        def _chunks(self) -> bytes:
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # trailers
            return body

        def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            left_out = {"connection", "transfer-encoding", "content-length", "expect"}
            headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
            if body or self.command in ("PUT", "POST"):
                headers["Content-Length"] = str(len(body))
            connection = http.client.HTTPConnection(host, port, timeout=_UPSTREAM_S)
            try:
                connection.request(self.command, self.path, body=body, headers=headers)
                answer = connection.getresponse()
                content = answer.read()
                given = [(n, v) for n, v in answer.getheaders() if n.lower() not in ("connection", "transfer-encoding")]
                if self.command != "HEAD" and answer.status not in (204, 304):
                    given = [(n, v) for n, v in given if n.lower() != "content-length"]
                    given.append(("Content-Length", str(len(content))))
                return answer.status, given, content
            finally:
                connection.close()

        def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, '')}", *(f"{n}: {v}" for n, v in headers)]
            body = b"" if self.command == "HEAD" else content  # a client would take one for the next answer's head
            self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

        def _cut_off(self) -> None:
            """Reset the connection, as a load balancer does that ends."""
            self.close_connection = True
            try:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # it is closed

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a killed client

    server = Server(("127.0.0.1", 0), Handler)
    proxy = FaultProxy(int(server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


# ---------------------------------------------------------------------- what rules do
def refuse(status: int, code: str, message: str = "answered by the fault proxy") -> Callable[[Request], Answer]:
    """Answer with an error, and forward nothing."""
    answer = Answer(status, code, message)
    return lambda request: answer


def delay(seconds: float) -> Callable[[Request], None]:
    """Let each request wait: a slow service, and no wait of a test."""
    return lambda request: time.sleep(seconds)


def cut_off(request: Request) -> None:
    """Reset the connection."""
    raise CutOff
