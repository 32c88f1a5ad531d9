"""Which services of a table are due: a pure decision over what the ledger knows of it and what tables.yaml says.

What happened to a table since a service last ended well there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.batch.claim import TableState
from sluice.config.services import ServicePolicy
from sluice.config.table import HARD, MOR, TableConfig
from sluice.services.requests import CLUSTERING, COMPACTION, PURGE, SERVICES

CATALOG = "catalog"  # not among SERVICES, which are Spark's work: a function does it

CATALOG_INTERVAL_S = 60  # a sync that finds nothing new costs two calls; a new column should be seen soon
FAILED_INTERVAL_S = 3_600  # what was given up after its retries isn't asked for again at once


@dataclass(frozen=True)
class ServiceFacts:
    """What is known of one service of a table. Times are epoch ms.

    `commits` and `deleted` (rows that became tombstones) are since the service last ended well, at `done_at`.
    `ended_at` is when one last ended, well or `failed`; `open` says that one is requested or running.
    """

    commits: int = 0
    deleted: int = 0
    done_at: int | None = None
    ended_at: int | None = None
    failed: bool = False
    open: bool = False


NOTHING_KNOWN = ServiceFacts()


@dataclass(frozen=True)
class TableFacts:
    """What is known of one table. Times are epoch ms.

    `services_since` is when it was first looked at for services: ages count from it until a service ended once.
    `deleted` are all rows that ever became tombstones. `services` are by name, `catalog` among them.
    """

    table: str
    last_instant: str | None = None
    last_commit_at: int | None = None
    services_since: int | None = None
    paused: bool = False
    deleted: int = 0
    services: Mapping[str, ServiceFacts] = field(default_factory=dict, hash=False)

    def service(self, name: str) -> ServiceFacts:
        """The facts of one service."""
        return self.services.get(name, NOTHING_KNOWN)


@dataclass(frozen=True)
class Due:
    """A service that is due on a table, and why, in words for the log."""

    table: str
    service: str
    reason: str


def due(facts: TableFacts, config: TableConfig, now: int) -> tuple[Due, ...]:
    """The services to ask for now: the catalog's first, then Spark's in their order.

    None while the table has no data or is paused, and none that is switched off (`services: off` are all but the
    catalog's, which `catalog: off` is), has nothing to do, is open, or ended less than the policy's interval ago.
    """
    if facts.last_instant is None or facts.paused or config.paused:
        return ()
    reasons = ((service, _reason(service, facts, config, now)) for service in (CATALOG, *SERVICES))
    return tuple(Due(facts.table, service, reason) for service, reason in reasons if reason is not None)


def earliest(service: str, facts: ServiceFacts, policy: ServicePolicy) -> int:
    """From when a service may be asked for again (epoch ms), by the minimum interval."""
    if facts.ended_at is None:
        return 0
    interval = policy.interval_s
    if service == CATALOG and not facts.failed:
        interval = min(interval, CATALOG_INTERVAL_S)
    elif facts.failed and service != CATALOG:
        interval = max(interval, FAILED_INTERVAL_S)
    return facts.ended_at + interval * 1000


def _reason(service: str, table: TableFacts, config: TableConfig, now: int) -> str | None:
    facts, policy = table.service(service), config.services
    if facts.open or not concerns(service, config) or now < earliest(service, facts, policy):
        return None
    if service == CATALOG:
        return f"{facts.commits} commits since the last one" if facts.commits > 0 else None
    pace = policy.pace(service)
    if not policy.on or not pace.on:
        return None
    if service == PURGE:
        return _purge_reason(table, facts, policy, now)
    if facts.commits <= 0:
        return None
    if facts.commits >= pace.commits:
        return f"{facts.commits} commits since the last one"
    since = facts.done_at if facts.done_at is not None else table.services_since
    age = policy.age_s(service)
    if since is not None and now - since >= age * 1000:
        return f"{facts.commits} commits, and the last one was {age} s ago or longer"
    return None


def concerns(service: str, config: TableConfig) -> bool:
    """Whether a service has anything to do with a table of this kind."""
    if service == CATALOG:
        return config.catalog.sync
    if service == COMPACTION:
        return config.table_type == MOR
    if service == CLUSTERING:
        return bool(config.services.cluster_by)
    if service == PURGE:
        return config.delete_mode == HARD
    return True


def _purge_reason(table: TableFacts, facts: ServiceFacts, policy: ServicePolicy, now: int) -> str | None:
    """Deleted rows come past the horizon without any commit: what counts is whether there can be such rows by now.

    There are none where the last purge came after the horizon of the last commit and nothing was deleted since.
    """
    if table.deleted <= 0:
        return None
    horizon, age = policy.purge_horizon_s * 1000, policy.age_s(PURGE) * 1000
    if facts.done_at is None:
        if table.services_since is None or now - table.services_since < horizon:
            return None
        return f"{table.deleted} rows were deleted, and the first of them {policy.purge_horizon_s} s ago or longer"
    all_gone = facts.deleted <= 0 and (table.last_commit_at or 0) + horizon <= facts.done_at
    if all_gone or now - facts.done_at < age:
        return None
    return f"{table.deleted} rows were deleted, and the last purge was {policy.age_s(PURGE)} s ago or longer"


@dataclass(frozen=True)
class SinceService:
    """What happened to a table since a service last ended well there (`at`, epoch ms, and `instant`; None: never)."""

    commits: int = 0
    bytes_written: int = 0
    deleted: int = 0
    truncated: int = 0
    at: int | None = None
    instant: str | None = None


#: The totals of a table that are remembered when a service begins, by the field of SinceService. Commits are those with an
#: instant: every batch that changed something. Deleted are rows that became tombstones, truncated those that a truncate made so.
TOTALS = ("commits", "bytes_written", "deleted", "truncated")


def since(state: TableState, service: str) -> SinceService:
    """What happened to a table since a service of this kind last ended well there."""
    last: Mapping[str, Any] = state.services.get(service, {})
    counts = {name: max(0, state.totals.get(name, 0) - int(last.get(name, 0))) for name in TOTALS}
    return SinceService(**counts, at=last.get("at"), instant=last.get("instant"))
