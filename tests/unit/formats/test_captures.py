"""Change files of other products, from admission to rows: each sample of one small story ends right, or is refused.

The story: three rows are inserted, the first is updated twice in a transaction, and the second is deleted. Samples of
real writers tell longer ones, and their database's own rows, read by a query at the end, lie beside them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import cramjam
import fastavro
import pyarrow as pa
import pytest
import yaml
from support.bad_input import plain_parquet
from support.captures import SAMPLES, HeldObjects, Played, as_database, database_rows, objects_of, play, rules
from support.heavy_objects import parquet
from support.shapes import lines

from sluice.batch.claim import PendingObject
from sluice.changes.dialects.nested import nanos
from sluice.changes.dialects.wrappers import KNOWN as WRAPPERS
from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit
from sluice.onboarding.discovery import Proposal, propose
from sluice.schema.capture_order import moment_nanos
from sluice_aws.s3.objects import Objects
from sluice_cli.config.rule_text import whole_text
from sluice_cli.config.topics import Reach, sample_topic
from sluice_formats.json.records import json_schemas

RIGHT = [[1, "Anna3"], [3, "Cara"]]
PLAIN = {"topic": "s.cust", "table": "d.cust", "record_key": "id"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_ends_right_or_is_refused_by_its_name(name: str) -> None:
    sample = SAMPLES[name]
    played = play(objects_of(name), rules(sample["rule"]))
    if "refused" in sample:
        assert set(played.refused) == {sample["refused"]} and not played.rows
        assert sample["says"] in played.reasons[0]
        return
    assert played.refused == [], played.reasons
    if "real" in sample:
        assert as_database(name, played.rows) == database_rows(name)
        return
    key, name_column = sample["rule"]["record_key"], next(name for name in played.rows[0] if name.lower() == "name")
    assert [[row[key], row[name_column]] for row in played.rows] == sample.get("rows", RIGHT)


@pytest.mark.parametrize("name", [name for name, sample in SAMPLES.items() if "named" in sample])
def test_a_sample_is_refused_by_its_name_until_a_rule_reads_it(name: str) -> None:
    rule, product = SAMPLES[name]["rule"], SAMPLES[name]["named"]
    reading = {"change", "delete_when", "position", "format"}
    played = play(objects_of(name), rules({word: value for word, value in rule.items() if word not in reading}))
    assert set(played.refused) == {"deletions_unmarked"}
    assert all(product in reason for reason in played.reasons)
    steps = [wrapper.step for wrapper in WRAPPERS if wrapper.product in played.reasons[0]]
    assert not steps or any(all(written_in(step, word, rule) for word in reading & rule.keys()) for step in steps)


def written_in(step: str, word: str, rule: Any) -> bool:
    """Whether a step names the value of a word of a rule."""
    written = re.search(rf"`({word}: .*?)`", step)
    return written is not None and yaml.safe_load(written[1])[word] == rule[word]


def rows_of(*records: Any, key: str = "id", name: str = "topics/s.cust/s.cust+0+0.json", **settings: Any) -> Played:
    """What becomes of an object of these records in a table of its own."""
    return play({name: lines(*records)}, rules({**PLAIN, "record_key": key, **settings}))


def taken(ending: str, body: bytes, **settings: Any) -> Played:
    """What becomes of an object of these bytes in such a table."""
    return play({f"topics/s.cust/x.{ending}": body}, rules({**PLAIN, **settings}))


def maxwell(kind: str, at: int, data: Any, **more: Any) -> dict[str, Any]:
    place = {"database": "s", "table": "cust", "ts": 1764230000, "position": f"bin.000001:{at}"}
    return {**place, "type": kind, "data": data, **more}


def goldengate(op: str, at: int, **sides: Any) -> dict[str, Any]:
    return {"table": "S.CUST", "op_type": op, "op_ts": "2026-11-27 09:00:00.000000", "pos": f"{at:020d}", **sides}


def wal2json(action: str, at: int | None = None, **sides: Any) -> dict[str, Any]:
    columns = {side: [{"name": name, "value": value} for name, value in row.items()] for side, row in sides.items()}
    return {"action": action, "schema": "s", "table": "cust", **({"lsn": f"0/{at:X}"} if at else {}), **columns}


def by_transaction(*changes: tuple[str, Any, Any], **more: Any) -> dict[str, Any]:
    made = [
        {
            "kind": kind,
            "schema": "s",
            "table": "cust",
            **({"columnnames": [*row], "columntypes": [], "columnvalues": [*row.values()]} if row else {}),
            **({"oldkeys": {"keynames": [*old], "keytypes": ["x"], "keyvalues": [*old.values()]}} if old else {}),
        }
        for kind, row, old in changes
    ]
    return {**more, "change": made}


def mongo(kind: str, at: int, id: int, document: Any = None, **more: Any) -> dict[str, Any]:
    time = {"$timestamp": {"t": 1764230000, "i": at}}
    event = {"_id": {"_data": "82"}, "operationType": kind, "clusterTime": time, "ns": {"db": "s", "coll": "cust"}}
    return {**event, "documentKey": {"_id": id}, **({"fullDocument": document} if document else {}), **more}


def as_texts(event: dict[str, Any]) -> dict[str, Any]:
    """An event as MongoDB's Kafka connector writes it with `output.format.value=schema`."""
    given = event.keys() & {"_id", "fullDocument", "documentKey", "clusterTime"}
    texts = {name: json.dumps(event[name]) for name in given}
    changed = {name: json.dumps(fields) for name, fields in event.get("updateDescription", {}).items()}
    return {"fullDocument": None, **event, **texts, "updateDescription": changed or None}


def typed(**row: Any) -> dict[str, Any]:
    return {name: {"N": str(value)} if isinstance(value, int) else {"S": value} for name, value in row.items()}


def stream(kind: str, at: int, **images: Any) -> dict[str, Any]:
    change = {"Keys": typed(id=1), "SequenceNumber": str(10**24 + at), **images}
    return {"eventID": "1", "eventName": kind, "eventSource": "aws:dynamodb", "dynamodb": change}


def exported(at: int, **images: Any) -> dict[str, Any]:
    return {"Metadata": {"WriteTimestampMicros": {"N": str(1764230000000000 + at)}}, "Keys": typed(id=1), **images}


def dms(operation: str, data: Any = None, kind: str = "data", **more: Any) -> dict[str, Any]:
    source = {"schema-name": "s", "table-name": "cust", "timestamp": "2026-11-27T09:00:00.000000Z"}
    metadata = {"record-type": kind, "operation": operation, **source, **more}
    return {**({"data": data} if data else {}), "metadata": metadata}


def qlik(operation: str, at: int, data: Any, before: Any = None) -> dict[str, Any]:
    headers = {"operation": operation, "changeSequence": f"{20261127090000000000000000000000000 + at}"}
    return {"magic": "atMSG", "type": "DT", "message": {"data": data, "beforeData": before, "headers": headers}}


def masked(operation: str, data: Any, columns: str) -> dict[str, Any]:
    change = qlik(operation, 1, data)
    change["message"]["headers"]["columnMask"] = columns
    return change


def estuary(op: str, at: int, document: Any, **meta: Any) -> dict[str, Any]:
    return {"_meta": {"op": op, "uuid": f"0000000{at}-cb4c-11f0-8000-000000000001", **meta}, **document}


OF_POSTGRES = {"source": {"schema": "s", "table": "cust", "loc": [1, 2, 3]}}
OF_MONGODB = {"source": {"db": "s", "collection": "cust"}}


def peerdb(kind: int, at: int, data: Any, unchanged: str = "") -> dict[str, Any]:
    beside = {"_peerdb_uid": "u", "_peerdb_timestamp": 1764230000000000000 + at, "_peerdb_match_data": ""}
    row = {"_peerdb_data": json.dumps(data), "_peerdb_record_type": kind, "_peerdb_unchanged_toast_columns": unchanged}
    return {**beside, **row}


def salesforce(kind: str, at: int, *ids: str, **fields: Any) -> dict[str, Any]:
    lists = {name: fields.pop(name) for name in ("changedFields", "nulledFields", "diffFields") if name in fields}
    header = {"entityName": "Account", "recordIds": [*ids], "changeType": kind, "commitNumber": at, "sequenceNumber": 1}
    return {"ChangeEventHeader": {**header, "commitTimestamp": 1764230000000, **lists}, **fields}


def cockroach(at: int, after: Any, key: Any = None, **more: Any) -> dict[str, Any]:
    return {"after": after, "key": key, "updated": f"1764230000000000000.{at:010d}", **more}


def airbyte(at: int, row: Any, *, deleted: bool = False, text: bool = False, **place: Any) -> dict[str, Any]:
    captured = {**row, "_ab_cdc_deleted_at": "2026-11-27T09:00:00Z" if deleted else None, **place}
    data = json.dumps(captured) if text else captured
    return {"_airbyte_raw_id": f"{at}", "_airbyte_extracted_at": 1764230000000, "_airbyte_data": data}


def of_mssql(cursor: int | None, row: Any, serial: str, *, deleted: bool = False) -> dict[str, Any]:
    at = {} if cursor is None else {"_ab_cdc_cursor": 176423000000000000 + cursor}
    place = {"_ab_cdc_lsn": "0000002a:000004e0:0003", "_ab_cdc_event_serial_no": serial}
    return airbyte(1, row, deleted=deleted, **place, **at)


def debezium(connector: str, op: str, after: Any, before: Any = None, **source: Any) -> dict[str, Any]:
    place = {"connector": connector, "name": "s", "db": "s", "table": "cust", "collection": "cust"}
    return {"before": before, "after": after, "source": {**place, **source}, "op": op}


def sequin(action: str, at: int | None, record: Any, changes: Any = None, index: int | None = 0) -> dict[str, Any]:
    metadata = {"table_schema": "s", "table_name": "cust", "commit_lsn": at, "commit_idx": index}
    return {"record": record, "changes": changes, "action": action, "metadata": metadata}


def simple(kind: str, at: int, **sides: Any) -> dict[str, Any]:
    named = {"database": "s", "table": "cust", "tableID": 1} if sides else {"tableSchema": {"schema": "s"}}
    return {"version": 1, "type": kind, "commitTs": at, "buildTs": 1, **named, **sides}


def pre_image(updated: str, removed: list[str] | None = None) -> dict[str, Any]:
    """An update as Debezium writes it with capture.mode=change_streams_with_pre_image."""
    described = {"removedFields": removed, "updatedFields": updated, "truncatedArrays": None}
    update = debezium("mongodb", "u", None, json.dumps({"_id": 1, **WIDE}), ts_ms=6, ord=1)
    return {**update, "updateDescription": described}


def cells(**row: Any) -> dict[str, Any]:
    return {name: {"value": value, "set": True} for name, value in row.items()}


SECOND = "2026-11-27T09:00:00.000000Z"


def cassandra(op: str, at: int, **row: Any) -> dict[str, Any]:
    after = {name: {**cell, "deletion_ts": None} for name, cell in cells(**row).items()}
    after |= {".range_start": None, ".range_end": None}
    return {"op": op, "source": {"connector": "cassandra", "table": "cust", "ts_us": at}, "after": after}


WIDE = {"id": 1, "name": "Anna", "note": "kept", "n": 7}


def made(rows: list[Any], *records: Any) -> tuple[list[Any], list[Any]]:
    """Records, and the rows that they make."""
    return [*records], rows


CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "maxwell, an update of a minimal row image": made(
        [{**WIDE, "name": "Anna2"}],
        maxwell("insert", 1, WIDE),
        maxwell("update", 2, {"id": 1, "name": "Anna2"}, old={"name": "Anna"}),
    ),
    "maxwell, statements of a database and of a table": made(
        [WIDE],
        {"type": "database-create", "database": "s", "ts": 1764230000000, "sql": "create database s"},
        {"type": "table-alter", "database": "s", "table": "cust", "ts": 1764230000000, "def": {}, "old": {}},
        maxwell("insert", 1, WIDE),
    ),
    "maxwell, nulls that output_nulls=false leaves out": made(
        [{**WIDE, "name": "b", "note": None}],
        maxwell("insert", 1, WIDE),
        maxwell("update", 2, {"id": 1, "name": "b"}, old={"name": "Anna", "note": "kept"}),
    ),
    "goldengate, an update without columns that it left alone": made(
        [{**WIDE, "name": "Anna2"}],
        goldengate("I", 1, after=WIDE),
        goldengate("U", 2, before={"id": 1}, after={"id": 1, "name": "Anna2"}),
    ),
    "goldengate, an update of the key": made(
        [{**WIDE, "id": 5}],
        goldengate("I", 1, after=WIDE),
        goldengate("U", 2, before={"id": 1}, after={**WIDE, "id": 5}),
    ),
    "goldengate, an update of the key by a word of its own": made(
        [{**WIDE, "id": 5}], goldengate("I", 1, after=WIDE), goldengate("K", 2, before=WIDE, after={**WIDE, "id": 5})
    ),
    "goldengate, a truncate": made([], goldengate("I", 1, after=WIDE), goldengate("T", 2)),
    "goldengate, later objects of the trail come first": made(
        [], goldengate("D", 3, before=WIDE), goldengate("U", 2, before=WIDE, after=WIDE), goldengate("I", 1, after=WIDE)
    ),
    "wal2json, an update without an unchanged large value": made(
        [{**WIDE, "name": "b", "n": 8}],
        wal2json("I", 1, columns=WIDE),
        wal2json("U", 2, columns={"id": 1, "name": "b", "n": 8}, identity={"id": 1}),
    ),
    "wal2json, an update of the key": made(
        [{**WIDE, "id": 5}],
        wal2json("I", 1, columns=WIDE),
        wal2json("U", 2, columns={**WIDE, "id": 5}, identity={"id": 1}),
    ),
    "wal2json, a new key beside an unchanged large value that the former row has": made(
        [{**WIDE, "id": 5, "name": "b", "n": 8}],
        wal2json("I", 1, columns=WIDE),
        wal2json("U", 2, columns={"id": 5, "name": "b", "n": 8}, identity=WIDE),
    ),
    "wal2json, beginnings, ends and messages": made(
        [WIDE],
        {"action": "B", "xid": 7, "lsn": "0/1"},
        wal2json("I", 1, columns=WIDE),
        {"action": "M", "transactional": False, "prefix": "p", "content": "x"},
        {"action": "C", "xid": 7, "lsn": "0/2", "nextlsn": "0/3"},
    ),
    "wal2json, a truncate": made([], wal2json("I", 1, columns=WIDE), wal2json("T", 2)),
    "wal2json, a transaction with a row that changes twice": made(
        [{**WIDE, "name": "c", "n": 9}],
        by_transaction(("insert", WIDE, None), ("update", {**WIDE, "name": "b"}, {"id": 1}), nextlsn="0/5"),
        by_transaction(),
        by_transaction(("update", {"id": 1, "name": "c", "n": 9}, {"id": 1}), nextlsn="0/9"),
    ),
    "wal2json, such a transaction without a place in the log": made(
        [{**WIDE, "name": "b"}], by_transaction(("insert", WIDE, None), ("update", {"id": 1, "name": "b"}, {"id": 1}))
    ),
    "wal2json, such a transaction in which another row takes the key": made(
        [{"id": 2, "name": "b", "note": None, "n": 8}],
        by_transaction(("insert", {**WIDE, "id": 2}, None)),
        by_transaction(("delete", None, {"id": 2}), ("update", {"id": 2, "name": "b", "n": 8}, {"id": 1})),
    ),
    "wal2json, a transaction that inserts and deletes": made(
        [{**WIDE, "id": 2}],
        by_transaction(("insert", WIDE, None), ("delete", None, {"id": 1}), ("insert", {**WIDE, "id": 2}, None)),
    ),
    "mongodb, an update without its document": made(
        [{"_id": 1, **WIDE, "name": "b", "n": None}],
        mongo("insert", 1, 1, {"_id": 1, **WIDE}),
        mongo("update", 2, 1, updateDescription={"updatedFields": {"name": "b"}, "removedFields": ["n"]}),
    ),
    "mongodb, documents and keys as text": made(
        [{"_id": 1, **WIDE, "name": "b"}],
        as_texts(mongo("delete", 4, 2)),
        as_texts(mongo("update", 3, 1, updateDescription={"updatedFields": {"name": "b"}})),
        as_texts(mongo("insert", 2, 2, {"_id": 2, **WIDE})),
        as_texts(mongo("insert", 1, 1, {"_id": 1, **WIDE})),
    ),
    "mongodb, values of extended JSON": made(
        [{"_id": 1, "id": "65a", "n": 9, "at": "1970-01-01T00:00:00.000Z"}],
        {"operationType": "drop", "ns": {"db": "s", "coll": "cust"}},
        mongo("insert", 1, 1, {"_id": 1, "id": {"$oid": "65a"}, "n": {"$numberLong": "9"}, "at": {"$date": 0}}),
    ),
    "mongodb, envelopes of Debezium": made(
        [{"_id": 1, "id": 1, "n": 9.0}],
        debezium("mongodb", "c", '{"_id": 1, "id": 1, "n": {"$numberLong": "9"}}', ts_ms=5, ord=1),
        debezium("mongodb", "c", '{"_id": 2, "id": 2, "n": 1.5}', ts_ms=5, ord=2),
        debezium("mongodb", "d", None, '{"_id": 2}', ts_ms=5, ord=3),
    ),
    "mongodb, a document that changed while a snapshot sent it": made(
        [{"_id": 1, "n": 2}, {"_id": 2, "n": 1}],
        debezium("mongodb", "u", '{"_id": 2, "n": 0}', ts_ms=1764230000000, ord=1),
        debezium("mongodb", "r", '{"_id": 1, "n": 1}', ts_ms=1764239000000, ord=-1),
        debezium("mongodb", "r", '{"_id": 2, "n": 1}', ts_ms=1764239000000, ord=-1),
        debezium("mongodb", "u", '{"_id": 1, "n": 2}', ts_ms=1764238998000, ord=1),
    ),
    "mongodb, envelopes of Debezium that have the document before an update alone": made(
        [{"_id": 1, **WIDE, "name": "b", "note": None}],
        debezium("mongodb", "c", json.dumps({"_id": 1, **WIDE}), ts_ms=5, ord=1),
        pre_image('{"name": "b"}', ["note"]),
    ),
    "mongodb, such an update of a field within another": made(
        [{"_id": 1, "a": '{"b":2,"c":1}'}],
        debezium("mongodb", "c", '{"_id": 1, "a": {"b": 1, "c": 1}}', ts_ms=5, ord=1),
        {**pre_image('{"a.b": 2}'), "before": '{"_id": 1, "a": {"b": 1, "c": 1}}'},
    ),
    "dynamodb_stream, changes of an item": made(
        [{"id": 1, "name": "b", "note": None, "n": None}],
        {"Records": [stream("INSERT", 1, NewImage=typed(**WIDE)), stream("MODIFY", 2, NewImage=typed(id=1, name="b"))]},
    ),
    "dynamodb_stream, an item that is removed": made(
        [], stream("REMOVE", 2, OldImage=typed(**WIDE)), stream("INSERT", 1, NewImage=typed(**WIDE))
    ),
    "dynamodb_export, every type": made(
        [{"id": 1, "price": 1.5, "on": True, "tags": '["a","b"]', "map": '{"x":[1,"y"]}'}],
        exported(
            1,
            NewImage={
                "id": {"N": "1"},
                "price": {"N": "1.50"},
                "gone": {"NULL": True},
                "on": {"BOOL": True},
                "tags": {"SS": ["a", "b"]},
                "map": {"M": {"x": {"L": [{"N": "1"}, {"S": "y"}]}}},
            },
        ),
    ),
    "dynamodb_export, an item that is deleted": made(
        [], exported(2, OldImage=typed(**WIDE)), exported(1, NewImage=typed(**WIDE))
    ),
    "airbyte, the binlog's place in rows as text": made(
        [{**WIDE, "name": "b"}],
        airbyte(1, {**WIDE, "name": "b"}, text=True, _ab_cdc_log_file="bin.000002", _ab_cdc_log_pos=4.0),
        airbyte(2, WIDE, text=True, _ab_cdc_log_file="bin.000001", _ab_cdc_log_pos=900.0),
    ),
    "airbyte, a transaction of SQL Server, whose updates have the serial number 2": made(
        [{**WIDE, "id": 2}],
        of_mssql(4, {**WIDE, "id": 2}, "1"),
        of_mssql(3, WIDE, "1", deleted=True),
        of_mssql(2, WIDE, "2"),
        of_mssql(1, WIDE, "1"),
    ),
    "airbyte, such a transaction without a cursor": made(
        [], *(of_mssql(None, WIDE, serial, deleted=number == 2) for number, serial in enumerate("121"))
    ),
    "airbyte, a place in the log as Java writes doubles": made(
        [{**WIDE, "name": "b"}],
        airbyte(1, {**WIDE, "name": "b"}, text=True, _ab_cdc_lsn=2.4012656e7),
        airbyte(2, WIDE, _ab_cdc_lsn=9999999.0),
    ),
    "goldengate, an update that has the key before it alone": made(
        [{**WIDE, "name": "b"}],
        goldengate("I", 1, after=WIDE),
        goldengate("U", 2, before={"id": 1}, after={"name": "b"}),
    ),
    "airbyte, rows of the first sync without a place in the log": made(
        [{**WIDE, "name": "b"}],
        airbyte(1, WIDE, _ab_cdc_lsn=None),
        airbyte(2, {**WIDE, "name": "b"}, _ab_cdc_lsn=24012656.0),
    ),
    "airbyte, rows of the first sync without a place in the binlog": made(
        [{**WIDE, "name": "b"}],
        airbyte(1, WIDE, _ab_cdc_log_file=None, _ab_cdc_log_pos=None),
        airbyte(2, {**WIDE, "name": "b"}, _ab_cdc_log_file="bin.000001", _ab_cdc_log_pos=4.0),
    ),
    "airbyte, a deletion": made([], airbyte(1, WIDE, _ab_cdc_lsn=1.0), airbyte(2, WIDE, deleted=True, _ab_cdc_lsn=2.0)),
    "dms, a load and changes, with its control messages": made(
        [{"id": 1, "name": "b", "note": None, "n": None}],
        dms("create-table", kind="control"),
        dms("load", WIDE),
        dms("load", {**WIDE, "id": 2}),
        dms("update", {"id": 1, "name": "b"}, **{"transaction-id": 5}),
        dms("delete", {"id": 2}, **{"transaction-id": 5}),
    ),
    "dms, an update of the key with an image before it": made(
        [{**WIDE, "id": 2}], dms("load", WIDE), {**dms("update", {**WIDE, "id": 2}), "BI": {"id": 1}}
    ),
    "dms, transactions of one second, whose numbers begin anew": made(
        [WIDE],
        dms("insert", {**WIDE, "name": "b"}, **{"commit-timestamp": SECOND, "transaction-record-id": 5}),
        dms("update", WIDE, **{"commit-timestamp": SECOND, "transaction-record-id": 1}),
    ),
    "dms, a truncate": made(
        [{**WIDE, "id": 2}], dms("load", WIDE), dms("truncate-table", kind="control"), dms("insert", {**WIDE, "id": 2})
    ),
    "qlik, a table's structure, and masks of all columns": made(
        [WIDE],
        {"magic": "atMSG", "type": "MD", "message": {"schemaId": "1", "tableStructure": {"tableColumns": {}}}},
        masked("UPDATE", WIDE, "0F"),
    ),
    "estuary, documents with their operation beside the fields": made(
        [{**WIDE, "name": "b"}],
        estuary("d", 3, {"id": 2}),
        estuary("u", 2, {**WIDE, "name": "b"}),
        estuary("c", 1, WIDE),
        estuary("c", 1, {**WIDE, "id": 2}),
    ),
    "estuary, an update without an unchanged large value": made(
        [{**WIDE, "name": "b", "n": None}],
        estuary("c", 1, WIDE, **OF_POSTGRES),
        estuary("u", 2, {"id": 1, "name": "b", "n": None}, **OF_POSTGRES),
    ),
    "estuary, such an update with another key": made(
        [{**WIDE, "id": 5}],
        estuary("c", 1, WIDE, **OF_POSTGRES),
        estuary("u", 2, {"id": 5, "name": "Anna", "n": 7}, before=WIDE, **OF_POSTGRES),
    ),
    "estuary, a document that lost a field": made(
        [{**WIDE, "note": None}],
        estuary("c", 1, WIDE, **OF_MONGODB),
        estuary("u", 2, {"id": 1, "name": "Anna", "n": 7}, before=WIDE, **OF_MONGODB),
    ),
    "sequin, an update without an unchanged large value, and a backfill": made(
        [{**WIDE, "n": 8}, {**WIDE, "id": 5}],
        sequin("update", 3, {**WIDE, "id": 5}, {"id": 2}),
        sequin("read", None, {**WIDE, "id": 2}, index=None),
        sequin("update", 1, {**WIDE, "note": "unchanged_toast", "n": 8}, {"n": 7}, 1),
        sequin("insert", 1, WIDE),
    ),
    "sequin, a deletion in the transaction of an update": made(
        [], sequin("delete", 2, {"id": 1}, None, 1), sequin("update", 2, WIDE, {"n": 7}), sequin("insert", 1, WIDE)
    ),
    "ticdc_simple, marks of time and structures between changes": made(
        [{**WIDE, "name": "b"}],
        {"version": 1, "type": "WATERMARK", "commitTs": 9, "buildTs": 1},
        simple("BOOTSTRAP", 0),
        simple("UPDATE", 3, data={**WIDE, "name": "b"}, old=WIDE),
        simple("DELETE", 2, old={**WIDE, "id": 2}),
        simple("INSERT", 1, data={**WIDE, "id": 2}),
        simple("INSERT", 1, data=WIDE),
    ),
    "ticdc_simple, a truncate": made(
        [{**WIDE, "id": 2}],
        *(
            simple("INSERT", 1, data=WIDE),
            {**simple("TRUNCATE", 2), "tableSchema": {"schema": "s", "table": "cust"}, "preTableSchema": {}},
            simple("INSERT", 3, data={**WIDE, "id": 2}),
        ),
    ),
    "qlik, changes and a reload": made(
        [{**WIDE, "id": 2}, {**WIDE, "id": 5}],
        qlik("REFRESH", 0, WIDE),
        qlik("UPDATE", 2, {**WIDE, "id": 5}, WIDE),
        qlik("INSERT", 1, {**WIDE, "id": 2}),
    ),
    "peerdb, an update without unchanged large values": made(
        [{**WIDE, "name": "b"}], peerdb(0, 1, WIDE), peerdb(1, 2, {**WIDE, "name": "b", "note": ""}, unchanged="note")
    ),
    "salesforce, changed and nulled fields, and several records": made(
        [
            {"Id": "001", "Name_FirstName": "A", "Name_LastName": "B", "City": "Y", "Phone": None},
            {"Id": "002", "Name_FirstName": "C", "Name_LastName": "B", "City": None, "Phone": "1"},
        ],
        salesforce("CREATE", 1, "001", "002", Name={"FirstName": "A", "LastName": "B"}, City="X", Phone="1"),
        salesforce("UPDATE", 2, "001", changedFields=["City", "Phone"], City="Y", Name=None, Phone=None),
        salesforce("UPDATE", 3, "002", changedFields=["Name.FirstName"], Name={"FirstName": "C"}),
        salesforce("UPDATE", 4, "002", nulledFields=["City"]),
    ),
    "cockroachdb, wrapped, with resolved records and rows before": made(
        [{**WIDE, "id": 3}],
        cockroach(1, WIDE, key=[1]),
        {"resolved": "1764230000000000009.0000000000"},
        cockroach(3, {**WIDE, "id": 2}, before=None),
        cockroach(2, None, key=[1]),
        cockroach(4, None, before={"id": 2}),
        cockroach(5, {**WIDE, "id": 3}),
    ),
    "cassandra, an update of a tuple": made(
        [{"id": 1, "place": '{"field1":2,"field2":"b"}'}],
        cassandra("i", 1, id=1, place={"field1": 1, "field2": "a"}),
        cassandra("u", 2, id=1, place={"field1": 2, "field2": "b"}),
    ),
    "cassandra, an insert of some columns is an update": made(
        [{**WIDE, "name": "b"}],
        cassandra("i", 3, id=2, name="b"),
        cassandra("d", 4, id=2),
        cassandra("i", 2, id=1, name="b"),
        cassandra("i", 1, **WIDE),
    ),
    "cassandra, a change that another replica sends late": made(
        [{**WIDE, "name": "b", "tags": '["x"]'}],
        cassandra("i", 1, **WIDE, tags=["x"]),
        cassandra("u", 3, id=1, name="b"),
        cassandra("u", 2, id=1, name="a"),
    ),
    "scylladb, whole rows of its advanced format": made(
        [{"id": 1, "name": "b", "note": None, "n": 8}],
        debezium("scylla", "c", WIDE, ts_us=1),
        debezium("scylla", "c", {"id": 1, "name": "b", "note": None, "n": 7}, ts_us=2),
        debezium("scylla", "c", {"id": 1, "name": None, "note": None, "n": {"value": 8}}, ts_us=3),
        debezium("scylla", "u", {**WIDE, "id": 2}, ts_us=4),
        {**debezium("scylla", "d", None, ts_us=5), "key": {"id": 2}},
    ),
    "scylladb, nulls of an advanced update whose row had none there before": made(
        [{"id": 1, "name": "Anna", "n": 8}],
        debezium("scylla", "c", {**WIDE, "note": None}, ts_us=1),
        debezium("scylla", "u", {**WIDE, "note": None, "n": 8}, {**WIDE, "note": None}, ts_us=2),
    ),
    "scylladb, a deletion that has its key beside the row": made(
        [],
        debezium("scylla", "c", WIDE, ts_us=1),
        {**debezium("scylla", "d", None, {"n": 7}, ts_us=2), "key": {"id": 1}},
    ),
    "scylladb, an update of nothing but collections, which connectors before 2.0 left out": made(
        [WIDE],
        debezium("scylla", "c", {name: name == "id" and 1 or {"value": WIDE[name]} for name in WIDE}, ts_us=1),
        debezium("scylla", "u", {**dict.fromkeys(WIDE), "id": 1}, ts_us=2, version="1.2.6"),
    ),
    "yugabytedb, an update without columns that it left alone": made(
        [{**WIDE, "n": 8}],
        debezium("yugabytedb", "c", cells(**WIDE)),
        debezium("yugabytedb", "u", {**dict.fromkeys(WIDE), **cells(id=1, n=8)}),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_changes_of_a_capture_make_its_rows(case: str) -> None:
    records, expected = CASES[case]
    played = rows_of(*records, key=next(iter(expected[0])) if expected else "id")
    assert (played.rows, played.refused) == (expected, []), played.reasons
    dialect = case.partition(",")[0]
    assert rows_of(*records, key=next(iter(expected[0])) if expected else "id", format=dialect).rows == expected


ALONE = {
    "wal2json": [
        {"action": "B", "xid": 7, "timestamp": "2026-11-27 09:00:00.1+00", "lsn": "0/5", "nextlsn": "0/6"},
        {"action": "M", "xid": 7, "lsn": "0/5", "transactional": True, "prefix": "p", "content": "x"},
        {"action": "C", "xid": 7, "lsn": "0/5", "nextlsn": "0/6"},
    ],
    "wal2json, version 1": [{"xid": 7, "nextlsn": "0/6", "change": []}, by_transaction(("message", None, None))],
    "maxwell": [{"type": "database-create", "database": "s", "ts": 1764230000000, "sql": "create database s"}],
    "cockroachdb": [{"resolved": "1764230000000000009.0000000000"}],
    "mongodb": [{"operationType": "drop", "ns": {"db": "s", "coll": "cust"}}],
    "dms": [dms("create-table", kind="control")],
    "ticdc_simple": [{"version": 1, "type": "WATERMARK", "commitTs": 9, "buildTs": 1}, simple("BOOTSTRAP", 0)],
    "debezium": [{"op": "m", "before": None, "after": None, "source": {"connector": "postgresql", "lsn": 5}}],
}


@pytest.mark.parametrize("capture", ALONE)
def test_messages_that_come_before_any_row_make_no_table(capture: str) -> None:
    assert rows_of(*ALONE[capture], types={"id": "int"}) == Played()
    played = rows_of(*ALONE[capture], {"op": "t", "before": None, "after": None, "source": {}})
    assert played.refused == ["incompatible_schema"] and "truncates alone" in played.reasons[0]
    played = rows_of(*ALONE[capture], {"Records": [stream("MODIFY", 1)]})
    assert played.refused == ["unusable_schema"]


def test_times_may_have_the_zone_utc_or_one_of_hours_alone() -> None:
    times = (
        "2026-11-27 09:00:00.5 UTC",
        "2026-11-27 09:00:00.5+00",
        "2026-11-27 11:00:00.5+02",
        "2026-11-27T03:30:00.5-05:30",
    )
    assert {nanos(time) for time in times} == {moment_nanos(time) for time in times} == {1795770000500000000}


KEY_ALONE = {
    **{"database": "s", "table": "cust", "type": "UPDATE", "isDdl": False, "data": [{"id": "1"}]},
    "_tidb": {"commitTs": 1, "onlyHandleKey": True},
}
RANGE_DELETED = cassandra("r", 9, id=1)
RANGE_DELETED["after"] |= {".range_start": "INCL_START_BOUND(1)", ".range_end": "INCL_END_BOUND(1, 2)"}
REFUSED = {
    "spanner": ([debezium("spanner", "u", {"id": 1}, value_capture_type="NEW_VALUES")], "NEW_ROW"),
    "dynamodb_stream": ([stream("MODIFY", 1)], "StreamViewType"),
    "mongodb": ([mongo("update", 1, 1, updateDescription={"updatedFields": {"a.b": 1}})], "updateLookup"),
    "mongodb, an envelope": ([pre_image('{"a.b": 1}')], "updateLookup"),
    "cassandra": ([RANGE_DELETED], "generation"),
    "scylladb, a before alone": ([debezium("scylla", "u", None, WIDE, ts_us=2)], "legacy format: cdc.output.format"),
    "scylladb, a null of an advanced update": (
        [debezium("scylla", "u", {**WIDE, "n": None})],
        "legacy format: cdc.output.format",
    ),
    "cassandra, a collection": ([cassandra("u", 9, id=1, tags=["x"])], "field.exclude.list"),
    "qlik": ([masked("UPDATE", {**WIDE, "note": None}, "0B")], "supplemental"),
    "salesforce": ([salesforce("GAP_UPDATE", 1, "001")], "GAP_UPDATE"),
    "salesforce, fields by bits": ([salesforce("UPDATE", 1, "001", changedFields=["0x400002"], City="Y")], "bit"),
    "salesforce, a text's difference": ([salesforce("UPDATE", 1, "001", diffFields=["Note"], Note="@@ -1")], "bit"),
    "canal": ([KEY_ALONE], "max-message-bytes"),
    "ticdc_simple": ([{**simple("UPDATE", 2, data={"id": 1}), "handleKeyOnly": True}], "max-message-bytes"),
    "cockroachdb": ([cockroach(1, None, key=[1, 2])], "record_key"),
    "cockroachdb, a deletion of no row": ([cockroach(1, None)], "key_in_value"),
    "dynamodb_export": ([exported(1, OldImage={"other": {"N": "1"}}, Keys={"other": {"N": "1"}})], "record_key"),
}


@pytest.mark.parametrize("dialect", REFUSED)
def test_a_change_that_lacks_what_a_row_needs_is_set_aside_alone(dialect: str) -> None:
    records, step = REFUSED[dialect]
    dialect = dialect.partition(",")[0]
    (_, sound), *_ = [(case, rows) for case, rows in CASES.items() if case.startswith(dialect)] or [("", ([], []))]
    key = "_id" if dialect == "mongodb" else "Id" if dialect == "salesforce" else "id"
    played = rows_of(*records, *sound[0][:1], key=key)
    assert set(played.refused) == {"unusable_schema"} and step in played.reasons[0]


@pytest.mark.parametrize("around", ["payload", "detail", "detail.payload", "data.payload"])
def test_events_of_salesforce_may_lie_in_a_field_of_what_carried_them(around: str) -> None:
    record: Any = salesforce("CREATE", 1, "001", Name="A")
    for name in reversed(around.split(".")):
        record = {name: record, "id": "7", "schema": "s"}
    assert rows_of(record, key="Id").rows == [{"Id": "001", "Name": "A"}]


ENVELOPES = {
    "Azure SQL": {"id": 1, "specversion": "1.0", "logicalid": "a:0", "operation": "INS", "data": '{"eventrow": {}}'},
    "EventBridge": {"id": 1, "detail-type": "Order", "source": "shop", "detail": WIDE},
    "Hasura": {"id": 1, "event": {"op": "DELETE"}, "table": {"name": "cust"}, "trigger": {"name": "t"}},
    "Neo4j": {"id": 1, "txId": 5, "seq": 1, "event": {"operation": "d"}},
    "Datastream": {"id": 1, "object": "s_cust", "source_metadata": {"change_type": "INSERT"}, "payload": WIDE},
    "Cosmos DB": {"id": 1, "current": WIDE, "metadata": {"operationType": "create"}},
    "Spanner": {"id": 1, "modType": "INSERT", "rowType": [{}], "mods": [{"keysJson": "{}"}]},
    "Snowflake": {"id": 1, "RECORD_METADATA": {"offset": 1}, "RECORD_CONTENT": WIDE},
    "CockroachDB": {"id": 1, "payload": [{"after": WIDE, "key": [1]}], "length": 1},
    "CockroachDB's enriched": {"after": {}, "op": "d", "ts_ns": 1, "key": {"id": 1}},
    "wal-listener": {"id": "u", "schema": "s", "table": "t", "action": "INSERT", "data": WIDE, "commitTime": "2026"},
    "Prisma": {"id": "e", "modelName": "Cust", "action": "create", "created": WIDE},
    "Aerospike": {"id": 1, "msg": "delete", "key": ["ns", "set", "d", 1], "gen": 1, "exp": 0, "lut": 5},
    "CouchDB": {"id": "1", "seq": "5-g1", "changes": [{"rev": "1-a"}], "doc": WIDE},
    "Canal": {"id": 7, "database": "s", "table": "t", "type": "INSERT", "isDdl": False, "data": None},
    "rows before and after": {"id": 1, "old_val": None, "new_val": WIDE},
    "before and after": {"id": 1, "beforeData": None, "data": WIDE, "more": {"x": 1}},
    "of a capture": {"id": 1, "metadata": {"lsn": 5, "operation": "INSERT"}, "row": WIDE},
    "form `debezium`": {"id": 1, "value": json.dumps(debezium("postgresql", "c", WIDE))},
    "around changes": {"id": 1, "value": {"schema": {}, "payload": debezium("postgresql", "c", WIDE)}},
    "form `maxwell`": {"id": 1, "Message": json.dumps(maxwell("insert", 1, WIDE))},
}


@pytest.mark.parametrize("product", ENVELOPES)
def test_an_envelope_that_is_not_read_is_refused_by_its_products_name(product: str) -> None:
    played = rows_of(ENVELOPES[product])
    assert played.refused == ["deletions_unmarked"] and product in played.reasons[0]
    assert rows_of(ENVELOPES[product], delete_when="off").rows or "after" in ENVELOPES[product]


@pytest.mark.parametrize("format", ["csv", "parquet", "avro"])
def test_changes_as_text_in_a_column_are_no_rows_in_any_format(format: str) -> None:
    row = {"id": 1, "value": json.dumps(debezium("postgresql", "d", None, WIDE))}
    text = io.StringIO()
    csv.writer(text).writerows([[*row], [*row.values()]])
    bodies = {"csv": text.getvalue().encode(), "parquet": plain_parquet(row), "avro": in_avro(row)}
    played = taken(format, bodies[format])
    assert played.refused == ["deletions_unmarked"] and "form `debezium`" in played.reasons[0]


@pytest.mark.parametrize(
    "row",
    [
        {"old_address": {"x": 1}, "new_address": {"x": 2}},
        {"address": {"x": 1}, "previous_address": {"x": 2}},
        {"metadata": {"op_sys": "linux", "kind": "insert"}, "data": {"op": "insert"}},
        {"note": "{not JSON", "more": '{"before": 1, "after": 2}'},
    ],
)
def test_rows_with_fields_that_look_like_changes_are_rows(row: dict[str, Any]) -> None:
    assert rows_of({"id": 1, **row}).refused == []


@pytest.mark.parametrize("name", ["x.json", "x.json.gz", "x.json.zst"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("between", ["", "\n", ",\n", "]\n["])
def test_documents_may_have_several_lines_or_lie_in_an_array(name: str, indent: int | None, between: str) -> None:
    documents = [{"id": number, "name": "a} {\n", "more": {"x": [1, {"y": 2}]}} for number in (1, 2, 3)]
    text = between.join(json.dumps(document, indent=indent) for document in documents)
    body = (f"[{text}]" if between in (",\n", "]\n[") else text).encode()
    packed = {"gz": gzip.compress, "zst": lambda data: bytes(cramjam.zstd.compress(data)), "json": bytes}
    played = play({f"topics/s.cust/{name}": packed[name.rpartition(".")[2]](body)}, rules(PLAIN))
    assert ([row["id"] for row in played.rows], played.refused) == ([1, 2, 3], [])


def test_a_document_of_several_lines_that_is_cut_is_set_aside() -> None:
    body = b'{\n  "id": 1\n}\n{\n  "id": 2\n}\n{\n  "id": '
    played = taken("json", body)
    assert ([row["id"] for row in played.rows], played.refused) == ([1, 2], ["damaged_json"])


def test_zstd_beyond_the_limit_is_refused() -> None:
    body = bytes(cramjam.zstd.compress(b'{"id": 1}\n' * 10**6 * 7))
    with pytest.raises(ExpansionLimit):
        json_schemas(body, {}, Limits(decoded_bytes=64 * 1024**2))


@pytest.mark.parametrize("begin", [b"\0\0\0\0\x11", b"\x03\0" + b"u" * 16, b"\x03\x05" + b"u" * 16])
def test_messages_in_the_wire_format_of_a_registry_are_named(begin: bytes) -> None:
    for name in ("x.json", "x.avro"):
        played = play({f"topics/s.cust/{name}": begin + b"\x02\x02a"}, rules(PLAIN))
        assert "wire format" in played.reasons[0] and "AvroConverter" in played.reasons[0]


@pytest.mark.parametrize(("product", "field"), [("Spanner", "value_capture_type"), ("CockroachDB", "changefeed_sink")])
def test_changes_that_carry_a_schema_are_refused_by_their_products_name(product: str, field: str) -> None:
    fields = [{"field": "id", "type": "int64", "optional": True}]
    source = [{"field": name, "type": "string", "optional": True} for name in ("connector", field)]
    sides = [{"field": side, "type": "struct", "optional": True, "fields": fields} for side in ("before", "after")]
    place = {"field": "source", "type": "struct", "fields": source}
    schema = {"type": "struct", "name": "E", "fields": [*sides, place, {"field": "op", "type": "string"}]}
    played = rows_of({"schema": schema, "payload": debezium("x", "u", {"id": 1}, **{field: "y"})})
    assert played.refused == ["unusable_schema"] and product in played.reasons[0]


def test_what_no_row_shows_is_set_aside() -> None:
    row = {"table": "S.CUST", "op_ts": "2026-11-27 09:00:00", "pos": "9", "op_type": "K", "id": 5}
    played = rows_of(row, {**row, "op_type": "I"}, format="goldengate")
    assert (len(played.rows), played.refused) == (1, ["unusable_schema"]) and "delete-insert" in played.reasons[0]
    truncate = {key: value for key, value in row.items() if key != "id"} | {"op_type": "T"}
    marked = {"position": "pos", "delete_when": {"column": "op_type", "values": ["D"]}}
    bodies = {f"topics/s.cust/{n}.json": lines(it) for n, it in enumerate(({**row, "op_type": "I"}, truncate))}
    played = play(bodies, rules({**PLAIN, **marked}))
    assert (len(played.rows), played.refused) == (1, ["unordered_change"]) and "truncate" in played.reasons[0]


@pytest.mark.parametrize("by_rule", [False, True])
def test_updates_that_lack_columns_or_hold_their_mark_are_read_from_json_alone(by_rule: bool) -> None:
    of_maxwell = {**maxwell("update", 2, {"id": 1, "name": "b"}), "old": {"name": "a"}}
    for record, own in ((of_maxwell, "maxwell"), (estuary("d", 1, WIDE), "estuary")):
        played = taken("parquet", plain_parquet(record), **({"format": own} if by_rule else {}))
        assert played.refused == ["unusable_schema" if by_rule else "deletions_unmarked"]


def in_avro(record: dict[str, Any], *records: dict[str, Any], row: Any = None) -> bytes:
    """Avro of records whose fields are those of the first; `row` are the fields of those that are rows."""
    kinds: dict[type, str] = {str: "string", int: "long", bool: "boolean"}
    types: list[Any] = [kinds.get(type(value), "Row") for value in record.values()]
    if "Row" in types:
        types[types.index("Row")] = {"type": "record", "name": "Row", "fields": row}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in zip(record, types)]
    body = io.BytesIO()
    fastavro.writer(body, {"type": "record", "name": "Change", "fields": fields}, [record, *records])
    return body.getvalue()


PRICED = [
    {"name": "id", "type": ["null", "long"]},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
]


def priced(id: int, price: str | None = None) -> dict[str, Any]:
    return {"id": id, "at": datetime(2026, 11, 27), "price": None if price is None else Decimal(price)}


def test_operations_of_goldengate_in_avro_keep_their_types() -> None:
    changes = [
        goldengate("I", 1, before=None, after=priced(1, "1.50")),
        goldengate("I", 2, before=None, after=priced(2, "1.50")),
        goldengate("U", 3, before=priced(2, "1.50"), after=priced(5, "2.50")),
        goldengate("D", 4, before=priced(1, "1.50"), after=None),
    ]
    played = taken("avro", in_avro(*changes, row=PRICED), format="goldengate")
    assert played.refused == [], played.reasons
    assert [(row["id"], row["price"]) for row in played.rows] == [(5, Decimal("2.50"))]


def test_rows_of_goldengate_in_avro_lose_their_metadata() -> None:
    rule = {**PLAIN, "topic": "oggrow.cust", "record_key": "ID", "key_pattern": "oggrow/.*", "format": "goldengate"}
    played = play(objects_of("ogg_avro_row"), rules(rule))
    assert played.rows == [{"ID": 1.0, "NAME": "Anna3"}, {"ID": 3.0, "NAME": "Cara"}], played.reasons


def test_an_update_that_sql_server_logs_as_insertion_and_deletion_keeps_its_row():
    place = {"__$start_lsn": "0x0000002A", "__$seqval": "0x01"}
    rows = [{"id": 1, "__$operation": operation, **place} for operation in (2, 1)]
    rule = {"position": ["___start_lsn", "___seqval"], "delete_when": {"column": "___operation", "values": [1]}}
    assert [row["id"] for row in rows_of(*rows, **rule).rows] == [1]
    assert rows_of(*rows, **{**rule, "position": "___start_lsn"}).rows == []  # the order of a transaction's rows


def test_columns_that_the_trail_lacks_stay_as_they_are() -> None:
    row: list[Any] = [{"name": name, "type": ["null", "string"]} for name in ("id", "a", "b")]
    row.append({"name": "b_isMissing", "type": "boolean"})
    changes = [
        goldengate("I", 1, before=None, after={"id": "1", "a": "x", "b": "y", "b_isMissing": False}),
        goldengate("U", 2, before=None, after={"id": "1", "a": "z", "b": None, "b_isMissing": True}),
    ]
    played = taken("avro", in_avro(*changes, row=row), format="goldengate")
    assert played.rows == [{"id": "1", "a": "z", "b": "y"}], played.reasons


def test_wrapped_changes_of_cockroachdb_in_avro_are_read() -> None:
    changes = [
        {"after": after, "before": before, "updated": f"1764230000000000000.000000000{at}"}
        for at, after, before in ((1, priced(1, "1.50"), None), (3, None, priced(1, "1.50")), (2, priced(2), None))
    ]
    played = taken("avro", in_avro(*changes, row=PRICED), format="cockroachdb")
    assert ([row["id"] for row in played.rows], played.refused) == ([2], []), played.reasons


def test_flattened_records_of_airbyte_lose_their_metadata() -> None:
    row = {"id": 1, "name": "a", "_ab_cdc_lsn": 5, "_airbyte_raw_id": "r", "_ab_cdc_deleted_at": "2026"}
    alive = {**row, "id": 2, "_ab_cdc_deleted_at": None}
    for ending, body in {"json": lines(row, alive), "avro": in_avro(row, alive)}.items():
        played = taken(ending, body, format="airbyte")
        assert (played.rows, played.refused) == ([{"id": 2, "name": "a"}], []), played.reasons


PATHS = {"row": "payload.after", "before": "payload.before", "key": "meta.key", "order": "meta.seq"}


def of_spanner(at: int, kind: str, key: Any, row: Any) -> dict[str, Any]:
    mods = [{"keysJson": json.dumps(key), "newValuesJson": json.dumps(row), "oldValuesJson": "{}"}]
    return {"commitTimestamp": f"2026-11-27T09:00:0{at}Z", "recordSequence": "00000000", "modType": kind, "mods": mods}


BY_PATHS = {  # rules of docs/producing.md
    "Datastream": (
        {"row": "payload", "order": "source_timestamp"},
        {"column": "source_metadata.change_type", "values": ["DELETE"]},
        [
            {"source_timestamp": f"2026-11-27T09:00:0{at}.5", "source_metadata": {"change_type": kind}, "payload": row}
            for at, kind, row in (
                (3, "DELETE", {**WIDE, "id": 2}),
                (2, "INSERT", {**WIDE, "id": 2}),
                (1, "INSERT", WIDE),
            )
        ],
    ),
    "Cosmos DB": (
        {"row": "current", "before": "previous", "order": "metadata.lsn"},
        {"column": "metadata.operationType", "values": ["delete"]},
        [
            {"current": {}, "previous": {**WIDE, "id": 2}, "metadata": {"operationType": "delete", "lsn": 3}},
            {"current": {**WIDE, "id": 2}, "previous": {}, "metadata": {"operationType": "create", "lsn": 2}},
            {"current": WIDE, "previous": {}, "metadata": {"operationType": "create", "lsn": 1}},
        ],
    ),
    "Spanner": (
        {"list": "mods", "row": "newValuesJson", "key": "keysJson", "order": ["commitTimestamp", "recordSequence"]},
        {"column": "modType", "values": ["DELETE"]},
        [
            of_spanner(2, "DELETE", {"id": 2}, {}),
            of_spanner(1, "INSERT", {"id": 2}, {}),
            of_spanner(1, "INSERT", {}, WIDE),
        ],
    ),
}


@pytest.mark.parametrize("product", BY_PATHS)
def test_a_rule_by_paths_reads_the_changes_of_a_product_without_a_name(product: str) -> None:
    paths, marks, changes = BY_PATHS[product]
    played = rows_of(*changes, change=paths, delete_when=marks)
    assert (played.rows, played.refused) == ([WIDE], []), played.reasons


def path_change(at: Any, op: str, after: Any, before: Any = None, key: Any = None) -> dict[str, Any]:
    return {"payload": {"after": after, "before": before, "op": op}, "meta": {"seq": at, "key": key}}


def test_a_rule_by_paths_says_where_a_change_lies() -> None:
    changes = [
        path_change(5, "D", None, key={"id": 3}),
        path_change(4, "U", {**WIDE, "id": 9}, {"id": 2}),
        path_change(3, "C", [{**WIDE, "id": 3}, {**WIDE, "id": 4}]),
        path_change(2, "C", json.dumps({**WIDE, "id": 2})),
        path_change(1, "C", WIDE),
        path_change(6, "X", WIDE),
    ]
    marked = {"column": "payload.op", "values": ["D", "X"]}
    played = rows_of(*changes, change=PATHS, delete_when=marked)
    assert (played.rows, played.refused) == ([{**WIDE, "id": 4}, {**WIDE, "id": 9}], []), played.reasons
    by_row = rows_of(*changes[:-1], change=PATHS)
    assert by_row.rows == played.rows + [WIDE] or by_row.rows == [WIDE, *played.rows]


@pytest.mark.parametrize(("condition", "alive"), [("not null", [1]), ("null", [2])])
def test_a_rule_by_paths_marks_deletions_by_null_too(condition: str, alive: list[int]) -> None:
    changes = [
        {"payload": {"after": {"id": 1}, "gone": None}, "meta": {"seq": "2026-11-27T09:00:00Z"}},
        {"payload": {"after": {"id": 2}, "gone": "2026"}, "meta": {"seq": "2026-11-27T09:00:01Z"}},
    ]
    rule = {"row": "payload.after", "order": "meta.seq"}
    played = rows_of(*changes, change=rule, delete_when={"column": "payload.gone", "is": condition})
    assert ([row["id"] for row in played.rows], played.refused) == (alive, [])


def test_a_list_of_changes_lies_at_a_path() -> None:
    record = {"xid": 7, "events": [{"new": WIDE, "n": 1}, {"new": {"id": 1, "n": 2}, "n": 2}]}
    rule = {"row": "new", "list": "events", "order": ["xid", "n"]}
    assert rows_of(record, change=rule).rows == [{"id": 1, "name": None, "note": None, "n": 2}]
    assert rows_of(record, change={**rule, "partial": True}).rows == [{**WIDE, "n": 2}]
    assert rows_of({"events": []}, record, change=rule).refused == []


# By default Spanner has the new values of the modified columns alone (OLD_AND_NEW_VALUES), and Supabase's messages lack
# unchanged large values: https://cloud.google.com/spanner/docs/change-streams, .../guides/realtime/postgres-changes
@pytest.mark.parametrize(
    ("name", "change"),
    [
        (
            "spanner_dataflow",
            {
                **{"commitTimestamp": "2026-11-28T09:00:00Z", "recordSequence": "00000000", "modType": "UPDATE"},
                "mods": [{"keysJson": '{"id": "4"}', "newValuesJson": '{"name": "Dora"}'}],
            },
        ),
        (
            "supabase_realtime",
            {
                **{"type": "UPDATE", "commit_timestamp": "2026-11-28T09:00:00Z", "schema": "s", "table": "cust"},
                **{"record": {"id": 4, "name": "Dora"}, "old_record": {"id": 4}},
            },
        ),
    ],
)
def test_columns_that_a_products_updates_leave_out_stay(name: str, change: dict[str, Any]) -> None:
    late = {"topics/s.cust/partition=0/s.cust+0+0000000900.json": lines(change)}
    played = play({**objects_of(name), **late}, rules(SAMPLES[name]["rule"]))
    row = next(row for row in played.rows if str(row["id"]) == "4")
    assert (row["name"], row["note"]) == ("Dora", "z"), played.reasons


@pytest.mark.parametrize("value", ["soon", None, -1, 1.5, True, "9" * 41])
def test_a_change_without_an_order_is_set_aside(value: Any) -> None:
    played = rows_of(path_change(1, "C", WIDE), path_change(value, "C", {**WIDE, "id": 2}), change=PATHS)
    assert (played.rows, played.refused) == ([WIDE], ["unusable_schema"]) and "meta.seq" in played.reasons[0]


def test_paths_read_records_with_types_too() -> None:
    body = in_avro({"new": priced(1, "1.50"), "seq": 2}, {"new": priced(1, "2.50"), "seq": 1}, row=PRICED)
    change = {"row": "new", "order": "seq"}
    played = taken("avro", body, change=change)
    assert [(row["id"], row["price"]) for row in played.rows] == [(1, Decimal("1.50"))], played.reasons
    table = pa.table({"new": pa.array([{"id": 1, "at": datetime(2026, 11, 27)}], PARQUET_ROW), "seq": [1]})
    played = taken("parquet", parquet(table), change=change)
    assert [row["id"] for row in played.rows] == [1], played.reasons


PARQUET_ROW = pa.struct([("id", pa.int64()), ("at", pa.timestamp("ms"))])


def test_nothing_is_said_of_offsets_for_a_full_export_whose_folder_has_its_time() -> None:
    key = "topics/s.cust/AWSDynamoDB/01764230000000-a/data/x.json"
    assert not any("offset" in note for note in proposed({key: lines({"Item": typed(id=1)})}).notes)


# In https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html the id of an export,
# 01695097218000-d6299cbd, is its startTime, 04:20:18; exportToTime, until which it has changes, is 04:00:00.
def test_a_full_export_loses_to_changes_between_its_time_and_its_begin() -> None:
    began_ms = 1764230000000
    folders = "topics/s.cust/AWSDynamoDB"
    items = {
        f"{folders}/0{began_ms}-a/data/x.json": lines({"Item": typed(id=1, name="as of its ExportTime")}),
        f"{folders}/0{began_ms - 60_000}-b/data/x.json": lines({"Item": typed(id=1, name="of an earlier export")}),
    }
    assert [row["name"] for row in play(items, rules(PLAIN)).rows] == ["as of its ExportTime"]
    change = exported(-600_000_000, NewImage=typed(id=1, name="ten minutes before its begin"))
    items[f"{folders}/0{began_ms + 1}-c/data/y.json"] = lines(change)
    assert [row["name"] for row in play(items, rules(PLAIN)).rows] == ["ten minutes before its begin"]


def proposed(bodies: dict[str, bytes]) -> Proposal:
    s3 = HeldObjects()
    for key, body in bodies.items():
        s3.put_object("bronze", key, body)
    records = [PendingObject("bronze", key, "v", 1, None, "json", "s.cust", None, None, 0) for key in bodies]
    return propose(sample_topic(Objects(s3), "s.cust", records, Reach(10)))


@pytest.mark.parametrize("name", ["wal_listener", "flink_canal_json", "striim"])
def test_a_proposal_says_by_which_rule_the_records_of_a_known_product_are_read(name: str) -> None:
    notes = " ".join(proposed(objects_of(name)).notes)
    assert SAMPLES[name]["named"] in notes
    assert all(written_in(notes, word, SAMPLES[name]["rule"]) for word in ("change", "delete_when"))


@pytest.mark.parametrize("case", CASES)
def test_a_proposed_rule_names_the_form_of_the_changes(case: str) -> None:
    records, rows = CASES[case]
    rule = proposed({"topics/s.cust/s.cust+0+0.json": lines(*records)})
    assert rule.format == case.partition(",")[0] and not rule.merged


@pytest.mark.parametrize(
    ("tables", "merged"),
    [
        ((("a", "cust"), ("b", "cust")), True),
        ((("s", "sales_p2026_01"), ("s", "sales_p2026_02")), True),
        ((("s", "cust"), ("s", "orders")), False),
        ((("s", "cust"), ("s", "cust")), False),
    ],
)
def test_a_proposed_rule_merges_source_tables_that_seem_to_be_one(tables: Any, merged: bool) -> None:
    changes = [
        debezium("postgresql", "c", {**WIDE, "id": number}, lsn=number, db=db, table=table)
        for number, (db, table) in enumerate(tables)
    ]
    rule = proposed({"topics/s.cust/s.cust+0+0.json": lines(*changes)})
    assert rule.merged == merged and rule.format is None
    assert any("source tables" in note for note in rule.notes) == (len(set(tables)) > 1)
    written = whole_text([rule])
    assert ("  merged: true\n" in written) == merged


def test_changes_of_two_tables_with_other_types_are_refused_for_their_tables() -> None:
    values = (("cust", "text"), ("orders", 5))
    changes = [debezium("postgresql", "c", {"id": 1, "v": value}, table=table) for table, value in values]
    played = rows_of(*changes)
    assert played.refused == ["other_source_table"] and "s..orders" in played.reasons[0]
    assert rows_of(*changes, merged=True).refused == ["incompatible_schema"]


def test_documents_as_text_in_avro_are_read_where_a_rule_names_them() -> None:
    changes = [as_texts(mongo("insert", at, 1, {"_id": 1, "name": name})) for at, name in ((2, "b"), (1, "a"))]
    names = ("_id", "operationType", "fullDocument", "documentKey", "clusterTime", "ns")
    fields = [{"name": name, "type": ["null", "string"]} for name in ("db", "coll")]
    body = in_avro(*({name: change[name] for name in names} for change in changes), row=fields)
    assert taken("avro", body, record_key="_id").refused == ["deletions_unmarked"]
    assert taken("avro", body, record_key="_id", format="mongodb").rows == [{"_id": 1, "name": "b"}]


def test_rows_as_text_in_other_formats_are_read_as_json_where_a_rule_names_them() -> None:
    rule = {**SAMPLES["peerdb_avro"]["rule"], "format": "peerdb"}
    rule = {name: value for name, value in rule.items() if name not in ("position", "delete_when")}
    played = play(objects_of("peerdb_avro"), rules(rule))
    assert [[row["id"], row["name"]] for row in played.rows] == RIGHT, played.reasons
    records = [airbyte(1, WIDE, text=True, _ab_cdc_lsn=1), airbyte(2, {**WIDE, "id": 2}, text=True, _ab_cdc_lsn=2)]
    records.append(airbyte(3, WIDE, deleted=True, text=True, _ab_cdc_lsn=3))
    text = io.StringIO()
    writer = csv.DictWriter(text, records[0])
    writer.writeheader()
    writer.writerows(records)
    played = taken("csv", text.getvalue().encode(), format="airbyte")
    assert (played.rows, played.refused) == ([{**WIDE, "id": 2}], []), played.reasons
