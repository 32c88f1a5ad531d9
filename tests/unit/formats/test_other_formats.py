"""An object of another format than its name says is named with its format and the step that follows from it."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from sluice.errors import SluiceError
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.csv_text import check_head
from sluice_formats.gzip import unpacked_head
from sluice_formats.json.lines import schema_in_head
from sluice_formats.parquet_footer import footer_bytes

ROWS = pa.table({"id": [1, 2]})


def written(write) -> bytes:
    sink = io.BytesIO()
    write(ROWS, sink)
    return sink.getvalue()


PARQUET = written(pq.write_table)
JSON = b'{"id": 1}\n{"id": 2}\n'
CONTENTS = {
    "an Avro container": b"Obj\x01" + bytes(40),
    "Parquet": PARQUET,
    "gzip": gzip.compress(JSON),
    "a zip archive": b"PK\x03\x04" + bytes(40),
    "zstd": b"\x28\xb5\x2f\xfd" + bytes(40),
    "bzip2": b"BZh91AY&SY" + bytes(40),
    "ORC": written(orc.write_table),
    "JSON": JSON,
    "a JSON array": json.dumps([{"id": 1}]).encode(),
    "HTML": b"<!DOCTYPE html>\n<html><body>503</body></html>",
    "XML": b'<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>',
}
READERS = {
    "not_avro": lambda data: parse_header(Head(data, True)),
    "not_parquet": lambda data: footer_bytes(data, True),
    "not_json_lines": lambda data: schema_in_head(unpacked_head(data, 1024), True),
    "not_csv": lambda data: check_head(data),
}
OWN = {
    "not_avro": {"an Avro container"},
    "not_parquet": {"Parquet"},
    "not_json_lines": {"JSON", "gzip", "a JSON array"},
    "not_csv": {"gzip", "JSON", "a JSON array", "ORC"},  # a first row may begin like the last three
}


def refused(code: str, content: bytes) -> SluiceError:
    with pytest.raises(SluiceError) as error:
        READERS[code](content)
    assert error.value.code == code
    return error.value


@pytest.mark.parametrize(
    ("code", "name"), [(code, name) for code in READERS for name in CONTENTS if name not in OWN[code]]
)
def test_an_object_of_another_format_is_refused_by_the_name_of_what_it_begins_as(code: str, name: str) -> None:
    error = refused(code, CONTENTS[name])
    assert f"as {name}" in f"{error.message} "
    assert error.next_step != type(error).next_step, "what follows depends on the format"


@pytest.mark.parametrize("code", ["not_avro", "not_parquet", "not_json_lines"])
def test_a_format_that_is_read_is_named_in_the_rule_and_retried(code: str) -> None:
    name, ending = ("Parquet", "parquet") if code != "not_parquet" else ("JSON", "json")
    error = refused(code, CONTENTS[name])
    assert f"`format: {ending}`" in error.next_step
    assert f"`sluice quarantine retry --code {code}`" in error.next_step


def test_any_array_in_place_of_json_lines_is_called_one() -> None:
    assert refused("not_json_lines", b"[1, 2]").message.endswith("as a JSON array")


@pytest.mark.parametrize("code", ["not_avro", "not_parquet"])
def test_unknown_bytes_keep_the_step_of_their_code(code: str) -> None:
    error = refused(code, b"\x00\x01\x02\x03" * 8)
    assert " but " not in error.message
    assert error.next_step == type(error).next_step


def test_a_parquet_file_without_its_end_is_uploaded_again() -> None:
    error = refused("not_parquet", PARQUET[:-20])
    assert error.message == "The Parquet file ends early"
    assert "Upload the object again" in error.next_step


@pytest.mark.parametrize(
    "first_row",
    [
        b"ORCHESTRA,CITY\n1,2\n",
        b"PARENT_ID,NAME\n1,2\n",
        b"PAR1,PAR2\n1,2\n",
        b"PAR1\n1\n",
        b'{"a"},b\n1,2\n',
        b"[id],[name]\n1,2\n",
    ],
)
def test_a_first_row_of_csv_may_begin_like_text_of_another_format(first_row: bytes) -> None:
    check_head(first_row)
