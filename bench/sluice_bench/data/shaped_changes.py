"""Rows of a skewed column that a table may be partitioned by, and batches of changes by which rows move."""

import io
import json
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence

PARTITIONS = (10, 120, 2_000)
OBJECT_ROWS = 50_000
# Of a hundred changes: 3 new rows, 1 deleted, 2 that move, and updates first.
NEW, DELETED, MOVED = 97, 96, 94
STEP = 7  # a source log advances by more than one between changes
SKEW = 6.0  # the first twelfth of the partitions holds some 40 % of the rows
_MEDIA = ("Oil on canvas", "Lithograph", "Gelatin silver print", "Ink on paper, with pencil additions")


def place_column(partitions: int) -> str:
    """The column that spreads rows over so many partitions."""
    return f"place{partitions}"


COLUMNS: Mapping[str, str] = {
    "id": "long",
    "title": "string",
    "artist_id": "long",
    "name": "string",
    "medium": "string",
    "credit": "string",
    "price": "double",
    "changed_at": "long",
    **{place_column(partitions): "string" for partitions in PARTITIONS},
}
META: Mapping[str, str] = {"__deleted": "string", "__op": "string", "__lsn": "long", "__source_ts_ms": "long"}
_SIZE = {
    "type": "record",
    "name": "Size",
    "fields": [{"name": "width", "type": "int"}, {"name": "unit", "type": "string"}],
}
NESTED: Mapping[str, object] = {"tags": {"type": "array", "items": "string"}, "size": _SIZE}
Row = dict[str, object]


class ShapedChanges:
    """A source table of `rows` rows, and its changes. The same arguments give the same ones. `nested`: with lists."""

    def __init__(self, rows: int, *, nested: bool = False) -> None:
        self._chosen = random.Random(rows)
        self._rows, self._nested, self._change = rows, nested, rows
        self._places = array("d", (self._place() for _ in range(rows)))
        self._alive = bytearray(b"\1") * rows

    @property
    def living(self) -> int:
        """Rows that exist after the batches so far."""
        return sum(self._alive)

    def snapshot(self) -> Iterator[list[Row]]:
        """The rows before any change, an object's at a time."""
        for first in range(0, self._rows, OBJECT_ROWS):
            yield [self._row("r", key, key) for key in range(first, min(first + OBJECT_ROWS, self._rows))]

    def batch(self, changes: int, *, truncate: bool = False, more: Mapping[str, object] = {}) -> list[Row]:
        """The next changes, after a truncate where that is asked for. Rows have `more` columns."""
        objects = []
        if truncate:
            self._change += 1
            self._alive = bytearray(len(self._alive))
            objects.append(self._without_values("t", None))
        for number in range(changes):
            self._change += 1
            kind, key = number % 100, self._chosen.randrange(len(self._alive))
            if kind == DELETED:
                self._alive[key] = 0
                objects.append(self._without_values("d", key))
                continue
            if kind >= NEW:
                key = len(self._alive)
                self._alive.append(0)
                self._places.append(self._place())
            elif kind >= MOVED:
                self._places[key] = self._place()
            self._alive[key] = 1
            objects.append({**self._row("c" if kind >= NEW else "u", key, self._change), **more})
        return objects

    def _place(self) -> float:
        return min(self._chosen.expovariate(SKEW), 0.999_999)

    def _row(self, op: str, key: int, change: int) -> Row:
        place = self._places[key]
        row: Row = {
            "id": key,
            "title": f"Untitled {key} state {change}",
            "artist_id": key % 15_000,
            "name": f"Artist {key % 15_000}",
            "medium": _MEDIA[key % len(_MEDIA)],
            "credit": f"Gift of the estate {key * 31 % 5_000}, by exchange, and the fund for works of paper",
            "price": key * 31 % 1_000_000 / 100,
            "changed_at": 1_700_000_000_000_000 + change * STEP,
            **{place_column(count): f"Nation{int(place * count):04d}" for count in PARTITIONS},
        }
        if self._nested:
            row |= {"tags": [f"tag{key % 7}", f"tag{key % 11}"], "size": {"width": key % 99, "unit": "cm"}}
        return row | self._meta(op, change)

    def _without_values(self, op: str, key: int | None) -> Row:
        names = [*COLUMNS, *(NESTED if self._nested else ())]
        return {**dict.fromkeys(names), "id": key, **self._meta(op, self._change)}

    @staticmethod
    def _meta(op: str, change: int) -> Row:
        at = 1_700_000_000_000 + change * STEP
        return {"__deleted": str(op == "d").lower(), "__op": op, "__lsn": 1_000 + change * STEP, "__source_ts_ms": at}


def encoded(rows: Sequence[Row], format: str) -> bytes:
    """Rows without lists as an object in JSON, Parquet or CSV."""
    if format == "json":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    kinds = {"long": pa.int64(), "string": pa.string(), "double": pa.float64()}
    table = pa.Table.from_pylist(
        rows, schema=pa.schema([(name, kinds[kind]) for name, kind in {**COLUMNS, **META}.items()])
    )
    body = io.BytesIO()
    if format == "csv":
        pyarrow.csv.write_csv(table, body)
    else:
        pyarrow.parquet.write_table(table, body)
    return body.getvalue()
