"""The ledger in one DynamoDB table: its parts, made over one client."""

from __future__ import annotations

import time
from typing import Any, Callable

from sluice_aws.ledger.batches import BatchLedger
from sluice_aws.ledger.history import HistoryLedger
from sluice_aws.ledger.lanes import LaneLedger
from sluice_aws.ledger.objects import ObjectLedger
from sluice_aws.ledger.pending import PendingLedger
from sluice_aws.ledger.quarantine import QuarantineLedger
from sluice_aws.ledger.rebuilds import DropLedger, RebuildLedger
from sluice_aws.ledger.recovery import RecoveryLedger
from sluice_aws.ledger.services import ServiceLedger
from sluice_aws.ledger.table import LedgerTable
from sluice_aws.ledger.tables import TableLedger


class Ledger:
    """The state of every object, table, batch, lane and run of one deployment.

    Every decision that two processes could make at once is a conditional write in one of its parts. `client` is a
    low-level DynamoDB client; `threads` bounds the requests of one call in flight.
    """

    def __init__(
        self, client: Any, table_name: str, *, threads: int = 8, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        table = LedgerTable(client, table_name, threads=threads, sleep=sleep)
        self.objects = ObjectLedger(table)
        self.lanes = LaneLedger(table)
        self.pending = PendingLedger(table)
        self.batches = BatchLedger(table, self.objects, self.lanes)
        self.quarantine = QuarantineLedger(table)
        self.tables = TableLedger(table)
        self.services = ServiceLedger(table)
        self.rebuilds = RebuildLedger(table, self.objects, self.quarantine)
        self.drops = DropLedger(table)
        self.recovery = RecoveryLedger(table, self.objects)
        self.history = HistoryLedger(table)
