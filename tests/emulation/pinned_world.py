"""A stack with what the verbs of `sluice` have sentences about, at a fixed time and with fixed ids, without Spark.

Runs, batches, objects, services and decisions are written by the adapters that the functions and the driver use, in
the order in which they would have been. The data of the tables is that of `tests/data/hudi_tables`.
"""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import date, datetime, timezone
from decimal import Decimal
from email.utils import formatdate
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

from moto.core import DEFAULT_ACCOUNT_ID
from moto.emrserverless.models import emrserverless_backends
from moto.moto_api._internal import mock_random
from support import builders, judged_schemas
from support.silver_tables import SILVER_FOLDER, kept_change, put_history

from emulation.deployment import s3_body
from emulation.stack import REGION, SHARED, cloudformation
from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, ObjectError, Outcome, RowErrorCount, Stage
from sluice.batch.row_errors import JSON_TEXT, RowError, to_lines
from sluice.errors import TableWentBack
from sluice.ledger import keys as states
from sluice.ledger.records import DISCARDED, RETRIED, AdmittedObject, Decision
from sluice.objects import ObjectId
from sluice.schema.history import StoredColumns
from sluice.services.requests import ServiceError, ServiceReport
from sluice.silver_keys import rows_key
from sluice_aws.lanes.job_runs import Billed
from sluice_aws.ledger.table import LedgerTable
from sluice_aws.s3.configuration import CONFIGURATION_KEY, HISTORY_PREFIX, PUSHES
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory, SchemaStore
from sluice_aws.stack import Target
from sluice_cli.config.source import read_tables
from sluice_cli.ingest.waiter import Waiter

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOON = int(datetime(2026, 11, 21, 12, tzinfo=timezone.utc).timestamp() * 1000)
EIGHT = NOON - 4 * HOUR  # the tables' commits are of the first seconds after it
TABLES_YAML = Path(__file__).resolve().parents[1] / "data" / "pins" / "inputs" / "tables.yaml"
PERSON = f"arn:aws:sts::{DEFAULT_ACCOUNT_ID}:assumed-role/operator/ann"


class Clock:
    """The time that the commands and the emulator see."""

    def __init__(self) -> None:
        self.ms = NOON
        self._ids = count(1)

    def next_id(self) -> str:
        """Different from all before."""
        return str(UUID(int=next(self._ids)))

    def start_ids(self, first: int) -> None:
        """Begin the ids again, so that no command depends on those before it."""
        self._ids = count(first)
        mock_random.seed(first)

    def pin(self, monkeypatch) -> None:
        """Let everything read this clock, and no pause take time."""
        moment = SimpleNamespace(time_ns=lambda: self.ms * 1_000_000, sleep=lambda seconds: None)
        still = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: None)
        passing = SimpleNamespace(monotonic=count().__next__, sleep=lambda seconds: None)
        monkeypatch.setattr("sluice_aws.clock.time", moment)
        monkeypatch.setattr("sluice_cli.ingest.put.time", still)
        for module in ("ops.standstill", "terminal.services", "ingest.replay"):
            monkeypatch.setattr(f"sluice_cli.{module}.time", passing)
        monkeypatch.setattr("sluice_cli.config.discover.ADMISSION_PATIENCE_S", 0.0)
        monkeypatch.setitem(Waiter.__init__.__kwdefaults__, "clock", lambda: 0.0)
        drawn = SimpleNamespace(uuid4=lambda: UUID(self.next_id()))
        monkeypatch.setattr("sluice_cli.terminal.services.uuid", drawn)
        monkeypatch.setattr("ministack.services.s3.now_iso", self._iso)
        monkeypatch.setattr("ministack.services.s3.new_uuid", self.next_id)
        monkeypatch.setattr("ministack.app.formatdate", lambda **_: formatdate(self.ms / 1000, usegmt=True))
        monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda *_: self.ms)
        polls = count()  # time passes while a queue is polled
        monkeypatch.setattr("moto.sqs.models.unix_time", lambda *_: self.ms / 1000 + next(polls) / 2)

    def _iso(self) -> str:
        at = datetime.fromtimestamp(self.ms / 1000, timezone.utc)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


TEXT = ["null", "string"]
ARTIST = {
    "id": "long",
    "nationality": TEXT,
    "name": TEXT,
    "born": ["null", {"type": "int", "logicalType": "date"}],
    "fee": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
    "photo": ["null", "bytes"],
    "seen": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
    "tags": ["null", {"type": "array", "items": TEXT}],
}
USER = {"id": "long", "date": ["null", {"type": "int", "logicalType": "date"}], "name": TEXT}
DAY = {"id": "long", "day": ["null", {"type": "int", "logicalType": "date"}], "v": ["null", "int"]}


def artist(number, nationality, name, position, op="c"):
    """The change of an artist as `tests/data/hudi_tables/make_tables.py` has it."""
    seen = datetime(2024, 1, 1, 10, 0, number, 123456, tzinfo=timezone.utc)
    values = {"nationality": nationality, "name": name, "born": date(1900 + number, 1, 2), "seen": seen}
    values |= {"fee": Decimal("12.50") + number, "photo": bytes([0, 255, number]), "tags": ["a", None]}
    return changed(position, op, id=number, **({} if op == "d" else values))


def changed(position, op="c", **values):
    return builders.change(op=op, lsn=position, source_ts_ms=1_700_000_000_000 + position, **values)


def avro(columns, *changes):
    """The bytes of an object of changes, in which a column that a change lacks is null."""
    schema = builders.flattened(columns)
    return builders.avro_object(schema, [dict.fromkeys(columns) | change for change in changes])


class Run:
    """A run of a lane, from its request on."""

    def __init__(self, world, lane, number, at, *, held_after=10 * SECOND):
        self.world, self.lane, self.batches = world, lane, 0
        self.id, self.job = f"run-{lane}-{number}", f"00job{lane}{number}"
        ledger = world.ledger
        assert ledger.lanes.request_start(lane, self.id, at, application_id="00app", time_limit_ms=12 * HOUR)
        ledger.history.run_started(self.id, lane, at)
        assert ledger.lanes.started(lane, self.id, self.job)
        if held_after is not None:
            assert ledger.lanes.hold(lane, self.id, self.job, 1, at + held_after)
            ledger.history.run_started(self.id, lane, at + held_after, self.job)

    def opened(self, at, parts):
        """The batch that claimed these objects: ids by table."""
        world, ledger, tables = self.world, self.world.ledger, {}
        world.clock.ms = at
        for table, ids in parts.items():
            records = ledger.objects.get(ids)
            listed = tuple(_listed(records[one]) for one in ids)
            state = ledger.tables.get(table)
            tables[table] = TablePart(world.config(table).to_dict(), listed, state.watch, state.last_instant)
        manifest = open_manifest(self.lane, self.id, at, world.configuration.version, tables)
        key = world.manifests.put_manifest(manifest, lambda: True)
        assert ledger.batches.open(manifest, key, self.id, self.job)
        assert len(ledger.batches.claim(manifest)) == len(manifest.objects)
        return manifest.batch

    def settled(self, at, batch, table, ids, instant=None, *, read=1, aside=(), rows=(), parked=(), notes=()):
        """The outcome of one table's part. `aside` and `parked` are (id, code, reason), `rows` (id, errors)."""
        world = self.world
        world.clock.ms = at + 900
        counts = {"objects": len(ids), "read": read, "written": read, "bytes_written": 4_096, "commits": 1}
        if aside:
            counts["quarantined_objects"] = len(aside)
        if rows:
            counts["quarantined_rows"] = sum(len(errors) for _, errors in rows)
        outcome = Outcome(
            batch,
            table,
            COMMITTED,
            at + 900,
            instant,
            instant is None,
            counts,
            tuple(ObjectError(one.hash, code, reason) for one, code, reason in aside),
            quarantined_rows=tuple(_counted(one, errors) for one, errors in rows),
            notes=notes,
            stages=(Stage("table", at + 20, 80), Stage("read", at + 100, 300), Stage("commit", at + 400, 450)),
            parked=tuple(ObjectError(one.hash, code, reason) for one, code, reason in parked),
            parked_generation=0 if parked else None,
        )
        for one, errors in rows:
            world.objects.put("s-silver", rows_key(batch, table, one.hash), to_lines(errors).encode())
        world.manifests.put_outcome(outcome)
        world.ledger.tables.pin(table, world.config(table).pinned)
        assert world.ledger.batches.settle(self.lane, batch, outcome, ids, self.id, at + 950)

    def merged(self, at, table, ids, instant=None, *, announced=True, **more):
        """A batch of one table that was opened, settled and closed; its id."""
        batch = self.opened(at, {table: ids})
        self.settled(at, batch, table, ids, instant, **more)
        assert self.world.ledger.batches.close(self.lane, batch, self.id, at + 960)
        if announced:
            assert self.world.ledger.batches.mark_announced(batch, at + 2 * SECOND)
        self.batches += 1
        return batch

    def released(self, at, due_at=None):
        lanes = self.world.ledger.lanes
        assert lanes.release(self.lane, self.id, lanes.get(self.lane).arrivals, due_at, at)
        self.world.ledger.history.run_ended(self.id, "released", None, self.batches, at)

    def lapsed(self, at, reason, **more):
        assert self.world.ledger.lanes.lapse(self.lane, self.id, at, job_run_id=self.job, reason=reason, **more)
        self.world.ledger.history.run_ended(self.id, "lapsed", reason, self.batches, at)


def _listed(record):
    """A pending object's entry in a manifest."""
    names = ("size", "schema", "format", "topic", "kafka_partition", "offset", "admitted_at", "attempt", "merged")
    facts = {name: getattr(record, name) for name in (*names, "rows_aside", "first_batch")}
    return ManifestObject(record.id.bucket, record.id.key, record.id.version, **facts)


def _counted(identity, errors):
    codes = [error.code for error in errors]
    return RowErrorCount(identity.hash, len(codes), {code: codes.count(code) for code in codes})


def row_error(record, code, reason, **values):
    text = json.dumps(values)
    return RowError(record, code, reason, 11 + record, None, JSON_TEXT, text, len(text))


class World:
    """Builds the stack. `folder` is where its tables lie, which the reading verbs read as s3://s-silver."""

    def __init__(self, stack, clock, folder):
        self.stack, self.clock, self.folder = stack, clock, folder
        self.ledger, self.objects = stack.ledger, Objects(stack.s3)
        self.items = LedgerTable(stack.dynamodb, "s-ledger")
        self.manifests = ManifestStore(self.objects, "s-silver")
        self.configuration = read_tables(TABLES_YAML.read_text())

    def config(self, table):
        return self.configuration.table_for_topic(_topic(table))

    def names(self):
        """The ids that command lines name: of batches, and the beginnings of objects' ids."""
        objects = {"bad": self.bad[0], "moved": self.artists[1], "empty": self.empty, "hidden": self.hidden}
        batches = {f"b_{name}": batch for name, batch in self.batches.items()}
        return {**batches, **{name: one.hash[:12] for name, one in objects.items()}}

    def build(self):
        self._configured()
        self._merged_at_eight()
        self._shop()
        self._lanes()
        self._waiting()
        self._set_aside()
        self._services()
        self._schemas()
        self._tables()
        self.clock.ms = NOON
        return self

    def put(self, at, key, body=b"x"):
        """An object in bronze."""
        self.clock.ms = at
        return self.stack.write(key, body)

    def admitted(self, at, table, offset, body=b"x", *, state=states.PENDING, topic=None, lane=None, **more):
        """An object of a table's topic, admitted within a second and a half."""
        topic = topic or _topic(table)
        identity = self.put(at, f"topics/{topic}/partition=0/{topic}+0+{offset:010d}.avro", body)
        self.admit(identity, at, body, state, table=table, topic=topic, lane=lane, offset=offset, **more)
        return identity

    def admit(self, identity, at, body=b"x", state=states.PENDING, *, table=None, lane=None, **more):
        config = None if table is None else self.config(table)
        facts = {"kafka_partition": 0, "format": "avro", "noticed_at": at + SECOND, "via": "s3", "size": len(body)}
        etag = self.stack.s3.head_object(Bucket="s-bronze", Key=identity.key, VersionId=identity.version)["ETag"]
        lane = lane or (config.lane if config else None)
        admitted = AdmittedObject(
            identity, state, at + 1_500, table=table, lane=lane, etag=etag.strip('"'), **{**facts, **more}
        )
        answer = self.ledger.objects.admit(admitted, generation=0)
        if state == states.PENDING and lane:
            self.ledger.lanes.wake(lane)
        return answer

    def _configured(self):
        """Two configurations, the first without the shop."""
        text = TABLES_YAML.read_text()
        first = read_tables("".join(line for line in text.splitlines(True) if "shop." not in line))
        for at, configuration in ((EIGHT - HOUR, first), (EIGHT - 30 * MINUTE, self.configuration)):
            self.clock.ms = at
            data = configuration.to_json().encode()
            self.ledger.history.count(PUSHES)
            self.objects.put("s-artifacts", f"{HISTORY_PREFIX}{configuration.version}.json", data)
            self.objects.put("s-artifacts", CONFIGURATION_KEY, data)

    def _merged_at_eight(self):
        """The tables of tests/data/hudi_tables, in seven batches of one run."""
        at = EIGHT - 40 * SECOND
        users = [
            self.admitted(at, "crm.user", 1, avro(USER, self._user(1), self._user(2))),
            self.admitted(at, "crm.user", 3, avro(USER, changed(3, "d", id=3))),
        ]
        names = ("one", "two", "three", "four", "five", "six")
        places = ("American", "German", None, "", "Côte/d Ivoire=x", "German")
        loaded = [artist(n, place, name, n) for n, (place, name) in enumerate(zip(places, names, strict=True), 1)]
        moved = [artist(1, "German", "one moved", 11, "u"), artist(2, "", "", 12, "d")]
        moved += [artist(6, "German", "six b", 13, "u"), artist(9, "?", "nine", 14), artist(10, "x", "ten", 15)]
        artists = [self.admitted(at, "moma.artists", 1, avro(ARTIST, *loaded))]
        artists.append(self.admitted(at + SECOND, "moma.artists", 11, avro(ARTIST, *moved)))
        self.bad = [self.admitted(at + SECOND, "moma.artists", number, b"not Avro") for number in (20, 21, 22)]
        works = [self.admitted(at, "moma.works", offset) for offset in (1, 11, 21)]
        days = [
            self.admitted(at, "ecomm.date", 1, avro(DAY, self._day(1, 3, 7, 1), changed(2, id=2, v=8))),
            # The value that `verify` finds in the table is 9.
            self.admitted(at, "ecomm.date", 11, avro(DAY, self._day(1, 4, 10, 11, "u"))),
            self.admitted(at, "ecomm.date", 13, avro(DAY, changed(13, "d", id=2))),
        ]
        late = self.admitted(at, "ecomm.date", 30)
        run = Run(self, "main", 1, EIGHT - 30 * SECOND)
        self.first_run = run
        errors = [
            row_error(3, "unusable_partition_value", "nationality is '?'", id=9, nationality="?"),
            row_error(4, "value_out_of_range", "fee has 12 digits, the column has 10", id=10, fee="1234567890.12"),
        ]
        aside = [
            (self.bad[0], "not_avro", "The object is not an Avro container: it begins with 6e6f7420"),
            (self.bad[1], "incompatible_schema", "fee is decimal(10,2) in the table, and string here"),
            (self.bad[2], "overlap", "Offsets 22 to 30 of Kafka partition 0 overlap 20 to 25"),
        ]
        merged = partial(run.merged, table="moma.artists")
        self.batches = {"artists": merged(EIGHT + 2 * SECOND, ids=artists[:1], instant="20261121080005027", read=6)}
        more = {"aside": aside, "rows": [(artists[1], errors)], "notes": ("2 changes lost although they are later",)}
        second = [artists[1], *self.bad]
        self.batches["moved"] = merged(EIGHT + 7 * SECOND, ids=second, instant="20261121080008725", read=3, **more)
        for number, instant in enumerate(("20261121080011861", "20261121080012602", "20261121080013968")):
            at = EIGHT + (10 + number) * SECOND
            self.batches[instant] = run.merged(at, "moma.works", works[number : number + 1], instant, read=3)
        at = EIGHT + 14 * SECOND
        both = run.opened(at, {"crm.user": users, "ecomm.date": days[:1]})
        run.settled(at, both, "crm.user", users, "20261121080015045", read=3)
        run.settled(at, both, "ecomm.date", days[:1], "20261121080015439", read=2)
        assert self.ledger.batches.close("main", both, run.id, at + 960)
        self.ledger.batches.mark_announced(both, at + 2 * SECOND)
        self.batches["both"] = both
        restarted = (late, "log_restarted", "Kafka partition 0 of ecomm.date fell from 0000.13 to 0000.2")
        last, more = [*days[1:], late], {"parked": [restarted], "announced": False}
        at = EIGHT + 15 * SECOND
        self.batches["days"] = run.merged(at, "ecomm.date", last, "20261121080015898", read=2, **more)
        run.batches += 1
        self.users, self.artists = users, artists
        works = [name for name in self.batches if name.isdigit()]
        self._renamed("moma/works", *works)
        self._renamed("moma/artists", "artists", "moved")
        self._renamed("crm/user", "both")
        self._renamed("ecomm/date", "both", "days")

    def _user(self, number):
        return changed(number, id=number, date=(date(2020, 2, 3), None)[number - 1], name=("ann", "bob")[number - 1])

    def _day(self, number, day, value, position, op="c"):
        return changed(position, op, id=number, day=date(2020, 2, day), v=value)

    def _renamed(self, table, *batches):
        """Note in the commits of a table the batches of this world."""
        commits = sorted((self.folder / table / ".hoodie").glob("*commit"))
        for commit, name in zip(commits, batches, strict=True):
            commit.write_text(commit.read_text().replace('"b-1"', f'"{self.batches[name]}"'))

    def _shop(self):
        """A table that fails and is in back-off, one of which all rows are in quarantine, and a paused one."""
        at = NOON - 3 * HOUR
        orders = [self.admitted(at, "shop.orders", 1), self.admitted(at, "shop.orders", 2)]
        self.hidden = self.admitted(at, "shop.hidden", 1)
        run = Run(self, "side", 1, at + 10 * SECOND)
        run.merged(at + 30 * SECOND, "shop.orders", orders, "20261121080015045", read=3)
        error = row_error(0, "unexpected_value", "amount is -1, where at least 0 is expected", id=1, amount=-1)
        run.merged(at + 40 * SECOND, "shop.hidden", [self.hidden], read=0, rows=[(self.hidden, [error])])
        run.released(at + 2 * MINUTE)
        for offset in (3, 4, 5):
            self.admitted(NOON - 30 * MINUTE, "shop.orders", offset)
        self.admitted(NOON - 2 * HOUR, "shop.items", 1)
        self.admitted(NOON - 2 * HOUR, "shop.paused", 1)
        run = Run(self, "side", 2, NOON - 29 * MINUTE)
        message = "The commit can't be written: 503 SlowDown. `sluice ops logs` shows more"
        for failures in range(3):
            self.ledger.tables.record_error("shop.orders", message, NOON + (1 + failures) * MINUTE)
        run.released(NOON - 25 * MINUTE, NOON + 3 * MINUTE)

    def _lanes(self):
        """A lane of each state: main runs, side is idle, bulk halted, rest paused, night starting, spare at rest."""
        ledger = self.ledger
        self.first_run.released(EIGHT + 76 * SECOND)
        self.admitted(NOON - 6 * HOUR, "shop.late", 1, b"x" * 5_000)
        ledger.tables.pin("shop.late", self.config("shop.late").pinned)
        for number in range(1, 6):
            run = Run(self, "bulk", number, NOON - (5 * 65 + 15 - 65 * number) * MINUTE)
            run.lapsed(NOON - (5 * 65 + 10 - 65 * number) * MINUTE, "the driver exited with 137")
        self.admitted(NOON - HOUR, "shop.blocked", 1)
        self.admitted(NOON - HOUR, "shop.rebuilt", 1)
        ledger.lanes.pause("rest")
        ledger.tables.pin("shop.blocked", self.config("shop.blocked").pinned)
        gone = TableWentBack("shop.blocked has no commit 20261121080015045, its last one", table="shop.blocked")
        ledger.tables.block("shop.blocked", gone, NOON - 50 * MINUTE)
        mark = {"at": NOON - 45 * MINUTE, "lane": "rest", "to": "_sluice/replaced/shop.rebuilt/1795257900000/"}
        mark |= {"topic": _topic("shop.rebuilt"), "command": "sluice rebuild table shop.rebuilt", "by": PERSON}
        ledger.rebuilds.begin("shop.rebuilt", "rest", {**mark, "without_gone": False, "history": False})
        self.admitted(NOON - 90 * SECOND, "shop.new", 1)
        Run(self, "night", 1, NOON - 40 * SECOND, held_after=None)
        ledger.lanes.wake("spare")
        ledger.lanes.pause("spare")
        ledger.lanes.note_standstill(["spare"])
        Run(self, "main", 2, NOON - 20 * MINUTE).lapsed(NOON - 18 * MINUTE, "no capacity was found", capacity=True)

    def _waiting(self):
        """The batch that the run of main merges, what is pending beside it, and what the ledger doesn't know yet."""
        claimed = [self.admitted(NOON - 15 * MINUTE, "moma.artists", offset) for offset in (40, 41)]
        user = self.admitted(NOON - 15 * MINUTE, "crm.user", 10, avro(USER, changed(1, "u", id=2, name="bo")))
        self.run = Run(self, "main", 3, NOON - 10 * MINUTE)
        self.batches["open"] = self.run.opened(NOON - 9 * MINUTE, {"crm.user": [user], "moma.artists": claimed})
        self.run.settled(NOON - 8 * MINUTE, self.batches["open"], "crm.user", [user])
        self.ledger.batches.begin_attempt(self.batches["open"], "moma.artists", NOON - 7 * MINUTE)
        self.ledger.lanes.gave_sign("main", self.run.id, NOON - MINUTE)
        for offset in (42, 43):
            self.admitted(NOON - 4 * MINUTE, "moma.artists", offset, b"x" * 700)
        self.admitted(NOON - 3 * MINUTE, "moma.works", 31)
        for at, offset in ((NOON - 20 * SECOND, 11), (NOON - 2 * HOUR, 4)):
            body = avro(USER, changed(offset, "u", id=2, name="bo"))
            self.put(at, f"topics/crm.public.user/partition=0/crm.public.user+0+{offset:010d}.avro", body)

    def _set_aside(self):
        """Objects that admission set aside, decisions about others, and messages that name no object."""
        at = NOON - 100 * MINUTE
        none = "no rule of tables.yaml takes this topic"
        for offset in (1, 2):
            body = avro(USER, self._user(offset))
            self.admitted(at, None, offset, body, state=states.PARKED, topic="legacy.public.thing", reason=none)
        reason = "neither the file's name nor a topics/<topic>/ folder names a topic"
        for key, state, more in (
            ("exports/orders.avro", states.PARKED, {"reason": reason}),
            ("topics/crm.public.user/_SUCCESS", states.IGNORED, {"rule": "spark_file", "format": None}),
            ("topics/crm.public.user/.hidden", states.IGNORED, {"rule": "hidden_file", "format": None}),
        ):
            self.admit(self.put(at, key), at, state=state, kafka_partition=None, **more)
        empty = "It has no bytes"
        self.empty = self.admitted(at, "crm.user", 8, b"", state=states.QUARANTINED, code="empty_object", reason=empty)
        body, topic = avro(USER, changed(3, "d", id=3)), _topic("crm.user")
        again = self.put(at, self.users[1].key, body)
        assert self.admit(again, at, body, table="crm.user", topic=topic, offset=3) == "superseded"
        cut = {"state": states.QUARANTINED, "code": "corrupt_object", "reason": "a block is cut"}
        retried, dropped = (self.admitted(at, "moma.works", offset, **cut) for offset in (50, 51))
        records = self.ledger.objects.get([retried, dropped])
        quarantine, decided = self.ledger.quarantine, ((retried, RETRIED, 60, None), (dropped, DISCARDED, 55, "again"))
        for identity, verb, minutes, note in decided:
            record, command = (
                records[identity],
                f"sluice quarantine {'retry' if verb == RETRIED else 'discard'} {identity.hash[:8]} --yes",
            )
            about = (record.state, record.table, record.code, record.reason)
            decision = Decision(identity, verb, NOON - minutes * MINUTE, command, PERSON, *about, note=note)
            if verb == RETRIED:
                assert quarantine.retry(record, record, decision)
            else:
                assert quarantine.discard(record, decision)
        messages = (("test_event", '{"Event": "s3:TestEvent"}'), ("unknown_message", "hello"))
        for number, (reason, text) in enumerate(messages):
            self.ledger.history.ignore_message(f"message-{number}", 0, reason, text, NOON - 3 * HOUR)

    def _services(self):
        """Services of moma.works that are done, failed and requested, one of crm.user that runs; the catalog's."""
        run, services = self.run, self.ledger.services
        wanted = {
            ("moma.works", "compaction"): ServiceReport(4, 1, 40_960, 10_240, 7, 1_500, "20261121080013968"),
            ("moma.works", "cleaning"): ServiceError("timeline_conflict", "Another writer holds the table", False),
            ("crm.user", "cleaning"): None,
        }
        for number, ((table, service), end) in enumerate(wanted.items()):
            at = NOON - (9 - number) * MINUTE
            request = f"{service}-{table}"
            services.request("main", table, service, request=request, requested_by="plan", now=at)
            begun = services.start(services.get("main", table, service), run.id, run.job, at + 30 * SECOND)
            if isinstance(end, ServiceReport):
                assert services.finish(begun, run.id, end, at + 40 * SECOND)
            elif end is not None:
                assert services.fail(begun, run.id, end, at + 40 * SECOND)
        by, at = "sluice ops services run moma.works", NOON - MINUTE
        services.request("main", "moma.works", "archival", request="archival-2", requested_by=by, now=at)
        for table in ("crm.user", "moma.artists", "moma.works", "ecomm.date", "shop.orders"):
            self.ledger.tables.note_first_check(table, EIGHT + MINUTE)
        failure = {"at": NOON - HOUR, "error": "CatalogNameTaken", "instant": "20261121080013968"}
        self.items.update(states.table_key("moma.works"), {"catalog_failed": failure})
        synced = {"at": EIGHT + 2 * MINUTE, "instant": "20261121080015045", "commits": 1}
        self.items.update(states.table_key("crm.user"), {"service_catalog": synced})

    def _schemas(self):
        """Three writer schemas of crm.user, the last of which was refused."""
        history = SchemaHistory(self.objects, "s-silver")
        stored_columns = judged_schemas.STORED
        cases = (judged_schemas.OLD, None), (judged_schemas.NEW, stored_columns), (judged_schemas.BAD, stored_columns)
        for number, (schema, stored) in enumerate(cases):
            SchemaStore(self.objects, "s-silver").keep(schema)
            history.note(judged_schemas.judged(schema, stored=stored, at=EIGHT + number * MINUTE))
        history.keep_columns(StoredColumns("crm.user", stored_columns))

    def _tables(self):
        """The files of the tables in the silver bucket, and a release."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                self.objects.put("s-silver", path.relative_to(self.folder).as_posix(), path.read_bytes())
        self.objects.put("s-artifacts", "releases/r1/release.json", b"{}")


def _topic(table):
    database, _, name = table.partition(".")
    return f"{database}.public.{name}"


def new_folder(folder):
    """The files of the tables, with a history table of crm.user, and shop.orders as a copy of it."""
    shutil.copytree(SILVER_FOLDER, folder)
    put_history(folder, [kept_change(1, "ann", 1), kept_change(2, "bob", 2), kept_change(3, None, 3, "d")])
    shutil.copytree(folder / "crm" / "user", folder / "shop" / "orders")
    properties = folder / "shop" / "orders" / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("table.name=user", "table.name=orders")
    properties.write_text(text.replace("database.name=crm", "database.name=shop"))
    return folder


def _put_log(stack, folder):
    """The log of a driver, as its events and as Spark's own."""
    at = {"run": "run-main-1", "lane": "main"}
    events = (
        {"at": EIGHT, "event": "holds_lane", **at, "attempt": 1},
        {"at": EIGHT + 9 * SECOND, "event": "merged", **at, "table": "moma.artists", "read": 6},
    )
    body = gzip.compress("".join(json.dumps(event) + "\n" for event in events).encode(), mtime=0)
    for name in ("stdout", "stderr"):
        stack.s3.put_object(Bucket="s-artifacts", Key=f"{folder}{name}.gz", Body=body)


class Functions:
    """Lambda: an invocation does nothing."""

    def invoke(self, **_):
        return {}


def other_services(stack, clock):
    """Messages in the dead-letter queues, and job runs."""
    sqs, emr = SHARED.client("sqs"), SHARED.client("emr-serverless")
    names = {
        "QueueUrl": "notices",
        "UnannouncedQueueUrl": "unannounced",
        "UnreconciledQueueUrl": "unreconciled",
        "UndeliveredQueueUrl": "undelivered",
    }
    urls = {output: sqs.create_queue(QueueName=name)["QueueUrl"] for output, name in names.items()}
    outputs = {**cloudformation().outputs, **urls, "Release": "r1", "ReconcileFunction": "s-reconcile"}
    application = emr.create_application(name="s", releaseLabel="emr-7.14.0", type="SPARK", clientToken="t")
    cloudformation().outputs = {**outputs, "ApplicationId": application["applicationId"]}
    key = f"topics/{_topic('moma.artists')}/partition=0/{_topic('moma.artists')}+0+{{:010d}}.avro"
    unannounced = {
        "requestContext": {"condition": "RetryAttemptsExhausted"},
        "DDBStreamBatchInfo": {"batchSize": 2, "approximateArrivalOfLastRecord": "2026-11-21T08:00:16Z"},
    }
    call = {
        "requestContext": {"requestId": "42", "condition": "RetriesExhausted"},
        "responsePayload": {"errorMessage": "Rate exceeded", "errorType": "ClientError"},
    }
    admitted = stack.ledger.objects.versions("s-bronze", key.format(42))[0].id
    letters = {
        "DeadLetterQueueUrl": (s3_body(admitted), s3_body(ObjectId("s-bronze", key.format(99), "v99")), "{}"),
        "UnannouncedQueueUrl": (json.dumps(unannounced),),
        "UnreconciledQueueUrl": (json.dumps(call),),
    }
    for hours, (output, bodies) in zip((3, 2, 1), letters.items(), strict=True):
        clock.ms = NOON - hours * HOUR
        for body in bodies:
            sqs.send_message(QueueUrl=cloudformation().outputs[output], MessageBody=body)
    clock.ms = NOON
    _put_log(stack, f"logs/applications/{application['applicationId']}/jobs/00jobmain1/SPARK_DRIVER/")
    for name in ("run-main-1", "run-side-1", "trial-1", "nightly-report"):
        role = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/r"
        emr.start_job_run(
            applicationId=application["applicationId"], clientToken=name, name=name, executionRoleArn=role
        )


def pin_services(monkeypatch, folder):
    """Let job runs be billed, functions do nothing, and tables be read in a folder."""
    (runs,) = emrserverless_backends[DEFAULT_ACCOUNT_ID][REGION].job_runs.values()
    billed = {run.id: Billed(run.name, 0.5, 2.0, 0.0) for run in runs if run.name != "trial-1"}
    monkeypatch.setattr("sluice_aws.lanes.job_runs.JobRuns.billed", lambda self, job_run: billed.get(job_run))
    whole = Target.client
    monkeypatch.setattr(
        Target, "client", lambda self, service: Functions() if service == "lambda" else whole(self, service)
    )
    monkeypatch.setattr(Target, "silver_url", folder.as_uri())
    monkeypatch.setattr(Target, "storage_options", lambda self: {})
