"""Deletions under PostgreSQL's REPLICA IDENTITY USING INDEX, in every form of an object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bad_input import plain_parquet
from support.builders import avro_object, change, flattened
from support.shapes import config, json_rows, lines, picked, read, rows_in, wrapped

from sluice.batch.row_errors import RowError
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig

SCHEMA = flattened({"id": "int", "code": "string", "note": ["null", "string"], "n": ["null", "int"]})
GENUINE = {
    "the key alone": {"id": 0, "code": "", "note": None, "n": None},
    "the whole row": {"id": 0, "code": "x0", "note": "n", "n": None},
    "the whole row of another key": {"id": 3, "code": "x0", "note": "n", "n": 1},
}
LACKING = {"id": 0, "code": "x4", "note": None, "n": None}


def envelope(op: str, lsn: int, **row: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "ts_ms": 5, "lsn": lsn, "db": "d", "schema": "public", "table": "t"}
    before, after = (row, None) if op == "d" else (None, row)
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 6}


CONNECT = {
    "type": "struct",
    "optional": False,
    "name": "v",
    "fields": [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": False, "field": "code"},
        {"type": "string", "optional": True, "field": "note", "default": "none"},
        {"type": "int32", "optional": True, "field": "n"},
        {"type": "string", "optional": True, "field": "__op"},
        {"type": "string", "optional": True, "field": "__deleted"},
        {"type": "int64", "optional": True, "field": "__lsn"},
    ],
}


def merged(
    form: str, *rows: dict[str, Any], table: TableConfig | None = None
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The keys of the rows that are merged, with whether they are deletions, and the codes of the others."""
    table = table or config("id")
    bad: list[RowError] = []
    made = [
        change(op=op, lsn=9 + at, **row)
        for at, (op, row) in enumerate((row.pop("op", "d"), row) for row in map(dict, rows))
    ]
    if form == "json":
        read_rows = json_rows(lines(*made), table, bad=bad)
    elif form == "json with schema":
        payloads = [{name: value for name, value in one.items() if name != "__source_ts_ms"} for one in made]
        read_rows = json_rows(lines(*wrapped(CONNECT, *payloads)), table, bad=bad)
    elif form == "json envelope":
        values = [{name: value for name, value in one.items() if name[0] != "_"} for one in made]
        told = [envelope(one["__op"], one["__lsn"], **row) for one, row in zip(made, values)]
        read_rows = json_rows(lines(*told), table, bad=bad)
    else:
        body = plain_parquet(*made) if form == "parquet" else avro_object(SCHEMA, made)
        decoded = read(body, form, table)
        bad, read_rows = list(decoded.rows), rows_in(decoded)
    return picked(read_rows, "id", "__deleted"), [row.code for row in bad]


FORMS = ("avro", "json", "json with schema", "json envelope", "parquet")
CREATED = {"op": "c", "id": 7, "code": "x7", "note": None, "n": 1}


@pytest.mark.parametrize("form", FORMS)
def test_a_deletion_without_its_key_is_set_aside_and_its_object_is_merged(form: str) -> None:
    assert merged(form, CREATED, LACKING) == ([(7, False)], ["delete_without_key"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GENUINE)
def test_a_deletion_of_the_key_0_is_merged(form: str, name: str) -> None:
    row = GENUINE[name]
    assert merged(form, CREATED, row) == ([(7, False), (row["id"], True)], [])


def test_a_declared_default_fills_no_column() -> None:
    assert merged("json with schema", CREATED, {**LACKING, "note": "none"})[1] == ["delete_without_key"]


def test_a_key_change_under_an_index_is_a_deletion_that_is_set_aside_and_a_creation() -> None:
    moved = {"op": "c", "id": 5, "code": "moved", "note": None, "n": 5}
    assert merged("avro", LACKING, moved) == ([(5, False)], ["delete_without_key"])


def test_a_hashed_or_renamed_key_is_looked_at_as_it_was_written() -> None:
    table = config("key", columns=ColumnRules(rename={"id": "key"}, exclude=("code",)))
    bad: list[RowError] = []
    rows = json_rows(lines(change(id=1, code="a", note=None, n=1), change(op="d", **LACKING)), table, bad=bad)
    assert picked(rows, "key") == [(1,)] and [row.code for row in bad] == ["delete_without_key"]
    assert "x4" not in json.dumps([row.content for row in bad])


def test_rows_of_an_append_only_table_and_of_another_log_are_taken_as_they_are() -> None:
    rows = json_rows(lines(change(op="d", **LACKING)), config("_sluice_row", append_only=True))
    assert len(rows) == 1
    of_mysql = {**LACKING, "__op": "d", "__deleted": "true", "__file": "binlog.000001", "__pos": 4, "__row": 0}
    assert len(json_rows(lines(of_mysql))) == 1


@pytest.mark.parametrize(
    ("before", "former"),
    [
        ({"id": 7, "code": "x", "name": "Anna"}, [7]),
        ({"id": 0, "code": "x", "name": None}, []),  # of an index other than the key's
        ({"id": None, "code": "x", "name": "Anna"}, []),
        (None, []),
    ],
)
def test_an_update_with_another_key_deletes_the_row_before_it(before: Any, former: list[int]) -> None:
    source = {"connector": "postgresql", "lsn": 5}
    after = {"id": 8, "code": "y", "name": None}
    rows = json_rows(lines({"before": before, "after": after, "source": source, "op": "u"}))
    assert [row["id"] for row in rows if row["__deleted"]] == former
    assert [row["id"] for row in rows if not row["__deleted"]] == [8]
