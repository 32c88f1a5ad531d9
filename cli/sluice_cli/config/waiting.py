"""Looks at tables and at the objects that wait for new ones, and warns where a configuration doesn't fit them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from sluice.admission.routing import CSV
from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.table import TableConfig
from sluice.config.values import MIB
from sluice.ledger.keys import QUARANTINED
from sluice.onboarding.fit import Misfit, instants_declared, misfits, named_anew, unknown_in_table
from sluice.onboarding.samples import TopicSample
from sluice.onboarding.topics import TopicsWaiting, topics_without_objects
from sluice.schema.avro import left_out_note
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_cli.config.plan import Fit, TableMisfit, known_topics
from sluice_cli.config.review import claimed_tables
from sluice_cli.config.topics import THREADS, Reach, WaitingObject, sample_topic, waiting_topics
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.stack import lane_names
from sluice_cli.terminal.words import counted
from sluice_formats.csv_records import unfit_texts
from sluice_formats.json.records import unfit_values

TABLES = 50  # that are looked at
LISTED = 500  # pending objects of each
QUARANTINED_READ = 2_000  # of all tables
# What is read of all tables together, and of each at most. A row takes some KB of memory.
OBJECTS, OBJECTS_OF_TABLE = 400, 50
ROWS, ROWS_OF_TABLE = 100_000, 20_000
BYTES, BYTES_OF_TABLE = 256 * MIB, 16 * MIB
AT_ONCE = 4  # tables
VALUE_SHOWN = 60  # characters
_UNDECODABLE = "such rows are quarantined"


def fit_of_waiting(objects: Objects, ledger: Ledger, configuration: Configuration, before: Configuration | None) -> Fit:
    """Return what a merge of waiting objects would refuse them for, and topics of rules that no object has.

    Only the objects of tables without data are looked at, and the rules of those of which none waits. A table with data
    has its key, and its objects were merged by it. Quarantined objects count too: after a correction they are retried.
    """
    waiting_tables, partly, topics, have_data = _waiting(ledger, configuration, before)
    looked_at = list(waiting_tables)[:TABLES]

    def one(table: TableConfig) -> tuple[Sequence[Misfit], str | None]:
        listed = waiting_tables[table]
        most = min(OBJECTS_OF_TABLE, OBJECTS // len(looked_at), len(listed))
        share = min(BYTES_OF_TABLE, BYTES // len(looked_at)) // most
        reach = Reach(most, min(ROWS_OF_TABLE, ROWS // len(looked_at)), share)
        try:
            sample = sample_topic(objects, table.topic, listed, reach, table.csv, table.form)
        except Exception as error:  # a look stops no push: whoever pushes may not be allowed to read bronze
            return [Misfit(f"objects that wait can't be looked at: {visible(str(error))}")], None
        left_out = () if sample.writer is None else sample.writer.left_out_of(table.source_words)
        remarks = [partly_looked_at(sample, table in partly), left_out_note(left_out) if left_out else None]
        return (*misfits(sample, table), *_unfit_types(sample, table)), "; ".join(filter(None, remarks))

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="waiting") as pool:
        looks = list(zip(looked_at, pool.map(one, looked_at), strict=True))
    warnings = [TableMisfit(table.table, misfit) for table, (unfit, _) in looks for misfit in unfit]
    for table in known_topics(configuration, topics.topics).values():
        if table.table not in have_data and table not in looked_at:
            warnings += [TableMisfit(table.table, misfit) for misfit in instants_declared(table)]
    notes = [f"{table.table}: {partial}" for table, (_, partial) in looks if partial]
    if len(waiting_tables) > TABLES:
        left = f"objects wait of {counted(len(waiting_tables) - TABLES, 'more table')} that nothing looked at"
        warnings.append(TableMisfit("", Misfit(left)))
    warnings += [TableMisfit("", Misfit(text)) for text in topics_without_objects(configuration, topics)]
    return Fit(tuple(warnings), tuple(notes))


def _unfit_types(sample: TopicSample, table: TableConfig) -> Iterator[Misfit]:
    """Say of declared types that values don't have, and that objects with types of their own don't need."""
    if sample.writer is None:
        return
    columns = {name: column.name for column in sample.writer.row.columns for name in (column.written_name, column.name)}
    declared = {name: kind for name, kind in table.json_types.items() if name in columns}
    if declared and not sample.writer.untyped:
        text = f"types: {', '.join(declared)} {'has' if len(declared) == 1 else 'have'} no effect"
        yield Misfit(f"{text}, since these objects bring their own types")
        return
    unfit = unfit_texts if sample.formats == (CSV,) else unfit_values
    for name, kind in declared.items():
        values = [value for row in sample.rows if (value := row.values.get(columns[name])) != table.unavailable_value]
        wrong = unfit(kind, values)
        if wrong:
            of = f"{len(wrong):,} of {counted(len(values), 'row')}, such as {visible(repr(wrong[0])[:VALUE_SHOWN])}"
            yield Misfit(f"types: {name} is no {kind} in {of}", "types", _UNDECODABLE)


def partly_looked_at(sample: TopicSample, more: bool) -> str | None:
    """What was looked at of a table's waiting objects; None where it was every row of every object."""
    if sample.read == sample.objects and not sample.partly and not more:
        return None
    whole = f", {sample.partly:,} of these only in part" if sample.partly else ""
    trouble = f". {sample.problems[0]}" if sample.problems else ""
    one = sample.objects == 1 and not more
    waiting = f"{sample.objects:,}{' or more' if more else ''} {'object that waits' if one else 'objects that wait'}"
    return (
        f"looked at {counted(len(sample.rows), 'row')} in {sample.read:,} of {waiting}{whole}{visible(trouble)}"
        if sample.read
        else f"could read none of {waiting}{visible(trouble)}"
    )


def misfits_of_tables(
    history: SchemaHistory, ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> tuple[TableMisfit, ...]:
    """Return the columns that `expect`, or a changed setting, names and a table with data lacks.

    One GET per table with `expect`, and one per writer schema of tables whose settings name other columns than before.
    """
    topics = [pinned_topic(state.pinned) for state in ledger.tables.all() if state.pinned]
    tables_of = {table for topic in topics if topic is not None for table in configuration.tables_for_topic(topic)}
    now = {table: before.own_or_first(table.topic, table.table) if before else None for table in tables_of}
    tables = sorted(
        (table for table, old in now.items() if table.expect.columns or named_anew(table, old)),
        key=lambda table: table.table,
    )

    def one(table: TableConfig) -> Sequence[Misfit]:
        try:
            stored = history.columns(table.table)
            schemas = history.schemas(table.table) if named_anew(table, now[table]) else ()
        except Exception as error:  # a look stops no push
            return [Misfit(f"its columns can't be looked at: {visible(str(error))}")]
        if stored is None:
            return ()
        written = [name for schema in schemas for name in schema.types]
        return unknown_in_table(tuple(stored.columns), written, table, now[table])

    with ThreadPoolExecutor(THREADS, thread_name_prefix="columns") as pool:
        return tuple(
            TableMisfit(table.table, misfit)
            for table, unfit in zip(tables, pool.map(one, tables), strict=True)
            for misfit in unfit
        )


def _waiting(
    ledger: Ledger, configuration: Configuration, before: Configuration | None
) -> tuple[dict[TableConfig, list[WaitingObject]], set[TableConfig], TopicsWaiting, set[str]]:
    """The new tables of which objects are pending, parked or quarantined, with these objects, and the topics of all.

    Beside them are the tables of which not all objects are listed, and last the names of those that have data.
    """
    claimed = claimed_tables(ledger, before)  # before the states, which a run pins before its batch is settled
    states = [state for state in ledger.tables.all() if state.pinned]
    have_data = {state.table for state in states}
    topics = {topic for state in states if (topic := pinned_topic(state.pinned)) is not None}
    by_table: dict[TableConfig, list[WaitingObject]] = {}
    partly: set[TableConfig] = set()

    def take(topic: str | None, waiting: Sequence[WaitingObject], *, more: bool = False) -> None:
        topics.update([topic] if topic else ())
        for table in configuration.tables_for_topic(topic) if topic else ():
            if table.table not in have_data:
                listed = by_table.setdefault(table, [])
                listed.extend(item for item in waiting if item.id.also_for in ("", table.table))
                partly.update([table] if more else ())

    for records in (ledger.objects.in_state(QUARANTINED), ledger.quarantine.objects_with_rows()):
        for record in islice(records, QUARANTINED_READ):  # first: the last schema counts
            take(record.topic, [record])
    for lane in lane_names(ledger, before, configuration):
        oldest = ledger.pending.oldest(lane, 1)
        topics.update(item.topic for item in oldest)
        tables = {item.table: item.topic for item in oldest if item.table not in have_data}
        pending: dict[str, list[WaitingObject]] = {}
        for item in ledger.pending.oldest_of(lane, dict.fromkeys(tables, LISTED)) if tables else ():
            pending.setdefault(item.topic, []).append(item)
        for topic, listed in pending.items():
            take(topic, listed, more=len(listed) >= LISTED)
    parked = waiting_topics(ledger, configuration)
    for topic, of_topic in parked.topics.items():
        take(topic, of_topic, more=parked.more)
    without_table = {
        topic: len(listed) for topic, listed in parked.topics.items() if configuration.table_for_topic(topic) is None
    }
    ordered = dict(sorted(by_table.items(), key=lambda entry: entry[0].table))
    return ordered, partly, TopicsWaiting(topics, without_table, claimed, parked.more), have_data
