"""Decides which services of a table are due, by the ledger's facts about it and the policy in tables.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.batch.claim import TableState
from sluice.config.services import ServicePolicy
from sluice.config.table import HARD, MOR, TableConfig
from sluice.services.requests import (
    ADOPTION,
    ARCHIVAL,
    CLEANING,
    CLUSTERING,
    COMPACTION,
    FORGETTING,
    ICEBERG,
    PURGE,
    SERVICES,
)

CATALOG = "catalog"  # a function's work; SERVICES are Spark's

CATALOG_INTERVAL_S = 60  # a sync without news takes two calls, and a new column should be visible soon
FAILED_INTERVAL_S = 3_600  # after a service was given up


@dataclass(frozen=True)
class ServiceFacts:
    """Facts about one service of a table. Times are epoch ms.

    `commits` and `deleted` (rows that became tombstones) count since the service last succeeded, at `done_at`.
    `ended_at` is when it last ended, in success or `failed`. `open`: it is requested or running.
    """

    commits: int = 0
    deleted: int = 0
    done_at: int | None = None
    ended_at: int | None = None
    failed: bool = False
    open: bool = False


@dataclass(frozen=True)
class Due:
    """A service that is due on a table, and the reason for the log."""

    table: str
    service: str
    reason: str


def due(state: TableState, services: Mapping[str, ServiceFacts], config: TableConfig, now: int) -> tuple[Due, ...]:
    """The services to request now: the catalog's, then Spark's in their order. `services` has the facts by name.

    None while the table has no data, is paused or blocked. Left out are services that are switched off (by `services:
    off`, the catalog's by `catalog: off`), have nothing to do, are open, or ended less than the policy's interval ago.
    """
    if state.last_instant is None or state.blocked or config.paused:
        return ()
    reasons = ((service, _reason(service, state, services, config, now)) for service in (CATALOG, *SERVICES))
    return tuple(Due(state.table, service, reason) for service, reason in reasons if reason is not None)


def earliest(service: str, facts: ServiceFacts, policy: ServicePolicy) -> int:
    """Earliest time (epoch ms) of the next request, by the minimum interval."""
    if facts.ended_at is None:
        return 0
    interval = policy.interval_s
    if service == CATALOG and not facts.failed:
        interval = min(interval, CATALOG_INTERVAL_S)
    elif facts.failed and service != CATALOG:
        interval = max(interval, FAILED_INTERVAL_S)
    return facts.ended_at + interval * 1000


def _reason(
    service: str, state: TableState, services: Mapping[str, ServiceFacts], config: TableConfig, now: int
) -> str | None:
    facts, policy = services.get(service, ServiceFacts()), config.services
    if facts.open or not applies_to(service, config) or now < earliest(service, facts, policy):
        return None
    if service == CATALOG:
        # A cleaning removes the Iceberg metadata that the catalog has named since.
        served = config.iceberg and any((one.done_at or 0) > (facts.done_at or 0) for one in services.values())
        return _commits(facts.commits) if facts.commits > 0 else "a service since the last run" if served else None
    pace = policy.pace(service)
    if not policy.on or not pace.on:
        return None
    if service == PURGE:
        return _purge_reason(state, facts, policy, now)
    if facts.commits <= 0:
        return None
    if facts.commits >= pace.commits:
        return _commits(facts.commits)
    since = facts.done_at if facts.done_at is not None else state.services_since
    age = policy.age_s(service)
    if since is not None and now - since >= age * 1000:
        return f"{_commits(facts.commits)}, {age} s ago or longer"
    return None


def _commits(number: int) -> str:
    return f"{number} {'commit' if number == 1 else 'commits'} since the last run"


def applies_to(service: str, config: TableConfig) -> bool:
    """Whether a service applies to a table of this configuration. An unknown one applies to none."""
    applies = {
        CATALOG: config.catalog.sync,
        COMPACTION: config.table_type == MOR,
        CLUSTERING: bool(config.services.cluster_by),
        PURGE: config.delete_mode == HARD,
        CLEANING: True,
        ARCHIVAL: True,
        ADOPTION: not config.history and not config.append_only and not config.columns.any,
        FORGETTING: not config.append_only,
        ICEBERG: config.iceberg,
    }
    return applies.get(service, False)


def _purge_reason(state: TableState, facts: ServiceFacts, policy: ServicePolicy, now: int) -> str | None:
    """The reason for a purge. Deleted rows pass the horizon without a commit, so it depends on time.

    There are none to purge where the last purge came after the horizon of the last commit, and nothing was deleted
    since.
    """
    deleted = state.totals.get("deleted", 0) + state.totals.get("truncated", 0)  # all that ever became tombstones
    if deleted <= 0:
        return None
    horizon, age = policy.purge_horizon_s * 1000, policy.age_s(PURGE) * 1000
    if facts.done_at is None:
        if state.services_since is None or now - state.services_since < horizon:
            return None
        return f"{deleted} deleted rows, the first {policy.purge_horizon_s} s ago or longer"
    all_gone = facts.deleted <= 0 and (state.last_commit_at or 0) + horizon <= facts.done_at
    if all_gone or now - facts.done_at < age:
        return None
    return f"{deleted} deleted rows, and the last purge {policy.age_s(PURGE)} s ago or longer"


@dataclass(frozen=True)
class SinceService:
    """Changes of a table since a service last succeeded there (`at`, epoch ms, and `instant`; None: never)."""

    commits: int = 0
    bytes_written: int = 0
    deleted: int = 0
    truncated: int = 0
    at: int | None = None
    instant: str | None = None


# Totals of a table that are stored when a service begins, by field of SinceService. `commits` are batches that changed
# something; `deleted` are rows that became tombstones, `truncated` those that a truncate made tombstones.
TOTALS = ("commits", "bytes_written", "deleted", "truncated")


def since(state: TableState, service: str) -> SinceService:
    """Changes of a table since a service of this kind last succeeded there."""
    last: Mapping[str, Any] = state.services.get(service, {})
    counts = {name: max(0, state.totals.get(name, 0) - int(last.get(name, 0))) for name in TOTALS}
    return SinceService(**counts, at=last.get("at"), instant=last.get("instant"))
