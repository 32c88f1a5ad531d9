"""Applies a new configuration to objects that are already in the ledger.

Parked objects become pending once a table takes their topic, or once their table's generation is raised, and ignored
once `ignore` names them. Pending objects move to the table and lane that take their topic now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Callable

from sluice.admission.routing import CHANGE_FILE, READABLE_FORMATS, classify, route_of
from sluice.batch.claim import TableState
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.log_restart import BY_TIME, LOG_RESTARTED, UNNAMED, has_several_logs, watched_partition
from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.rules.ignore import LEFT_OUT
from sluice.config.table import TableConfig
from sluice.ledger.keys import PARKED
from sluice.ledger.records import ObjectRecord
from sluice_aws.ledger.ledger import Ledger

# An admit that reads the configuration just before a push parks by the old one just after it, unseen by the push.
# Reconcile finds such objects among those parked in the last hour: four passes of it.
RECENTLY_MS = 3_600_000


@dataclass(frozen=True)
class Unparked:
    """The number of parked objects that became pending, the lanes to wake for them, and how many are ignored now."""

    objects: int
    lanes: frozenset[str]
    ignored: int = 0


def unpark(
    ledger: Ledger, configuration: Configuration, now: Callable[[], int], *, since: int | None = None
) -> Unparked:
    """Make parked objects pending whose topic a table takes now. `since` (epoch ms) leaves out those parked before.

    A rule's `key_pattern` may tell the topic of an object that had none, or another topic than its name did. Objects
    parked because their source's log restarted wait for a higher generation of their table, or until that log turns out
    to be one of several. Objects parked under any other code stay parked.
    """
    moved = ignored = 0
    lanes: set[str] = set()
    state_of = lru_cache(maxsize=64)(ledger.tables.get)
    for record in ledger.objects.in_state(PARKED, since=since):
        rule = left_out(record, configuration)
        if rule is not None:
            ignored += ledger.objects.ignore_parked(record, rule, now())
            continue
        record = renamed(record, configuration)
        config = configuration.table_for_topic(record.topic, record.id.also_for) if record.topic is not None else None
        if config is None or not is_freed(record, config, state_of):
            continue
        lanes.add(config.lane)  # even if somebody else moved it: they may have died before waking the lane
        moved += ledger.objects.unpark(record, config, now())
    return Unparked(moved, frozenset(lanes), ignored)


def left_out(record: ObjectRecord, configuration: Configuration | None) -> str | None:
    """The rule by which `ignore` leaves out an object that no batch has read; None where none does."""
    rule = route_of(record.id.key, record.size, configuration).rule or ""
    return rule if rule.startswith(LEFT_OUT) and record.code is None else None


def renamed(record: ObjectRecord, configuration: Configuration) -> ObjectRecord:
    """A parked object as the configuration's key patterns name it; unchanged where none matches its key.

    An object that a batch has read keeps its name: it waits for a higher generation of its table.
    """
    match = configuration.match_key(record.id.key) if record.code is None else None
    route = classify(record.id.key, record.size, match)
    if match is None or route.kind != CHANGE_FILE or route.format not in READABLE_FORMATS:
        return record
    return replace(
        record,
        topic=route.topic,
        kafka_partition=route.kafka_partition,
        offset=route.offset,
        format=route.format,
        schema=record.schema if route.format == record.format else None,
    )


def is_freed(record: ObjectRecord, config: TableConfig, state_of: Callable[[str], TableState] = TableState) -> bool:
    """Whether a parked object becomes pending under the configuration that takes its topic.

    `state_of` returns a table's state, whose high-water marks count.
    """
    if record.code == LOG_RESTARTED:
        under = record.parked_generation or 0
        state = state_of(config.table)
        own_topic = pinned_topic(state.pinned) or config.topic
        own = UNNAMED if record.kafka_partition is None else record.kafka_partition
        own = BY_TIME if record.offset is None else own
        partition = watched_partition(own, record.topic or "", own_topic)
        marks = KafkaWatch.from_dict(state.watch).marks
        partitions = marks if config.coordinates else (partition,)  # of records themselves, which the ledger lacks
        return config.generation > under or any(has_several_logs(marks, one, generation=under) for one in partitions)
    return record.code is None


def shares_partitions(state: TableState) -> bool:
    """Whether a Kafka partition of a table has the changes of several logs (`sluice.changes.log_restart`)."""
    return any(mark.several for mark in KafkaWatch.from_dict(state.watch).marks.values())


PER_TABLE = 200  # oldest objects of each table per pass: few objects race a push, and the next pass is near


@dataclass(frozen=True)
class Rerouted:
    """The number of pending objects that moved to another table or lane, and the lanes to wake for them."""

    objects: int
    lanes: frozenset[str]


def reroute(
    ledger: Ledger, configuration: Configuration, lanes: Iterable[str], *, before: int, now: Callable[[], int]
) -> Rerouted:
    """Move pending objects that were admitted for another table or lane than their topic has now.

    An admit that reads the configuration before a push may write after it. The push doesn't see such an object, and no
    run claims it, since its topic goes elsewhere. Only objects admitted before `before` (epoch ms) move; it must be
    older than the caller's configuration, because a newer one may have admitted younger objects. An object whose topic
    no table takes any more stays, until a rule takes the topic again.
    """
    moved = 0
    woken: set[str] = set()
    for lane in lanes:
        for item in ledger.pending.oldest(lane, PER_TABLE):
            config = configuration.table_for_topic(item.topic, item.also_for)
            if config is None or item.admitted_at >= before or (config.table, config.lane) == (item.table, lane):
                continue
            record = ledger.objects.get([item.id]).get(item.id)
            if (
                record is not None
                and (record.table, record.lane) == (item.table, lane)
                and ledger.objects.reroute(record, config, now())
            ):
                moved += 1
                woken.add(config.lane)
    return Rerouted(moved, frozenset(woken))
