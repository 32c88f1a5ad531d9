"""Counts a server's requests, for Prometheus: its text format, version 0.0.4."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)  # upper bounds of the buckets
_UNKNOWN = "unknown"  # in place of paths that are none of the server's: their number has no bound


class RequestMetrics:
    """An ASGI application around another that counts its requests and measures their time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._answers: Counter[str] = Counter()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application that counts what `app` answers."""

        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began, status = time.perf_counter(), 500

            async def noting(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, noting)
            finally:
                route = scope.get("route")
                self._note(getattr(route, "path", _UNKNOWN), status, time.perf_counter() - began)

        return counting

    def count_answer(self, source: str) -> None:
        """Count an answer by its source: `memory`, `unchanged` (304) or `read`."""
        with self._lock:
            self._answers[source] += 1

    def _note(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] += seconds  # type: ignore[assignment]  # a counter of seconds
            for bound in _SECONDS:
                self._buckets[path, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
        """All metrics. `gauges` are further ones by name: their meaning, and their values by table ("" for none)."""
        with self._lock:
            return "".join(f"{line}\n" for line in (*self._lines(), *_gauge_lines(gauges)))

    def _lines(self) -> Iterator[str]:
        yield from _head("sluice_serve_requests_total", "counter", "Requests by path and status")
        for (path, status), number in sorted(self._requests.items()):
            yield f'sluice_serve_requests_total{{path="{_label(path)}",status="{status}"}} {number}'
        yield from _head("sluice_serve_request_seconds", "histogram", "Time from a request to its whole answer")
        counts = Counter[str]()
        for (path, _), number in self._requests.items():
            counts[path] += number
        for path, number in sorted(counts.items()):
            label = f'path="{_label(path)}"'
            for bound in _SECONDS:
                yield f'sluice_serve_request_seconds_bucket{{{label},le="{bound:g}"}} {self._buckets[path, bound]}'
            yield f'sluice_serve_request_seconds_bucket{{{label},le="+Inf"}} {number}'
            yield f"sluice_serve_request_seconds_sum{{{label}}} {self._seconds[path]:.6f}"
            yield f"sluice_serve_request_seconds_count{{{label}}} {number}"
        yield from _head("sluice_serve_answers_total", "counter", "Answers about tables by where they came from")
        for source, number in sorted(self._answers.items()):
            yield f'sluice_serve_answers_total{{source="{source}"}} {number}'


def _gauge_lines(gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> Iterator[str]:
    for name, (meaning, values) in gauges.items():
        yield from _head(name, "gauge", meaning)
        for table, value in sorted(values.items()):
            yield f'{name}{{table="{_label(table)}"}} {value:.15g}' if table else f"{name} {value:.15g}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
