"""Publishes the gauges that alarms watch: the backlog of each lane, and the cost of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.batch.backlog import Backlog, TableBacklog, backlog
from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.errors import SluiceError
from sluice.lane.machine import PAUSED, LaneState
from sluice.ledger.events import LateTable
from sluice.ports import Report
from sluice.prices import BUNDLED, PUBLISHED, REGION, PriceList, price_list
from sluice_aws.announce import Announcer
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.price_list import read_prices

COUNTED_PER_TABLE = 2_000  # pending objects; counting longer backlogs would take the schedule's whole time
#: Of all lanes in a pass. An object takes a kilobyte and, with the function's share of a processor, some 0.25 ms: with
#: 2,000 of each of a hundred tables, supervise would end at its time-out before it looked after a lane.
COUNTED_IN_ALL = 50_000


@dataclass(frozen=True)
class Gauges:
    """Backlog gauges by lane and over all lanes, and the cost of runs. Failures are logged and never raised.

    `announcer` is told of tables that are more than `late_after_s` overdue. With `table_metrics`, the backlog is also
    published for each table.
    """

    ledger: Ledger
    job_runs: JobRuns
    architecture: str
    report: Report
    now: Callable[[], int]
    prices: Callable[[], PriceList] = lambda: BUNDLED
    announcer: Announcer | None = None
    late_after_s: int = 0
    table_metrics: bool = False

    def publish(self, lanes: Iterable[LaneState], configuration: Configuration | None) -> None:
        """Measure every lane. Gauges are written even without lanes: an alarm watches that the schedule runs."""
        measured_lanes, left = {}, COUNTED_IN_ALL
        for state in lanes:
            measured = self._of(state, configuration, max(COUNTED_PER_TABLE, left))
            measured_lanes[state.lane] = measured
            left -= measured.objects if measured is not None else 0
        self._publish(Backlog())
        for lane, measured in measured_lanes.items():
            if measured is not None:
                self._publish(measured, lane=lane)
                self._publish_tables(lane, measured.tables)

    def publish_cost(self, job_run_id: str) -> None:
        """Report a job run's cost once: at its end if it is billed by then, otherwise when EMR announces the bill."""
        try:
            billed = self.job_runs.billed(job_run_id)
            if billed is None:
                self.report.event("cost_unknown", job_run=job_run_id)
                return
            if not self.ledger.history.mark_billed(billed.name, self.now()):
                return
        except (ClientError, BotoCoreError, SluiceError) as error:
            self.report.warn("cost_unknown", job_run=job_run_id, error=str(error)[:500])
            return
        usd = self.prices().spark_usd(
            self.architecture,
            vcpu_hours=billed.vcpu_hours,
            memory_gb_hours=billed.memory_gb_hours,
            storage_gb_hours=billed.storage_gb_hours,
        )
        self.report.event(
            "run_billed",
            job_run=job_run_id,
            run=billed.name,
            vcpu_hours=billed.vcpu_hours,
            memory_gb_hours=billed.memory_gb_hours,
            usd=round(usd, 6),
            prices=self.prices().region,
        )
        self.report.count("RunCostUsd", usd, unit="None")

    def _publish_tables(self, lane: str, tables: Iterable[TableBacklog]) -> None:
        for table in tables if self.table_metrics else ():
            self.report.count("TableObjectsPending", table.objects, table=table.table)
            self.report.count("TableOverdueSeconds", table.overdue_s, unit="Seconds", table=table.table)
        late = [table for table in tables if table.overdue_s > self.late_after_s]
        if self.announcer is None or not late:
            return
        try:
            states = self.ledger.tables.get_many([table.table for table in late])
            self.announcer.announce_late([_late(table, lane, states.get(table.table)) for table in late])
        except (ClientError, BotoCoreError, SluiceError) as error:
            self.report.warn("lateness_not_announced", lane=lane, error=str(error)[:500])

    def _of(self, state: LaneState, configuration: Configuration | None, in_all: int) -> Backlog | None:
        try:
            pending = self.ledger.pending.oldest(state.lane, COUNTED_PER_TABLE, in_all=in_all)
            # A batch whose table cannot be read, or whose run hangs, stays open, and none of its objects are pending.
            opened = (
                ()
                if state.state == PAUSED
                else tuple(pointer.created_at for pointer in self.ledger.batches.unsettled(state.lane))
            )
        except (ClientError, BotoCoreError, SluiceError) as error:
            self.report.warn("lane_not_measured", lane=state.lane, error=str(error)[:500])
            return None
        # A paused lane waits on purpose.
        return backlog(None if state.state == PAUSED else configuration, state.lane, pending, self.now(), opened)

    def _publish(self, measured: Backlog, **dimensions: str) -> None:
        self.report.count("ObjectsPending", measured.objects, **dimensions)
        self.report.count("OldestPendingSeconds", measured.oldest_s, unit="Seconds", **dimensions)
        self.report.count("OverdueSeconds", measured.overdue_s, unit="Seconds", **dimensions)


def _late(table: TableBacklog, lane: str, state: TableState | None) -> LateTable:
    return LateTable(
        table.table,
        lane,
        late_s=int(table.overdue_s),
        freshness_s=table.freshness_s,
        waiting=table.objects,
        last_commit_at=state.last_instant_at if state else None,
        last_error=state.last_error if state else None,
    )


def spark_prices(pricing: Callable[[], Any], region: str, architecture: str, report: Report) -> PriceList:
    """The prices of runs in a region, by the price list's client; those of REGION where they can't be read."""
    if region == REGION:
        return BUNDLED
    try:
        usd = read_prices(pricing(), region, [name for name in PUBLISHED if name.startswith(architecture.lower())])
    except (ClientError, BotoCoreError) as error:
        report.warn("prices_assumed", region=region, of=REGION, error=str(error)[:500])
        return BUNDLED
    return price_list(region, str(date.today()), usd) if usd else BUNDLED
