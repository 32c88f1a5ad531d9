"""Forms of records whose row lies in a field, that are known and not read: their own fields are no rows of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from sluice.changes.capture_marks import NAME_PARTS

_TYPED = "Set `format: {}` in the table's rule, push it, and retry"
_JSON = "Of this form only JSON without a schema is read: let the writer write that, and upload the objects again"


class Wrapper(NamedTuple):
    """A form by its `product`: the field with the row, the others by which it is recognised, and what reads it.

    A record `alone` has no other fields than these.
    """

    product: str
    row: str
    beside: frozenset[str]
    step: str
    alone: frozenset[str] = frozenset()


_NO_SOURCE = "changes in Debezium's form without its `source` (Flink, Hudi, Materialize, Decodable)"
# By which `change` and `delete_when` a rule reads the records of a product.
_RULES: Mapping[str, tuple[str, ...]] = {
    "records of Lenses' sink beside their Kafka keys": ("{row: value, key: key, order: metadata.offset}",),
    "wal-listener's events": ("{row: data, before: dataOld, order: commitTime}", "{column: action, values: [DELETE]}"),
    "events of Google's Datastream": (
        "{row: payload, order: source_timestamp}",
        "{column: source_metadata.change_type, values: [DELETE, UPDATE-DELETE]}",
    ),
    "the change feed of Cosmos DB": (
        "{row: current, before: previous, order: metadata.lsn}",
        "{column: metadata.operationType, values: [delete]}",
    ),
    "change records of Spanner": (
        "{list: mods, row: newValuesJson, key: keysJson, order: [commitTimestamp, recordSequence], partial: true}",
        "{column: modType, values: [DELETE]}",
    ),
    _NO_SOURCE: ("{row: after, before: before}",),
    "Flink's rows beside their kind": ("{row: data}", '{column: op, values: ["-D", "-U"]}'),
    "Flink's rows in the form of Canal or Maxwell": ("{row: data}", "{column: type, values: [DELETE, delete]}"),
    "changes of Conduit": ("{row: payload.after, before: payload.before, key: key}",),
    "Supabase's webhooks": ("{row: record, before: old_record}", "{column: type, values: [DELETE]}"),
    "Supabase's realtime messages": (
        "{row: record, before: old_record, order: commit_timestamp, partial: true}",
        "{column: type, values: [DELETE]}",
    ),
    "Striim's events": ("{row: data, before: before}", "{column: metadata.OperationName, values: [DELETE]}"),
    "Qlik Replicate's messages": (
        "{row: data, before: beforeData, order: headers.changeSequence}",
        "{column: headers.operation, values: [DELETE]}",
    ),
}


def _form(product: str, rows: str, beside: str = "", step: str = "", others: str | None = None) -> list[Wrapper]:
    """A form whose records have one of several `rows`, and fields `beside` it; with `others` none but these."""
    fields = frozenset(beside.split())
    alone = frozenset[str]() if others is None else fields.union(rows.split(), others.split())
    if not step:
        rule = " and `delete_when: ".join(f"{setting}`" for setting in _RULES.get(product, ()))
        step = f"Set `change: {rule} in the table's rule, push it, and retry" if rule else _JSON
    return [Wrapper(product, row, fields, step, alone) for row in rows.split()]


_AIVEN = "Let the sink write the record alone: format.output.fields=value and format.output.envelope=false"
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
# https://docs.airbyte.com/integrations/destinations/s3, https://docs.peerdb.io, https://github.com/eulerto/wal2json
# https://docs.oracle.com/en/middleware/goldengate/big-data, https://www.mongodb.com/docs/manual/reference/change-events
# https://www.cockroachlabs.com/docs/stable/changefeed-messages, https://github.com/Aiven-Open/s3-connector-for-apache-kafka
# https://docs.pingcap.com/tidb/stable/ticdc-simple-protocol, https://nightlies.apache.org/flink/flink-docs-stable
# https://sequinstream.com/docs, https://supabase.com/docs/guides/database/webhooks, https://www.striim.com/docs
_CHANGE = "Say by `change` in the table's rule where the row, its key and its order lie, push it, and retry"
_CANAL_JSON = "Let TiCDC write canal-json or CSV"
_DECODED = "Let what writes the objects decode each message, and write the records in them alone"
_TEXTS = (  # names that nothing else has: of text, too
    *_form("Airbyte's records without flattening", "_airbyte_data", step=_TYPED.format("airbyte")),
    *_form("PeerDB's raw records", "_peerdb_data", step=_TYPED.format("peerdb")),
    *_form("Canal's changes", "type", "isDdl database table", _TYPED.format("canal")),
    *_form("MongoDB's change streams", "documentKey", "operationType ns", _TYPED.format("mongodb")),
    *_form("Salesforce's change events", "ChangeEventHeader"),
    *_form("Azure SQL's change events", "data", "specversion operation logicalid", _CHANGE),
    *_form("TiCDC's rows in Avro, without those of deletions", "_tidb_op", step=_CANAL_JSON),
    *_form(
        "Maxwell's encrypted changes", "encrypted", "database table type", "Let Maxwell write plain data: encrypt=none"
    ),
    *_form("CloudEvents with bytes", "data_base64", "specversion type source", _DECODED),
    *_form("messages of Google's Pub/Sub", "data", "messageId publishTime", _DECODED),
    *_form("events of Event Hubs Capture", "Body", "SequenceNumber EnqueuedTimeUtc", _DECODED),
)
_RECORDS = (
    *_form(
        "changes of TiCDC's simple protocol",
        "data old tableSchema",
        "version type commitTs",
        others="database table tableID buildTs schemaVersion handleKeyOnly claimCheckLocation checksum sql "
        "preTableSchema",
    ),
    *_form("changes of TiCDC's open protocol", "u d p", "", _CANAL_JSON, "q"),
    *_form("Canal's or Maxwell's changes", "data", "type table database"),
    *_form("Canal's or Maxwell's changes", "data", "type table schema"),
    *_form("GoldenGate's operations", "after before", "table op_type op_ts", _TYPED.format("goldengate")),
    *_form("DynamoDB's incremental exports", "NewImage", "Metadata Keys"),
    *_form("DynamoDB's incremental exports", "Keys", "Metadata"),
    *_form("DynamoDB's streams", "dynamodb", "eventID eventName"),
    *_form("wal2json's changes", "columns identity", "action schema table"),
    *_form("wal2json's changes", "change", "xid"),
    *_form("CockroachDB's wrapped changefeeds", "after", "updated", _TYPED.format("cockroachdb")),
    *_form(
        "CockroachDB's wrapped changefeeds", "after before", "key", _TYPED.format("cockroachdb"), "topic crdb_region"
    ),
    *_form(
        "CockroachDB's enriched changefeeds without their source",
        "after before",
        "op ts_ns",
        "Let the changefeed write it: enriched_properties='source'",
        "key",
    ),
    *_form("Estuary's documents", "_meta", "_meta.op _meta.uuid"),
    *_form("records of Aiven's sink beside their Kafka keys", "value", "key offset", _AIVEN),
    *_form("records of Lenses' sink beside their Kafka keys", "value", "key metadata", others="headers"),
    *_form("wal-listener's events", "data", "schema table action commitTime"),
    *_form("Prisma's events", "created after deleted", "action modelName"),
    *_form("EventBridge's events", "detail", "detail-type source", _CHANGE),
    *_form("Hasura's events", "event", "table trigger", _CHANGE),
    *_form("Neo4j's changes", "event", "txId seq", _CHANGE),
    *_form("events of Google's Datastream", "payload", "source_metadata object"),
    *_form(
        "rows of Datastream in BigQuery",
        "datastream_metadata",
        step="Let the query put its change_type into a column of its own, name that in `delete_when`, push it, and "
        "retry",
    ),
    *_form("the change feed of Cosmos DB", "current previous", "metadata"),
    *_form("change records of Spanner", "mods", "modType rowType"),
    *_form("records of Snowflake's Kafka connector", "RECORD_CONTENT", "RECORD_METADATA", _CHANGE),
    *_form("batches of CockroachDB's webhooks", "payload", "length", _CHANGE),
    *_form("CockroachDB's bare changefeeds", "__crdb__", step="Set envelope=wrapped or enriched"),
    *_form(_NO_SOURCE, "after before", others="op op_type ts_ms ts transaction tableName"),
    *_form("Flink's rows beside their kind", "data", "op", others=""),
    *_form("Flink's rows in the form of Canal or Maxwell", "data", "type", others="old"),
    *_form("changes of Conduit", "payload", "operation", others="key position metadata"),
    *_form("Sequin's messages", "record", "action metadata", others="changes"),
    *_form("Supabase's webhooks", "record old_record", "type table schema", others=""),
    *_form("Supabase's realtime messages", "new old", "eventType table schema", _CHANGE, "commit_timestamp errors"),
    *_form(
        "Supabase's realtime messages",
        "record old_record",
        "type table schema commit_timestamp",
        others="columns errors",
    ),
    *_form("Striim's events", "data", "metadata", others="before userdata"),
    *_form("Qlik Replicate's messages", "data beforeData", "headers", others=""),
    *_form("entries of MongoDB's oplog", "o", "op ns ts", "Let a change stream or Debezium write the changes"),
    *_form("messages of a Singer tap", "record", "type stream", "Let a target write the rows: target-jsonl"),
    *_form("messages of an Airbyte source", "record", "type", "Let a destination write them: S3", "log state trace"),
    *_form("events of a Lambda function", "Records", "", _DECODED, ""),
    *_form("events of a Lambda function", "records", "eventSource", _DECODED),
    *_form("changes of Alibaba's DTS", "afterImages beforeImages", "operation objectName", "Let DTS write canal-json"),
    *_form("changes of OceanBase's OMS", "postStruct prevStruct", "recordType", _CHANGE),
    *_form("Aerospike's changes", "metadata", "metadata.msg metadata.digest", _CHANGE),
    *_form("Aerospike's changes", "key", "msg gen lut", _CHANGE),
    *_form("SharePlex's changes", "data", "meta", _CHANGE),
    *_form("YDB's changefeeds", "newImage", "key", _CHANGE),
    *_form("Couchbase's events", "content", "event bySeqno", _CHANGE),
    *_form("events of NiFi's CaptureChangeMySQL", "columns", "binlog_filename", "Let NiFi write plain rows"),
    *_form("CloudEvents", "data", "specversion type source", _CHANGE),
    *_form("CouchDB's changes", "changes", "seq id", _CHANGE),
    *_form("rows of Hive's transactional files", "row", "operation originalTransaction currentTransaction", _CHANGE),
)
(_ALONE,) = _form("DynamoDB's exports", "Item")
KNOWN = (*_TEXTS, *_RECORDS, _ALONE)


# A pair of fields with the row before a change and after it, by the parts of their names.
_BEFORE, _AFTER = frozenset("old before previous prev former".split()), frozenset("new after current".split())
_ROWS = frozenset("data row record val value values image payload fields columns doc document state tuple".split())


def _images(present: frozenset[str], nested: frozenset[str]) -> Wrapper | None:
    """The form of records with two rows, one from before a change and one from after it; null may stand for one."""
    parts = {name: frozenset(part.lower() for part in NAME_PARTS.findall(name)) for name in present}
    of_rows = {name: its - _BEFORE - _AFTER for name, its in parts.items()}
    for before in (name for name, its in parts.items() if its & _BEFORE and of_rows[name] <= _ROWS):
        for after in present - {before}:
            is_pair = parts[after] & _AFTER or parts[after] and parts[after] == of_rows[before]
            if is_pair and of_rows[after] == of_rows[before] and not nested.isdisjoint((before, after)):
                return Wrapper("changes that hold rows before and after", after, frozenset(), _CHANGE)
    return None


def beside_operation(path: str) -> Wrapper:
    """The form of records that say in their metadata, at a path, what a change does."""
    return Wrapper("changes of a capture", path, frozenset(), _CHANGE)


def around(field: str, dialect: str) -> Wrapper:
    """The form of records that hold changes in the form of a dialect in one of their fields."""
    step = "Let what writes the objects write each change alone, as a record of its own"
    return Wrapper(f"records around changes in the form `{dialect}`", field, frozenset(), step)


def wrapper_of(names: Collection[str], records: Collection[str]) -> Wrapper | None:
    """The form of records with these fields, of which `records` hold objects or arrays; None for rows.

    The fields of a field are named by their path (`_meta.op`), where a schema tells them.
    """
    return _wrapper_of(frozenset(names), frozenset(records))


@lru_cache(maxsize=1024)
def _wrapper_of(present: frozenset[str], nested: frozenset[str]) -> Wrapper | None:
    if nested == {_ALONE.row} and all(name.startswith(_ALONE.row) for name in present):
        return _ALONE
    fields = {name.partition(".")[0] for name in present}
    wrappers = [wrapper for wrapper in _TEXTS if wrapper.row in present and wrapper.beside <= present]
    wrappers += [
        wrapper
        for wrapper in _RECORDS
        if wrapper.row in nested and wrapper.beside <= present and (not wrapper.alone or fields <= wrapper.alone)
    ]
    return wrappers[0] if wrappers else _images(present, nested)
