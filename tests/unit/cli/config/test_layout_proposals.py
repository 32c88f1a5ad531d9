"""Layouts of keys that name no topic: which are recognized, and the rule that each gives."""

from dataclasses import replace

import pytest
from support.builders import avro_record

from sluice.admission.layouts import DLT, DMS, FOLDER, NUMBERED, SPARK, layout_of, needs_format
from sluice.config.key_pattern import KEY_PATTERN
from sluice.onboarding.discovery import propose
from sluice.onboarding.samples import SampledRow, TopicSample
from sluice.schema.avro import read_writer_schema
from sluice_cli.config.rule_text import whole_text
from sluice_cli.config.source import read_tables

PART = "part-00000-4d6e6a4c-2f0e-4d5b-9a3c-0f1f6d1f8a11"
DMS_KEY = "dms/hr/employee/2026/11/21/20261121-134010000.csv.gz"


@pytest.mark.parametrize(
    "key, writer, topic, beside",
    [
        ("dms/hr/employee/LOAD00000001.csv", DMS, "hr.employee", DMS_KEY),
        (DMS_KEY, DMS, "hr.employee", "dms/hr/employee/LOAD00000001.csv"),
        (f"exports/shop/orders/dt=2026-11-21/{PART}.c000.snappy.parquet", SPARK, "shop.orders", None),
        ("lake/users/1718000000.5.a1b2c3d4e5.jsonl", DLT, "lake.users", "lake/users/1718000001.6.ff.jsonl"),
        ("aiven/shop.orders-3-120.gz", NUMBERED, "shop.orders", "aiven/shop.orders-0-7.gz"),
        ("drop/prices/of november.json", FOLDER, "drop.prices", "drop/prices/2026/11/more.json"),
        ("prices/november.json", FOLDER, "prices", "prices/2026-11-21/x.json"),
    ],
)
def test_a_key_gives_a_topic_and_a_pattern_that_finds_those_beside_it(key, writer, topic, beside):
    layout = layout_of(key)
    assert (layout.writer, layout.topic) == (writer, topic)
    assert KEY_PATTERN.parse(layout.key_pattern) == layout.key_pattern
    for name in filter(None, (key, beside)):
        assert layout.route(name, 9).topic == topic or needs_format(layout, name)
    assert layout.route("elsewhere/x.json", 9).kind == "unroutable"


@pytest.mark.parametrize("key", ["prices.csv", "a b/c d/x.json", "x" * 500 + "/y.json", "/y.json", "[*]/(+)/x.json"])
def test_a_key_without_a_usable_folder_gives_none(key):
    assert layout_of(key) is None


@pytest.mark.parametrize(
    ("key", "topic", "beside"),
    [
        ("drop/prices/2026-11-02.csv", "drop.prices", "drop/prices/2027-01-02.csv"),
        ("drop/prices-2026-11-02.csv", "prices", "drop/prices-2027-01-02.csv"),
        ("drop/2026/prices-2026-11-02.csv", "prices", "drop/2027/01/prices-2027-01-02.csv"),
        ("drop/prices-2026-11.csv", "prices", "drop/prices-2027-01.csv"),
        ("drop/prices-20261102-103000.csv", "prices", "drop/prices-20270102-093000.csv"),
        ("drop/prices-2026-11-02T10-07-00.json", "prices", "drop/prices-2027-01-02T09-07-00.json"),
    ],
)
def test_the_parts_of_a_date_are_no_partition_and_offset(key: str, topic: str, beside: str):
    layout = layout_of(key)
    assert (layout.writer, layout.topic) == (FOLDER, topic) and KEY_PATTERN.parse(layout.key_pattern)
    for name in (key, beside):
        routed = layout.route(name, 9)
        assert (routed.topic, routed.kafka_partition, routed.offset) == (topic, None, None)
    assert topic == "drop.prices" or {"unroutable"} == {
        layout.route(f"drop/{name}.csv", 9).kind for name in ("users-2026-11-02", "prices-eu-2026-11-02")
    }


@pytest.mark.parametrize(
    "key",
    ["aiven/orders-3-20261121.gz", "aiven/orders-3-202611.gz", "aiven/orders-2026-0.gz", "aiven/orders-2026-11-0.gz"],
)
def test_an_offset_that_reads_as_a_date_stays_one(key: str):
    assert layout_of(key).writer == NUMBERED


def test_partition_and_offset_of_numbered_objects_are_read():
    routed = layout_of("aiven/shop.orders-3-120.json.gz").route("aiven/shop.orders-4-500.json.gz", 9)
    assert (routed.kafka_partition, routed.offset, routed.offset_is, routed.format) == (4, 500, "first", "json")
    assert needs_format(layout_of("aiven/shop.orders-3-120.gz"), "aiven/shop.orders-3-120.gz")


def test_the_proposed_rule_is_read_back_with_its_pattern_and_its_null():
    names = ("Op", "employee_id", "note", "seq")
    writer = read_writer_schema(avro_record({name: ["null", "string"] for name in names}, name="R"))
    rows = tuple(
        SampledRow({"Op": "I" if number else "D", "employee_id": str(number), "note": "NULL", "seq": f"{number:035d}"})
        for number in range(30)
    )
    layout = layout_of(DMS_KEY)
    sample = TopicSample("hr.employee", 3, 9, 3, ("csv",), writer, rows=rows, offsets_named=False, inferred=True)
    proposal = propose(replace(sample, layout=layout.writer, key_pattern=layout.key_pattern))
    (rule,) = read_tables(whole_text([proposal])).rules
    assert (rule.table, rule.record_key, rule.key_pattern) == ("hr.employee", ("employee_id",), layout.key_pattern)
    assert (rule.position, rule.delete_when.column, rule.csv.null_text) == ("seq", "Op", "NULL")
    text = whole_text([proposal])
    assert "the names are those of AWS DMS" in text and "columns are text unless `types`" in text
