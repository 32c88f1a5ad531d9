"""One look at all tables: the facts of each from the ledger's records, what is due, and what became of what was asked for.

Which of a lane's open service requests a run does next, which have to wait, and which can never be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic
from sluice.config.table import TableConfig
from sluice.services.policy import CATALOG, Due, ServiceFacts, TableFacts, due, since
from sluice.services.requests import DONE, FAILED, SERVICES, ServiceError, ServiceRequest

LONGEST_PAUSE_S = 600  # between two looks at a request: a day of them is 150
GONE = "gone"  # another request of the same kind stands in this one's place: this one had ended


@dataclass(frozen=True)
class DueTable:
    """A table of which something is due; `state` is what the ledger knew when that was decided."""

    config: TableConfig
    state: TableState
    due: tuple[Due, ...]


def facts_of(state: TableState, standing: Mapping[str, ServiceRequest]) -> TableFacts:
    """What the policy decides by: the table's item, and its open or last request of each service, by name."""
    services = {name: _service_facts(state, name, standing.get(name)) for name in (CATALOG, *SERVICES)}
    deleted = state.totals.get("deleted", 0) + state.totals.get("truncated", 0)
    return TableFacts(
        state.table, state.last_instant, state.last_commit_at, state.services_since, state.paused, deleted, services
    )


def due_tables(
    configuration: Configuration,
    states: Iterable[TableState],
    standing: Mapping[tuple[str, str], Mapping[str, ServiceRequest]],
    now: int,
) -> tuple[DueTable, ...]:
    """The tables of which anything is due, by name; `standing` are their requests, by lane and table. `now` is epoch ms."""
    found = []
    for state in sorted(states, key=lambda each: each.table):
        config = config_by_pinned_topic(configuration, state.table, state.pinned)
        if config is None:
            continue
        services = due(facts_of(state, standing.get((config.lane, state.table), {})), config, now)
        if services:
            found.append(DueTable(config, state, services))
    return tuple(found)


def new_request_id(service: str, now: int, entropy: str) -> str:
    """`<service>-<yyyymmddThhmmssZ>-<8 hexadecimal digits>`. `now` is epoch ms, `entropy` at least 8 digits, new ones each time."""
    at = datetime.fromtimestamp(now / 1000, tz=timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"{service}-{at}-{entropy[:8]}"


@dataclass(frozen=True)
class Asked:
    """A request that is followed to its outcome: where it stands, and its id."""

    lane: str
    table: str
    service: str
    request: str

    def to_dict(self) -> dict[str, str]:
        """As a state machine carries it."""
        return {"lane": self.lane, "table": self.table, "service": self.service, "request": self.request}

    def outcome(self, found: ServiceRequest | None) -> str | None:
        """DONE, FAILED or GONE; None while it is open. `found` is what stands in its place now."""
        if found is None or found.request != self.request:
            return GONE
        return found.state if found.state in (DONE, FAILED) else None


def next_pause_s(pause_s: int) -> int:
    """How long to wait before the next look, after waiting so long before this one: soon at first, then ever more seldom."""
    return min(max(1, pause_s) * 2, LONGEST_PAUSE_S)


def by_table(requests: Sequence[ServiceRequest]) -> dict[tuple[str, str], dict[str, ServiceRequest]]:
    """Requests by lane and table, then by service."""
    found: dict[tuple[str, str], dict[str, ServiceRequest]] = {}
    for request in requests:
        found.setdefault((request.lane, request.table), {})[request.service] = request
    return found


def _service_facts(state: TableState, name: str, request: ServiceRequest | None) -> ServiceFacts:
    known = since(state, name)
    if name == CATALOG and state.catalog_failed:
        return ServiceFacts(known.commits, done_at=known.at, ended_at=int(state.catalog_failed["at"]), failed=True)
    ended_at = known.at if request is None or request.ended_at is None else request.ended_at
    return ServiceFacts(
        commits=known.commits,
        deleted=known.deleted + known.truncated,
        done_at=known.at,
        ended_at=ended_at,
        failed=request is not None and request.state == FAILED,
        open=request is not None and request.open,
    )


def executable_at(request: ServiceRequest, config: TableConfig | None, state: TableState) -> int | None:
    """From when a run may do a slice (epoch ms); None while the table is paused, or the request isn't open or can't be done.

    What release, wake-up and sweep go by too, as they do for claimable objects (rule 2).
    """
    if not request.open or config is None or config.paused or state.paused:
        return None
    return max(request.not_before, state.backoff_until or 0)


def impossible(request: ServiceRequest, config: TableConfig | None, state: TableState) -> ServiceError | None:
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

    now: ServiceRequest | None = None
    overdue: bool = False
    next_at: int | None = None

    @property
    def due_at(self) -> int | None:
        """What a run that ends now writes as the lane's `due_at` for services: 0 for at once."""
        return 0 if self.now is not None else self.next_at


def plan_services(
    requests: Iterable[ServiceRequest], executable: Mapping[tuple[str, str], int | None], now: int
) -> ServicePlan:
    """Which request's slice is next: an overdue one, then the one that waits longest since its last slice.

    `executable` is `executable_at` by (table, service); what is missing may not be done.
    """
    times = [(request, executable.get((request.table, request.service))) for request in requests]
    ready = [request for request, at in times if at is not None and at <= now]
    later = [at for _, at in times if at is not None and at > now]
    chosen = min(ready, key=lambda request: _turn(request, now)) if ready else None
    return ServicePlan(chosen, chosen is not None and now >= chosen.overdue_at, min(later) if later else None)


def _turn(request: ServiceRequest, now: int) -> tuple[bool, int, int, str]:
    waits_since = request.requested_at if request.slice_at is None else request.slice_at
    return now < request.overdue_at, waits_since, SERVICES.index(request.service), request.table
