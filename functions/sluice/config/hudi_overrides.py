"""Which Hudi options a table's configuration may not override, and what owns each."""

from __future__ import annotations

NAMESPACE = "hoodie"

# (beginning of the option's name after the namespace, what decides it instead). Rows are found by a
# whole dotted part: "clean" covers "clean.async" and not "cleanup".
_OWNED: tuple[tuple[str, str], ...] = (
    ("datasource.write.recordkey", "record_key"),
    ("table.recordkey", "record_key"),
    ("datasource.write.partitionpath", "partition_by"),
    ("table.partition", "partition_by"),
    ("datasource.write.hive_style_partitioning", "partition_by"),
    ("datasource.write.drop.partition.columns", "partition_by"),
    ("datasource.write.keygenerator", "the key's form, which must never change"),
    ("table.keygenerator", "the key's form, which must never change"),
    ("datasource.write.precombine", "the order of changes"),
    ("table.precombine", "the order of changes"),
    ("table.ordering", "the order of changes"),
    ("datasource.write.payload", "the order of changes"),
    ("compaction.payload", "the order of changes"),
    ("payload", "the order of changes"),
    ("record.merge", "the order of changes"),
    ("write.record.merge", "the order of changes"),
    ("datasource.write.record.merger", "the order of changes"),
    ("datasource.write.insert.drop.duplicates", "the order of changes"),
    ("combine.before", "the order of changes"),
    ("table.name", "table"),
    ("datasource.write.table", "table and table_type"),
    ("table.type", "table_type"),
    ("base.path", "table"),
    ("datasource.write.operation", "what a batch holds"),
    ("write.table.version", "the readers that tables are written for"),
    ("table.version", "the readers that tables are written for"),
    ("write.auto.upgrade", "the readers that tables are written for"),
    ("timeline", "the timeline, whose instants are UTC"),
    ("table.timeline", "the timeline, whose instants are UTC"),
    ("populate.meta", "the hidden columns"),
    ("datasource.write.commitmeta", "the batch id in commits"),
    ("index.type", "the index that finds a row in every partition"),
    ("index.class", "the index that finds a row in every partition"),
    ("simple.index.update", "the index that finds a row in every partition"),
    ("bloom.index.update", "the index that finds a row in every partition"),
    ("record.index.update", "the index that finds a row in every partition"),
    ("write.concurrency", "the lane, which is the lock"),
    ("write.lock", "the lane, which is the lock"),
    ("embed.timeline", "the run"),
    ("clean", "time_travel"),
    ("cleaner", "time_travel"),
    ("keep", "time_travel"),
    ("archive", "time_travel"),
    ("compact", "table services"),
    ("clustering", "table services"),
    ("datasource.compaction", "table services"),
    ("datasource.clustering", "table services"),
    ("table.services", "table services"),
    ("avro.schema", "the source's schema"),
    ("write.schema", "the source's schema"),
    ("schema.on.read", "the source's schema"),
    ("datasource.write.reconcile", "the source's schema"),
    ("write.set.null.for.missing", "the source's schema"),
)


def refusal(option: str) -> str | None:
    """Why `option` may not be overridden; None when it may."""
    namespace, _, name = option.partition(".")
    if namespace != NAMESPACE or not name:
        return f"is no Hudi option; those begin with {NAMESPACE}."
    owner = next((owner for start, owner in _OWNED if name == start or name.startswith(start + ".")), None)
    if owner is None and "async" in name.split("."):
        owner = "table services"
    return None if owner is None else f"is decided by {owner}"
