"""Rows without change metadata: ordered by a column of theirs, or kept each by its place in its object."""

from dataclasses import replace
from typing import Any

import pytest
from support.builders import avro_record
from support.shapes import config, item, json_rows, lines, picked

from sluice.batch.row_errors import RowError
from sluice.changes.hidden_columns import ROW
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig, refuse_changes
from sluice.errors import ChangeRefused, Incompatible, Unordered
from sluice.schema.avro import read_writer_schema
from sluice.schema.capture_order import check_position_column, encode_capture_order
from sluice.schema.columns import Column, plain_column
from sluice_cli.config.source import read_tables
from sluice_cli.config.yaml_lines import ConfigurationMistakes
from sluice_spark.merge.plan import plan_read


def at(kind: str, value: Any, offset: int = 0) -> str:
    return encode_capture_order(0, [plain_column("w", kind, True, kind)], [value], offset)


# A row as Confluent's JDBC source connector sends it in timestamp mode, with what InsertField adds (a static field and
# the topic):
# https://docs.confluent.io/kafka-connectors/jdbc/current/source-connector/overview.html#timestamp-column
# https://docs.confluent.io/kafka-connectors/transforms/current/insertfield.html
TIME = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1, "field": "last_update"}
TEXTS = [{"type": "string", "field": name} for name in ("district", "message_source", "message_topic")]
ADDRESS_SCHEMA = {
    "type": "struct",
    "optional": False,
    "name": "address",
    "fields": [
        {"type": "int32", "optional": False, "field": "address_id"},
        *({**field, "optional": True} for field in (TIME, *TEXTS)),
    ],
}


def address(key: int, district: str, last_update: int | None) -> dict[str, Any]:
    added = {"message_source": "pagila", "message_topic": "pagila.public.address"}
    row = {"address_id": key, "district": district, "last_update": last_update}
    return {"schema": ADDRESS_SCHEMA, "payload": {**row, **added}}


def test_rows_of_a_query_are_ordered_by_capture_and_keep_static_and_renamed_fields() -> None:
    table = config("address_id", position="last_update")
    late, early = json_rows(lines(address(1, "new", 1_613_000_000_000), address(1, "old", 1_612_000_000_000)), table)
    assert late["_sluice_position"] > early["_sluice_position"]
    assert picked([late], "district", "last_update", "message_source", "message_topic", "_sluice_op", "__deleted") == [
        ("new", 1_613_000_000_000, "pagila", "pagila.public.address", None, False)
    ]


def test_a_row_without_capture_order_is_set_aside_alone_with_the_next_step() -> None:
    bad: list[RowError] = []
    table = config("address_id", position="last_update")
    rows = json_rows(lines(address(1, "a", None), address(2, "b", 5)), table, bad=bad)
    assert picked(rows, "address_id") == [(2,)]
    assert [(row.record, row.code) for row in bad] == [(0, "unordered_change")]
    assert "last_update is null" in bad[0].reason


def test_capture_order_is_the_same_in_every_unit_and_text_form() -> None:
    instant = "2026-11-21T02:41:42.848692Z"
    same = [
        at("timestamp_micros", 1_795_228_902_848_692),
        at("timestamp_nanos", 1_795_228_902_848_692_000),
        at("string", instant),
        at("zoned_timestamp", instant),
        at("string", "2026-11-21 03:41:42.848692+01"),
        at("string", "2026-11-20T21:11:42.848692-0530"),
        at("string", "2026-11-21 02:41:42.848692"),
    ]
    assert len(set(same)) == 1
    assert at("timestamp_millis", 1_795_228_902_848) < same[0] < at("timestamp_millis", 1_795_228_902_849)
    assert at("date", 20_778) == at("string", "2026-11-21") < same[0]
    assert at("long", 100) == at("string", "100") == at("string", "+0100") < at("string", "1000")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("long", [-(2**63), -1, 0, 1, 2**63 - 1]),
        ("int", [-5, 5]),
        ("timestamp_millis", [-(2**63), 0, 2**63 - 1]),
        ("date", [-622191234, 0, 19_000]),
        ("string", ["0001-01-01", "1969-12-31T23:59:59.999999999Z", "1970-01-01", "9999-12-31T23:59:59Z"]),
        ("string", ["-" + "9" * 26, "-5", "0", "9", "10", "9" * 26]),
    ],
)
def test_the_order_of_positions_is_the_capture_order(kind: str, values: list[Any]) -> None:
    positions = [at(kind, value) for value in values]
    assert positions == sorted(positions) and len({len(position) for position in positions}) == 1


def test_equal_capture_orders_fall_back_to_offset_and_the_generation_comes_first() -> None:
    assert at("long", 5, 7) < at("long", 5, 8) < at("long", 6, 0)
    assert at("long", 2**63 - 1) < encode_capture_order(1, [plain_column("w", "long", True, "long")], [-5], 0)


@pytest.mark.parametrize(
    "text",
    ["yesterday", "", "1.5", "1 000", "9" * 41, "2026-13-01", "2026-11-21T", "21.11.2026", "2026-11-21T02:41:42Zx"],
)
def test_text_that_is_no_number_and_no_point_in_time_gives_no_capture_order(text: str) -> None:
    with pytest.raises(Unordered):
        at("string", text)


def test_a_column_that_cannot_order_rows_refuses_the_schema() -> None:
    for kind in ("double", "boolean"):
        with pytest.raises(Incompatible, match="position column"):
            check_position_column(plain_column("w", kind, True, kind))
    array = Column("w", "array", "array<int>", element=plain_column("w", "int", True, "int"))
    with pytest.raises(Incompatible):
        check_position_column(array)


def test_a_schema_without_the_position_column_is_refused_and_the_rest_goes_on() -> None:
    schemas = [read_writer_schema(avro_record({"id": "int", name: "long"}, name="V")) for name in ("seq", "other")]
    planned = plan_read(config(position="seq"), batch="b", writers=schemas, stored=None)
    assert list(planned.refused) == [schemas[1].fingerprint]
    assert "The position column seq is not a column" in str(planned.refused[schemas[1].fingerprint])


def append(**settings: Any) -> TableConfig:
    result = Configuration((TableRule("db.t", topic="x", append_only=True, **settings),)).table_for_topic("x")
    assert result is not None
    return result


def test_an_append_only_row_is_known_by_its_object_and_its_place_in_it() -> None:
    body = lines({"a": 1}, {"a": 1}, {"a": None})
    first = json_rows(body, append())
    assert picked(first, "a", ROW, "_sluice_offset") == [
        (1, "bronze/x+0+500.json#0000000000", 500),
        (1, "bronze/x+0+500.json#0000000001", 501),
        (None, "bronze/x+0+500.json#0000000002", 502),
    ]
    # After a crash the sink writes the same key again, longer: another version of the same rows, and more.
    again = json_rows(body + lines({"a": 4}), append(), at=replace(item("json"), version="v2"))
    assert picked(again[:3], ROW, "_sluice_position") == picked(first, ROW, "_sluice_position")


def test_a_delete_in_an_append_only_table_is_a_row_like_the_others() -> None:
    (row,) = json_rows(lines({"id": 1, "name": "x", "__op": "d", "__deleted": "true", "__lsn": 5}), append())
    assert (row["__deleted"], row["name"], row["_sluice_op"]) == (False, "x", "d")


def test_a_truncate_takes_nothing_out_of_an_append_only_table_and_is_kept_beside_it() -> None:
    bad: list[RowError] = []
    made = {"id": 1, "__op": "c", "__deleted": "false", "__lsn": 5}
    rows = json_rows(lines(made, {**made, "id": None, "__op": "t", "__lsn": 6}), append(), bad=bad)
    assert picked(rows, "id") == [(1,)] and [(row.record, row.code) for row in bad] == [(1, "unsupported_operation")]


def test_what_orders_and_what_identifies_rows_does_not_change_in_place() -> None:
    for before, after in (
        (config(), config(position="seq")),
        (config(position="a"), config(position="b")),
        (config(), append()),
        (append(), config()),
    ):
        with pytest.raises(ChangeRefused):
            refuse_changes(after, before.pinned)
    refuse_changes(config(position="a"), config(position="a").pinned)
    refuse_changes(config(), {"record_key": ["id"]})  # pinned by a release that knew no position


def test_both_ways_are_configured_in_tables_yaml() -> None:
    text = """
defaults: {record_key: id}
tables:
  - {topic: q.*, table: "q.{1}", record_key: "{1}_id", position: last_update}
  - {topic: log.*, table: "log.{1}", append_only: true}
"""
    configuration = Configuration.from_json(read_tables(text).to_json())
    query, log = configuration.table_for_topic("q.address"), configuration.table_for_topic("log.clicks")
    assert query is not None and log is not None
    assert (query.record_key, query.position, query.append_only) == (("address_id",), "last_update", False)
    assert (log.record_key, log.position, log.append_only) == ((ROW,), None, True)
    assert TableConfig.from_dict(query.to_dict()) == query and TableConfig.from_dict(log.to_dict()) == log


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("record_key: id, append_only: true", "record_key: has no effect where append_only is true"),
        ('append_only: "yes", record_key: id', "append_only"),
        ("record_key: id, position: []", "names no column"),
        ("record_key: id, position: _sluice_position", "_sluice_position is a column that Sluice or Hudi keeps itself"),
        ("record_key: id, position: last update", "'last update' is not a column name"),
        ('record_key: id, position: "{2}"', "{2} is not among what the topic offers"),
        ("record_key: id, types: {a: day}", "a: 'day' is not one of boolean"),
        ("record_key: id, types: {a: 'decimal(39,2)'}", "more than 38 digits"),
        ("append_only: true, snapshot: {replace: object}", "snapshot: has no effect where append_only is true"),
        ("record_key: id, delete_mode: ignore, snapshot: {replace: object}", "has no effect where deletes are ignored"),
        ("record_key: id, position: a, snapshot: {replace: folder}", "has no effect where position, coordinates or"),
        (
            "record_key: id, change: {row: r, order: n}, snapshot: {replace: object}",
            "coordinates or change.order order the rows",
        ),
        (
            "record_key: id, key_pattern: '(?P<offset>.)', snapshot: {replace: folder}",
            "where key_pattern has an offset",
        ),
        ("record_key: id, snapshot: {replace: day}", "replace: 'day' is not one of object, folder"),
        ("record_key: id, snapshot: {replace: folder, marker: a/b}", "marker: 'a/b' is not a file's name"),
        ("record_key: id, snapshot: {most_deleted: 101}", "most_deleted: 101 is not a whole number"),
        ("record_key: id, types: [a]", "must be a mapping of columns to types"),
    ],
)
def test_mistakes_in_rules_for_plain_records_are_reported(keys: str, message: str) -> None:
    with pytest.raises(ConfigurationMistakes) as refused:
        read_tables(f"tables:\n  - {{topic: a.b, table: a.b, {keys}}}\n")
    assert message in str(refused.value)


def test_rows_with_kafka_coordinates_are_identified_by_them_in_any_object() -> None:
    config = append(coordinates=("p", "o"))
    bad: list[RowError] = []
    first = json_rows(lines({"a": 1, "p": 0, "o": 41}, {"a": 2, "p": 0, "o": 44}, {"a": 3, "p": 0}), config, bad=bad)
    expected = [(1, "x#0#00000000000000000041", 0, 41), (2, "x#0#00000000000000000044", 0, 44)]
    assert picked(first, "a", ROW, "_sluice_partition", "_sluice_offset") == expected
    assert [(row.record, row.code) for row in bad] == [(2, "no_coordinates")]
    elsewhere = replace(item("json"), key="x+0+700.json", offset=700)
    again = json_rows(lines({"a": 2, "p": 0, "o": 44}), config, at=elsewhere)
    assert picked(again, ROW, "_sluice_position") == picked(first[1:], ROW, "_sluice_position")
    with pytest.raises(ChangeRefused):
        refuse_changes(config, append().pinned)
    assert TableConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("coordinates", ["[p, p]", "p", "[_sluice_a, o]"])
def test_coordinates_are_two_columns_of_an_append_only_table(coordinates: str) -> None:
    with pytest.raises(ConfigurationMistakes, match="coordinates"):
        read_tables(f"tables: [{{topic: a.b, table: a.b, coordinates: {coordinates}, append_only: true}}]\n")


def test_several_columns_order_rows_the_first_before_the_second() -> None:
    columns = [plain_column("day", "date", True, "date"), plain_column("number", "long", True, "long")]
    places = [(19_000, -1), (19_000, 0), (19_000, 2**63 - 1), (19_001, -(2**63))]
    positions = [encode_capture_order(0, columns, place, 5) for place in places]
    assert positions == sorted(positions) and len(set(map(len, positions))) == 1
    with pytest.raises(Unordered, match="The position column number is null"):
        encode_capture_order(0, columns, (19_000, None), 5)
    (rule,) = read_tables("tables: [{topic: a.t, table: a.t, record_key: id, position: [day, number]}]").rules
    config = rule.apply("a.t")
    assert config is not None and config.position_columns == ("day", "number")
    assert TableConfig.from_dict(config.to_dict()) == config


def test_a_rule_with_one_position_column_is_stored_as_before() -> None:
    rule = read_tables("tables: [{topic: a.t, table: a.t, record_key: id, position: day}]").rules[0]
    listed = read_tables("tables: [{topic: a.t, table: a.t, record_key: id, position: [day]}]").rules[0]
    assert rule == listed and rule.position == "day"


@pytest.mark.parametrize("position", ["[a, a]", "5", "''", "[a, _hoodie_x]", "'a,b'"])
def test_a_position_that_names_no_columns_is_refused(position: str) -> None:
    with pytest.raises(ConfigurationMistakes, match="position"):
        read_tables(f"tables: [{{topic: a.t, table: a.t, record_key: id, position: {position}}}]")
