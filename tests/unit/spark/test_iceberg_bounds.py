"""The bounds of partition columns that Iceberg's metadata has of a base file."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.iceberg.manifests import ColumnBounds
from sluice_spark.iceberg.base_files import _bounds


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([0, 1, None], ColumnBounds(b"\0\0\0\0", b"\1\0\0\0", 1)),
        ([None], ColumnBounds(None, None, 1)),
        ([0, 4_000_000], None),  # the year 12921
        ([-800_000, 0], None),  # before the year 1
    ],
)
def test_a_file_with_any_date_has_bounds_or_none(days, expected):
    file = io.BytesIO()
    pq.write_table(pa.table({"day": pa.array(days, pa.int32()).cast(pa.date32())}), file)
    assert _bounds(pq.read_metadata(file), "day", "date") == expected


def test_a_file_with_times_beyond_pythons_years_has_no_bounds():
    file = io.BytesIO()
    times = pa.array([0, 2**60], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"at": times}), file)
    assert _bounds(pq.read_metadata(file), "at", "timestamptz") is None
