"""Append-only records under a key, or under coordinates, that come again: repetitions and other records."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders import avro_object
from support.workbench import Workbench, params, table

from sluice.batch.manifest import ManifestObject
from sluice.changes.hidden_columns import ROW
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "e", "type": ["null", "string"]}, {"name": "p", "type": "int"}, {"name": "o", "type": "long"}],
}


def put(bench: Workbench, events: Sequence[str | None], *, format: str = "json", first: int = 0) -> ManifestObject:
    records = [{"e": event, "p": 0, "o": first + number} for number, event in enumerate(events)]
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    parquet = io.BytesIO()
    types = pa.schema([("e", pa.string()), ("p", pa.int32()), ("o", pa.int64())])
    pq.write_table(pa.Table.from_pylist(records, schema=types), parquet)
    csv = "e,p,o\n" + "".join(f"{record['e']},{record['p']},{record['o']}\n" for record in records)
    bodies = {"json": lines, "parquet": parquet.getvalue(), "csv": csv.encode(), "avro": avro_object(SCHEMA, records)}
    mark = bench.put_schema(SCHEMA) if format in ("avro", "parquet") else None
    key = f"topics/log/partition=0/log+0+{first:010d}.{format}"
    return bench.put_bytes(bodies[format], key=key, schema=mark, format=format, offset=first)


def log_of(name: str, table_type: str, **settings: Any) -> TableConfig:
    types = {"p": "int", "o": "long"}
    return table(name, record_key=(ROW,), append_only=True, table_type=table_type, json_types=types, **settings)


def events(bench: Workbench, config: TableConfig) -> list[Any]:
    return sorted((row[0] for row in bench.rows(config, "e")), key=str)


EVERY = (("mor", "json"), ("cow", "avro"), ("cow", "parquet"), ("mor", "csv"))


@pytest.mark.parametrize(("table_type", "format"), params(EVERY, short={("mor", "json")}))
def test_other_records_under_a_key_are_new_rows_and_equal_ones_repetitions(
    bench: Workbench, table_type: str, format: str
) -> None:
    log = log_of(f"again_{table_type}_{format}", table_type)
    old, new = put(bench, ["a", "b", "c"], format=format), put(bench, ["a", "x"], format=format)
    assert bench.merge(log, [old]).counts["winning"] == 3
    outcome = bench.merge(log, [new])
    assert (outcome.counts["winning"], outcome.counts["taken_anew"]) == (2, 2)
    assert any("2 records came under keys" in note for note in outcome.notes)
    assert events(bench, log) == ["a", "a", "b", "c", "x"]
    grown, cut = put(bench, ["a", "x", "y"], format=format), put(bench, ["a", "b"], format=format)
    assert bench.merge(log, [cut, grown]).counts["winning"] == 1
    assert bench.merge(log, [old, new, cut, grown]).no_change
    assert events(bench, log) == ["a", "a", "b", "c", "x", "y"]
    at_once = log_of(f"at_once_{table_type}_{format}", table_type)
    bench.merge(at_once, [grown, new, cut, old])
    assert events(bench, at_once) == ["a", "a", "b", "c", "x", "y"], "as after a rebuild"


@pytest.mark.whole
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_other_records_at_the_same_coordinates_are_new_rows(bench: Workbench, table_type: str) -> None:
    log = log_of(f"placed_{table_type}", table_type, coordinates=("p", "o"))
    old, new = put(bench, ["a", "b", "c"]), put(bench, ["x", None, "z"])
    divided = put(bench, ["b", "c", "d"], first=1)
    bench.merge(log, [old])
    assert bench.merge(log, [new]).counts["taken_anew"] == 3
    assert bench.merge(log, [divided]).counts["winning"] == 1
    assert bench.merge(log, [old, divided, new]).no_change
    assert events(bench, log) == sorted([None, "a", "b", "c", "d", "x", "z"], key=str)
    at_once = log_of(f"placed_at_once_{table_type}", table_type, coordinates=("p", "o"))
    bench.merge(at_once, [new, divided, old])
    assert events(bench, at_once) == events(bench, log)


@pytest.mark.parametrize("coordinates", [(), ("p", "o")])
@pytest.mark.parametrize(
    "rules",
    [ColumnRules(exclude=("e",)), ColumnRules(mask={"e": 0}), ColumnRules(rename={"e": "event"})],
    ids=["exclude", "mask", "rename"],
)
def test_records_that_come_again_under_other_rules_of_columns_are_repetitions(
    bench: Workbench, rules: ColumnRules, coordinates: tuple[str, ...]
) -> None:
    name = f"ruled_{len(coordinates)}_{'_'.join(n for n in ('exclude', 'mask', 'rename') if getattr(rules, n))}"
    log = log_of(name, "cow", coordinates=coordinates)
    old = put(bench, ["a", "b", "c"])
    bench.merge(log, [old])
    ruled = replace(log, columns=rules)
    assert bench.merge(ruled, [replace(old, first_batch="b-1", attempt=1)]).no_change  # replayed
    assert len(bench.rows(log, "o")) == 3
