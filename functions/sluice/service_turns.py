"""Which of a lane's open service requests a run does next, which have to wait, and which can never be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping, Optional, Tuple

from sluice.claiming import TableState
from sluice.configuration import Configuration
from sluice.service_requests import SERVICES, ServiceError, ServiceRequest
from sluice.table_config import TableConfig


def executable_at(request: ServiceRequest, config: Optional[TableConfig], state: TableState) -> Optional[int]:
    """From when a run may do a slice (epoch ms); None while the table is paused, or the request isn't open or can't be done.

    What release, wake-up and sweep go by too, as they do for claimable objects (rule 2).
    """
    if not request.open or config is None or config.paused or state.paused:
        return None
    return max(request.not_before, state.backoff_until or 0)


def configured(configuration: Configuration, lane: str, state: TableState) -> Optional[TableConfig]:
    """The configuration of a table that has data; None when its topic no longer goes to it, or to another lane."""
    topic = (state.pinned or {}).get("topic")
    config = configuration.table_for_topic(topic) if isinstance(topic, str) else None
    return config if config is not None and config.table == state.table and config.lane == lane else None


def impossible(request: ServiceRequest, config: Optional[TableConfig], state: TableState) -> Optional[ServiceError]:
    """Why an open request can never be done as things are configured; None when it can be."""
    if state.pinned is None:
        return ServiceError("no_data", f"{request.table} has no data yet", retriable=False)
    if config is None:
        return ServiceError(
            "not_configured", f"{request.table} is not configured for lane {request.lane}", retriable=False
        )
    return None


@dataclass(frozen=True)
class ServicePlan:
    """What of a lane's open requests comes next: `now` is the request to do a slice of (None: none may), `overdue` whether before claimable work.

    `next_at` is when the earliest of those that wait may be done (None: none will without being changed).
    """

    now: Optional[ServiceRequest] = None
    overdue: bool = False
    next_at: Optional[int] = None

    @property
    def due_at(self) -> Optional[int]:
        """What a run that ends now writes as the lane's `due_at` for services: 0 for at once."""
        return 0 if self.now is not None else self.next_at


def plan_services(
    requests: Iterable[ServiceRequest], executable: Mapping[Tuple[str, str], Optional[int]], now: int
) -> ServicePlan:
    """Which request's slice is next: an overdue one, then the one that waits longest since its last slice.

    `executable` is `executable_at` by (table, service); what is missing may not be done.
    """
    times = [(request, executable.get((request.table, request.service))) for request in requests]
    ready = [request for request, at in times if at is not None and at <= now]
    later = [at for _, at in times if at is not None and at > now]
    chosen = min(ready, key=lambda request: _turn(request, now)) if ready else None
    return ServicePlan(chosen, chosen is not None and now >= chosen.overdue_at, min(later) if later else None)


def _turn(request: ServiceRequest, now: int) -> Tuple[bool, int, int, str]:
    waits_since = request.requested_at if request.slice_at is None else request.slice_at
    return now < request.overdue_at, waits_since, SERVICES.index(request.service), request.table
