"""Translates a Hudi Streamer configuration into a rule of tables.yaml.

The translation names every option that it leaves out, with the reason, and every choice that the properties leave open.
https://hudi.apache.org/docs/configurations
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.config.hudi_overrides import PREFIX, refusal
from sluice.config.rules.partition_fields import DAY, HOUR, MONTH, YEAR
from sluice.config.table import COW, MOR
from sluice.names import COLUMN, NAME, TOPIC

_STREAMERS = ("hoodie.streamer.", "hoodie.deltastreamer.")  # the prefix since Hudi 0.14, and the one before it
_TYPES = {"COPY_ON_WRITE": COW, "MERGE_ON_READ": MOR}
_KEY_GENERATOR = "hoodie.datasource.write.keygenerator.class"
_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_TABLE = ("hoodie.datasource.hive_sync.table", "hoodie.table.name", "hoodie.datasource.write.table.name")
_DATABASE = ("hoodie.datasource.hive_sync.database", "hoodie.database.name")
_RECORD_KEY = ("hoodie.datasource.write.recordkey.field", "hoodie.table.recordkey.fields")
_PARTITION = ("hoodie.datasource.write.partitionpath.field", "hoodie.table.partition.fields")
_TABLE_TYPE = ("hoodie.datasource.write.table.type", "hoodie.table.type", "hoodie.datasource.write.storage.type")
_ORDERING = (
    "hoodie.datasource.write.precombine.field",
    "hoodie.table.precombine.field",
    "hoodie.table.ordering.fields",
    "hoodie.datasource.write.ordering.fields",
)
_RETAINED_HOURS = ("hoodie.cleaner.hours.retained", "hoodie.clean.hours.retained")
_OF_TIME = tuple(f"hoodie.{prefix}keygen.timebased." for prefix in ("", "streamer.", "deltastreamer."))
_ZONES = ("output.timezone", "timezone")
_LITERAL = re.compile(r"'[^']*'")
_UNITS = {HOUR: set("HhKkmsSA"), DAY: set("dD"), MONTH: set("ML"), YEAR: set("Yyu")}  # the finest first
_WEEKS = set("wWFEec")
_SUBJECT = re.compile(r"/subjects/([A-Za-z0-9._-]{1,243})-value(?:/|$)")

# Sizes and codecs of files mean the same to every writer.
_KEPT = ("hoodie.parquet.", "hoodie.copyonwrite.", "hoodie.logfile.", "hoodie.hfile.")
_KEPT_LENGTH = 200  # characters of a value

# Why the rule doesn't need an option -> the starts of such options. The first match counts.
_LEFT_OUT: dict[str, str] = {
    "Sluice's partition paths are always column=value": "hoodie.datasource.write.hive_style_partitioning",
    "partition columns stay in the files too, so that every reader finds them": (
        "hoodie.datasource.write.drop.partition.columns"
    ),
    "the form of record keys follows from record_key and partition_by, and never changes": (
        "hoodie.datasource.write.keygenerator hoodie.keygen."
    ),
    "Sluice keeps the Glue catalog itself, under the table's database and name": (
        "hoodie.datasource.hive_sync hoodie.meta.sync hoodie.meta_sync hoodie.datasource.meta.sync"
    ),
    "Sluice finds a row in any partition, as a global index does, and moves it when its partition columns change": (
        "hoodie.index hoodie.bloom.index hoodie.simple.index hoodie.record.index"
    ),
    "the metadata table is off: it would make two commits of each": "hoodie.metadata",
    "Sluice derives the number of tasks from the size of each batch": (
        "hoodie.upsert.shuffle hoodie.insert.shuffle hoodie.delete.shuffle hoodie.bulkinsert"
    ),
}
# The same for options of the Streamer itself, without its prefix.
_STREAMER_LEFT_OUT: dict[str, str] = {
    "Sluice stores rows as the source has them; do the transformer's work in a view": "transformer",
    "each object brings its schema": "schemaprovider filebased.schemaprovider",
    "the ledger knows the state of each object": "checkpoint",
    "S3 notifications announce objects, and listings find those that no notification announced": "source",
}
_CONNECTOR_METADATA = ("__", "_hoodie", "_event", "_change", "_sluice")  # beginnings of column names


@dataclass(frozen=True)
class LeftOut:
    """An option that no key of the rule replaces. Its value may be a secret and is not kept."""

    option: str
    why: str


@dataclass(frozen=True)
class Translation:
    """The keys of a rule that the properties determine, and what they leave open.

    `rule` has topic, table, record_key, partition_by, table_type, time_travel and hudi, each if known. `open` lists the
    choices to make, `notes` the changes in meaning. `ordering` is the ordering column; the rule needs it only if a
    query captured the rows.
    """

    rule: Mapping[str, object]
    left_out: tuple[LeftOut, ...]
    open: tuple[str, ...]
    notes: tuple[str, ...]
    ordering: str | None = None


@dataclass
class _Work:
    """A translation in progress. `left` holds the options that no step has taken yet."""

    left: dict[str, str]
    rule: dict[str, object] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, *options: str) -> str | None:
        """Remove these options and return the first value that is not blank."""
        values = [self.left.pop(option, "").strip() for option in options]
        return next((value for value in values if value), None)

    def take_streamer(self, name: str) -> str | None:
        return self.take(*(f"{prefix}{name}" for prefix in _STREAMERS))


def config_files(properties: Mapping[str, str]) -> dict[str, str]:
    """The tables that a HoodieMultiTableStreamer ingests, each with the name of its own properties file.

    Empty for the properties of one table. A table without a database is one of `default`.
    https://hudi.apache.org/blog/2020/08/22/ingest-multiple-tables-using-hudi
    """
    files_by_table = {}
    for written in _columns(_streamer(properties, "ingestion.tablesToBeIngested")):
        database, _, name = written.rpartition(".")
        table = f"{database or 'default'}.{name}"
        file = _streamer(properties, f"ingestion.{table}.configFile")
        files_by_table[table] = file or f"{table.replace('.', '_')}_config.properties"
    return files_by_table


def of_table(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The properties of one of several tables: its own over the common ones, without the list of tables."""
    common = {
        name: value
        for name, value in properties.items()
        if not name.startswith(tuple(f"{prefix}ingestion." for prefix in _STREAMERS))
    }
    return {**common, **own}


def _streamer(properties: Mapping[str, str], name: str) -> str | None:
    return next((properties[f"{prefix}{name}"] for prefix in _STREAMERS if f"{prefix}{name}" in properties), None)


def translate(
    properties: Mapping[str, str], *, topic: str | None = None, table: str | None = None, table_type: str | None = None
) -> Translation:
    """Translate the properties of a Hudi Streamer.

    `topic`, `table` and `table_type` override the properties: the Streamer takes some of them on its command line.
    """
    work = _Work(dict(properties))
    work.rule["topic"] = _topic(work, topic)
    work.rule["table"] = _table_name(work, table)
    _record_key(work)
    _partition_by(work)
    _table_type(work, table_type)
    ordering = _ordering(work)
    hours = work.take(*_RETAINED_HOURS)
    if hours is not None and hours.isascii() and hours.isdigit() and 0 < int(hours) < 10**6:
        work.rule["time_travel"] = f"{int(hours)}h"
    _rest(work)
    rule = {name: value for name, value in work.rule.items() if value not in (None, (), {})}
    return Translation(rule, tuple(work.left_out), tuple(work.open), tuple(work.notes), ordering)


def _topic(work: _Work, given: str | None) -> str | None:
    kafka, root = work.take_streamer("source.kafka.topic"), work.take_streamer("source.dfs.root")
    # Of S3EventsHoodieIncrSource, which reads the objects of one folder of a bucket.
    prefix = work.take_streamer("source.s3incr.key.prefix") or work.take_streamer(
        "source.cloud.data.select.relpath.prefix"
    )
    root = root or (f"s3://bucket/{prefix}" if prefix else None)
    registry = work.take_streamer("schemaprovider.registry.url")
    subject = _SUBJECT.search(registry or "")
    topic = given or kafka or (subject[1] if subject else None) or _topic_of_path(root)
    if topic is None or not TOPIC.fullmatch(topic):
        last = root.rstrip("/").rpartition("/")[2] if root and topic is None else ""
        folder = f" (the source folder ends with {last}, and topics of Debezium have dots)" if last else ""
        work.open.append(f"the topic is unknown{folder}: name it with --topic")
        return None
    if root is not None and kafka is None and not given:
        origin = "the schema registry" if subject else "the source folder"
        work.notes.append(f"the topic {topic} comes from {origin}: the names of objects must contain it")
    return topic


def _topic_of_path(root: str | None) -> str | None:
    """Return the last folder of a path if it looks like a topic.

    Connect's sinks write to `<anything>/<topic>/partition=N` or `<topic>/year=...`; a topic has several dotted parts.
    """
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
        work.open.append(
            "the table's name is not letters, digits and _ after a first letter: name it with --table DATABASE.TABLE"
        )
        return None
    if lower != written:
        work.notes.append(f"the table is called {lower}: the catalog folds case")
    return lower


def _record_key(work: _Work) -> None:
    columns = _columns(work.take(*_RECORD_KEY))
    if columns and all(COLUMN.fullmatch(column) for column in columns):
        work.rule["record_key"] = tuple(dict.fromkeys(columns))
    elif columns:
        work.open.append("the record key has parts that are not plain column names")
    else:
        work.open.append("the properties name no record key")


def _partition_by(work: _Work) -> None:
    columns = _columns(work.take(*_PARTITION))
    generator = (work.left.get(_KEY_GENERATOR) or "").rpartition(".")[2].lower()
    hive_style = (work.left.get(_HIVE_STYLE) or "false").strip().lower() == "true"
    derives = generator.startswith("timestamp") or any(":TIMESTAMP" in written.upper() for written in columns)
    unit, zone = _unit_and_zone_of_time(work) if derives else (None, None)
    taken = []
    for written in columns if not generator.startswith("nonpartitioned") else ():
        name, _, kind = written.partition(":")
        of_time = kind.upper() == "TIMESTAMP" or generator.startswith("timestamp")
        if of_time and unit is None:
            work.open.append(
                f"no transform makes the partition path that is derived from a timestamp in {_shown(name)}: choose "
                "partition_by, such as day(column), or leave it out"
            )
        elif name.startswith(_CONNECTOR_METADATA):
            why = f"{_shown(name)} is metadata of the connector and no column of the row"
            work.left_out.append(LeftOut(_PARTITION[0], why))
        elif COLUMN.fullmatch(name):
            taken.append(f"{unit}({name})" if of_time else name)
        else:
            work.open.append(f"the partition column {_shown(name)} is not a plain column name")
    work.rule["partition_by"] = tuple(dict.fromkeys(taken))
    if any("(" in written for written in taken):
        work.notes.append("a transform takes dates and timestamps, by the source's types or the rule's `types`")
        if (zone or "UTC").upper() not in ("UTC", "GMT", "Z"):
            work.notes.append(f"partitions are in UTC, and no longer in {_shown(zone or '')}")
    if taken and not hive_style:
        work.notes.append("partition paths become column=value, which affects readers of paths")


def _unit_and_zone_of_time(work: _Work) -> tuple[str | None, str | None]:
    """The transform that makes as many partitions as a key generator by its format (Java's letters), and its zone."""
    zone = work.take(*(f"{prefix}{name}" for prefix in _OF_TIME for name in _ZONES))
    form = work.take(*(f"{prefix}output.dateformat" for prefix in _OF_TIME)) or ""
    letters = set(_LITERAL.sub("", form))
    unit = next((unit for unit, own in _UNITS.items() if letters & own), None)
    return None if letters & _WEEKS else unit, zone


def _table_type(work: _Work, given: str | None) -> None:
    written = work.take(*_TABLE_TYPE)
    table_type = given or _TYPES.get((written or "").upper())
    if written is not None and table_type is None:
        work.open.append("the table type is neither COPY_ON_WRITE nor MERGE_ON_READ: choose it with --table-type")
    if table_type is None:
        work.notes.append(
            "the Streamer takes the table type on its command line (--table-type); cow is assumed, unless --table-type "
            "is given here"
        )
    work.rule["table_type"] = table_type or COW


def _ordering(work: _Work) -> str | None:
    columns = _columns(work.take(*_ORDERING))
    if not columns:
        return None
    column = columns[0]
    plain = len(columns) == 1 and COLUMN.fullmatch(column) and not column.startswith(_CONNECTOR_METADATA)
    why = "Sluice orders changes by the source's log position, which has no ties"
    if plain:
        why += f"; for rows that a query captured, set `position: {column}`"
    work.left_out.append(LeftOut(_ORDERING[0], why))
    return column if plain else None


def _rest(work: _Work) -> None:
    """Keep the options of files' sizes and codecs, and leave out all others with the reason."""
    options: dict[str, str] = {}
    for option in sorted(work.left):
        why = _why_left_out(option, work.left[option])
        if why is None:
            options[option] = work.left[option].strip()
        else:
            work.left_out.append(LeftOut(option, why))
    work.rule["hudi"] = options


def _why_left_out(option: str, value: str) -> str | None:
    if option == "include":
        return "the included file is read too, if it exists"
    if not option.startswith(PREFIX):
        return "not an option of Hudi: what connects to a source or Kafka, or sizes Spark, has no place in a rule"
    streamed = next((option[len(prefix) :] for prefix in _STREAMERS if option.startswith(prefix)), None)
    if streamed is not None:
        return _first_match(_STREAMER_LEFT_OUT, streamed) or "it configures the Streamer, which Sluice replaces"
    owner = refusal(option)
    if owner is None and option.startswith(_KEPT) and len(value) <= _KEPT_LENGTH:
        return None
    return _first_match(_LEFT_OUT, option) or owner or "of unknown effect here; add it under hudi if the table needs it"


def _first_match(reasons: Mapping[str, str], option: str) -> str | None:
    return next((why for why, starts in reasons.items() if option.startswith(tuple(starts.split()))), None)


def _columns(written: str | None) -> list[str]:
    return [part.strip() for part in (written or "").split(",") if part.strip()]


def _shown(name: str) -> str:
    return repr(name[:100])
