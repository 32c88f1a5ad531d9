"""Batch items: open a batch under the lane, claim its objects, settle each part once, and close the batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sluice.batch.isolation import Cohort
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.ledger import keys as items
from sluice.ledger.records import ManifestPointer, PartAttempts
from sluice.ledger.recovery import counts_of, end_states
from sluice.objects import ObjectId
from sluice_aws.errors import BatchTaken, ForeignObjects, UnsettledParts
from sluice_aws.ledger.expressions import NEW_ITEM, when
from sluice_aws.ledger.groups import ACTIONS_LIMIT, GuardRefused, write_groups
from sluice_aws.ledger.lanes import LaneLedger, at_work, held_by
from sluice_aws.ledger.objects import ObjectLedger, pending_item
from sluice_aws.ledger.settlement import object_fields, part_fields, table_fields, totals
from sluice_aws.ledger.table import LedgerTable, Refusal, TransactionRefused, Values

OTHER_ACTIONS = 3  # beside the parts: the lane's check, the pointer, the batch


class _LaneLost(Exception):
    """The run that writes no longer holds the lane."""


class BatchLedger:
    """The batches of one ledger."""

    def __init__(self, table: LedgerTable, objects: ObjectLedger, lanes: LaneLedger) -> None:
        self._table = table
        self._objects = objects
        self._lanes = lanes

    def open(self, manifest: Manifest, manifest_s3_key: str, run_id: str, job_run_id: str) -> bool:
        """Note an unsettled manifest that is stored in S3. False when the run no longer holds the lane.

        One transaction, conditional on holding the lane. A batch of more than 97 tables writes further parts before
        it, under the same conditions: without the batch they have no effect, and parts that a dead run left so are
        written again. Repeatable by the same run; a batch whose objects all returned to pending may be opened again.
        Raises BatchTaken when the lane is held and the batch belongs to another run or is committed.
        """
        lane_held = at_work(self._table, manifest.lane, run_id, job_run_id)
        openable = NEW_ITEM | when(state=items.RETURNED) | when(run=run_id, state=items.CLAIMED)
        batch_openable = self._table.check_action(items.batch_key(manifest.batch), openable)
        unsettled = NEW_ITEM | when(state=items.RETURNED) | when(state=items.CLAIMED)
        sizes = {"objects": len(manifest.objects), "bytes": sum(part.bytes for part in manifest.tables.values())}
        owner = {"run": run_id, "lane": manifest.lane}
        tables = sorted(manifest.tables)
        parts = [
            self._table.put_action(
                {
                    **items.part_key(manifest.batch, table),
                    **owner,
                    "batch": manifest.batch,
                    "table": table,
                    "state": items.CLAIMED,
                    "objects": len(manifest.tables[table].objects),
                    "bytes": manifest.tables[table].bytes,
                    "started_at": manifest.created_at,
                },
                unsettled,
            )
            for table in tables
        ]
        batch = self._table.put_action(
            {
                **items.batch_key(manifest.batch),
                **owner,
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
                **owner,
                "batch": manifest.batch,
                "s3_key": manifest_s3_key,
                "tables": tables,
                "created_at": manifest.created_at,
            }
        )
        try:
            while len(parts) > ACTIONS_LIMIT - OTHER_ACTIONS:
                self._open([lane_held, batch_openable, *parts[: ACTIONS_LIMIT - 2]], manifest.batch)
                parts = parts[ACTIONS_LIMIT - 2 :]
            self._open([lane_held, pointer, batch, *parts], manifest.batch)
        except _LaneLost:
            return False
        return True

    def _open(self, actions: Sequence[Values], batch: str) -> None:
        """The first action is the lane's check. If it fails the lane is lost, otherwise the batch exists already."""
        try:
            self._table.transact(actions)
        except TransactionRefused as answer:
            if 0 in answer.refusals:
                raise _LaneLost from answer
            stored = next(iter(answer.refusals.values())).item or {}
            raise BatchTaken(
                f"Batch {batch} can't be opened", batch=batch, state=stored.get("state"), run=stored.get("run")
            ) from answer

    def claim(self, manifest: Manifest) -> list[ObjectId]:
        """pending -> claimed for each object of an open batch; gives those that the batch got. Repeatable.

        An object that was claimed, dropped or moved to another table or lane since the pending query is left out, and
        must not be read. One that this batch has settled already is included.
        """
        listed = [(table, entry) for table in sorted(manifest.tables) for entry in manifest.tables[table].objects]
        generations = {table: int(part.config.get("generation", 0)) for table, part in manifest.tables.items()}
        groups = [
            [
                self._table.update_action(
                    items.object_key(entry.id),
                    # Where the claim had to ask for the time: rows that are retried keep the position of the others.
                    {
                        "state": items.CLAIMED,
                        "batch": manifest.batch,
                        "merged_generation": generations[table],
                        **({} if entry.modified_at is None else {"modified_at": entry.modified_at}),
                    },
                    condition=when(state=items.PENDING, table=table, lane=manifest.lane),
                ),
                self._table.delete_action(items.pending_key(manifest.lane, table, entry.admitted_at, entry.id)),
            ]
            for table, entry in listed
        ]
        refused = write_groups(self._table, groups)
        taken = []
        for position, (_, item) in enumerate(listed):
            if position not in refused or _is_of(manifest.batch, refused[position].item):
                taken.append(item.id)
        return taken

    def unsettled(self, lane: str) -> list[ManifestPointer]:
        """The lane's open batches with their settled parts, oldest first."""
        pointers = [
            stored
            for page in self._table.query(items.lane_partition(lane), prefix=items.MANIFEST_PREFIX)
            for stored in page
        ]
        pointers_read = [_pointer(stored, self.parts(stored["batch"])) for stored in pointers]
        return sorted(pointers_read, key=lambda pointer: (pointer.created_at, pointer.batch))

    def parts(self, batch: str) -> dict[str, Values]:
        """A batch's parts by table, as stored."""
        pages = self._table.query(items.batch_partition(batch), prefix=items.PART_PREFIX)
        return {stored["table"]: stored for page in pages for stored in page}

    def _states(self, batch: str) -> dict[str, str]:
        """The state of each part that the batch was opened with, by table; parts of a cut opening are left out."""
        stored = [row for page in self._table.query(items.batch_partition(batch)) for row in page]
        opened = {table for row in stored if row["sk"] == items.BATCH for table in row["tables"]}
        return {row["table"]: row["state"] for row in stored if row.get("table") in opened}

    def get(self, batch: str) -> Values | None:
        """A batch's item as stored."""
        return self._table.get(items.batch_key(batch))

    def mark_announced(self, batch: str, now: int) -> bool:
        """Note that a committed batch was announced. False when it was before, or there is no such batch."""
        done = {"announced_at": now, "listed_as": None, "listed_at": None}
        return self._table.change(items.batch_key(batch), done, when(state=items.COMMITTED, announced_at=None))

    def unannounced(self, before: int) -> Iterator[Values]:
        """Batches, as stored and oldest first, that were committed before a time (epoch ms) and not announced."""
        for page in self._table.query_index(items.UNANNOUNCED):
            for stored in sorted(self._table.get_many(page), key=lambda row: row["committed_at"]):
                if stored["committed_at"] < before and stored.get("listed_as") == items.UNANNOUNCED:
                    yield stored

    def settle(
        self, lane: str, batch: str, outcome: Outcome, objects: Sequence[ObjectId], run_id: str, now: int
    ) -> bool:
        """Write a part's outcome, which is stored in S3: the objects, then the part and the table's item together.

        False when the part was settled before: nothing is counted twice. Conditional on the batch and not on the
        lane, since the outcome is true no matter which run writes it.
        Raises ForeignObjects when an object is not claimed by this batch.
        """
        ends = end_states(outcome, objects)
        changes = [object_fields(ends[identity], identity, now) for identity in objects]
        groups = [
            [
                self._table.update_action(
                    items.object_key(identity), change, condition=when(state=items.CLAIMED, batch=batch)
                )
            ]
            for identity, change in zip(objects, changes)
        ]
        _refuse_foreign(batch, objects, changes, write_groups(self._table, groups))
        part = self._table.update_action(
            items.part_key(outcome.batch, outcome.table),
            part_fields(lane, outcome, run_id, now),
            condition=when(state=items.CLAIMED),
        )
        table = self._table.update_action(
            items.table_key(outcome.table), table_fields(outcome), add=totals(counts_of(outcome, ends))
        )
        try:
            self._table.transact([part, table])
        except TransactionRefused as answer:
            stored = answer.refusals[0].item if 0 in answer.refusals else None
            if stored is None or stored["state"] == items.CLAIMED:
                raise
            return False
        return True

    def close(self, lane: str, batch: str, run_id: str, now: int) -> bool:
        """claimed -> committed for a batch, and delete its pointer. False when it was closed before.

        A committed batch is listed as unannounced until it is announced. A batch whose objects all returned to
        pending ends as returned and is not announced. Also notes the progress on the lane while this run holds it, if
        a part was committed: runs that only divide and set aside may have a cause that no object has. Raises
        UnsettledParts while a part is claimed.
        """
        states = self._states(batch)
        waiting = sorted(table for table, one in states.items() if one == items.CLAIMED)
        if waiting:
            raise UnsettledParts(f"Batch {batch} has unsettled parts", batch=batch, tables=waiting)
        state = items.RETURNED if all(one == items.RETURNED for one in states.values()) else items.COMMITTED
        pointer = self._table.delete_action(items.manifest_pointer_key(lane, batch))
        owed = {"listed_as": items.UNANNOUNCED, "listed_at": items.listed_at(now)} if state == items.COMMITTED else {}
        close = self._table.update_action(
            items.batch_key(batch),
            {"state": state, "committed_at": now, "closed_by": run_id, **owed},
            condition=when(state=items.CLAIMED),
        )
        closed = self._table.transacted([close, pointer])
        if items.COMMITTED in states.values():
            self._lanes.progressed(lane, run_id)
        return closed

    def begin_attempt(self, batch: str, table: str, now: int) -> None:
        """Count an attempt to finish a part, before it begins: a run that dies can't count its own death."""
        self._table.update(
            items.part_key(batch, table),
            {"attempted_at": now},
            add={"attempts": 1},
            condition=when(state=items.CLAIMED),
        )

    def end_attempt(self, batch: str, table: str) -> None:
        """Take an attempt back that neither settled the part nor killed its run."""
        self._table.update(items.part_key(batch, table), {}, add={"attempts": -1}, condition=when(state=items.CLAIMED))

    def give_up(self, batch: str, table: str, reason: str) -> bool:
        """Ask the next run that takes the batch over to quarantine a part's objects. False when the part is settled.

        Only a run can do it: the part may be committed, and its table may have to be rolled back first.
        """
        still = when(state=items.CLAIMED, batch=batch)
        return self._table.change(items.part_key(batch, table), {"given_up": reason}, still)

    def return_to_pending(
        self,
        batch: str,
        table: str,
        objects: Sequence[ObjectId],
        lane: str,
        run_id: str,
        job_run_id: str,
        generation: int | None = None,
        cohorts: Mapping[ObjectId, Cohort] = MappingProxyType({}),
    ) -> list[ObjectId] | None:
        """claimed -> pending for the objects of a part that is split on purpose; gives those returned. Repeatable.

        Every transaction is conditional on this job run holding the lane. None when it is lost: the run that takes
        over then finishes the batch, including the objects that have returned. Objects keep their admission time and
        the `generation` that they were claimed under; `cohorts` replace theirs. The part ends as returned, so that the
        batch can be closed. No wake follows, since the lane's holder knows of the objects.
        """
        records = self._objects.get(objects)
        groups = []
        for identity in objects:
            listing: Values = {} if generation is None else {"generation": generation}
            if identity in cohorts:
                listing["cohort"] = cohorts[identity].to_text()
            groups.append(
                [
                    self._table.update_action(
                        items.object_key(identity),
                        {"state": items.PENDING, "batch": None, **listing},
                        condition=when(state=items.CLAIMED, batch=batch),
                    ),
                    self._table.put_action(pending_item(replace(records[identity], **listing))),
                ]
            )
        lane_held = self._table.check_action(items.lane_key(lane), held_by(run_id, job_run_id))
        part = self._table.update_action(
            items.part_key(batch, table), {"state": items.RETURNED}, condition=when(state=items.CLAIMED)
        )
        try:
            refused = write_groups(self._table, groups, guard=lane_held)
            write_groups(self._table, [[part]], guard=lane_held)
        except GuardRefused:
            return None
        return [identity for position, identity in enumerate(objects) if position not in refused]


def _pointer(stored: Values, parts: Mapping[str, Values]) -> ManifestPointer:
    return ManifestPointer(
        batch=stored["batch"],
        s3_key=stored["s3_key"],
        run=stored["run"],
        created_at=stored["created_at"],
        tables=tuple(stored["tables"]),
        settled_tables=frozenset(table for table, part in parts.items() if part["state"] != items.CLAIMED),
        attempts={
            table: PartAttempts(part.get("attempts", 0), part.get("attempted_at"), part.get("given_up"))
            for table, part in parts.items()
            if part["state"] == items.CLAIMED
        },
    )


def _is_of(batch: str, stored: Mapping[str, Any] | None) -> bool:
    return stored is not None and stored.get("batch") == batch and stored["state"] != items.PENDING


def _refuse_foreign(
    batch: str, objects: Sequence[ObjectId], changes: Sequence[Values], refused: Mapping[int, Refusal]
) -> None:
    """Raise ForeignObjects for refusals, except where the object has this outcome of this batch already."""
    foreign = []
    for position, refusal in refused.items():
        stored = refusal.item or {}
        if stored.get("batch") != batch or stored.get("state") != changes[position]["state"]:
            foreign.append(objects[position].lineage)
    if foreign:
        raise ForeignObjects(
            f"{len(foreign)} objects are not claimed by batch {batch}", batch=batch, objects=foreign[:20]
        )
