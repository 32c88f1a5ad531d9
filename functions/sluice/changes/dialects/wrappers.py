"""Forms of records whose row lies in a field, that are known and not read: their own fields are no rows of a table."""

from __future__ import annotations

from collections.abc import Collection
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


def _wrapper(product: str, row: str, beside: str = "", step: str = _JSON) -> Wrapper:
    return Wrapper(product, row, frozenset(beside.split()), step)


def _envelopes(product: str, rows: str, beside: str, others: str, step: str) -> list[Wrapper]:
    """A form whose records have one of several `rows`, the fields `beside` it, perhaps the `others`, and none else."""
    alone = frozenset((*rows.split(), *beside.split(), *others.split()))
    return [Wrapper(product, row, frozenset(beside.split()), step, alone) for row in rows.split()]


def _by(paths: str, marks: str | None = None) -> str:
    """The step that says by which rule records are read."""
    marked = f" and `delete_when: {marks}`" if marks else ""
    return f"Set `change: {paths}`{marked} in the table's rule, push it, and retry"


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
    _wrapper("Airbyte's records without flattening", "_airbyte_data", step=_TYPED.format("airbyte")),
    _wrapper("PeerDB's raw records", "_peerdb_data", step=_TYPED.format("peerdb")),
    _wrapper("Canal's changes", "type", "isDdl database table", _TYPED.format("canal")),
    _wrapper("MongoDB's change streams", "documentKey", "operationType ns", _TYPED.format("mongodb")),
    _wrapper("Salesforce's change events", "ChangeEventHeader"),
    _wrapper("Azure SQL's change events", "data", "specversion operation logicalid", _CHANGE),
    _wrapper("TiCDC's rows in Avro, without those of deletions", "_tidb_op", step=_CANAL_JSON),
    _wrapper(
        "Maxwell's encrypted changes", "encrypted", "database table type", "Let Maxwell write plain data: encrypt=none"
    ),
    _wrapper("CloudEvents with bytes", "data_base64", "specversion type source", _DECODED),
    _wrapper("messages of Google's Pub/Sub", "data", "messageId publishTime", _DECODED),
    _wrapper("events of Event Hubs Capture", "Body", "SequenceNumber EnqueuedTimeUtc", _DECODED),
)
_COSMOS = _by(
    "{row: current, before: previous, order: metadata.lsn}", "{column: metadata.operationType, values: [delete]}"
)
_NO_SOURCE = "changes in Debezium's form without its `source` (Flink, Hudi, Materialize, Decodable)"
_RECORDS = (
    *_envelopes(
        "changes of TiCDC's simple protocol",
        "data old tableSchema",
        "version type commitTs",
        "database table tableID buildTs schemaVersion handleKeyOnly claimCheckLocation checksum sql preTableSchema",
        _by("{row: data, before: old, order: commitTs}", "{column: type, values: [DELETE]}"),
    ),
    *_envelopes("changes of TiCDC's open protocol", "u d p", "", "q", _CANAL_JSON),
    _wrapper("Canal's or Maxwell's changes", "data", "type table database"),
    _wrapper("Canal's or Maxwell's changes", "data", "type table schema"),
    _wrapper("GoldenGate's operations", "after", "table op_type op_ts", _TYPED.format("goldengate")),
    _wrapper("GoldenGate's operations", "before", "table op_type op_ts", _TYPED.format("goldengate")),
    _wrapper("DynamoDB's incremental exports", "NewImage", "Metadata Keys"),
    _wrapper("DynamoDB's incremental exports", "Keys", "Metadata"),
    _wrapper("DynamoDB's streams", "dynamodb", "eventID eventName"),
    _wrapper("wal2json's changes", "columns", "action schema table"),
    _wrapper("wal2json's changes", "identity", "action schema table"),
    _wrapper("wal2json's changes", "change", "xid"),
    _wrapper("CockroachDB's wrapped changefeeds", "after", "updated", _TYPED.format("cockroachdb")),
    *_envelopes(
        "CockroachDB's wrapped changefeeds", "after before", "key", "topic crdb_region", _TYPED.format("cockroachdb")
    ),
    *_envelopes(
        "CockroachDB's enriched changefeeds without their source",
        "after before",
        "op ts_ns",
        "key",
        "Let the changefeed write it: enriched_properties='source'",
    ),
    _wrapper("Estuary's documents", "_meta", "_meta.op _meta.uuid"),
    _wrapper("records of Aiven's sink beside their Kafka keys", "value", "key offset", _AIVEN),
    *_envelopes(
        "records of Lenses' sink beside their Kafka keys",
        "value",
        "key metadata",
        "headers",
        _by("{row: value, key: key, order: metadata.offset}"),
    ),
    _wrapper(
        "wal-listener's events",
        "data",
        "schema table action commitTime",
        _by("{row: data, before: dataOld, order: commitTime}", "{column: action, values: [DELETE]}"),
    ),
    *(_wrapper("Prisma's events", row, "action modelName") for row in ("created", "after", "deleted")),
    _wrapper("EventBridge's events", "detail", "detail-type source", _CHANGE),
    _wrapper("Hasura's events", "event", "table trigger", _CHANGE),
    _wrapper("Neo4j's changes", "event", "txId seq", _CHANGE),
    _wrapper(
        "events of Google's Datastream",
        "payload",
        "source_metadata object",
        _by(
            "{row: payload, order: source_timestamp}",
            "{column: source_metadata.change_type, values: [DELETE, UPDATE-DELETE]}",
        ),
    ),
    _wrapper(
        "rows of Datastream in BigQuery",
        "datastream_metadata",
        step="Let the query put its change_type into a column of its own, name that in `delete_when`, push it, and "
        "retry",
    ),
    _wrapper("the change feed of Cosmos DB", "current", "metadata", _COSMOS),
    _wrapper("the change feed of Cosmos DB", "previous", "metadata", _COSMOS),
    _wrapper(
        "change records of Spanner",
        "mods",
        "modType rowType",
        _by(
            "{list: mods, row: newValuesJson, key: keysJson, order: [commitTimestamp, recordSequence]}",
            "{column: modType, values: [DELETE]}",
        ),
    ),
    _wrapper("records of Snowflake's Kafka connector", "RECORD_CONTENT", "RECORD_METADATA", _CHANGE),
    _wrapper("batches of CockroachDB's webhooks", "payload", "length", _CHANGE),
    _wrapper("CockroachDB's bare changefeeds", "__crdb__", step="Set envelope=wrapped or enriched"),
    *_envelopes(
        _NO_SOURCE,
        "after before",
        "",
        "op op_type ts_ms ts transaction tableName",
        _by("{row: after, before: before}"),
    ),
    *_envelopes(
        "Flink's rows beside their kind",
        "data",
        "op",
        "",
        _by("{row: data}", '{column: op, values: ["-D", "-U"]}'),
    ),
    *_envelopes(
        "Flink's rows in the form of Canal or Maxwell",
        "data",
        "type",
        "old",
        _by("{row: data}", "{column: type, values: [DELETE, delete]}"),
    ),
    *_envelopes(
        "changes of Conduit",
        "payload",
        "operation",
        "key position metadata",
        _by("{row: payload.after, before: payload.before, key: key}"),
    ),
    *_envelopes(
        "Sequin's messages",
        "record",
        "action metadata",
        "changes",
        _by(
            "{row: record, before: changes, order: [metadata.commit_lsn, metadata.commit_idx]}",
            "{column: action, values: [delete]}",
        ),
    ),
    *_envelopes(
        "Supabase's webhooks",
        "record old_record",
        "type table schema",
        "",
        _by("{row: record, before: old_record}", "{column: type, values: [DELETE]}"),
    ),
    *_envelopes(
        "Supabase's realtime messages", "new old", "eventType table schema", "commit_timestamp errors", _CHANGE
    ),
    *_envelopes(
        "Supabase's realtime messages",
        "record old_record",
        "type table schema commit_timestamp",
        "columns errors",
        _by("{row: record, before: old_record, order: commit_timestamp}", "{column: type, values: [DELETE]}"),
    ),
    *_envelopes(
        "Striim's events",
        "data",
        "metadata",
        "before userdata",
        _by("{row: data, before: before}", "{column: metadata.OperationName, values: [DELETE]}"),
    ),
    *_envelopes(
        "Qlik Replicate's messages",
        "data beforeData",
        "headers",
        "",
        _by(
            "{row: data, before: beforeData, order: headers.changeSequence}",
            "{column: headers.operation, values: [DELETE]}",
        ),
    ),
    _wrapper("entries of MongoDB's oplog", "o", "op ns ts", "Let a change stream or Debezium write the changes"),
    _wrapper("messages of a Singer tap", "record", "type stream", "Let a target write the rows: target-jsonl"),
    *_envelopes(
        "messages of an Airbyte source", "record", "type", "log state trace", "Let a destination write them: S3"
    ),
    *_envelopes("events of a Lambda function", "Records", "", "", _DECODED),
    _wrapper("events of a Lambda function", "records", "eventSource", _DECODED),
    _wrapper("changes of Alibaba's DTS", "afterImages", "operation objectName", "Let DTS write canal-json"),
    _wrapper("changes of Alibaba's DTS", "beforeImages", "operation objectName", "Let DTS write canal-json"),
    _wrapper("changes of OceanBase's OMS", "postStruct", "recordType", _CHANGE),
    _wrapper("changes of OceanBase's OMS", "prevStruct", "recordType", _CHANGE),
    _wrapper("Aerospike's changes", "metadata", "metadata.msg metadata.digest", _CHANGE),
    _wrapper("Aerospike's changes", "key", "msg gen lut", _CHANGE),
    _wrapper("SharePlex's changes", "data", "meta", _CHANGE),
    _wrapper("YDB's changefeeds", "newImage", "key", _CHANGE),
    _wrapper("Couchbase's events", "content", "event bySeqno", _CHANGE),
    _wrapper("events of NiFi's CaptureChangeMySQL", "columns", "binlog_filename", "Let NiFi write plain rows"),
    _wrapper("CloudEvents", "data", "specversion type source", _CHANGE),
    _wrapper("CouchDB's changes", "changes", "seq id", _CHANGE),
    _wrapper("rows of Hive's transactional files", "row", "operation originalTransaction currentTransaction", _CHANGE),
)
_ALONE = _wrapper("DynamoDB's exports", "Item")
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
                return _wrapper("changes that hold rows before and after", after, step=_CHANGE)
    return None


def beside_operation(path: str) -> Wrapper:
    """The form of records that say in their metadata, at a path, what a change does."""
    return _wrapper("changes of a capture", path, step=_CHANGE)


def around(field: str, dialect: str) -> Wrapper:
    """The form of records that hold changes in the form of a dialect in one of their fields."""
    step = "Let what writes the objects write each change alone, as a record of its own"
    return _wrapper(f"records around changes in the form `{dialect}`", field, step=step)


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
