"""Times of several kinds in one column mean what they mean alone."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa

from sluice.changes.hidden_columns import INEXACT, UNCHANGED
from sluice.config.table import TableConfig
from sluice.schema.columns import SPARK_TYPES, Column, plain_column
from sluice.schema.union import merge_columns
from sluice_formats.arrow_columns import raw_array
from sluice_formats.records import ReaderPlan
from sluice_spark.merge.by_arrow.keyed_rows import as_counts
from sluice_spark.merge.rows import arrow_rows

LATE, EARLY = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000


def plain(name: str, kind: str) -> Column:
    return plain_column(name, kind, True, kind)


def meant(columns: tuple[Column, ...], arrays: list[pa.Array]) -> tuple[list[list[Any]], list[int]]:
    """The stored values of each column, times as counts, and how many of each row are inexact."""
    plan = ReaderPlan(TableConfig("db.t", "db", "t", "t", ("day",)), "b", columns)
    unchanged = pa.nulls(len(arrays[0]), pa.list_(pa.string()))
    batch = pa.RecordBatch.from_arrays([*arrays, unchanged], [*(column.name for column in columns), UNCHANGED])
    rows = arrow_rows([batch], plan=plan, target={column.name: column.spark_type for column in columns})
    values = [as_counts(rows.column(column.name).combine_chunks()).to_pylist() for column in columns]
    return values, rows.column(INEXACT).to_pylist()


ROWS = 10
BEGINNINGS_MS = [253_402_300_800_000, -210_866_803_200_000, -62_167_219_200_001]  # of years
MOMENTS: dict[str, list[Any]] = {
    "timestamp_millis": [0, -1, *BEGINNINGS_MS, LATE, EARLY, 9_223_372_036_825_199, 9_223_372_036_825_200],
    "timestamp_micros": [
        *(1, -1, 9_223_372_036_825_199_999, -210_866_803_200_000_000, -62_167_219_200_000_001),
        *(LATE, EARLY, 2**63 - 1, -210_866_803_200_000_001),
    ],
    "timestamp_nanos": [
        *(1, -1, 1_700_000_000_123_456_789, 1_700_000_000_123_456_000, -62_135_596_800_000_000),
        *(LATE, EARLY, 2**63 - 1, LATE - 1),
    ],
    "zoned_timestamp": [
        *("2023-11-14T22:13:20.123456789Z", "2023-11-15T00:13:20.5+02:00", "-0043-02-03T00:00:00Z"),
        *("+10000-01-01T00:00:00Z", "infinity", "-infinity", "+292278994-08-16T23:00:00Z", "2023-11-15T00:13+02:00"),
    ],
    "time_millis": [0, 1, 43_200_123, 86_400_000, -1, -3_020_399_000, 3_020_399_000],
    "time_micros": [0, 1, 43_200_123_456, 86_400_000_000, -1, -3_020_399_000_000, 3_020_399_000_000],
    "time_nanos": [0, 1, 43_200_123_456_700, 86_400_000_000_000, -1, -3_020_399_000_000_001, 3_020_399_000_000_000],
}


def test_a_time_is_stored_and_counted_the_same_alone_and_beside_one_of_another_kind() -> None:
    beside = [
        ("timestamp_millis", "timestamp_micros"),
        *((kind, *(other for other in MOMENTS if SPARK_TYPES[other] == SPARK_TYPES[kind])) for kind in MOMENTS),
    ]
    written = [plain(f"c{n}", kinds[0]) for n, kinds in enumerate(beside)]
    agreed = [
        reduce(merge_columns, (plain(column.name, kind) for kind in kinds)) for column, kinds in zip(written, beside)
    ]

    def stored(columns: list[Column]) -> tuple[list[list[Any]], list[int]]:
        moments = [MOMENTS[own.kind] + [None] * (ROWS - len(MOMENTS[own.kind])) for own in written]
        raw = [raw_array(values, own, column) for values, own, column in zip(moments, written, columns)]
        return meant(tuple(columns), raw)

    alone, together = stored(written), stored(agreed)
    assert together == alone
    assert alone[1] == [2, 1, 1, 0, 1, 5, 5, 2, 4, 0]
