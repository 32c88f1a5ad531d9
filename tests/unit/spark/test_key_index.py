"""Stored rows by the keys that a run keeps: the same decisions as by reading every file, and no file read twice."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.builders import avro_record

from sluice.changes import hidden_columns as hidden
from sluice.hudi.file_slices import Committed, FileSlice, data_file
from sluice_spark.hudi import logs
from sluice_spark.hudi.logs import RECORD_KEY, LogBlock, LogRow, log_of
from sluice_spark.merge.by_arrow import stored
from sluice_spark.merge.by_arrow.keyed_rows import StoredRow
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.by_arrow.stored import WantedKeys, stored_rows
from sluice_spark.merge.key_index import BaseKeys, KeyIndex

FIRST, SECOND, UNDONE = "20261128100000000", "20261128110000000", "20261128120000000"
COMMITTED = Committed(frozenset((FIRST, SECOND)), FIRST)
COLUMNS = (*logs.META_COLUMNS, "id", hidden.POSITION, hidden.OWED)
KINDS = {name: ["null", "int" if name == "id" else "string"] for name in COLUMNS}
AVRO = json.dumps(avro_record(KINDS, name="t"))
Row = tuple[int, int]  # id and position


def base_file(folder: Path, number: int, rows: list[Row], *, owed: int | None = None, text: str = "{}") -> str:
    """Write the base file of a slice. The row with the id `owed` owes columns; `text` is the form of keys' texts."""
    path = folder / f"f{number}-0_0-0-0_{FIRST}.parquet"
    columns = {
        "id": pa.array([key for key, _ in rows], pa.int32()),
        hidden.POSITION: pa.array([f"{position:03d}" for _, position in rows], pa.string()),
        hidden.OWED: pa.array(["x" if key == owed else None for key, _ in rows], pa.string()),
        RECORD_KEY: pa.array([text.format(key) for key, _ in rows], pa.string()),
    }
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path.name


def log_file(
    folder: Path, number: int, version: int, rows: list[Row], removed: list[int], instant: str = SECOND
) -> str:
    """Write a log of a slice."""
    path = folder / f".f{number}-0_{FIRST}.log.{version}_0-0-0"
    values = [{RECORD_KEY: str(key), "id": key, hidden.POSITION: f"{position:03d}"} for key, position in rows]
    place: dict[str, Any] = {"number": 0, "partition": "", "file_id": f"f{number}-0", "avro_schema": AVRO}
    path.write_bytes(log_of(values, [str(key) for key in removed], instant=instant, **place))
    return path.name


def slice_of(folder: Path, base: str, *names: str) -> FileSlice:
    """The slice of these files."""
    files = [data_file(name, (folder / name).stat().st_size) for name in (base, *names)]
    (first, *others) = (file for file in files if file is not None)
    return FileSlice("", first.file_id, first, tuple(others))


def find(folder: Path, slices: list[FileSlice], wanted: list[Row], index: KeyIndex) -> dict[Any, StoredRow]:
    """The stored rows of changes of these ids and positions."""
    positions = [f"{position:03d}" for _, position in wanted]
    ids = pa.array([key for key, _ in wanted], pa.int64())
    rows = pa.table({"id": ids, hidden.POSITION: pa.array(positions, pa.string())})
    work: Any = partial(FileWork, None, None, None)
    keys = WantedKeys(rows, ("id",))
    return stored_rows(folder.as_uri(), slices, keys, committed=COMMITTED, rows=9, index=index, work=work)


def decided(rows: dict[Any, StoredRow], wanted: list[Row]) -> dict[int, Any]:
    """What a merge does with each change: the file and the key's text, and the row where the change is not newer."""
    result: dict[int, Any] = {}
    for key, position in wanted:
        row = rows.get((key,))
        newer = row is not None and f"{position:03d}" > row.position
        result[key] = row and (row.file, row.record_key, row.owed, None if newer else row)
    return result


IDS, POSITIONS = st.integers(0, 7), st.integers(0, 9)
ROWS = st.dictionaries(IDS, POSITIONS, max_size=6)
LOGS = st.lists(st.tuples(ROWS, st.sets(IDS, max_size=2), st.sampled_from((SECOND, UNDONE))), max_size=3)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(base=ROWS, own_logs=LOGS, wanted=st.dictionaries(IDS, POSITIONS, min_size=1), owed=st.none() | IDS)
@pytest.mark.long
def test_the_index_decides_as_the_files_do(
    tmp_path: Path, base: dict, own_logs: list, wanted: dict, owed: int | None
) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    own = base_file(tmp_path, 0, list(base.items()), owed=owed)
    names = [
        log_file(tmp_path, 0, 1 + number, list(rows.items()), sorted(removed - rows.keys()), instant)
        for number, (rows, removed, instant) in enumerate(own_logs)
    ]
    other = base_file(tmp_path, 1, [(8, 1), (9, 5)])
    slices, changes = [slice_of(tmp_path, own, *names), slice_of(tmp_path, other)], list(wanted.items())
    read = find(tmp_path, slices, changes, KeyIndex(most_bytes=0))
    index = KeyIndex()
    for joined_from in (0, 9_999):  # cold by joins, and warm without
        joins = {"_ROWS_JOINED": joined_from, "_FILE_ROWS_JOINED": 0, "_ROWS_PER_WANTED": 0}
        with patch.multiple(stored, **joins):
            assert decided(find(tmp_path, slices, changes, index), changes) == decided(read, changes)


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        ["c", "a", ""],
        [True, False],
        [date(9999, 1, 2), date(1, 1, 1), date(1970, 1, 1)],
        [datetime(1969, 1, 1, 0, 0, 0, 1), datetime(2026, 1, 1), datetime(1, 1, 1)],
        [datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(1969, 1, 1, tzinfo=timezone.utc)],
        [Decimal("-1.50"), Decimal("2.00"), Decimal("0.00")],
    ],
    ids=str,
)
def test_a_join_has_the_same_candidates_for_each_type_of_key(values: list[Any]) -> None:
    column = pa.array(values)
    own = pa.table({"id": column, "more": pa.array(range(len(values)))})
    wanted = WantedKeys(pa.table({"id": column[1:], "more": pa.array([9] * (len(values) - 1))}), ("id", "more"))
    with patch.multiple(stored, _FILE_ROWS_JOINED=0, _ROWS_PER_WANTED=0):
        joined = wanted.candidates(own, may_join=True)
    assert sorted(joined["more"].to_pylist()) == list(range(1, len(values)))
    assert wanted.candidates(own, may_join=False).equals(own.slice(1))


def test_a_file_is_read_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    opened, whole = stored.open_parquet, stored.read_file
    monkeypatch.setattr(stored, "open_parquet", lambda s3, uri, size: read.append(uri) or opened(s3, uri, size))
    monkeypatch.setattr(stored, "read_file", lambda s3, uri: read.append(uri) or whole(s3, uri))
    base = base_file(tmp_path, 0, [(1, 3), (2, 4)])
    first, index = slice_of(tmp_path, base, log_file(tmp_path, 0, 1, [(1, 5)], [])), KeyIndex()
    for _ in range(2):
        rows = find(tmp_path, [first], [(1, 6), (2, 6)], index)
        assert {key: row.position for key, row in rows.items()} == {(1,): "005", (2,): "004"}
        assert len(read) == 2
    second = slice_of(tmp_path, base, *(log.path for log in first.logs), log_file(tmp_path, 0, 2, [(2, 7)], []))
    find(tmp_path, [second], [(2, 8)], index)
    assert len(read) == 3, "of the new log alone"
    find(tmp_path, [second], [(2, 8)], KeyIndex(most_bytes=0))
    assert len(read) == 6, "without room, all files of the slice"


def test_a_change_that_may_be_older_is_compared_with_the_row_itself(tmp_path: Path) -> None:
    slices = [slice_of(tmp_path, base_file(tmp_path, 0, [(1, 3), (2, 9)]))]
    assert find(tmp_path, slices, [(1, 9)], KeyIndex())[(1,)].position == "003"


def test_keys_with_another_text_are_read_of_their_rows(tmp_path: Path) -> None:
    slices = [slice_of(tmp_path, base_file(tmp_path, 0, [(1, 3)], text="id:{}"))]
    assert find(tmp_path, slices, [(1, 9)], KeyIndex())[(1,)].record_key == "id:1"


def test_the_index_keeps_within_its_bytes_the_tables_of_late() -> None:
    keys = BaseKeys(pa.table({"id": pa.array(range(10), pa.int64())}), "1")  # 80 bytes
    index = KeyIndex(most_bytes=200)
    for table in ("a", "b", "c"):
        index.keep(table, {"f": keys})
    assert [len(index.take(table, ["f"])) for table in ("a", "b", "c")] == [0, 1, 1]
    index.keep("c", {"g": keys, "h": keys, "i": keys})
    assert sorted(index.take("c", "fghi")) == ["f", "g"], "what has no room is read again"
    assert not index.take("b", ["f"])
    assert sorted(index.take("c", "g")) == ["g"], "and a file that is gone is forgotten"
    index.keep("d", {"log": (LogBlock("1", {"k": LogRow("1", None, None, None)}),)})
    assert not index.take("d", ["log"]) and index.has_room(200) and not index.has_room(201)
