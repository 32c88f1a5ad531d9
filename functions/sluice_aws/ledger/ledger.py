"""The ledger in one DynamoDB table: its parts, made over one client."""

from __future__ import annotations

import time
from typing import Any, Callable

from sluice_aws.ledger.batches import DynamoDbBatches
from sluice_aws.ledger.history import DynamoDbHistory
from sluice_aws.ledger.lanes import DynamoDbLanes
from sluice_aws.ledger.objects import DynamoDbObjects
from sluice_aws.ledger.pending import DynamoDbPending
from sluice_aws.ledger.quarantine import DynamoDbQuarantine
from sluice_aws.ledger.rebuilds import DynamoDbRebuilds
from sluice_aws.ledger.recovery import DynamoDbRecovery
from sluice_aws.ledger.services import DynamoDbServices
from sluice_aws.ledger.table import LedgerTable
from sluice_aws.ledger.tables import DynamoDbTables


class DynamoDbLedger:
    """The Ledger port. `client` is a low-level DynamoDB client; `threads` bounds the requests of one call in flight."""

    def __init__(
        self, client: Any, table_name: str, *, threads: int = 8, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        table = LedgerTable(client, table_name, threads=threads, sleep=sleep)
        self.objects = DynamoDbObjects(table)
        self.lanes = DynamoDbLanes(table)
        self.pending = DynamoDbPending(table)
        self.batches = DynamoDbBatches(table, self.objects, self.lanes)
        self.quarantine = DynamoDbQuarantine(table)
        self.tables = DynamoDbTables(table)
        self.services = DynamoDbServices(table)
        self.rebuilds = DynamoDbRebuilds(table, self.objects, self.quarantine)
        self.recovery = DynamoDbRecovery(table, self.objects)
        self.history = DynamoDbHistory(table)
