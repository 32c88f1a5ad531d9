"""Wakes lanes after objects were written for them, and starts a run where the lane is idle."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from botocore.exceptions import BotoCoreError, ClientError

from sluice.configuration import Configuration
from sluice.errors import SluiceError
from sluice.lane import LaneState, wants_run
from sluice_aws.starting import Starter
from sluice_aws.telemetry import Report


class Waker:
    """One wake per lane; a failure to wake is the caller's failure, a failure to start is the schedule's business."""

    def __init__(self, *, ledger: Any, starter: Optional[Starter], report: Report, now: Callable[[], int]) -> None:
        """`starter` is None while no release of the Spark code is set: lanes are woken and none is started."""
        self._ledger = ledger
        self._starter = starter
        self._report = report
        self._now = now

    def wake(self, lanes: Iterable[str], configuration: Optional[Configuration]) -> None:
        """Count an arrival in each lane, and start what is idle.

        Raises what the ledger raises: then the objects are written and nobody was told, so whoever
        announced them must come again.
        """
        woken = [self._ledger.wake(lane) for lane in sorted(lanes)]
        for state in woken:
            self._report.event("lane_woken", lane=state.lane, state=state.state, arrivals=state.arrivals)
            if wants_run(state, self._now()):
                self._start(state, configuration)

    def _start(self, state: LaneState, configuration: Optional[Configuration]) -> None:
        if self._starter is None:
            self._report.event("no_release", lane=state.lane)
            return
        try:
            self._starter.start(state.lane, configuration)
        except (SluiceError, ClientError, BotoCoreError) as error:
            # The wake is counted: the schedule sees an arrival that no run has looked at.
            self._report.warn("start_failed", lane=state.lane, error=str(error)[:500])
            self._report.count("StartsFailed", 1, lane=state.lane)
