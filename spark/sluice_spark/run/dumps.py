"""Decides, before a claim, about the objects that complete full dumps: claimed, left to wait, or quarantined."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sluice.admission.routing import CHANGE_FILE, MARKER, route_of
from sluice.batch.claim import ClaimPlan, PendingObject, merged_as
from sluice.batch.dumps import (
    Completion,
    DumpFile,
    as_dump,
    complete_before,
    complete_folder,
    complete_generation,
    folders_around,
    prefix_of,
)
from sluice.config.document import Configuration
from sluice.config.key_pattern import folder_of_order
from sluice.config.rules.snapshot import GENERATION
from sluice.config.table import TableConfig
from sluice.errors import DumpIncomplete
from sluice.lane.machine import backoff_ms
from sluice.ledger.keys import COMMITTED, IGNORED, PARKED, QUARANTINED, SUPERSEDED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_spark.run.step import RunStep

LOOK_BEHIND = 1_000  # pending objects that are read where those of a whole batch wait for others


class DumpStep(RunStep):
    """Checks the objects of a claim that complete full dumps of their tables."""

    def checked(
        self,
        plan: ClaimPlan,
        pending: Sequence[PendingObject],
        configs: Mapping[str, TableConfig],
        configuration: Configuration,
    ) -> ClaimPlan:
        """The plan without markers whose dumps aren't complete; the others, and dumps of one object, replace.

        A table with nothing but a marker that waits backs off, since only other objects can help. The marker of a dump
        that can't become complete is quarantined.
        """
        if not any(config.snapshot.replace for config in configs.values()):
            return plan
        objects, due = dict(plan.objects), plan.next_due_at
        for table, items in plan.objects.items():
            waiting = [item for item in pending if item.table == table]
            chosen, waits = self._of_table(items, waiting, configs[table], configuration, isolated=plan.isolated)
            if not chosen and waits is not None:  # what it waits for may be younger, beyond the budget
                waiting = self._ledger.pending.oldest_of(configs[table].lane, {table: 2 * len(items) + LOOK_BEHIND})
                behind = _behind(items, waiting)
                chosen, _ = self._of_table(behind, waiting, configs[table], configuration, isolated=plan.isolated)
            objects[table] = chosen
            if not chosen:
                del objects[table]
                retry_at = self._clock.now_ms() if waits is None else self._back_off(table, waits)
                due = retry_at if due is None else min(due, retry_at)
        return replace(plan, objects=objects, next_due_at=due)

    def _of_table(
        self,
        items: Sequence[PendingObject],
        waiting: Sequence[PendingObject],
        config: TableConfig,
        configuration: Configuration,
        *,
        isolated: bool,
    ) -> tuple[tuple[PendingObject, ...], str | None]:
        """The objects to claim of these, and why others wait. `waiting` are all of the table.

        Objects that are merged with nothing beside them don't wait: those that they need may never come before.
        """
        if not config.snapshot.replace:
            return tuple(items), None
        chosen: list[PendingObject] = []
        waits: str | None = None
        ends: dict[str, Completion] = {}  # the same for all objects of a folder
        claimed = frozenset(item.id for item in items)
        for item in items:
            if item.format != MARKER and not config.snapshot.awaits_next:
                chosen.append(as_dump(item, config))
                continue
            owner = item.key if item.format == MARKER else prefix_of(item.key)
            if owner not in ends:
                ends[owner] = self._completion(item, waiting, config, configuration, claimed)
            end = ends[owner]
            if end.waits is not None and isolated:
                end = Completion(error=DumpIncomplete(end.waits))
            if end.error is not None:
                self._log.failure("dump_refused", end.error, table=config.table)
            if end.waits is not None:
                waits = end.waits
            elif end.error is not None and item.format == MARKER:
                record = self._ledger.objects.get([item.id])[item.id]
                now = self._clock.now_ms()
                self._ledger.objects.quarantine_pending(record, end.error.code, end.error.message, now)
            else:
                chosen.append(replace(item, replaces=end.replaces))
        return tuple(chosen), waits

    def _completion(
        self,
        item: PendingObject,
        waiting: Sequence[PendingObject],
        config: TableConfig,
        configuration: Configuration,
        claimed: Collection[ObjectId],
    ) -> Completion:
        if config.snapshot.replace == GENERATION:
            return complete_generation(item, waiting, list(self._set_aside(config)), claimed=claimed)
        by_next = config.snapshot.awaits_next
        generation = merged_as(config, [item]).generation
        prefix = folder_of_order(config.key_pattern or "", item.key) if by_next else prefix_of(item.key)
        listed = {
            replace(id, also_for=item.also_for): at
            for id, at in self._ports.files(item.id, prefix).items()
            if _is_of_table(id.key, config, configuration)
        }
        if not by_next:
            return complete_folder(item, self._with_states(listed, generation), config, claimed=claimed)
        own, before = folders_around(item, listed, config)
        if not before:
            return Completion()
        files = self._with_states({**dict.fromkeys(own, 0), **before}, generation)
        return complete_before(item, files[: len(own)], files[len(own) :], config, claimed=claimed)

    def _with_states(self, listed: Mapping[ObjectId, int], generation: int) -> list[DumpFile]:
        records = self._ledger.objects.get(listed)
        return [_dump_file(id, at, records.get(id), generation) for id, at in listed.items()]

    def _set_aside(self, config: TableConfig) -> Iterator[DumpFile]:
        objects = self._ledger.objects
        whole = (objects.in_state(state) for state in (QUARANTINED, PARKED))
        for records in (*whole, self._ledger.quarantine.objects_with_rows()):
            for record in records:
                if record.table == config.table and record.format != MARKER:
                    yield _dump_file(record.id, 0, record)

    def _back_off(self, table: str, waits: str) -> int:
        failures = self._ledger.tables.get(table).failures + 1
        retry_at = self._clock.now_ms() + backoff_ms(failures)
        self._ledger.tables.record_error(table, waits, retry_at)
        self._log.event("dump_waits", table=table, reason=waits, retry_at=retry_at)
        return retry_at


def _behind(items: Sequence[PendingObject], waiting: Sequence[PendingObject]) -> tuple[PendingObject, ...]:
    """As many of a table's waiting objects as `items`, without these, that may be claimed in their place."""
    kinds = {(item.generation, item.cohort) for item in items}
    planned = {item.id for item in items}
    others = [item for item in waiting if item.id not in planned and (item.generation, item.cohort) in kinds]
    return tuple(others[: len(items)])


def _is_of_table(key: str, config: TableConfig, configuration: Configuration) -> bool:
    route = route_of(key, None, configuration)
    return route.kind == CHANGE_FILE and route.topic == config.topic and route.format != MARKER


def _dump_file(id: ObjectId, modified_at: int, record: ObjectRecord | None, generation: int = 0) -> DumpFile:
    """A file by its record. Rows that were merged under a lower `generation` go with those before the dump."""
    if record is None:
        return DumpFile(id, modified_at)
    trouble = f"is {record.state}" if record.state in (QUARANTINED, PARKED) else None
    if record.state == COMMITTED and record.quarantined_rows:
        trouble = f"has {record.quarantined_rows:,} rows in quarantine"
    elif record.state == COMMITTED and record.merged_generation in range(generation):
        trouble = "was merged under an earlier generation: upload the dump again"
    return DumpFile(id, modified_at, record.state in (COMMITTED, SUPERSEDED, IGNORED), trouble)  # ignored: discarded
