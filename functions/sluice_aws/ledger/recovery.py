"""Restores records and table items from what manifests and outcomes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject, ObjectRecord
from sluice.ledger.recovery import EndState, KnownTable, Recovered, Settled
from sluice.objects import ObjectId
from sluice_aws.ledger.expressions import NEW_ITEM, when
from sluice_aws.ledger.groups import write_groups
from sluice_aws.ledger.objects import ObjectLedger, listing_fields, object_item, pending_item
from sluice_aws.ledger.settlement import TOTAL_PREFIX, object_fields
from sluice_aws.ledger.table import LedgerTable, Values

ADMITTED = tuple(item.name for item in fields(AdmittedObject))
# Fields that an item may have, and that a record without them leaves out.
_BESIDE_ADMISSION = (
    "quarantined_rows row_codes listed_as listed_at parked_generation batch code reason generation merged rows_aside"
).split()


class RecoveryLedger:
    """Recovery into one ledger.

    Every write is conditional on the record that it was decided from, so a recovery may stop anywhere and be repeated.
    """

    def __init__(self, table: LedgerTable, objects: ObjectLedger) -> None:
        self._table = table
        self._objects = objects

    def restore_objects(
        self, settled_objects: Sequence[Settled], etags: Mapping[ObjectId, str | None], *, dry_run: bool = False
    ) -> Recovered:
        """Add records that are missing, and correct those older than the object's last batch.

        Claimed objects stay: their manifest is unsettled in this ledger, and the next run's take-over settles it by
        the same outcome.
        """
        there = self._objects.get([settled.record.id for settled in settled_objects])
        groups: list[list[Values]] = []
        added = 0
        for settled in settled_objects:
            record = replace(settled.record, etag=etags.get(settled.record.id))
            before = there.get(record.id)
            if before is None:
                added += 1
                groups.append(self._adding(record, settled.at))
            elif settled.sure and _is_older(before, record):
                groups.append(self._correcting(before, record, settled.at))
        if dry_run:
            return Recovered(added, len(groups) - added, len(settled_objects) - len(groups))
        raced = len(write_groups(self._table, groups))
        return Recovered(added, len(groups) - added - raced, len(settled_objects) - len(groups), raced)

    def end_claim(self, record: ObjectRecord, end: EndState | None, now: int) -> bool:
        """claimed -> the end state by its batch's outcome, or pending without one; the caller wakes its lane.

        An object that becomes pending does so with the next attempt, since the id of its batch is taken. False when
        the object is no longer claimed by that batch, or the batch is open: then its run ends the claim.
        """
        if end is None:
            moved = replace(record, state=items.PENDING, attempt=record.attempt + 1, batch=None)
            changes: Values = {"state": items.PENDING, "attempt": moved.attempt, "batch": None}
            others = [self._table.put_action(pending_item(moved))]
        else:
            changes, others = object_fields(end, record.id, now), []
        condition = when(state=items.CLAIMED, batch=record.batch)
        pointer = items.manifest_pointer_key(record.lane or "", record.batch or "")
        return self._table.transacted(
            [
                self._table.check_action(pointer, NEW_ITEM),
                self._table.update_action(items.object_key(record.id), changes, condition=condition),
                *others,
            ]
        )

    def restore_table(self, name: str, state: KnownTable, *, purge_floors: Mapping[str, str]) -> bool:
        """Write a table's item. False when the ledger knows of a later commit."""
        key = items.table_key(name)
        stored = self._table.get(key) or {}
        at = None if state.last is None else state.last.committed_at
        if (stored.get("last_commit_at") or 0) >= (at or 0) and stored:
            return False
        changes: dict[str, Any] = {
            "table": name,
            "listed_as": items.TABLES_LISTED_AS,
            "listed_at": items.listed_at(0),
            "last_commit_at": at,
            "last_batch": state.last.batch if state.last else None,
            "last_instant": state.committed.instant if state.committed else None,
            "last_instant_at": state.committed.readable_at if state.committed else None,
            "history_instant": state.historied.history_instant if state.historied else None,
            "pinned": dict(state.pinned) or None,
            "watch": dict(state.watched.watch) if state.watched else None,
            "notes": list(state.noted.notes) or None if state.noted else None,
            "purge_floors": dict(purge_floors) or None,
            **{TOTAL_PREFIX + count: number for count, number in state.totals.items() if number},
        }
        return self._table.change(key, changes, when(last_commit_at=stored.get("last_commit_at")))

    def _adding(self, record: ObjectRecord, at: int) -> list[Values]:
        pending = [self._table.put_action(pending_item(record))] if record.state == items.PENDING else []
        return [self._table.put_action({**_admitted(record), **_beside(record, at)}, NEW_ITEM), *pending]

    def _correcting(self, before: ObjectRecord, record: ObjectRecord, at: int) -> list[Values]:
        merged = replace(
            record,
            noticed_at=before.noticed_at,
            via=before.via,
            sequencer=before.sequencer,
            etag=before.etag or record.etag,
            admitted_at=before.admitted_at,
            replayed_at=before.replayed_at,
            modified_at=record.modified_at if before.modified_at is None else before.modified_at,
        )
        condition = when(state=before.state, batch=before.batch, lane=before.lane, table=before.table)
        actions = [self._table.update_action(items.object_key(record.id), _fields(merged, at), condition=condition)]
        if before.state == items.PENDING:
            actions.append(
                self._table.delete_action(
                    items.pending_key(before.lane or "", before.table or "", before.admitted_at, before.id)
                )
            )
        if merged.state == items.PENDING:
            actions.append(self._table.put_action(pending_item(merged)))
        return actions


def _is_older(before: ObjectRecord, record: ObjectRecord) -> bool:
    """True if a record is older than the object's last batch: of an earlier attempt, or waiting for a settled one.

    So is one of before its table was dropped.
    """
    if before.state == items.CLAIMED:
        return False
    waited = (
        before.state in (items.PENDING, items.PARKED)
        and before.attempt == record.attempt
        and record.state != items.PENDING
    )
    same_merge = (before.table, before.batch, before.attempt) == (record.table, record.batch, record.attempt)
    dropped = same_merge and record.state == items.IGNORED != before.state
    return before.attempt < record.attempt or dropped or (waited and before.batch != record.batch)


def _admitted(record: ObjectRecord) -> Values:
    """The item that admission would have written."""
    return object_item(AdmittedObject(**{name: getattr(record, name) for name in ADMITTED}))


def _beside(record: ObjectRecord, at: int) -> dict[str, Any]:
    """The fields that a record has beside those of admission."""
    summary: dict[str, Any] = {
        "batch": record.batch,
        "parked_generation": record.parked_generation,
        "merged_generation": record.merged_generation,
    }
    if record.quarantined_rows:
        summary.update(
            quarantined_rows=record.quarantined_rows,
            row_codes=dict(record.row_codes),
            **listing_fields(items.ROWS, record.id, at),
        )
    elif record.state in items.LISTED_STATES:
        summary.update(listing_fields(record.state, record.id, at))
    return summary


def _fields(record: ObjectRecord, at: int) -> dict[str, Any]:
    """All fields of a record for an update; fields that it lacks are removed."""
    empty = dict.fromkeys(_BESIDE_ADMISSION)
    stored = {
        name: value for name, value in _admitted(record).items() if name not in ("pk", "sk", "bucket", "key", "version")
    }
    return {**empty, **stored, **_beside(record, at)}
