"""Hudi's own properties of a table (`hoodie.properties`): what they must be, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from sluice.changes.hidden_columns import ORDERING_FIELD
from sluice.config.table import MOR, TableConfig
from sluice.hudi.own_metadata import METADATA_PREFIX, later_of

TABLE_VERSION = 6  # Athena reads tables of Hudi 0.14 or 0.15, which is version 6 at most
PROPERTIES_FILE = ".hoodie/hoodie.properties"
BACKUP_FILE = PROPERTIES_FILE + ".backup"  # while Hudi changes the file
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"  # Hudi's list of what its metadata table holds
PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
_PARTITION_FIELDS = "hoodie.table.partition.fields"
_MERGE_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"  # Hudi's id of "the higher ordering value wins"
_MERGE_MODE = "EVENT_TIME_ORDERING"


@dataclass(frozen=True)
class TableProperties:
    """What `hoodie.properties` of a table must say.

    `fixed` is set at creation and never changes: another value is refused. `readers` are properties that readers of
    some release depend on: an absent one is added.
    """

    fixed: Mapping[str, str]
    readers: Mapping[str, str]


def wanted_properties(config: TableConfig) -> TableProperties:
    """The properties that a table is checked against.

    Both names of the ordering field are kept: releases up to 1.0 read the first, later ones the second. A reader
    without its own merges log files without order.
    """
    fixed = {
        "hoodie.table.name": config.name,
        "hoodie.table.type": hudi_type(config),
        "hoodie.table.version": str(TABLE_VERSION),
        "hoodie.table.recordkey.fields": ",".join(config.record_key),
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.compaction.payload.class": PAYLOAD,
        "hoodie.record.merge.strategy.id": _MERGE_STRATEGY,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.populate.meta.fields": "true",
    }
    if config.partition_by:
        fixed[_PARTITION_FIELDS] = ",".join(config.partition_columns)
        fixed["hoodie.datasource.write.partitionpath.urlencode"] = "true"
    return TableProperties(
        fixed=fixed,
        readers={"hoodie.table.precombine.field": ORDERING_FIELD, "hoodie.table.ordering.fields": ORDERING_FIELD},
    )


def creation_properties(config: TableConfig) -> dict[str, str]:
    properties = wanted_properties(config)
    return {
        **properties.fixed,
        **properties.readers,
        "hoodie.record.merge.mode": _MERGE_MODE,
        "hoodie.database.name": config.database,
        # No table is bootstrapped from other files, and looking for that takes a commit a dozen requests.
        "hoodie.bootstrap.index.enable": "false",
    }


# What Hudi adds to the properties of a table of this version at its creation.
_OF_VERSION_6 = {
    "hoodie.archivelog.folder": "archived",
    "hoodie.timeline.layout.version": "1",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.datasource.write.drop.partition.columns": "false",
}
_ONLY_GIVEN = "hoodie.record.merge.mode"  # at creation; the file of a table of version 6 has none
_BACKUP_TOO = (METADATA_PARTITIONS, "hoodie.table.create.schema")


def restored_properties(
    config: TableConfig, *, own: Mapping[str, str], metadata: Sequence[str], backup: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a table whose file is lost; `config` has the settings that its data was written with.

    `own` are Sluice's properties as its commits and the ledger have them (`own_metadata.kept_in_commits`), `metadata`
    the partitions of its metadata table. `backup` is what Hudi keeps of the file while it changes it, empty without
    one: it may be of any age, so that of Sluice's own the later counts.
    """
    name = f"{config.database}.{config.name}"
    made = {
        **creation_properties(config),
        **_OF_VERSION_6,
        "hoodie.table.keygenerator.type": "CUSTOM" if config.partition_by else "NON_PARTITION",
        "hoodie.table.checksum": str(crc32(name.encode("utf-8"))),
        **({METADATA_PARTITIONS: ",".join(metadata)} if metadata else {}),
    }
    del made[_ONLY_GIVEN]
    if not differing(wanted_properties(config), backup):
        made = {**made, **{name: value for name, value in backup.items() if name not in made or name in _BACKUP_TOO}}
        own = later_of([{name: value for name, value in backup.items() if name.startswith(METADATA_PREFIX)}, own])
    return {**{name: value for name, value in made.items() if not name.startswith(METADATA_PREFIX)}, **own}


def differing(properties: TableProperties, stored: Mapping[str, str]) -> dict[str, tuple[str | None, str]]:
    """Properties of a table's file with another value than wanted: name -> (found, wanted)."""
    wanted = {**properties.fixed, **{name: value for name, value in properties.readers.items() if name in stored}}
    if stored.get(_PARTITION_FIELDS):
        wanted.setdefault(_PARTITION_FIELDS, "")  # a partitioned table can't become unpartitioned
    return {name: (stored.get(name), value) for name, value in wanted.items() if stored.get(name) != value}


def absent(properties: TableProperties, stored: Mapping[str, str]) -> dict[str, str]:
    """Properties for readers that the file lacks."""
    return {name: value for name, value in properties.readers.items() if name not in stored}


def kept_when_anew(stored: Mapping[str, str]) -> dict[str, str]:
    """Properties that stay when those of a table without a commit are replaced: Sluice's own, METADATA_PARTITIONS."""
    return {
        name: value for name, value in stored.items() if name.startswith(METADATA_PREFIX) or name == METADATA_PARTITIONS
    }


def names_table(stored: Mapping[str, str]) -> bool:
    """False for the properties of a file that is empty or cut off."""
    return bool(stored.get("hoodie.table.name")) and bool(stored.get("hoodie.table.version"))


def record_key_of(stored: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in stored.get("hoodie.table.recordkey.fields", "").split(",") if name)


def partition_fields_of(stored: Mapping[str, str]) -> tuple[str, ...]:
    """Columns of the partition path; some releases add `:SIMPLE` to a name."""
    return tuple(name.split(":", 1)[0] for name in stored.get(_PARTITION_FIELDS, "").split(",") if name)


def is_merge_on_read(stored: Mapping[str, str]) -> bool:
    return stored.get("hoodie.table.type") == "MERGE_ON_READ"


def version_of(stored: Mapping[str, str]) -> str:
    """The table version, empty where the properties have none."""
    return stored.get("hoodie.table.version", "")


def hudi_type(config: TableConfig) -> str:
    return "MERGE_ON_READ" if config.table_type == MOR else "COPY_ON_WRITE"
