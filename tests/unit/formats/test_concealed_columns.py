"""Columns that a rule excludes, renames, hashes or masks: no form of their values leaves the decoding of an object."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from support.bad_input import plain_parquet
from support.builders import avro_object, change, flattened
from support.shapes import (
    CREATE,
    CREATE_SCHEMA,
    DELETE,
    batch_plan,
    item,
    json_rows,
    lines,
    read,
    rows_in,
    schemas_in,
    wrapped,
)

from sluice.batch.row_errors import BASE64, RowError
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig, refuse_changes
from sluice.errors import ChangeRefused, SluiceError
from sluice.schema.avro import read_writer_schema
from sluice_formats.decode import Decoded, decode
from sluice_spark.merge.plan import column_types, plan_read
from sluice_spark.merge.rows import arrow_rows

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = "Kretchmar-7361"
COLUMNS = {"id": ["null", "long"], "email": ["null", "string"], "card": ["null", "string"], "note": ["null", "string"]}


def hashed(text: str, key: bytes = KEY) -> str:
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def table(*key: str, **rules: Any) -> TableConfig:
    return TableConfig("db.t", "db", "t", "x", key or ("id",), columns=ColumnRules(**rules))


def decoded(body: bytes, config: TableConfig, format: str = "avro", key: bytes = KEY) -> Decoded:
    (schema, *_), _ = schemas_in(body, format, config)
    writer = read_writer_schema(json.loads(json.dumps(schema)))
    planned = plan_read(config, batch="b", writers=[writer], stored=None, hash_key=key)
    assert not planned.refused, planned.refused
    return decode(body, item(format), planned.plan)


def rows_of(
    config: TableConfig, *rows: Mapping[str, Any], columns: Mapping[str, Any] = COLUMNS
) -> list[dict[str, Any]]:
    body = avro_object(flattened(columns), [change(**{name: row.get(name) for name in columns}) for row in rows])
    concealed = decoded(body, config)
    assert not concealed.rows, concealed.rows
    return rows_in(concealed)


ROW = {"id": 1, "email": "anne@example.org", "card": "4111111111111111", "note": "n"}


def test_columns_are_left_out_renamed_hashed_and_masked():
    config = table(exclude=("note",), rename={"email": "mail"}, hash=("email",), mask={"card": 4}, key="s/k")
    (row,) = rows_of(config, ROW)
    assert row["mail"] == hashed("anne@example.org") and row["card"] == "***1111"
    assert {"email", "note"}.isdisjoint(row)


def test_the_case_of_a_name_does_not_matter():
    config = table(exclude=("NOTE",), rename={"Card": "pan"}, hash=("Email",), mask={"CARD": 0}, key="s/k")
    (row,) = rows_of(config, ROW)
    assert "note" not in row and (row["email"], row["pan"]) == (hashed("anne@example.org"), "***")


def test_a_null_stays_null_in_every_form():
    (row,) = rows_of(table(hash=("email",), mask={"card": 0}, key="s/k"), {"id": 1})
    assert (row["email"], row["card"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "shown", "stored"),
    [("4111111111111111", 4, "***1111"), ("12345678", 4, "***5678"), ("1234567", 4, "***"), ("", 0, "***")],
    ids=["long", "twice as long", "too short", "empty"],
)
def test_a_mask_keeps_the_last_characters_of_long_values_only(text: str, shown: int, stored: str):
    assert rows_of(table(mask={"card": shown}), {"id": 1, "card": text})[0]["card"] == stored


def test_a_hashed_record_key_names_the_same_row_in_every_batch():
    config = table("email", hash=("email",), key="s/k")
    first, again, other = (rows_of(config, {**ROW, "email": text})[0]["email"] for text in ("a", "a", "b"))
    assert first == again == hashed("a") and other == hashed("b")


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (("int", 7), ("long", 7)),
        (("float", 1.5), ("double", 1.5)),
        (
            ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}, Decimal("1.5")),
            ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}, Decimal("1.5")),
        ),
        (
            ({"type": "long", "connect.name": "io.debezium.time.Timestamp"}, 1_700_000_000_123),
            ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, 1_700_000_000_123_000),
        ),
    ],
    ids=["whole numbers", "floats", "decimals", "timestamps"],
)
def test_a_hash_does_not_change_with_the_width_of_the_type(narrow: tuple[Any, Any], wide: tuple[Any, Any]):
    config = table(hash=("v",), key="s/k")
    actual = {
        rows_of(config, {"id": 1, "v": value}, columns={"id": ["null", "long"], "v": ["null", kind]})[0]["v"]
        for kind, value in (narrow, wide)
    }
    assert len(actual) == 1 and len(actual.pop()) == 64


def test_a_value_that_the_change_leaves_out_stays_left_out():
    config = table(hash=("email",), mask={"card": 0}, key="s/k")
    (row,) = rows_of(config, {**ROW, "email": "__debezium_unavailable_value"})
    assert row["email"] is None and row["_sluice_unchanged"] == ["email"] and row["card"] == "***"


def test_both_sides_of_an_envelope_are_concealed_and_deletions_find_their_row():
    config = table("email", exclude=("last_name",), hash=("email",), key="s/k")
    delete = {**DELETE, "before": CREATE["after"]}
    body = lines(*wrapped(CREATE_SCHEMA, CREATE, delete))
    rows = rows_in(decoded(body, config, "json"))
    expected = [(hashed("annek@noanswer.org"), False), (hashed("annek@noanswer.org"), True)]
    assert [(row["email"], row["__deleted"]) for row in rows] == expected
    assert all("last_name" not in row for row in rows)


def test_a_concealed_field_that_a_records_schema_lacks_is_not_kept_either():
    config = table(exclude=("ssn",), hash=("email",), mask={"e_card": 0}, key="s/k")
    more = {"SSN": SECRET, "e-card": SECRET, "other": "stays"}
    body = lines(*wrapped(CREATE_SCHEMA, CREATE, {**CREATE, "after": {**CREATE["after"], "id": None, **more}}))
    (bad,) = decoded(body, config, "json").rows
    assert bad.code == "null_record_key" and SECRET not in str(bad) and "stays" in bad.content


def test_the_driver_stores_what_spark_is_given():
    config = table(exclude=("note",), rename={"card": "pan"}, hash=("email",), mask={"card": 4}, key="s/k")
    schema = flattened(COLUMNS)
    writer = read_writer_schema(schema)
    planned = plan_read(config, batch="b", writers=[writer], stored=None, hash_key=KEY)
    decoded = decode(avro_object(schema, [change(**ROW)]), item("avro"), planned.plan)
    (row,) = arrow_rows(decoded.batches, plan=planned.plan, target=column_types(planned.target)).to_pylist()
    assert (row["email"], row["pan"]) == (hashed("anne@example.org"), "***1111") and "note" not in row


def all_of(errors: list[RowError]) -> str:
    """Reasons and contents, with the bytes of those that could not be decoded."""
    contents = [base64.b64decode(error.content).decode() for error in errors if error.encoding == BASE64]
    return json.dumps([contents, *map(vars, errors)])


def test_a_row_set_aside_keeps_no_concealed_value():
    schema = flattened({**COLUMNS, "n": ["null", "long"]})
    rule = table(exclude=("note",), hash=("email",), mask={"card": 0}, key="s/k")
    bad = {"id": None, "email": SECRET, "card": SECRET, "note": SECRET, "n": 1}
    decoded_rows = decoded(avro_object(schema, [change(**bad)]), rule)
    assert [error.code for error in decoded_rows.rows] == ["null_record_key"]
    assert SECRET not in all_of(decoded_rows.rows) and hashed(SECRET) in decoded_rows.rows[0].content
    plain = decoded(avro_object(schema, [change(**bad)]), table())
    assert SECRET in all_of(plain.rows), "a table without such columns keeps the record"


def test_the_statement_that_made_a_change_is_not_kept_either():
    schema = flattened({**COLUMNS, "__query": ["null", "string"]})
    bad = change(**{**ROW, "id": None, "__query": f"update t set email = '{SECRET}'"})
    decoded_rows = decoded(avro_object(schema, [bad]), table(exclude=("email",)))
    assert decoded_rows.rows and SECRET not in all_of(decoded_rows.rows)


@pytest.mark.parametrize("value", [SECRET, {SECRET: 1}, [SECRET]], ids=["text", "object", "list"])
def test_a_record_of_the_wrong_type_keeps_no_value(value: Any):
    kinds = (("id", "int32", False), ("n", "int64", True))
    fields = [{"type": kind, "optional": optional, "field": name} for name, kind, optional in kinds]
    schema = {"type": "struct", "optional": False, "fields": fields}
    body = lines(*wrapped(schema, {"id": 1, "n": value}, {"id": 2, "n": 3}))
    for rules in ({"hash": ("n",), "key": "s/k"}, {"mask": {"n": 0}}, {"exclude": ("n",)}):
        decoded_rows = decoded(body, table(**rules), "json")
        assert SECRET not in all_of(decoded_rows.rows)


@pytest.mark.parametrize(
    "body",
    [f"id,email\n1,{SECRET}\n2,{SECRET},3\n", f'id,email\n1,"{SECRET}\n', f'id,email\n1,"{SECRET}\\"x"\n'],
    ids=["ragged", "open quote", "escaped quote"],
)
def test_an_object_that_is_refused_quotes_no_value(body: str):
    with pytest.raises(SluiceError) as refused:
        read(body.encode(), "csv", table(exclude=("email",)))
    assert SECRET not in f"{refused.value} {refused.value.facts}"
    assert refused.value.__cause__ is None and refused.value.next_step


def test_a_renamed_column_that_takes_anothers_name_refuses_the_object():
    planned = batch_plan(table(rename={"email": "NOTE"}), flattened(COLUMNS))
    (refusal,) = planned.refused.values()
    assert "email and note would both be" in refusal.message and "rename" in refusal.next_step


def test_columns_of_operations_are_found_though_they_are_excluded():
    with pytest.raises(SluiceError, match="delete_when"):
        decoded(plain_parquet({"Op": "D", "id": 1}), table(exclude=("Op",)), "parquet")


def test_a_table_with_hashed_columns_is_not_read_without_its_key():
    body = avro_object(flattened(COLUMNS), [change(**ROW)])
    with pytest.raises(SluiceError) as failed:
        decoded(body, table(hash=("email",), key="s/k"), key=b"")
    assert failed.value.code == "no_hash_key" and failed.value.retriable


def test_the_hash_key_is_in_no_text_of_the_plan():
    planned = plan_read(table(hash=("email",), key="s/k"), batch="b", writers=[], stored=None, hash_key=KEY)
    assert KEY.decode() not in repr(planned) and planned.plan.hash_key == KEY


def test_the_hash_of_a_record_key_cannot_change_in_place():
    plain, one, two = table(), table(hash=("id",), key="s/1"), table(hash=("id",), key="s/2")
    for config, pinned in ((one, plain.pinned), (plain, one.pinned), (two, one.pinned)):
        with pytest.raises(ChangeRefused, match="hashed_key"):
            refuse_changes(config, pinned)
    refuse_changes(one, one.pinned)
    refuse_changes(table(hash=("email",), key="s/1"), plain.pinned)


def test_json_without_a_schema_is_concealed_too():
    (row,) = json_rows(lines({"id": 1, "name": SECRET}), table(exclude=("name",)))
    assert "name" not in row and SECRET not in repr(row)
