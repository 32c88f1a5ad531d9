"""A column whose semantic type changes between batches: its values are stored alike, or the later object is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders import avro_object, change, flattened
from support.shapes import config, item, lines, read, rows_in, seen_in

from sluice.batch.kafka_watch import KafkaWatch, watched
from sluice.changes.log_restart import SeenObject, joined
from sluice.config.table import TableConfig
from sluice.schema.avro import read_writer_schema
from sluice_formats.decode import decode
from sluice_spark.merge.plan import PlannedRead, column_types, plan_read
from sluice_spark.merge.rows import LeftToSpark, arrow_rows

MOMENT, CLOCK, SPAN = 1_714_953_604_005_000_000, 43_204_005_000_000, 7_000_000_000  # in nanoseconds
AT = datetime.fromtimestamp(MOMENT // 10**9, timezone.utc)


def semantic(base: str, name: str) -> dict[str, str]:
    return {"type": base, "connect.name": name}


def logical(base: str, name: str) -> dict[str, str]:
    return {"type": base, "logicalType": name}


DECIMAL = {"type": "bytes", "logicalType": "decimal"}
VARIABLE = {
    "type": "record",
    "name": "V",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
# By quantity, the types that a column may have for it, each with the value for the same moment, day, time or number.
TYPES: dict[str, dict[str, tuple[Any, Any]]] = {
    "moment": {
        "Timestamp": (semantic("long", "io.debezium.time.Timestamp"), MOMENT // 10**6),
        "connect Timestamp": (semantic("long", "org.apache.kafka.connect.data.Timestamp"), MOMENT // 10**6),
        "MicroTimestamp": (semantic("long", "io.debezium.time.MicroTimestamp"), MOMENT // 1_000),
        "NanoTimestamp": (semantic("long", "io.debezium.time.NanoTimestamp"), MOMENT),
        "ZonedTimestamp": (semantic("string", "io.debezium.time.ZonedTimestamp"), f"{AT:%Y-%m-%dT%H:%M:%S}.005Z"),
        "IsoTimestamp": (semantic("string", "io.debezium.time.IsoTimestamp"), f"{AT:%Y-%m-%dT%H:%M:%S}.005Z"),
        "timestamp-millis": (logical("long", "timestamp-millis"), MOMENT // 10**6),
        "timestamp-micros": (logical("long", "timestamp-micros"), MOMENT // 1_000),
        "timestamp-nanos": (logical("long", "timestamp-nanos"), MOMENT),
        "local-timestamp-millis": (logical("long", "local-timestamp-millis"), MOMENT // 10**6),
        "local-timestamp-micros": (logical("long", "local-timestamp-micros"), MOMENT // 1_000),
    },
    "day": {
        "Date": (semantic("int", "io.debezium.time.Date"), MOMENT // (86_400 * 10**9)),
        "date": (logical("int", "date"), MOMENT // (86_400 * 10**9)),
        "IsoDate": (semantic("string", "io.debezium.time.IsoDate"), f"{AT:%Y-%m-%d}"),
        "timestamp-millis": (logical("long", "timestamp-millis"), MOMENT // (86_400 * 10**9) * 86_400_000),
    },
    "time": {
        "Time": (semantic("int", "io.debezium.time.Time"), CLOCK // 10**6),
        "MicroTime": (semantic("long", "io.debezium.time.MicroTime"), CLOCK // 1_000),
        "NanoTime": (semantic("long", "io.debezium.time.NanoTime"), CLOCK),
        "time-millis": (logical("int", "time-millis"), CLOCK // 10**6),
        "time-micros": (logical("long", "time-micros"), CLOCK // 1_000),
        "text": ("string", "12:00:04.005"),
    },
    "fraction": {"float": ("float", 0.1), "double": ("double", 0.1), "text": ("string", "0.1")},
    "text": {"string": ("string", "a"), "bytes": ("bytes", b"a")},
    "span": {
        "MicroDuration": (semantic("long", "io.debezium.time.MicroDuration"), SPAN // 1_000),
        "NanoDuration": (semantic("long", "io.debezium.time.NanoDuration"), SPAN),
        "Interval": (semantic("string", "io.debezium.time.Interval"), "P0Y0M0DT0H0M7S"),
        "MicroDurations": ({"type": "array", "items": semantic("long", "io.debezium.time.MicroDuration")}, [7_000_000]),
        "NanoDurations": ({"type": "array", "items": semantic("long", "io.debezium.time.NanoDuration")}, [SPAN]),
    },
    "number": {
        "int": ("int", 7),
        "long": ("long", 7),
        "float": ("float", 7.0),
        "double": ("double", 7.0),
        "string": ("string", "7"),
        "Year": (semantic("int", "io.debezium.time.Year"), 7),
        "decimal(9,2)": ({**DECIMAL, "precision": 9, "scale": 2}, (700).to_bytes(2, "big")),
        "decimal(9,0)": ({**DECIMAL, "precision": 9, "scale": 0}, bytes((7,))),
        "decimal(60,2)": ({**DECIMAL, "precision": 60, "scale": 2}, (700).to_bytes(2, "big")),
        "decimal(60,3)": ({**DECIMAL, "precision": 60, "scale": 3}, (7000).to_bytes(2, "big")),
        "VariableScaleDecimal": (VARIABLE, {"scale": 1, "value": bytes((70,))}),
        "record": ({**VARIABLE, "connect.name": "other"}, {"scale": 1, "value": bytes((70,))}),
    },
}


def stored(planned: PlannedRead, body: bytes, key: str, format: str = "avro") -> tuple[SeenObject, list[Any]]:
    read = decode(body, replace(item(format), key=key), planned.plan)
    assert not read.rows
    rows = arrow_rows(read.batches, plan=planned.plan, target=column_types(planned.target))
    return read.seen, rows.column("c").to_pylist()


def outcome(
    types: Sequence[tuple[Any, Any]], table: TableConfig, *, one_batch: bool = False
) -> tuple[list[Any], list[Any]] | None:
    """The stored values of two types of one column; None where the later object is refused."""
    schemas = [flattened({"id": "int", "c": kind}) for kind, _ in types]
    writers = [read_writer_schema(json.loads(json.dumps(schema))) for schema in schemas]
    bodies = [avro_object(schema, [change(id=1, c=value)]) for schema, (_, value) in zip(schemas, types)]
    if one_batch:
        planned = plan_read(table, batch="b", writers=writers, stored=None)
        if planned.refused:
            return None
        (seen, values), (other, later) = (stored(planned, body, f"t/{n}") for n, body in enumerate(bodies))
        return None if watched(KafkaWatch(), [seen, other], table).refused else (values, later)
    planned = plan_read(table, batch="a", writers=writers[:1], stored=None)
    if planned.refused:
        return None
    seen, values = stored(planned, bodies[0], "t/0")
    watch = KafkaWatch.from_dict(watched(KafkaWatch(), [seen], table).watch.to_dict())
    planned = plan_read(table, batch="b", writers=writers[1:], stored=planned.target)
    if planned.refused:
        return None
    try:
        other, later = stored(planned, bodies[1], "t/1")
    except LeftToSpark:  # a wider type, whose values Spark casts
        assert planned.widened
        return None
    return None if watched(watch, [other], table).refused else (values, later)


TABLES = {
    "stored": config("id"),
    "raw": config("id", raw=("*",)),
    "key": config("c"),
    "raw key": config("c", raw=("c",)),
    "append_only": config(append_only=True),
}


@pytest.mark.long
@pytest.mark.parametrize("quantity", TYPES)
@pytest.mark.parametrize("how", TABLES)
def test_semantic_types_of_one_column_are_stored_alike_or_refused(how: str, quantity: str) -> None:
    wrong = []
    for (first, one), (second, other), one_batch in product(*[TYPES[quantity].items()] * 2, (False, True)):
        if {first, second} == {"string", "record"} and "key" not in how:
            continue  # text may hold JSON
        if quantity in ("fraction", "text") and "key" not in how:
            continue  # a double holds each float, and bytes are no text
        result = outcome((one, other), TABLES[how], one_batch=one_batch)
        if result is not None and len({_meant(value, exact="key" in how) for value in (*result[0], *result[1])}) > 1:
            wrong.append((first, second, one_batch, *result))
    assert wrong == [], "\n".join(map(str, wrong))


def _meant(value: Any, *, exact: bool) -> str:
    """A stored value, with the text of a number or time as it reads: in a key it counts as it is."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text and not (exact and isinstance(value, str)) else text


# pandas 3 has microseconds where earlier releases had nanoseconds: https://pandas.pydata.org/docs/whatsnew/v3.0.0.html
def test_durations_of_arrow_in_another_unit_are_refused() -> None:
    def of_unit(unit: str) -> tuple[SeenObject, int]:
        table = pa.table({"id": [1], "c": pa.array([timedelta(seconds=7)], pa.duration(unit))})
        pq.write_table(table, body := io.BytesIO())
        decoded = read(body.getvalue(), item("parquet", f"t/{unit}"))
        return decoded.seen, rows_in(decoded)[0]["c"]

    (nanos, in_nanos), (micros, in_micros), (millis, in_millis) = map(of_unit, ("ns", "us", "ms"))
    assert (in_nanos, in_micros, in_millis) == (7 * 10**9, 7 * 10**6, 7_000)
    assert list(watched(KafkaWatch(), [nanos, micros], config("id")).refused) == [micros.object]
    assert not watched(KafkaWatch(), [millis], config("id")).watch.units


@pytest.mark.parametrize("avro_first", [True, False])
@pytest.mark.parametrize("in_key", [True, False])
def test_numbers_of_oracle_in_json_without_schema_are_refused_beside_avro(in_key: bool, avro_first: bool) -> None:
    table = config("c" if in_key else "id")
    kind, number = TYPES["number"]["VariableScaleDecimal"]
    schema = flattened({"id": "int", "c": kind})
    avro = seen_in(avro_object(schema, [change(id=1, c=number)]), item("avro", "t/avro"), table)
    as_json = seen_in(lines(change(id=1, c={"scale": 1, "value": "Rg=="})), item("json", "t/json"), table)
    objects = [avro, as_json] if avro_first else [as_json, avro]
    first = watched(KafkaWatch(), objects[:1], table)
    later = watched(KafkaWatch.from_dict(first.watch.to_dict()), objects[1:], table)
    assert not first.refused and list(later.refused) == list(watched(KafkaWatch(), objects, table).refused)
    assert [error.code for error in later.refused.values()] == ["incompatible_schema"]
    both = joined([avro, as_json])
    assert list(watched(KafkaWatch(), [both], table).refused) == [both.object]


def test_a_zero_below_zero_in_a_key_is_zero() -> None:
    body = avro_object(flattened({"id": "int", "c": "double"}), [change(id=1, c=-0.0), change(id=2, c=0.0)])
    decoded = read(body, "avro", config("c"))
    assert [str(row["c"]) for row in rows_in(decoded)] == ["0.0", "0.0"]


@pytest.mark.parametrize("names", ["ba", "abz"])
def test_records_of_other_members_in_a_key_are_refused(names: str) -> None:
    table = config("c")

    def of_members(names: str) -> SeenObject:
        fields = [{"name": name, "type": ["null", "int"]} for name in names]
        schema = flattened({"c": {"type": "record", "name": "K", "fields": fields}})
        values = {"a": 1, "b": 2, "z": None}
        body = avro_object(schema, [change(c={name: values[name] for name in names})])
        return seen_in(body, item("avro", f"t/{names}"), table)

    first, later = of_members("ab"), of_members(names)
    assert list(watched(KafkaWatch(), [first, later], table).refused) == [later.object]
    assert not watched(KafkaWatch(), [first, of_members("ab")], table).refused


def test_units_of_an_object_that_is_refused_are_not_the_tables() -> None:
    table = config("id")

    def of_table(source: str, unit: str) -> SeenObject:
        units = (("c", f"duration in {unit}"),)
        return SeenObject(f"{source} {unit}", "k", None, 0, 0, "offset", "0", source_tables=(source,), units=units)

    first = replace(of_table("d.s.t", ""), units=())
    watch = watched(KafkaWatch(), [first], table).watch
    other = watched(watch, [of_table("d.s.other", "nanos")], table)
    assert other.refused and not other.watch.units
    own = watched(other.watch, [of_table("d.s.t", "micros")], table)
    assert not own.refused and own.watch.units == {"c": "duration in micros"}
