"""A read task takes bounded memory and time for an object, whatever its bytes claim."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.heavy_objects import KINDS, blank_lines, one_record, rows_of_json

from sluice.batch.manifest import ManifestObject
from sluice.config.lane import JAVA_BESIDE_HEAP, LaneConfig, bytes_to_read, memory_mib
from sluice.config.limits import DEFAULTS
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit
from sluice.schema.avro import read_writer_schema
from sluice_formats.decode import decode
from sluice_formats.records import ReaderPlan

TESTS = Path(__file__).resolve().parents[2]
MIB = 1024**2
# What each kind becomes, and the most MiB that it may take: those that are refused, little more than their bytes.
BECOME = {
    "parquet_page": ("expansion_limit", 200),
    "parquet_list": ("expansion_limit", 200),
    "parquet_fixed": ("expansion_limit", 200),
    "blank_lines": ("1 rows", 700),
    "blank_lines_beyond": ("expansion_limit", 900),
    "json_objects": ("1 rows", LaneConfig().task_bytes // MIB),
    "json_chains": ("1 rows", LaneConfig().task_bytes // MIB),
    "json_numbers": ("1 rows", LaneConfig().task_bytes // MIB),
    "json_rows": ("1741177 rows", LaneConfig().task_bytes // MIB),
}
TAKES_SECONDS = {*BECOME} - {"parquet_list"}


def test_every_kind_of_heavy_object_is_decoded():
    assert BECOME.keys() == KINDS.keys()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.whole] if kind in TAKES_SECONDS else []) for kind in BECOME]
)
def test_a_heavy_object_takes_no_more_than_a_task_has(kind: str, tmp_path: Path) -> None:
    program = [sys.executable, str(TESTS / "support" / "heavy_objects.py"), kind]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    path = tmp_path / kind
    with path.open("wb") as file:
        subprocess.run([*program, "make"], stdout=file, check=True, timeout=300, env=environment)
    done = subprocess.run([*program, str(path)], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-2_000:]
    answer = json.loads(done.stdout)
    become, megabytes = BECOME[kind]
    assert answer["become"] == become
    assert answer["megabytes"] < megabytes
    assert answer["seconds"] < DEFAULTS.object_seconds


def json_object(text: bytes, **limits: int) -> tuple[bytes, ManifestObject, object]:
    config = TableConfig("db.t", "db", "t", "t", ("id",), limits=replace(DEFAULTS, **limits))
    item = ManifestObject("bronze", "t+0+0.json", "v", len(text), None, "json", "t", 0, 0, 0)
    schema = {"type": "record", "name": "V", "fields": [{"name": "id", "type": ["null", "long"]}]}
    columns = read_writer_schema(schema).row.columns
    return text, item, ReaderPlan(config, batch="b", columns=columns, inferred={item.id.hash: json.dumps(schema)})


def test_blank_lines_count_as_no_record():
    body, item, plan = json_object(blank_lines(MIB), object_rows=1)
    assert sum(batch.num_rows for batch in decode(body, item, plan).batches) == 1


def test_the_time_of_an_object_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    body, item, plan = json_object(b'{"id":1}\n' * 3, object_seconds=5)
    passed = iter([0.0, 4.0])
    monkeypatch.setattr("sluice_formats.decode.time.thread_time", lambda: next(passed, 6.0))
    decode(body, item, plan)
    passed = iter([0.0])
    with pytest.raises(ExpansionLimit, match="5 seconds"):
        decode(body, item, plan)


def test_the_text_of_an_object_takes_half_of_what_it_may_take_decoded():
    body, item, plan = json_object(rows_of_json(60_000), decoded_bytes=100_000)
    with pytest.raises(ExpansionLimit, match="unpacks to more than 50,000"):
        decode(body, item, plan)


def test_a_json_record_is_set_aside_where_it_could_take_more_than_a_block():
    body, item, plan = json_object(b'{"id":2}\n' + one_record(b"{}", 4_000), block_bytes=8 * 3_000)
    decoded = decode(body, item, plan)
    assert [row.record for row in decoded.rows] == [1]
    assert sum(batch.num_rows for batch in decoded.batches) == 1


def test_a_task_has_memory_for_an_object_within_the_limits():
    lane = LaneConfig()
    assert bytes_to_read(DEFAULTS) <= lane.task_bytes
    heap, overhead = memory_mib(lane.executor_memory_gb)
    assert heap + overhead == lane.executor_memory_gb * 1024
    assert lane.executor_cores * lane.task_bytes <= overhead * MIB - JAVA_BESIDE_HEAP
