"""Writer schemas: shape, data columns, metadata, and a clear error for what can't be stored."""

import json
import os
from pathlib import Path

import pytest
from judging.fixture_sets import shared_folders
from support.builders import avro_record

from sluice.changes.position import PositionFields
from sluice.errors import UnsupportedType, UnusableSchema
from sluice.names import COLUMN, stored_name
from sluice.schema.avro import fingerprint, read_writer_schema

DATA = Path(__file__).resolve().parents[3] / "data"
KINDS = {"__deleted": "string", "__op": "string", "__lsn": "long", "__source_ts_ms": "long"}
META = [{"name": name, "type": ["null", kind], "default": None} for name, kind in KINDS.items()]


def recorded(name, topic):
    return read_writer_schema(json.loads((DATA / name / "schemas" / f"{topic}.avsc").read_text()))


def record(*fields, meta=META, **rest):
    written = [*({"name": name, "type": kind} for name, kind in fields), *meta]
    return {"type": "record", "name": "Value", "namespace": "a.b", "fields": written, **rest}


def column(kind):
    (result,) = read_writer_schema(record(("c", kind))).row.columns
    return result


def semantic(base, name, **more):
    return {"type": base, "connect.version": 1, "connect.name": name, **more}


def connect_decimal(scale, digits=None, **more):
    """A decimal of Kafka Connect, whose converter may know no precision."""
    parameters = {"scale": scale, **({"connect.decimal.precision": digits} if digits else {})}
    return semantic("bytes", "org.apache.kafka.connect.data.Decimal", **{"connect.parameters": parameters}, **more)


def decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def texts(names):
    """Fields of text, by their names with blanks between."""
    return [{"name": name, "type": "string"} for name in names.split()]


def envelope(source, **sides):
    """An envelope; its sides stand in the given order, behind the rest."""
    fields = {"op": "string", "source": avro_record(source, name="Source"), **sides}
    return avro_record(fields, name="Envelope", namespace="t")


def test_a_flattened_record_of_postgres_has_columns_and_metadata_apart():
    schema = recorded("tickit_small", "tickit.ems.event.v1")
    assert schema.shape == "flattened"
    assert [(c.name, c.spark_type) for c in schema.row.columns] == [
        *((name, "int") for name in ("eventid", "venueid", "catid", "dateid")),
        *(("eventname", "string"), ("starttime", "timestamp")),
    ]
    assert (schema.meta.op, schema.meta.deleted, schema.meta.source_ts_ms) == ("__op", "__deleted", "__source_ts_ms")
    assert schema.meta.position == PositionFields("postgres", ("__lsn",))


def test_a_flattened_record_of_mariadb_is_ordered_by_file_pos_and_row():
    schema = recorded("tickit_small", "tickit.ecomm.sale.v2")
    assert schema.meta.position == PositionFields("mysql", ("__file", "__pos", "__row"))
    assert schema.row.column("pricepaid").spark_type == "decimal(8,2)"
    assert schema.row.names[-1] == "channel" and not any(name.startswith("__") for name in schema.row.names)


def test_an_envelope_has_the_columns_of_the_record_that_after_refers_to():
    schema = recorded("pagila_env", "pagila.public.film.v1")
    assert schema.shape == "envelope"
    assert schema.meta.position == PositionFields("postgres", ("lsn",))
    assert (schema.meta.op, schema.meta.deleted, schema.meta.source_ts_ms) == ("op", None, "ts_ms")
    kinds = {c.name: (c.kind, c.spark_type, c.nullable) for c in schema.row.columns}
    assert kinds["rating"] == ("string", "string", True)  # a union with null in second place
    assert kinds["rental_rate"] == ("decimal", "decimal(4,2)", False)
    assert kinds["special_features"] == ("array", "array<string>", True)
    assert kinds["last_update"] == ("zoned_timestamp", "timestamp", False)


def test_an_envelope_whose_after_comes_first_is_the_same():
    sides = {"after": ["null", avro_record({"id": "int"})], "before": ["Value", "null"]}
    schema = read_writer_schema(envelope({"lsn": "long"}, **sides))
    assert (schema.shape, schema.row.names, schema.meta.source_ts_ms) == ("envelope", ("id",), None)


def test_a_record_without_metadata_is_plain():
    schema = read_writer_schema(record(("id", "long"), ("op", "string"), meta=()))
    expected = ("plain", ("id", "op"), None, "offset")
    assert (schema.shape, schema.row.names, schema.meta.op, schema.meta.position.kind) == expected


def test_metadata_under_another_prefix_is_found_by_its_company():
    meta = texts("cdc_op cdc_lsn cdc_source_ts_ms __deleted")
    schema = read_writer_schema(record(("id", "long"), ("cdc_extra", "int"), meta=meta))
    assert (schema.row.names, schema.meta.op, schema.meta.deleted) == (("id", "cdc_extra"), "cdc_op", "__deleted")
    assert schema.meta.position.names == ("cdc_lsn",)


# The orders in which Debezium's releases add fields: 1.x puts __deleted last (delete.handling.mode=rewrite), 2.x and
# 3.x put it first
# (delete.tombstone.handling.mode=rewrite); `source.x` in add.fields is named with its struct, add.fields.prefix
# replaces __.
# https://debezium.io/documentation/reference/1.9/transformations/event-flattening.html
# https://debezium.io/documentation/reference/3.5/transformations/event-flattening.html
@pytest.mark.parametrize(
    ("names", "op", "position", "source_ts"),
    [
        ("__op __db __table __schema __lsn __source_ts_ms __deleted", "__op", "__lsn", "__source_ts_ms"),
        ("__deleted __op __db __table __schema __lsn __source_ts_ms", "__op", "__lsn", "__source_ts_ms"),
        ("__deleted __op __source_lsn __source_ts_ms __source_ts_us", "__op", "__source_lsn", "__source_ts_ms"),
        (
            "__op __source_file __source_pos __source_row __source_ts_ms",
            *("__op", "__source_file __source_pos __source_row", "__source_ts_ms"),
        ),
        ("cdc_op cdc_source_lsn cdc_source_ts_ms cdc_table __deleted", "cdc_op", "cdc_source_lsn", "cdc_source_ts_ms"),
        ("dbzop dbzlsn dbzts_ms __deleted", "dbzop", "dbzlsn", "dbzts_ms"),
        ("_op _file _pos _row", "_op", "_file _pos _row", None),
        ("__deleted", None, "", None),
        # without op: a log position is metadata, too
        ("__file __pos __row", None, "__file __pos __row", None),
        ("__commit_scn __scn", None, "__commit_scn __scn", None),
        # columns that look like another prefix's
        ("log_op log_file __lsn __deleted", None, "__lsn", None),
    ],
)
def test_a_flattened_record_is_recognized_by_its_fields_in_any_order_and_prefix(names, op, position, source_ts):
    columns = ("id", "long"), ("name", "string"), ("table", "string")
    schema = read_writer_schema(record(*columns, meta=texts(names)))
    of_the_row = [name for name in names.split() if name.startswith("log_")]
    assert (schema.shape, schema.row.names) == ("flattened", ("id", "name", "table", *of_the_row))
    assert (schema.meta.op, schema.meta.source_ts_ms) == (op, source_ts)
    assert [name for name in schema.meta.position.names if name] == position.split()


def test_mongodbs_id_is_a_column_under_the_prefix_that_its_name_begins_with():
    meta = texts("_op _ord _source_ts_ms")
    assert read_writer_schema(record(("_id", "string"), meta=meta)).row.names == ("_id",)
    orders = [*meta, {"name": "_id", "type": "string"}, {"name": "_total_order", "type": "long"}]
    assert read_writer_schema(record(("k", "string"), meta=orders)).row.names == ("k",)


def test_a_table_may_have_columns_called_as_an_envelopes_parts():
    columns = [(name, "string") for name in ("op", "source", "before", "after")]
    assert read_writer_schema(record(*columns, meta=())).shape == "plain"
    row = read_writer_schema(record(*columns, meta=texts("__op __lsn"))).row
    assert row.names == ("op", "source", "before", "after")


def test_an_optional_record_is_the_record():
    assert read_writer_schema(["null", record(("id", "int"))]).row.names == ("id",)


def test_the_sides_of_an_envelope_may_differ_in_what_does_not_change_a_value():
    def side(name, id):
        point = avro_record({"x": "double"}, name=f"{name}Point")
        return ["null", avro_record({"id": id, "p": point}, name=f"{name}Value")]

    made = envelope({"lsn": "long"}, before=side("before", ["null", "int"]), after=side("after", "int"))
    assert read_writer_schema(made).row.names == ("id", "p")


def test_documents_that_mongodbs_connector_writes_as_text_are_refused_with_advice():
    text = ["null", {"type": "string", "connect.name": "io.debezium.data.Json"}]
    with pytest.raises(UnusableSchema, match="ExtractNewDocumentState"):
        read_writer_schema(envelope({"ts_ms": "long", "ord": "int"}, before=text, after=text))


def test_a_column_that_ends_in_op_is_data_where_nothing_else_is_metadata():
    schema = read_writer_schema(record(("id", "long"), ("shop_op", "string"), ("shop_table", "string"), meta=()))
    assert (schema.shape, schema.row.names) == ("plain", ("id", "shop_op", "shop_table"))


def test_position_fields_named_with_their_struct_are_found():
    meta = [{"name": name, "type": "long"} for name in ("__op", "__source_lsn", "__source_ts_ms", "__transaction_id")]
    schema = read_writer_schema(record(("id", "int"), ("__mine", "int"), meta=meta))
    assert schema.row.names == ("id", "__mine") and schema.meta.position.names == ("__source_lsn",)


VARIABLE = avro_record({"scale": "int", "value": "bytes"}, name="VariableScaleDecimal", namespace="io.debezium.data")


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ({"type": "int", "connect.type": "int16"}, "int"),
        ({"type": "int", "connect.default": 3, "connect.type": "int8"}, "int"),
        (semantic("int", "io.debezium.time.Date"), "date"),
        (semantic("int", "org.apache.kafka.connect.data.Date", logicalType="date"), "date"),
        (semantic("long", "io.debezium.time.Timestamp"), "timestamp"),
        (semantic("long", "io.debezium.time.MicroTimestamp"), "timestamp"),
        (semantic("long", "io.debezium.time.NanoTimestamp"), "timestamp"),
        (semantic("string", "io.debezium.time.ZonedTimestamp"), "timestamp"),
        (semantic("int", "io.debezium.time.Time"), "string"),
        (semantic("long", "io.debezium.time.MicroTime"), "string"),
        (semantic("string", "io.debezium.time.ZonedTime"), "string"),
        (semantic("string", "io.debezium.data.Json"), "string"),
        (semantic("string", "com.example.Never.Heard"), "string"),
        (semantic("int", "io.debezium.time.Year"), "int"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        (decimal(38, 18), "decimal(38,18)"),
        (connect_decimal("2", "8"), "decimal(8,2)"),
        (connect_decimal("2"), "decimal(38,2)"),
        (semantic("long", "com.example.Moment", logicalType="timestamp-millis"), "timestamp"),
        ({**decimal(5, 1), "type": "fixed", "name": "F", "size": 4}, "decimal(5,1)"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        # money: its precision is only the converter's default
        (decimal(64, 2), "decimal(38,2)"),
        (decimal(50, 2), "string"),
        (decimal(2, 5), "decimal(5,5)"),
        (decimal(20, -2), "decimal(22,0)"),
        (decimal(38, -2), "string"),
        (connect_decimal("2", "64", precision=64), "string"),
        (VARIABLE, "string"),
        (avro_record({"x": "double"}, name="R"), "string"),
        ({"type": "map", "values": ["null", "string"]}, "string"),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, "array<string>"),
        (semantic("bytes", "io.debezium.data.Bits"), "binary"),
        (semantic("long", "io.debezium.time.MicroDuration"), "bigint"),
        (semantic("string", "io.debezium.time.Interval"), "string"),
        (semantic("string", "io.debezium.time.IsoDate"), "date"),
        (semantic("string", "io.debezium.time.IsoTimestamp"), "timestamp"),
        (semantic("string", "io.debezium.time.IsoTime"), "string"),
        ({"type": "array", "items": ["null", "string"]}, "array<string>"),
        ({"type": "array", "items": {"type": "array", "items": "long"}}, "array<array<bigint>>"),
        ({"type": "array", "items": ["null", semantic("int", "io.debezium.time.Date")]}, "array<date>"),
    ],
)
def test_a_type_is_stored_as_what_it_means_nullable_in_either_order(kind, expected):
    assert (column(kind).spark_type, column(kind).nullable) == (expected, False)
    assert (column(["null", kind]).spark_type, column(["null", kind]).nullable) == (expected, True)
    assert (column([kind, "null"]).spark_type, column([kind, "null"]).nullable) == (expected, True)


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": "decimal", "precision": 0},
        semantic("int", "com.example.Never.Heard"),
        semantic("bytes", "com.example.Never.Heard"),
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": [5]},
        ["null", "int", "string"],
        "no.such.Type",
        {"type": "array", "items": "null"},
        5,
        None,
        {"type": "long", "logicalType": "duration-of-my-own"},
        avro_record({"again": ["null", "R"]}, name="R"),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_by_column_and_type(kind):
    with pytest.raises(UnsupportedType) as refused:
        column(kind)
    facts = refused.value.facts
    assert facts["column"] == "c" and facts["source_type"] and "Column c" in str(refused.value)


def test_every_recorded_type_has_a_stored_form():
    columns = recorded("types_flat_precise", "tzflatprecise.public.zoo.v2").row.columns
    expected = "c_num=string c_num_18_4=decimal(24,6) c_money=decimal(38,2) c_interval=bigint c_varbit=binary"
    expected += " c_point=string c_hstore=string c_num_arr=array<decimal(10,2)> c_ts_arr=array<timestamp>"
    expected += " c_tstz=timestamp c_time3=string"
    assert set(expected.split()) <= {f"{column.name}={column.spark_type}" for column in columns}


def test_types_that_use_each_other_without_end_are_refused_and_not_followed():
    fields, name = [{"name": "leaf", "type": "int"}], "T0"
    types = {"type": "record", "name": name, "fields": fields}
    for number in range(1, 25):  # each has two of the one before: 2**24 leaves in 25 definitions
        types = avro_record({"a": types, "b": f"T{number - 1}"}, name=f"T{number}")
    with pytest.raises(UnsupportedType, match="too many"):
        column(types)


def test_arrays_nested_without_end_are_refused_and_not_followed():
    kind = "int"
    for _ in range(40):
        kind = {"type": "array", "items": kind}
    with pytest.raises(UnsupportedType):
        column(kind)


@pytest.mark.parametrize(
    "name", ["_sluice_position", "_hoodie_commit_time", "_SLUICE_op", "-sluice_größe", "_hoodie-é"]
)
def test_a_source_column_with_a_hidden_columns_name_is_refused(name):
    with pytest.raises(UnusableSchema, match=stored_name(name)):
        read_writer_schema(record((name, "int")))


@pytest.mark.parametrize(
    "name, stored",
    [
        ("größe", "gr_u00f6_u00dfe"),
        ("grüße", "gr_u00fc_u00dfe"),
        ("名前", "_u540d_u524d"),
        ("_größe", "_gr_u00f6_u00dfe"),
        ("dash-col", "dash_col"),
        ("with space", "with_space"),
        ("1digit", "_1digit"),
        ('a.b`c"d', "a_b_c_d"),
        ("", "_"),
        ("-x", "_x"),
        ("\N{MATHEMATICAL SCRIPT CAPITAL X}", "_u1d4b3"),
        ("a\u0301", "a_"),
        ("$price", "_price"),
        ("٣", "_u0663"),
        ("²", "_"),
        ("price€", "price_"),
    ],
)
def test_a_column_is_called_as_its_table_can_call_it_and_found_under_its_own_name(name, stored):
    (actual,) = read_writer_schema(record((name, "int"), meta=())).row.columns
    assert (actual.name, actual.written_name) == (stored, name)
    assert COLUMN.fullmatch(actual.name), "tables.yaml can't name the column, or a reader of Avro refuses the table"


def test_names_of_other_scripts_stay_distinct():
    written = ["größe", "grüße", "Größe 2", "GRÖßE_2", "名前", "住所", "naïve", "naive"]
    schema = read_writer_schema(record(*((name, "int") for name in written), meta=()))
    assert schema.row.names == tuple(map(stored_name, written))


@pytest.mark.parametrize("one, other", [("a-b", "a b"), ("größe", "gr_u00f6_u00dfe"), ("名 前", "名-前"), ("a€", "a_")])
def test_columns_that_would_have_one_name_are_refused_with_both(one, other):
    with pytest.raises(UnusableSchema, match=", ".join(map(repr, sorted((one, other))))):
        read_writer_schema(record((one, "int"), (other, "int"), meta=()))


def test_columns_that_differ_in_case_only_are_refused():
    with pytest.raises(UnusableSchema, match=r"columns .[A-Za-z]+., .[A-Za-z]+. differ in case only"):
        read_writer_schema(record(("Id", "int"), ("id", "int")))


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        {"type": "enum", "name": "E", "symbols": []},
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": [5]},
        record(),
        record(("a", "int"), ("a", "int")),
        avro_record({f"c{n}": "int" for n in range(5000)}, name="R"),
    ],
)
def test_what_is_no_record_of_columns_is_refused(schema):
    with pytest.raises(UnusableSchema):
        read_writer_schema(schema)


def test_a_fingerprint_does_not_depend_on_the_order_of_keys():
    one, same, other = map(fingerprint, ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}, {"a": 1, "b": [2, 1]}))
    assert one == same != other
    assert len(fingerprint({})) == 32


@pytest.mark.skipif(not shared_folders(os.environ), reason="SLUICE_FIXTURES names no folder of larger recorded sets")
def test_every_schema_of_the_larger_recorded_sets_is_understood():
    paths = (path for folder in shared_folders(os.environ) for path in folder.rglob("*.avsc"))
    schemas = [path for path in paths if "zoo" not in path.name]
    assert schemas
    for path in schemas:
        schema = read_writer_schema(json.loads(path.read_text()))
        position = schema.meta.position.kind
        assert schema.meta.op and schema.meta.source_ts_ms and position in ("postgres", "mysql"), path.name


@pytest.mark.parametrize(
    "added, kind, names",
    [
        ("__commit_scn __scn __rs_id __ssn", "oracle", "__commit_scn __scn __rs_id __ssn"),
        ("__source_ts_ms __ord __source_rs", "mongodb", "__source_ts_ms __ord"),
        ("__commit_lsn __change_lsn __event_serial_no", "sqlserver", "__commit_lsn __change_lsn __event_serial_no"),
    ],
)
def test_flattened_positions_of_every_source_are_metadata_and_no_columns(added, kind, names):
    numbers = ("ms", "ord", "ssn", "no")
    meta = {name: ["null", "long" if name.endswith(numbers) else "string"] for name in ("__op", *added.split())}
    schema = read_writer_schema(avro_record({"id": "int", **meta}))
    assert (schema.row.names, schema.meta.position.kind) == (("id",), kind)
    assert schema.meta.position.names == tuple(names.split())


# Columns of the source's own that look like metadata: nothing else tells that a connector added them.
@pytest.mark.parametrize(
    ("names", "columns", "left_out"),
    [
        ("__version __name __row __op __lsn __source_ts_ms __deleted", 3, ()),
        ("__version __name __row", 3, ()),
        ("__id __op __lsn", 1, ()),
        ("audit_op audit_ts_ms audit_name audit_db", 4, ()),
        ("log_op log_file", 2, ()),
        ("__query __op", 1, ()),
        ("__op __file __pos __row __query __scn", 1, ("__query",)),
        ("__op __connector __name __version", 0, ("__connector", "__name", "__version")),
        ("__op __lsn __db __table __source_name __transaction_id", 0, ("__db", "__table")),
        ("__op __total_order __id", 0, ("__id",)),
    ],
)
def test_metadata_are_told_by_their_company_and_never_by_a_name_alone(names, columns, left_out):
    schema = read_writer_schema(record(("id", "long"), meta=texts(names)))
    assert (len(schema.row.names) - 1, schema.left_out) == (columns, left_out)


def test_a_number_under_the_name_of_a_text_of_the_connector_is_a_column():
    meta = texts("__op __lsn __connector __name")
    assert read_writer_schema(record(("__version", "int"), meta=meta)).row.names == ("__version",)


def test_a_flattened_row_with_the_columns_of_an_envelope_is_no_envelope():
    record = avro_record({"x": "int"}, name="B")
    own = [("id", "int"), ("op", "string"), ("source", "string"), ("before", ["null", record])]
    schema = read_writer_schema(avro_record({**dict(own), "__op": "string", "__deleted": "string"}))
    assert (schema.shape, schema.row.names, schema.meta.op) == ("flattened", ("id", "op", "source", "before"), "__op")


def test_what_a_table_makes_columns_of_is_not_left_out():
    schema = read_writer_schema(record(("id", "long"), meta=texts("__op __lsn __db __table __name")))
    assert (schema.row.names, schema.left_out) == (("id", "__name"), ("__db", "__table"))
    assert schema.left_out_of(("db",)) == ("__table",)
    assert dict(schema.meta.source_fields)["name"] == "__name"
