"""Avro bytes to Arrow batches, without Spark's JVM."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import builders
from support.avro_containers import container
from support.builders import avro_object, avro_record, change, envelope
from support.shapes import batch_plan, config, item, lines, rows_in, schemas_in
from support.shapes import read as read_object

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.log_restart import BY_TIME, judge
from sluice.config.limits import Limits
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit, SluiceError, Unordered
from sluice.schema.avro import read_writer_schema
from sluice_aws.errors import too_large
from sluice_formats.arrow_batches import batch_schema, record_batch
from sluice_formats.decode import Decoded, decode, decode_each
from sluice_formats.errors import (
    CorruptObject,
    NullRecordKey,
    TooManyBadRows,
    UnreadableObject,
    UnsupportedOperation,
    ValueOutOfRange,
)
from sluice_formats.json.records import json_schemas
from sluice_formats.records import SMALL_ROWS, ReaderPlan
from sluice_spark.merge.plan import plan_read

CONFIG = TableConfig(table="db.t", database="db", name="t", topic="x", record_key=("id",), generation=3)
ITEM = ManifestObject("bronze", "k", "v1", 1, None, "avro", "x", 0, 500, 0)
DECIMAL: list[Any] = ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]


def semantic(kind: str, name: str) -> list[Any]:
    return ["null", {"type": kind, "connect.name": name}]


def flattened(**columns: Any) -> dict[str, Any]:
    return builders.flattened(columns)


def read(schema: dict[str, Any], *rows: dict[str, Any], at: ManifestObject = ITEM, plan: Any = None) -> Decoded:
    """What an object of these rows gives, rows that are set aside included."""
    return decode(avro_object(schema, rows), at, plan or batch_plan(CONFIG, schema).plan)


def decoded(
    schema: dict[str, Any], rows: list[dict[str, Any]], *others: dict[str, Any], item: ManifestObject = ITEM, **how: Any
) -> list[dict[str, Any]]:
    plan = batch_plan(CONFIG, schema, *others).plan
    result = decode(avro_object(schema, rows, **how), item, plan)
    assert result.rows == []
    assert all(batch.schema == batch_schema(plan) for batch in result.batches)
    return rows_in(result)


def test_a_flattened_change_has_its_values_and_where_it_came_from() -> None:
    schema = flattened(
        id="int",
        price=DECIMAL,
        day=semantic("int", "io.debezium.time.Date"),
        tags={"type": "array", "items": ["null", "string"]},
    )
    rows = [
        change(lsn=10, id=1, price=Decimal("-1.50"), day=19_000, tags=["a", None]),
        change(op="d", lsn=11, id=2, price=None, day=None, tags=[]),
    ]
    origin = {
        "_sluice_source_ts_ms": 1_700_000_000_000,
        "_sluice_object": "bronze/k?versionId=v1",
        "_sluice_partition": 0,
        **dict.fromkeys(("_sluice_owed", "_sluice_batch", "_sluice_unchanged")),
    }
    values = [
        {"id": 1, "price": Decimal("-1.50"), "day": 19_000, "tags": ["a", None], "__deleted": False, "_sluice_op": "c"},
        {"id": 2, "price": None, "day": None, "tags": [], "__deleted": True, "_sluice_op": "d"},
    ]
    places = [
        {"_sluice_offset": 500, "_sluice_position": "0003.00000000000000000010.00000000000000000500"},
        {"_sluice_offset": 501, "_sluice_position": "0003.00000000000000000011.00000000000000000501"},
    ]
    assert decoded(schema, rows) == [{**of, **place, **origin} for of, place in zip(values, places)]


def test_an_envelope_gives_the_row_after_and_for_a_delete_the_row_before() -> None:
    schema = envelope({"id": "int", "name": ["null", "string"]}, {"ts_ms": "long", "lsn": ["null", "long"]})
    rows = [
        {"before": None, "after": {"id": 1, "name": "new"}, "source": {"ts_ms": 5, "lsn": 9}, "op": "c"},
        {"before": {"id": 1, "name": "old"}, "after": None, "source": {"ts_ms": 6, "lsn": 10}, "op": "d"},
    ]
    decoded_rows = decoded(schema, rows)
    expected = [(1, "new", False, 5), (1, "old", True, 6)]
    assert [(row["id"], row["name"], row["__deleted"], row["_sluice_source_ts_ms"]) for row in decoded_rows] == expected


def test_an_incremental_snapshot_row_precedes_every_change_and_restarts_no_log() -> None:
    """PostgreSQL's since Debezium 1.9.6: `lsn`, `txId` and `xmin` are left out
    (github.com/debezium/debezium/pull/3765).
    """
    schema, at = flattened(id="int"), replace(ITEM, key="x+0+500.avro")
    result = read(schema, change("r", None, id=1), change("u", 1, id=1), change("c", None, id=2), at=at)
    expected = [f"0003.{lsn:020d}.{500 + lsn:020d}" for lsn in (0, 1)]
    assert [row["_sluice_position"] for row in rows_in(result)] == expected
    assert [row.code for row in result.rows] == ["unordered_change"]  # only a snapshot's row may leave it out
    behind = replace(at, key="x+0+600.avro", offset=600)
    later = read(schema, change("r", None, source_ts_ms=9, id=3), at=behind).seen
    before = read(schema, change("u", 5 * 1024**3, id=1), at=at).seen
    assert not judge({}, [before, later], generation=3).parked
    timed = read(schema, change(lsn=5, id=1), at=replace(at, offset=None, modified_at=70_000)).seen
    assert (timed.partition, timed.first, timed.last) == (BY_TIME, 70_000, 70_000), "its time is in place of an offset"


def test_bytes_of_a_key_and_of_folders_names_are_base64_text() -> None:
    """MySQL's BINARY(16), which keys of UUIDs often are: Hudi takes different bytes for one key."""
    table = replace(CONFIG, record_key=("id", "n"), partition_by=("p",))
    schema = flattened(id="bytes", n="int", p=["null", {"type": "fixed", "name": "F", "size": 2}], v=["null", "bytes"])
    planned = batch_plan(table, schema)
    whole = change(id=b"\x00\xff", n=1, p=b"\xff\xff", v=b"\xfe")
    result = read(schema, whole, change(id=b"\x00\xfe", n=1, p=None, v=None), plan=planned.plan)
    rows = [(row["id"], row["p"], row["v"]) for row in rows_in(result)]
    assert rows == [("AP8=", "//8=", b"\xfe"), ("AP4=", None, None)] and not result.rows
    types = {field.name: field.dataType.simpleString() for field in planned.target.fields}
    assert (types["id"], types["p"], types["v"]) == ("string", "string", "binary")


def test_objects_that_would_give_a_table_too_many_columns_are_refused() -> None:
    table = replace(CONFIG, limits=Limits(schema_columns=8))
    names = [[f"user_{n}_{at}" for at in range(5)] for n in range(3)]
    writers = [read_writer_schema(flattened(id="int", **dict.fromkeys(of_one, "int"))) for of_one in names]
    planned = plan_read(table, batch="b", writers=writers, stored=None)
    ((mark, again),) = [(mark, error) for mark, error in planned.refused.items()][:1]
    assert len(planned.refused) == 2 and mark == writers[1].fingerprint and "11 columns" in again.message
    assert not plan_read(table, batch="c", writers=writers[:1], stored=planned.target).refused
    # As the table was before its limit was lowered.
    wide = plan_read(CONFIG, batch="b", writers=writers, stored=None).target
    assert not plan_read(table, batch="c", writers=writers, stored=wide).refused


@pytest.mark.parametrize("kind", [{"type": "array", "items": "int"}, {"type": "map", "values": "string"}])
def test_an_array_or_a_map_is_no_key_and_no_folder(kind: Any) -> None:
    for table, schema in (
        (replace(CONFIG, record_key=("k",)), flattened(k=kind)),
        (replace(CONFIG, partition_by=("k",)), flattened(id="int", k=["null", kind])),
    ):
        planned = batch_plan(table, schema)
        errors = [(error.code, error.facts["column"]) for error in planned.refused.values()]
        assert errors == [("incompatible_schema", "k")]


def test_an_object_that_breaks_its_reader_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = flattened(id="int")
    body, plan = avro_object(schema, [change(id=1)]), batch_plan(CONFIG, schema).plan
    fields = [{"name": field["name"]} if field["name"] == "__op" else field for field in schema["fields"]]
    without_type = {**schema, "fields": fields}
    with pytest.raises(CorruptObject):
        decode(container("null", (1, b"\x02\x00\x00\x02\x02\x00"), schema=without_type), ITEM, plan)
    troubles = {RecursionError("deep"): UnreadableObject, IndexError(): UnreadableObject}
    for trouble, described in {**troubles, MemoryError(): MemoryError, OSError(): OSError}.items():

        def fails(*_: Any, trouble: Exception = trouble) -> None:
            raise trouble

        monkeypatch.setattr("sluice_formats.decode.avro_records", fails)
        with pytest.raises(described):  # the worker's own trouble passes, and its task runs again
            decode(body, ITEM, plan)


def test_a_place_in_the_log_of_no_type_that_a_place_has_costs_its_row() -> None:
    good = {"id": 1, "__op": "c", "__file": "b.000001", "__pos": 4, "__row": 0, "__server_id": 1}
    for name, value in (
        ("__file", []),
        ("__file", {"a": 1}),
        ("__server_id", [[]]),
        ("__pos", "x"),
        ("__op", {}),
        ("__op", 5),
    ):
        decoded = read_object(lines(good, {**good, name: value}), "json")
        expected = (2, 0) if name == "__server_id" else (1, 1)
        assert (len(rows_in(decoded)), len(decoded.rows)) == expected, (name, value)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 records, so that an object needn't be large to have several."""
    monkeypatch.setattr("sluice_formats.records.CHUNK_ROWS", 200)


def test_records_over_many_blocks_and_chunks_keep_their_order_and_offsets(small_chunks: None) -> None:
    rows = [change(lsn=10, id=n) for n in range(4_500)]
    decoded_rows = decoded(flattened(id="int"), rows, codec="snappy", block=500)
    assert [row["id"] for row in decoded_rows] == list(range(4_500))
    assert [row["_sluice_offset"] for row in decoded_rows] == list(range(500, 5_000))


def test_first_offsets_are_counted_back_from_a_name_with_the_last_offset(small_chunks: None) -> None:
    lenses = replace(ITEM, key="lake/x(0_4500).avro", offset=4_500)
    changes = [change(lsn=10, id=n) for n in range(4_000)]
    rows = decoded(flattened(id="int"), changes, item=lenses, codec="snappy", block=500)
    assert [row["_sluice_offset"] for row in rows] == list(range(501, 4_501))


def test_an_object_without_records_gives_none() -> None:
    assert decoded(flattened(id="int"), []) == []


def test_a_column_takes_the_form_that_the_batch_agreed_on() -> None:
    wide = flattened(
        id="long",
        price=["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}],
        at=semantic("long", "io.debezium.time.MicroTimestamp"),
        more=["null", "string"],
    )
    narrow = flattened(id="int", price=DECIMAL, at=semantic("long", "io.debezium.time.Timestamp"))
    (row,) = decoded(narrow, [change(id=1, price=Decimal("2.50"), at=1_000)], wide)
    assert (row["id"], row["price"], row["at"], row["more"]) == (1, Decimal("2.5000"), 1_000_000, None)


def test_a_decimal_of_negative_scale_is_as_long_as_its_numbers() -> None:
    """Oracle's NUMBER(20,-2), as AvroData.java writes it: the scale is below what Avro's own rule allows, and there all
    the same.
    """
    schema, other = (
        flattened(id="int", n=["null", {**DECIMAL[1], "precision": precision, "scale": scale}])
        for precision, scale in ((20, -2), (24, 2))
    )
    writers = [read_writer_schema(item) for item in (schema, other)]
    written = change(id=1, n=(-12345).to_bytes(3, "big", signed=True))
    body = under_another_schema(avro_object(flattened(id="int", n=["null", "bytes"]), [written]), schema)
    for used, value in ((writers[:1], Decimal(-1234500)), (writers, Decimal("-1234500.00"))):
        plan = plan_read(CONFIG, batch="b", writers=used, stored=None).plan
        assert decode(body, ITEM, plan).batches[0].to_pylist()[0]["n"] == value


def test_text_and_counts_of_one_meaning_agree_within_a_batch() -> None:
    def columns(**kinds: tuple[str, str]) -> dict[str, Any]:
        fields = {name: semantic(base, f"io.debezium.time.{kind}") for name, (base, kind) in kinds.items()}
        return flattened(id="int", **fields)

    counted = columns(at=("long", "MicroTimestamp"), day=("int", "Date"), t=("long", "MicroTime"))
    described = columns(at=("string", "ZonedTimestamp"), day=("string", "IsoDate"), t=("string", "IsoTime"))
    texts = {"at": "1970-01-02T01:00:00.5+01:00", "day": "1969-12-31Z", "t": "10:00:00Z"}
    (row,) = decoded(described, [change(id=1, **texts)], counted)
    assert (row["at"], row["day"], row["t"]) == ("1970-01-02T01:00:00.5+01:00", -1, "10:00:00Z")
    (row,) = decoded(counted, [change(id=1, at=5, day=7, t=-1)], described)
    assert (row["at"], row["day"], row["t"]) == ("1970-01-01T00:00:00.000005Z", 7, "-00:00:00.000001")


def test_a_changed_unit_of_time_costs_no_digit_beside_the_old_one() -> None:
    def unit(prefix: str, time: str) -> dict[str, Any]:
        at = semantic("long", f"io.debezium.time.{prefix}Timestamp")
        day_time = semantic(time, f"io.debezium.time.{prefix}Time")
        return flattened(id="int", at=at, t=day_time, l=["null", {"type": "array", "items": at}])

    millis, micros, nanos = unit("", "int"), unit("Micro", "long"), unit("Nano", "long")
    (row,) = decoded(nanos, [change(id=1, at=1_700_000_000_123_456_789, t=43_200_123_456_700, l=[1, None])], millis)
    expected = ("2023-11-14T22:13:20.123456789Z", "12:00:00.123456700", ["1970-01-01T00:00:00.000000001Z", None])
    assert (row["at"], row["t"], row["l"]) == expected
    beyond = {"at": 253_402_214_400_000, "t": 43_200_123, "l": [9_223_372_036_825_200]}  # what nanoseconds count
    (row,) = decoded(millis, [change(id=1, **beyond)], nanos)
    assert (row["at"], row["t"], row["l"]) == ("9999-12-31T00:00:00.000000Z", "12:00:00.123000", ["infinity"])
    late = 9_223_372_036_825_200_000
    changes = [change(id=1, at=-1, t=1, l=[-(2**63)]), change(id=2, at=late, t=None, l=None)]
    first, second = decoded(millis, changes, micros)
    expected = [(-1_000, "00:00:00.001000", [-(2**63)]), (late, None, None)]
    assert [(row["at"], row["t"], row["l"]) for row in (first, second)] == expected


def test_a_timestamp_to_the_minute_has_its_seconds() -> None:
    """java.time.OffsetDateTime.toString leaves out seconds that are 0."""
    schema = flattened(id="int", at=semantic("string", "io.debezium.time.ZonedTimestamp"))
    texts = ["2024-01-01T10:30Z", "2024-01-01T10:30-01:30", None, "infinity", "2024-01-01T10:30:00.5Z"]
    rows = decoded(schema, [change(id=n, at=text) for n, text in enumerate(texts)])
    assert [row["at"] for row in rows] == ["2024-01-01T10:30:00Z", "2024-01-01T10:30:00-01:30", *texts[2:]]


def test_a_key_of_more_digits_than_its_type_is_no_key_beside_another_unit_either() -> None:
    nanos, others = (
        flattened(id=semantic("long", "io.debezium.time.NanoTimestamp")),
        [flattened(id=semantic("long", f"io.debezium.time.{name}")) for name in ("Timestamp", "MicroTimestamp")],
    )
    rows = [change(lsn=n, id=count) for n, count in enumerate((1_000, 1_001, 1_002, 2**63 - 1))]
    texts = flattened(id=semantic("string", "io.debezium.time.ZonedTimestamp"))
    for writers in ([nanos], [nanos, *others], [*others, nanos], [texts, nanos]):
        result = read(nanos, *rows, plan=batch_plan(CONFIG, *writers).plan)
        assert [(row.code, row.record) for row in result.rows] == [("inexact_record_key", n) for n in (1, 2, 3)]
        assert len(result.batches) == 1


def test_times_that_come_as_their_components_are_dates_and_timestamps() -> None:
    """The records of Debezium's StructuredDate.java and its siblings."""

    def parts(name: str, **described: str) -> Any:
        fields = [{"name": part, "type": ["null", kind]} for part, kind in described.items()]
        return ["null", {"type": "record", "name": name, "connect.name": f"io.debezium.time.{name}", "fields": fields}]

    day, clock, special = (
        {part: "int" for part in ("year", "month", "day")},
        {part: "int" for part in ("hour", "minute", "second", "nanos")},
        {"specialValue": "string"},
    )
    schema = flattened(
        id="int",
        d=parts("StructuredDate", **day, **special),
        ts=parts("StructuredTimestamp", **day, **clock, **special, precision="int"),
        tz=parts("StructuredZonedTimestamp", **day, **clock, offsetSeconds="int", zoneId="string", **special),
        t=parts("StructuredTime", **clock),
        z=parts("StructuredZonedTime", **clock, offsetSeconds="int"),
    )
    at = {"year": 2026, "month": 2, "day": 3, "hour": 4, "minute": 5, "second": 6, "nanos": 7_000}
    date, time = ({part: at[part] for part in parts} for parts in (day, clock))
    zoned = {**at, "offsetSeconds": -5_400}, {**time, "hour": 24, "nanos": 1, "offsetSeconds": 0}
    usual = change(id=1, d=date, ts=at, tz=zoned[0], t=time, z=zoned[1])
    first, last = {"specialValue": "NEGATIVE_INFINITY"}, {"specialValue": "POSITIVE_INFINITY"}
    odd = change(id=2, d=last, ts=first, tz={**at, "year": -43}, t=None, z=None)
    moment = "2026-02-03T04:05:06.000007"
    assert [[row[name] for name in ("d", "ts", "tz", "t", "z")] for row in decoded(schema, [usual, odd])] == [
        ["2026-02-03Z", f"{moment}Z", f"{moment}-01:30", "04:05:06.000007", "24:05:06.000000001Z"],
        ["infinity", "-infinity", "-0043-02-03T04:05:06.000007Z", None, None],
    ]
    micros = flattened(id="int", ts=semantic("long", "io.debezium.time.MicroTimestamp"))
    alone = flattened(id="int", ts=schema["fields"][2]["type"])
    (row,) = decoded(alone, [change(id=1, ts={**at, "year": 1970, "month": 1, "day": 1})], micros)
    assert row["ts"] == "1970-01-01T04:05:06.000007Z"
    result = read(schema, change(id=1, d={"year": 2026, "month": 2}), change(id=2, tz={**at, "offsetSeconds": 1}))
    assert [row.code for row in result.rows] == ["value_out_of_range"] * 2 and not result.batches


def mongodb(**columns: Any) -> dict[str, Any]:
    """As ExtractNewDocumentState writes a document (`add.fields=op,ord,source.ts_ms`): one schema for each combination
    of its values' types.
    """
    meta = {"__op": "string", "__ord": "int", "__source_ts_ms": "long", "__deleted": "boolean"}
    return avro_record({name: ["null", kind] for name, kind in {"_id": "string", **columns, **meta}.items()})


def test_a_null_in_a_document_stored_as_text_has_the_known_type() -> None:
    """MongoDataConverter.java: BSON's null is OPTIONAL_STRING_SCHEMA, an empty array one of such."""
    table, at = replace(CONFIG, record_key=("_id",)), semantic("long", "org.apache.kafka.connect.data.Timestamp")[1]
    ints, texts = {"type": "array", "items": "int"}, {"type": "array", "items": ["null", "string"]}
    typed, untyped = (
        mongodb(n="int", at=at, ok="boolean", raw="bytes", l=ints, t="string"),
        mongodb(n="string", at="string", ok="string", raw="string", l=texts, t="string"),
    )
    also = mongodb(l="string")
    writers = [read_writer_schema(json.loads(json.dumps(schema))) for schema in (untyped, typed, also)]
    by_batch = plan_read(table, batch="b", writers=writers, stored=None)
    stored = plan_read(table, batch="b", writers=writers[1:2], stored=None).target
    by_table = plan_read(table, batch="c", writers=[writers[0], writers[2]], stored=stored)
    meta = {"_id": "a", "__op": "u", "__ord": 1, "__source_ts_ms": 1000, "__deleted": False}
    for planned in (by_batch, by_table):
        assert not planned.refused
        assert planned.target["n"].dataType.simpleString() == "int"
        assert planned.target["l"].dataType.simpleString() == "array<int>"
        nulls = {"n": None, "at": None, "ok": None, "raw": None, "l": [], "t": "x"}
        others = ({"n": "5"}, {"raw": "x"}, {"l": ["x"]})
        result = read(untyped, *({**meta, **nulls, **other} for other in ({}, *others)), plan=planned.plan)
        assert [{name: row[name] for name in nulls} for row in rows_in(result)] == [nulls]
        # What is there and is something else costs its row, and is kept.
        assert [row.code for row in result.rows] == ["value_out_of_range"] * 3
        (row,) = rows_in(read(also, {**meta, "l": None}, plan=planned.plan))
        assert row["l"] is None
    flat = [flattened(id="int", n=["null", kind]) for kind in ("int", "string")]
    assert batch_plan(CONFIG, *flat).refused  # other sources' columns do have types


def test_names_that_only_java_takes_for_names_are_read() -> None:
    """Avro's Java library checks a type's own name and no namespace, and takes letters of any script; so do topics with
    dashes and digits in front.
    """
    value = avro_record(
        {"id": "int", "ünïcode": ["null", "string"], "日本": ["string", "null"]}, namespace="my-src.1st.tävla-t"
    )
    source = avro_record({"lsn": ["null", "long"]}, name="Source", namespace="io.debezium.connector.postgresql")
    schema = avro_record(
        {"before": ["null", value], "after": ["null", "Value"], "source": source, "op": "string"},
        name="Envelope",
        namespace="my-src.1st.tävla-t",
    )
    (row,) = decoded(
        schema, [{"before": None, "after": {"id": 1, "ünïcode": "a", "日本": None}, "source": {"lsn": 9}, "op": "c"}]
    )
    assert (row["id"], row["_u00fcn_u00efcode"], row["_u65e5_u672c"]) == (1, "a", None)


def test_records_maps_and_numbers_of_any_scale_are_exact_text() -> None:
    variable = avro_record(
        {"scale": "int", "value": "bytes"}, name="VariableScaleDecimal", namespace="io.debezium.data"
    )
    point = avro_record({"x": "double", "wkb": ["null", "bytes"]}, name="Point")
    schema = flattened(
        id="int",
        n=["null", variable],
        p=["null", point],
        h={"type": "map", "values": ["null", "string"]},
        ns={"type": "array", "items": ["null", "io.debezium.data.VariableScaleDecimal"]},
    )
    number = {"scale": 3, "value": (-123456).to_bytes(4, "big", signed=True)}
    values = {"n": number, "p": {"x": 1.5, "wkb": b"\x01"}, "h": {"a": "1", "b": None}, "ns": [number, None]}
    (row,) = decoded(schema, [change(id=1, **values)])
    expected = ("-123.456", '{"x":1.5,"wkb":"AQ=="}', '{"a":"1","b":null}', ["-123.456", None])
    assert (row["n"], row["p"], row["h"], row["ns"]) == expected


def test_infinite_timestamps_do_not_refuse_their_object() -> None:
    schema = flattened(
        id="int",
        ms=semantic("long", "io.debezium.time.Timestamp"),
        tz=semantic("string", "io.debezium.time.ZonedTimestamp"),
    )
    values = [
        (9_223_372_036_825_200_000, "infinity"),
        (-9_223_372_036_832_400_000, "-infinity"),
        (9_223_372_036_825_200, "+292278994-08-16T23:00:00Z"),
    ]
    rows = decoded(schema, [change(id=n, ms=ms, tz=tz) for n, (ms, tz) in enumerate(values)])
    assert [(row["ms"], row["tz"]) for row in rows] == [*values[:2], (9_223_372_036_825_200, "infinity")]


def test_a_binlog_orders_by_file_number_position_and_row() -> None:
    schema = flattened(id="int", **{"__file": ["null", "string"], "__pos": ["null", "long"], "__row": ["null", "int"]})
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "__lsn"]
    place = {"__file": "bin.000007", "__pos": 4, "__row": 2}
    (row,) = decoded(schema, [{"id": 1, "__op": "c", "__deleted": "false", "__source_ts_ms": 1, **place}])
    assert row["_sluice_position"] == f"0003.{7:020d}.{4:020d}.{2:010d}.{500:020d}"


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([change(lsn=1, id=1), change(lsn=1, id=None)], NullRecordKey),
        ([change(op="x", lsn=1, id=1)], UnsupportedOperation),
        ([change(lsn=None, id=1)], Unordered),
        ([change(lsn=-1, id=1)], Unordered),
    ],
)
def test_a_change_that_cannot_be_merged_costs_its_own_row(rows: list[dict[str, Any]], error: type[SluiceError]) -> None:
    schema = flattened(id=["null", "int"])
    good = [change(lsn=5, id=n) for n in (8, 9)]
    result = read(schema, good[0], *rows, good[1])
    (row,) = result.rows
    assert (row.code, row.record, row.offset) == (error.code, len(rows), 500 + len(rows))
    assert json.loads(row.content)["__op"] == rows[-1]["__op"] and row.encoding == "json"
    assert row.position is None if error is Unordered else row.position.endswith(str(row.offset))
    merged = rows_in(result)
    assert [row["id"] for row in merged] == [8, *(row["id"] for row in rows[:-1]), 9]
    assert [row["_sluice_offset"] for row in merged] == [500 + n for n in range(len(rows) + 2) if n != len(rows)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}], b"\x7f\xff\xff\xff"),
        (semantic("long", "io.debezium.time.Timestamp"), 2**62),
        (semantic("string", "io.debezium.time.ZonedTimestamp"), "yesterday"),
        (semantic("string", "io.debezium.time.ZonedTimestamp"), "2024-01-01T10:60Z"),
        (semantic("string", "io.debezium.time.ZonedTimestamp"), "2024-13-01T00:00:00Z"),
        (semantic("string", "io.debezium.time.IsoDate"), "2024-01-32"),
    ],
)
def test_a_value_that_its_type_cannot_hold_costs_its_own_row(kind: Any, value: Any) -> None:
    schema = flattened(id="int", v=kind)
    body = avro_object(flattened(id="int", v=["null", kind[1]["type"]]), [change(id=1, v=value)])
    others = (
        [flattened(id="int", v=semantic("long", "io.debezium.time.NanoTimestamp"))] if "imestamp" in str(kind) else []
    )
    for writers in ([schema], [schema, *others]):
        plan = batch_plan(CONFIG, *writers).plan
        decoded = decode(under_another_schema(body, schema), ITEM, plan)
        assert [(row.code, row.record) for row in decoded.rows] == [(ValueOutOfRange.code, 0)]
        assert "Column v" in decoded.rows[0].reason
        assert decoded.batches == []


def test_text_that_is_not_utf_8_costs_its_own_row_and_keeps_its_bytes() -> None:
    schema = flattened(id="int", name="string")
    body = avro_object(schema, [change(lsn=1, id=n, name=f"name{n}") for n in range(3)])
    result = decode(body.replace(b"name1", b"na\xff\xfe1"), ITEM, batch_plan(CONFIG, schema).plan)
    assert [(row.code, row.record) for row in result.rows] == [("undecodable_value", 1)]
    assert json.loads(result.rows[0].content)["name"].encode("utf-8", "surrogateescape") == b"na\xff\xfe1"
    assert [row["id"] for row in rows_in(result)] == [0, 2]


def test_bad_rows_anywhere_in_a_long_object_are_found_and_all_others_kept_in_order(small_chunks: None) -> None:
    bad = {0, 1, 70, 199, 200, 4_498, 4_499}
    schema = flattened(id=["null", "int"])
    body = avro_object(schema, [change(lsn=10, id=None if n in bad else n) for n in range(4_500)], block=500)
    result = decode(body, ITEM, batch_plan(CONFIG, schema).plan)
    assert {row.record for row in result.rows} == bad
    assert [row["_sluice_offset"] for row in rows_in(result)] == [500 + n for n in range(4_500) if n not in bad]


def test_an_object_of_more_bad_rows_than_the_limit_is_refused_whole() -> None:
    schema = flattened(id=["null", "int"])
    plan = batch_plan(replace(CONFIG, limits=Limits(quarantined_rows=3)), schema).plan
    rows = [change(lsn=1, id=n) for n in range(50)]
    at_limit, beyond = (avro_object(schema, rows + [change(lsn=1, id=None)] * bad) for bad in (3, 4))
    assert len(decode(at_limit, ITEM, plan).rows) == 3
    with pytest.raises(TooManyBadRows, match="More than 3 records"):
        decode(beyond, ITEM, plan)


def test_more_records_or_more_decoded_bytes_than_the_limits_refuse_the_object() -> None:
    schema = flattened(id="int")
    body = avro_object(schema, [change(lsn=1, id=n) for n in range(500)], codec="deflate")
    for limits in (Limits(object_rows=499), Limits(decoded_bytes=10_000)):
        plan = batch_plan(replace(CONFIG, limits=limits), schema).plan
        with pytest.raises(ExpansionLimit):
            decode(body, ITEM, plan)


_MAGIC, _SYNC = ({"type": "fixed", "name": name, "size": size} for name, size in (("Magic", 4), ("Sync", 16)))
_HEADER = avro_record({"magic": _MAGIC, "meta": {"type": "map", "values": "bytes"}, "sync": _SYNC}, name="Header")


def under_another_schema(body: bytes, schema: dict[str, Any]) -> bytes:
    """The same blocks behind a header with this schema. Other writers accept schemas that fastavro's refuses."""
    source, forged = io.BytesIO(body), io.BytesIO()
    header: Any = fastavro.schemaless_reader(source, _HEADER)
    header["meta"]["avro.schema"] = json.dumps(schema).encode()
    fastavro.schemaless_writer(forged, _HEADER, header)
    return forged.getvalue() + body[source.tell() :]


PLAIN = avro_record({"id": "int", "p": "int", "o": "int"}, name="Price")
NO_OFFSET = replace(ITEM, kafka_partition=None, offset=None)


def positions(
    item: ManifestObject, config: TableConfig = CONFIG, schema: dict[str, Any] = PLAIN, *rows: dict[str, Any]
) -> list[str]:
    rows = rows or ({"id": 1, "p": 4, "o": 77}, {"id": 2, "p": 4, "o": 70})
    result = read(schema, *rows, at=item, plan=batch_plan(config, schema).plan)
    assert result.rows == []
    return [row["_sluice_position"] for row in rows_in(result)]


def test_rows_that_nothing_else_orders_have_the_place_of_their_object() -> None:
    timed = replace(NO_OFFSET, modified_at=1_764_000_000_002)
    assert positions(timed) == [f"0003.t01764000000.6b.002.{number:020d}" for number in range(2)]
    by_offset = positions(replace(timed, offset=500, kafka_partition=0))
    assert by_offset == [f"0003.{500 + number:020d}" for number in range(2)]
    assert positions(NO_OFFSET) == [f"0003.{number:020d}" for number in range(2)]  # claimed by an earlier release
    by_name = replace(CONFIG, key_pattern="dumps/(?P<order>[0-9]+)")
    assert positions(replace(timed, key="dumps/0007"), by_name)[0].startswith("0003.w017.01764000000.")
    events = replace(CONFIG, record_key=(hidden.ROW,), append_only=True)
    assert positions(timed, events) == [f"0003.{number:020d}" for number in range(2)]


def test_changes_of_a_log_keep_its_position_whatever_their_object_is_called() -> None:
    written = CONFIG, flattened(id="int"), change(lsn=10, id=1)
    (position,) = positions(replace(NO_OFFSET, modified_at=1_764_000_000_000), *written)
    assert position == "0003.00000000000000000010.t01764000000.6b.000.00000000000000000000"
    assert positions(NO_OFFSET, *written)[0] < position, "earlier release"


def test_a_record_that_carries_its_offset_is_ordered_by_it() -> None:
    carried = replace(CONFIG, coordinates=("p", "o"))
    assert positions(ITEM, carried) == ["0003.00000000000000000077", "0003.00000000000000000070"]
    assert positions(replace(NO_OFFSET, modified_at=5), carried) == positions(ITEM, carried)


def test_so_is_an_envelope_that_carries_it_beside_its_row() -> None:
    value = avro_record({"id": "int"})
    source = [{"name": name, "type": "long"} for name in ("lsn", "ts_ms")]
    fields = [
        {"name": "before", "type": ["null", value]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
        {"name": "op", "type": "string"},
        *({"name": name, "type": "long"} for name in ("ts_ms", "p", "o")),
    ]
    envelope = {"type": "record", "name": "Envelope", "fields": fields}
    change_at = {"before": None, "after": {"id": 1}, "source": {"lsn": 10, "ts_ms": 1}, "op": "c", "ts_ms": 5, "p": 4}
    (position,) = positions(ITEM, replace(CONFIG, coordinates=("p", "o")), envelope, {**change_at, "o": 77})
    assert position == f"0003.{10:020d}.{77:020d}"


def test_small_objects_are_decoded_together_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice_formats.decode.OBJECTS_TOGETHER", 6)
    older, newer = flattened(id="int", name="string"), flattened(id="int", name="string", place=["null", "string"])
    rows = [[change(lsn=n, id=n, name="n")] for n in range(30)]
    bodies = [avro_object(older, row) for row in rows]
    for n in (3, 4, 11, 21):  # another writer
        bodies[n] = avro_object(newer, [{**rows[n][0], "place": "p"}])
    bodies[5] = avro_object(older, [change(lsn=5, id=5, name="n" * 100_000)], codec="deflate")
    bodies[6] = avro_object(older, rows[6] * (SMALL_ROWS + 1))
    bodies[7] = bodies[7][:-5]
    bodies[8] = b""
    bodies[10] = avro_object(older, [])
    bodies[28] = avro_object(older, [*rows[28], change(op="u", lsn=-1, id=28, name="n")])  # a row to set aside
    bodies[25] = b'{"id": 25, "name": "of JSON", "place": "q"}'
    items = [replace(ITEM, key=f"x+0+{n}.avro", offset=500 + n, kafka_partition=n % 2) for n in range(len(bodies))]
    items[25] = replace(items[25], format="json", key="x+0+25.json")
    (inferred,) = json_schemas(bodies[25], {}, Limits())[0]
    writers = [read_writer_schema(schema) for schema in (older, newer, inferred)]
    plan = plan_read(
        CONFIG, batch="b", writers=writers, stored=None, inferred={items[25].id.hash: json.dumps(inferred)}
    ).plan

    def body_of(body: bytes) -> bytes:
        if body == bodies[9]:
            raise too_large(2, 1)
        return body

    assert batches_of_all(items, [partial(body_of, body) for body in bodies], plan) == 15


def batches_of_all(items: list[ManifestObject], bodies: list[Callable[[], bytes]], plan: ReaderPlan) -> int:
    """The number of batches of objects that are decoded together, each of which is as it would be alone."""
    together = list(decode_each(zip(items, bodies), plan))
    assert [item for item, _ in together] == items
    made: list[dict[str, Any]] = []
    for own, body, (_, entry) in zip(items, bodies, together):
        try:
            alone = decode(body(), own, plan)
        except SluiceError as error:
            assert isinstance(entry, SluiceError) and (type(entry), str(entry)) == (type(error), str(error))
            continue
        assert not isinstance(entry, SluiceError) and (entry.seen, entry.rows) == (alone.seen, alone.rows)
        made += [row for batch in alone.batches for row in batch.to_pylist()]
    batches = [batch for _, entry in together if not isinstance(entry, SluiceError) for batch in entry.batches]
    assert sorted(map(str, made)) == sorted(str(row) for batch in batches for row in batch.to_pylist())
    return len(batches)


def parquet(row: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row]), body, compression="none")
    return body.getvalue()


SMALL: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "avro": lambda row: avro_object(flattened(**{name: ["null", "long"] for name in row} | {"name": "string"}), [row]),
    "json": lambda row: lines(row),
    "csv": lambda row: f"{','.join(row)}\n{','.join(map(str, row.values()))}\n".encode(),
    "parquet": parquet,
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyarrow's, of a row that isn't UTF-8
@pytest.mark.parametrize("format", SMALL)
def test_damaged_small_objects_take_no_neighbour_with_them(format: str) -> None:
    chances = random.Random(format)
    whole = [SMALL[format]({"id": n, "seq": 10 + n, "name": f"é{n}", "size": n * n}) for n in range(60)]
    table = config("id", position="seq", json_types={"seq": "long", "id": "long"} if format == "csv" else {})
    (schema,), scanned = schemas_in(whole[0], format, table)
    items = [replace(item(format), key=f"x+0+{n}.{format}", offset=None, kafka_partition=None) for n in range(60)]
    inferred = {one.id.hash: json.dumps(schema) for one in items} if scanned else {}
    writer = read_writer_schema(json.loads(json.dumps(schema)))
    plan = plan_read(table, batch="b", writers=[writer], stored=None, inferred=inferred).plan
    assert batches_of_all(items, [partial(bytes, body) for body in whole], plan) == 1
    for _ in range(3):
        bodies = [bytearray(body) for body in whole]
        for body in chances.sample(bodies, 15):
            for _ in range(chances.choice([1, 1, 3])):
                body[chances.randrange(len(body))] = chances.randrange(256)
            if chances.random() < 0.2:
                del body[chances.randrange(len(body)) :]
        batches_of_all(items, [partial(bytes, body) for body in bodies], plan)


@pytest.mark.parametrize("raised", [IndexError("short"), ValueError("lengths differ")], ids=repr)
def test_a_defect_of_the_common_batch_is_raised_where_no_object_has_one(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def for_one(*given: Any, parts: Any, **more: Any) -> Any:
        if len(parts) > 1:
            raise raised
        return record_batch(*given, parts=parts, **more)

    monkeypatch.setattr("sluice_formats.decode.record_batch", for_one)
    schema = flattened(id="int")
    items = [replace(ITEM, key=f"x+0+{n}.avro", offset=500 + n) for n in range(3)]
    plan = batch_plan(CONFIG, schema).plan
    bodies = [avro_object(schema, [change(lsn=n, id=n)]) for n in range(3)]
    with pytest.raises(type(raised), match=str(raised)):
        list(decode_each(zip(items, (partial(bytes, body) for body in bodies)), plan))
    bodies[1] = avro_object(schema, [change(lsn=-1, id=1)])
    assert batches_of_all(items, [partial(bytes, body) for body in bodies], plan) == 2


def test_a_small_object_takes_no_time_of_those_held_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice_formats.decode.time", SimpleNamespace(thread_time=partial(next, count())))
    schema = flattened(id="int")
    bodies = [avro_object(schema, [change(lsn=n, id=n)]) for n in range(29)]
    bodies.append(avro_object(schema, [change(op="u", lsn=-1, id=29)]))  # a row to set aside: each is decoded alone
    items = [replace(ITEM, key=f"x+0+{n}.avro", offset=500 + n) for n in range(len(bodies))]
    plan = batch_plan(CONFIG, schema).plan
    plan = replace(plan, config=replace(CONFIG, limits=replace(CONFIG.limits, object_seconds=10)))
    held = decode_each(zip(items, (partial(bytes, body) for body in bodies)), plan)
    assert not [result for _, result in held if isinstance(result, SluiceError)]
