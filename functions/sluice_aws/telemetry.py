"""Logs, metrics and traces of a function: log lines are events with fields, counts are EMF metrics."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Protocol

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

NAMESPACE_VARIABLE = "POWERTOOLS_METRICS_NAMESPACE"  # of the stack's own: two stacks of an account don't mix


class Report(Protocol):
    """Where the parts of a function say what they did. Not for several threads at once."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Something happened that is as it should be."""

    def warn(self, name: str, /, **fields: Any) -> None:
        """Something happened that a person may have to look at."""

    def count(self, metric: str, n: float = 1, /, *, unit: str = "Count", **dimensions: str) -> None:
        """Add to a metric of this function. With dimensions (lane, reason) to one of theirs as well: alarms watch the sum, people look at the parts."""


class Telemetry:
    """The Powertools of one function. Made on the first invocation: making them reads the environment."""

    def __init__(self, function: str) -> None:
        self._logger = Logger(service=function)
        self._namespace = os.environ.get(NAMESPACE_VARIABLE, "Sluice")
        self._metrics = Metrics(namespace=self._namespace, service=function)
        self._tracer = Tracer(service=function)
        self._service = function

    def event(self, name: str, /, **fields: Any) -> None:
        self._logger.info(name, stacklevel=3, **_named(fields))

    def warn(self, name: str, /, **fields: Any) -> None:
        self._logger.warning(name, stacklevel=3, **_named(fields))

    def count(self, metric: str, n: float = 1, /, *, unit: str = "Count", **dimensions: str) -> None:
        self._metrics.add_metric(name=metric, unit=MetricUnit(unit), value=n)
        if not dimensions:
            return
        # One blob per metric: dimensions of a blob hold for all its metrics, and lanes and tables differ.
        single = EphemeralMetrics(namespace=self._namespace, service=self._service)
        for name, value in dimensions.items():
            single.add_dimension(name=name, value=value)
        single.add_metric(name=metric, unit=MetricUnit(unit), value=n)
        single.flush_metrics()

    def observe(self, function: Callable[[Any, Any, Telemetry], Any], event: Any, context: Any) -> Any:
        """Run a handler: under the request's id, traced, its failure logged once, its metrics written whatever happens."""
        self._logger.append_keys(request_id=getattr(context, "aws_request_id", None))
        traced = self._tracer.capture_lambda_handler(
            lambda given, within: function(given, within, self), capture_response=False
        )
        try:
            return traced(event, context)
        except Exception as error:
            facts = getattr(error, "facts", {})
            self._logger.exception(
                "invocation_failed", code=getattr(error, "code", type(error).__name__), **_named(facts)
            )
            raise
        finally:
            if self._metrics.metric_set:  # flushing nothing warns
                self._metrics.flush_metrics()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A subsegment of the trace."""
        with self._tracer.provider.in_subsegment(name=f"## {name}"):
            yield


@functools.cache
def telemetry_of(function: str) -> Telemetry:
    """The one Telemetry of a function in this process."""
    return Telemetry(function)


def observed(function: str) -> Callable[[Callable[[Any, Any, Telemetry], Any]], Callable[[Any, Any], Any]]:
    """Make a Lambda handler of a function that also takes its Telemetry. Nothing is made before it is called."""

    def decorate(wrapped: Callable[[Any, Any, Telemetry], Any]) -> Callable[[Any, Any], Any]:
        @functools.wraps(wrapped)
        def handler(event: Any, context: Any) -> Any:
            return telemetry_of(function).observe(wrapped, event, context)

        return handler

    return decorate


# What the logging module itself calls a record's fields; a field of ours by such a name would be refused.
_TAKEN = frozenset(
    {
        "name",
        "args",
        "msg",
        "message",
        "module",
        "level",
        "exc_info",
        "extra",
        "stack_info",
        "stacklevel",
        "filename",
        "lineno",
        "process",
        "thread",
        "asctime",
        "created",
    }
)


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    return {(f"{name}_" if name in _TAKEN else name): value for name, value in fields.items() if value is not None}


def milliseconds_left(context: Any) -> int | None:
    """What remains of an invocation's time; None where nothing limits it (a test, a shell)."""
    left = getattr(context, "get_remaining_time_in_millis", None)
    return None if left is None else int(left())
