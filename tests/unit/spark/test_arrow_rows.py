"""Arrow rows hold what each raw value means by itself: every kind, its edges, and lists."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.meanings import EXAMPLES

from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig
from sluice.schema import columns as kinds
from sluice.schema.columns import SPARK_TYPES, Column, array_column, as_raw, decimal_column, plain_column
from sluice.schema.meaning import MEANINGS, stored_value
from sluice_formats.arrow_batches import batch_schema
from sluice_formats.records import ReaderPlan
from sluice_read.values import rows_of
from sluice_spark.merge.plan import column_types, data_type
from sluice_spark.merge.rows import LeftToSpark, arrow_rows

CONFIG = TableConfig("db.t", "db", "t", "t", ("id",))
ROWS = 60
COUNTS = {
    kind: [low, low - 1, low + 1, high, high - 1, high + 1, 0, -1, 1, 999, 1_000, -1_000, -1_001]
    for kind, meaning in MEANINGS.items()
    if meaning.real
    for low, high in [meaning.real]
}
TIMES = {
    kinds.TIME_MILLIS: [0, 86_399_999, 86_400_000, -1, -3_020_399_000, 3_020_399_000],
    kinds.TIME_MICROS: [0, 86_399_999_999, 86_400_000_000, -1, -3_020_399_000_000, 2**62],
    kinds.TIME_NANOS: [0, 86_399_999_999_999, 86_400_000_000_000, -1, -3_020_399_000_000_001, 2**62],
}
ZONED = [
    *("2023-11-14T22:13:20.123456789Z", "2023-11-14T22:13:20.1Z", "2023-11-15T00:13:20.5+02:00"),
    *("2023-11-15T00:13:20+18:00", "2023-11-15T00:13:20-18:01", "2023-11-15T00:13:20+23:59"),
    *("2023-02-29T00:00:00Z", "2024-02-29T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "0000-12-31T00:00:00Z"),
    *("-0043-02-03T00:00:00Z", "+10000-01-01T00:00:00.1234567Z", "+294247-01-10T04:00:54.775807Z"),
    *("+294247-01-10T04:00:54.775808Z", "999999-01-01T00:00:00Z", "infinity", "-infinity"),
    "+292278994-08-16T23:00:00Z",
]
ISO = [
    *("1999-12-31Z", "1999-12-31+02:00", "2023-02-30", "0000-01-01", "-4713-11-24Z", "+999999-12-31"),
    *("-5877611-06-21Z", "infinity", "+292278994-08-17Z"),
]


def values_of(kind: str, draw: random.Random) -> list[Any]:
    """Edges and random values of a kind in raw form."""
    if kind == kinds.BOOLEAN:
        return [True, False]
    if kind in (kinds.INT, kinds.DATE):
        return [*COUNTS.get(kind, ()), -(2**31), 2**31 - 1, *(draw.randint(-(2**31), 2**31 - 1) for _ in range(20))]
    if kind in TIMES:
        return [*TIMES[kind], *(draw.randint(-(10**14), 10**14) for _ in range(20))]
    if kind in COUNTS:
        return [*COUNTS[kind], 2**63 - 1, -(2**63), *(draw.randint(-(2**63), 2**63 - 1) for _ in range(20))]
    if kind in (kinds.LONG, kinds.DURATION_MICROS, kinds.DURATION_NANOS):
        return [-(2**63), 2**63 - 1, 0]
    if kind in (kinds.FLOAT, kinds.DOUBLE):
        return [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 0.10000000149011612]
    if kind == kinds.BYTES:
        return [b"", b"\0\xff"]
    if kind == kinds.ZONED_TIMESTAMP:
        return ZONED
    if kind == kinds.ISO_DATE:
        return ISO
    return ["", "text", "\u00e4\U0001f600"]


def filled(values: list[Any], draw: random.Random) -> list[Any]:
    """The values and nulls, in any order, as many as there are rows."""
    some = [*values, None]
    return draw.sample([*some, *draw.choices(some, k=ROWS - len(some))], ROWS)


def columns_and_values(draw: random.Random) -> tuple[tuple[Column, ...], dict[str, list[Any]], dict[str, str]]:
    """A column of each kind, a list of it, lists of lists, and columns whose table has a wider type."""
    columns: list[Column] = []
    values: dict[str, list[Any]] = {}
    wider: dict[str, str] = {}

    def add(column: Column, of_column: list[Any], table_type: str | None = None) -> None:
        columns.append(column)
        values[column.name] = of_column
        if table_type is not None:
            wider[column.name] = table_type

    def lists(items: list[Any]) -> list[Any]:
        return filled([[], [None], *([draw.choice([*items, None]) for _ in range(n)] for n in (1, 2, 3))], draw)

    for kind in SPARK_TYPES:
        own = values_of(kind, draw)
        add(plain_column(kind, kind, True, kind), filled(own, draw))
        element = plain_column("item", kind, True, kind)
        add(array_column(f"{kind}_list", element, True), lists(own))
        inner = [draw.choices([*own, None], k=n) for n in (0, 1, 2)]
        add(array_column(f"{kind}_lists", array_column("item", element, True), True), lists(inner))
    # Columns of usual timestamps alone, which Arrow parses.
    add(plain_column("usual", kinds.ZONED_TIMESTAMP, True, ""), filled([*ZONED[:4], ZONED[7], ZONED[8]], draw))
    add(plain_column("no_day", kinds.ZONED_TIMESTAMP, True, ""), filled([ZONED[0], ZONED[6]], draw))
    narrow = decimal_column("decimal", 5, 2, True, "")
    decimals = [Decimal("123.45"), Decimal("-999.99"), Decimal("0.01")]
    add(narrow, filled(decimals, draw))
    add(decimal_column("wide_decimal", 5, 2, True, ""), filled(decimals, draw), "decimal(20,4)")
    add(array_column("decimals", narrow, True), lists(decimals), "array<decimal(38,10)>")
    add(plain_column("wide_int", kinds.INT, True, ""), filled([-(2**31), 7], draw), "bigint")
    add(plain_column("wide_float", kinds.FLOAT, True, ""), filled(values_of(kinds.FLOAT, draw), draw), "double")
    add(array_column("wide_ints", plain_column("i", kinds.INT, True, ""), True), lists([1, -1]), "array<bigint>")
    return tuple(columns), values, wider


def counted(values: pa.Array) -> pa.Array:
    """Times as counts, numbers with a point as text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_list(values.type):
        offsets = zip(values.offsets.to_pylist(), [*values.is_valid().to_pylist(), True])
        begins = [offset if valid else None for offset, valid in offsets]
        return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), counted(values.values))
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


def as_text(value: Any) -> Any:
    """Numbers with a point as text, in lists too."""
    if isinstance(value, list):
        return [as_text(item) for item in value]
    if isinstance(value, (float, Decimal)) or isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return repr(float(value)) if isinstance(value, (float, str)) else f"{value:f}"
    return bytes(value) if isinstance(value, bytearray) else value


def batch_of(columns: tuple[Column, ...], values: dict[str, list[Any]]) -> tuple[pa.RecordBatch, ReaderPlan]:
    """A decoded batch of the columns, with hidden columns, and its plan."""
    plan, rows = ReaderPlan(CONFIG, "b", columns), len(values[columns[0].name])
    own: dict[str, list[Any]] = {column.name: [None] * rows for column in hidden.HIDDEN}
    own[hidden.POSITION] = [f"{number:05d}" for number in range(rows)]
    own[hidden.DELETED] = [number % 3 == 0 for number in range(rows)]
    own[hidden.PARTITION] = list(range(rows))
    unchanged = [["text"] if number % 7 == 0 else None for number in range(rows)]
    return pa.RecordBatch.from_pydict({**values, **own, hidden.UNCHANGED: unchanged}, schema=batch_schema(plan)), plan


def test_arrow_rows_of_every_kind_are_made_value_by_value() -> None:
    columns, values, wider = columns_and_values(random.Random(1))
    batch, plan = batch_of(columns, values)
    target = {column.name: wider.get(column.name, column.spark_type) for column in reversed(columns)}
    target = {**target, "added_before": "decimal(9,1)", **{column.name: column.spark_type for column in hidden.HIDDEN}}

    rows = arrow_rows([batch.slice(0, 11), batch.slice(11, 1), batch.slice(12)], plan=plan, target=target)

    assert rows.schema.names == [*target, hidden.UNCHANGED, hidden.INEXACT]
    assert rows.num_rows == ROWS and pc.sum(rows.column(hidden.INEXACT)).as_py() > 100
    for column in columns:
        if column.name not in wider and "decimal" not in column.name:
            scalar = [as_text(stored_value(value, column)) for value in batch.column(column.name).to_pylist()]
            assert scalar == [as_text(value) for value in counted(rows.column(column.name)).to_pylist()], column.name
    for name in wider:
        raw, made = batch.column(name).to_pylist(), rows.column(name).to_pylist()
        assert repr(made) == repr(raw) if name == "wide_float" else made == raw, name


def test_the_examples_mean_the_same_by_arrow_and_value_by_value() -> None:
    columns: list[Column] = []
    raw: list[Any] = []
    for number, example in enumerate(EXAMPLES):
        columns += [replace(example.column, name=f"c{number}"), replace(as_raw(example.column), name=f"r{number}")]
        columns.append(replace(array_column("l", example.column, True), name=f"l{number}"))
        raw += [example.raw, example.raw, [example.raw, None]]
    batch, plan = batch_of(tuple(columns), {column.name: [value] for column, value in zip(columns, raw)})

    by_arrow = arrow_rows([batch], plan=plan, target={column.name: column.spark_type for column in columns})

    for column, in_raw in zip(columns, raw):
        wanted = as_text(stored_value(in_raw, column))
        assert [as_text(one) for one in counted(by_arrow.column(column.name)).to_pylist()] == [wanted]
    (shown,) = rows_of(by_arrow.select([f"c{number}" for number in range(len(EXAMPLES))]).to_batches()[0])
    assert shown == tuple(example.stored for example in EXAMPLES)
    assert by_arrow.column(hidden.INEXACT).to_pylist() == [2 * sum(example.lost for example in EXAMPLES)]


def test_a_column_without_a_conversion_is_left_to_spark() -> None:
    column = plain_column("c", kinds.LONG, True, "long")
    batches: list[pa.RecordBatch] = []
    for target in ({"c": "int"}, {"c": "string"}, {}):
        with pytest.raises(LeftToSpark) as left:
            arrow_rows(batches, plan=ReaderPlan(CONFIG, "b", (column,)), target=target)
        assert left.value.reason == "column"
    assert arrow_rows(batches, plan=ReaderPlan(CONFIG, "b", (column,)), target={"c": "bigint"}).num_rows == 0


def test_the_types_of_arrow_rows_are_the_tables_own() -> None:
    from pyspark.sql.types import StructField, StructType

    kinds_of = ["boolean", "int", "date", "timestamp", "binary", "decimal(12,2)", "array<array<timestamp>>"]
    schema = StructType([StructField(f"c{number}", data_type(kind)) for number, kind in enumerate(kinds_of)])
    made = arrow_rows([], plan=ReaderPlan(CONFIG, "b", ()), target=column_types(schema)).schema
    timestamp = pa.timestamp("us", "UTC")
    plain = [pa.bool_(), pa.int32(), pa.date32(), timestamp, pa.binary(), pa.decimal128(12, 2)]
    assert made.types[:7] == [*plain, pa.list_(pa.list_(timestamp))]
