"""What the words of Hudi, Hudi Streamer, Debezium and other tools are called in tables.yaml.

Sources: Hudi's "All Configurations", MultiTable Streamer's per-table properties, Debezium's connector properties.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

# By our key: theirs, without the prefix of Hudi's options, with `_` for `.` and `-`.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "record_key": (
        *("primary_key", "primary_keys", "pk", "key", "keys", "key_fields", "unique_key", "id_columns"),
        *("recordkey", "recordkey_field", "recordkey_fields", "record_keys", "message_key_columns"),
    ),
    "partition_by": (
        *("partition", "partitions", "partition_key", "partition_fields", "partition_path", "partitioned_by"),
        *("partitionpath", "partitionpath_field", "partition_columns"),
    ),
    "table_type": ("type", "storage_type", "write_table_type"),
    "table": ("name", "table_name", "target", "target_table", "database", "database_name"),
    "topic": ("topics", "source_topic", "streamer_source_kafka_topic", "deltastreamer_source_kafka_topic"),
    "topic_regex": ("topics_regex", "topic_pattern", "topic_prefix"),
    "delete_mode": ("delete_handling", "delete_handling_mode", "delete_tombstone_handling_mode", "drop_tombstones"),
    "delete_when": ("delete_field", "delete_column", "delete_marker", "delete_key", "op_column", "is_deleted"),
    "unavailable_value": ("unavailable_value_placeholder", "toast_placeholder"),
    "index": ("index_type",),
    "freshness": ("interval", "latency", "schedule", "trigger", "min_sync_interval_seconds", "processing_time"),
    "time_travel": ("retention", "retain", "cleaner_hours_retained", "cleaner_commits_retained"),
    "append_only": ("insert_only",),
    "catalog": ("hive_sync", "hive_sync_enable", "meta_sync_enable", "glue", "sync"),
    "services": ("compaction", "clustering", "cleaning", "compact", "clean"),
    "columns": ("column_include_list", "column_exclude_list", "exclude", "mask", "rename"),
    "schema": ("schema_evolution", "schema_evolution_mode", "schema_change", "schema_contract", "on_schema_change"),
    "expect": ("expectations", "expectation", "checks", "quality", "constraints", "contract"),
    "format": ("file_format", "input_format", "source_format"),
    "hudi": ("hoodie", "options", "properties", "props", "hudi_options"),
}
_POSITION = "leave it out: changes are ordered by their source position; `position` is for rows of a query alone"
_UPSERT = "leave it out: changes are upserted by the record key; `append_only: true` keeps each as a row of its own"
_LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("precombine", "precombine_field", "precombine_fields", "ordering", "ordering_field", "ordering_fields"),
            *("order_by", "sequence_by", "source_ordering_field", "payload_ordering_field"),
        ),
        _POSITION,
    ),
    **dict.fromkeys(("operation", "write_operation"), _UPSERT),
}
_MEANT = {theirs: ours for ours, words in _KEYS.items() for theirs in words}
_PREFIXES = ("hoodie_datasource_write_", "hoodie_datasource_", "hoodie_table_", "hoodie_", "datasource_write_")
_VALUES: Mapping[str, Mapping[str, str]] = {
    "table_type": {"copy_on_write": "cow", "merge_on_read": "mor"},
    "delete_mode": {"none": "ignore", "drop": "ignore", "physical": "hard", "rewrite": "soft", "logical": "soft"},
    "index": {
        **dict.fromkeys(("global_simple", "simple_index", "bloom", "global_bloom"), "simple"),
        **dict.fromkeys(("record_index", "record_level_index", "global_record_level_index"), "record"),
    },
    "format": {"jsonl": "json", "ndjson": "json", "confluent_avro": "avro", "tsv": "csv"},
}


def meant_key(written: object, keys: Container[str]) -> str | None:
    """Our key for a word of another tool, if a mapping may hold it (`known`)."""
    for shorter in _without_prefix(written):
        key = _MEANT.get(shorter, shorter if shorter != written else None)
        if key is not None and key in keys:
            return key
    return None


def left_out(written: object) -> str | None:
    """Why a setting of another tool has no key of ours, and is left out; None for any other word."""
    return next((_LEFT_OUT[word] for word in _without_prefix(written) if word in _LEFT_OUT), None)


def _without_prefix(written: object) -> tuple[str, ...]:
    word = _plain(written)
    return (word, *(word[len(prefix) :] for prefix in _PREFIXES if word.startswith(prefix)))


def meant_value(key: object, written: Any, values: Container[str]) -> str | None:
    """Our value of a setting for a word of another tool: `mor` for `MERGE_ON_READ`."""
    word = _plain(written)
    value = _VALUES.get(str(key), {}).get(word, word)
    return value if value in values and value != written else None


def _plain(written: object) -> str:
    return str(written).strip().lower().replace(".", "_").replace("-", "_").replace(" ", "_")
