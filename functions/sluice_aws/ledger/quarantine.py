"""Decisions about objects and rows that were set aside: retry, discard, and their audit trail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from sluice.ledger import keys as items
from sluice.ledger.records import DISCARDED, RETRIED, Decision, ObjectRecord
from sluice.objects import ObjectId
from sluice.silver_keys import rows_key
from sluice_aws.ledger.expressions import when
from sluice_aws.ledger.objects import MERGED_NOWHERE, listed_records, listing_fields, pending_item
from sluice_aws.ledger.settlement import TOTAL_PREFIX
from sluice_aws.ledger.table import LedgerTable, Values

_FIELDS = tuple(item.name for item in fields(Decision) if item.name != "id")


class QuarantineLedger:
    """The decisions of one ledger. Each is written in one transaction with the change that it makes."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def objects_with_rows(self) -> Iterator[ObjectRecord]:
        """Every committed object with quarantined rows, oldest first within each shard."""
        return listed_records(self._table, items.ROWS, lambda record: record.quarantined_rows > 0)

    def retry(self, record: ObjectRecord, routed: ObjectRecord, decision: Decision) -> bool:
        """quarantined, or committed with quarantined rows -> pending under the table and lane of `routed`.

        `routed` holds what admission finds now: table, lane, schema and so on. The object keeps its admission time and
        gets the next attempt, so that its next batch has another id than its last. If rows of it were merged and it
        stays with its table, `rows_aside` names the others, and it keeps the generation of `routed`.
        False when the ledger no longer holds the object as `record` says, and for a parked object, which becomes
        pending by a rule or a higher generation.
        """
        if record.state == items.PARKED:
            return False
        moved = replace(
            routed,
            state=items.PENDING,
            attempt=record.attempt + 1,
            batch=None,
            cohort=record.cohort,  # one that killed its run is merged with nothing beside it, again
            **_merged_of(record, routed.table),
        )
        field_names = ("state", "attempt", "table", "lane", "topic", "kafka_partition", "offset", "format", "schema")
        changes: Values = {name: getattr(moved, name) for name in field_names}
        changes.update(
            merged=moved.merged or None,
            rows_aside=moved.rows_aside,
            generation=moved.generation,
            first_batch=moved.first_batch,
            replayed_at=moved.replayed_at,
            code=None,
            reason=None,
            batch=None,
            quarantined_rows=None,
            row_codes=None,
            listed_as=None,
            listed_at=None,
        )
        back = (
            {"objects": -1, "quarantined_rows": -record.quarantined_rows}
            if record.quarantined_rows
            else {"objects_quarantined": -1}
        )
        waiting = {**pending_item(moved), "retried_at": decision.at}
        return self._decide(record, changes, decision, back, [self._table.put_action(waiting)])

    def discard(self, record: ObjectRecord, decision: Decision) -> bool:
        """quarantined or parked -> ignored (rule `discarded`), or give up the quarantined rows of a committed object.

        The object keeps its code and reason. False when the ledger no longer holds it as `record` says.
        """
        if record.quarantined_rows:
            changes: Values = {
                "quarantined_rows": None,
                "discarded_rows": record.discarded_rows + record.quarantined_rows,
                "listed_as": None,
                "listed_at": None,
            }
            counts = {"quarantined_rows": -record.quarantined_rows, "discarded_rows": record.quarantined_rows}
        else:
            changes = {
                "state": items.IGNORED,
                "rule": items.DISCARDED,
                **listing_fields(items.IGNORED, record.id, decision.at),
            }
            # A batch that parks an object counts it neither as merged nor as quarantined.
            back = {} if record.state == items.PARKED else {"objects_quarantined": -1}
            counts = {**back, "objects_discarded": 1}
        return self._decide(record, changes, decision, counts, [])

    def decisions_about(self, identity: ObjectId) -> list[Decision]:
        """Every decision about one object, oldest first."""
        pages = self._table.query(items.decisions_partition(identity))
        return [_decision(stored) for page in pages for stored in page]

    def decisions(self, *, since: int | None = None) -> Iterator[Decision]:
        """Every decision, oldest first within each shard. With `since` (epoch ms), only those from then on."""
        for partition in items.listed_partitions(items.DECISIONS):
            for page in self._table.query_index(partition, since=None if since is None else items.listed_at(since)):
                yield from sorted(
                    map(_decision, self._table.get_many(page)), key=lambda decision: (decision.at, decision.id)
                )

    def _decide(
        self,
        record: ObjectRecord,
        changes: Values,
        decision: Decision,
        counts: Mapping[str, int],
        more: Sequence[Values],
    ) -> bool:
        if decision.verb not in (RETRIED, DISCARDED):
            raise ValueError(f"{decision.verb!r} is not a decision: retried or discarded")
        if record.state not in (items.QUARANTINED, items.PARKED) and not record.quarantined_rows:
            return False  # nothing of it is set aside
        condition = when(state=record.state, batch=record.batch, quarantined_rows=record.quarantined_rows or None)
        actions = [
            self._table.update_action(items.object_key(record.id), changes, condition=condition),
            self._table.put_action(_decision_item(decision)),
            *more,
        ]
        if record.batch is not None and record.table:  # only what a batch settled was counted for its table
            actions.append(
                self._table.update_action(
                    items.table_key(record.table), {}, add={TOTAL_PREFIX + name: n for name, n in counts.items()}
                )
            )
        return self._table.transacted(actions)


def _merged_of(record: ObjectRecord, table: str | None) -> dict[str, Any]:
    """The fields that say which rows of a retried object its table has merged: none if the table is another one."""
    if table is None or table != record.table:
        return dict(MERGED_NOWHERE)
    if record.quarantined_rows and record.batch is not None:
        aside = rows_key(record.batch, table, record.id.hash)
        return {"merged": True, "rows_aside": aside, "first_batch": record.first_batch}
    return {"merged": record.merged, "rows_aside": record.rows_aside, "first_batch": record.first_batch}


def _decision_item(decision: Decision) -> dict[str, Any]:
    summary = {name: value for name, value in asdict(decision).items() if name != "id"}
    coordinates = {**asdict(decision.id), "also_for": decision.id.also_for or None}
    listed = {
        "listed_as": items.listed_as(items.DECISIONS, decision.id.hash),
        "listed_at": items.listed_at(decision.at),
    }
    return {**items.decision_key(decision.id, decision.at, decision.verb), **coordinates, **summary, **listed}


def _decision(stored: Mapping[str, Any]) -> Decision:
    identity = ObjectId(stored["bucket"], stored["key"], stored["version"], stored.get("also_for", ""))
    values: dict[str, Any | None] = {name: stored[name] for name in _FIELDS if name in stored}
    return Decision(identity, **values)  # type: ignore[arg-type]  # the ledger holds what `_decision_item` wrote
