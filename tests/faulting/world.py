"""Three tables of generated Debezium objects with the rows that they must hold: the fold of what was put."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES, key_only, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import Sizes, row
from sluice_bench.measure.stack import table_rules

# Each table with a text column that changes. Two systems: positions of one and of two parts.
TABLES: Mapping[str, str] = {"venue": "venuename", "user": "city", "date": "day"}
SIZES = Sizes(*[100] * 7)
ROWS = 12  # that a round creates in each table
SEED = 20_261_122


@dataclass(frozen=True)
class Put:
    """One object version: its table, its key, its version id, and the values by key of the row, None if deleted."""

    table: str
    key: str
    version: str
    values: Mapping[int, str | None]


@dataclass
class World:
    """The tables of one fault, with a database and topics of their own, so that many share a stack."""

    stack: RunningStack
    table_type: str = "cow"
    lane: str = "main"
    database: str = field(default_factory=lambda: f"fault{secrets.token_hex(3)}")
    puts: list[Put] = field(default_factory=list)
    _offsets: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    _rounds: int = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """The silver tables: `database.name`."""
        return tuple(f"{self.database}.{name}" for name in TABLES)

    @property
    def prefix(self) -> str:
        """The prefix of all keys in bronze."""
        return f"topics/{self.database}."

    def columns(self, table: str) -> tuple[str, str]:
        """The key's column, and the text column that changes."""
        name = table.rpartition(".")[2]
        return SOURCES[name].key, TABLES[name]

    def rules(self, **more: Any) -> list[dict]:
        """The entries of tables.yaml, each with `more` keys."""
        rules = table_rules(f"{self.database}.", self.database, self.table_type)
        return [{**rule, "lane": self.lane, **more} for rule in rules if rule["table"] in self.tables]

    def next_round(self, text: str = "") -> list[tuple[str, str, bytes, dict[int, str | None]]]:
        """The next objects, one for each table: table, key, bytes, values. Rows are created, changed and deleted.

        `text` is in each value that changes.
        """
        self._rounds += 1
        return [self._object(name, self._changes(), f"{self._rounds}{text}") for name in TABLES]

    def put_round(self, text: str = "") -> list[Put]:
        """Put the next objects; the oracle counts them."""
        return [self.put(*item) for item in self.next_round(text)]

    def put_updates(self) -> list[Put]:
        """Put changes of the last round's rows only. They go to logs; beside new rows Hudi rewrites small files."""
        first = (self._rounds - 1) * ROWS
        changes = [(first + n, "u") for n in range(1, ROWS // 3 + 1)]
        return [self.put(*self._object(name, changes, f"{self._rounds}u")) for name in TABLES]

    def put(self, name: str, key: str, body: bytes, values: dict[int, str | None]) -> Put:
        """Put one object; the oracle counts it."""
        answer = self.stack.target.client("s3").put_object(Bucket=self.stack.target.bronze, Key=key, Body=body)
        put = Put(f"{self.database}.{name}", key, answer.get("VersionId", ""), values)
        self.puts.append(put)
        return put

    def expected(self, table: str) -> dict[int, str]:
        """The rows that the table must hold: key and the text that changes."""
        rows: dict[int, str | None] = {}
        for put in self.puts:
            if put.table == table:
                rows.update(put.values)
        return {key: value for key, value in rows.items() if value is not None}

    def _object(
        self, name: str, changes: Iterable[tuple[int, str]], said: str
    ) -> tuple[str, str, bytes, dict[int, str | None]]:
        records, values = [], {}
        first = self._offsets[name]
        for number, op in changes:
            wanted = f"{name[:1]}{said}.{number}"
            found = row(name, number, seed=SEED, sizes=SIZES) | {TABLES[name]: wanted}
            key = int(str(found[SOURCES[name].key]))
            if op == "d":
                found = key_only(name, found)
            change = first + len(records) + 1
            records.append(record(name, found, op=op, change=change, ts_ms=1_795_300_000_000 + change))
            values[key] = None if op == "d" else wanted
        self._offsets[name] += len(records)
        return name, object_key(name, first, prefix=f"{self.database}."), object_bytes(name, records), values

    def _changes(self) -> Iterator[tuple[int, str]]:
        """A third of the rows of the round before are changed, one is deleted, and others are created."""
        before, now = (self._rounds - 2) * ROWS, (self._rounds - 1) * ROWS
        if self._rounds > 1:
            yield from ((before + n, "u") for n in range(1, ROWS // 3 + 1))
            yield before + ROWS, "d"
        yield from ((now + n, "c") for n in range(1, ROWS + 1))
