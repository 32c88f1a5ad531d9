"""Ten tables of generated Debezium objects, the rows that they must hold, and the orders in which objects come."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from judging.running_stack import RunningStack

from sluice.objects import ObjectId
from sluice_bench.data.debezium_objects import SOURCES, key_only, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import CITIES, Sizes, row

SIZES = Sizes(*[100] * 7)
TEXTS: Mapping[str, str] = {"venue": "venuename", "user": "city", "date": "day", "event": "eventname"}
STATES: Mapping[str, str] = {"venue": "venuestate", "user": "state"}  # partition columns: rows move
MOST_KEYS = 300
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


def _table(name: str, table_type: str, **rule: Any) -> SoakTable:
    return SoakTable(name, name.partition("_")[0], {"table_type": table_type, "partition_by": [], **rule})


TABLES: Mapping[str, SoakTable] = {
    table.name: table
    for table in (
        _table("venue_plain", "cow"),
        _table("user_by_state", "cow", partition_by=["state"]),
        _table("event_indexed", "cow", index="record"),
        _table("venue_hard", "cow", delete_mode="hard"),
        _table("date_ignoring", "cow", delete_mode="ignore"),
        _table("user_moving", "mor", partition_by=["state"]),
        _table("venue_logs", "mor"),
        _table("date_logs", "mor"),
        _table("event_by_category", "mor", partition_by=["catid"]),
        _table("user_hard", "mor", delete_mode="hard"),
    )
}


@dataclass(frozen=True)
class SoakObject:
    """One generated object: its table, its key and its bytes."""

    table: str
    key: str
    body: bytes


@dataclass
class SoakWorld:
    """The tables of one soak. The seed decides which objects there are; the oracle counts what was generated."""

    stack: RunningStack
    seed: int
    database: str = field(default_factory=lambda: f"soak{secrets.token_hex(3)}")
    lane: str = "main"
    changes: int = 0
    put_objects: list[tuple[SoakObject, ObjectId]] = field(default_factory=list)
    _draws: dict[str, random.Random] = field(default_factory=dict)
    _rows: dict[str, dict[int, str | None]] = field(default_factory=lambda: {name: {} for name in TABLES})
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

    def columns(self, table: str) -> tuple[str, str]:
        """The key's column, and the text column that changes."""
        source = TABLES[table.rpartition(".")[2]].source
        return SOURCES[source].key, TEXTS[source]

    def rules(self) -> list[dict[str, Any]]:
        """The entries of tables.yaml."""
        return [
            {
                "topic": f"{self._prefix(name)}{SOURCES[table.source].topic}",
                "table": f"{self.database}.{name}",
                "record_key": [SOURCES[table.source].key],
                "lane": self.lane,
                **table.rule,
            }
            for name, table in TABLES.items()
        ]

    def expected(self, table: str) -> dict[int, str]:
        """The rows that the table must hold: key and the text that changes."""
        rows = self._rows[table.rpartition(".")[2]]
        return {key: value for key, value in rows.items() if value is not None}

    def next_object(self, name: str) -> SoakObject:
        """The table's next object: rows are created, changed, moved, deleted and created again."""
        table, first = TABLES[name], self._offsets[name]
        draw = self._draws.setdefault(name, random.Random(f"{self.seed}/{name}"))
        records = [
            self._record(table, draw, op, number, first + place)
            for place, (op, number) in enumerate(self._choose(table, draw), 1)
        ]
        self._offsets[name] += len(records)
        self.changes += len(records)
        key = object_key(table.source, first, prefix=self._prefix(name))
        return SoakObject(name, key, object_bytes(table.source, records))

    def put(self, made: SoakObject, *, key: str | None = None) -> ObjectId:
        """Put an object, or its bytes once more under another key."""
        bucket, key = self.stack.target.bronze, key or made.key
        answer = self.stack.target.client("s3").put_object(Bucket=bucket, Key=key, Body=made.body)
        identity = ObjectId(bucket, key, answer["VersionId"])
        self.put_objects.append((made, identity))
        return identity

    def notices(self, identities: list[ObjectId]) -> str:
        """S3's message about these objects, as SQS delivers it again."""
        return json.dumps(
            {
                "Records": [
                    {
                        "eventVersion": "2.1",
                        "eventSource": "aws:s3",
                        "eventName": "ObjectCreated:Put",
                        "eventTime": "2026-11-21T00:00:00.000Z",
                        "s3": {
                            "bucket": {"name": one.bucket},
                            "object": {"key": quote_plus(one.key), "size": 1, "versionId": one.version},
                        },
                    }
                    for one in identities
                ]
            }
        )

    def _prefix(self, name: str) -> str:
        return f"{self.database}.{name}."

    def _choose(self, table: SoakTable, draw: random.Random) -> Iterator[tuple[str, int]]:
        """Operations and row numbers of one object, in their order."""
        numbers, rows, here = self._numbers[table.name], self._rows[table.name], []
        for _ in range(draw.randint(4, 20)):
            alive = [key for key in numbers if rows.get(key) is not None]
            # Which values an ignored delete keeps depends on when it comes, unless one object has them all.
            doomed = here if table.keeps_deleted else alive
            if doomed and draw.random() < 0.12:
                key, op = draw.choice(doomed), "d"
            elif alive and (len(numbers) >= MOST_KEYS or draw.random() < 0.5):
                key, op = draw.choice(alive), "u"
            else:
                number = draw.randint(1, MOST_KEYS)
                key = int(str(self._row(table, number)[SOURCES[table.source].key]))
                op = "c" if rows.get(key) is None else "u"
                numbers[key] = number
            here = [one for one in here if one != key] + ([] if op == "d" else [key])
            if op == "d" and not table.keeps_deleted:
                rows[key] = None
            elif op != "d":
                rows[key] = ""  # _record writes it
            yield op, numbers[key]

    def _record(self, table: SoakTable, draw: random.Random, op: str, number: int, change: int) -> dict[str, Any]:
        found = self._row(table, number)
        key_column, text = SOURCES[table.source].key, TEXTS[table.source]
        if op == "d":
            found = key_only(table.source, found)
        else:
            found[text] = f"{table.name[:1]}{change}"
            self._rows[table.name][int(str(found[key_column]))] = str(found[text])
            if table.source in STATES and draw.random() < 0.3:
                found[STATES[table.source]] = draw.choice(CITIES)[1]
        return record(table.source, found, op=op, change=change, ts_ms=1_795_300_000_000 + change)

    def _row(self, table: SoakTable, number: int) -> dict[str, Any]:
        return dict(row(table.source, number, seed=self.seed, sizes=SIZES))
