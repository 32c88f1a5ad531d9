"""Raw values take the form in which the table stores them."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from support.builders import avro_object, change, flattened

from sluice.batch.manifest import ManifestObject
from sluice.config.table import TableConfig
from sluice_cli.trace.row_changes import changes_in, has_key, keyed_changes


@pytest.mark.parametrize(
    ("name", "raw", "asked"),
    [
        ("io.debezium.time.IsoDate", "2021-03-01Z", "2021-03-01"),
        ("io.debezium.time.IsoDate", "2021-03-01Z", "2021-03-01Z"),
        ("io.debezium.time.ZonedTimestamp", "2008-10-29T18:59:59Z", "2008-10-29T18:59:59.000000Z"),
        ("io.debezium.time.ZonedTimestamp", "2008-10-29T18:59:59Z", "2008-10-29 18:59:59"),
    ],
)
def test_a_time_in_a_key_is_found_by_the_tables_text_and_the_sources(name: str, raw: str, asked: str) -> None:
    schema = flattened({"at": {"type": "string", "connect.name": name}})
    body = avro_object(schema, [change(at=raw), change(at="2001-01-01Z" if "Iso" in name else "2001-01-01T00:00:00Z")])
    item = ManifestObject("bronze", "k", "v1", len(body), None, "avro", "t", 0, 500, 0)
    config = TableConfig("db.t", "db", "t", "x", ("at",))
    assert len(changes_in(body, item, config, [asked]).changes) == 1
    assert not changes_in(body, item, config, ["no time"]).changes


@pytest.mark.parametrize("value", [5, "a", None], ids=str)
def test_a_key_whose_field_is_called_base64_is_no_other_key(value: object) -> None:
    assert not has_key({"id": {"base64": value}}, (), ("id",), ("7",))


DECIMALS = b'{"id": 1, "n": 1.5}\n'


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (pa.decimal128(18, 4), "1.5000"),
        (pa.decimal128(24, 6), "1.500000"),
        (pa.decimal128(16, 2), "1.5000"),  # narrower: a merge would have refused the object
    ],
    ids=str,
)
def test_a_decimal_has_the_scale_that_its_column_has_now(stored, shown):
    item = ManifestObject("bronze", "topics/a/a+0+0.json", "v1", len(DECIMALS), None, "json", "a", 0, 0, 0)
    config = TableConfig("a.b", "a", "b", "a", ("id",), json_types={"n": "decimal(18,4)"})
    types = {"id": pa.int64(), "n": stored}
    ((_, change),), _ = keyed_changes(DECIMALS, item, config, wanted=lambda key: True, types=types)
    assert change.values["n"] == shown
    config = replace(config, record_key=("n",))
    (((key,), _),), _ = keyed_changes(DECIMALS, item, config, wanted=lambda key: True, types=types)
    assert key == shown


@pytest.mark.parametrize(("key", "form"), [("drop/2.csv", "csv"), ("drop/2/_SUCCESS", "marker")])
def test_an_object_that_completes_a_dump_brings_a_truncate(key: str, form: str) -> None:
    body = b"id,n\n7,1\n8,2\n" if form == "csv" else b""
    dump = {"modified_at": 1_764_000_000_000, "replaces": "t0"}
    item = ManifestObject("b", key, "v", 9, None, form, "a", None, None, 0, **dump)
    config = TableConfig("a.b", "a", "b", "a", ("id",), generation=2)
    own = changes_in(body, item, config, ["7"])
    assert own.truncates == ((None, "0002.t0"),) and len(own.changes) == (form == "csv")
    keyed, truncates = keyed_changes(body, item, config, wanted=lambda key: True, types={}, aside=[1])
    assert truncates == [(None, "0002.t0")] and len(keyed) == (form == "csv")
    assert not changes_in(body, replace(item, replaces=None), config, ["7"]).truncates


@pytest.mark.parametrize(
    ("stored", "same"),
    [
        (1030354400.0, True),  # the double of the shortest text
        (1.03035443e9, True),  # of Java's, by which Hudi writes a file again
        (1030354432.0, True),  # the exact value
        (1030354431.5, False),  # a double that is near, which no writer makes of the float
        (1030354496.0, False),  # the next float
        (1e300, False),
        (None, False),
        ("1030354432", False),
    ],
)
def test_a_float_equals_what_a_column_of_doubles_holds_of_it(stored: object, same: bool) -> None:
    body = avro_object(flattened({"id": "int", "n": "float"}), [change(id=1, n=1030354432.0)])
    item = ManifestObject("bronze", "k", "v1", len(body), None, "avro", "t", 0, 500, 0)
    types = {"id": pa.int32(), "n": pa.float64()}
    config = TableConfig("db.t", "db", "t", "x", ("id",))
    ((_, keyed),), _ = keyed_changes(body, item, config, wanted=lambda key: True, types=types)
    (found,) = changes_in(body, item, config, ["1"]).changes
    assert [one.values == {"n": stored} for one in (keyed, found)] == [same, same]
    assert [[one.values["n"]] != [stored] for one in (keyed, found)] == [not same, not same]
    assert json.dumps(keyed.values) == '{"n": 1030354400.0}'
