"""Looks at tables and at the objects that wait for new ones, and warns where a configuration doesn't fit them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.table import TableConfig
from sluice.ledger.ports import Ledger
from sluice.onboarding.fit import misfits, unknown_expected
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_cli.config.review import lane_names
from sluice_cli.config.topics import THREADS, WaitingObject, sample_topic, waiting_topics
from sluice_cli.terminal.output import visible

TABLES = 50  # that are looked at
OBJECTS = 5  # of each


def waiting_warnings(
    objects: Objects, ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> tuple[str, ...]:
    """Return what a merge of waiting objects would refuse them for. Only tables without data are looked at.

    A table with data has its key, and its objects were merged by it.
    """
    found = _waiting(ledger, configuration, before)

    def one(table: TableConfig) -> Sequence[str]:
        try:
            sample = sample_topic(objects, table.topic, found[table], OBJECTS)
        except Exception as error:  # a look stops no push: whoever pushes may not be allowed to read bronze
            return [f"{table.table}: objects that wait can't be looked at: {visible(str(error))}"]
        return [f"{table.table}: {misfit}" for misfit in misfits(sample, table)]

    with ThreadPoolExecutor(THREADS, thread_name_prefix="waiting") as pool:
        warnings = [warning for each in pool.map(one, list(found)[:TABLES]) for warning in each]
    more = [f"{len(found) - TABLES:,} more tables have objects waiting that were not looked at"]
    return (*warnings, *(more if len(found) > TABLES else ()))


def unknown_column_warnings(history: SchemaHistory, ledger: Ledger, configuration: Configuration) -> tuple[str, ...]:
    """Return the columns that `expect` names and a table with data lacks. One GET per such table with `expect`."""
    topics = [pinned_topic(state.pinned) for state in ledger.tables.all() if state.pinned]
    found = {configuration.table_for_topic(topic) for topic in topics if topic is not None}
    tables = sorted((table for table in found if table and table.expect.columns), key=lambda table: table.table)

    def one(table: TableConfig) -> Sequence[str]:
        try:
            stored = history.columns(table.table)
        except Exception as error:  # a look stops no push
            return [f"{table.table}: its columns can't be looked at: {visible(str(error))}"]
        unknown = () if stored is None else unknown_expected(tuple(stored.columns), table)
        return [f"{table.table}: {each}" for each in unknown]

    with ThreadPoolExecutor(THREADS, thread_name_prefix="columns") as pool:
        return tuple(warning for each in pool.map(one, tables) for warning in each)


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
