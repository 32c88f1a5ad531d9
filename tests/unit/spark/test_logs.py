"""Log files in Hudi's format: byte for byte as Hudi writes them, and what counts of several."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from support.builders import avro_record

from sluice.changes import hidden_columns as hidden
from sluice_spark.hudi import logs
from sluice_spark.hudi.logs import (
    RECORD_KEY,
    LogRow,
    UnreadableLog,
    log_of,
    new_blocks,
    read_log,
    rows_in_logs,
    written_schema,
)

DATA = Path(__file__).parents[2] / "data" / "logs"
OF_HUDI = (DATA / "of_hudi_1.0.2.log").read_bytes()  # an update of row 1, and row 2 moves to another partition
ROLL_BACK = (DATA / "rolled_back_by_hudi_1.0.2.log").read_bytes()
FIRST, SECOND, UNDONE = "20261128164918304", "20261128164920368", "20261128165103497"
COLUMNS = (*logs.META_COLUMNS, "id", hidden.POSITION, hidden.OWED, hidden.PARTITION, hidden.SOURCE_TS_MS)
KINDS = {"id": "int", hidden.PARTITION: "int", hidden.SOURCE_TS_MS: "long"}
AVRO = json.dumps(avro_record({name: ["null", KINDS.get(name, "string")] for name in COLUMNS}, name="t"))


def log(instant: str, *rows: tuple[str, str], removed: tuple[str, ...] = (), avro_schema: str = AVRO) -> bytes:
    """A log with rows of (key, position)."""
    values = [
        {RECORD_KEY: key, "id": int(key), hidden.POSITION: position, hidden.SOURCE_TS_MS: 7} for key, position in rows
    ]
    place: dict[str, Any] = {"number": 0, "partition": "place=A", "file_id": "f-0", "avro_schema": avro_schema}
    return log_of(values, removed, instant=instant, **place)


def read(*bodies: bytes, keys: str = "12345", committed: tuple[str, ...] = (FIRST, SECOND)) -> dict[str, str | None]:
    """The position of each of the keys in the logs."""
    blocks = [block for body in bodies for block in read_log(body)]
    rows = rows_in_logs(blocks, keys=set(keys), holds=set(committed).__contains__)
    return {key: None if row is None else row.position for key, row in rows.items()}


def test_a_log_has_the_bytes_that_hudi_writes() -> None:
    ((_, header, content), _) = logs._blocks(OF_HUDI)
    avro_schema = header[logs._SCHEMA]
    row: Any = fastavro.schemaless_reader(io.BytesIO(content[12:]), written_schema(avro_schema), None)
    number = int(row["_hoodie_commit_seqno"].split("_")[1])
    place: dict[str, Any] = {"partition": "place=A", "file_id": row["_hoodie_file_name"], "avro_schema": avro_schema}
    made = log_of([row], ["2"], instant=FIRST, number=number, **place)
    assert made.replace(b"_0_0\x02\x021", b"_0_3\x02\x021") == OF_HUDI  # the row's own number


def test_what_hudi_wrote_is_read() -> None:
    rows = rows_in_logs(read_log(OF_HUDI), keys={"1", "2", "3"}, holds=lambda instant: True)
    position = "0000.00000000000000000110.00000000000000004000"
    assert rows == {"1": LogRow(position, None, 0, 1_700_000_000_000), "2": None}


def test_the_row_with_the_highest_position_counts_until_a_removal() -> None:
    first, second = log(FIRST, ("1", "b"), ("2", "b"), ("3", "a")), log(SECOND, ("1", "a"), ("2", "c"), removed=("3",))
    assert read(first, second) == {"1": "b", "2": "c", "3": None}
    assert read(log(FIRST, removed=("3",)), log(SECOND, ("3", "a"))) == {"3": "a"}


def test_blocks_of_failed_and_rolled_back_writes_do_not_count() -> None:
    bodies = log(FIRST, ("1", "a")), log(UNDONE, ("1", "z"), removed=("2",))
    assert read(*bodies) == {"1": "a"}
    assert read(*bodies, committed=(FIRST, UNDONE)) == {"1": "z", "2": None}
    assert read(*bodies, ROLL_BACK, committed=(FIRST, UNDONE)) == {"1": "a"}, "a block that names the write's instant"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(OF_HUDI[:-9], id="cut"),
        pytest.param(b"PAR1" + OF_HUDI, id="no mark"),
        pytest.param(OF_HUDI.replace(b"\0\0\0\1\0\0\0\3", b"\0\0\0\1\0\0\0\5", 1), id="parquet"),
        pytest.param(OF_HUDI.replace(b"\0\0\0\3\0\0\0\1", b"\0\0\0\2\0\0\0\1", 1), id="older block"),
        pytest.param(log(FIRST, ("1", "a"), avro_schema=AVRO.replace(RECORD_KEY, "key")), id="no key"),
    ],
)
def test_a_log_that_only_hudi_reads_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableLog):
        read_log(body, keys={"1"})


def test_blocks_of_new_rows_are_those_that_are_read_of_their_log() -> None:
    rows = [{RECORD_KEY: "1", "id": 1, hidden.POSITION: "a", hidden.SOURCE_TS_MS: 7, hidden.PARTITION: 0}]
    place: dict[str, Any] = {"number": 0, "partition": "place=A", "file_id": "f-0", "avro_schema": AVRO}
    assert new_blocks(rows, ["2"], instant=FIRST) == read_log(log_of(rows, ["2"], instant=FIRST, **place))


def test_a_log_is_read_for_some_keys_alone() -> None:
    body = log(FIRST, ("1", "a"), ("2", "b"), removed=("3", "4"))
    assert [sorted(block.rows) for block in read_log(body, keys={"2", "4"})] == [["2"], ["4"]]
