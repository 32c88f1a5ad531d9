"""Requests table services for a command, and waits for their end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sluice.config.table import TableConfig
from sluice.errors import CommandFailed
from sluice.lane.machine import HALTED, PAUSED
from sluice.names import timed_id
from sluice.services.requests import ServiceRequest
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.stack import Target
from sluice_cli.terminal.options import command_line
from sluice_cli.terminal.output import say, stderr_console
from sluice_cli.terminal.stack import supervise_now
from sluice_cli.terminal.step import Step

POLL_S = 1.0


def request_services(
    target: Target,
    config: TableConfig,
    wanted: Sequence[str],
    arguments: Mapping[str, str] = MappingProxyType({}),
    *,
    requested_by: str | None = None,
) -> list[ServiceRequest]:
    """Request services of a table, regardless of the interval, and wake the lane that has to do them.

    `requested_by` is the command that the ledger keeps, the whole command line by default. Raises CommandFailed while
    one with other `arguments` is open.
    """
    now, requests = epoch_ms(), []
    for name in wanted:
        answer = target.ledger.services.request(
            config.lane,
            config.table,
            name,
            request=timed_id(name, now, uuid.uuid4().hex),
            requested_by=(requested_by or command_line.get())[:200],
            now=now,
            min_interval_ms=0,
            max_wait_ms=config.services.latest_s * 1000,
            arguments=arguments,
        )
        if not answer.new:
            say(f"{name} of {config.table} is already {answer.request.state}, by `{answer.request.requested_by}`")
        requests.append(answer.request)
    lane = target.ledger.lanes.get(config.lane)
    if lane.state in (HALTED, PAUSED):
        say(f"Lane {config.lane} is {lane.state}. The requests wait until {Step('resume', config.lane)}")
    elif requests:
        supervise_now(target)
    for request in requests:
        if request.arguments != arguments:
            other = f"Another {request.service} of {config.table} is under way, by `{request.requested_by}`"
            raise CommandFailed(other, next_step="Repeat the command once that is done")
    return requests


def wait_for_services(ledger: Ledger, requests: Sequence[ServiceRequest], seconds: float) -> list[ServiceRequest]:
    """Wait for the end of the requests, or for `seconds`; the requests as they are then."""
    deadline = time.monotonic() + seconds
    with stderr_console().status("Waiting") as shown:
        while True:
            now = [_found(ledger, request) for request in requests]
            still = [request for request in now if request.open]
            if not still or time.monotonic() >= deadline:
                return now
            shown.update(f"Waiting for {', '.join(f'{request.service} ({request.state})' for request in still)}")
            time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))


def _found(ledger: Ledger, request: ServiceRequest) -> ServiceRequest:
    current = ledger.services.get(request.lane, request.table, request.service)
    return current if current is not None and current.request == request.request else request
