"""Plans table services: the tables of which services are due, and the request of a lane that a run carries out next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic
from sluice.config.table import TableConfig
from sluice.services.policy import CATALOG, Due, ServiceFacts, due, since
from sluice.services.requests import DONE, FAILED, IN_TURN, ServiceError, ServiceRequest

LONGEST_PAUSE_S = 600  # between two looks at a request: 150 looks a day
GONE = "gone"  # the request ended, and another of its kind has taken its place


@dataclass(frozen=True)
class DueTable:
    """A table with due services; `state` is the ledger's record on which the decision was made."""

    config: TableConfig
    state: TableState
    due: tuple[Due, ...]


def due_tables(
    configuration: Configuration,
    states: Iterable[TableState],
    latest: Mapping[tuple[str, str], Mapping[str, ServiceRequest]],
    now: int,
) -> tuple[DueTable, ...]:
    """The tables with due services, in order of name; `latest` are requests by lane and table. `now` is epoch ms."""
    tables = []
    for state in sorted(states, key=lambda item: item.table):
        config = config_by_pinned_topic(configuration, state.table, state.pinned)
        if config is None:
            continue
        requests = latest.get((config.lane, state.table), {})
        facts = {name: _service_facts(state, name, requests.get(name)) for name in (CATALOG, *IN_TURN)}
        services = due(state, facts, config, now)
        if services:
            tables.append(DueTable(config, state, services))
    return tuple(tables)


@dataclass(frozen=True)
class Asked:
    """A request that is followed to its outcome: its place in the ledger, and its id."""

    lane: str
    table: str
    service: str
    request: str

    def to_dict(self) -> dict[str, str]:
        """The form in which a state machine carries it."""
        return {"lane": self.lane, "table": self.table, "service": self.service, "request": self.request}

    def outcome(self, request: ServiceRequest | None) -> str | None:
        """DONE, FAILED or GONE; None while it is open. `request` is the one now in its place."""
        if request is None or request.request != self.request:
            return GONE
        return request.state if request.state in (DONE, FAILED) else None


def next_pause_s(pause_s: int) -> int:
    """Seconds until the next look: twice the last pause, up to LONGEST_PAUSE_S."""
    return min(max(1, pause_s) * 2, LONGEST_PAUSE_S)


def by_table(requests: Sequence[ServiceRequest]) -> dict[tuple[str, str], dict[str, ServiceRequest]]:
    requests_by_table: dict[tuple[str, str], dict[str, ServiceRequest]] = {}
    for request in requests:
        requests_by_table.setdefault((request.lane, request.table), {})[request.service] = request
    return requests_by_table


def _service_facts(state: TableState, name: str, request: ServiceRequest | None) -> ServiceFacts:
    work = since(state, name)
    if name == CATALOG and state.catalog_failed:
        return ServiceFacts(work.commits, done_at=work.at, ended_at=int(state.catalog_failed["at"]), failed=True)
    ended_at = work.at if request is None or request.ended_at is None else request.ended_at
    return ServiceFacts(
        commits=work.commits,
        deleted=work.deleted + work.truncated,
        done_at=work.at,
        ended_at=ended_at,
        failed=request is not None and request.state == FAILED,
        open=request is not None and request.open,
    )


def executable_at(request: ServiceRequest, config: TableConfig | None, state: TableState) -> int | None:
    """Earliest time (epoch ms) of a slice; None while the table is paused, blocked or unconfigured, or none is open.

    Release, wake-up and sweep use this predicate too.
    """
    if not request.open or config is None or config.paused or state.blocked:
        return None
    return max(request.not_before, state.backoff_until or 0)


def impossible(request: ServiceRequest, config: TableConfig | None, state: TableState) -> ServiceError | None:
    """The reason why an open request can't be carried out under this configuration; None when it can."""
    if state.pinned is None:
        return ServiceError("no_data", f"{request.table} has no data yet", retriable=False)
    if config is None:
        return ServiceError(
            "not_configured", f"{request.table} is not configured for lane {request.lane}", retriable=False
        )
    return None


@dataclass(frozen=True)
class ServicePlan:
    """The next of a lane's open requests: `now` gets a slice (None: no request may), `overdue`: before claimable work.

    `next_at` is the earliest time at which another may get one (None: not without a change).
    """

    now: ServiceRequest | None = None
    overdue: bool = False
    next_at: int | None = None

    @property
    def due_at(self) -> int | None:
        """The lane's `due_at` for services when a run ends now; 0 means at once."""
        return 0 if self.now is not None else self.next_at


def plan_services(
    requests: Iterable[ServiceRequest], executable: Mapping[tuple[str, str], int | None], now: int
) -> ServicePlan:
    """The request of the next slice: an overdue one first, then the one that has waited longest since its last slice.

    `executable` is `executable_at` by (table, service); a missing request may not be carried out.
    """
    times = [(request, executable.get((request.table, request.service))) for request in requests]
    ready = [request for request, at in times if at is not None and at <= now]
    later = [at for _, at in times if at is not None and at > now]

    def turn(request: ServiceRequest) -> tuple[bool, int, int, str]:
        waits_since = request.requested_at if request.slice_at is None else request.slice_at
        return now < request.overdue_at, waits_since, IN_TURN.index(request.service), request.table

    chosen = min(ready, key=turn, default=None)
    return ServicePlan(chosen, chosen is not None and now >= chosen.overdue_at, min(later) if later else None)
