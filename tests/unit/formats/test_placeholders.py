"""The forms of a connector's placeholder, and their detection in raw columns."""

import hashlib
import uuid
from typing import Any

import pyarrow as pa
import pytest
from support.builders import avro_object, avro_record, change, flattened
from support.shapes import config, json_rows, lines, read, rows_in

from sluice.config.placeholders import DEFAULT, placeholders
from sluice.schema.avro import read_writer_schema
from sluice_formats.arrow_batches import without_placeholders
from sluice_formats.arrow_columns import raw_array

RAW = DEFAULT.encode()


def test_the_placeholder_has_a_form_for_every_way_in_which_a_value_is_written():
    unchanged = placeholders()
    # io.debezium.connector.postgresql.UnchangedToastedPlaceholder lists the values by type.
    forms = {DEFAULT, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", RAW.hex(), f'{{"{DEFAULT}":"{DEFAULT}"}}'}
    assert forms <= unchanged.texts
    java = hashlib.md5(RAW).digest()
    assert str(uuid.UUID(bytes=java, version=3)) in unchanged.texts
    assert (unchanged.bytes_, unchanged.codes, unchanged.pair) == ({RAW}, tuple(RAW), (DEFAULT, DEFAULT))


@pytest.mark.parametrize(
    ("coordinates", "value"),
    [
        # As UnchangedToastedPlaceholder.java of Debezium makes them: POINT(-99999999 -99999999), POINT(179.999999
        # 89.999999), and a point without SRID.
        ({}, {"wkb": "0101000020E6100000000000FC83D797C1000000FC83D797C1", "srid": 4326}),
        ({}, {"wkb": "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640", "srid": 4326}),
        (
            {"x": "double", "y": "double"},
            {"x": -99999999.0, "y": -99999999.0, "wkb": "0101000000000000FC83D797C1000000FC83D797C1", "srid": None},
        ),
    ],
)
def test_the_placeholder_of_a_geometry_is_a_point_that_is_nowhere(coordinates, value):
    fields = {**coordinates, "wkb": ["null", "bytes"] if coordinates else "bytes", "srid": ["null", "int"]}
    value = {**value, "wkb": bytes.fromhex(value["wkb"])}
    kind = avro_record(fields, name="Geometry", **{"connect.name": "io.debezium.data.geometry.Geometry"})
    column = read_writer_schema(avro_record({"g": ["null", kind]}, name="V")).row.column("g")
    for configured in (DEFAULT, "another placeholder"):
        points = raw_array([value, {**value, "srid": 4258}], column, column)
        (values,), unchanged = without_placeholders([points], ["g"], marks=placeholders(configured), never=())
        assert unchanged.to_pylist() == [["g"], None]
        assert [point is None for point in values.to_pylist()] == [True, False]


def test_a_placeholder_may_be_given_in_hexadecimal_digits():
    unchanged = placeholders("hex:ff00ff00ff00ff00")
    assert (unchanged.bytes_, unchanged.codes[:2]) == ({bytes.fromhex("ff00ff00ff00ff00")}, (-1, 0))
    for wrong in ("hex:xyz", "hex:", ""):
        with pytest.raises(ValueError):
            placeholders(wrong)


ARRAYS = {
    "text": pa.array([DEFAULT, "a", None, DEFAULT + "x"]),
    "raw": pa.array([None, RAW, b"", b"x" * 28]),
    "number": pa.array([1, 2, 3, 4]),
    "texts": pa.array([[DEFAULT], [DEFAULT, "a"], [], None]),
    "codes": pa.array([list(RAW), list(RAW)[:-1], [1] * 28, None], pa.list_(pa.int32())),
    "pairs": pa.array([[(DEFAULT, DEFAULT)], [("a", DEFAULT)], [], None], pa.map_(pa.string(), pa.string())),
    "key": pa.array([DEFAULT] * 4),
}


def test_placeholders_become_null_and_their_columns_are_named_by_row():
    values, unchanged = without_placeholders(list(ARRAYS.values()), list(ARRAYS), marks=placeholders(), never=("key",))
    assert unchanged.to_pylist() == [["text", "texts", "codes", "pairs"], ["raw"], None, None]
    for name, before, after in zip(ARRAYS, ARRAYS.values(), values):
        assert after.type == before.type
        for row, (was, now) in enumerate(zip(before.to_pylist(), after.to_pylist())):
            assert now == (None if name in (unchanged[row].as_py() or ()) else was)


def test_columns_without_a_placeholder_are_left_unchanged():
    arrays = [pa.array(["a" * 28, None]), pa.array([["x"], []]), pa.nulls(2)]
    values, unchanged = without_placeholders(arrays, ["a", "b", "c"], marks=placeholders(), never=())
    assert unchanged is None and all(after is before for before, after in zip(arrays, values))


VECTOR = ["null", {"type": "array", "items": "double", "connect.name": "io.debezium.data.DoubleVector"}]


def unchanged_in(*changes: dict[str, Any], **settings: Any) -> list[Any]:
    """The names of the columns that each change leaves out."""
    schema = flattened({"id": "int", "v": VECTOR, "n": ["null", "int"]})
    decoded = read(avro_object(schema, changes), "avro", config("id", **settings))
    assert not decoded.rows
    return [row["_sluice_unchanged"] for row in rows_in(decoded)]


def test_a_null_of_an_update_is_an_unchanged_value_where_the_rule_says_so():
    made = [("c", None), ("r", None), ("u", None), ("u", [1.0]), ("d", None)]
    changes = [change(op=op, id=id, v=value, n=None) for id, (op, value) in enumerate(made, 1)]
    assert unchanged_in(*changes) == [None] * 5
    assert unchanged_in(*changes, null_is_unchanged=("v",)) == [None, None, ["v"], None, None]
    assert unchanged_in(*changes, null_is_unchanged=("v", "n", "id"))[2:4] == [["v", "n"], ["n"]]


@pytest.mark.parametrize("row", [{"id": 1, "n": None}, {"id": 1, "n": None, "__op": "u", "__deleted": "false"}])
def test_a_null_of_json_is_an_unchanged_value_too(row: dict[str, Any]):
    first = {**row, "id": 2, "n": 7}  # or the column has no type
    rows = json_rows(lines(first, row), config("id", null_is_unchanged=("n", "absent")))
    assert [item["_sluice_unchanged"] for item in rows] == [None, ["n"]]


def test_a_column_that_an_object_lacks_is_unchanged_too_where_the_table_has_it():
    rows = [{"id": 1, "n": 5, "__op": "c"}, {"id": 1, "m": 1, "__op": "u"}]
    read_rows = json_rows(lines(*rows), config("id", null_is_unchanged=("n", "misspelt")))
    assert [row["_sluice_unchanged"] for row in read_rows] == [None, ["n"]]
