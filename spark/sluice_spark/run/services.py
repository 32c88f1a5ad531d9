"""Runs table services between batches: chooses the next request, does one bounded slice, records the result."""

from __future__ import annotations

from sluice.config.pinned_topic import config_by_pinned_topic
from sluice.config.table import TableConfig
from sluice.errors import SluiceError
from sluice.services.planning import ServicePlan, executable_at, impossible, plan_services
from sluice.services.requests import RUNNING, ServiceError, ServiceRequest
from sluice_spark.errors import BLOCKS_TABLE, ENDS_RUN, LaneLost
from sluice_spark.log import describe
from sluice_spark.run.claim import ConfigurationInForce
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.step import Ports, RunStep

LOOK_FOR_OVERDUE_MS = 60_000  # under continuous load requests are read this often, not with every batch


class ServiceStep(RunStep):
    """Does the lane's service requests, one slice at a time. A failed slice fails only its request."""

    def __init__(self, ports: Ports, hold: LaneHold, configuration: ConfigurationInForce) -> None:
        super().__init__(ports, hold)
        self._configuration = configuration
        self._configs: dict[str, TableConfig] = {}
        self._looked_at: int | None = None

    def look(self, unresolved: frozenset[str]) -> ServicePlan:
        """Plan the lane's open requests: which may be done now, and when the others may.

        `unresolved` tables have a part to be finished first. The read is strongly consistent, so that a release after a
        look at the same `arrivals` leaves no request behind.
        """
        me = self._hold.identity
        self._looked_at = self._clock.now_ms()
        requests = [self._settled(request) for request in self._ledger.services.open_of_lane(me.lane)]
        waiting = [request for request in requests if request is not None and request.open]
        if not waiting:
            return ServicePlan()
        states = self._ledger.tables.get_many(sorted({request.table for request in waiting}))
        executable: dict[tuple[str, str], int | None] = {}
        for request in waiting:
            state = states[request.table]
            config = config_by_pinned_topic(self._configuration.current, state.table, state.pinned, lane=me.lane)
            lasting = impossible(request, config, state)
            if lasting is not None:
                self._withdraw(request, lasting)
                continue
            assert config is not None  # `impossible` covers None
            self._configs[request.table] = config
            at = None if request.table in unresolved else executable_at(request, config, state)
            executable[request.table, request.service] = at
        return plan_services(waiting, executable, self._clock.now_ms())

    def overdue(self, unresolved: frozenset[str]) -> ServiceRequest | None:
        """A request that has waited its maximum time behind claimable objects; None where there is none."""
        if self._looked_at is not None and self._clock.now_ms() - self._looked_at < LOOK_FOR_OVERDUE_MS:
            return None
        plan = self.look(unresolved)
        if plan.overdue:
            self._looked_at = None  # look again after the next batch
        return plan.now if plan.overdue else None

    def serve(self, request: ServiceRequest) -> None:
        """Do a slice. Raises LaneLost and ENDS_RUN; the service's own failure is written to the request."""
        me, began = self._hold.identity, self._clock.now_ms()
        started = self._ledger.services.start(request, me.run, me.job_run_id, began)
        if started is None:
            if not self._hold.still_held():
                self._hold.check()
            return  # the request has changed since it was read
        slice_s = self._configuration.current.lane(me.lane).service_slice_s
        self._log.event("service_began", **_place(request), slice=request.slices + 1)
        state = self._ledger.tables.get(request.table)
        try:
            done = self._merger.serve_table(
                self._configs[request.table],
                started,
                state,
                self._hold.still_held,
                slice_s,
                lambda positions: self._ledger.tables.raise_purge_floor(request.table, positions),
            )
        except (LaneLost, *ENDS_RUN) as ended:
            if isinstance(ended, LaneLost):
                self._hold.lose()
            raise
        except Exception as failure:  # any failure of Spark or Hudi fails this request only
            self._failed(started, failure)
            return
        end = self._ledger.services.slice_done if done.more else self._ledger.services.finish
        after = end(started, me.run, done.report, self._clock.now_ms())
        self._ledger.lanes.progressed(me.lane, me.run)
        name = "service_slice_done" if done.more else "service_done"
        self._log.event(name, **_place(request), recorded=after is not None, **done.report.to_dict())

    def _failed(self, started: ServiceRequest, failure: Exception) -> None:
        if isinstance(failure, BLOCKS_TABLE) and self._hold.still_held():
            self._ledger.tables.block(started.table, failure, self._clock.now_ms())
        code = failure.code if isinstance(failure, SluiceError) else "service_failed"
        error = ServiceError(
            code, describe(failure), retriable=failure.retriable if isinstance(failure, SluiceError) else True
        )
        after = self._ledger.services.fail(started, self._hold.identity.run, error, self._clock.now_ms())
        self._log.failure(
            "service_failed",
            failure,
            **_place(started),
            state=None if after is None else after.state,
            retry_at=after.not_before if after is not None and after.open else None,
        )

    def _settled(self, request: ServiceRequest) -> ServiceRequest | None:
        """The request; where a run died in a slice of it, the request after it was interrupted."""
        me = self._hold.identity
        if request.state != RUNNING or request.run == me.run:
            return request
        self._log.event("service_interrupted", **_place(request), from_run=request.run)
        return self._ledger.services.interrupt(request, me.run, self._clock.now_ms())

    def _withdraw(self, request: ServiceRequest, error: ServiceError) -> None:
        self._ledger.services.withdraw(request, error, self._clock.now_ms())
        self._log.event("service_withdrawn", level="warning", **_place(request), code=error.code)


def _place(request: ServiceRequest) -> dict[str, str]:
    """The request in events."""
    return {"table": request.table, "service": request.service, "request": request.request}
