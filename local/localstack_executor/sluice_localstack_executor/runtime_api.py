"""The Lambda Runtime API of one function process.

Source of the protocol: AWS Lambda developer guide, "Using the Lambda runtime API", version 2018-06-01.
"""

import queue
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/2018-06-01/runtime/"


@dataclass(frozen=True)
class Reply:
    """The function's answer: a body, and whether it is an error."""

    body: bytes
    is_error: bool


@dataclass(frozen=True)
class Invocation:
    """An event for the process. `deadline_ms` is epoch milliseconds."""

    request_id: str
    function_arn: str
    trace_id: str
    deadline_ms: int
    event: bytes
    reply: "Future[Reply]" = field(default_factory=Future)


class RuntimeApi:
    """A server on a free port of 127.0.0.1.

    `ready` resolves when the process asks for its first event, or fails with its `init/error`.
    """

    def __init__(self) -> None:
        self.ready: Future[None] = Future()
        self._waiting: queue.Queue[Invocation | None] = queue.Queue()
        self._lock = threading.Lock()
        self._current: Invocation | None = None
        self._ended: Reply | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, name="lambda-runtime-api").start()

    @property
    def address(self) -> str:
        """host:port, for `AWS_LAMBDA_RUNTIME_API`."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def submit(self, invocation: Invocation) -> None:
        """Hand the process its next event. For an ended process the answer says how it ended."""
        with self._lock:
            self._current, ended = invocation, self._ended
        if ended is not None:
            _resolve(invocation.reply, ended)
        else:
            self._waiting.put(invocation)

    def next_event(self) -> "Invocation | None":
        """Block until there is an event; None when the API closes."""
        _resolve(self.ready, None)
        return self._waiting.get()

    def answer(self, request_id: str, reply: Reply) -> bool:
        """Resolve the invocation with that id. Returns False if it isn't the current one."""
        with self._lock:
            current = self._current
        if current is None or current.request_id != request_id:
            return False
        _resolve(current.reply, reply)
        return True

    def process_ended(self, reply: Reply, error: Exception) -> None:
        """Fail all waits for the process's start or answer."""
        with self._lock:
            self._ended, current = reply, self._current
        self.init_failed(error)
        if current is not None:
            _resolve(current.reply, reply)

    def init_failed(self, error: Exception) -> None:
        """Fail the start: the handler's module couldn't be loaded."""
        if not self.ready.done():
            self.ready.set_exception(error)

    def close(self) -> None:
        """Release a waiting poll and free the port."""
        self._waiting.put(None)
        self._server.shutdown()
        self._server.server_close()


def _resolve(future: Future, value) -> None:
    if not future.done():
        future.set_result(value)


def _handler_for(api: RuntimeApi) -> type[BaseHTTPRequestHandler]:
    from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A response is two small writes, and Nagle's algorithm would delay the second by 40 ms.
        disable_nagle_algorithm = True

        def log_message(self, *args) -> None:
            """Log nothing: the function has a log of its own."""

        def do_GET(self) -> None:
            invocation = api.next_event()
            if invocation is None:
                with suppress(BrokenPipeError, ConnectionResetError):  # the API closes: the process may have ended
                    self._send(410)
                return
            self._send(
                200,
                invocation.event,
                {
                    "Content-Type": "application/json",
                    "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                    "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                    "Lambda-Runtime-Trace-Id": invocation.trace_id,
                    "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                },
            )

        def do_POST(self) -> None:
            body, parts = self._body(), self.path.removeprefix(PREFIX).split("/")
            if parts == ["init", "error"]:
                api.init_failed(StatusErrorException("the function's handler failed to load", payload=body))
                self._send(202)
            elif len(parts) == 3 and parts[0] == "invocation" and parts[2] in ("response", "error"):
                self._send(202 if api.answer(parts[1], Reply(body, parts[2] == "error")) else 400)
            else:
                self._send(404)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def _send(self, status: int, body: bytes = b"", headers: "dict[str, str] | None" = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
