"""Whether the rows of a Hudi table that another tool writes can be adopted, by its properties and its columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sluice.changes.hidden_columns import NAMES, ORDERING_FIELD
from sluice.config.table import TableConfig
from sluice.errors import Incompatible, NotAdoptable
from sluice.hudi import table_properties
from sluice.names import stored_name
from sluice.schema import columns as kinds
from sluice.schema.columns import Column, plain_column
from sluice.schema.evolution import NARROWER, SAME, widen

FOLDERS = (".hoodie/", ".hoodie/timeline/")  # of the timeline: of versions up to 6, and of version 8
READABLE_VERSIONS = ("6", "8", "9")  # 7 is a step of Hudi's own upgrade; 9 is of Hudi 1.1, and unknown to 1.0
HUDIS_COLUMNS = "_hoodie_"
# What a tool stores that takes a connector's times as they come, by the kind of the source's column.
RAW_TYPES = {kind: kinds.SPARK_TYPES[raw] for kind, raw in kinds.RAW_KINDS.items()}
# Moments that Spark shows as counts without a unit, by Avro's logical type. Flink writes its TIMESTAMP_LTZ as these.
_LOCAL_MOMENTS = {f"local-{kind.replace('_', '-')}": kind for kind in kinds.TIMESTAMP_KINDS}


@dataclass(frozen=True)
class ForeignTable:
    """What the properties and the timeline of a table say. `pending` are its unfinished instants, oldest first.

    `ordering` is the column by which its writer chose between two rows of a key, "" where there is none.
    """

    version: str
    merge_on_read: bool
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: str
    key_generator: str
    payload: str
    metadata: tuple[str, ...]
    pending: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "version": self.version,
            "type": "merge-on-read" if self.merge_on_read else "copy-on-write",
            "record_key": list(self.record_key),
            "partition_by": list(self.partition_by),
            "ordering": self.ordering,
            "key_generator": self.key_generator,
            "payload": self.payload,
            "metadata_table": list(self.metadata),
            "pending": list(self.pending),
        }


def foreign_table(properties: Mapping[str, str], timeline: Iterable[str] = ()) -> ForeignTable:
    """Describe a table by `hoodie.properties` and the names of its timeline's files, of any version."""
    ordering = properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field", "")
    generator = properties.get("hoodie.table.keygenerator.class") or properties.get(
        "hoodie.table.keygenerator.type", ""
    )
    payload = properties.get("hoodie.compaction.payload.class") or properties.get("hoodie.record.merge.mode", "")
    return ForeignTable(
        version=table_properties.version_of(properties),
        merge_on_read=table_properties.is_merge_on_read(properties),
        record_key=table_properties.record_key_of(properties),
        partition_by=table_properties.partition_fields_of(properties),
        ordering=ordering,
        key_generator=generator.rpartition(".")[2],
        payload=payload.rpartition(".")[2],
        metadata=tuple(name for name in properties.get(table_properties.METADATA_PARTITIONS, "").split(",") if name),
        pending=_pending(timeline),
    )


def check_adoptable(
    properties: Mapping[str, str], config: TableConfig, *, newest: int = int(READABLE_VERSIONS[-1])
) -> ForeignTable:
    """The table, if its rows can be adopted by a table of this configuration. Raises NotAdoptable with the reason.

    `newest` is the newest table version that the run's Hudi reads.
    """
    table = foreign_table(properties)
    readable = [version for version in READABLE_VERSIONS if int(version) <= newest]
    if table.version not in readable:
        raise _refused(
            f"it is of table version {table.version or 'unknown'}",
            f"Bring it to version {' or '.join(readable)}, which this engine reads, by its own writer or Hudi's "
            "command line",
        )
    if table.ordering == ORDERING_FIELD:
        raise _refused("Sluice wrote it", "To move a table of Sluice, merge its objects again: `sluice rebuild table`")
    _refuse_other_letters(table.record_key, config.record_key)
    if table.record_key != config.record_key:
        raise _refused(
            f"its record key is {', '.join(table.record_key) or 'generated'}, and the rule's is "
            f"{', '.join(config.record_key)}",
            "Correct the rule's record_key, if the rows of both tables mean the same",
        )
    if properties.get("hoodie.bootstrap.base.path"):
        raise _refused("it was bootstrapped from files without Hudi's columns", "Rewrite it by its own writer first")
    if properties.get("hoodie.populate.meta.fields", "true").lower() == "false":
        raise _refused("it has no columns of Hudi (hoodie.populate.meta.fields)", "Rewrite it with them first")
    return table


@dataclass(frozen=True)
class AdoptedColumns:
    """The columns that both tables have, and those that only one of them has, by name.

    `raw` are those of `both` whose values are a count of days or of a unit of time, or text of a time.
    """

    both: tuple[str, ...]
    raw: tuple[str, ...]
    absent: tuple[str, ...]
    left: tuple[str, ...]


def adopted_columns(
    present: Mapping[str, str], table: Mapping[str, str], config: TableConfig, source: Mapping[str, Column]
) -> AdoptedColumns:
    """Compare the columns of another tool's table with the adopting one's; types are Spark's names.

    `source` says what raw values mean: the columns of the source's newest schema, or those that the other table states
    itself (`stated_moments`). A column that only the adopting table has becomes null, one that it doesn't have is left.
    Raises NotAdoptable for a column that the adopting table's type can't hold, and for a missing one of the key or of
    the partitions, and for one whose name the adopting table stores in other letters.
    """
    own = {name: kind for name, kind in table.items() if name not in NAMES}
    _refuse_other_letters(present, own)
    both = tuple(name for name in own if name in present)
    other = [name for name in both if not _holds(own[name], present[name])]
    raw = tuple(name for name in other if name in source and RAW_TYPES.get(source[name].kind) == present[name])
    wrong = [f"{name} is {present[name]}, not {own[name]}" for name in other if name not in raw]
    if wrong:
        raise _refused(
            f"columns have other types: {'; '.join(wrong)}",
            "Bring the columns to the adopting table's types in a copy of the table, and adopt that",
        )
    missing = [name for name in (*config.record_key, *config.partition_columns) if name not in present]
    if missing:
        raise _refused(f"it has no column {missing[0]}", "Add the column in a copy of the table, and adopt that")
    return AdoptedColumns(
        both,
        raw,
        absent=tuple(name for name in own if name not in present),
        left=tuple(name for name in present if name not in own and not name.startswith(HUDIS_COLUMNS)),
    )


def stated_moments(avro_schema: str, table: Mapping[str, str]) -> dict[str, Column]:
    """The columns whose unit of time another table's own Avro schema (JSON) states, and Spark doesn't show, by name.

    Only those that are moments in the adopting table, `table` (Spark's types by name). The source may count another
    unit. Without a schema ("", of a table without a commit) there are none.
    """
    columns = {}
    for field in json.loads(avro_schema)["fields"] if avro_schema else ():
        name, written = field["name"], field["type"]
        for kind in written if isinstance(written, list) else [written]:
            logical = str(kind.get("logicalType")) if isinstance(kind, dict) else ""
            if logical in _LOCAL_MOMENTS and table.get(name) == "timestamp":
                columns[name] = plain_column(name, _LOCAL_MOMENTS[logical], True, logical)
    return columns


def _refuse_other_letters(names: Iterable[str], own: Collection[str]) -> None:
    """Refuse columns of names that Sluice stores in other letters: their values would be left out, unseen."""
    other = {name: stored_name(name) for name in names if name not in own and stored_name(name) in own}
    if other:
        renamed = ", ".join(f"{name} to {stored}" for name, stored in other.items())
        raise _refused(
            f"Sluice stores names in letters of ASCII, and it has {', '.join(other)}",
            f"Rename {renamed} in a copy of the table, and adopt that",
        )


def _holds(stored: str, written: str) -> bool:
    try:
        return widen("", stored, written).change in (SAME, NARROWER)
    except Incompatible:
        return False


def _refused(reason: str, next_step: str) -> NotAdoptable:
    return NotAdoptable(f"The table can't be adopted: {reason}", next_step=next_step)


def _pending(names: Iterable[str]) -> tuple[str, ...]:
    """The times of instants that have no completed file. Version 8 puts the time of completion into its name."""
    seen: dict[str, bool] = {}
    for name in names:
        time, _, rest = name.partition(".")
        time = time.partition("_")[0]
        if time.isdigit() and len(time) >= 14 and rest:
            done = not rest.endswith(("requested", "inflight"))
            seen[time] = seen.get(time, False) or done
    return tuple(sorted(time for time, done in seen.items() if not done))
