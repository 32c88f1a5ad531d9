"""Changes of other captures, by their fields or by the rule's `format`: Maxwell's and Canal's, TiCDC's among them.

The samples are made by the products' documentation.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bad_input import plain_parquet
from support.captures import play, rules
from support.shapes import config, item, json_rows, lines, picked

from sluice.changes.dialects.registry import DIALECTS
from sluice.config.delete_when import DeleteWhen
from sluice.errors import UnusableSchema
from sluice.schema.avro import read_writer_schema
from sluice_formats.decode import decode, schemas_of
from sluice_formats.errors import DeletionsUnmarked
from sluice_formats.records import ReaderPlan


def maxwell(op: str, at: int | None, data: Any, old: Any = None, **more: Any) -> dict[str, Any]:
    position = {} if at is None else {"position": f"master.000006:{at}", "server_id": 23042}
    place = {"database": "shop", "table": "cust", "type": op, "ts": 1764230000, **position}
    return {**place, "data": data, **({} if old is None else {"old": old}), **more}


def canal(op: str, *rows: Any, old: Any = None, commit: int | None = None, **more: Any) -> dict[str, Any]:
    """A flat message; with the extension of TiCDC where it has a commit."""
    extension = {} if commit is None else {"_tidb": {"commitTs": commit}}
    return {
        **{"id": 0, "database": "shop", "table": "cust"},
        "pkNames": ["id"],
        "isDdl": False,
        "type": op,
        "es": 1764230000000,
        "ts": 1764230000009,
        "sql": "",
        "sqlType": {"id": 4, "name": 12},
        "mysqlType": {"id": "int", "name": "varchar(20)"},
        "data": list(rows) or None,
        "old": old,
        **extension,
        **more,
    }


STORY = {
    "maxwell": lines(
        maxwell("insert", 10, {"id": 1, "name": "Anna"}),
        maxwell("insert", 11, {"id": 2, "name": "Bob"}),
        maxwell("update", 12, {"id": 1, "name": "Anna2"}, {"name": "Anna"}),
        maxwell("delete", 13, {"id": 2, "name": "Bob"}),
    ),
    "canal": lines(
        canal("INSERT", {"id": "1", "name": "Anna"}, {"id": "2", "name": "Bob"}, commit=10),
        canal("UPDATE", {"id": "1", "name": "Anna2"}, old=[{"name": "Anna"}], commit=12),
        canal("DELETE", {"id": "2", "name": "Bob"}, commit=13),
    ),
}
ROWS = [(1, "Anna", "c", False), (2, "Bob", "c", False), (1, "Anna2", "u", False), (2, "Bob", "d", True)]


@pytest.mark.parametrize("name", STORY)
def test_the_rows_of_a_dialect_are_those_in_its_field(name: str) -> None:
    rows = json_rows(STORY[name])
    assert picked(rows, "id", "name", "_sluice_op", "__deleted") == ROWS
    positions = [row["_sluice_position"] for row in rows]
    assert positions == sorted(positions) and all(row["_sluice_source_ts_ms"] == 1764230000000 for row in rows)
    assert not {"database", "type", "data", "ts"} & rows[0].keys()


@pytest.mark.parametrize("name", STORY)
def test_a_rule_names_its_dialect_and_refuses_other_records(name: str) -> None:
    table = config(format=name)
    assert (table.dialect, table.file_format) == (DIALECTS[name], None)
    (schema,), inferred = schemas_of(STORY[name], "json", table)
    assert inferred and {"before", "after", "source", "op"} <= {field["name"] for field in schema["fields"]}
    with pytest.raises(UnusableSchema, match=name):
        schemas_of(lines({"id": 1}), "json", table)


def test_the_position_of_maxwells_changes_is_that_of_the_binlog() -> None:
    positions = [row["_sluice_position"].split(".")[1:4] for row in json_rows(STORY["maxwell"])]
    assert [(int(file), int(pos)) for file, pos, _ in positions] == [(6, 10), (6, 11), (6, 12), (6, 13)]


def test_a_bootstrap_supplies_rows_from_before_the_log() -> None:
    bootstrap = [maxwell("bootstrap-start", None, {}), maxwell("bootstrap-insert", None, {"id": 1, "name": "x"})]
    rows = json_rows(lines(*bootstrap, maxwell("update", 12, {"id": 1, "name": "y"}, {"name": "x"})))
    assert picked(rows, "id", "_sluice_op") == [(None, "m"), (1, "r"), (1, "u")]
    assert rows[1]["_sluice_position"] < rows[2]["_sluice_position"]


@pytest.mark.parametrize(
    "record",
    [
        maxwell("update", 12, {"id": 5, "name": "Bob"}, {"id": 2}),
        canal("UPDATE", {"id": "5", "name": "Bob"}, old=[{"id": "2"}], commit=12),
    ],
    ids=["maxwell", "canal"],
)
def test_an_update_of_the_key_deletes_the_former_row(record: Any) -> None:
    rows = json_rows(lines(record))
    assert picked(rows, "id", "name", "__deleted") == [(2, "Bob", True), (5, "Bob", False)]
    assert picked(json_rows(lines(record), config("name")), "id", "_sluice_op") == [(5, "u")]


def test_several_rows_of_one_record_have_its_offset() -> None:
    several = canal("INSERT", {"id": "1"}, {"id": "2"}, {"id": "3"})
    body = lines(several, {**canal("DELETE", {"id": "1"}), "id": 1})
    rows = json_rows(body, at=item("json", offset=500))
    assert picked(rows, "id", "_sluice_offset") == [(1, 500), (2, 500), (3, 500), (1, 501)]
    table = config()
    (schema,), _ = schemas_of(body, "json", table)
    at = item("json", offset=500)
    plan = ReaderPlan(table, batch="b", columns=(), inferred={at.id.hash: json.dumps(schema)})
    assert decode(body, at, plan).seen.last == 501


def test_statements_are_messages_and_a_truncate_is_one() -> None:
    statement = canal("ALTER", isDdl=True, sql="alter table cust add n int")
    truncate = canal("TRUNCATE", isDdl=True, sql="truncate table cust")
    rows = json_rows(lines(canal("INSERT", {"id": "1", "name": "a"}), statement, truncate))
    assert [row["_sluice_op"] for row in rows] == ["c", "m", "t"]


def test_numbers_of_canal_are_numbers_where_mysql_has_whole_ones() -> None:
    kinds = {"id": "bigint(20) unsigned", "n": "decimal(10,2)", "y": "YEAR", "v": "varchar(9)", "none": "int"}
    row = {"id": "18446744073709551615", "n": "1.50", "y": "2026", "v": "7", "none": None}
    (read_row,) = json_rows(lines(canal("INSERT", row, mysqlType=kinds)))
    assert picked([read_row], "id", "n", "y", "v") == [("18446744073709551615", "1.50", 2026, "7")]


@pytest.mark.parametrize(
    "settings",
    [{"shape": "plain"}, {"append_only": True}, {"delete_when": DeleteWhen(on=False)}],
    ids=lambda settings: str(*settings),
)
def test_a_rule_that_says_so_has_the_fields_as_columns(settings: Any) -> None:
    (schema,), _ = schemas_of(STORY["maxwell"], "json", config("ts", **settings))
    assert {"database", "table", "type", "data"} <= {field["name"] for field in schema["fields"]}


@pytest.mark.parametrize(
    "row",
    [
        {"database": "a", "table": "b", "type": "insert", "ts": 1},
        {"database": "a", "table": "b", "type": "other", "ts": 1, "data": {"x": 1}},
        {"id": 1, "type": "UPDATE", "data": "x", "database": "a", "table": "b", "isDdl": False},
    ],
)
def test_rows_with_some_of_a_dialects_fields_are_rows(row: Any) -> None:
    assert not any(dialect.recognises(row) for dialect in DIALECTS.values())


def cockroach(op: str, after: Any, clock: str, **more: Any) -> dict[str, Any]:
    source = {"origin": "cockroachdb", "database_name": "shop", "schema_name": "public", "table_name": "cust"}
    source |= {"primary_keys": ["id"], "mvcc_timestamp": clock}
    return {"op": op, "after": after, "before": None, "ts_ns": 7, "source": source, **more}


@pytest.mark.parametrize("key", [{"id": 2}, [2]], ids=["named", "by its place"])
def test_a_deletion_of_cockroachdb_has_its_key_beside_it(key: Any) -> None:
    changes = [
        cockroach("c", {"id": 2, "name": "Bob"}, "1764230000000000000.0000000002", key=key),
        cockroach("d", None, "1764230000000000000.0000000010", key=key),
    ]
    rows = json_rows(lines(*changes))
    assert picked(rows, "id", "__deleted") == [(2, False), (2, True)]
    assert rows[0]["_sluice_source_ts_ms"] == 1764230000000
    assert rows[0]["_sluice_position"] < rows[1]["_sluice_position"]


def cells(**values: Any) -> dict[str, Any]:
    return {name: None if value == "unset" else {"value": value, "set": True} for name, value in values.items()}


def yugabyte(op: str, before: Any, after: Any) -> dict[str, Any]:
    source = {"connector": "yugabytedb", "lsn": "1:2::0:0", "table": "cust"}
    return {"before": before, "after": after, "source": source, "op": op}


def test_the_columns_of_yugabytedb_are_their_values() -> None:
    changes = [yugabyte("c", None, cells(id=1, name="a")), yugabyte("d", cells(id=1, name="unset"), None)]
    assert picked(json_rows(lines(*changes)), "id", "name", "__deleted") == [(1, "a", False), (1, None, True)]


@pytest.mark.parametrize("beside", [[], [{"name": "_range_start", "type": ["null", "string"]}]])
def test_cells_of_yugabytedb_with_a_schema_are_refused_by_name(beside: list[Any]) -> None:
    of_cell = [{"name": "value", "type": "int"}, {"name": "set", "type": "boolean"}]
    cell = {"type": "record", "name": "Cell", "fields": of_cell}
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": ["null", cell]}, *beside]}
    source = {"type": "record", "name": "Source", "fields": [{"name": "table", "type": "string"}]}
    fields = [{"name": "after", "type": ["null", row]}, {"name": "before", "type": ["null", "Row"]}]
    fields += [{"name": "source", "type": source}, {"name": "op", "type": "string"}]
    with pytest.raises(UnusableSchema, match="YugabyteDB"):
        read_writer_schema({"type": "record", "name": "Envelope", "fields": fields})


WRAPPED = {
    "Airbyte": {"_airbyte_raw_id": "0a", "_airbyte_extracted_at": 1, "_airbyte_data": {"id": 1}},
    "PeerDB": {"_peerdb_uid": "u", "_peerdb_timestamp": 1, "_peerdb_data": '{"id":1}', "_peerdb_record_type": 0},
    "Salesforce": {"ChangeEventHeader": {"recordIds": ["001"], "changeType": "DELETE"}, "id": 1},
    "GoldenGate": {"table": "S.T", "op_type": "D", "op_ts": "2026", "pos": "1", "before": {"id": 1}},
    "MongoDB": {"operationType": "delete", "ns": {"db": "a"}, "documentKey": {"_id": 1}},
    "DynamoDB's incremental": {"Metadata": {"WriteTimestampMicros": {"N": "1"}}, "Keys": {"id": {"N": "1"}}},
    "DynamoDB's exports": {"Item": {"id": {"N": "1"}}},
    "DynamoDB's streams": {"eventID": "1", "eventName": "INSERT", "dynamodb": {"Keys": {"id": {"N": "1"}}}},
    "wal2json": {"action": "D", "schema": "public", "table": "t", "identity": [{"name": "id", "value": "1"}]},
    "CockroachDB": {"after": {"id": 1}, "key": [1], "updated": "1.0"},
}
AIVEN = {"key": {"id": 1}, "value": {"id": 1}, "offset": 0, "timestamp": "2026-11-27T09:00:00Z"}


@pytest.mark.parametrize("product", WRAPPED)
def test_a_known_form_in_parquet_is_refused_by_its_name(product: str) -> None:
    body = plain_parquet(WRAPPED[product])
    rule = {"topic": "x", "table": "d.t", "record_key": "id"}
    played = play({"topics/x/a.parquet": body}, rules(rule))
    assert played.refused == ["deletions_unmarked"] and product in played.reasons[0]
    taken = play({"topics/x/a.parquet": body}, rules({**rule, "append_only": True, "record_key": []}))
    assert taken.refused == []


def test_records_beside_their_kafka_keys_are_refused_by_name() -> None:
    with pytest.raises(DeletionsUnmarked, match="Aiven"):
        json_rows(lines(AIVEN), config("id", delete_when=DeleteWhen(column="op", values=("D",))))
    assert len(json_rows(lines(AIVEN), config("key", delete_when=DeleteWhen(on=False)))) == 1


def test_rows_with_columns_of_those_names_are_rows() -> None:
    for row in ({"Item": "a", "id": 1}, {"key": "k", "value": {"x": 1}, "id": 1}, {"after": {"x": 1}, "id": 1}):
        assert len(json_rows(lines(row))) == 1
