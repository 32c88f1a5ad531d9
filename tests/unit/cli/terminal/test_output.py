"""Arrow values in JSON."""

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from sluice_cli.terminal.output import counted, human_age, human_bytes, say
from sluice_read.values import column_names, far_timestamp, rows_of


def one(array, **how):
    ((value,),) = rows_of(pa.RecordBatch.from_arrays([array], names=["v"]), **how)
    json.dumps(value, allow_nan=False)
    return value


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([dt.date(2020, 2, 3)]), "2020-02-03"),
        (pa.array([7_000_000], pa.date32()), "21135-05-09"),
        (pa.array([1_704_103_200_123_456], pa.timestamp("us", "UTC")), "2024-01-01T10:00:00.123456Z"),
        (pa.array([1_704_103_200_123_456_789], pa.timestamp("ns")), "2024-01-01T10:00:00.123456789"),
        (pa.array([9_223_372_036_825_200_000], pa.timestamp("us", "UTC")), "294247-01-10T04:00:25.200000Z"),
        (pa.array([-9_223_372_036_832_400_000], pa.timestamp("us")), "-290308-12-21T19:59:27.600000"),
        (pa.array([dt.time(10, 0, 0, 500_000)]), "10:00:00.500000"),
        (pa.array([Decimal("0.0000001")]), "0.0000001"),
        (pa.array([Decimal("12.50")]), "12.50"),
        (pa.array([b"\x00\xff"]), "AP8="),
        (pa.array([float("nan")]), "NaN"),
        (pa.array([float("-inf")]), "-Infinity"),
        (pa.array([1.5]), 1.5),
        (pa.array([3.4028], pa.float32()), 3.4028),
        (pa.array([float("inf")], pa.float32()), "Infinity"),
        (pa.array([2**63 - 1]), 2**63 - 1),
        (pa.array([True]), True),
        (pa.array([[Decimal("1.5"), None]]), ["1.5", None]),
        (pa.array([{"at": dt.date(2020, 1, 1), "raw": b"a"}]), {"at": "2020-01-01", "raw": "YQ=="}),
        (pa.array([[("x", dt.date(2020, 1, 1))]], pa.map_(pa.string(), pa.date32())), {"x": "2020-01-01"}),
        (pa.array(["a"]).dictionary_encode(), "a"),
        (pa.array([(1, 2, 3_500_000_000)], pa.month_day_nano_interval()), "P1M2DT3.5S"),
        (pa.array([dt.timedelta(seconds=90)]), "PT90S"),
        (pa.array([None], pa.int32()), None),
        (pa.array([None], pa.timestamp("us")), None),
    ],
)
def test_a_value_is_written_without_loss(array, value):
    assert one(array) == value


def test_an_integer_beyond_64_bits_is_a_number():
    assert one(pa.array([Decimal(2**70)], pa.decimal128(38, 0)), whole_numbers=frozenset({0})) == 2**70


@pytest.mark.parametrize("seconds", [0, -1, 951_782_400, -62_135_596_800, 253_402_300_799])
def test_the_calendar_beyond_python_agrees_with_python_where_both_know(seconds):
    known = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    assert far_timestamp(seconds, "s") == known.isoformat()


def test_equal_column_names_are_distinguished():
    assert column_names(["id", "id", "id_1", "id"]) == ("id", "id_1", "id_1_1", "id_2")


def test_sizes_and_ages_are_printed_briefly():
    assert [human_bytes(size) for size in (0, 1023, 1536, 5 * 1024**4)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
    assert [human_age(age) for age in (-5, 999, 95_000, 3_600_000, 90_000_000)] == [
        "0 s",
        "0 s",
        "1 min 35 s",
        "1 h",
        "1 d 1 h",
    ]
    assert (counted(1, "object"), counted(2000, "object")) == ("1 object", "2,000 objects")


def test_output_is_flushed_before_a_message_about_it(monkeypatch):
    written = []

    class Buffered(io.StringIO):
        def flush(self):
            written.append(self.getvalue())

    class Unbuffered(io.StringIO):
        def write(self, text):
            written.append(text)
            return len(text)

    monkeypatch.setattr("sys.stdout", Buffered())
    monkeypatch.setattr("sys.stderr", Unbuffered())
    print("rows")
    say("2 rows")
    assert "".join(written) == "rows\n2 rows\n"
