"""Says where the configuration of a table doesn't fit its columns, or the objects that wait for a new one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sluice.changes.capture_marks import deletion_marks, is_flag, mark_text, marking_columns
from sluice.changes.hidden_columns import colliding
from sluice.config.delete_when import written_marks
from sluice.config.key_pattern import ORDER, groups_of
from sluice.config.rules.partition_fields import columns_read
from sluice.config.table import IGNORE, TableConfig
from sluice.names import counted, did_you_mean, stored_name
from sluice.onboarding.keys import ROWS_ENOUGH, SHOWN, is_measure, keys_of_several
from sluice.onboarding.order import lacks_order, positions_of_keys, possible_positions, splits, unordered_keys
from sluice.onboarding.samples import (
    ROWS_PER_FOLDER,
    ROWS_PER_PARTITION,
    SampledRow,
    TopicSample,
    column_facts,
    distinct_rows,
    distinct_values,
    many_values,
    shared_keys,
)
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import DATE, ISO_DATE, RowSchema
from sluice.schema.concealment import ruled, unknown_columns
from sluice.schema.made_columns import with_source_columns

COLUMNS, EXPECT, DELETE_WHEN, RECORD_KEY, TYPES = "columns", "expect", "delete_when", "record_key", "types"
_ROWS_OF_A_KEY = 4  # plain rows of a value on average, from which on it is doubted to be a key
_DELETED = re.compile(r"(?:^|_)(?:is_?)?deleted$|^isDeleted$", re.I)
_IN_TIME = re.compile(r"(?:^|_)(?:ts|time|timestamp|at|date|seq|sequence|version|lsn)$|updat|modif", re.I)
_FLAGS = frozenset(("true", "false"))
_NEAR = 0.8  # by difflib: the likeness from which on a name is taken for a misspelt one
# What becomes of objects where a setting names a column that they lack.
_REFUSED = "objects without it are quarantined"
_NOT_UNIQUE = "its objects are quarantined as key_not_unique"
_NULL_KEY = "rows without it are quarantined"
_OF_CHANGES = "all of them are quarantined"
_SPLIT = "objects of all folders but one are quarantined as overlap"
_UNORDERED = "its objects are quarantined as unordered_change"
_EFFECTS = {
    RECORD_KEY: _REFUSED,
    "partition_by": _REFUSED,
    "position": _REFUSED,
    "coordinates": "rows without it are quarantined",
    DELETE_WHEN: "deleted rows would stay",
    COLUMNS: "what it names would be stored as it comes",
}


@dataclass(frozen=True)
class Misfit:
    """Where a table's rule doesn't fit: a sentence, and the setting whose value data would not be stored by, if any.

    `effect` is what becomes of objects then.
    """

    text: str
    setting: str | None = None
    effect: str | None = None

    @property
    def consequence(self) -> str:
        """The sentence with what becomes of objects, where that is known."""
        return f"{self.text}: {self.effect}" if self.effect else self.text


def misfits(sample: TopicSample, config: TableConfig) -> tuple[Misfit, ...]:
    """Return what a merge of the sampled objects would refuse them for, and columns of the rule that they lack."""
    if sample.writer is None or not sample.writer.row.columns:  # of truncates alone
        return instants_declared(config)
    sample, untaken = _taken(sample, sample.writer, config)
    assert sample.writer is not None
    ruled_sample, writer = _ruled(sample, sample.writer, config)
    return (
        *untaken,
        *_absent_columns(sample.writer, writer, config),
        *_lacked_columns(sample, writer, config),
        *_order(ruled_sample, writer, config),
        *_shared_key(ruled_sample, writer, config),
        *_repeated_key(ruled_sample, writer, config),
        *_null_key(ruled_sample, writer, config),
        *_many_partitions(ruled_sample, writer, config),
        *map(Misfit, _operations(sample, sample.writer, writer, config)),
        *map(Misfit, _misspelt(sample.writer, writer, config)),
    )


def _taken(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> tuple[TopicSample, tuple[Misfit, ...]]:
    """The sample without the columns of its folders that the rule doesn't take, and what is said of these."""
    left = [name for name in sample.path_columns if name not in config.path_columns]
    if not left:
        return sample, ()
    row = RowSchema(tuple(column for column in writer.row.columns if column.name not in left))
    rows = tuple(
        replace(row, values={name: value for name, value in row.values.items() if name not in left})
        for row in sample.rows
    )
    text = f"{', '.join(left)}: columns that the objects' folders alone hold are left out, without `path_columns`"
    return replace(sample, writer=replace(writer, row=row), rows=rows), (Misfit(text),)


def _misspelt(source: WriterSchema, writer: WriterSchema, config: TableConfig) -> Iterator[str]:
    """Yield names under `types` and `raw` that are nearly a column's. Others may be of columns that are yet to come."""
    written = {name for column in source.row.columns for name in (column.name, column.written_name)}
    for setting, names, columns in ((TYPES, config.json_types, written), ("raw", config.raw, {*writer.row.names})):
        yield from _nearly(setting, names, columns, "the objects that wait")


def _nearly(setting: str, names: Collection[str], columns: Collection[str], of: str) -> Iterator[str]:
    left = sorted(set(columns).difference(names))
    for name in sorted(set(names).difference(columns)):
        ratios = ((difflib.SequenceMatcher(None, name.lower(), column.lower()).ratio(), column) for column in left)
        near = next((column for ratio, column in ratios if ratio >= _NEAR), None)
        if near is not None:
            yield f"{setting}: {name} is not a column of {of} (did you mean {near}?)"


def instants_declared(config: TableConfig) -> tuple[Misfit, ...]:
    """Return a warning of partition columns that the rule's `types` makes timestamps: it needs no sample."""
    declared = {
        config.columns.table_name(name)
        for written, kind in config.json_types.items()
        if "timestamp" in kind
        for name in (written, stored_name(written))
    }
    instants = [name for name in config.partition_by if name in declared]
    return (_partitioned_by_instants(instants),) if instants else ()


def _ruled(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> tuple[TopicSample, WriterSchema]:
    """The sample and its schema with the table's names of columns. Hashes would be equal where values are."""
    name = config.columns.table_name
    if config.source_words:  # whose values the sample hasn't
        sample, writer = replace(sample, rows=()), with_source_columns(writer, config.source_words)
    rows = tuple(
        replace(row, values={name(column): value for column, value in row.values.items()}) for row in sample.rows
    )
    return replace(sample, rows=rows), replace(writer, row=ruled(writer.row, config.columns))


def unknown_in_table(
    stored: Sequence[str], written: Sequence[str], config: TableConfig, before: TableConfig | None
) -> tuple[Misfit, ...]:
    """Return the columns that `expect`, or another setting since `before`, names and a table with data lacks.

    `stored` are the table's columns, `written` those of all its writer schemas. `before` is the rule in force. What its
    `columns` name is known: an excluded column may be in neither.
    """
    names = {*stored, *written, *(before.columns.named if before else ())}
    in_any_case = {name.lower() for name in names}
    anew = named_anew(config, before)
    types = [name for setting, name in anew if setting == TYPES and stored_name(name) not in names]
    return (
        *(_no_column(EXPECT, name, "the table", stored) for name in config.expect.absent_from(stored)),
        *(
            _no_column(setting, name, "the table", stored)
            for setting, name in anew
            if setting != TYPES
            if (name.lower() not in in_any_case if setting == COLUMNS else name not in names)
        ),
        *map(Misfit, _nearly(TYPES, types, names, "the table")),
    )


def named_anew(config: TableConfig, before: TableConfig | None) -> list[tuple[str, str]]:
    """Return the settings but `expect` that name columns which the rule in force doesn't, each with the column."""
    then, now = (
        {} if rule is None else {COLUMNS: rule.columns.named, TYPES: tuple(rule.json_types), **_named(rule)}
        for rule in (before, config)
    )
    return [(setting, name) for setting, names in now.items() for name in names if name not in then.get(setting, ())]


def unmarked_operations(sample: TopicSample, writer: WriterSchema) -> tuple[str, tuple[str, ...]] | None:
    """Return the column in which a capture marks deletions of plain rows, and the values that do; None without one.

    Without values any but null marks one.
    """
    written = {column.written_name: column for column in writer.row.columns if not writer.of_changes}
    named = marking_columns(written)
    for name in (*named, *(name for name in written if name not in named)):
        column = written[name]
        marks = deletion_marks(name, [row.values.get(column.name) for row in sample.rows], named=name in named)
        if marks is not None:
            return column.name, marks
    return None


def unmarked_deletions(sample: TopicSample, writer: WriterSchema) -> tuple[str, tuple[str, ...]] | None:
    """Return the column of plain rows that seems to say by true and false whether a row is deleted; None without one.

    With it come the values that say so, as a rule's `delete_when` names them.
    """
    for name in writer.row.names if not writer.of_changes else ():
        texts = {mark_text(row.values.get(name)) for row in sample.rows} - {None, ""}
        if _DELETED.search(name) and texts and all(text is not None and text.lower() in _FLAGS for text in texts):
            return name, tuple(sorted(text for text in texts if text and text.lower() == "true")) or ("true",)
    return None


def _named(config: TableConfig) -> dict[str, Sequence[str]]:
    """The table's columns that a rule names by setting, but for `expect`, in which case doesn't count."""
    return {
        RECORD_KEY: () if config.append_only else config.record_key,
        "partition_by": columns_read(config.partition_by),
        "position": config.position_columns,
        "coordinates": config.coordinates,
        DELETE_WHEN: (config.marks_of_rows.column or "",) if config.marks_of_rows.marks else (),
        "services.clustering.by": [name for name in config.services.cluster_by if not colliding((name,))],
    }


def _absent_columns(source: WriterSchema, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    waiting = "the objects that wait"
    for name in unknown_columns([source.row], config.columns):
        yield _no_column(COLUMNS, name, waiting, source.row.names)
    for name in config.expect.absent_from(writer.row.names):
        yield _no_column(EXPECT, name, waiting, writer.row.names)
    for setting, columns in _needed(writer, config).items():
        for name in columns:
            if writer.row.column(name) is None:
                yield _no_column(setting, name, waiting, writer.row.names)


def _needed(writer: WriterSchema, config: TableConfig) -> dict[str, Sequence[str]]:
    """The columns that objects need, by setting. Changes of a log need no column of a position, and may have none."""
    return {key: names for key, names in _named(config).items() if key != "position" or not writer.of_changes}


def _lacked_columns(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    """Name the columns that each object must have, and that only some of those that wait have."""
    lacked = {config.columns.table_name(name) for name in sample.lacked}
    for setting, columns in _needed(writer, config).items():
        for name in lacked.intersection(columns) if _EFFECTS.get(setting) == _REFUSED else ():
            yield Misfit(f"{setting}: some of the objects that wait lack {name}", setting, _REFUSED)


def _no_column(setting: str, name: str, of: str, columns: Sequence[str]) -> Misfit:
    loaded = setting == DELETE_WHEN and marking_columns((name,))  # rows of a full load lack what its changes have
    meant = did_you_mean(name, columns).removeprefix("; ")  # in brackets, since what it leads to follows
    text = f"{setting}: {name} is not a column of {of}{f' ({meant})' if meant else ''}"
    return Misfit(text) if loaded else Misfit(text, setting, _EFFECTS.get(setting))


def _order(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    """Say where a position isn't needed, and where nothing orders changes.

    Of operations a deletion could then be merged before what it deletes, and of Kafka partitions that folders split an
    older change could win.
    """
    if config.position is not None and writer.of_changes:
        names = ", ".join(config.position_columns)
        text = f"position: {names} can't order changes of a log, which have a source position (leave it out)"
        yield Misfit(text, "position", _OF_CHANGES)
    if _is_unordered(sample, writer, config):
        could = possible_positions(sample.rows, writer, config.record_key)
        suggestion = f", such as {could[0]}" if could else ""
        text = f"delete_when: nothing orders the changes; name the column that does in `position`{suggestion}"
        yield Misfit(text, "position", _UNORDERED)
    why = None if config.append_only or _is_ordered(config) else splits(sample, writer, config.record_key)
    if why is not None:
        yield Misfit(f"position: {why}; name the column that does", "position", _SPLIT)


def _is_unordered(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> bool:
    by_marks = config.marks_of_rows.marks and not config.append_only and not _is_ordered(config)
    return bool(by_marks) and lacks_order(sample, writer)


def _is_ordered(config: TableConfig) -> bool:
    """Whether the rule says what orders changes without a position of a log."""
    by_key_pattern = config.key_pattern is not None and ORDER in groups_of(config.key_pattern)
    return config.position is not None or bool(config.coordinates) or by_key_pattern


def _shared_key(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    key = config.record_key
    rows = _of_snapshots(sample, writer, config)
    absent = any(writer.row.column(name) is None for name in key)
    if config.append_only or absent or _is_unordered(sample, writer, config):
        return
    keys, shared = shared_keys(key, rows)
    name = f"record_key: {', '.join(key)} has {{}} in {{}}"
    if shared:
        text = name.format(counted(keys, "value"), f"{counted(len(rows), 'row')} of a snapshot")
        text += _unique_columns(rows, writer) + _versions(rows, writer, config)
        # A merge that can't tell one snapshot from the next commits such rows, with a note.
        is_one_snapshot = not writer.of_changes or bool(writer.meta.position.names) and config.position is None
        yield Misfit(text, RECORD_KEY, _NOT_UNIQUE) if is_one_snapshot else Misfit(text)
    elif not writer.of_changes and config.position is None and not rows:
        # Each row may be a change of one before it: only a key of few values beside a unique column is odd.
        distinct = distinct_rows(sample.rows)
        values, unique = distinct_values(key, distinct), _unique_columns(distinct, writer)
        if len(distinct) >= ROWS_ENOUGH and values * _ROWS_OF_A_KEY <= len(distinct) and unique:
            few = name.format(counted(values, "value"), counted(len(distinct), "row"))
            yield Misfit(f"{few}, of which the last of each value stays{unique}")


def _versions(rows: Sequence[SampledRow], writer: WriterSchema, config: TableConfig) -> str:
    """The column that orders rows which are versions of one, as the end of a sentence; empty if there is none."""
    if writer.of_changes or config.position is not None:
        return ""
    could = [name for name in positions_of_keys(rows, writer, config.record_key) if _IN_TIME.search(name)]
    return f"; if they are versions of a row, `position: {could[0]}` orders them" if could else ""


def _repeated_key(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    """Say of keys with different rows in several objects that nothing orders: which of these rows stays is open."""
    if config.append_only or _is_ordered(config) or config.marks_of_rows.marks or sample.split_by:
        return
    repeated = unordered_keys(sample, writer, config.record_key)
    if repeated:
        could = positions_of_keys(sample.rows, writer, config.record_key)
        such = f", such as {could[0]}" if could else ""
        yield Misfit(
            f"position: objects repeat {counted(repeated, 'value')} of {', '.join(config.record_key)}, and nothing "
            f"orders these rows but when their objects came; name the column that does{such}"
        )


def _unique_columns(rows: Sequence[SampledRow], writer: WriterSchema) -> str:
    """The columns that have a value of its own in each row, as the end of a sentence; empty if there are none."""
    distinct = distinct_rows(rows)
    columns = {column.name: column for column in writer.row.columns}
    facts = [column_facts(name, distinct, rows) for name in columns]
    unique = [fact.name for fact in facts if fact.rows == fact.distinct and not fact.nulls]
    unique = [name for name in unique if not is_measure(columns[name])][:SHOWN]
    several = keys_of_several(columns, distinct, facts)
    if not unique and several:
        return f"; {' and '.join(several[0])} are unique together"
    return f"; {', '.join(unique)} {'is' if len(unique) == 1 else 'are'} unique" if unique else ""


def _null_key(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    """Name the columns of the key that rows lack a value in: its table would have to be rebuilt to change it."""
    for name in () if config.append_only else config.record_key:
        nulls = sum(row.values.get(name) is None for row in sample.rows)
        if nulls and writer.row.column(name) is not None:
            text = f"record_key: {name} is null in {nulls:,} of {counted(len(sample.rows), 'row')}"
            yield Misfit(text, RECORD_KEY, _NULL_KEY)


def _many_partitions(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Iterator[Misfit]:
    """Warn of partition columns with a folder for nearly every row, and of instants, which have one in any case."""
    columns = [writer.row.column(name) for name in config.partition_by]
    if not columns or None in columns:
        return
    name, values, rows = ", ".join(config.partition_by), distinct_values(config.partition_by, sample.rows), sample.rows
    instants = [column.name for column in columns if column is not None and column.spark_type == "timestamp"]
    dated = any(column is not None and column.kind in (DATE, ISO_DATE) for column in columns)
    if many_values(values, len(rows), ROWS_PER_PARTITION if dated else ROWS_PER_FOLDER):
        said = f"{name} has {counted(values, 'value')} in {counted(len(rows), 'row')}"
        yield _many_folders(f"{said}: each becomes a folder, of about {counted(round(len(rows) / values), 'row')}")
    elif instants:
        yield _partitioned_by_instants(instants)
    else:
        yield from instants_declared(config)


def _partitioned_by_instants(columns: Sequence[str]) -> Misfit:
    return _many_folders(f"{', '.join(columns)} is a timestamp: each instant becomes a folder")


def _many_folders(said: str) -> Misfit:
    return Misfit(f"partition_by: {said}; choose a column of few values, or day(column)")


def _of_snapshots(sample: TopicSample, writer: WriterSchema, config: TableConfig) -> Sequence[SampledRow]:
    """The rows of which each must have a key of its own, as a merge sees them (`merge.by_spark.shared_keys`)."""
    if writer.of_changes:
        return [row for row in sample.rows if row.read]
    if config.position is not None:
        columns = config.position_columns
        loaded = [row for row in sample.rows if any(row.values.get(name) in (None, "") for name in columns)]
        return loaded if config.marks_of_rows.marks else ()
    return () if sample.offsets_named or config.coordinates or config.marks_of_rows.marks else sample.rows


def stay_alive(column: str, values: Sequence[str]) -> str:
    """Say of a column that seems to mark deletions what becomes of them, and what a rule needs."""
    return f"{column} seems to mark deleted rows, which stay visible without `{written_marks(column, values)}`"


def _operations(sample: TopicSample, source: WriterSchema, writer: WriterSchema, config: TableConfig) -> Iterator[str]:
    rule = config.marks_of_rows
    if config.append_only or not rule.on or rule.marks and writer.row.column(rule.column or ""):
        return
    marking = unmarked_operations(sample, source)
    deletions_flagged = unmarked_deletions(sample, source)
    if deletions_flagged is not None and marking is None and config.delete_mode != IGNORE:
        yield stay_alive(*deletions_flagged)
    if marking is not None:
        effect = "marks deletions" if is_flag(marking[0]) else "holds operations"
        yield f"the column {marking[0]} {effect}: add `{written_marks(*marking)}`, or `delete_when: off` if it is data"
