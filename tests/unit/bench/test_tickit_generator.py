"""The seeded generator of the benchmarks writes what the real connectors would."""

import io
import json
from pathlib import Path

import fastavro
import pytest

from sluice_bench.data.debezium_objects import SOURCES
from sluice_bench.data.tickit import Dataset, change_object, pieces, snapshot_object
from sluice_bench.data.tickit_rows import Sizes

SMALL = Dataset(Sizes.scaled(0.001), rows_per_object=100)
RECORDED = Path(__file__).resolve().parents[2] / "data" / "tickit_small"


def read(body: bytes) -> list[dict]:
    return list(fastavro.reader(io.BytesIO(body)))


def snapshot_of(dataset: Dataset, table: str) -> list[dict]:
    return [
        change for piece in pieces(dataset) if piece.table == table for change in read(snapshot_object(dataset, piece))
    ]


def test_only_the_same_seed_gives_the_same_bytes_except_the_sync_marker():
    assert snapshot_of(SMALL, "listing") == snapshot_of(SMALL, "listing")
    assert snapshot_of(SMALL, "listing") != snapshot_of(Dataset(SMALL.sizes, seed=1, rows_per_object=100), "listing")


@pytest.mark.parametrize("table", sorted(SOURCES))
def test_every_object_has_the_schema_that_the_real_connector_registered(table):
    recorded = sorted((RECORDED / "bronze" / "topics" / SOURCES[table].topic).rglob("*.avro"))[0]
    with recorded.open("rb") as file:
        real = fastavro.reader(file)
        first_real = next(real)
        made = fastavro.reader(io.BytesIO(snapshot_object(SMALL, next(p for p in pieces(SMALL) if p.table == table))))
        fields = [json.dumps(reader.writer_schema["fields"], sort_keys=True) for reader in (made, real)]
        first_made = next(made)
        assert fields[0] == fields[1] and first_made.keys() == first_real.keys()
        filled = [name for name, value in first_made.items() if None not in (value, first_real[name])]
        assert [type(first_made[name]) for name in filled] == [type(first_real[name]) for name in filled]


def test_snapshot_rows_share_one_position_and_changes_come_after_it():
    rows = snapshot_of(SMALL, "event")
    assert {r["__lsn"] for r in rows} == {rows[0]["__lsn"]} and {r["__op"] for r in rows} == {"r"}
    _, first = change_object(SMALL, "event", 3, change=1, ts_ms=1, eventname="Tosca")
    _, second = change_object(SMALL, "event", 3, change=2, ts_ms=1, op="d")
    update, delete = read(first)[0], read(second)[0]
    assert rows[0]["__lsn"] < update["__lsn"] < delete["__lsn"]
    assert update["eventname"] == "Tosca" and update["eventid"] == 3 and update["venueid"] == rows[2]["venueid"]


def test_a_delete_carries_only_the_key_with_defaults_where_null_is_not_allowed():
    _, body = change_object(SMALL, "listing", 7, change=1, ts_ms=1, op="d")
    change = read(body)[0]
    expected = {"listid": 7, "sellerid": 0, "priceperticket": None, "__deleted": "true", "__op": "d"}
    assert expected.items() <= change.items()
