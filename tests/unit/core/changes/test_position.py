"""Positions: the fields of the sources, the stored form, and refusals."""

import re

import pytest

from sluice.changes.position import (
    BEFORE_THE_LOG,
    PositionFields,
    among_ties,
    binlog_base,
    detect,
    encode,
    encode_rows,
    former_positions,
    generation_of,
    is_by_offset_alone,
    log_place,
    of_snapshot,
    place_of_object,
    tie_of,
)
from sluice.errors import Unordered
from sluice.schema.capture_order import encode_capture_order
from sluice.schema.columns import plain_column


def test_a_postgres_position_is_generation_lsn_and_offset():
    assert encode(0, "postgres", (31_040_592,), 7) == "0000.00000000000031040592.00000000000000000007"


def test_a_mysql_position_counts_the_binlog_by_its_number():
    expected = "0003.00000000000000000001.00000000000000697175.0000000002.00000000000000000007"
    assert encode(3, "mysql", ("mysql-bin.000001", 697_175, 2), 7) == expected
    assert encode(0, "mysql", ("b.999999", 9, 9), 9) < encode(0, "mysql", ("b.1000000", 0, 0), 0)


def test_a_sqlserver_snapshot_row_precedes_the_changes_of_its_commit():
    snapshot = encode(0, "sqlserver", ("0000002A:000004e0:0003", None, None), 9)
    assert snapshot < encode(0, "sqlserver", ("0000002a:000004e0:0003", "0000002a:000004e0:0002", 1), 0)


@pytest.mark.parametrize(
    "kind, nowhere, first",
    [
        ("postgres", (None,), (1,)),
        ("mysql", ("", None, None), ("b.000001", 4, 0)),
        ("mysql", ("", 0, 0), ("b.000001", 4, 0)),
        ("sqlserver", (None, None, None), ("00000001:00000000:0000", None, None)),
        ("oracle", (None, None, None, None), (None, "1", None, None)),
        ("oracle", (None, None, None, 0), (None, "1", None, None)),
        ("mongodb", (None, None), (1, 0)),
    ],
)
def test_a_snapshots_row_that_names_no_place_in_the_log_stands_before_all_of_it(kind, nowhere, first):
    placed = encode(0, kind, of_snapshot(kind, nowhere), 9)
    assert re.match(BEFORE_THE_LOG, placed)
    assert not re.match(BEFORE_THE_LOG, encode(0, kind, first, 9))
    assert not re.match(BEFORE_THE_LOG, encode(0, "offset", (), 0))
    assert placed < encode(0, kind, first, 0) and log_place(kind, placed) in (None, 0)
    assert of_snapshot(kind, first) == first
    with pytest.raises(Unordered):  # any other change must name one
        encode(0, kind, nowhere, 9)


def test_a_document_that_a_snapshot_sends_precedes_what_changed_it_meanwhile():
    sent = 1_764_230_060_000
    read = encode(0, "mongodb", of_snapshot("mongodb", (sent, -1)), 9)
    assert encode(0, "mongodb", (sent - 61_000, 5), 0) < read < encode(0, "mongodb", (sent - 59_000, 1), 0)
    assert of_snapshot("mongodb", (sent, 0)) == (sent, 0) and of_snapshot("mongodb", (0, -1)) == (0, -1)
    tied = among_ties(read, tie_of(place_of_object("k", 5_000), by_key=True))
    then = encode(0, "mongodb", (sent, -1), 9)
    assert then in former_positions(read) and {then, then[:25] + tied[25:]} < {*former_positions(tied)}


def test_a_change_lsn_that_debezium_prints_as_null_is_none():
    as_text, none = (encode(0, "sqlserver", ("0000002a:000004e0:0003", lsn, None), 9) for lsn in ("NULL", None))
    assert as_text == none


def test_without_log_position_the_offset_orders():
    assert encode(0, "offset", (), 7) == "0000.00000000000000000007"


@pytest.mark.parametrize("fields", [(), ("id",), ("__file", "__pos")])
def test_advice_about_a_missing_position_begins_with_what_follows_from_it(fields):
    advice = detect(fields, ("__",)).advice
    assert advice is not None and advice.startswith("changes are ordered by Kafka offset alone: add ")


def test_a_higher_generation_comes_after_everything_of_a_lower_one():
    assert encode(1, "postgres", (0,), 0) > encode(0, "postgres", (2**63 - 1,), 2**63 - 1)
    assert generation_of(encode(12, "offset", (), 1)) == 12


@pytest.mark.parametrize(
    "generation, kind, components, offset",
    [
        *((0, "postgres", components, 0) for components in ((-1,), (None,), ("5",), (10**20,), ())),
        *((0, "mysql", (file, 0, 0), 0) for file in ("nobinlog", None, "", "b.-1", "b.٣")),
        *((0, "mysql", ("b.1", *at), 0) for at in ((-1, 0), (0, 10**10))),
        *((0, "sqlserver", (lsn, None, 0), 0) for lsn in (None, "x", "-000002a:000004e0:0003")),
        (-1, "offset", (), 0),
        (10_000, "offset", (), 0),
        (0, "offset", (), -1),
        (0, "offset", (), None),
        (0, "offset", (1,), 0),
        (0, "unheard_of", (), 0),
    ],
)
def test_a_position_that_is_missing_or_out_of_range_is_refused(generation, kind, components, offset):
    with pytest.raises(Unordered):
        encode(generation, kind, components, offset)


OF_SQLSERVER = ("commit_lsn", "change_lsn", "event_serial_no")


@pytest.mark.parametrize(
    "names, prefixes, kind, ordered",
    [
        (("__op", "__lsn"), ("__", "__source_"), "postgres", ("__lsn",)),
        (("__source_lsn",), ("__", "__source_"), "postgres", ("__source_lsn",)),
        (("row", "pos", "file"), ("",), "mysql", ("file", "pos", "row")),
        ((*OF_SQLSERVER, "lsn"), ("",), "sqlserver", OF_SQLSERVER),
    ],
)
def test_the_log_position_is_found_by_its_field_names(names, prefixes, kind, ordered):
    assert detect(names, prefixes) == PositionFields(kind, ordered)


def test_a_partial_position_is_not_used_and_the_missing_field_is_named():
    position = detect(("__file", "__pos"), ("__",))
    assert (position.kind, position.names) == ("offset", ()) and "row" in position.advice


def test_a_source_without_position_gets_advice():
    assert "lsn" in detect(("a", "b")).advice


def test_a_binlogs_base_name_identifies_its_server():
    assert binlog_base("mysql-bin.000001") == "mysql-bin"


# From the event values in Debezium's documentation of each connector ("About values in change events"), cut to what is
# asked here.
ORACLE = {
    **{"version": "3.5.0.Final", "connector": "oracle", "ts_ms": 1520085154000, "snapshot": "false"},
    **{"txId": "6.28.807", "scn": "2122185", "commit_scn": "2122186", "lcr_position": None},
    **{"rs_id": "001234.00012345.0124", "ssn": 1, "redo_thread": 1},
}
MONGO = {
    **{"version": "3.5.0.Final", "connector": "mongodb", "ts_ms": 1558965508000, "snapshot": False},
    **{"db": "inventory", "collection": "customers", "ord": 31, "h": 1546547425148721999},
}


def encoded(source, *, offset=0, prefixes=("",)):
    position = detect(source, prefixes)
    return encode(0, position.kind, tuple(source[name] if name else None for name in position.names), offset)


def test_oracle_changes_are_ordered_by_commit_then_place_in_the_redo_log():
    of_log = "0000.00000000000002122186.00000000000002122185.00001234000123450124.0000000001.00000000000000000000"
    assert encoded(ORACLE) == of_log
    behind = {"ssn": 2}, {"rs_id": " 0x001234.00012346.0000 ", "ssn": 0}, {"scn": "2122000", "commit_scn": "2122190"}
    positions = [encoded({**ORACLE, **later}) for later in ({}, *behind)]
    assert positions == sorted(set(positions)), "the last is written earlier and committed later"
    assert encoded({**ORACLE, "commit_scn": "2122100:1:tx,2122186:2:tx"}) == encoded(ORACLE)


def test_an_oracle_change_that_names_an_earlier_commit_counts_by_its_own_scn():
    other_thread = encoded({**ORACLE, "scn": "2122190", "commit_scn": "2100000", "redo_thread": 2})
    assert encoded({**ORACLE, "scn": "2122180"}) < encoded(ORACLE) < other_thread
    snapshot = encoded({**ORACLE, "snapshot": "true", "scn": "2122189", "commit_scn": None})
    assert snapshot < other_thread < encoded({**ORACLE, "scn": "2122191", "commit_scn": "2122192"})


def test_an_oracle_snapshot_row_is_ordered_between_earlier_and_later_commits():
    without = dict.fromkeys(("commit_scn", "rs_id", "ssn"))
    snapshot = encoded({**ORACLE, "snapshot": "true", "scn": "2122185", **without}, offset=5)
    earlier, later = (encoded({**ORACLE, "scn": "2122100", "commit_scn": scn}) for scn in ("2122184", "2122186"))
    assert earlier < snapshot < later


def test_mongodb_changes_are_ordered_by_cluster_time_and_in_a_transaction_by_offset():
    assert encoded(MONGO) == "0000.00000001558965508000.0000000032.00000000000000000000"
    later = encoded({**MONGO, "ord": 32}), encoded({**MONGO, "ts_ms": 1558965509000, "ord": 1})
    assert encoded(MONGO) < encoded(MONGO, offset=1) < later[0] < later[1]
    assert encoded({**MONGO, "ord": -1}) < encoded({**MONGO, "ord": 0})


def test_flattened_fields_have_either_prefix_and_the_connectors_clock_is_not_used():
    prefixes = ("__", "__source_")
    of_mongodb = detect(("__op", "__source_ts_ms", "__ts_ms", "__ord"), prefixes)
    assert of_mongodb == PositionFields("mongodb", ("__source_ts_ms", "__ord"))
    position = detect(("__ts_ms", "__ord"), prefixes)
    assert position.kind == "offset" and "ts_ms" in position.advice
    of_oracle = detect(("__source_commit_scn", "__scn"), prefixes)
    assert of_oracle == PositionFields("oracle", ("__source_commit_scn", "__scn", "", ""))
    assert "commit_scn" in detect(("__scn",), prefixes).advice


@pytest.mark.parametrize(
    "change",
    [
        *({"scn": scn} for scn in (None, "x", "-1", "9" * 21)),
        *({"commit_scn": ","}, {"rs_id": "1.2"}, {"ssn": -1}, {"ssn": "a"}),
    ],
)
def test_an_oracle_position_that_is_missing_or_malformed_is_refused(change):
    with pytest.raises(Unordered):
        encoded({**ORACLE, **change})


def test_a_mongodb_position_that_is_missing_or_malformed_is_refused():
    for change in ({"ts_ms": None}, {"ord": None}, {"ord": -2}, {"ts_ms": -1}, {"ts_ms": "1"}):
        with pytest.raises(Unordered):
            encoded({**MONGO, **change})


def test_a_position_of_a_kafka_offset_alone_is_distinguished_from_every_other() -> None:
    assert is_by_offset_alone(encode(3, "offset", (), 7))
    others = [
        ("postgres", (5,)),
        ("mysql", ("a.1", 4, 0)),
        ("sqlserver", ("0000002a:000004e0:0003", None, 0)),
        ("oracle", (None, 5, None, None)),
        ("mongodb", (5, 1)),
    ]
    of_a_column = encode_capture_order(3, [plain_column("n", "long", False, "long")], [9], 7)
    assert not any(map(is_by_offset_alone, [*(encode(3, kind, parts, 7) for kind, parts in others), of_a_column]))


@pytest.mark.parametrize("lsns", [(5, 3), (2**63, 0), (True, 1), (1.0, 2), (7,), ()])
def test_positions_of_rows_are_those_of_each(lsns):
    rows = [(lsn,) for lsn in lsns]
    each_alone = [encode(3, "postgres", parts, number) for number, parts in enumerate(rows)]
    assert encode_rows(3, "postgres", rows, range(len(rows))) == each_alone


@pytest.mark.parametrize(
    "generation, lsn, offset", [(0, -1, 0), (0, 10**20, 0), (10**4, 1, 0), (0, 1, -1), (0, None, 0)]
)
def test_positions_of_rows_are_refused_as_each_is(generation, lsn, offset):
    with pytest.raises(Unordered):
        encode_rows(generation, "postgres", [(1,), (lsn,)], [0, offset])
