"""Every recorded column type through Spark and Hudi, phase by phase, against the source database's own rows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.readers import json_rows
from judging.spark_rows import live_rows
from judging.verdict import judge_rows
from pyspark.sql.types import ArrayType, DataType, DecimalType
from support.workbench import Workbench, table

SET = Path(__file__).resolve().parents[1] / "data" / "types_flat_precise"
PHASES = json.loads((SET / "manifest.json").read_text())["phases"]


def arrow_type(kind: DataType) -> pa.DataType:
    """What docs/types.md says of the files, in Arrow's words."""
    if isinstance(kind, ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }[kind.simpleString()]


def _same(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Equal types; the name of a list's item is the writer's own."""
    if pa.types.is_list(actual) and pa.types.is_list(wanted):
        return _same(actual.value_type, wanted.value_type)
    return actual == wanted


def put_all(bench: Workbench, keys: list[str]) -> list:
    return [
        bench.put_bytes((SET / "bronze" / key).read_bytes(), key=key, offset=int(key.rsplit("+", 1)[1][:-5]))
        for key in keys
    ]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("table_type", "pace"),
    [
        pytest.param("cow", "phase by phase", marks=pytest.mark.whole),
        pytest.param("mor", "phase by phase", marks=pytest.mark.whole),
        ("cow", "backwards"),
    ],
)
def test_every_type_equals_the_source_by_both_readers(
    bench: Workbench, tmp_path: Path, table_type: str, pace: str
) -> None:
    config = table("zoo", table_type=table_type)
    in_order = pace == "phase by phase"
    for number, phase in enumerate(PHASES if in_order else reversed(PHASES)):
        outcome = bench.merge(config, put_all(bench, phase["new_objects"]))
        assert outcome.quarantined == ()
        if in_order or number == len(PHASES) - 1:
            name = phase["phase"] if in_order else PHASES[-1]["phase"]
            stored = bench.spark.read.format("hudi").load(bench.path(config))
            if number == 0:
                (file,) = bench.local_path(config).glob("*.parquet")
                written = pq.read_schema(file)
                different = {
                    field.name: str(written.field(field.name).type)
                    for field in stored.schema.fields
                    if not _same(written.field(field.name).type, arrow_type(field.dataType))
                }
                assert different == {}
            by_rust = [row for row in json_rows(bench.table_by_hudi_rs(config)) if not json.loads(row)["__deleted"]]
            for reader, rows in (("spark", [row.row for row in live_rows(stored).collect()]), ("rust", by_rust)):
                folder = tmp_path / f"{reader}-{name}"
                folder.mkdir()
                (folder / "zoo.jsonl").write_text("".join(row + "\n" for row in rows))
                verdict = judge_rows(SET, folder, name, os.environ)
                assert verdict.equal, (reader, name, verdict.differences())
