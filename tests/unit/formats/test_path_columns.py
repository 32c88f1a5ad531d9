"""Columns of Hive's folders: in the keys of objects, and not in their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import shapes
from support.bad_input import plain_parquet as parquet
from support.builders import avro_object
from support.shapes import CREATE, config, item, lines, picked, rows_in

from sluice.changes.hidden_columns import UNCHANGED
from sluice.config.key_pattern import folder_values
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice.onboarding.fit import misfits
from sluice.onboarding.samples import SampledRow, TopicSample
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import STRING, plain_column
from sluice.schema.table_row import with_path_columns
from sluice_formats.decode import Decoded
from sluice_formats.errors import UndecodableValue

KEY = "exports/sales/region=e%20u/dt=2026-11-20/part-0"
TABLE = config("region", "id", path_columns=("region", "dt"), json_types={"dt": "date", "id": "long"})


ROWS = [{"id": 1, "v": 2}, {"id": 2, "v": 3}]
AVRO = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "long"}]}
BODIES = {"parquet": parquet(*ROWS), "json": lines(*ROWS), "csv": b"id,v\n1,2\n2,3\n", "avro": avro_object(AVRO, ROWS)}


def read(body: bytes, format: str, key: str, table: TableConfig = TABLE) -> Decoded:
    return shapes.read(body, replace(item(format), key=key), table)


@pytest.mark.parametrize("format", BODIES)
def test_a_table_takes_the_columns_of_its_objects_folders(format: str) -> None:
    for key in (KEY, KEY.replace("region", "Region").replace("dt", "DT")):
        read_rows = read(BODIES[format], format, key)
        assert not read_rows.rows
        assert picked(rows_in(read_rows), "id", "region", "dt") == [(1, "e u", 20_777), (2, "e u", 20_777)]


def test_a_column_of_the_rows_is_theirs_and_a_missing_folder_is_null() -> None:
    own = rows_in(read(parquet({"id": 1, "region": "own"}), "parquet", KEY))
    assert picked(own, "region", "dt") == [("own", 20_777)]
    read_rows = read(BODIES["parquet"], "parquet", "exports/sales/dt=__HIVE_DEFAULT_PARTITION__/part-0")
    assert not read_rows.batches and {row.code for row in read_rows.rows} == {"null_record_key"}


def test_a_folder_that_is_not_of_its_type_refuses_the_object() -> None:
    with pytest.raises(UndecodableValue, match="dt"):
        read(BODIES["json"], "json", "exports/sales/region=eu/dt=today/part-0")


def test_the_rows_of_an_envelope_get_the_columns_too() -> None:
    table = config("id", path_columns=("region",))
    rows = read(lines(CREATE), "json", "exports/region=eu/part-0", table)
    assert [row["region"] for row in rows_in(rows)] == ["eu"]


def test_folders_are_read_as_hive_writes_them() -> None:
    assert folder_values("a/Order%20Date=2026%2F11/b=1/b=2/=x/f=g") == {"Order_Date": "2026/11", "b": "2"}


def test_push_says_which_columns_of_folders_a_rule_leaves_out() -> None:
    writer = read_writer_schema(AVRO)
    added = tuple(plain_column(name, STRING, True, "folder") for name in ("region", "dt"))
    writer = replace(writer, row=with_path_columns(writer.row, added))
    rows = tuple(
        SampledRow({"id": 1, "v": v, "region": region, "dt": "2026-11-20"}) for v, region in enumerate(("eu", "us"))
    )
    sample = TopicSample("t", 1, 1, 1, ("parquet",), writer, rows=rows, path_columns=("region", "dt"))
    said = [item.text for item in misfits(sample, config("id", position="v"))]
    assert "region, dt: columns that the objects' folders alone hold are left out, without `path_columns`" in said
    taken = misfits(sample, config("region", "id", position="v", path_columns=("region", "dt")))
    assert not any("path_columns" in item.text or "region" in item.text for item in taken)


def test_an_update_that_leaves_columns_out_has_those_of_its_folders_under_any_name() -> None:
    place = {"database": "s", "table": "cust", "ts": 1764230000, "type": "update", "position": "b.000001:5"}
    body = lines(
        {**place, "data": {"id": 1, "a": "y"}, "old": {"a": "x"}}, {**place, "data": {"id": 2, "n": 5}, "old": {}}
    )
    for rename in ({}, {"region": "area"}):
        table = config("id", path_columns=("region",), columns=ColumnRules(rename=rename))
        rows = rows_in(read(body, "json", "exports/region=eu/part-0", table))
        name = rename.get("region", "region")
        assert picked(rows, name, UNCHANGED) == [("eu", ["n"]), ("eu", ["a"])]


def test_a_column_of_the_rows_that_an_update_leaves_out_is_unchanged() -> None:
    place = {"database": "s", "table": "cust", "ts": 1764230000, "type": "update", "position": "b.000001:5"}
    updates = lines(
        {**place, "data": {"id": 1, "region": "us"}, "old": {"region": "eu"}},
        {**place, "data": {"id": 2, "a": "y"}, "old": {"a": "x"}},
    )
    rows = rows_in(read(updates, "json", "exports/region=eu/part-0", config("id", path_columns=("region",))))
    assert picked(rows, "region", UNCHANGED) == [("us", ["a"]), (None, ["region"])]
