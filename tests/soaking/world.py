"""Twelve tables of generated Debezium objects, the rows that they must hold, and the orders in which objects come."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from faulting.notices import notice
from faulting.oracle import EXPECTS, LEAVES_OUT, UNEXPECTED, Change, Form, form_of, rows_after, secret_name
from faulting.world import Made
from judging.running_stack import RunningStack

from sluice.objects import ObjectId
from sluice_bench.data.debezium_objects import SOURCES, key_only, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import CITIES, Sizes, row

SIZES = Sizes(*[100] * 7)
TEXTS: Mapping[str, str] = {"venue": "venuename", "user": "city", "date": "day", "event": "eventname"}
STATES: Mapping[str, str] = {"venue": "venuestate", "user": "state"}  # partition columns: rows move
MOST_KEYS = 300
UNEXPECTED_OP = "unexpected"  # a change that its table sets aside
UNEXPECTED_SHARE = 0.08  # of the records of tables that expect something
LIVELY = {
    "interval": "1m",
    "compaction": {"commits": 3},
    "cleaning": {"commits": 5},
    "archival": {"commits": 10},
    "clustering": "off",
}


@dataclass(frozen=True)
class SoakTable:
    """One table: the TICKIT table that its rows look like, and the keys of its rule in tables.yaml."""

    name: str
    source: str
    rule: Mapping[str, Any]

    @property
    def keeps_deleted(self) -> bool:
        """Whether deleted rows stay visible."""
        return self.rule.get("delete_mode") == "ignore"

    @property
    def append_only(self) -> bool:
        """Whether each record is a row."""
        return bool(self.rule.get("append_only"))


def _table(name: str, table_type: str, **rule: Any) -> SoakTable:
    return SoakTable(name, name.partition("_")[0], {"table_type": table_type, "partition_by": [], **rule})


TABLES: Mapping[str, SoakTable] = {
    table.name: table
    for table in (
        _table("venue_plain", "cow"),
        _table("user_by_state", "cow", partition_by=["state"], history=True),
        _table("event_indexed", "cow", index="record", expect=EXPECTS["event"]),
        _table("venue_hard", "cow", delete_mode="hard", columns={"exclude": ["venueseats"]}),
        _table("date_ignoring", "cow", delete_mode="ignore"),
        _table("user_moving", "mor", partition_by=["state"]),
        _table("venue_logs", "mor"),
        _table("date_logs", "mor", columns=LEAVES_OUT, expect=EXPECTS["date"]),
        _table("event_by_category", "mor", partition_by=["catid"], history=True),
        _table("user_hard", "mor", delete_mode="hard"),
        _table("event_appended", "cow", append_only=True),
        _table("user_appended", "mor", append_only=True, partition_by=["state"]),
    )
}


@dataclass
class SoakWorld:
    """The tables of one soak. The seed decides which objects there are; the oracle counts what was generated."""

    stack: RunningStack
    seed: int
    database: str = field(default_factory=lambda: f"soak{secrets.token_hex(3)}")
    lane: str = "main"
    generated: int = 0  # records
    put_objects: list[tuple[Made, ObjectId]] = field(default_factory=list)
    _draws: dict[str, random.Random] = field(default_factory=dict)
    _alive: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in TABLES})
    _numbers: dict[str, dict[int, int]] = field(default_factory=lambda: {name: {} for name in TABLES})
    _offsets: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))

    @property
    def tables(self) -> tuple[str, ...]:
        """The silver tables: `database.name`."""
        return tuple(f"{self.database}.{name}" for name in TABLES)

    @property
    def prefix(self) -> str:
        """The prefix of all keys in bronze."""
        return f"topics/{self.database}."

    def form(self, table: str) -> Form:
        """How the table shows its rows."""
        described = TABLES[table.rpartition(".")[2]]
        return form_of(described.source, TEXTS[described.source], {"table": table, **described.rule})

    def rules(self) -> list[dict[str, Any]]:
        """The entries of tables.yaml."""
        return [self._rule(table) for table in TABLES.values()]

    def expected(self, table: str) -> dict[int, str]:
        """The rows that a table with a key must hold: key and the text that changes."""
        return rows_after(self.changes(table), keeps_deleted=TABLES[table.rpartition(".")[2]].keeps_deleted)

    def changes(self, table: str) -> Counter[Change]:
        """The changes that an append-only table must hold, and each at least once a history table.

        An object that came again under its key changes nothing. Under another one its records are other rows of an
        append-only table (docs/limits.md), and known changes of any other table.
        """
        name = table.rpartition(".")[2]
        by_key = {identity.key: made for made, identity in self.put_objects if made.name == name}
        return Counter(change for made in by_key.values() for change in made.changes)

    def unexpected(self) -> dict[tuple[str, str], frozenset[int]]:
        """The numbers of the records that must be set aside, by their object's key and version."""
        return {(one.key, one.version): made.unexpected for made, one in self.put_objects if made.unexpected}

    def next_object(self, name: str) -> Made:
        """The table's next object: rows are created, changed, moved, deleted and created again."""
        table, first = TABLES[name], self._offsets[name]
        draw = self._draws.setdefault(name, random.Random(f"{self.seed}/{name}"))
        records: list[dict[str, Any]] = []
        changes: list[Change] = []
        unexpected: set[int] = set()
        for op, number in self._choose(table, draw):
            made, change = self._record(table, draw, op, number, first + len(records) + 1)
            if op == UNEXPECTED_OP:
                unexpected.add(len(records))
            else:
                changes.append(change)
            records.append(made)
        self._offsets[name] += len(records)
        self.generated += len(records)
        key = object_key(table.source, first, prefix=self._prefix(name))
        return Made(name, key, object_bytes(table.source, records), tuple(changes), frozenset(unexpected))

    def put(self, made: Made, *, key: str | None = None) -> ObjectId:
        """Put an object, or its bytes once more under another key."""
        bucket, key = self.stack.target.bronze, key or made.key
        answer = self.stack.target.client("s3").put_object(Bucket=bucket, Key=key, Body=made.body)
        identity = ObjectId(bucket, key, answer["VersionId"])
        self.put_objects.append((made, identity))
        return identity

    def notices(self, identities: list[ObjectId]) -> str:
        """S3's message about these objects, as SQS delivers it again."""
        return notice(*identities, event_time="2026-11-21T00:00:00.000Z")

    def _rule(self, table: SoakTable) -> dict[str, Any]:
        rule: dict[str, Any] = {
            "topic": f"{self._prefix(table.name)}{SOURCES[table.source].topic}",
            "table": f"{self.database}.{table.name}",
            "lane": self.lane,
            **deepcopy(dict(table.rule)),
        }
        if not table.append_only:
            rule["record_key"] = [SOURCES[table.source].key]
        if "hash" in rule.get("columns", {}):
            rule["columns"]["key"] = secret_name(self.stack.target)
        return rule

    def _prefix(self, name: str) -> str:
        return f"{self.database}.{name}."

    def _choose(self, table: SoakTable, draw: random.Random) -> Iterator[tuple[str, int]]:
        """Operations and row numbers of one object, in their order."""
        numbers, living = self._numbers[table.name], self._alive[table.name]
        here: list[int] = []
        for _ in range(draw.randint(4, 20)):
            if "expect" in table.rule and draw.random() < UNEXPECTED_SHARE:
                yield UNEXPECTED_OP, draw.randint(1, MOST_KEYS)  # of a row that is there, or of none
                continue
            alive = [key for key in numbers if key in living]
            # Which values an ignored delete keeps depends on when it comes, unless one object has them all.
            doomed = here if table.keeps_deleted else alive
            if doomed and draw.random() < 0.12:
                key, op = draw.choice(doomed), "d"
            elif alive and (len(numbers) >= MOST_KEYS or draw.random() < 0.5):
                key, op = draw.choice(alive), "u"
            else:
                number = draw.randint(1, MOST_KEYS)
                key = int(str(self._row(table, number)[SOURCES[table.source].key]))
                op = "u" if key in living else "c"
                numbers[key] = number
            here = [one for one in here if one != key] + ([] if op == "d" else [key])
            if op != "d":
                living.add(key)
            elif not table.keeps_deleted:
                living.discard(key)
            yield op, numbers[key]

    def _record(
        self, table: SoakTable, draw: random.Random, op: str, number: int, change: int
    ) -> tuple[dict[str, Any], Change]:
        values = self._row(table, number)
        key, at = int(str(values[SOURCES[table.source].key])), 1_795_300_000_000 + change
        text = None if op == "d" else f"{table.name[:1]}{change}"
        if op == "d":
            values = dict(key_only(table.source, values))
        else:
            values[TEXTS[table.source]] = text
            if table.source in STATES and draw.random() < 0.3:
                values[STATES[table.source]] = draw.choice(CITIES)[1]
        if op == UNEXPECTED_OP:
            values |= UNEXPECTED[table.source]
        debezium = "u" if op == UNEXPECTED_OP else op
        return record(table.source, values, op=debezium, change=change, ts_ms=at), Change(key, at, text)

    def _row(self, table: SoakTable, number: int) -> dict[str, Any]:
        return dict(row(table.source, number, seed=self.seed, sizes=SIZES))
