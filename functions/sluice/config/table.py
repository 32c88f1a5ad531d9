"""The configuration of a table: its settings, and what can't change once it has data.

A new key of tables.yaml is a field of TableSettings and the code that uses it: the file's validation, the stored form,
the JSON Schema and the documentation follow from the field.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sluice.changes.dialects.nested import CaptureDialect
from sluice.changes.dialects.registry import DIALECTS, OF_DEBEZIUM
from sluice.changes.hidden_columns import LINEAGE_WORDS
from sluice.changes.hidden_columns import POSITION as POSITION_COLUMN
from sluice.config import values as kinds
from sluice.config.catalog import CATALOG, CatalogRule
from sluice.config.csv_form import CsvForm
from sluice.config.delete_when import DeleteWhen
from sluice.config.key_pattern import KEY_PATTERN
from sluice.config.limits import Limits
from sluice.config.placeholders import DEFAULT as DEFAULT_PLACEHOLDER
from sluice.config.rules.change_rule import ChangeRule
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.config.rules.partition_fields import PartitionField, columns_read, partition_field
from sluice.config.rules.snapshot import SnapshotRule
from sluice.config.services import ServicePolicy
from sluice.config.setting import restored, setting, settings_of, stored
from sluice.errors import ChangeRefused

COW, MOR = "cow", "mor"
SOFT, HARD, IGNORE = "soft", "hard", "ignore"
TABLE_TYPES = (COW, MOR)
DELETE_MODES = (SOFT, HARD, IGNORE)
AUTO, SIMPLE, RECORD = "auto", "simple", "record"
INDEXES = (AUTO, SIMPLE, RECORD)
EVOLVE, FREEZE = "evolve", "freeze"
SCHEMA_MODES = (EVOLVE, FREEZE)
JSON = "json"
FORMATS = ("avro", JSON, "parquet", "csv")

HISTORY = "_history"  # the end of a history table's name, where `history` gives no other

REWRITE_LIMIT_BYTES = 10 * kinds.GIB  # some minutes of one run's work


@dataclass(frozen=True)
class TableSettings:
    """What a rule says about its tables, and what each table is then configured to be.

    Field names are the stored names and never change: `_s` are seconds, `_h` hours. A field may only be added with a
    default.
    """

    record_key: tuple[str, ...] = setting(
        (),  # append-only tables have hidden_columns.ROW
        kinds.COLUMNS,
        "The columns that identify a row: one, or a list. Required unless `append_only`.",
        fixed=True,
        template=True,
    )
    partition_by: tuple[str, ...] = setting(
        (),
        kinds.PARTITION_FIELDS,
        "The columns of the partition path, or transforms such as `day(column)`; `[]` for none. A row moves when "
        "their values change.",
        fixed=True,
        template=True,
        default_text="none",
        page="#partition_by",
    )
    table_type: str = setting(
        COW,
        kinds.choice(*TABLE_TYPES),
        "`cow`: copy on write, fast to read. `mor`: merge on read, fast to write.",
        fixed=True,
    )
    delete_mode: str = setting(
        SOFT,
        kinds.choice(*DELETE_MODES),
        "`soft`: a deleted row stays, hidden. `hard`: table services remove it later. "
        "`ignore`: a deleted row keeps its values and stays visible.",
    )
    delete_when: DeleteWhen = setting(
        DeleteWhen(),
        None,
        "The column that marks deletions in rows that aren't Debezium's, such as AWS DMS's `Op`. "
        "`off`: such a column is data.",
        default_text="none",
        page="#delete_when",
    )
    keep_deleted_values: bool = setting(
        False,
        kinds.SWITCH,
        "A deleted row keeps the values and the partition of its delete event. "
        "The source must send whole rows (`REPLICA IDENTITY FULL`).",
    )
    unavailable_value: str = setting(
        DEFAULT_PLACEHOLDER,
        kinds.UNAVAILABLE_VALUE,
        "The connector's `unavailable.value.placeholder`: text, or `hex:` and hexadecimal digits.",
        default_text="Debezium's",
    )
    null_is_unchanged: tuple[str, ...] = setting(
        (),
        kinds.COLUMNS,
        "Columns in which an update's null stands for the former value, since the connector has no placeholder for "
        "their type. An update that sets one of them to null is then lost.",
        default_text="none",
        page="types.md#unchanged-values-without-a-placeholder",
    )
    freshness_s: int = setting(
        60,
        kinds.DURATION,
        "How old the table may get: it is committed no more often, but for what a full batch left. `0` is for demos.",
        key="freshness",
    )
    time_travel_h: int = setting(
        168, kinds.HOURS, "How far back earlier states of the table can be read.", key="time_travel"
    )
    lane: str = setting(
        "main", kinds.LANE_NAME, "The lane of the table. The tables of a lane share Spark runs, one at a time."
    )
    generation: int = setting(0, kinds.whole(0, 9_999), "Raise it when the source's log starts again lower.")
    hudi: Mapping[str, str] = setting(
        dict,
        kinds.HUDI_OPTIONS,
        "More Hudi write options. Those that Sluice decides are refused.",
        page="hudi-options.md",
    )
    paused: bool = setting(False, kinds.SWITCH, "Objects are admitted, and wait.")
    limits: Limits = setting(
        Limits(), None, "The sizes beyond which an object is quarantined.", default_text="", page="limits.md#sizes"
    )
    raw: tuple[str, ...] = setting(
        (),
        kinds.RAW_COLUMNS,
        "Stores dates and times as the connector encodes them: `true` for all columns, or their names.",
        default_text="`false`",
    )
    rewrite_limit_bytes: int = setting(
        REWRITE_LIMIT_BYTES,
        kinds.SIZE,
        "A larger table is not rewritten for a decimal's new scale or a list's wider items; "
        "objects that need it are quarantined.",
        key="rewrite_limit",
    )
    json_types: Mapping[str, str] = setting(
        dict,
        kinds.JSON_TYPES,
        "The types of columns in CSV, and in JSON without a schema: `date`, `timestamp_micros`, `'decimal(10,2)'` "
        "and so on. Other columns of CSV are text.",
        key="types",
        page="types.md#csv",
    )
    lineage: tuple[str, ...] = setting(
        LINEAGE_WORDS,
        kinds.LINEAGE,
        "The hidden columns that tell where a row comes from: `on`, `off`, or a list. "
        "A column that is off is null in rows written from then on.",
    )
    key_pattern: str | None = setting(
        None,
        KEY_PATTERN,
        "A regular expression for the whole keys of objects whose names no known sink made. Its groups `topic`, "
        "`partition` and `offset` (or `last_offset`) name what a key tells, and `order` the date or number that "
        "orders objects without an offset. Without `topic`, it is the rule's own.",
        default_text="names of known sinks",
        page="producing.md#any-other-layout",
    )
    format: str | None = setting(
        None,
        kinds.choice(*FORMATS, *sorted(DIALECTS)),
        "The format of objects that `key_pattern` finds, where the keys' extension doesn't tell it. Or the form of "
        "another capture's changes in JSON, by its name: records of another form are then refused.",
        default_text="by extension, and by the records",
        page="producing.md#other-captures",
    )
    change: ChangeRule = setting(
        ChangeRule(),
        None,
        "Where in a record its change lies, by paths, for forms without a name under `format`. `delete_when` then "
        "names a path, too.",
        default_text="",
        page="producing.md#changes-by-paths",
    )
    shape: str | None = setting(
        None,
        kinds.choice(*kinds.SHAPES),
        "What a record is, where its fields say it wrongly: Debezium's `envelope`, `flattened` by Debezium's "
        "ExtractNewRecordState with metadata beside the row, or a `plain` row, whatever its columns are called.",
        default_text="by the records",
        page="producing.md#any-other-layout",
    )
    path_columns: tuple[str, ...] = setting(
        (),
        kinds.COLUMNS,
        "Columns whose values are in the objects' folders alone, as Hive and Spark name them: `region=eu/`. They "
        "are text, unless `types` gives them a type.",
        default_text="none",
        page="producing.md#folders-that-hold-columns",
    )
    csv: CsvForm = setting(
        CsvForm(), None, "How CSV objects are written, where it isn't as in RFC 4180.", default_text="", page="#csv"
    )
    position: str | None = setting(
        None,
        kinds.POSITION,
        "The column that orders the changes of a row, such as `last_update`, or a list: the first counts most. "
        "It holds whole numbers, dates or timestamps, also as text. For rows of a query alone: changes of "
        "Debezium have a source position, their deletions lack the column, and objects of such changes are "
        "quarantined.",
        fixed=True,
        template=True,
    )
    append_only: bool = setting(
        False,
        kinds.SWITCH,
        "Rows have no key. Each record of each object is one row, however often the object arrives.",
    )
    snapshot: SnapshotRule = setting(
        SnapshotRule(),
        None,
        "Full dumps that replace the table: rows that a complete dump lacks are deleted.",
        default_text="none",
        page="producing.md#full-dumps",
    )
    history: bool | str = setting(
        False,
        kinds.HISTORY_TABLE,
        "Also writes every change, late ones included, into `<table>_history`, or into a table of the database "
        "with the name that is given in place of `true`. Begins with the next batch; the name then is fixed.",
        template=True,
        page="reading.md#every-change-of-a-row",
    )
    columns: ColumnRules = setting(
        ColumnRules(),
        None,
        "Columns that the table leaves out, renames, hashes or masks, before anything is stored.",
        default_text="",
        page="#columns",
    )
    schema: str = setting(
        EVOLVE,
        kinds.choice(*SCHEMA_MODES),
        "`evolve`: new columns and wider types are taken. `freeze`: objects that bring any are quarantined, "
        "once the table has data.",
    )
    expect: Expectations = setting(
        Expectations(),
        None,
        "What is expected of the values of rows, and what becomes of rows with others.",
        default_text="",
        page="#expect",
    )
    services: ServicePolicy = setting(
        ServicePolicy(),
        None,
        "The table services: which run, and when. `off`: none is due by itself.",
        default_text="`on`",
        page="table-services.md",
    )
    catalog: CatalogRule = setting(
        CatalogRule(),
        CATALOG,
        "Names in the Glue catalog, as patterns of `{database}` and `{table}`. "
        "`off` keeps the table out; `views: off` makes no views, `debezium: true` views with Debezium's metadata; "
        "`athena_native` chooses Athena's reader.",
        default_text="`on`",
        page="catalog.md",
    )
    coordinates: tuple[str, ...] = setting(
        (),
        kinds.COORDINATES,
        "The columns in which records carry their Kafka partition and offset. In an `append_only` table a record "
        "is then one row, whatever objects bring it. With a key, the offset orders what has no log position.",
        fixed=True,
    )
    index: str = setting(
        AUTO,
        kinds.choice(*INDEXES),
        "How rows are found. `simple` reads every key. `record` is Hudi's record index in its metadata table. "
        "`auto` starts with the first and changes to the second as the table grows. "
        "Not `record` with `delete_mode: hard`.",
        page="decisions/index.md",
    )
    iceberg: bool = setting(
        False,
        kinds.SWITCH,
        "Also describes the table's files as an Iceberg table, after each commit, and registers it beside the Hudi "
        "table. For `cow` alone.",
        page="reading.md#iceberg",
    )
    merged: bool = setting(
        False,
        kinds.SWITCH,
        "Takes changes of several source tables (shards, partitions), also of several topics, as those of one. "
        "Without it, objects with another source table's changes than the first are quarantined. What "
        "`source_columns`, the key or the partitions name of the source may differ.",
        page="producing.md#several-sources-in-one-topic",
    )
    source_columns: tuple[str, ...] = setting(
        (),
        kinds.SOURCE_COLUMNS,
        "Where a change is from, by Debezium's metadata, as columns `__name` (the connector's server), `__db`, "
        "`__schema` and `__table`: a list of `name`, `db`, `schema` and `table`. A `record_key` or `partition_by` "
        "that names such a column needs no entry here.",
        default_text="none",
        page="producing.md#several-sources-in-one-topic",
    )

    @property
    def source_words(self) -> tuple[str, ...]:
        """The words of SOURCE_WORDS whose columns the table has: those of `source_columns`, the key and partitions."""
        columns = {*self.record_key, *columns_read(self.partition_by), *map(self.source_column, self.source_columns)}
        return tuple(word for word in kinds.SOURCE_WORDS if self.source_column(word) in columns)

    def source_column(self, word: str) -> str:
        """The table's column for a word of SOURCE_WORDS, which `columns` may rename."""
        return self.columns.table_name(kinds.source_column(word))

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        return tuple(map(partition_field, self.partition_by))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The table's columns that hold the values of the partition path, in order."""
        return tuple(field.column for field in self.partition_fields)

    @property
    def several_topics(self) -> bool:
        """Whether several topics may feed the table: it merges their source tables, or its key names the source."""
        return self.merged or self.key_names_source

    @property
    def key_names_source(self) -> bool:
        """Whether the key tells the rows of different sources apart."""
        return any(self.source_column(word) in self.record_key for word in kinds.SOURCE_WORDS)

    @property
    def dialect(self) -> CaptureDialect | None:
        """The form of another capture's changes that the records have, where the rule names it or says its paths."""
        return DIALECTS[self.format] if self.format in DIALECTS else self.change.dialect(self.delete_when)

    @property
    def marks_of_rows(self) -> DeleteWhen:
        """What marks deletions in a column of rows: nothing where `delete_when` names a path of changes."""
        return self.delete_when if self.change.row is None else DeleteWhen()

    @property
    def form(self) -> str | CaptureDialect | None:
        """What a record with types is, where the rule says it: one of SHAPES, or a dialect's change."""
        return self.dialect or self.shape

    @property
    def file_format(self) -> str | None:
        """The format of the objects' bytes, where the rule names it."""
        return None if self.format in DIALECTS else self.format

    @property
    def known_dialects(self) -> Collection[str]:
        """The forms of other captures' changes that are looked for in records."""
        if self.shape not in (None, kinds.SHAPES[0]):
            return ()
        return OF_DEBEZIUM if self.append_only or not self.delete_when.on else DIALECTS

    @property
    def position_columns(self) -> tuple[str, ...]:
        return kinds.position_columns(self.position)

    @property
    def orders(self) -> tuple[str, ...]:
        """The columns of `position`, or the paths of `change` that order changes."""
        return self.position_columns or self.change.order


@dataclass(frozen=True)
class _TableIdentity:
    """A table's name "database.name", its two parts, and the topic that feeds it."""

    table: str
    database: str
    name: str
    topic: str


# The bases are in this order because a dataclass takes the fields of its last base first.
@dataclass(frozen=True)
class TableConfig(TableSettings, _TableIdentity):
    """The configuration of one table."""

    def to_dict(self) -> dict[str, Any]:
        return stored(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableConfig:
        """Read what `to_dict` wrote, also in a release with fewer or more settings."""
        own_names = {item.name for item in fields(cls)}
        return restored(cls, {name: value for name, value in values.items() if name in own_names})

    @property
    def history_table(self) -> TableConfig:
        """The history table: copy on write, and keyed by this table's key and the position of the change."""
        return replace(
            self,
            table=f"{self.database}.{history_name(self.history, self.name)}",
            name=history_name(self.history, self.name),
            record_key=(*self.record_key, POSITION_COLUMN),
            partition_by=(),
            table_type=COW,
            delete_mode=SOFT,
            keep_deleted_values=True,
            lineage=LINEAGE_WORDS,  # the times of states are lineage
            history=False,
            iceberg=False,  # its reader needs the hidden columns, and the changes that deleted a row
        )

    @property
    def is_history(self) -> bool:
        return POSITION_COLUMN in self.record_key

    @property
    def pinned(self) -> dict[str, Any]:
        """What the ledger keeps of a table that has data: its topic, and the settings that can't change any more."""
        values = self.to_dict()
        kept = {name: values[name] for name in (*FIXED, "topic") if values[name] is not None}  # the ledger has no nulls
        if hashed := self.columns.hashed((*self.record_key, *columns_read(self.partition_by))):
            kept[_HASHED_KEY] = [*hashed, self.columns.key]  # and the secret of the hashes' key
        if self.change.order:
            kept[_ORDER] = list(self.change.order)
        return {**kept, _HISTORY: self.history_table.name} if self.history else kept


FIXED = tuple(item.name for item in settings_of(TableSettings) if item.fixed)
_OPTIONAL = frozenset(item.name for item in fields(TableSettings) if item.name in FIXED and item.default is None)
_HASHED_KEY, _HISTORY, _ORDER = "hashed_key", "history", "order"


def history_name(history: bool | str, name: str) -> str:
    """The name of a table's history table, by its setting `history` and its own name; templates give a template."""
    return history if isinstance(history, str) else name + HISTORY


def kept_history(pinned: Mapping[str, Any] | None) -> str | None:
    """The name of the history table that a table has written, by what the ledger pinned; None: it has none."""
    name = (pinned or {}).get(_HISTORY)
    return name if isinstance(name, str) and name else None


def with_kept(pinned: Mapping[str, Any], held: Mapping[str, Any] | None) -> dict[str, Any]:
    """What to pin where `held` is pinned: a history that is switched off keeps its name, and changes their order."""
    values = {name: pinned.get(name) or (held or {}).get(name) for name in (_HISTORY, _ORDER)}
    return {**pinned, **{name: value for name, value in values.items() if value}}


def in_words(value: Any) -> str:
    """A setting's value for people: columns as `id, name`, mappings as `{card: 4}`, what is empty as `none`."""
    if value is None or value in ("", [], (), {}):
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(in_words, value))
    if isinstance(value, Mapping):
        inner = (
            (key, f"[{in_words(element)}]" if isinstance(element, list) else in_words(element))
            for key, element in value.items()
        )
        return f"{{{', '.join(f'{key}: {text}' for key, text in inner)}}}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def fixed_settings(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """The fixed settings that a table's data has, by what the ledger pinned: one that is unset is not pinned."""
    return {name: pinned.get(name) for name in FIXED if name in pinned or name in _OPTIONAL}


def as_stored(config: TableConfig, pinned: Mapping[str, Any] | None) -> TableConfig:
    """The configuration with the fixed settings of the table's data, which a file in force may have changed since."""
    held = fixed_settings(pinned) if pinned else {}
    return TableConfig.from_dict({**config.to_dict(), **held}) if held else config


def refuse_changes(config: TableConfig, pinned: Mapping[str, Any] | None, *, what: str = "data") -> None:
    """Refuse fixed settings that differ from `pinned`, those that the table's data has (None: no data).

    `what` names what has them, in place of data.

    Stored keys, paths and log files would disagree with the new value. Raises ChangeRefused naming every difference.
    """
    if not pinned:
        return
    wanted = config.pinned
    new = fixed_settings(wanted)
    changes = {name: (old, new[name]) for name, old in fixed_settings(pinned).items() if old != new[name]}
    if pinned.get(_HASHED_KEY) != wanted.get(_HASHED_KEY):
        changes[_HASHED_KEY] = (pinned.get(_HASHED_KEY), wanted.get(_HASHED_KEY))
    old_history, given = kept_history(pinned), kept_history(wanted)
    if old_history and given and old_history != given:
        changes[_HISTORY] = (old_history, given)
    if None not in (pinned.get(_ORDER), wanted.get(_ORDER)) and pinned[_ORDER] != wanted[_ORDER]:
        changes["change.order"] = (pinned[_ORDER], wanted[_ORDER])
    if changes:
        described = "; ".join(
            f"{name} is {in_words(old)} and would become {in_words(new)}"
            for name, (old, new) in sorted(changes.items())
        )
        raise ChangeRefused(f"{config.table} has {what} whose {described}", table=config.table, changes=changes)
