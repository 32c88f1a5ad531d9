"""Proposes a rule for a topic from its schema and sampled rows: every choice with its evidence, and left open where that doesn't decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.changes.position import OFFSET_ONLY
from sluice.names import COLUMN, NAME
from sluice.onboarding.keys import (
    AMBIGUOUS,
    CERTAIN,
    LIKELY,
    SHOWN,
    Choice,
    ColumnFacts,
    SampledRow,
    column_facts,
    counted,
    living_rows,
    record_key,
)
from sluice.schema.avro import PLAIN, WriterSchema
from sluice.schema.columns import DATE, INT, ISO_DATE, LONG, STRING, Column

SMALL_BYTES = 1024**3  # what waits in objects; a table of that order is read and written best as one folder
PARTITIONS_MAX = 1_000  # folders; each is files of its own
ROWS_PER_PARTITION = 4

_PARTITION_KINDS = frozenset({STRING, INT, LONG, DATE, ISO_DATE})
_PARTITION_NAMES = (
    "date",
    "day",
    "month",
    "year",
    "region",
    "country",
    "state",
    "tenant",
    "store",
    "type",
    "category",
    "status",
    "group",
)
_CLOCK_NAMES = (
    "last_update",
    "last_updated",
    "last_modified",
    "updated_at",
    "modified_at",
    "update_ts",
    "updated",
    "modified",
)


@dataclass(frozen=True)
class TopicSample:
    """What is known of a topic: what waits, and what was read of it. `key_fields` are those of the Kafka keys that the sink wrote beside the values.

    `inferred` says that the schema was made from the records, which carry none; `problems` are what could not be read, in words.
    """

    topic: str
    objects: int
    bytes: int
    read: int
    formats: tuple[str, ...] = ()
    writer: WriterSchema | None = None
    schemas: int = 1
    inferred: bool = False
    key_fields: tuple[str, ...] | None = None
    key_file: str | None = None
    rows: tuple[SampledRow, ...] = ()
    offsets_named: bool = True
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """A rule as it would be. `table` is "database.table"; `notes` are what the operator should know of shape and order."""

    topic: str
    objects: int
    bytes: int
    rows: int
    shape: str | None
    source: str | None
    table: Choice
    record_key: Choice
    partition_by: Choice
    notes: tuple[str, ...]

    @property
    def open(self) -> tuple[str, ...]:
        """The choices that somebody must make."""
        named = (("table", self.table), ("record_key", self.record_key), ("partition_by", self.partition_by))
        return tuple(name for name, choice in named if not choice.decided)


def propose(
    sample: TopicSample,
    *,
    database: str | None = None,
    chosen: Mapping[str, tuple[str, ...]] = {},
    taken: frozenset[str] = frozenset(),
) -> Proposal:
    """The rule for a topic. `chosen` are the operator's own choices by key of the rule; `taken` are table names that are in use."""
    table = _table(sample.topic, database, taken)
    writer = sample.writer
    if writer is None:
        unknown = Choice((), AMBIGUOUS, sample.problems or ("nothing of it could be read",))
        key, partition, notes = unknown, Choice((), LIKELY, ("nothing is known of its columns",)), list(sample.problems)
    else:
        rows = living_rows(sample.rows)
        facts = [column_facts(column.name, rows, sample.rows) for column in writer.row.columns]
        key = record_key(
            writer,
            table.value[0].partition(".")[2] if table.value else "",
            rows=rows,
            facts=facts,
            changes=sample.rows,
            kafka_key=sample.key_fields,
            key_file=sample.key_file,
            inferred=sample.inferred,
        )
        partition = _partition(sample, writer, facts, chosen.get("record_key", key.value))
        notes = _notes(sample, writer)
    choices = {"table": table, "record_key": key, "partition_by": partition}
    for name, value in chosen.items():
        choices[name] = _as_chosen(name, value, choices[name], writer)
    return Proposal(
        sample.topic,
        sample.objects,
        sample.bytes,
        len(sample.rows),
        writer.shape if writer else None,
        writer.meta.position.kind if writer else None,
        choices["table"],
        choices["record_key"],
        choices["partition_by"],
        tuple(notes),
    )


def _as_chosen(name: str, value: tuple[str, ...], found: Choice, writer: WriterSchema | None) -> Choice:
    known = None if writer is None or name == "table" else set(writer.row.names)
    absent = [column for column in value if known is not None and column not in known]
    if absent:
        return Choice(
            value, AMBIGUOUS, (f"chosen, and no column is called {absent[0]}", *found.evidence), found.alternatives
        )
    return Choice(value, CERTAIN, ("chosen on the command line",), ())


def _table(topic: str, database: str | None, taken: frozenset[str]) -> Choice:
    parts = [part for part in topic.split(".") if part]
    named = [_name(part) for part in ([database] if database else parts[-2:-1]) + parts[-1:]]
    if len(named) < 2:
        return Choice(
            (),
            AMBIGUOUS,
            ("the topic's name has one part, which names no database: --database names one for all of these",),
        )
    table = ".".join(named)
    if not all(NAME.fullmatch(part) for part in named):
        return Choice((), AMBIGUOUS, (f"the topic's name makes {table}, which no table may be called",))
    if table in taken:
        return Choice((), AMBIGUOUS, (f"{table} is another topic's table",))
    return Choice(
        (table,),
        LIKELY,
        ("database given, table from the topic's last part" if database else "the topic's last two parts",),
    )


def _name(part: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in part.lower())
    return plain if not plain[:1].isdigit() else f"_{plain}"


def _partition(sample: TopicSample, writer: WriterSchema, facts: Sequence[ColumnFacts], key: Sequence[str]) -> Choice:
    columns = {column.name: column for column in writer.row.columns}
    fit = [
        fact
        for fact in facts
        if fact.name not in key
        and fact.rows
        and not fact.nulls
        and COLUMN.fullmatch(fact.name)
        and columns[fact.name].kind in _PARTITION_KINDS
        and _partition_name(fact.name, columns[fact.name])
        and 1 < fact.distinct <= min(PARTITIONS_MAX, fact.rows // ROWS_PER_PARTITION)
    ]
    ranked = sorted(
        fit, key=lambda fact: (fact.changed, columns[fact.name].kind not in (DATE, ISO_DATE), fact.distinct)
    )[:SHOWN]
    summary = tuple(_describe_partition(fact) for fact in ranked)
    alternatives = tuple((fact.name,) for fact in ranked)
    if sample.bytes < SMALL_BYTES or not ranked:
        why = (
            f"{sample.bytes:,} bytes wait: a small table is read and written best as one folder"
            if sample.bytes < SMALL_BYTES
            else "no column named as one has few values and is never null"
        )
        return Choice((), LIKELY, (why, *summary), alternatives)
    return Choice(
        (ranked[0].name,),
        AMBIGUOUS,
        (f"{sample.bytes:,} bytes wait, and partition columns don't change in place", *summary),
        alternatives,
    )


def _partition_name(name: str, column: Column) -> bool:
    return column.kind in (DATE, ISO_DATE) or any(word in name.lower() for word in _PARTITION_NAMES)


def _describe_partition(fact: ColumnFacts) -> str:
    moved = f", changed by {fact.changed} of {counted(fact.compared, 'update')}" if fact.compared else ""
    return f"{fact.name}: {counted(fact.distinct, 'value')} in {counted(fact.rows, 'row')}, never null{moved}"


def _notes(sample: TopicSample, writer: WriterSchema) -> list[str]:
    notes = [*sample.problems]
    if sample.schemas > 1:
        notes.append(
            f"{sample.schemas} schemas among the objects read: the newest is shown, and columns are followed as they change"
        )
    if sample.inferred:
        notes.append(
            "JSON without a schema: dates and exact numbers stay text or numbers unless json_types says what they are"
        )
    absent = [name for name in sample.key_fields or () if writer.row.column(name) is None]
    if absent:
        notes.append(f"the Kafka key has the field {absent[0]}, which is no column of the rows")
    position = writer.meta.position
    if position.kind == OFFSET_ONLY and writer.shape != PLAIN and position.advice:
        notes.append(position.advice)
    if writer.shape == PLAIN:
        clocks = [column.name for column in writer.row.columns if column.name.lower() in _CLOCK_NAMES]
        if clocks:
            notes.append(f"rows without a log position: if a query captured them, position: {clocks[0]} orders them")
        elif sample.offsets_named:
            notes.append(
                "rows without a log position are ordered by Kafka offset, which is right while a key stays in its Kafka partition"
            )
        else:
            notes.append(
                "neither a log position nor an offset in the objects' names orders these rows: configure the sink, or name a position column"
            )
    return notes
