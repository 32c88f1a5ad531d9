"""Proposes a rule for a topic from its schema and sampled rows.

Every choice carries its evidence, and stays open if the evidence doesn't decide it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.changes.capture_marks import is_flag
from sluice.changes.dialects.dynamodb import DYNAMODB_EXPORTS
from sluice.changes.dialects.wrappers import wrapper_of
from sluice.changes.position import OFFSET_ONLY, POSTGRES
from sluice.changes.source_tables import parts_of
from sluice.names import COLUMN, NAME, counted, listed
from sluice.onboarding.dates import likely_types
from sluice.onboarding.fit import stay_alive, unmarked_deletions, unmarked_operations
from sluice.onboarding.keys import AMBIGUOUS, CERTAIN, LIKELY, SHOWN, Choice, record_key
from sluice.onboarding.order import (
    not_a_position,
    note_on_order,
    order_of_operations,
    order_of_repeats,
    order_of_split,
    splits,
)
from sluice.onboarding.samples import (
    PARTITIONS_MAX,
    ROWS_PER_PARTITION,
    ColumnFacts,
    TopicSample,
    column_facts,
    distinct_rows,
    with_operations,
)
from sluice.schema.avro import WriterSchema, left_out_note
from sluice.schema.columns import ARRAY, BYTES, DATE, INT, ISO_DATE, JSON, LONG, STRING, Column, holds_records

SMALL_BYTES = 1024**3  # of parked objects; a smaller table is best read and written as one folder
_PARTITION = re.compile(r"(?:_p|p_|_|p)?[0-9][0-9_p]*$")  # the end of a partition's or a shard's name: sales_p2026_11
_APART = "give each a topic or a `key_pattern` of its own, or say `merged: true` where they are one table's"
_COLUMNS_SHOWN = 8  # where none of them is a candidate

_PARTITION_KINDS = frozenset({STRING, INT, LONG, DATE, ISO_DATE})
_PARTITION_NAMES = "date day month year region country state tenant store type category status group".split()


@dataclass(frozen=True)
class Proposal:
    """A proposed rule. `table` is "database.table"; `notes` say what matters about the records' shape and order.

    `delete_when` is the column that marks deletions and its values (none: any but null), `position` the column that
    orders the changes then.
    `null_text` is set for CSV that has such one. `types` are those that columns of untyped objects seem to have.
    `behind` are those of the `nested` topics, whose rules come before, whose rules are open. Other fields are those of
    the sample.
    """

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
    delete_when: tuple[str, tuple[str, ...]] | None = None
    position: Choice | None = None
    key_pattern: str | None = None
    format: str | None = None
    null_text: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    read: int = 0
    nested: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    delimiter: str | None = None
    path_columns: tuple[str, ...] = ()
    merged: bool = False

    @property
    def open(self) -> tuple[str, ...]:
        """The keys that somebody must choose."""
        pattern = ("key_pattern",) if self.behind else ()
        return tuple(name for name, choice in self.choices.items() if not choice.decided) + pattern

    @property
    def choices(self) -> Mapping[str, Choice]:
        made = {"table": self.table, "record_key": self.record_key, "partition_by": self.partition_by}
        return made if self.position is None else {**made, "position": self.position}


def propose(
    sample: TopicSample,
    *,
    database: str | None = None,
    chosen: Mapping[str, tuple[str, ...]] | None = None,
    taken: frozenset[str] = frozenset(),
) -> Proposal:
    """Propose the rule for a topic.

    `chosen` are the operator's own choices by key of the rule; `taken` are names of tables that other topics feed.
    """
    chosen = chosen or {}
    table = _table(sample.topic, database, taken)
    writer = sample.writer
    marked = None if writer is None else unmarked_operations(sample, writer)
    if marked is not None:
        sample = with_operations(sample, *marked)
    key_columns: Sequence[str] = ()
    if writer is None:
        key = Choice((), AMBIGUOUS, sample.problems or ("no record could be read",))
        partition = Choice((), LIKELY, ("its columns are unknown",))
        notes = list(sample.problems)
    else:
        rows = distinct_rows(sample.rows)
        facts = [column_facts(column.name, rows, sample.rows) for column in writer.row.columns]
        key = record_key(sample, writer, table.value[0].partition(".")[2] if table.value else "", rows, facts)
        key_columns = chosen.get("record_key", key.value)
        partition = _partition(sample, writer, facts, key_columns)
        notes = _notes(sample, writer)
    if marked is not None:
        which = " or ".join(marked[1]) or "any value"
        what = "marks deletions" if is_flag(marked[0]) else "holds operations"
        notes.append(f"{marked[0]} {what}: rows with {which} are deletions")
    elif writer is not None and (flagged := unmarked_deletions(sample, writer)) is not None:
        notes.append(stay_alive(*flagged))
    choices = {"table": table, "record_key": key, "partition_by": partition}
    order = None
    if writer is not None:
        order = order_of_split(sample, writer, key_columns) or (
            order_of_operations(sample, writer, key_columns)
            if marked is not None
            else order_of_repeats(sample, writer, key_columns)
        )
    if order is not None:
        choices["position"] = order
    elif writer is not None and not writer.of_changes:
        notes.append(note_on_order(sample, writer, key_columns))
    elif writer is not None and (split := splits(sample, writer, key_columns)) is not None:
        notes.append(split)
    for name, value in chosen.items():
        choices[name] = _as_chosen(name, value, choices.get(name, Choice((), LIKELY, ())), sample)
        if name == "table" and value and value[0] in taken:
            choices[name] = Choice(value, AMBIGUOUS, (_another_topics(value[0]),))
    return Proposal(
        **{name: getattr(sample, name) for name in _OF_SAMPLE},
        rows=len(sample.rows),
        shape=writer.shape if writer else None,
        source=writer.meta.position.kind if writer else None,
        notes=tuple(notes),
        delete_when=marked,
        **{name: choices.get(name) for name in ("table", "record_key", "partition_by", "position")},  # type: ignore[arg-type]
        format=sample.dialect or sample.format,
        null_text=_null_text(sample),
        types={} if writer is None else likely_types(sample, writer),
        merged=_of_one_table(sample.sources),
    )


_OF_SAMPLE = "topic objects bytes key_pattern read nested delimiter path_columns".split()


def _fields(writer: WriterSchema, of_folders: Sequence[str]) -> tuple[list[str], list[str]]:
    columns = [column for column in writer.row.columns if column.name not in of_folders]
    return [of.written_name for of in columns], [of.written_name for of in columns if holds_records(of)]


def _of_one_table(sources: Sequence[str]) -> bool:
    """Whether several source tables seem to be one: shards by their databases, or partitions by their names' ends."""
    names = {_PARTITION.sub("", parts_of(source)[-1]) for source in sources}
    return len(sources) > 1 and len(names) == 1


def _as_chosen(name: str, value: tuple[str, ...], choice: Choice, sample: TopicSample) -> Choice:
    writer = sample.writer
    columns = () if writer is None or name == "table" else writer.row.names
    absent = [column for column in value if columns and column not in columns]
    if absent:
        candidates = " or ".join(",".join(candidate) for candidate in (choice.value, *choice.alternatives) if candidate)
        others = f"candidates: {candidates}" if candidates else f"the columns are {listed(columns, _COLUMNS_SHOWN)}"
        return Choice(value, AMBIGUOUS, (f"there is no column {absent[0]}; {others}",), choice.alternatives)
    unfit = not_a_position(value, sample.rows, writer) if name == "position" and writer is not None else None
    if unfit is not None:
        return Choice(value, AMBIGUOUS, (unfit,), choice.alternatives)
    return Choice(value, CERTAIN, ("chosen on the command line",), ())


def _table(topic: str, database: str | None, taken: frozenset[str]) -> Choice:
    parts = [part for part in topic.split(".") if part]
    words = [_name(part) for part in ([database] if database else parts[-2:-1]) + parts[-1:]]
    if len(words) < 2:
        return Choice((), AMBIGUOUS, ("the topic's name has one part and names no database: use --database",))
    table = ".".join(words)
    if not all(NAME.fullmatch(part) for part in words):
        return Choice((), AMBIGUOUS, (f"the topic's name makes {table}, which is not a valid name",))
    if table in taken:
        return Choice((), AMBIGUOUS, (_another_topics(table),))
    evidence = "database given, table from the topic's last part" if database else "the topic's last two parts"
    return Choice((table,), LIKELY, (evidence,))


def _another_topics(table: str) -> str:
    return f"{table} is another topic's table"


def _name(part: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in part.lower())
    bare = plain.lstrip("_")
    return bare if not bare[:1].isdigit() else f"t_{bare}"


def _partition(sample: TopicSample, writer: WriterSchema, facts: Sequence[ColumnFacts], key: Sequence[str]) -> Choice:
    columns = {column.name: column for column in writer.row.columns}
    fit = [fact for fact in facts if fact.name not in key and _may_partition(columns[fact.name], fact)]
    ranked = sorted(
        fit, key=lambda fact: (fact.changed, columns[fact.name].kind not in (DATE, ISO_DATE), fact.distinct)
    )[:SHOWN]
    described = tuple(_describe_partition(fact) for fact in ranked)
    alternatives = tuple((fact.name,) for fact in ranked)
    parked = f"{sample.bytes:,} bytes are parked"
    if sample.bytes < SMALL_BYTES:
        return Choice(
            (), LIKELY, (f"{parked}: a small table is best read and written as one folder", *described), alternatives
        )
    if not ranked:
        return Choice((), LIKELY, ("no column with a fitting name has few values and is never null",))
    evidence = (f"{parked}, and partition columns can't change in place", *described)
    return Choice((ranked[0].name,), AMBIGUOUS, evidence, alternatives)


def _may_partition(column: Column, fact: ColumnFacts) -> bool:
    named_as_one = column.kind in (DATE, ISO_DATE) or any(word in fact.name.lower() for word in _PARTITION_NAMES)
    return (
        bool(fact.rows)
        and not fact.nulls
        and COLUMN.fullmatch(fact.name) is not None
        and column.kind in _PARTITION_KINDS
        and named_as_one
        and 1 < fact.distinct <= min(PARTITIONS_MAX, fact.rows // ROWS_PER_PARTITION)
    )


def _describe_partition(fact: ColumnFacts) -> str:
    moved = f", changed by {fact.changed} of {counted(fact.compared, 'update')}" if fact.compared else ""
    return f"{fact.name}: {counted(fact.distinct, 'value')} in {counted(fact.rows, 'row')}, never null{moved}"


def _notes(sample: TopicSample, writer: WriterSchema) -> list[str]:
    notes = [*sample.problems]
    if sample.schemas > 1:
        notes.append(
            f"{sample.schemas} schemas among the parked objects: the newest is shown, and the table follows changes"
        )
    if sample.inferred and _CSV not in sample.formats:
        notes.append(
            "JSON without a schema: dates and exact numbers stay text or numbers unless `types` declares them before "
            "the first load"
        )
    dates = sorted(likely_types(sample, writer))
    if dates:
        look = "looks like a date or time" if len(dates) == 1 else "look like dates or times"
        notes.append(f"{listed(dates, _COLUMNS_SHOWN)} {look}: see `types` below")
    if sample.layout is not None:
        notes.append(f"the names are those of {sample.layout}, and tell no topic: the pattern finds them")
    for topic in sample.nested:
        notes.append(f"the pattern also fits keys of topic {topic}: that topic's rule must come before this one")
    if _CSV in sample.formats:
        notes.append("CSV: columns are text unless `types` names their types before the first load")
        null = _null_text(sample)
        if null is not None:
            notes.append(f"csv: {null} stands for null in the rows read")
        if sample.delimiter is not None:
            notes.append(f"csv: {sample.delimiter!r} seems to stand between the values, and not a comma")
    changed = [column for column in writer.row.columns if column.name != column.written_name]
    for column in changed[:SHOWN]:
        notes.append(
            f"column {column.written_name[:100]!r} is stored as {column.name}: "
            f"`columns: {{rename: {{{column.name}: NAME}}}}` gives it another name"
        )
    if changed[SHOWN:]:
        notes.append(f"and {counted(len(changed) - SHOWN, 'more column')} whose names a table can't have")
    arrays = [(column.name, column.element) for column in writer.row.columns if column.kind == ARRAY]
    unmarked = [name for name, item in arrays if item is not None and item.kind not in _WITH_PLACEHOLDER]
    if unmarked and writer.meta.position.kind == POSTGRES:
        notes.append(
            f"{', '.join(unmarked[:_COLUMNS_SHOWN])}: of such arrays and vectors Debezium sends null where an update "
            "left a large value alone; `null_is_unchanged` names those whose nulls mean that"
        )
    wrapper = None if writer.of_changes else wrapper_of(*_fields(writer, sample.path_columns))
    if wrapper is not None:
        notes.append(f"the records are {wrapper.product}, with the row or operation in `{wrapper.row}`: {wrapper.step}")
    if sample.dialect is not None:
        notes.append(f"the records are changes in the form `{sample.dialect}`: others are refused by the rule")
    if len(sample.sources) > 1:
        one = "they seem to be one table's, as `merged` says" if _of_one_table(sample.sources) else _APART
        notes.append(
            f"changes of {counted(len(sample.sources), 'source table')}, {', '.join(sample.sources[:SHOWN])}: {one}"
        )
    if sample.path_columns:
        notes.append(f"{', '.join(sample.path_columns)}: in the objects' folders alone, as `path_columns` says")
    if writer.left_out:
        notes.append(left_out_note(writer.left_out))
    absent = [name for name in sample.key_fields or () if writer.row.column(name) is None]
    if absent:
        notes.append(f"the Kafka key has the field {absent[0]}, which is not a column of the rows")
    position = writer.meta.position
    by_folder = sample.dialect == DYNAMODB_EXPORTS.name  # a full export: the time in its folder's name orders it
    if position.kind == OFFSET_ONLY and writer.of_changes and position.advice and not by_folder:
        notes.append(position.advice)
    return notes


# Items of arrays for which Debezium has a placeholder of a large value that an update left alone.
_WITH_PLACEHOLDER = frozenset((STRING, BYTES, INT, LONG, DATE, ISO_DATE, JSON))


_CSV = "csv"
_NULL_TEXTS = ("NULL", r"\N")


def _null_text(sample: TopicSample) -> str | None:
    """The text by which the sampled CSV seems to write null, beside empty text."""
    if sample.formats != (_CSV,):
        return None
    values = {value for row in sample.rows for value in row.values.values() if isinstance(value, str)}
    return next((text for text in _NULL_TEXTS if text in values), None)
