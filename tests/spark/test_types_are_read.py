"""Every documented type, plain and nested, by every reader after every kind of write: docs/types.md has the result."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from support.builders import change, flattened
from support.documented_types import DOCUMENT, ROWS, avro_type, column_of, described_types, sample
from support.extent import WHOLE
from support.workbench import Silver, Workbench, table

from sluice.catalog.columns import META_COLUMNS
from sluice.config.table import TableConfig
from sluice_read.errors import Unreadable
from sluice_read.reading import Shown, open_table
from sluice_read.sql import run_query

LOADED, BASE_UPDATED, LOG_UPDATED, LOG_DELETED, COMPACTED = (
    "first load",
    "update in the base file",
    "update in a log",
    "delete in a log",
    "compaction",
)
WRITES = (LOADED, BASE_UPDATED, LOG_UPDATED, LOG_DELETED, COMPACTED)
PLAIN, LIST, MAP, RECORD = "plain", "in a list", "in a map", "in a record"
FIRST, SECOND, CHANGING, GOING = 1, 2, 3, 4  # the rows' keys
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Tried:
    """A documented type that is tried: its columns are `c0` and `c0_list`, the record's fields `c0` and `c0_map`."""

    name: str
    described: str

    @property
    def stored(self) -> str:
        """Its stored type, of decimals without the digits."""
        return re.sub(r"\(.*?\)", "", self.spark_type)

    @property
    def spark_type(self) -> str:
        return column_of(self.described).spark_type

    @property
    def in_lists(self) -> bool:
        return not self.described.startswith("array")


def _tried() -> tuple[Tried, ...]:
    """All documented types. `make test` leaves out those that are decoded and stored as another one is."""
    every = [text for row in ROWS for text in described_types(row[1])]
    if not WHOLE:
        every = list({_decoded_as(text): text for text in reversed(every)}.values())
    return tuple(Tried(f"c{number}", text) for number, text in enumerate(dict.fromkeys(every)))


def _decoded_as(described: str) -> tuple[str, str, str]:
    column = column_of(described)
    return avro_type(described)["type"], column.kind, column.spark_type


TRIED = _tried()


def writer_schema(tried: Sequence[Tried] = TRIED) -> dict[str, Any]:
    """A column of each type, a list of it, and a record of all and of maps of all, whose stored form is JSON."""
    kinds: dict[str, Any] = {}
    nested = []
    for typed in tried:
        kind = avro_type(typed.described)
        kinds[typed.name] = kind
        if typed.in_lists:
            kinds[f"{typed.name}_list"] = {"type": "array", "items": ["null", kind]}
        nested += [(typed.name, kind), (f"{typed.name}_map", {"type": "map", "values": ["null", kind]})]
    fields = [{"name": name, "type": ["null", kind]} for name, kind in nested]
    kinds["nested"] = {"type": "record", "name": "Nested", "fields": fields}
    defined: set[str] = set()
    numbers = itertools.count()
    columns = {name: ["null", _named_once(kind, defined, numbers)] for name, kind in kinds.items()}
    return flattened({"id": "int", "place": ["null", "string"], **columns})


def _named_once(kind: Any, defined: set[str], numbers: Iterator[int]) -> Any:
    """The type with a reference in place of a record that is known already, and names of their own for the others."""
    if isinstance(kind, list):
        return [_named_once(item, defined, numbers) for item in kind]
    if not isinstance(kind, dict):
        return kind
    schema = dict(kind)
    if "namespace" in kind:
        full = f"{kind['namespace']}.{kind['name']}"
        if full in defined:
            return full
        defined.add(full)
    elif "name" in kind:
        schema["name"] = f"{kind['name']}{next(numbers)}"
    schema.update({part: _named_once(kind[part], defined, numbers) for part in ("items", "values") if part in kind})
    if "fields" in kind:
        schema["fields"] = [{**field, "type": _named_once(field["type"], defined, numbers)} for field in kind["fields"]]
    return schema


def values(second: bool) -> dict[str, Any]:
    """A row's values as they come: the first or the second of each type."""
    made: dict[str, Any] = {}
    nested = {}
    for typed in TRIED:
        value = sample(typed.described)[int(second)]
        made[typed.name] = value
        if typed.in_lists:
            made[f"{typed.name}_list"] = [value, None, value]
        nested.update({typed.name: value, f"{typed.name}_map": {"k": value, "n": None}})
    return {**made, "nested": nested}


def plain(value: Any) -> Any:
    """A value of Spark's or Arrow's as plain Python, times in UTC."""
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is None else value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


def by_spark(bench: Workbench, config: TableConfig) -> list[Row]:
    return [row.asDict() for row in bench.spark.read.format("hudi").load(bench.path(config)).collect()]


def by_read(bench: Workbench, config: TableConfig) -> list[Row]:
    opened = open_table(Silver(bench.services.tables_uri), config.table)
    return list(opened.reader(Shown(with_deleted=True)).read_all().to_pylist())


def by_query(bench: Workbench, config: TableConfig) -> list[Row]:
    with run_query(Silver(bench.services.tables_uri), f"from {config.table}", with_deleted=True) as (_, result):
        return list(result.to_arrow_reader().read_all().to_pylist())


READERS = {"Spark": by_spark, "`sluice query TABLE`": by_read, "SQL of `sluice query`": by_query}


class Matrix:
    """What was not read as it was written: by stored type and write, forms and readers."""

    def __init__(self) -> None:
        self._wrong: dict[tuple[str, str], list[str]] = {}
        self._nested: dict[int, str] = {}

    def check(self, bench: Workbench, config: TableConfig, write: str, *, changed: bool, gone: bool) -> None:
        """Read the table by every reader, and compare each row with its values."""
        for reader, read in READERS.items():
            try:
                rows = {row["id"]: row for row in read(bench, config)}
            except Unreadable as error:
                for typed in TRIED:
                    self._note(typed.stored, write, f"not by {reader}: {error}")
                continue
            assert sorted(rows) == [FIRST, SECOND, CHANGING, GOING]
            assert [rows[key]["__deleted"] for key in sorted(rows)] == [False, False, False, gone]
            for key, second in ((FIRST, False), (SECOND, True), (CHANGING, changed), (GOING, None if gone else False)):
                self._compare(write, reader, rows[key], second)

    def _compare(self, write: str, reader: str, row: Row, second: bool | None) -> None:
        nested = {} if row["nested"] is None else json.loads(row["nested"])
        # What text the values have in JSON is proven elsewhere; here they must stay what the first load made of them.
        if second is not None:
            assert row["nested"] == self._nested.setdefault(int(second), row["nested"])
        for typed in TRIED:
            stored = None if second is None else sample(typed.described)[2 + int(second)]
            forms = {PLAIN: plain(row[typed.name]) == stored}
            if typed.in_lists:
                listed = None if second is None else [stored, None, stored]
                forms[LIST] = plain(row[f"{typed.name}_list"]) == listed
            forms[RECORD] = (typed.name in nested) is (second is not None)
            forms[MAP] = (nested.get(f"{typed.name}_map") or {"n": None}).keys() >= {"n"} and (
                second is None or nested[f"{typed.name}_map"] == {"k": nested[typed.name], "n": None}
            )
            for form, right in forms.items():
                kind = {LIST: f"array<{typed.stored}>", PLAIN: typed.stored}.get(form, "string")
                self._note(kind, write, "" if right else f"not {form} by {reader}: {typed.described}")

    def _note(self, kind: str, write: str, wrong: str) -> None:
        noted = self._wrong.setdefault((kind, write), [])
        if wrong and wrong not in noted:
            noted.append(wrong)

    def text(self) -> str:
        """The table of the document."""
        kinds = sorted({kind for kind, _ in self._wrong}, key=lambda kind: (kind.startswith("array"), kind))
        lines = [f"| stored as | {' | '.join(WRITES)} |", f"|{'---|' * (1 + len(WRITES))}"]
        for kind in kinds:
            cells = ["; ".join(self._wrong[kind, write]) or "all" for write in WRITES]
            lines.append(f"| {kind} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def bench(spark: object, s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(spark, s3_endpoint, tmp_path_factory.mktemp("types"))


@pytest.fixture(scope="module")
def logged(bench: Workbench) -> TableConfig:
    """A merge-on-read table whose changes are in a log: an update, and a delete that moves its row to no partition."""
    return table("logged", table_type="mor", partition_by=("place",))


def loaded_rows() -> list[dict[str, Any]]:
    return [
        change("r", 10, id=key, place="A", **values(second=key == SECOND)) for key in (FIRST, SECOND, CHANGING, GOING)
    ]


def changed_rows() -> list[dict[str, Any]]:
    gone = change("d", 21, id=GOING, place=None, **dict.fromkeys(values(second=False)))
    return [change("u", 20, id=CHANGING, place="A", **values(second=True)), gone]


def load(bench: Workbench, config: TableConfig) -> None:
    outcome = bench.apply(config, *loaded_rows(), schema=writer_schema())
    assert (outcome.quarantined, outcome.quarantined_rows) == ((), ())


def change_rows(bench: Workbench, config: TableConfig) -> None:
    outcome = bench.apply(config, *changed_rows(), schema=writer_schema())
    assert (outcome.quarantined, outcome.quarantined_rows) == ((), ())


@pytest.mark.whole
def test_every_type_is_read_after_every_write_as_documented(bench: Workbench, logged: TableConfig) -> None:
    matrix = Matrix()
    load(bench, logged)
    matrix.check(bench, logged, LOADED, changed=False, gone=False)
    change_rows(bench, logged)
    assert any(".log." in entry.name for entry in bench.local_path(logged).rglob("*"))
    matrix.check(bench, logged, LOG_UPDATED, changed=True, gone=True)
    matrix.check(bench, logged, LOG_DELETED, changed=True, gone=True)
    assert bench.hudi(logged).compact_all() is not None
    matrix.check(bench, logged, COMPACTED, changed=True, gone=True)
    based = table("based", partition_by=("place",))
    load(bench, based)
    change_rows(bench, based)
    matrix.check(bench, based, BASE_UPDATED, changed=True, gone=True)

    if os.environ.get("SLUICE_WRITE_TYPES"):
        head, _, rest = DOCUMENT.read_text(encoding="utf-8").partition("| stored as |")
        _, _, tail = rest.partition("\n\n")
        DOCUMENT.write_text(f"{head}{matrix.text()}\n{tail}", encoding="utf-8")
    assert matrix.text() in DOCUMENT.read_text(encoding="utf-8"), "run this test with SLUICE_WRITE_TYPES=1"


@pytest.mark.whole
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_every_type_is_written_in_the_driver_as_in_tasks(bench: Workbench, table_type: str) -> None:
    driver, tasks = (table(f"{name}_{table_type}", table_type=table_type) for name in ("driver", "tasks"))
    bench.services.tables.leave_to_spark(tasks)
    # A list of timestamps in a log is left to Spark.
    tried = [
        typed for typed in TRIED if table_type == "cow" or "timestamp" not in column_of(typed.described).spark_type
    ]
    objects = [bench.put(rows, writer_schema(tried)) for rows in (loaded_rows(), changed_rows())]
    for config in (driver, tasks):
        bench.merge(config, objects[:1])
    left = bench.events.names().count("left_to_spark")
    for config in (driver, tasks):
        bench.merge(config, objects[1:])
    assert bench.events.names().count("left_to_spark") == left
    here, there = (bench.table_by_hudi_rs(config).sort_by("id") for config in (driver, tasks))
    assert here.schema.names == there.schema.names and here.num_rows == 4
    for name in here.schema.names:
        if name not in META_COLUMNS:
            assert here.column(name).equals(there.column(name)), name
    plain = [name for name in here.schema.names if name not in META_COLUMNS]
    assert list(map(repr, bench.rows(driver, *plain))) == list(map(repr, bench.rows(tasks, *plain)))


@pytest.mark.whole
def test_the_bundle_of_athenas_generation_reads_parquet_logs(bench: Workbench) -> None:
    config = table("old", table_type="mor", partition_by=("place",))
    load(bench, config)
    change_rows(bench, config)
    rows = "to_json(struct(*))"
    here = [row[0] for row in bench.spark.read.format("hudi").load(bench.path(config)).selectExpr(rows).collect()]
    assert bench.rows_by_old_bundle(config, rows) == [(text,) for text in sorted(here)]
