"""Four tables of generated Debezium objects with the rows that they must hold: the fold of what was put.

Their rules differ: one has none, and the others have history and partitions, left-out columns and expectations, or rows
without a key.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from judging.running_stack import RunningStack

from faulting.oracle import EXPECTS, LEAVES_OUT, UNEXPECTED, Change, Form, form_of, rows_after, secret_name
from sluice_bench.data.debezium_objects import SOURCES, key_only, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import CITIES, Sizes, row
from sluice_bench.measure.stack import table_rules

# Each table with a text column that changes. Two systems: positions of one and of two parts.
TABLES: Mapping[str, str] = {"venue": "venuename", "user": "city", "date": "day", "event": "eventname"}
RULES: Mapping[str, Mapping[str, Any]] = {
    "user": {"partition_by": ["state"], "history": True},
    "date": {"columns": LEAVES_OUT, "expect": EXPECTS["date"]},
    "event": {"append_only": True},
}
SETTINGS = tuple(sorted({setting for rule in RULES.values() for setting in rule}))
SIZES = Sizes(*[100] * 7)
ROWS = 12  # that a round creates in each table
STRANGE = 1_000  # above the numbers of rows: what is created there never comes into a table
SEED = 20_261_122


@dataclass(frozen=True)
class Made:
    """A generated object: its table's short name, its key and bytes, and the changes that its table takes.

    `unexpected` are the numbers of its other records, which its table sets aside.
    """

    name: str
    key: str
    body: bytes
    changes: tuple[Change, ...]
    unexpected: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Put:
    """One object version: its table, its key, its version id, and what was generated."""

    table: str
    key: str
    version: str
    made: Made


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
        """The silver tables: `database.name`. The first has no rule of its own."""
        return tuple(f"{self.database}.{name}" for name in TABLES)

    @property
    def prefix(self) -> str:
        """The prefix of all keys in bronze."""
        return f"topics/{self.database}."

    def form(self, table: str) -> Form:
        """How the table shows its rows."""
        name = table.rpartition(".")[2]
        return form_of(name, TABLES[name], {"table": table, **RULES.get(name, {})})

    def rules(self, **more: Any) -> list[dict]:
        """The entries of tables.yaml, each with `more` keys."""
        rules = table_rules(f"{self.database}.", self.database, self.table_type)
        return [self._rule(rule, more) for rule in rules if rule["table"] in self.tables]

    def next_round(self, text: str = "") -> list[Made]:
        """The next objects, one for each table. Rows are created, changed and deleted, and some are set aside.

        `text` is in each value that changes.
        """
        self._rounds += 1
        return [self._object(name, self._changes(name), f"{self._rounds}{text}") for name in TABLES]

    def put_round(self, text: str = "") -> list[Put]:
        """Put the next objects; the oracle counts them."""
        return [self.put(made) for made in self.next_round(text)]

    def put_updates(self) -> list[Put]:
        """Put changes of the last round's rows only. They go to logs; beside new rows Hudi rewrites small files."""
        first = (self._rounds - 1) * ROWS
        changes = [(first + n, "u") for n in range(1, ROWS // 3 + 1)]
        return [self.put(self._object(name, changes, f"{self._rounds}u")) for name in TABLES]

    def put(self, made: Made, *, key: str | None = None) -> Put:
        """Put one object, under another key if one is given; the oracle counts it."""
        bucket, key = self.stack.target.bronze, key or made.key
        answer = self.stack.target.client("s3").put_object(Bucket=bucket, Key=key, Body=made.body)
        put = Put(f"{self.database}.{made.name}", key, answer.get("VersionId", ""), made)
        self.puts.append(put)
        return put

    def expected(self, table: str) -> dict[int, str]:
        """The rows that a table with a key must hold: key and the text that changes."""
        return rows_after(self.changes(table))

    def changes(self, table: str) -> Counter[Change]:
        """The changes that an append-only table or a history table must hold."""
        return Counter(change for put in self.puts if put.table == table for change in put.made.changes)

    def unexpected(self) -> dict[tuple[str, str], frozenset[int]]:
        """The numbers of the records that must be set aside, by their object's key and version."""
        return {(put.key, put.version): put.made.unexpected for put in self.puts if put.made.unexpected}

    def _rule(self, rule: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
        own = deepcopy(dict(RULES.get(rule["table"].rpartition(".")[2], {})))
        if "columns" in own:
            own["columns"] = {**own["columns"], "key": secret_name(self.stack.target)}
        if own.get("append_only"):
            rule = {name: value for name, value in rule.items() if name != "record_key"}
        return {**rule, "lane": self.lane, **own, **more}

    def _object(self, name: str, changes: Iterable[tuple[int, str]], said: str) -> Made:
        records: list[dict[str, Any]] = []
        taken: list[Change] = []
        unexpected: set[int] = set()
        first, column = self._offsets[name], SOURCES[name].key
        for number, op in changes:
            text = f"{name[:1]}{said}.{number}"
            values = dict(row(name, number, seed=SEED, sizes=SIZES)) | {TABLES[name]: text}
            key, change = int(str(values[column])), first + len(records) + 1
            at = 1_795_300_000_000 + change
            if op == "u" and name == "user":
                values["state"] = CITIES[change % len(CITIES)][1]  # the row moves
            if op == "d":
                values = dict(key_only(name, values))
            if op == "bad":
                values |= UNEXPECTED[name]
                unexpected.add(len(records))
            else:
                taken.append(Change(key, at, None if op == "d" else text))
            records.append(record(name, values, op="u" if op == "bad" else op, change=change, ts_ms=at))
        self._offsets[name] += len(records)
        where = object_key(name, first, prefix=f"{self.database}.")
        return Made(name, where, object_bytes(name, records), tuple(taken), frozenset(unexpected))

    def _changes(self, name: str) -> Iterator[tuple[int, str]]:
        """A third of the rows of the round before are changed, one is deleted, and others are created.

        Where the table expects something, an unexpected change of a row and an unexpected row are among them.
        """
        before, now = (self._rounds - 2) * ROWS, (self._rounds - 1) * ROWS
        strange = "expect" in RULES.get(name, {})
        if self._rounds > 1:
            yield from ((before + n, "u") for n in range(1, ROWS // 3 + 1))
            if strange:
                yield before + ROWS // 3 + 1, "bad"
            yield before + ROWS, "d"
        if strange:
            yield STRANGE + self._rounds, "bad"
        yield from ((now + n, "c") for n in range(1, ROWS + 1))
