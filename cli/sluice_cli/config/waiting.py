"""Looks at tables and at the objects that wait for new ones, and warns where a configuration doesn't fit them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.table import TableConfig
from sluice.ledger.ports import Ledger
from sluice.onboarding.fit import Misfit, misfits, unknown_in_table
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_cli.config.plan import TableMisfit
from sluice_cli.config.review import lane_names
from sluice_cli.config.topics import THREADS, WaitingObject, sample_topic, waiting_topics
from sluice_cli.terminal.output import visible

TABLES = 50  # that are looked at
OBJECTS = 5  # of each


def misfits_of_waiting(
    objects: Objects, ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> tuple[TableMisfit, ...]:
    """Return what a merge of waiting objects would refuse them for. Only tables without data are looked at.

    A table with data has its key, and its objects were merged by it.
    """
    found = _waiting(ledger, configuration, before)

    def one(table: TableConfig) -> Sequence[Misfit]:
        try:
            sample = sample_topic(objects, table.topic, found[table], OBJECTS)
        except Exception as error:  # a look stops no push: whoever pushes may not be allowed to read bronze
            return [Misfit(f"objects that wait can't be looked at: {visible(str(error))}")]
        return misfits(sample, table)

    looked_at = list(found)[:TABLES]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="waiting") as pool:
        warnings = [
            TableMisfit(table.table, misfit)
            for table, each in zip(looked_at, pool.map(one, looked_at), strict=True)
            for misfit in each
        ]
    more = [
        TableMisfit("", Misfit(f"{len(found) - TABLES:,} more tables have objects waiting that were not looked at"))
    ]
    return (*warnings, *(more if len(found) > TABLES else ()))


def misfits_of_tables(
    history: SchemaHistory, ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> tuple[TableMisfit, ...]:
    """Return the columns that `expect` or `columns` names and a table with data lacks.

    One GET per table with `expect`, and one per writer schema of tables whose `columns` change.
    """
    topics = [pinned_topic(state.pinned) for state in ledger.tables.all() if state.pinned]
    found = {configuration.table_for_topic(topic) for topic in topics if topic is not None}
    now = {table: before.table_for_topic(table.topic) if before else None for table in found if table}
    tables = sorted(
        (table for table, old in now.items() if table.expect.columns or _named_anew(table, old)),
        key=lambda table: table.table,
    )

    def one(table: TableConfig) -> Sequence[Misfit]:
        try:
            stored = history.columns(table.table)
            schemas = history.schemas(table.table) if _named_anew(table, now[table]) else ()
        except Exception as error:  # a look stops no push
            return [Misfit(f"its columns can't be looked at: {visible(str(error))}")]
        if stored is None:
            return ()
        written = [name for schema in schemas for name in schema.types]
        return unknown_in_table(tuple(stored.columns), written, table, now[table])

    with ThreadPoolExecutor(THREADS, thread_name_prefix="columns") as pool:
        return tuple(
            TableMisfit(table.table, misfit)
            for table, each in zip(tables, pool.map(one, tables), strict=True)
            for misfit in each
        )


def _named_anew(table: TableConfig, before: TableConfig | None) -> bool:
    return bool(set(table.columns.named) - set(before.columns.named if before else ()))


def _waiting(
    ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> dict[TableConfig, Sequence[WaitingObject]]:
    """The new tables that objects wait for, pending or parked, and some of the objects."""
    have_data = {state.table for state in ledger.tables.all() if state.pinned}
    found: dict[TableConfig, list[WaitingObject]] = {}

    def take(topic: str, waiting: Sequence[WaitingObject]) -> None:
        table = configuration.table_for_topic(topic)
        if table is not None and table.table not in have_data:
            found.setdefault(table, []).extend(waiting)

    for lane in lane_names(ledger, before, configuration):
        tables = {item.table: item.topic for item in ledger.pending.oldest(lane, 1) if item.table not in have_data}
        for item in ledger.pending.oldest_of(lane, dict.fromkeys(tables, OBJECTS)) if tables else ():
            take(item.topic, [item])
    for topic, parked in waiting_topics(ledger, configuration).topics.items():
        take(topic, parked)
    return dict(sorted(found.items(), key=lambda each: each[0].table))
