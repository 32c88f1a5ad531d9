"""The ledger as its users see it: one object over the modules that each know one kind of item."""

from __future__ import annotations

import time
from typing import Any, Callable

from sluice_aws.ledger.batches import BatchLedger, SettlingLedger
from sluice_aws.ledger.history import HistoryLedger
from sluice_aws.ledger.lanes import LaneLedger
from sluice_aws.ledger.objects import ObjectLedger
from sluice_aws.ledger.pending import PendingLedger
from sluice_aws.ledger.quarantine import QuarantineLedger
from sluice_aws.ledger.recovery import RecoveringLedger
from sluice_aws.ledger.services import ServiceLedger
from sluice_aws.ledger.table import LedgerTable
from sluice_aws.ledger.tables import RebuildingLedger, TableLedger


class Ledger:
    """Every decision that two processes could make at once is a conditional write in here.

    `client` is a low-level DynamoDB client. Times are epoch milliseconds and always passed in. Every
    method can raise LedgerBusy (retriable) and botocore's own errors; what each does stands with the
    part that does it.
    """

    def __init__(
        self, client: Any, table_name: str, *, threads: int = 8, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        table = LedgerTable(client, table_name, threads=threads, sleep=sleep)
        objects, lanes, batches = ObjectLedger(table), LaneLedger(table), BatchLedger(table)
        pending, tables, history = PendingLedger(table), TableLedger(table), HistoryLedger(table)
        self._lanes = lanes
        quarantine, services = QuarantineLedger(table), ServiceLedger(table)
        self._settling = settling = SettlingLedger(table, objects, batches)

        self.admit = objects.admit
        self.get_objects = objects.get_objects
        self.object_versions = objects.object_versions
        self.objects_in_state = objects.objects_in_state
        self.unpark = objects.unpark
        self.reroute = objects.reroute
        self.quarantine_pending = objects.quarantine_pending
        self.quarantine_parked = objects.quarantine_parked
        self.forget = objects.forget

        self.objects_with_quarantined_rows = quarantine.objects_with_quarantined_rows
        self.retry = quarantine.retry
        self.discard = quarantine.discard
        self.decisions_about = quarantine.decisions_about
        self.decisions = quarantine.decisions

        self.wake = lanes.wake
        self.lane = lanes.lane
        self.lanes = lanes.lanes
        self.request_start = lanes.request_start
        self.started = lanes.started
        self.hold = lanes.hold
        self.holds = lanes.holds
        self.progressed = lanes.progressed
        self.release = lanes.release
        self.lapse = lanes.lapse
        self.pause = lanes.pause
        self.resume = lanes.resume
        self.resting = lanes.resting
        self.note_resting = lanes.note_resting

        self.pending = pending.pending
        self.pending_of = pending.pending_of
        self.pending_counts = pending.pending_counts

        self.open_batch = batches.open_batch
        self.claim = batches.claim
        self.unsettled = batches.unsettled
        self.batch = batches.batch
        self.batch_parts = batches.batch_parts
        self.announced = batches.announced
        self.unannounced = batches.unannounced
        self.settle = settling.settle
        self.return_to_pending = settling.return_to_pending

        rebuilding = RebuildingLedger(table)
        self.begin_rebuild = rebuilding.begin_rebuild
        self.replay_objects = rebuilding.replay_objects
        self.end_rebuild = rebuilding.end_rebuild

        recovering = RecoveringLedger(table, objects)
        self.recover_objects = recovering.recover_objects
        self.recover_table = recovering.recover_table

        self.table_state = tables.table_state
        self.table_states = tables.table_states
        self.tables = tables.tables
        self.record_table_error = tables.record_table_error
        self.pin_table = tables.pin_table
        self.raise_purge_floor = tables.raise_purge_floor
        self.set_table_paused = tables.set_table_paused
        self.watch_table = tables.watch_table

        self.request_service = services.request
        self.service_request = services.read
        self.service_requests = services.all_of_lane
        self.open_services = services.open_of_lane
        self.start_service = services.start
        self.service_slice_done = services.slice_done
        self.finish_service = services.finish
        self.fail_service = services.fail
        self.interrupt_service = services.interrupt
        self.withdraw_service = services.withdraw

        self.run_started = history.run_started
        self.run_ended = history.run_ended
        self.billed = history.billed
        self.run = history.run
        self.count = history.count
        self.counter = history.counter
        self.ignore_message = history.ignore_message
        self.ignored_messages = history.ignored_messages
        self.gather_until = history.gather_until
        self.checkpoint = history.checkpoint
        self.put_checkpoint = history.put_checkpoint

    def close_batch(self, lane: str, batch: str, run_id: str, now: int) -> bool:
        """Close a batch whose parts are all settled, and note the progress on the lane while this run holds it."""
        closed = self._settling.close_batch(lane, batch, run_id, now)
        self._lanes.progressed(lane, run_id)
        return closed
