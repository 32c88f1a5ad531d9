"""The ledger as its users see it: `Ledger` holds one part, a Protocol, for each kind of item."""

from __future__ import annotations

from typing import Protocol

from sluice.ledger.lane_ports import HistoryLedger, LaneLedger, ServiceLedger, TableLedger
from sluice.ledger.object_ports import (
    BatchLedger,
    ObjectLedger,
    PendingLedger,
    QuarantineLedger,
    RebuildLedger,
    RecoveryLedger,
)


class Ledger(Protocol):
    """The state of every object, table, batch, lane and run of one deployment.

    Every decision that two processes could make at once is a conditional write in one of these parts.
    """

    @property
    def objects(self) -> ObjectLedger: ...
    @property
    def lanes(self) -> LaneLedger: ...
    @property
    def pending(self) -> PendingLedger: ...
    @property
    def batches(self) -> BatchLedger: ...
    @property
    def quarantine(self) -> QuarantineLedger: ...
    @property
    def tables(self) -> TableLedger: ...
    @property
    def services(self) -> ServiceLedger: ...
    @property
    def rebuilds(self) -> RebuildLedger: ...
    @property
    def recovery(self) -> RecoveryLedger: ...
    @property
    def history(self) -> HistoryLedger: ...
