"""Translates a Hudi Streamer configuration into a rule of tables.yaml: what is taken, what is left out and why, what is open.

Reads the text of a Java properties file: its entries, by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.config.hudi_overrides import NAMESPACE, refusal
from sluice.config.table import COW, MOR
from sluice.names import COLUMN, NAME, TOPIC

# Options are named here without the namespace, as in override_policy. https://hudi.apache.org/docs/configurations
_STREAMERS = ("streamer.", "deltastreamer.")  # the new name and the old one
_TYPES = {"COPY_ON_WRITE": COW, "MERGE_ON_READ": MOR}
_TABLE = ("datasource.hive_sync.table", "table.name", "datasource.write.table.name")
_DATABASE = ("datasource.hive_sync.database", "database.name")
_ORDERING = (
    "datasource.write.precombine.field",
    "table.precombine.field",
    "table.ordering.fields",
    "datasource.write.ordering.fields",
)
_SUBJECT = re.compile(r"/subjects/([A-Za-z0-9._-]{1,243})-value(?:/|$)")
# What is written the same by every writer of files: sizes and codecs.
_KEPT = ("parquet.", "copyonwrite.", "logfile.", "hfile.")
# (beginning of an option's name, why it isn't needed). The first that fits counts.
_LEFT_OUT: tuple[tuple[str, str], ...] = (
    ("datasource.write.hive_style_partitioning", "Sluice's partition paths are always column=value"),
    (
        "datasource.write.drop.partition.columns",
        "partition columns stay in the files too, so that every reader finds them",
    ),
    ("datasource.write.keygenerator", "the key's form follows from record_key and partition_by, and never changes"),
    ("keygen.", "the key's form follows from record_key and partition_by, and never changes"),
    ("datasource.hive_sync", "the Glue catalog is kept by Sluice's own sync, under the table's database and name"),
    ("meta.sync", "the Glue catalog is kept by Sluice's own sync, under the table's database and name"),
    ("meta_sync", "the Glue catalog is kept by Sluice's own sync, under the table's database and name"),
    ("datasource.meta.sync", "the Glue catalog is kept by Sluice's own sync, under the table's database and name"),
    (
        "index",
        "a row is found in whatever partition it is, as with a global index, and moves with its partition columns",
    ),
    (
        "bloom.index",
        "a row is found in whatever partition it is, as with a global index, and moves with its partition columns",
    ),
    (
        "simple.index",
        "a row is found in whatever partition it is, as with a global index, and moves with its partition columns",
    ),
    (
        "record.index",
        "a row is found in whatever partition it is, as with a global index, and moves with its partition columns",
    ),
    ("metadata", "the metadata table is off: each commit would be two"),
    ("upsert.shuffle", "tasks follow from each batch's size"),
    ("insert.shuffle", "tasks follow from each batch's size"),
    ("delete.shuffle", "tasks follow from each batch's size"),
    ("bulkinsert", "tasks follow from each batch's size"),
)
_OF_STREAMER: tuple[tuple[str, str], ...] = (
    ("transformer", "rows are stored as the source has them; put what the transformer did into a view"),
    ("schemaprovider", "each object brings its schema"),
    ("filebased.schemaprovider", "each object brings its schema"),
    ("checkpoint", "the ledger knows each object's state"),
    ("source", "objects are found by S3 notifications, and again by listings"),
)
_METADATA = ("__", "_hoodie", "_event", "_change", "_sluice")


@dataclass(frozen=True)
class LeftOut:
    """An option that no key of the rule stands for. Its value isn't kept: it may be a secret."""

    option: str
    why: str


@dataclass(frozen=True)
class Translation:
    """A rule's keys (table, topic, record_key, partition_by, table_type, time_travel, hudi) as far as they are known, and the rest.

    `open` says in words what the properties don't tell; `notes` what changes in meaning; `ordering` is the ordering
    column, which counts only where a query captured the rows.
    """

    rule: Mapping[str, object]
    left_out: tuple[LeftOut, ...]
    open: tuple[str, ...]
    notes: tuple[str, ...]
    ordering: str | None = None


@dataclass
class _Work:
    left: dict[str, str]  # what nobody has looked at yet
    rule: dict[str, object] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, *names: str) -> str | None:
        """The first of these options that has a value; all of them are dealt with."""
        values = [self.left.pop(f"{NAMESPACE}.{name}", "").strip() for name in names]
        return next((value for value in values if value), None)

    def streamer(self, name: str) -> str | None:
        return self.take(*(f"{prefix}{name}" for prefix in _STREAMERS))


def translate(
    properties: Mapping[str, str],
    *,
    topic: str | None = None,
    table: str | None = None,
    table_type: str | None = None,
) -> Translation:
    """The rule that a Hudi Streamer configuration comes to; the arguments are what its command line said, or what is chosen."""
    work = _Work(dict(properties))
    work.rule["topic"] = _topic(work, topic)
    work.rule["table"] = _table_name(work, table)
    _key(work)
    _partition(work)
    _type(work, table_type)
    ordering = _ordering(work)
    hours = work.take("cleaner.hours.retained", "clean.hours.retained")
    if hours is not None and hours.isascii() and hours.isdigit() and 0 < int(hours) < 10**6:
        work.rule["time_travel"] = f"{int(hours)}h"
    _rest(work)
    rule = {name: value for name, value in work.rule.items() if value not in (None, (), {})}
    return Translation(rule, tuple(work.left_out), tuple(work.open), tuple(work.notes), ordering)


def _topic(work: _Work, given: str | None) -> str | None:
    kafka, root = work.streamer("source.kafka.topic"), work.streamer("source.dfs.root")
    registry = work.streamer("schemaprovider.registry.url")
    subject = _SUBJECT.search(registry or "")
    found = given or kafka or (subject[1] if subject else None) or _topic_of_path(root)
    if found is None or not TOPIC.fullmatch(found):
        work.open.append("which topic's objects the table takes: name it with --topic")
        return None
    if root is not None and kafka is None and not given:
        work.notes.append(
            f"the topic {found} is told by {'the schema registry' if subject else 'the source folder'}: objects must carry it in their names"
        )
    return found


def _topic_of_path(root: str | None) -> str | None:
    """Connect's sinks write under <anything>/<topic>/partition=N or year=...: a folder of several dotted parts is a topic's."""
    folders = [part for part in (root or "").split("://")[-1].split("/")[1:] if part and "=" not in part]
    return folders[-1] if folders and "." in folders[-1].strip(".") else None


def _table_name(work: _Work, given: str | None) -> str | None:
    database, name = work.take(*_DATABASE), work.take(*_TABLE)
    written = given or (f"{database}.{name}" if database and name else None)
    if written is None:
        missing = "database" if name else "table" if database else "table and no database"
        work.open.append(f"the properties name no {missing}: name the table with --table DATABASE.TABLE")
        return None
    lower = written.lower()
    first, _, second = lower.partition(".")
    if not (NAME.fullmatch(first) and NAME.fullmatch(second)):
        work.open.append("the table's name isn't lower-case letters, digits and _: name it with --table DATABASE.TABLE")
        return None
    if lower != written:
        work.notes.append(f"the table is called {lower}: the catalog folds case")
    return lower


def _columns(written: str | None) -> list[str]:
    return [part.strip() for part in (written or "").split(",") if part.strip()]


def _key(work: _Work) -> None:
    columns = _columns(work.take("datasource.write.recordkey.field", "table.recordkey.fields"))
    if columns and all(COLUMN.fullmatch(column) for column in columns):
        work.rule["record_key"] = tuple(dict.fromkeys(columns))
    else:
        work.open.append(
            "the properties name no record key" if not columns else "the record key isn't made of plain column names"
        )


def _partition(work: _Work) -> None:
    columns = _columns(work.take("datasource.write.partitionpath.field", "table.partition.fields"))
    generator = (work.left.get(f"{NAMESPACE}.datasource.write.keygenerator.class") or "").rpartition(".")[2].lower()
    style = (work.left.get(f"{NAMESPACE}.datasource.write.hive_style_partitioning") or "false").strip().lower()
    taken = []
    for written in columns if not generator.startswith("nonpartitioned") else ():
        name, _, kind = written.partition(":")
        if kind.upper() == "TIMESTAMP" or generator.startswith("timestamp"):
            work.open.append(
                f"the partition path is made of a timestamp in {_shown(name)}: Sluice partitions by a column's own values; choose partition_by by hand, or leave it out"
            )
        elif name.startswith(_METADATA):
            work.left_out.append(
                LeftOut(
                    f"{NAMESPACE}.datasource.write.partitionpath.field",
                    f"{_shown(name)} is the connector's metadata and no column of the row",
                )
            )
        elif COLUMN.fullmatch(name):
            taken.append(name)
        else:
            work.open.append(f"the partition column {_shown(name)} is no plain column name")
    work.rule["partition_by"] = tuple(dict.fromkeys(taken))
    if taken and style != "true":
        work.notes.append("partition paths become column=value: who reads paths instead of tables must know")


def _type(work: _Work, given: str | None) -> None:
    written = work.take("datasource.write.table.type", "table.type", "datasource.write.storage.type")
    found = given or _TYPES.get((written or "").upper())
    if written is not None and found is None:
        work.open.append("the table type is neither COPY_ON_WRITE nor MERGE_ON_READ: choose it with --table-type")
    if found is None:
        work.notes.append(
            "the table type stands on the Streamer's command line (--table-type); cow here, unless --table-type says mor"
        )
    work.rule["table_type"] = found or COW


def _ordering(work: _Work) -> str | None:
    columns = _columns(work.take(*_ORDERING))
    if not columns:
        return None
    plain = len(columns) == 1 and COLUMN.fullmatch(columns[0]) is not None and not columns[0].startswith(_METADATA)
    why = "changes are ordered by the source's own log position, which knows no ties"
    work.left_out.append(
        LeftOut(
            f"{NAMESPACE}.{_ORDERING[0]}",
            f"{why}; where a query captured the rows, `position: {columns[0]}` orders them" if plain else why,
        )
    )
    return columns[0] if plain else None


def _rest(work: _Work) -> None:
    """Everything else: file sizes and codecs are kept, the rest is left out by what decides it instead."""
    kept: dict[str, str] = {}
    for option in sorted(work.left):
        namespace, _, name = option.partition(".")
        if namespace != NAMESPACE:
            work.left_out.append(
                LeftOut(
                    option,
                    "the file that it names is read too, if it is there"
                    if option == "include"
                    else "no option of Hudi's: Kafka is read by Connect's sink, and Spark is sized under lanes",
                )
            )
            continue
        streamed = next((name[len(prefix) :] for prefix in _STREAMERS if name.startswith(prefix)), None)
        owner = refusal(option)
        if streamed is not None:
            why = next(
                (why for start, why in _OF_STREAMER if streamed.startswith(start)),
                "it configures the Streamer, which doesn't run",
            )
        elif owner is None and name.startswith(_KEPT) and len(work.left[option]) <= 200:
            kept[option] = work.left[option].strip()
            continue
        else:
            why = next(
                (why for start, why in _LEFT_OUT if name.startswith(start)),
                owner or "not known to matter here; what a table needs beside goes under hudi",
            )
        work.left_out.append(LeftOut(option, why))
    work.rule["hudi"] = kept


def _shown(name: str) -> str:
    return repr(name[:100])
