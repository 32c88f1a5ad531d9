"""Refuses names of tables, lanes, topics and prefixes that the stack doesn't know, and says which ones it does.

A command asks only once it has found nothing: a name that finds something is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import sluice_formats.errors  # noqa: F401  # these define the codes
from sluice.batch.claim import TableState
from sluice.config.pinned_topic import config_in_force, pinned_topic
from sluice.config.table import TableConfig, kept_history
from sluice.errors import NotConfigured, SluiceError, UsageError
from sluice.names import did_you_mean
from sluice_aws.stack import Target
from sluice_cli.errors import UnknownSchema
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.step import Step, in_order
from sluice_cli.terminal.words import counted, first_names
from sluice_read.errors import UnknownTable

NAMED = 20  # at most, in a message


def check_table(target: Target, table: str | None, also: Iterable[str | None] = ()) -> None:
    """Raises UsageError for a table without data, objects and configuration that isn't among `also` either."""
    if table is None:
        return
    ledger, configuration = target.ledger, target.configuration(without_ledger=True)
    tables = set(also)
    for state in ledger.tables.all():
        history = kept_history(state.pinned)
        tables |= {state.table, f"{state.table.partition('.')[0]}.{history}" if history else None}
    for rule in configuration.rules if configuration else ():
        tables |= {name for name in (rule.table, rule.history_table) if name and "{" not in name}
    tables |= {waiting for lane in ledger.lanes.all() for waiting in ledger.pending.counts(lane.lane)}
    _refuse("table", table, {name for name in tables if name})


@contextmanager
def known_table(target: Target, table: str) -> Iterator[None]:
    """Raise the error of `check_table` in place of one that says that nothing was found of a table."""
    try:
        yield
    except (NotConfigured, UnknownSchema, UnknownTable):
        check_table(target, table)
        raise


def configured_table(target: Target, table: str) -> tuple[TableConfig, TableState]:
    """A table's settings in force, and its state. Raises NotConfigured, and what `check_table` does."""
    state = target.ledger.tables.get(table)
    with known_table(target, table):
        return config_in_force(target.configuration(), table, state.pinned), state


def check_lane(target: Target, lane: str | None) -> None:
    """Raises UsageError for a lane that neither the ledger nor the configuration has."""
    if lane is None:
        return
    configuration = target.configuration(without_ledger=True)
    lanes = {state.lane for state in target.ledger.lanes.all()}
    lanes |= set(configuration.lane_names() if configuration else ("main",))
    _refuse("lane", lane, lanes)


def check_topic(target: Target, topic: str | None, also: Iterable[str | None] = ()) -> None:
    """Raises UsageError for a topic that feeds no table, that no rule takes, and that isn't among `also` either."""
    configuration = target.configuration(without_ledger=True)
    if topic is None or configuration is not None and configuration.table_for_topic(topic) is not None:
        return
    topics = {name for state in target.ledger.tables.all() if (name := pinned_topic(state.pinned)) is not None}
    _refuse("topic", topic, topics | {name for name in also if name})


def check_partition(partition: str | None, partitions: Iterable[str]) -> None:
    """Raises UsageError for a partition that isn't among the folders of a table's partitions."""
    if partition is not None:
        _refuse("partition", partition, set(partitions))


def check_prefix(target: Target, prefix: str | None) -> None:
    """Raises UsageError for a prefix that no key in bronze begins with."""
    if prefix and not target.objects.version_page(target.bronze, prefix=prefix, page_size=1).versions:
        raise UsageError(
            f"No key in bronze begins with {prefix!r}", next_step="Give the beginning of a key, or no prefix for all"
        )


def _refuse(kind: str, given: str, choices: set[str]) -> None:
    if given not in choices:
        raise UsageError(
            f"There is no {kind} {given!r}{did_you_mean(given, choices)}",
            next_step=f"Name one of these {kind}s: {first_names([visible(name) for name in sorted(choices)], NAMED)}"
            if choices
            else f"Wait for the first {kind}: {in_order((Step('put', 'FILES'), Step('wait')))}",
        )


def known_errors(kind: type[SluiceError] = SluiceError) -> Iterable[type[SluiceError]]:
    """The classes of all errors that have a code."""
    yield kind
    for error_class in kind.__subclasses__():
        yield from known_errors(error_class)


def code_of(error: str) -> str:
    """The code of an error that Step Functions names by its class; the name itself where Sluice has no such class."""
    return next((error_class.code for error_class in known_errors() if error_class.__name__ == error), error)


def check_key(table: str, record_key: Sequence[str], key: Sequence[str]) -> None:
    """Raises UsageError unless `key` has a value for every column of the record key."""
    if len(key) != len(record_key):
        raise UsageError(
            f"The key of {table} is {', '.join(record_key)}, and {counted(len(key), 'value')} "
            f"{'is' if len(key) == 1 else 'are'} given",
            next_step=f"Give {counted(len(record_key), 'value')}, in this order",
        )
