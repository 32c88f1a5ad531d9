"""Logs, metrics and times of a function. Log lines are events with fields; counts are EMF metrics."""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import Any, Callable

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from sluice_aws.call_times import CallTimes

LEVEL_VARIABLE = "POWERTOOLS_LOG_LEVEL"
NAMESPACE_VARIABLE = "POWERTOOLS_METRICS_NAMESPACE"  # one per stack, so that stacks of an account do not mix


class Telemetry:
    """The Powertools of one function. Making them reads the environment, so it happens in the first invocation."""

    def __init__(self, function: str) -> None:
        self.call_times = CallTimes()
        self._logger = Logger(service=function)
        # Powertools prefers Lambda's own level, which must not be above INFO: Lambda would drop the metrics.
        logging.getLogger(function).setLevel(os.environ.get(LEVEL_VARIABLE, "INFO"))
        self._namespace = os.environ.get(NAMESPACE_VARIABLE, "Sluice")
        self._metrics = Metrics(namespace=self._namespace, service=function)
        self._service = function
        self._cold = True

    def event(self, name: str, /, **fields: Any) -> None:
        self._logger.info(name, stacklevel=3, **_named(fields))

    def warn(self, name: str, /, **fields: Any) -> None:
        self._logger.warning(name, stacklevel=3, **_named(fields))

    def count(self, metric: str, n: float = 1, /, *, unit: str = "Count", **dimensions: str) -> None:
        self._metrics.add_metric(name=metric, unit=MetricUnit(unit), value=n)
        if not dimensions:
            return
        # One EMF document per metric: its dimensions hold for all metrics in it, and lanes and reasons differ.
        single = EphemeralMetrics(namespace=self._namespace, service=self._service)
        for name, value in dimensions.items():
            single.add_dimension(name=name, value=value)
        single.add_metric(name=metric, unit=MetricUnit(unit), value=n)
        single.flush_metrics()

    def observe(self, function: Callable[[Any, Any, Telemetry], Any], event: Any, context: Any) -> Any:
        """Run a handler with the request's id. Log a failure once, and write times and metrics in any case."""
        self._logger.append_keys(request_id=getattr(context, "aws_request_id", None))
        begun_at = time.perf_counter()
        try:
            return function(event, context, self)
        except Exception as error:
            facts = getattr(error, "facts", {})
            self._logger.exception(
                "invocation_failed", code=getattr(error, "code", type(error).__name__), **_named(facts)
            )
            raise
        finally:
            elapsed_ms = round((time.perf_counter() - begun_at) * 1000)
            self.event("invocation_ended", ms=elapsed_ms, cold_start=self._cold, calls=self.call_times.take())
            self._cold = False
            if self._metrics.metric_set:  # flushing nothing warns
                self._metrics.flush_metrics()


@functools.cache
def telemetry_of(function: str) -> Telemetry:
    """The one Telemetry of a function in this process."""
    return Telemetry(function)


def observed(function: str) -> Callable[[Callable[[Any, Any, Telemetry], Any]], Callable[[Any, Any], Any]]:
    """Decorate a function (event, context, telemetry) to make it a Lambda handler. Its Telemetry is made lazily."""

    def decorate(wrapped: Callable[[Any, Any, Telemetry], Any]) -> Callable[[Any, Any], Any]:
        @functools.wraps(wrapped)
        def handler(event: Any, context: Any) -> Any:
            return telemetry_of(function).observe(wrapped, event, context)

        return handler

    return decorate


# Names that the logging module uses for a record's own fields and refuses for others.
_TAKEN = frozenset(
    (
        "name args msg message module level exc_info extra stack_info stacklevel filename lineno process thread "
        "asctime created"
    ).split()
)


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    return {(f"{name}_" if name in _TAKEN else name): value for name, value in fields.items() if value is not None}


def milliseconds_left(context: Any) -> int | None:
    """The rest of an invocation's time; None where there is no limit, as in a test."""
    left = getattr(context, "get_remaining_time_in_millis", None)
    return None if left is None else int(left())
