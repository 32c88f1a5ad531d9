"""What a new configuration may not change of tables that are at work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.batch.claim import TableState
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.log_restart import began_again
from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.table import TableConfig, refuse_changes
from sluice.errors import ChangeRefused
from sluice.lane.machine import PAUSED, LaneState
from sluice.ledger.ports import Ledger

MOST_WAITING = 100_000  # objects of one table looked at: those of a log that ended are the oldest


@dataclass(frozen=True)
class KnownTable:
    """A table that is at work: `lane` holds pending or claimed objects of it, or took the last ones."""

    table: str
    topic: str
    lane: str
    busy: bool


@dataclass(frozen=True)
class RaisedGeneration:
    """A table whose generation a configuration raises while `waiting` objects of it wait that aren't known to be of the new log."""

    table: str
    before: int
    after: int
    waiting: int


@dataclass(frozen=True)
class Review:
    """What speaks against a configuration (`refusals`), and what its author should know (`warnings`)."""

    refusals: tuple[str, ...]
    warnings: tuple[str, ...]


def review(
    configuration: Configuration,
    tables: Iterable[TableState],
    known: Iterable[KnownTable],
    lanes: Mapping[str, LaneState],
    raised: Iterable[RaisedGeneration] = (),
) -> Review:
    """Compare a configuration with the tables that have data and with the lanes that are at work.

    In place, a table keeps its key, partition columns and type, and the topic that feeds it; it changes
    lane only while nothing of it waits and both lanes are paused, since two runs would write it otherwise. What waits when
    its generation is `raised` would be merged under the new one, and win over all that the table holds (invariant 3).
    """
    refusals: list[str] = []
    warnings: list[str] = []
    feeding = {
        rule.table: rule.topic for rule in configuration.rules if rule.topic is not None and "*" not in rule.topic
    }
    own_topics: dict[str, str] = {}
    for state in tables:
        if state.pinned:
            own_topics[state.table] = pinned_topic(state.pinned) or ""
            _review_table(state.table, state.pinned, configuration, feeding, refusals, warnings)
    for table in known:
        config = configuration.table_for_topic(table.topic)
        if config is not None and config.table == table.table:
            refusals += _lane_refusals(table, config, lanes)
        elif table.busy and config is None:
            warnings.append(
                f"{table.table} has objects waiting in lane {table.lane}: they wait until a rule takes topic {table.topic} again"
            )
        elif table.busy and config is not None and own_topics.get(table.table, "") not in ("", table.topic):
            warnings.append(
                f"objects of topic {table.topic} wait for {table.table}, which topic {own_topics[table.table]} feeds: they move to {config.table} with the next pass of reconcile"
            )
        elif table.busy and config is not None:
            refusals.append(
                f"{table.table} has objects of topic {table.topic} waiting, which would feed {config.table}: `sluice wait` first"
            )
    refusals += [_generation_refusal(table) for table in raised]
    return Review(tuple(dict.fromkeys(refusals)), tuple(dict.fromkeys(warnings)))


def _review_table(
    table: str,
    pinned: Mapping[str, Any],
    configuration: Configuration,
    feeding: Mapping[str, str | None],
    refusals: list[str],
    warnings: list[str],
) -> None:
    topic = pinned_topic(pinned)
    if topic is None:
        return
    config = configuration.table_for_topic(topic)
    if config is None:
        if table in feeding:
            refusals.append(f"{table} has data of topic {topic} and would be fed by {feeding[table]}")
        else:
            warnings.append(
                f"{table} has data, and no rule takes its topic {topic} any more: its objects will be parked"
            )
    elif config.table != table:
        refusals.append(f"topic {topic} feeds {table}, which has data, and would feed {config.table}")
    elif feeding.get(table, topic) != topic:
        refusals.append(f"{table} has data of topic {topic} and would be fed by {feeding[table]}")
    else:
        try:
            refuse_changes(config, pinned)
        except ChangeRefused as error:
            refusals.append(error.message)


def _lane_refusals(table: KnownTable, config: TableConfig, lanes: Mapping[str, LaneState]) -> list[str]:
    if config.lane == table.lane:
        return []
    if table.busy:
        return [
            f"{table.table} has objects waiting in lane {table.lane} and can't move to {config.lane}: `sluice wait` first"
        ]
    waking = [name for name in (table.lane, config.lane) if name in lanes and lanes[name].state != PAUSED]
    if waking:
        return [
            f"{table.table} would move from lane {table.lane} to {config.lane} while {' and '.join(waking)} can run: `sluice pause` first, `sluice resume` after"
        ]
    return []


def _generation_refusal(table: RaisedGeneration) -> str:
    return (
        f"{table.table} would go from generation {table.before} to {table.after} while objects of it wait ({table.waiting:,}), which would win over newer rows if they are of "
        "the old log: `sluice wait` first, with the source's connector stopped if more keep coming; or --with-waiting if they are all of the new log"
    )


def raised_generations(
    ledger: Ledger, before: Configuration | None, configuration: Configuration
) -> tuple[RaisedGeneration, ...]:
    """The tables whose generation rises while objects wait for it.

    Not counted is what was claimed, since its manifest has its generation, what keeps a generation of its own, and what follows parked
    objects of its Kafka partition: it is known to be of the log that began again.
    """
    found = []
    for lane in lane_names(ledger, before) if before else ():
        for topic, table in sorted({(item.topic, item.table) for item in ledger.pending.oldest(lane, 1)}):
            old, new = before.table_for_topic(topic) if before else None, configuration.table_for_topic(topic)
            if (
                old is None
                or new is None
                or old.table != table
                or new.table != table
                or new.generation <= old.generation
            ):
                continue
            marks = KafkaWatch.from_dict(ledger.tables.get(table).watch).marks
            listed = ledger.pending.oldest_of(lane, {table: MOST_WAITING})  # the oldest first
            waiting = [
                item
                for item in listed
                if item.generation is None
                and not began_again(marks, item.kafka_partition, item.offset, generation=old.generation)
            ]
            if waiting:
                found.append(RaisedGeneration(table, old.generation, new.generation, len(waiting)))
    return tuple(found)


def known_tables(ledger: Ledger, before: Configuration | None) -> tuple[KnownTable, ...]:
    """The tables that a lane has, or had until now, by backlogs, unsettled batches and the configuration in force."""
    found: dict[tuple[str, str], KnownTable] = {}
    topics = {state.table: topic for state in ledger.tables.all() if (topic := pinned_topic(state.pinned)) is not None}
    for table, topic in topics.items():
        config = before.table_for_topic(topic) if before else None
        if config is not None:
            found[(table, config.lane)] = KnownTable(table, topic, config.lane, busy=False)
    for lane in lane_names(ledger, before):
        for item in ledger.pending.oldest(lane, 1):
            found[(item.table, lane)] = KnownTable(item.table, item.topic, lane, busy=True)
        for pointer in ledger.batches.unsettled(lane):
            for table in set(pointer.tables) - set(pointer.settled_tables):
                if table in topics:
                    found[(table, lane)] = KnownTable(table, topics[table], lane, busy=True)
    return tuple(found.values())


def lane_names(ledger: Ledger, *configurations: Configuration | None) -> tuple[str, ...]:
    """Every lane that may hold something: what arrives for a paused table wakes no lane, so the ledger alone doesn't know them all."""
    configured = {name for configuration in configurations if configuration for name in configuration.lane_names()}
    return tuple(sorted({lane.lane for lane in ledger.lanes.all()} | configured))
