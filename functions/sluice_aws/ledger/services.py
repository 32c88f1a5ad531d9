"""Requests for table services: each transition is a conditional write; a run starts one while it holds the lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any, Callable

from sluice.ledger import keys as items
from sluice.ledger.records import Requested
from sluice.services import requests as machine
from sluice.services.policy import TOTALS
from sluice.services.requests import RequestRefusal, Result, ServiceError, ServiceReport, ServiceRequest
from sluice_aws.errors import LedgerBusy
from sluice_aws.ledger.expressions import when
from sluice_aws.ledger.lanes import LISTED, at_work
from sluice_aws.ledger.table import LedgerTable, TransactionRefused, Values
from sluice_aws.ledger.tables import SERVICE_PREFIX, totals_of

_FIELDS = tuple(item.name for item in fields(ServiceRequest))
ATTEMPTS = 20  # few transitions race on one request; each failed attempt means that another one succeeded


class ServiceLedger:
    """The service requests of one ledger. Every transition of a request raises its `revision`."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def request(
        self,
        lane: str,
        table: str,
        service: str,
        *,
        request: str,
        requested_by: str,
        now: int,
        min_interval_ms: int = machine.MIN_INTERVAL_MS,
        max_wait_ms: int = machine.MAX_WAIT_MS,
        arguments: Mapping[str, str] = MappingProxyType({}),
    ) -> Requested:
        """Write a request and wake the lane in one transaction, unless one is open.

        `request` is a new id. The same id again finds its own request and changes nothing. The caller then reads the
        lane, and starts a run if it is idle.
        """
        key = items.service_key(lane, table, service)
        for _ in range(ATTEMPTS):
            stored = self._table.get(key)
            before = _request(stored)
            if before is not None and before.request == request:
                return Requested(before, False)
            after = machine.opened(
                before,
                lane=lane,
                table=table,
                service=service,
                request=request,
                requested_by=requested_by,
                now=now,
                min_interval_ms=min_interval_ms,
                max_wait_ms=max_wait_ms,
                arguments=arguments,
            )
            if isinstance(after, RequestRefusal):
                assert after.request is not None  # only an open request refuses another
                return Requested(after.request, False)
            revision = 0 if stored is None else stored["revision"]
            put = self._table.put_action(
                {**key, **_stored(after), "revision": revision + 1}, when(revision=revision or None)
            )
            wake = self._table.update_action(items.lane_key(lane), LISTED, add={"arrivals": 1})
            try:
                self._table.transact([put, wake])
            except TransactionRefused:
                continue
            return Requested(after, True)
        raise LedgerBusy("The service request kept changing", operation="request", cause=f"{table}#{service}")

    def get(self, lane: str, table: str, service: str) -> ServiceRequest | None:
        """The open or last request; None when there never was one."""
        return _request(self._table.get(items.service_key(lane, table, service)))

    def of_lane(self, lane: str) -> list[ServiceRequest]:
        """Every open and last request of a lane, oldest first."""
        pages = self._table.query(items.services_partition(lane))
        requests = [_known(stored) for page in pages for stored in page]
        return sorted(requests, key=lambda request: (request.requested_at, request.table, request.service))

    def open_of_lane(self, lane: str) -> list[ServiceRequest]:
        """The open requests of a lane, oldest first: they count as its work."""
        return [request for request in self.of_lane(lane) if request.open]

    def start(self, request: ServiceRequest, run_id: str, job_run_id: str, now: int) -> ServiceRequest | None:
        """requested -> running for one slice. None when the lane is not held or the request may not begin."""
        totals = totals_of(self._table.get(items.table_key(request.table)) or {})
        seen = {name: totals.get(name, 0) for name in TOTALS}
        held = at_work(self._table, request.lane, run_id, job_run_id)
        return self._apply(request, lambda state: machine.start(state, run_id, now, seen), lambda after: [held])

    def slice_done(
        self, request: ServiceRequest, run_id: str, report: ServiceReport, now: int
    ) -> ServiceRequest | None:
        """running -> requested for the next slice. None when another run has begun it since."""
        return self._apply(request, lambda state: machine.slice_done(state, run_id, report, now))

    def finish(self, request: ServiceRequest, run_id: str, report: ServiceReport, now: int) -> ServiceRequest | None:
        """running -> done, and stored on the table's item. None when another run has begun it since."""
        return self._apply(
            request, lambda state: machine.finish(state, run_id, report, now), lambda after: [self._remembered(after)]
        )

    def fail(self, request: ServiceRequest, run_id: str, error: ServiceError, now: int) -> ServiceRequest | None:
        """running -> requested after a back-off, or failed. None when another run has begun it since."""
        return self._apply(request, lambda state: machine.fail(state, run_id, error, now))

    def interrupt(self, request: ServiceRequest, run_id: str, now: int) -> ServiceRequest | None:
        """running under a dead run -> requested after a back-off, or failed. `run_id` holds the lane now."""
        return self._apply(request, lambda state: machine.interrupt(state, run_id, now))

    def withdraw(self, request: ServiceRequest, error: ServiceError, now: int) -> ServiceRequest | None:
        """requested -> failed, for what can't be done at all."""
        return self._apply(request, lambda state: machine.withdraw(state, error, now))

    def _apply(
        self,
        request: ServiceRequest,
        transition: Callable[[ServiceRequest], Result],
        beside: Callable[[ServiceRequest], Sequence[Values]] = lambda after: (),
    ) -> ServiceRequest | None:
        """Apply one transition to this very request, with `beside` in the same transaction. None when it is refused."""
        key = items.service_key(request.lane, request.table, request.service)
        for _ in range(ATTEMPTS):
            stored = self._table.get(key)
            before = _request(stored)
            if stored is None or before is None or before.request != request.request:
                return None
            after = transition(before)
            if isinstance(after, RequestRefusal):
                return None
            put = self._table.put_action(
                {**key, **_stored(after), "revision": stored["revision"] + 1}, when(revision=stored["revision"])
            )
            try:
                self._table.transact([put, *beside(after)])
            except TransactionRefused as answer:
                if any(position > 0 for position in answer.refusals):
                    return None
                continue
            return after
        raise LedgerBusy(
            "The service request kept changing", operation="service", cause=f"{request.table}#{request.service}"
        )

    def _remembered(self, done: ServiceRequest) -> Values:
        summary = {"at": done.ended_at, "instant": done.report.instant, **done.seen}
        return self._table.update_action(items.table_key(done.table), {SERVICE_PREFIX + done.service: summary})


def _stored(request: ServiceRequest) -> dict[str, Any]:
    summary = {name: getattr(request, name) for name in _FIELDS}
    error = None if request.error is None else asdict(request.error)
    return {
        **summary,
        "seen": dict(request.seen),
        "arguments": dict(request.arguments),
        "report": request.report.to_dict(),
        "error": error,
    }


def _request(stored: Mapping[str, Any] | None) -> ServiceRequest | None:
    return None if stored is None else _known(stored)


def _known(stored: Mapping[str, Any]) -> ServiceRequest:
    summary = {name: stored[name] for name in _FIELDS if name in stored}
    if "error" in summary:
        summary["error"] = ServiceError(**summary["error"])
    return ServiceRequest(**{**summary, "report": ServiceReport.from_dict(stored.get("report", {}))})
