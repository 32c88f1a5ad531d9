"""Object items: admission by one conditional write, lookup, listing by state, and changes outside of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Callable

from sluice.batch.claim import PendingObject
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.ledger.records import ALREADY, NEW, SUPERSEDED, AdmittedObject, ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.ledger.expressions import NEW_ITEM, when
from sluice_aws.ledger.table import LedgerTable, TransactionRefused, Values

FIELDS = tuple(item.name for item in fields(ObjectRecord) if item.name != "id")
READ_AHEAD = 400  # keys of the index that are read at once
# The facts about an object's merges of one that its table has merged nothing of, and under no generation.
MERGED_NOWHERE: Mapping[str, Any] = MappingProxyType(
    {"merged": False, "rows_aside": None, "generation": None, "first_batch": None, "replayed_at": None}
)


class ObjectLedger:
    """The objects of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def admit(self, admitted: AdmittedObject, *, generation: int | None = None) -> str:
        """Write an object unless it is known; answers "new", "superseded", or "already_" and its state.

        `generation` is the one in force of the object's table. Two calls: a query of the key's versions, which answers
        redeliveries and finds the bytes that were merged last, and a conditional write. A pending object is listed
        under its lane in the same transaction. Only the first page of versions is read: a key with thousands of
        versions may merge equal bytes again, which changes nothing.
        """
        key = items.object_key(admitted.id)
        versions = next(iter(self._table.query(key["pk"], fields=("sk", *_OF_VERSIONS))))
        for version in versions:
            if version["sk"] == key["sk"]:
                return f"{ALREADY}{version['state']}"
        versions = [version for version in versions if version.get("also_for", "") == admitted.id.also_for]
        if admitted.state == items.PENDING and _repeats(admitted, versions, generation):
            # Merged in place of the other version, once that one is gone, it is of the same log.
            admitted = replace(admitted, state=items.SUPERSEDED, generation=generation)
        existing = self._write_new(admitted)
        if existing is not None:
            return f"{ALREADY}{existing['state']}"
        return SUPERSEDED if admitted.state == items.SUPERSEDED else NEW

    def get(self, ids: Iterable[ObjectId]) -> dict[ObjectId, ObjectRecord]:
        """The records of these objects; an object without a record is left out."""
        keys = [items.object_key(identity) for identity in dict.fromkeys(ids)]
        records = (record_of(stored) for stored in self._table.get_many(keys))
        return {record.id: record for record in records}

    def versions(self, bucket: str, key: str, *, first_page: bool = False) -> list[ObjectRecord]:
        """The records of every version of one key, oldest first.

        With `first_page` in one call: those of the first page, a thousand or more in the order of their ids.
        """
        pages = self._table.query(items.object_partition(bucket, key))
        records = [record_of(stored) for page in islice(pages, 1 if first_page else None) for stored in page]
        return sorted(records, key=lambda record: (record.admitted_at, record.id))

    def in_state(self, state: str, *, since: int | None = None) -> Iterator[ObjectRecord]:
        """Every object in a listed state (quarantined, parked, superseded, ignored), oldest first within each shard.

        Keys come from the index, which may lag by a second. Records are strongly consistent: one that has left the
        state is left out. With `since` (epoch ms), only objects that were listed from then on.
        Raises ValueError for a state that is not listed.
        """
        if state not in items.LISTED_STATES:
            raise ValueError(f"{state!r} is not one of the listed states {items.LISTED_STATES}")
        return listed_records(self._table, state, lambda record: record.state == state, since=since)

    def unlisted(self, records: Iterable[ObjectRecord]) -> frozenset[ObjectId]:
        """Those of the records that are pending, though their lanes don't list them.

        One that is claimed meanwhile is listed no more, so that records are read once more behind the listing.
        """
        waiting = {
            items.pending_key(*_place(record))["sk"]: record for record in records if record.state == items.PENDING
        }
        listed = self._table.get_many([items.pending_key(*_place(record)) for record in waiting.values()])
        for pending in listed:
            waiting.pop(pending["sk"], None)
        now = self.get(record.id for record in waiting.values())
        return frozenset(record.id for record in waiting.values() if now.get(record.id) == record)

    def list_again(self, record: ObjectRecord) -> bool:
        """List a pending object under its lane; the caller wakes it. False when it is no longer pending there."""
        there = when(state=items.PENDING, table=record.table, lane=record.lane)
        return self._table.transacted(
            [
                self._table.put_action(pending_item(record)),
                self._table.update_action(items.object_key(record.id), {"batch": record.batch}, condition=there),
            ]
        )

    def unpark(self, record: ObjectRecord, config: TableConfig, now: int) -> bool:
        """parked, or ignored since its table was dropped -> pending under the table that takes its topic now.

        The caller wakes that table's lane.

        `record` has the topic, partition, offset and format by which its key is read now. The object keeps its
        admission time. One that a batch has read gets the next attempt, so that its next batch
        has another id. False when it is in another state by now.
        """
        attempt = record.attempt + 1 if record.batch is not None else record.attempt
        moved = replace(
            record,
            state=items.PENDING,
            table=config.table,
            lane=config.lane,
            reason=None,
            rule=None,
            attempt=attempt,
            generation=None,
        )
        names = ("state", "table", "lane", "topic", "kafka_partition", "offset", "format", "schema", "reason", "rule")
        changes = {name: getattr(moved, name) for name in names}
        changes.update(unparked_at=now, listed_as=None, listed_at=None)
        if record.batch is not None:
            # A higher generation of the table freed it, so it takes the table's.
            changes.update(attempt=attempt, batch=None, code=None, parked_generation=None, generation=None)
        return self._table.transacted(
            [
                self._table.put_action(pending_item(moved)),
                self._table.update_action(items.object_key(record.id), changes, condition=when(state=record.state)),
            ]
        )

    def reroute(self, record: ObjectRecord, config: TableConfig, now: int) -> bool:
        """pending -> pending under the table and lane that take its topic now; the caller wakes that lane.

        The object keeps its admission time. False when it is no longer pending there. A batch that was opened with
        it, and whose run died before the claim, does not get it: a claim names the table.
        """
        merged = {} if config.table == record.table else MERGED_NOWHERE
        moved = replace(record, table=config.table, lane=config.lane, **merged)
        there = when(state=items.PENDING, table=record.table, lane=record.lane)
        return self._table.transacted(
            [
                self._table.delete_action(items.pending_key(*_place(record))),
                self._table.put_action(pending_item(moved)),
                self._table.update_action(
                    items.object_key(record.id),
                    {"table": moved.table, "lane": moved.lane, "rerouted_at": now, **dict.fromkeys(merged)},
                    condition=there,
                ),
            ]
        )

    def quarantine_pending(self, record: ObjectRecord, code: str, reason: str, now: int) -> bool:
        """pending -> quarantined. False when it is no longer pending there."""
        changes = {"code": code, "reason": reason, **_listed(items.QUARANTINED, record.id, now)}
        there = when(state=items.PENDING, table=record.table, lane=record.lane)
        return self._table.transacted(
            [
                self._table.delete_action(items.pending_key(*_place(record))),
                self._table.update_action(items.object_key(record.id), changes, condition=there),
            ]
        )

    def quarantine_parked(self, record: ObjectRecord, code: str, reason: str, now: int) -> bool:
        """parked -> quarantined. False when it is no longer parked.

        The object leaves its batch, which counted it neither as merged nor as quarantined.
        """
        left = {"batch": None, "parked_generation": None}
        return self._end_parked(record, {"code": code, "reason": reason, **left}, items.QUARANTINED, now)

    def ignore_parked(self, record: ObjectRecord, rule: str, now: int) -> bool:
        """parked -> ignored by a rule. False when it is no longer parked."""
        return self._end_parked(record, {"rule": rule, "reason": None}, items.IGNORED, now)

    def _end_parked(self, record: ObjectRecord, changes: Values, state: str, now: int) -> bool:
        still = when(state=items.PARKED, batch=record.batch)
        listed = {**changes, **_listed(state, record.id, now)}
        return self._table.change(items.object_key(record.id), listed, still)

    def forget(self, record: ObjectRecord) -> bool:
        """Delete the record of an object that no longer exists; False while it waits: for a run, or for a decision."""
        if record.state in (items.PENDING, items.CLAIMED, items.QUARANTINED, items.PARKED):
            return False
        return self._table.delete(items.object_key(record.id), when(state=record.state)) is None

    def _write_new(self, admitted: AdmittedObject) -> Values | None:
        """Write a new object's items; gives the item that exists already, None when there was none."""
        stored = object_item(admitted)
        if admitted.state != items.PENDING:
            refusal = self._table.put(stored, NEW_ITEM)
            return None if refusal is None else (refusal.item or {"state": admitted.state})
        try:
            self._table.transact(
                [self._table.put_action(stored, NEW_ITEM), self._table.put_action(pending_item(admitted))]
            )
        except TransactionRefused as answer:
            return answer.refusals[0].item or {"state": admitted.state}
        return None


def listed_records(
    table: LedgerTable, listed: str, is_wanted: Callable[[ObjectRecord], bool], *, since: int | None = None
) -> Iterator[ObjectRecord]:
    """The wanted ones of what is `listed` in the index under a word, oldest first within each shard."""
    for partition in items.listed_partitions(listed):
        for page in table.query_index(partition, since=None if since is None else items.listed_at(since)):
            for start in range(0, len(page), READ_AHEAD):
                records = map(record_of, table.get_many(page[start : start + READ_AHEAD]))
                yield from sorted(filter(is_wanted, records), key=lambda record: (record.admitted_at, record.id))


def _place(record: ObjectRecord) -> tuple[str, str, int, ObjectId]:
    return record.lane or "", record.table or "", record.admitted_at, record.id


_OF_VERSIONS = ("state", "etag", "size", "admitted_at", "merged_generation", "also_for", "table")


def _repeats(admitted: AdmittedObject, versions: Sequence[Values], generation: int | None) -> bool:
    """True if the newest merged version has the same ETag and size, and was merged for this table and generation.

    False while a newer version waits for its merge, and where the object's own time orders its rows: they are newer
    than those of other objects that were merged since. Under SSE-KMS ETags never repeat: the object is merged again,
    without effect.
    """
    merged = [version for version in versions if version["state"] in (items.COMMITTED, items.CLAIMED, items.PENDING)]
    if not merged or None in (admitted.etag, generation) or admitted.modified_at is not None:
        return False
    last = max(version["admitted_at"] for version in merged)
    same = (items.COMMITTED, admitted.etag, admitted.size, generation, admitted.table)
    return all(
        tuple(version.get(name) for name in ("state", "etag", "size", "merged_generation", "table")) == same
        for version in merged
        if version["admitted_at"] == last
    )


def object_item(admitted: AdmittedObject) -> Values:
    """An object's item."""
    values = {
        name: value
        for name, value in asdict(admitted).items()
        if name != "id" and (name not in ("attempt", "merged") or value)
    }
    coordinates = {
        **items.object_key(admitted.id),
        "bucket": admitted.id.bucket,
        "key": admitted.id.key,
        "version": admitted.id.version,
        "also_for": admitted.id.also_for or None,
    }
    listing = (
        listing_fields(admitted.state, admitted.id, admitted.admitted_at)
        if admitted.state in items.LISTED_STATES
        else {}
    )
    return {**coordinates, **values, **listing}


# Facts that an admitted and a pending object share, beside those that `pending_item` makes itself.
_OF_PENDING = sorted({item.name for item in fields(AdmittedObject)} & {item.name for item in fields(PendingObject)})


def pending_item(waiting: AdmittedObject) -> Values:
    """A pending object's item under its lane, with everything that a claim needs."""
    lane, table = waiting.lane or "", waiting.table or ""
    return {
        **items.pending_key(lane, table, waiting.admitted_at, waiting.id),
        **asdict(waiting.id),
        "also_for": waiting.id.also_for or None,
        **{name: getattr(waiting, name) for name in _OF_PENDING},
        "table": table,
        "attempt": waiting.attempt or None,
        "merged": waiting.merged or None,
        # After a rebuild began, an object's rows are not readable: it waits since its admission.
        "replayed_at": None if waiting.first_batch is None else waiting.replayed_at,
        "rebuilt_at": waiting.replayed_at if waiting.first_batch is None else None,
    }


def listing_fields(state: str, identity: ObjectId, now: int) -> dict[str, Any]:
    """The fields that put an item into the index."""
    return {"listed_as": items.listed_as(state, identity.hash), "listed_at": items.listed_at(now)}


def _listed(state: str, identity: ObjectId, now: int) -> Values:
    return {"state": state, **listing_fields(state, identity, now)}


def record_of(stored: Mapping[str, Any]) -> ObjectRecord:
    """A stored item as a record."""
    identity = ObjectId(stored["bucket"], stored["key"], stored["version"], stored.get("also_for", ""))
    return ObjectRecord(identity, **{name: stored[name] for name in FIELDS if name in stored})
