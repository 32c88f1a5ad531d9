"""Forms of records whose row lies in a field, that are known and not read: their own fields are no rows of a table."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

_TYPED = "Set `format: {}` in the table's rule, push it, and retry"
_JSON = "Of this form only JSON without a schema is read: let the writer write that, and upload the objects again"


class Wrapper(NamedTuple):
    """A form by its `product`: the field with the row, the others by which it is recognised, and what reads it."""

    product: str
    row: str
    beside: frozenset[str]
    step: str


def _wrapper(product: str, row: str, beside: str = "", step: str = _JSON) -> Wrapper:
    return Wrapper(product, row, frozenset(beside.split()), step)


_AIVEN = "Let the sink write the record alone: format.output.fields=value and format.output.envelope=false"
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
# https://docs.airbyte.com/integrations/destinations/s3, https://docs.peerdb.io, https://github.com/eulerto/wal2json
# https://docs.oracle.com/en/middleware/goldengate/big-data, https://www.mongodb.com/docs/manual/reference/change-events
# https://www.cockroachlabs.com/docs/stable/changefeed-messages, https://github.com/Aiven-Open/s3-connector-for-apache-kafka
_CHANGE = "Say by `change` in the table's rule where the row, its key and its order lie, push it, and retry"
_TEXTS = (  # names that nothing else has: of text, too
    _wrapper("Airbyte's records without flattening", "_airbyte_data", step=_TYPED.format("airbyte")),
    _wrapper("PeerDB's raw records", "_peerdb_data", step=_TYPED.format("peerdb")),
    _wrapper("MongoDB's change streams", "documentKey", "operationType ns", _TYPED.format("mongodb")),
    _wrapper("Salesforce's change events", "ChangeEventHeader"),
    _wrapper("Azure SQL's change events", "data", "specversion operation logicalid", _CHANGE),
    _wrapper("TiCDC's rows in Avro, without those of deletions", "_tidb_op", step="Let TiCDC write canal-json or CSV"),
)
_RECORDS = (
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
    _wrapper("Estuary's documents", "_meta", "_meta.op _meta.uuid"),
    _wrapper("records of Aiven's sink beside their Kafka keys", "value", "key offset", _AIVEN),
    _wrapper("EventBridge's events", "detail", "detail-type source", _CHANGE),
    _wrapper("Hasura's events", "event", "table trigger", _CHANGE),
    _wrapper("Neo4j's changes", "event", "txId seq", _CHANGE),
    _wrapper("events of Google's Datastream", "payload", "source_metadata object", _CHANGE),
    _wrapper("the change feed of Cosmos DB", "current", "metadata", _CHANGE),
    _wrapper("the change feed of Cosmos DB", "previous", "metadata", _CHANGE),
    _wrapper("change records of Spanner", "mods", "modType rowType", _CHANGE),
    _wrapper("records of Snowflake's Kafka connector", "RECORD_CONTENT", "RECORD_METADATA", _CHANGE),
    _wrapper("batches of CockroachDB's webhooks", "payload", "length", _CHANGE),
    _wrapper("CockroachDB's bare changefeeds", "__crdb__", step="Set envelope=wrapped or enriched"),
)
_ALONE = _wrapper("DynamoDB's exports", "Item")


def wrapper_of(names: Collection[str], records: Collection[str]) -> Wrapper | None:
    """The form of records with these fields, of which `records` hold objects or arrays; None for rows.

    The fields of a field are named by their path (`_meta.op`), where a schema tells them.
    """
    present, nested = frozenset(names), frozenset(records)
    if nested == {_ALONE.row} and all(name.startswith(_ALONE.row) for name in present):
        return _ALONE
    wrappers = [wrapper for wrapper in _TEXTS if wrapper.row in present and wrapper.beside <= present]
    wrappers += [wrapper for wrapper in _RECORDS if wrapper.row in nested and wrapper.beside <= present]
    return wrappers[0] if wrappers else None
