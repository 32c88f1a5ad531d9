"""Plans table services: finds what is due, writes requests into the ledger, and follows them to their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable

from sluice.config.document import Configuration
from sluice.lane.machine import HALTED, PAUSED
from sluice.names import timed_id
from sluice.ports import Report
from sluice.services.planning import Asked, DueTable, by_table, due_tables, next_pause_s
from sluice.services.policy import CATALOG
from sluice.services.requests import DONE, FAILED
from sluice_aws.lanes.start import StartedRun, Waker
from sluice_aws.ledger.ledger import Ledger

# With names of the greatest length, a plan fits into the 256 KB of a state machine's data. The next plan has the rest.
SYNCED_AT_ONCE, ASKED_AT_ONCE = 300, 200
STARTED_AT_ONCE = 5  # starts that fail take up to 25 s each, of a function's 180 s
FOLLOWED_FOR_MS = 30 * 3_600_000  # a request waits at most a day, and a slice may back off five times
REQUESTED_BY = "table_services"
Values = dict[str, Any]


@dataclass(frozen=True)
class ServicePlanner:
    """Plans by the ledger. Every write is conditional, so that two planners never request a service twice.

    `pause_s` is the time during which commits are gathered, and the first pause between two looks.
    """

    ledger: Ledger
    waker: Waker
    report: Report
    now: Callable[[], int]
    entropy: Callable[[], str]
    pause_s: int

    def gather(self) -> Values:
        """Whether this caller plans for all commits of the next `wait_s` seconds, after waiting for them."""
        now = self.now()
        return {"go": self.ledger.history.gather_until(now, now + self.pause_s * 1000), "wait_s": self.pause_s}

    def plan(self, configuration: Configuration | None) -> Values:
        """Request what is due, and start the idle lanes that have to carry it out. A repeated plan starts none again.

        In the result `syncs` are tables whose catalog entry is behind, the longest first; `runs` are the job runs that
        were started; `requests` are new requests. A paused or halted lane gets none.
        """
        now = self.now()
        due = () if configuration is None else self._due(configuration, now)
        behind = [table for table in due if any(service.service == CATALOG for service in table.due)]
        syncs = [
            _sync(table, now)
            for table in sorted(behind, key=lambda table: int(table.state.services.get(CATALOG, {}).get("at") or 0))[
                :SYNCED_AT_ONCE
            ]
        ]
        requested = self._ask(due, now)
        runs = self._started({request.lane for request in requested}, configuration)
        self.report.event(
            "services_planned", syncs=len(syncs), requests=len(requested), runs=[run["run"] for run in runs]
        )
        requests = [request.to_dict() for request in requested]
        return {
            "syncs": syncs,
            "runs": runs,
            "follow": {
                "requests": requests,
                "open": len(requests),
                "done": 0,
                "failed": 0,
                "given_up": 0,
                "wait_s": self.pause_s,
                "until": now + FOLLOWED_FOR_MS,
            },
        }

    def follow(self, followed: Mapping[str, Any]) -> Values:
        """Look at requests again; `followed` is the `follow` of a plan, or the last result of this."""
        requests = [Asked(**entry) for entry in followed["requests"]]
        current = by_table(
            [one for lane in sorted({entry.lane for entry in requests}) for one in self.ledger.services.of_lane(lane)]
        )
        done, failed = followed["done"], followed["failed"]
        still: list[Asked] = []
        for request in requests:
            latest = current.get((request.lane, request.table), {}).get(request.service)
            outcome = request.outcome(latest)
            if outcome is None:
                still.append(request)
            elif outcome == FAILED:
                failed += 1
                self.report.warn(
                    "service_failed", error=latest and latest.error and latest.error.message, **request.to_dict()
                )
                self.report.count("ServicesFailed", 1, lane=request.lane)
            else:
                done += 1
                self.report.event("service_done" if outcome == DONE else "service_replaced", **request.to_dict())
        late = len(still) if self.now() >= followed["until"] else 0
        if late:
            self.report.warn("services_still_open", requests=[entry.to_dict() for entry in still][:20], open=late)
            still = []
        return {
            **followed,
            "requests": [entry.to_dict() for entry in still],
            "open": len(still),
            "done": done,
            "failed": failed,
            "given_up": late,
            "wait_s": next_pause_s(followed["wait_s"]),
        }

    def _due(self, configuration: Configuration, now: int) -> tuple[DueTable, ...]:
        states = []
        for state in self.ledger.tables.all():
            if state.services_since is None and state.last_instant is not None:
                self.ledger.tables.note_first_check(state.table, now)
                state = replace(state, services_since=now)
            states.append(state)
        requests = [request for lane in configuration.lane_names() for request in self.ledger.services.of_lane(lane)]
        return due_tables(configuration, states, by_table(requests), now)

    def _ask(self, tables: tuple[DueTable, ...], now: int) -> list[Asked]:
        requested: list[Asked] = []
        closed: set[str] = {
            state.lane for state in self.ledger.lanes.all() if state.state in (HALTED, PAUSED) or state.pause_requested
        }
        for table in tables:
            config, policy = table.config, table.config.services
            for service in table.due:
                if service.service == CATALOG:
                    continue
                if config.lane in closed:
                    self.report.event(
                        "service_waits_for_lane", lane=config.lane, table=service.table, service=service.service
                    )
                    continue
                if len(requested) >= ASKED_AT_ONCE:
                    self.report.warn("services_left_for_next_look", asked=len(requested))
                    return requested
                answer = self.ledger.services.request(
                    config.lane,
                    service.table,
                    service.service,
                    request=timed_id(service.service, now, self.entropy()),
                    requested_by=REQUESTED_BY,
                    now=now,
                    min_interval_ms=policy.interval_s * 1000,
                    max_wait_ms=policy.latest_s * 1000,
                )
                if answer.new:
                    requested.append(Asked(config.lane, service.table, service.service, answer.request.request))
                    self.report.event(
                        "service_requested",
                        lane=config.lane,
                        table=service.table,
                        service=service.service,
                        reason=service.reason,
                        request=answer.request.request,
                    )
        return requested

    def _started(self, lanes: set[str], configuration: Configuration | None) -> list[Values]:
        """Start a run of each idle lane. Supervise repeats a start that EMR Serverless has not answered."""
        started: list[tuple[str, StartedRun]] = []
        for lane in sorted(lanes):
            if len(started) >= STARTED_AT_ONCE:
                break  # the other lanes are woken, and supervise starts their runs
            run = self.waker.start(self.ledger.lanes.get(lane), configuration)
            if run is not None:
                started.append((lane, run))
        wait_s = max(1, self.pause_s)
        return [
            {"lane": lane, "run": run.run_id, "job_run": run.job_run_id, "wait_s": wait_s, "looks": 0}
            for lane, run in started
            if run.job_run_id is not None
        ]


def _sync(table: DueTable, now: int) -> Values:
    """The input of a sync, which is stored when it succeeds. Numbers are text, as in DynamoDB's JSON."""
    state = table.state
    return {
        "table": state.table,
        "instant": state.last_instant,
        "commits": str(state.totals.get("commits", 0)),
        "at": str(now),
    }
