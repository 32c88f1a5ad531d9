"""Debezium's changes in the envelope of CloudEvents, and rows of others that store events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.shapes import config, json_rows, lines, picked

from sluice.config.delete_when import DeleteWhen
from sluice.errors import UnusableSchema
from sluice.schema.avro import ENVELOPE, read_writer_schema
from sluice_formats.errors import DeletionsUnmarked
from sluice_formats.json.records import json_schemas


def event(op: str, lsn: int, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"name:x;lsn:{lsn}",
        **{"source": "/debezium/postgresql/x", "type": "io.debezium.connector.postgresql.DataChangeEvent"},
        **{"specversion": "1.0", "time": "2026-11-27T10:12:50.337Z", "datacontenttype": "application/json"},
        **{"iodebeziumop": op, "iodebeziumlsn": str(lsn), "iodebeziumtsms": "1795774370337"},
        **{"iodebeziumtxid": None, "iodebeziumtxId": "1125"},
        "data": {"before": before, "after": after},
        **more,
    }


def test_the_row_is_that_of_the_data_and_the_order_that_of_the_log() -> None:
    made = [event(op, lsn, after={"id": 1, "v": value}) for op, lsn, value in (("r", 5, "a"), ("u", 9, "b"))]
    rows = json_rows(lines(*made, event("d", 12, before={"id": 1, "v": None})))
    assert picked(rows, "id", "v", "__deleted", "_sluice_op", "_sluice_source_ts_ms") == [
        (1, "a", False, "r", 1795774370337),
        (1, "b", False, "u", 1795774370337),
        (1, None, True, "d", 1795774370337),
    ]
    assert [row["_sluice_position"].split(".")[1].lstrip("0") for row in rows] == ["5", "9", "12"]
    (schema,), _ = json_schemas(lines(event("c", 5, after={"id": 1})), {}, config().limits)
    assert read_writer_schema(schema).shape == ENVELOPE and read_writer_schema(schema).row.names == ("id",)


def test_documents_of_mongodb_are_those_in_the_texts_of_the_data() -> None:
    order = {"iodebeziumtsms": "1795774370337", "iodebeziumcollection": "cust", "iodebeziumlsn": None}
    events = [
        event("r", 0, after='{"_id": {"$oid": "6a"}, "n": 1}', iodebeziumord="-1", **order),
        event("u", 0, after='{"_id": {"$oid": "6a"}, "n": 2}', iodebeziumord="3", **order),
        event("d", 0, before='{"_id": {"$oid": "6a"}, "n": 2}', iodebeziumord="4", **order),
    ]
    rows = json_rows(lines(*events), config("_id"))
    assert picked(rows, "_id", "n", "__deleted") == [("6a", 1, False), ("6a", 2, False), ("6a", 2, True)]
    positions = [row["_sluice_position"] for row in rows]
    assert positions == sorted(positions) and positions[0].split(".")[1] == f"{1795774370337 - 60_000:020d}"


def test_data_with_its_schema_is_read_by_its_payload() -> None:
    wrapped = event("c", 5)
    wrapped["data"] = {"schema": {"type": "struct"}, "payload": {"before": None, "after": {"id": 4}}}
    assert picked(json_rows(lines(wrapped)), "id") == [(4,)]


def test_an_event_without_its_operation_is_refused_by_name() -> None:
    plain = {name: value for name, value in event("c", 5, after={"id": 1}).items() if not name.startswith("iode")}
    with pytest.raises(UnusableSchema, match="CloudEvents"):
        json_schemas(lines(plain), {}, config().limits)


def test_another_form_than_json_is_refused_by_name() -> None:
    fields = [{"name": name, "type": "string"} for name in ("id", "source", "specversion", "data", "iodebeziumop")]
    with pytest.raises(UnusableSchema, match="CloudEvents"):
        read_writer_schema({"type": "record", "name": "CloudEvents", "fields": fields})


def test_events_of_others_are_rows_where_a_rule_says_so() -> None:
    own = {"id": "e1", "source": "/shop", "specversion": "1.0", "type": "shop.order", "data": {"n": 1}}
    with pytest.raises(DeletionsUnmarked, match="CloudEvents"):
        json_rows(lines(own))
    (row,) = json_rows(lines(own), config(delete_when=DeleteWhen(on=False)))
    assert (row["id"], json.loads(row["data"])) == ("e1", {"n": 1})
