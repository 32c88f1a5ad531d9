"""Writes the objects and expected rows of the examples whose sources are made up: `python tools/example_data.py`.

A source here is a dictionary of rows. What it holds in the end is written as the expected rows, so that these don't
come from Sluice. Running it again writes the same bytes.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SYNC = bytes(16)  # fastavro's own marker is random
AT_MS = 1_767_225_600_000  # 2026-01-01
Row = dict[str, Any]


class SourceTable:
    """A table of a source database, and the objects that a connector writes of its changes."""

    def __init__(self, topic: str, key: str, rows: Sequence[Row]) -> None:
        self.topic, self.key = topic, key
        self.rows: dict[Any, Row] = {row[key]: dict(row) for row in rows}
        self._offset = 0

    def changed(self, key: Any, **values: Any) -> Row:
        """Insert or update a row, and return it."""
        self.rows.setdefault(key, {self.key: key}).update(values)
        return copy.deepcopy(self.rows[key])

    def name(self, records: int, ending: str, folders: str = "partition=0") -> str:
        """The key of the next object, as Confluent's sink names it."""
        offset, self._offset = self._offset, self._offset + records
        return f"topics/{self.topic}/{folders}/{self.topic}+0+{offset:010d}.{ending}"

    def csv(self, columns: Sequence[str]) -> str:
        """The rows, ordered by the key."""
        return csv_text(columns, [self.rows[key] for key in sorted(self.rows)])


def csv_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as `sluice query --csv` writes them: NULL is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if row.get(name) is None else row[name] for name in columns] for row in rows])
    return text.getvalue()


def write(folder: Path, name: str, body: bytes | str) -> None:
    """Write a file of an example."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(body.encode() if isinstance(body, str) else body)


def avro(topic: str, types: Mapping[str, Any], records: Sequence[Row]) -> bytes:
    """Records as Confluent's Avro format writes them. Every column but a plain `int` may be null."""
    fields = [
        {"name": name, "type": kind} if kind == "int" else {"name": name, "type": ["null", kind], "default": None}
        for name, kind in types.items()
    ]
    body = io.BytesIO()
    schema = {"type": "record", "name": "Value", "namespace": topic, "fields": fields}
    fastavro.writer(body, fastavro.parse_schema(schema), records, sync_marker=SYNC)
    return body.getvalue()


def debezium(row: Row, *, op: str, position: Row, table: str) -> Row:
    """A row as ExtractNewRecordState flattens its change."""
    return {
        **row,
        "__deleted": "true" if op == "d" else "false",
        "__op": op,
        "__table": table,
        **position,
        "__source_ts_ms": AT_MS,
    }


# ---- moma

ARTISTS = {"artist_id": "int", "name": "string", "nationality": "string", "gender": "string", "birth_year": "long"}
ARTWORKS = {"artwork_id": "int", "title": "string", "artist_id": "long", "medium": "string", "classification": "string"}
POSTGRESQL = {"__deleted": "string", "__op": "string", "__table": "string", "__lsn": "long", "__source_ts_ms": "long"}
ARTIST = {
    "artist_id": 299,
    "name": "Artist 299",
    "nationality": "American",
    "gender": "Male",
    "birth_year": 1906,
}
ARTIST_CHANGES: tuple[Row, ...] = (
    {"birth_year": 1907},
    {"gender": None},
    {"name": "Artist 299, corrected"},
    {"nationality": "German"},
    {"birth_year": 1905},
)
TITLES = ("Untitled", "Untitled, from Portfolio", "Untitled (Plate 7)")


def moma(folder: Path) -> None:
    """Two flattened tables of PostgreSQL: a snapshot, five updates of one artist, three of one work, and a deletion."""
    chance = random.Random(299)
    artists = SourceTable(
        "moma.public.artists",
        "artist_id",
        [
            {
                "artist_id": number,
                "name": f"Artist {number}",
                "nationality": chance.choice(["American", "German", "French", None]),
                "gender": chance.choice(["Male", "Female", None]),
                "birth_year": chance.choice([None, 1850 + number % 120]),
            }
            for number in range(1, 401)
        ],
    )
    artists.changed(299, **ARTIST)
    artworks = SourceTable(
        "moma.public.artworks",
        "artwork_id",
        [
            {
                "artwork_id": number,
                "title": f"Work {number}",
                "artist_id": 1 + number % 400,
                "medium": "Lithograph",
                "classification": "Print" if number % 2 else "Photograph",
            }
            for number in range(1, 301)
        ],
    )
    lsn = 10_000_000

    def put(step: str, source: SourceTable, types: Mapping[str, Any], rows: Sequence[Row], op: str) -> None:
        nonlocal lsn
        table = source.topic.rpartition(".")[2]
        records = []
        for row in rows:
            lsn += 1_000
            records.append(debezium(row, op=op, position={"__lsn": lsn}, table=table))
        body = avro(source.topic, {**types, **POSTGRESQL}, records)
        write(folder, f"data/{step}/{source.name(len(rows), 'avro')}", body)

    put("1", artists, ARTISTS, list(artists.rows.values()), "r")
    put("1", artworks, ARTWORKS, list(artworks.rows.values()), "r")
    for number, change in enumerate(ARTIST_CHANGES, 2):
        put(str(number), artists, ARTISTS, [artists.changed(299, **change)], "u")
        if number - 2 < len(TITLES):
            put(str(number), artworks, ARTWORKS, [artworks.changed(7, title=TITLES[number - 2])], "u")
    del artists.rows[299]
    # A deletion carries the key alone, unless the table's REPLICA IDENTITY is FULL.
    put("7", artists, ARTISTS, [{"artist_id": 299}], "d")
    write(folder, "expected/artists.csv", artists.csv(list(ARTISTS)))
    write(folder, "expected/artworks.csv", artworks.csv(list(ARTWORKS)))


# ---- pagila-query


def pagila_query(folder: Path) -> None:
    """Rows that a JDBC source selects by `last_update`: JSON and Parquet, and a deletion that no query sees."""
    address = SourceTable(
        "pagila.query.address",
        "address_id",
        [
            {"address_id": number, "address": f"{number} Mill Road", "district": "Alberta", "last_update": AT_MS}
            for number in range(1, 21)
        ],
    )
    city = SourceTable(
        "pagila.query.city",
        "city_id",
        [{"city_id": number, "city": f"City {number}", "last_update": AT_MS} for number in range(1, 11)],
    )

    def put_json(step: str, rows: Sequence[Row]) -> None:
        body = "".join(json.dumps(row) + "\n" for row in rows)
        write(folder, f"data/{step}/{address.name(len(rows), 'json')}", body)

    def put_parquet(step: str, rows: Sequence[Row]) -> None:
        schema = pa.schema([("city_id", pa.int32()), ("city", pa.string()), ("last_update", pa.timestamp("ms", "UTC"))])
        body = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema), body)
        write(folder, f"data/{step}/{city.name(len(rows), 'snappy.parquet')}", body.getvalue())

    put_json("1", list(address.rows.values()))
    put_parquet("1", list(city.rows.values()))
    put_json("2", [address.changed(5, district="Ontario", last_update=AT_MS + 60_000)])
    put_json("2", [address.changed(21, address="21 Mill Road", district="Texas", last_update=AT_MS + 61_000)])
    put_parquet("2", [city.changed(3, city="City 3, renamed", last_update=AT_MS + 60_000)])
    # The same poll once more, as after a restart of the connector: the row that it brings is an older one.
    put_json("3", [{"address_id": 5, "address": "5 Mill Road", "district": "Alberta", "last_update": AT_MS}])
    seen = copy.deepcopy(address)
    del address.rows[12]  # deleted in the source: no query returns it, so no object tells
    columns = ["address_id", "address", "district"]
    write(folder, "expected/address.csv", seen.csv(columns))
    write(folder, "expected/address_in_the_source.csv", address.csv(columns))
    write(folder, "expected/city.csv", city.csv(["city_id", "city"]))


# ---- tickit, its third engine


def tickit(folder: Path) -> None:
    """Rows of SQL Server by the documented form of its connector: two changes of one transaction, and a deletion."""
    members = SourceTable(
        "tickit.crm.member",
        "memberid",
        [{"memberid": number, "name": f"Member {number}", "city": "Gotham"} for number in range(1, 51)],
    )
    types = {"memberid": "int", "name": "string", "city": "string"}
    meta = {
        "__deleted": "string",
        "__op": "string",
        "__table": "string",
        "__commit_lsn": "string",
        "__change_lsn": "string",
        "__event_serial_no": "long",
        "__source_ts_ms": "long",
    }

    def put(step: str, changes: Sequence[tuple[str, Row, int, int]]) -> None:
        records = [
            debezium(
                row,
                op=op,
                table="member",
                position={
                    "__commit_lsn": f"00000027:{commit:08x}:0005",
                    "__change_lsn": None if op == "r" else f"00000027:{commit:08x}:{change:04x}",
                    "__event_serial_no": None if op == "r" else 1,
                },
            )
            for op, row, commit, change in changes
        ]
        body = avro(members.topic, {**types, **meta}, records)
        write(folder, f"data/{step}/{members.name(len(records), 'avro', 'year=2026/month=01/day=01')}", body)

    put("1", [("r", row, 0x700, 0) for row in members.rows.values()])
    first = members.changed(7, city="Metropolis")
    second = members.changed(7, city="Smallville")
    gone = members.rows.pop(9)
    put("2", [("u", first, 0x758, 2), ("u", second, 0x758, 4), ("d", gone, 0x760, 2)])
    write(folder, "expected/member.csv", members.csv(list(types)))


# ---- northwind-outbox


def northwind_outbox(folder: Path) -> None:
    """An outbox table of orders as JSON, in folders of two of its fields: created, updated and deleted orders."""
    orders = SourceTable("demo.datalake.cdc_events", "order_id", [])
    lsn = 20_000_000

    def put(step: str, row: Row, op: str) -> None:
        nonlocal lsn
        lsn += 1_000
        record = {
            **row,
            "__deleted": "true" if op == "d" else "false",
            "__op": op,
            "__db": "devdb",
            "__table": "cdc_events",
            "__schema": "datalake",
            "__lsn": lsn,
            "__source_ts_ms": AT_MS,
        }
        folders = f"customer_id={row.get('customer_id') or ''}/order_id={row['order_id']}"
        write(
            folder, f"data/{step}/{orders.name(1, 'json', folders)}", json.dumps(record, separators=(",", ":")) + "\n"
        )

    chance = random.Random(7)
    for number in range(101, 131):
        items = [{"product_id": chance.randrange(1, 78), "quantity": chance.randrange(1, 30), "discount": 0}]
        order = orders.changed(
            number,
            customer_id=chance.choice(["ALFKI", "BERGS", "VICTE"]),
            order_date=20_454 + number % 7,
            shipped_date=None,
            order_items=json.dumps(items),
        )
        put("1", order, "r")
    for number in (103, 104, 105):
        put("2", orders.changed(number, shipped_date=20_470), "u")
    put("2", orders.changed(131, customer_id="ALFKI", order_date=20_471, shipped_date=None, order_items="[]"), "c")
    del orders.rows[110]
    gone = {"order_id": 110, "customer_id": "", "order_date": 0, "shipped_date": None, "order_items": None}
    put("3", gone, "d")
    columns = ["order_id", "customer_id", "order_items"]
    write(folder, "expected/orders.csv", orders.csv(columns))


MADE = {"moma": moma, "pagila-query": pagila_query, "tickit": tickit, "northwind-outbox": northwind_outbox}


def main() -> None:
    """Write all of it anew."""
    for name, make in MADE.items():
        for part in ("data", "expected"):
            shutil.rmtree(EXAMPLES / name / part, ignore_errors=True)
        make(EXAMPLES / name)


if __name__ == "__main__":
    main()
