"""Metadata that say where a change is from: a change's source table, and columns of a table made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.builders import avro_object, avro_record
from support.shapes import batch_plan, rows_in

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors, parts_of
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice.config.values import SOURCE_COLUMNS
from sluice_formats.decode import decode

ITEM = ManifestObject("bronze", "k", "v1", 1, None, "avro", "x", 0, 500, 0)
TEXT = ["null", "string"]
CONFIG = TableConfig("db.t", "db", "t", "x", ("__db", "id"))
WORDS = ("name", "db", "schema", "table")


def envelope(*words: str) -> dict[str, Any]:
    value = avro_record({"id": "int", "v": TEXT}, name="V")
    fields = [*({"name": word, "type": TEXT} for word in words), {"name": "lsn", "type": "long"}]
    fields.append({"name": "ts_ms", "type": "long"})
    source = {"type": "record", "name": "S", "fields": fields}
    sides = {"before": ["null", value], "after": ["null", "V"], "source": source, "op": "string"}
    return avro_record(sides, name="E")


def flattened(*fields: str) -> dict[str, Any]:
    names = {"id": "int", "v": TEXT, "__op": "string", "__lsn": "long", **dict.fromkeys(fields, TEXT)}
    return avro_record(names, name="V")


def wrapped(op: str, row: dict[str, Any] | None, **source: str) -> dict[str, Any]:
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": {"lsn": 1, "ts_ms": 1, **source}}


def read(schema: dict[str, Any], records: list[dict[str, Any]], config: TableConfig = CONFIG, **plan: Any) -> Any:
    planned = batch_plan(config, schema)
    decoded = decode(avro_object(schema, records), ITEM, replace(planned.plan, **plan))
    return rows_in(decoded), decoded.rows, planned


@pytest.mark.parametrize(
    ("key", "renamed", "alive"),
    [
        (("__name", "id"), {}, ["us"]),
        (("server", "id"), {"__name": "server"}, ["us"]),
        (("__db", "id"), {}, []),
    ],
)
def test_a_truncate_on_one_of_two_servers_that_the_key_names_leaves_the_others_rows(
    key: Any, renamed: dict[str, str], alive: list[str]
) -> None:
    records = [wrapped("c", {"id": 1, "v": "a"}, **{**PLACE, "name": name}) for name in ("us", "eu")]
    truncate = wrapped("t", None, **{**PLACE, "name": "eu"})
    truncate["source"]["lsn"] = 9
    config = replace(CONFIG, record_key=key, columns=ColumnRules(rename=renamed))
    rows, bad, _ = read(envelope(*WORDS), [*records, truncate], config, sources=True)
    floors = Floors().raised((row[hidden.SOURCE], row[hidden.POSITION]) for row in rows if row[hidden.OP] == "t")
    left = [row for row in rows if row[hidden.OP] == "c" and row[hidden.POSITION] > floors.of(row[hidden.SOURCE])]
    assert not bad and [name for name, row in zip(("us", "eu"), rows) if row in left] == alive
    assert {tuple(parts_of(row[hidden.SOURCE])) for row in rows} == {("d", "public", "t")}


PLACE = {"name": "srv", "db": "d", "schema": "public", "table": "t"}


@pytest.mark.parametrize("shape", ["envelope", "flattened", "with the struct's name"])
def test_changes_and_deletions_of_two_databases_have_keys_of_their_own(shape: str) -> None:
    if shape == "envelope":
        schema = envelope("db", "table")
        records = [wrapped(op, {"id": 1, "v": "a"}, db=db, table="t") for db in ("d1", "d2") for op in "cd"]
    else:
        prefix = "__" if shape == "flattened" else "__source_"
        schema = flattened(f"{prefix}db", f"{prefix}table")
        records = [
            {"id": 1, "v": "a", "__op": op, "__lsn": 1, f"{prefix}db": db, f"{prefix}table": "t"}
            for db in ("d1", "d2")
            for op in "cd"
        ]
    rows, bad, planned = read(schema, records)
    expected = [("d1", 1, False), ("d1", 1, True), ("d2", 1, False), ("d2", 1, True)]
    assert [(row["__db"], row["id"], row["__deleted"]) for row in rows] == expected
    assert bad == [] and [row[hidden.SOURCE] for row in rows] == ["d1..t"] * 2 + ["d2..t"] * 2
    assert set(planned.target.names) >= {"__db", "id", "v"} and "__table" not in planned.target.names


def test_a_truncate_carries_its_source_table_and_needs_no_key() -> None:
    rows, bad, _ = read(envelope(*WORDS), [wrapped("t", None, **PLACE)])
    assert bad == []
    assert [(row[hidden.OP], row[hidden.SOURCE], row["id"]) for row in rows] == [("t", "d.public.t", None)]


def test_the_columns_of_a_rule_are_subject_to_its_column_rules() -> None:
    rules = ColumnRules(rename={"__db": "shard"}, mask={"v": 1})
    config = TableConfig("db.t", "db", "t", "x", ("shard", "id"), source_columns=("db", "name"), columns=rules)
    row = {"id": 1, "v": "abc"}
    for schema, records in (
        (envelope(*WORDS), [wrapped("c", row, **PLACE)]),
        (
            flattened(*(f"__{word}" for word in WORDS)),
            [{**row, "__op": "c", "__lsn": 1, **{f"__{word}": text for word, text in PLACE.items()}}],
        ),
    ):
        (rows,), bad, _ = read(schema, records, config)
        assert (rows["shard"], rows["__name"], rows["id"], rows["v"]) == ("d", "srv", 1, "***c") and bad == []
        assert rows[hidden.SOURCE] == "d.public.t"


def test_rows_of_no_log_keep_columns_of_these_names() -> None:
    schema = avro_record({"__db": "string", "id": "int"}, name="R")
    rows, bad, planned = read(schema, [{"__db": "own", "id": 1}])
    assert (rows[0]["__db"], bad, hidden.SOURCE in planned.target.names) == ("own", [], False)


def test_a_row_that_no_metadata_places_is_quarantined_where_they_are_of_the_key() -> None:
    rows, bad, _ = read(flattened("__db"), [{"id": 1, "v": "a", "__op": "c", "__lsn": 1, "__db": None}])
    assert rows == [] and bad[0].code == "null_record_key"


def test_an_append_only_table_records_no_source_table() -> None:
    config = TableConfig("db.t", "db", "t", "x", (hidden.ROW,), append_only=True)
    rows, _, planned = read(envelope(*WORDS), [wrapped("c", {"id": 1, "v": "a"}, **PLACE)], config)
    assert hidden.SOURCE not in rows[0] and hidden.SOURCE not in planned.target.names


@pytest.mark.parametrize(("written", "words"), [("db", ("db",)), (["table", "db"], ("db", "table")), ([], ())])
def test_a_rule_names_the_metadata_by_words(written: Any, words: tuple[str, ...]) -> None:
    assert SOURCE_COLUMNS.parse(written) == words


@pytest.mark.parametrize("written", ["lsn", ["db", "op"], 5, [["db"]]])
def test_other_metadata_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="name, db, schema, table"):
        SOURCE_COLUMNS.parse(written)


def test_the_key_and_the_partitions_name_columns_without_a_setting() -> None:
    config = TableConfig("db.t", "db", "t", "x", ("__table", "id"), partition_by=("__db",), source_columns=("name",))
    assert config.source_words == ("name", "db", "table")
    renamed = replace(config, record_key=("shard", "id"), columns=ColumnRules(rename={"__table": "shard"}))
    assert (renamed.source_words, renamed.key_names_source) == (config.source_words, True)


@pytest.mark.parametrize(("databases", "log"), [(("d1", "d1"), "d1"), (("d1", "d2"), "")])
def test_an_object_names_its_log_where_the_key_does(databases: tuple[str, ...], log: str) -> None:
    schema, records = envelope(*WORDS), [wrapped("c", {"id": 1, "v": "a"}, **{**PLACE, "db": db}) for db in databases]
    renamed = replace(CONFIG, record_key=("shard", "id"), columns=ColumnRules(rename={"__db": "shard"}))
    for config, wanted in ((CONFIG, log), (renamed, log), (replace(CONFIG, record_key=("id",)), None)):
        planned = batch_plan(config, schema)
        assert decode(avro_object(schema, records), ITEM, planned.plan).seen.log == wanted
