"""The Hudi options that a table's `hudi:` may not override, and what decides each of them instead."""

from __future__ import annotations

PREFIX = "hoodie."

_PARTITIONS = "partition_by"
_KEY_FORM = "the form of record keys, which never changes"
_ORDER = "the order of changes"
_VERSION = "the readers that tables are written for"
_TIMELINE = "the timeline, whose instants are in UTC"
_INDEX = "the index, which finds a row in every partition"
_LOCK = "the lane, which is the lock"
_HISTORY = "time_travel"
_SERVICES = "table services"
_SCHEMA = "the source's schema"

# Option, or its leading dotted parts -> what decides it. "hoodie.clean" covers "hoodie.clean.async" but not
# "hoodie.cleanup".
_OWNERS: dict[str, str] = {
    "hoodie.datasource.write.recordkey": "record_key",
    "hoodie.table.recordkey": "record_key",
    "hoodie.datasource.write.partitionpath": _PARTITIONS,
    "hoodie.table.partition": _PARTITIONS,
    "hoodie.datasource.write.hive_style_partitioning": _PARTITIONS,
    "hoodie.datasource.write.drop.partition.columns": _PARTITIONS,
    "hoodie.datasource.write.keygenerator": _KEY_FORM,
    "hoodie.table.keygenerator": _KEY_FORM,
    "hoodie.datasource.write.precombine": _ORDER,
    "hoodie.table.precombine": _ORDER,
    "hoodie.table.ordering": _ORDER,
    "hoodie.datasource.write.payload": _ORDER,
    "hoodie.compaction.payload": _ORDER,
    "hoodie.payload": _ORDER,
    "hoodie.record.merge": _ORDER,
    "hoodie.write.record.merge": _ORDER,
    "hoodie.datasource.write.record.merger": _ORDER,
    "hoodie.datasource.write.insert.drop.duplicates": _ORDER,
    "hoodie.combine.before": _ORDER,
    "hoodie.table.name": "table",
    "hoodie.datasource.write.table": "table and table_type",
    "hoodie.table.type": "table_type",
    "hoodie.base.path": "table",
    "hoodie.datasource.write.operation": "the content of each batch",
    "hoodie.write.table.version": _VERSION,
    "hoodie.table.version": _VERSION,
    "hoodie.write.auto.upgrade": _VERSION,
    "hoodie.timeline": _TIMELINE,
    "hoodie.table.timeline": _TIMELINE,
    "hoodie.populate.meta": "the hidden columns",
    "hoodie.datasource.write.commitmeta": "the batch id in commits",
    "hoodie.index.type": _INDEX,
    "hoodie.index.class": _INDEX,
    "hoodie.simple.index.update": _INDEX,
    "hoodie.bloom.index.update": _INDEX,
    "hoodie.record.index.update": _INDEX,
    "hoodie.write.concurrency": _LOCK,
    "hoodie.write.lock": _LOCK,
    "hoodie.embed.timeline": "the run",
    "hoodie.clean": _HISTORY,
    "hoodie.cleaner": _HISTORY,
    "hoodie.keep": _HISTORY,
    "hoodie.archive": _HISTORY,
    "hoodie.compact": _SERVICES,
    "hoodie.clustering": _SERVICES,
    "hoodie.datasource.compaction": _SERVICES,
    "hoodie.datasource.clustering": _SERVICES,
    "hoodie.table.services": _SERVICES,
    "hoodie.avro.schema": _SCHEMA,
    "hoodie.write.schema": _SCHEMA,
    "hoodie.schema.on.read": _SCHEMA,
    "hoodie.datasource.write.reconcile": _SCHEMA,
    "hoodie.write.set.null.for.missing": _SCHEMA,
}


def refusal(option: str) -> str | None:
    """Return why `option` may not be overridden, or None if it may."""
    if not option.startswith(PREFIX) or option == PREFIX:
        return f"is no Hudi option; those begin with {PREFIX}"
    owner = next((owner for name, owner in _OWNERS.items() if option == name or option.startswith(name + ".")), None)
    if owner is None and "async" in option.split("."):
        owner = _SERVICES  # no asynchronous service may run: nothing writes after a lane is released
    return None if owner is None else f"is decided by {owner}"
