"""Reviews a new configuration against the tables that have data and the lanes that hold objects."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from sluice.batch.claim import TableState, refuse_settings
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.log_restart import began_again, watched_partition
from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.table import TableConfig
from sluice.errors import ChangeRefused
from sluice.lane.machine import PAUSED, LaneState
from sluice_aws.hash_keys import exists
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.stack import Target
from sluice_cli.config.risks import aws_command
from sluice_cli.terminal.stack import lane_names
from sluice_cli.terminal.step import Step, in_a_row

MOST_WAITING = 100_000  # pending objects of one table that are read, oldest first: those of a log that ended


@dataclass(frozen=True)
class TableInUse:
    """A table and a lane that holds pending or claimed objects of it (`busy`), or is configured for it until now."""

    table: str
    topic: str
    lane: str
    busy: bool


@dataclass(frozen=True)
class ClaimedPart:
    """A part of an open batch: its lane, and the settings that its manifest fixes, which its data will have."""

    lane: str
    pinned: Mapping[str, Any]


@dataclass(frozen=True)
class Remark:
    """A refusal or a warning, and the table that it is about. `names_step` where the text has the step that helps."""

    table: str
    text: str
    names_step: bool = False


@dataclass(frozen=True)
class Review:
    """The reasons to refuse a configuration, and the warnings about it."""

    refusals: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()


def review(
    configuration: Configuration,
    tables: Iterable[TableState],
    in_use: Iterable[TableInUse],
    lanes: Mapping[str, LaneState],
    raised: Iterable[Review] = (),
    first: Mapping[str, ClaimedPart] = MappingProxyType({}),
    before: Configuration | None = None,
) -> Review:
    """Compare a configuration with the tables that have data and with the lanes that hold objects.

    `first` are the open parts of tables whose data is not there yet: their states have the settings of these parts.
    `before` is the configuration in force, `raised` the refusals of `raised_generations`.

    In place, a table keeps its fixed settings and its topic. It changes lane only while nothing of it is pending and
    both lanes are paused: otherwise two runs would write it. Pending objects of a table without data move to the one
    that their topic feeds now, while their lane is paused: a claim would give the old table data.
    """
    states = [state for state in tables if state.pinned]
    own_topics = {state.table: pinned_topic(state.pinned) for state in states}
    feeding = {
        rule.table: rule.topic for rule in configuration.rules if rule.topic is not None and "*" not in rule.topic
    }
    reviews = [
        *(_review_data(state, configuration, feeding, first.get(state.table), before) for state in states),
        *(_review_backlog(table, configuration, own_topics.get(table.table), lanes) for table in in_use),
        *raised,
    ]
    return Review(
        tuple(dict.fromkeys(refusal for part in reviews for refusal in part.refusals)),
        tuple(dict.fromkeys(warning for part in reviews for warning in part.warnings)),
    )


def _review_data(
    state: TableState,
    configuration: Configuration,
    feeding: Mapping[str, str],
    part: ClaimedPart | None,
    before: Configuration | None,
) -> Review:
    """Review what becomes of a table that has data, or whose first data is the open `part`.

    `feeding` has the topics of rules for a single table.
    """
    table, topic = state.table, pinned_topic(state.pinned)
    what = "an open batch" if part else "data"
    wait = f": {Step('wait')} or {Step('pause', part.lane)} first" if part else ""
    if topic is None:
        return Review()
    config = configuration.own_or_first(topic, table)
    if (
        before is not None
        and config is not None
        and config.table in {rule.table for rule in before.tables_for_topic(topic) if rule.table != table}
    ):  # the other table was one of the topic before, too
        gone = f"{table} has {what}, and no rule makes it of topic {topic} any more"
        return Review(warnings=(Remark(table, gone),))
    if config is None and table not in feeding:
        orphaned = f"{table} has {what}, and no rule takes its topic {topic} any more: its objects will be parked"
        return Review(warnings=(Remark(table, orphaned),))
    if config is not None and config.table != table:
        other = f"topic {topic} feeds {table}, which has {what}, and would feed {config.table}{wait}"
        return _refused(table, other, names_step=bool(wait))
    if config is None or feeding.get(table, topic) != topic:
        other = f"{table} has {what} of topic {topic} and would be fed by {feeding[table]}{wait}"
        return _refused(table, other, names_step=bool(wait))
    try:
        refuse_settings(config, state, what=what)
    except ChangeRefused as error:
        is_lower = "generation" in error.facts["changes"]  # which a rebuild doesn't change
        return _refused(table, f"{error.message}{wait}", names_step=bool(wait) or is_lower)
    return Review()


def _refused(table: str, reason: str, *, names_step: bool) -> Review:
    return Review((Remark(table, reason, names_step),))


def _review_backlog(
    table: TableInUse, configuration: Configuration, own_topic: str | None, lanes: Mapping[str, LaneState]
) -> Review:
    """Review what becomes of a table's pending and claimed objects."""
    config = configuration.own_or_first(table.topic, table.table)
    if config is not None and config.table == table.table:
        refusals = _lane_refusals(table, config, lanes)
        return Review(tuple(Remark(table.table, reason, names_step=True) for reason in refusals))
    if not table.busy:
        return Review()
    if config is None:
        waiting = f"{table.table} has objects waiting in lane {table.lane}"
        stranded = f"{waiting}: they wait until a rule takes topic {table.topic} again"
        return Review(warnings=(Remark(table.table, stranded),))
    if own_topic not in (None, table.topic):
        moving = (
            f"objects of topic {table.topic} wait for {table.table}, which topic {own_topic} feeds: "
            f"they move to {config.table}"
        )
        return Review(warnings=(Remark(table.table, moving),))
    waiting = f"{table.table} has objects of topic {table.topic} waiting, which"
    if table.lane in lanes and lanes[table.lane].state != PAUSED:
        first = f"{Step('pause', table.lane)} first, {Step('resume', table.lane)} after"
        return _refused(table.table, f"{waiting} would feed {config.table}: {first}", names_step=True)
    return Review(warnings=(Remark(table.table, f"{waiting} move to {config.table}"),))


def _lane_refusals(table: TableInUse, config: TableConfig, lanes: Mapping[str, LaneState]) -> Iterator[str]:
    if config.lane == table.lane:
        return
    able_to_run = [name for name in (table.lane, config.lane) if name in lanes and lanes[name].state != PAUSED]
    if table.busy:
        waiting = f"{table.table} has objects waiting in lane {table.lane}"
        first = f"{Step('wait')} first"
        if table.lane in lanes and lanes[table.lane].state == PAUSED:  # nothing is merged, so a wait would not end
            resumed = in_a_row(Step("resume", table.lane), Step("wait"))
            first = f"push without the move first, then {resumed}, then push the move"
        yield f"{waiting} and can't move to {config.lane}: {first}"
    elif able_to_run:
        pauses = ", ".join(str(Step("pause", name)) for name in able_to_run)
        yield (
            f"{table.table} would move from lane {table.lane} to {config.lane} while {' and '.join(able_to_run)} can "
            f"run: {pauses} first, {Step('resume')} of each after"
        )


def raised_generations(ledger: Ledger, before: Configuration | None, configuration: Configuration) -> Iterator[Review]:
    """Yield a refusal for each table whose generation rises while objects of it are pending.

    They would be merged under the new generation, and win over newer rows of the table. Claimed objects don't count:
    their manifest pins the generation. Nor do objects with a generation of their own, and objects that follow parked
    ones of their Kafka partition: they are of the log that began again.
    """
    for lane in lane_names(ledger, before) if before else ():
        oldest = sorted({(item.topic, item.table) for item in ledger.pending.oldest(lane, 1)})
        states = ledger.tables.get_many(table for _, table in oldest)
        for topic, table in oldest:
            state = states[table]
            own_topic = pinned_topic(state.pinned) or topic  # the oldest object may be of one that feeds it no more
            old = before.own_or_first(own_topic, table) if before else None
            new = configuration.own_or_first(own_topic, table)
            if old is None or new is None or {old.table, new.table} != {table} or new.generation <= old.generation:
                continue
            marks = KafkaWatch.from_dict(state.watch).marks
            waiting = [
                item
                for item in ledger.pending.oldest_of(lane, {table: MOST_WAITING})
                if item.generation is None
                and not began_again(
                    marks,
                    watched_partition(item.kafka_partition, item.topic, own_topic),
                    item.offset,
                    generation=old.generation,
                )
            ]
            if waiting:
                reason = (
                    f"{table} would go from generation {old.generation} to {new.generation} while objects of it wait "
                    f"({len(waiting):,}). If they are of the old log, they would win over newer rows: stop the "
                    f"source's connector if more arrive, and {Step('wait')} first. If all of them are of the new log, "
                    "use --with-waiting"
                )
                yield _refused(table, reason, names_step=True)


def known_tables(ledger: Ledger, before: Configuration | None, states: Iterable[TableState]) -> tuple[TableInUse, ...]:
    """Return the tables of each lane: by pending objects, unsettled batches, and the configuration in force."""
    in_use: dict[tuple[str, str], TableInUse] = {}
    topics = {state.table: topic for state in states if (topic := pinned_topic(state.pinned)) is not None}
    for table, topic in topics.items():
        config = before.own_or_first(topic, table) if before else None
        if config is not None:
            in_use[(table, config.lane)] = TableInUse(table, topic, config.lane, busy=False)
    for lane in lane_names(ledger, before):
        for item in ledger.pending.oldest(lane, 1):
            in_use[(item.table, lane)] = TableInUse(item.table, item.topic, lane, busy=True)
    for lane, table, _ in _unsettled(ledger, before):
        if table in topics:
            in_use[(table, lane)] = TableInUse(table, topics[table], lane, busy=True)
    return tuple(in_use.values())


def absent_secrets(target: Target, before: Configuration | None, configuration: Configuration) -> Iterator[str]:
    """Yield a warning for each new hash key whose secret doesn't exist. One that can't be looked at is taken to exist.

    Objects of its table wait until it does, with the error `hash_key_unusable`.
    """
    secrets = {rule.columns.key for rule in before.rules} if before else set()
    new: dict[str, list[str]] = {}
    for rule in configuration.rules:
        if rule.columns.key is not None and rule.columns.key not in secrets:
            new.setdefault(rule.columns.key, []).append(rule.table)
    for name, tables in new.items():
        if not exists(target.client("secretsmanager"), name):
            make = f"secretsmanager create-secret --name {shlex.quote(name)} --secret-string"
            yield (
                f"columns: there is no secret {name}, and objects of {', '.join(tables)} wait until there is one: "
                f'`{aws_command(target)} {make} "$(openssl rand -hex 32)"`'
            )


def _unsettled(ledger: Ledger, before: Configuration | None) -> Iterator[tuple[str, str, str]]:
    """Yield the parts that open batches still have to write: lane, table, and the key of the batch's manifest."""
    for lane in lane_names(ledger, before):
        for pointer in ledger.batches.unsettled(lane):
            yield from (
                (lane, table, pointer.s3_key) for table in pointer.tables if table not in pointer.settled_tables
            )


def claimed_tables(ledger: Ledger, before: Configuration | None) -> frozenset[str]:
    """Return the tables that an open batch still has to write, by the configuration that it pinned."""
    return frozenset(table for _, table, _ in _unsettled(ledger, before))


def open_parts(target: Target, before: Configuration | None) -> dict[str, ClaimedPart]:
    """Return the parts that open batches still have to write, by table, with the settings that their manifests fix."""
    parts, manifest_of = {}, cache(ManifestStore(target.objects, target.silver).manifest)
    for lane, table, key in _unsettled(target.ledger, before):
        manifest = manifest_of(key)
        if manifest is not None and table in manifest.tables:
            parts[table] = ClaimedPart(lane, manifest.tables[table].table_config.pinned)
    return parts


def with_open_batches(
    target: Target, before: Configuration | None
) -> tuple[dict[str, ClaimedPart], dict[str, ClaimedPart], list[TableState]]:
    """Return the open parts, those of them that are their tables' first, and the tables' states, with the first parts.

    The parts are read before the states: a run pins a table's settings, then settles its part.
    """
    claimed = open_parts(target, before)
    states = list(target.ledger.tables.all())
    have_data = {state.table for state in states if state.pinned}
    first = {table: part for table, part in claimed.items() if table not in have_data}
    by_name = {state.table: state for state in states}
    begun = {table: replace(by_name.get(table, TableState(table)), pinned=part.pinned) for table, part in first.items()}
    return claimed, first, list({**by_name, **begun}.values())


def begun_meanwhile(target: Target, before: Configuration | None, configuration: Configuration) -> tuple[str, ...]:
    """Return where first batches that began during the push have fixed settings that the new configuration changes.

    Such a batch is committed by the settings of its manifest, and pins them: later claims refuse the others.
    """
    _, first, states = with_open_batches(target, before)
    return tuple(remark.text for remark in review(configuration, states, (), {}, first=first, before=before).refusals)
