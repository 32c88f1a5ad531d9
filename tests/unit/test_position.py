"""Positions: what a source carries, how it is stored, and what is refused."""
import pytest

from sluice.errors import Unordered
from sluice.position import PositionFields, binlog_base, detect, encode, generation_of


def test_a_postgres_position_is_generation_lsn_and_offset():
    assert encode(0, "postgres", (31_040_592,), 7) == "0000.00000000000031040592.00000000000000000007"


def test_a_mysql_position_counts_the_binlog_by_its_number():
    assert encode(3, "mysql", ("mysql-bin.000001", 697_175, 2), 7) == "0003.00000000000000000001.00000000000000697175.0000000002.00000000000000000007"
    assert encode(0, "mysql", ("b.999999", 9, 9), 9) < encode(0, "mysql", ("b.1000000", 0, 0), 0)


def test_a_sqlserver_snapshot_row_precedes_the_changes_of_its_commit():
    snapshot = encode(0, "sqlserver", ("0000002A:000004e0:0003", None, None), 9)
    assert snapshot < encode(0, "sqlserver", ("0000002a:000004e0:0003", "0000002a:000004e0:0002", 1), 0)


def test_without_log_position_the_offset_orders():
    assert encode(0, "offset", (), 7) == "0000.00000000000000000007"


def test_a_higher_generation_comes_after_everything_of_a_lower_one():
    assert encode(1, "postgres", (0,), 0) > encode(0, "postgres", (2**63 - 1,), 2**63 - 1)
    assert generation_of(encode(12, "offset", (), 1)) == 12


@pytest.mark.parametrize("generation, kind, components, offset", [
    (0, "postgres", (-1,), 0), (0, "postgres", (None,), 0), (0, "postgres", ("5",), 0), (0, "postgres", (10**20,), 0), (0, "postgres", (), 0),
    (0, "mysql", ("nobinlog", 0, 0), 0), (0, "mysql", (None, 0, 0), 0), (0, "mysql", ("", 0, 0), 0), (0, "mysql", ("b.1", -1, 0), 0), (0, "mysql", ("b.1", 0, 10**10), 0),
    (0, "mysql", ("b.-1", 0, 0), 0), (0, "mysql", ("b.٣", 0, 0), 0),
    (0, "sqlserver", (None, None, None), 0), (0, "sqlserver", ("x", None, 0), 0), (0, "sqlserver", ("-000002a:000004e0:0003", None, 0), 0),
    (-1, "offset", (), 0), (10_000, "offset", (), 0), (0, "offset", (), -1), (0, "offset", (), None), (0, "offset", (1,), 0), (0, "unheard_of", (), 0),
])
def test_a_position_that_is_missing_or_out_of_range_is_refused(generation, kind, components, offset):
    with pytest.raises(Unordered):
        encode(generation, kind, components, offset)


@pytest.mark.parametrize("names, prefixes, found", [
    (("__op", "__lsn"), ("__", "__source_"), PositionFields("postgres", ("__lsn",))),
    (("__source_lsn",), ("__", "__source_"), PositionFields("postgres", ("__source_lsn",))),
    (("row", "pos", "file"), ("",), PositionFields("mysql", ("file", "pos", "row"))),
    (("commit_lsn", "change_lsn", "event_serial_no", "lsn"), ("",), PositionFields("sqlserver", ("commit_lsn", "change_lsn", "event_serial_no"))),
])
def test_the_log_position_is_found_by_its_field_names(names, prefixes, found):
    assert detect(names, prefixes) == found


def test_a_partial_position_is_not_used_and_the_missing_field_is_named():
    found = detect(("__file", "__pos"), ("__",))
    assert (found.kind, found.names) == ("offset", ()) and "row" in found.advice


def test_a_source_without_position_gets_advice():
    assert "lsn" in detect(("a", "b")).advice


def test_a_binlogs_base_name_tells_its_server():
    assert binlog_base("mysql-bin.000001") == "mysql-bin"
