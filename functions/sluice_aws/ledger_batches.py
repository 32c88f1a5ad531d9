"""Batches: opening one under the lane, claiming its objects in an order that a crash can't break, finding unsettled ones."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from sluice import ledger_items as items
from sluice.errors import SluiceError
from sluice.identity import ObjectId
from sluice.ledger_records import ManifestPointer
from sluice.manifest import Manifest
from sluice_aws.ledger_expressions import NEW_ITEM, when
from sluice_aws.ledger_groups import ACTIONS_LIMIT, write_groups
from sluice_aws.ledger_lanes import held_by
from sluice_aws.ledger_table import LedgerTable, TransactionRefused, Values

BESIDE_PARTS = 3  # the lane's check, the pointer, the batch


class _LaneLost(Exception):
    """The lane isn't held by whoever writes."""


class BatchTaken(SluiceError):
    """A batch of this id is there already and not this run's to open; facts: `batch`, and its `state` and `run` where known."""

    code = "batch_taken"
    next_step = (
        "Run `sluice doctor`: objects that are pending are in a batch that somebody else opened, or that is committed"
    )


class BatchLedger:
    """The batches of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def open_batch(self, manifest: Manifest, manifest_s3_key: str, run_id: str, job_run_id: str) -> bool:
        """Note that the manifest, which lies in S3 by now, is unsettled; False when the lane isn't held any more.

        One transaction conditional on holding the lane. A batch of more than 97 tables writes parts
        ahead of it under the same condition: without the batch they mean nothing. Repeatable by the
        same run; a batch whose objects all returned to pending may be opened again. Raises BatchTaken
        when the lane is held and the batch can't be opened all the same: no other run's doing.
        """
        lane_held = self._table.check_action(items.lane_key(manifest.lane), held_by(run_id, job_run_id))
        openable = NEW_ITEM | when(state=items.RETURNED) | when(run=run_id, state=items.CLAIMED)
        sizes = {"objects": len(manifest.objects), "bytes": sum(part.bytes for part in manifest.tables.values())}
        named = {"run": run_id, "lane": manifest.lane}
        tables = sorted(manifest.tables)
        parts = [
            self._table.put_action(
                {
                    **items.part_key(manifest.batch, table),
                    **named,
                    "batch": manifest.batch,
                    "table": table,
                    "state": items.CLAIMED,
                    "objects": len(manifest.tables[table].objects),
                    "bytes": manifest.tables[table].bytes,
                    "started_at": manifest.created_at,
                },
                openable,
            )
            for table in tables
        ]
        batch = self._table.put_action(
            {
                **items.batch_key(manifest.batch),
                **named,
                **sizes,
                "batch": manifest.batch,
                "state": items.CLAIMED,
                "tables": tables,
                "claimed_at": manifest.created_at,
            },
            openable,
        )
        pointer = self._table.put_action(
            {
                **items.manifest_pointer_key(manifest.lane, manifest.batch),
                **named,
                "batch": manifest.batch,
                "s3_key": manifest_s3_key,
                "tables": tables,
                "created_at": manifest.created_at,
            }
        )
        try:
            while len(parts) > ACTIONS_LIMIT - BESIDE_PARTS:
                self._open([lane_held, *parts[: ACTIONS_LIMIT - 1]], manifest.batch)
                parts = parts[ACTIONS_LIMIT - 1 :]
            self._open([lane_held, pointer, batch, *parts], manifest.batch)
        except _LaneLost:
            return False
        return True

    def _open(self, actions: Sequence[Values], batch: str) -> None:
        """The lane's check stands first: whether it failed tells a lost lane from a batch that is there."""
        try:
            self._table.transact(actions)
        except TransactionRefused as answer:
            if 0 in answer.refusals:
                raise _LaneLost from answer
            found = next(iter(answer.refusals.values())).found or {}
            raise BatchTaken(
                f"Batch {batch} can't be opened", batch=batch, state=found.get("state"), run=found.get("run")
            ) from answer

    def claim(self, manifest: Manifest) -> List[ObjectId]:
        """pending -> claimed for every object of an open batch; gives those that the batch has. Repeatable.

        An object that something else took, dropped or moved to another table or lane since the pending query
        is left out: it must not be read. One that this batch has settled already counts as the batch's.
        """
        listed = [(table, found) for table in sorted(manifest.tables) for found in manifest.tables[table].objects]
        groups = [
            [
                self._table.update_action(
                    items.object_key(found.id),
                    {"state": items.CLAIMED, "batch": manifest.batch},
                    condition=when(state=items.PENDING, table=table, lane=manifest.lane),
                ),
                self._table.delete_action(items.pending_key(manifest.lane, table, found.admitted_at, found.id)),
            ]
            for table, found in listed
        ]
        refused = write_groups(self._table, groups)
        taken = []
        for position, (_, found) in enumerate(listed):
            if position not in refused or _is_of(manifest.batch, refused[position].found):
                taken.append(found.id)
        return taken

    def unsettled(self, lane: str) -> List[ManifestPointer]:
        """The lane's open batches, oldest first, and which of their parts are settled; strongly consistent."""
        pointers = [
            stored
            for page in self._table.query(items.lane_partition(lane), prefix=items.MANIFEST_PREFIX)
            for stored in page
        ]
        found = [
            ManifestPointer(
                batch=stored["batch"],
                s3_key=stored["s3_key"],
                run=stored["run"],
                created_at=stored["created_at"],
                tables=tuple(stored["tables"]),
                settled_tables=frozenset(
                    table for table, part in self.batch_parts(stored["batch"]).items() if part["state"] != items.CLAIMED
                ),
            )
            for stored in pointers
        ]
        return sorted(found, key=lambda pointer: (pointer.created_at, pointer.batch))

    def batch_parts(self, batch: str) -> Dict[str, Values]:
        """A batch's parts by table, as stored."""
        pages = self._table.query(items.batch_partition(batch), prefix=items.PART_PREFIX)
        return {stored["table"]: stored for page in pages for stored in page}

    def batch(self, batch: str) -> Optional[Values]:
        """A batch's own item, as stored."""
        return self._table.get(items.batch_key(batch))

    def announced(self, batch: str, now: int) -> bool:
        """Note that a committed batch was announced; False when that was noted before, or there is no such batch."""
        done = {"announced_at": now, "listed_as": None, "listed_at": None}
        return (
            self._table.update(items.batch_key(batch), done, condition=when(state=items.COMMITTED, announced_at=None))[
                1
            ]
            is None
        )

    def unannounced(self, before: int) -> Iterator[Values]:
        """Batches committed before that time (epoch ms) of which no announcement is noted, as stored, oldest first."""
        for page in self._table.query_index(items.UNANNOUNCED):
            for stored in sorted(self._table.get_many(page), key=lambda found: found["committed_at"]):
                if stored["committed_at"] < before and stored.get("listed_as") == items.UNANNOUNCED:
                    yield stored


def _is_of(batch: str, found: Optional[Mapping[str, Any]]) -> bool:
    return found is not None and found.get("batch") == batch and found["state"] != items.PENDING
