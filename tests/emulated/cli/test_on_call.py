"""Twelve failures as somebody on call meets them, who types only what the alarm and the commands say.

Each begins with an alarm, or with `sluice status` where none fires, and reaches its cause and the way out in at most
three commands. Between two of them a file is changed, or an object sent again, as the output says.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from admit.handler import handler as admit
from emulation.deployment import context, failed_items, forget_processes, s3_body, sqs_event
from emulation.ledger_table_schema import create_ledger_table
from emulation.operated_stack import INSTANT, merge, operated, release
from emulation.stack import REGION, SHARED
from supervise.handler import handler as supervise
from support.builders import avro_object, change, flattened

from sluice.errors import TableWentBack
from sluice.lane.machine import IDLE, LEDGER_LOST, STARTING
from sluice.schema.history import StoredColumns
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_cli.ingest.quarantine import LISTED
from sluice_cli.main import run
from sluice_local.home import Description

TABLE, MOST = "public.orders", 3  # commands
RULES = "tables:\n- {topic: shop.public.orders, table: public.orders, record_key: id}\n"
OWN = ("--yes", "tables.yaml")  # words that nothing need show
KEY = "topics/shop.public.{0}/partition=0/shop.public.{0}+0+{1:010d}.avro"
COLUMNS = {"id": "long", "name": "string"}
HOUR, DEAD = 3_600_000, 2**22 + 1  # a process id that Linux gives to none
SHOWN = re.compile(r"`((?:sluice|aws) [^`]+)`")
STATUS, PUSH = "sluice status", "sluice config push tables.yaml"
RETRY = "sluice quarantine retry --code incompatible_schema --table public.orders"
CANCEL = "aws emr-serverless cancel-job-run --application-id {application} --job-run-id {job}"


class Shift:
    """A stack, and a person who sees what its commands print."""

    def __init__(self, system, capsys):
        self.system, self.ledger, self.capsys = system, system.ledger, capsys
        self.seen = self.output = ""

    def put(self, number, body=None, topic="orders", **columns):
        """An object in bronze that admit has seen."""
        columns = columns or COLUMNS
        row = {name: number if kind == "long" else "x" for name, kind in columns.items()}
        whole = avro_object(flattened(columns), [change(lsn=number, **row)]) if body is None else body
        identity = self.system.write(KEY.format(topic, number), whole)
        assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
        return identity

    def push(self, *changes):
        """Another person's push of the rules with these changes, of which the functions hear at once."""
        write_rules(*changes)
        assert run(["config", "push", "tables.yaml", "--yes"]) == 0
        forget_processes()

    def put_log(self, lane, error):
        """What the driver of a lane's run wrote."""
        folder = f"logs/applications/{lane.application_id}/jobs/{lane.job_run_id}/SPARK_DRIVER/"
        line = json.dumps({"at": epoch_ms(), "event": "failed", "run": lane.run_id, "error": error})
        self.system.s3.put_object(Bucket="s-artifacts", Key=f"{folder}stdout.gz", Body=gzip.compress(line.encode()))

    def state(self, identity):
        return self.system.record(identity).state

    def lane(self):
        return self.ledger.lanes.get("main")

    def type(self, line):
        """Run a command that was shown. What the person adds was shown too, but for OWN."""
        typed = [word for word in shlex.split(line) if word not in OWN]
        commands = map(shlex.split, SHOWN.findall(self.seen))
        shown = [[word for word in command if word not in OWN] for command in commands]
        begun = max((len(one) for one in shown if _begins(typed, one)), default=0)
        assert begun and all(word in self.seen for word in typed[begun:]), f"{line!r} was not said: {self.seen}"
        for command in line.split(" && "):
            program, *words = shlex.split(command)
            self.capsys.readouterr()
            if program == "aws":
                _call(*words)
            else:
                run(words)
            self.output, err = self.capsys.readouterr()
            self.seen += f"\n$ {command}\n{self.output}{err}"


def _begins(typed, shown):
    """Whether a typed command begins as one that was shown, in which ID stands for any."""
    pairs = zip(shown, typed, strict=False)
    return len(shown) <= len(typed) and all(one in ("ID", other) for one, other in pairs)


def _call(service, operation, *options):
    """What the AWS CLI does."""
    words = [name.removeprefix("--").split("-") for name in options[::2]]
    names = [first + "".join(map(str.title, more)) for first, *more in words]
    call = getattr(SHARED.client(service), operation.replace("-", "_"))
    call(**dict(zip(names, options[1::2], strict=True)))


def write_rules(*changes):
    """A tables.yaml with these changes."""
    text = RULES
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    Path("tables.yaml").write_text(text)


@dataclass(frozen=True)
class Failure:
    """`breaks` makes it and returns names for the commands; `by_hand` is done after the command of that number.

    `cause` is what the output says of it, `mended` whether all is well at the end.
    """

    alarm: str | None
    breaks: Callable[[Shift], Mapping[str, Any]]
    commands: tuple[str, ...]
    cause: str
    mended: Callable[[Shift, Mapping[str, Any]], bool]
    by_hand: Mapping[int, Callable[[Shift], object]] = field(default_factory=dict)


def broken_object(shift):
    bad = shift.put(1, b"")
    return {"bad": bad, "id": bad.hash[:12]}


def unknown_topic(shift):
    rows = [change(lsn=number, id=number, name="x") for number in range(1, 200)]
    return {"other": shift.put(1, avro_object(flattened(COLUMNS), rows), "refunds")}


def narrowing(shift):
    columns = {"id": "bigint", "name": "string", "__deleted": "boolean"}
    SchemaHistory(Objects(shift.system.s3), "s-silver").keep_columns(StoredColumns(TABLE, columns))
    return {"bad": shift.put(1, id="long", name="long")}


def dead_driver(shift):
    shift.put(1)
    lane, reason = shift.lane(), "job run FAILED: the driver exited with 137"
    shift.ledger.history.run_started(lane.run_id, "main", epoch_ms(), lane.job_run_id)
    assert shift.ledger.lanes.lapse("main", lane.run_id, epoch_ms(), job_run_id=lane.job_run_id, reason=reason)
    shift.ledger.history.run_ended(lane.run_id, "lapsed", reason, 0, epoch_ms())
    shift.put_log(lane, "OutOfMemoryError")
    return {"run": lane.run_id}


def wrong_push(shift):
    """A rule that takes another topic into another table, where the table has data and more objects come."""
    merge(shift.system, TABLE, shift.put(1))
    release(shift.system)
    shift.push(("shop.public.orders", "shop.public.customers"), (TABLE, "public.customers"))
    Path("tables.yaml").unlink()
    return {"late": shift.put(2)}


def full_quarantine(shift):
    shift.push(("record_key: id", "record_key: nr"))
    return {"bad": [shift.put(number) for number in range(LISTED + 1)]}


def late_table(shift):
    shift.put(1)
    shift.ledger.tables.record_error(TABLE, "The commit can't be written: AccessDenied", epoch_ms() + HOUR)
    lane = shift.lane()
    shift.ledger.history.run_started(lane.run_id, "main", epoch_ms(), lane.job_run_id)
    shift.put_log(lane, "AccessDenied")
    release(shift.system)
    return {"run": lane.run_id}


def stuck_lane(shift):
    shift.put(1)
    lane, began = shift.lane(), epoch_ms() - HOUR
    assert shift.ledger.lanes.hold("main", lane.run_id, lane.job_run_id, 1, began)
    shift.ledger.history.run_started(lane.run_id, "main", began, lane.job_run_id)
    shift.put_log(lane, "waits for a lock")
    return {"run": lane.run_id, "job": lane.job_run_id, "application": lane.application_id}


def forgotten_pause(shift):
    merge(shift.system, TABLE, shift.put(1))
    release(shift.system)
    assert run(["pause", "main"]) == 0
    shift.put(2)
    return {}


def deleted_table(shift):
    first = shift.put(1)
    merge(shift.system, TABLE, first)
    shift.put(2)
    gone = TableWentBack(f"{TABLE} has no commit {INSTANT}, its last one", table=TABLE)
    shift.ledger.tables.block(TABLE, gone, epoch_ms())
    release(shift.system)
    return {"first": first}


def restored_ledger(shift):
    """To a time before the first batch: a run finds that the ledger knows of none, and pauses the lane."""
    first = shift.put(1)
    merge(shift.system, TABLE, first)
    shift.system.dynamodb.delete_table(TableName="s-ledger")
    create_ledger_table(shift.system.dynamodb, "s-ledger")
    shift.put(2)
    lane = shift.lane()
    assert shift.ledger.lanes.hold("main", lane.run_id, lane.job_run_id, 1, epoch_ms())
    shift.ledger.lanes.pause("main", LEDGER_LOST)
    release(shift.system)
    return {"first": first}


def runs_again(shift, names):
    """A run of the lane has been started, and none that was there before."""
    return shift.lane().state == STARTING and shift.lane().run_id != names.get("run")


FAILURES = {
    "broken object": Failure(
        "QuarantineAlarm",
        broken_object,
        ("sluice quarantine list", "sluice quarantine discard {id} --yes"),
        "The object has no bytes. Upload the object again",
        lambda shift, names: shift.state(names["bad"]) == "ignored" and shift.lane().state == STARTING,
        {1: lambda shift: shift.put(1)},
    ),
    "unknown topic": Failure(
        None,
        unknown_topic,
        (STATUS, "sluice config discover --write", PUSH),
        "topic shop.public.refunds: no rule of tables.yaml takes this topic",
        lambda shift, names: shift.state(names["other"]) == "pending",
    ),
    "narrowing": Failure(
        "QuarantineAlarm",
        narrowing,
        ("sluice quarantine list", PUSH, RETRY),
        "Column name is bigint and the table has string",
        lambda shift, names: shift.state(names["bad"]) == "pending",
        {1: lambda shift: write_rules(("record_key: id", "record_key: id, columns: {rename: {name: name_nr}}"))},
    ),
    "dead driver": Failure(
        "RunsFailAlarm",
        dead_driver,
        ("sluice ops runs --failed", "sluice ops logs {run}", "sluice resume main"),
        "OutOfMemoryError",
        runs_again,
    ),
    "wrong push": Failure(
        None,
        wrong_push,
        (STATUS, "sluice config show --earlier 1", "sluice config push tables.yaml --yes"),
        "No rule takes the topic of public.orders any longer",
        lambda shift, names: shift.state(names["late"]) == "pending",
        {2: lambda shift: Path("tables.yaml").write_text(shift.output)},
    ),
    "full quarantine": Failure(
        "QuarantineAlarm",
        full_quarantine,
        ("sluice quarantine list", PUSH, RETRY),
        "The record key nr is not a column of this schema",
        lambda shift, names: {shift.state(one) for one in names["bad"]} == {"pending"},
        {1: lambda shift: write_rules()},
    ),
    "late alarm": Failure(
        "OverdueAlarm", late_table, (STATUS, "sluice ops logs", "sluice resume main"), "AccessDenied", runs_again
    ),
    "stuck lane": Failure(
        "OldestPendingAlarm",
        stuck_lane,
        (STATUS, "sluice ops logs {run}", CANCEL),
        "without progress for 1 h",
        lambda shift, names: shift.lane().state == IDLE and shift.lane().backoff_until > epoch_ms(),
        {3: lambda shift: supervise({}, context(400_000))},
    ),
    "forgotten pause": Failure(
        "OldestPendingAlarm", forgotten_pause, (STATUS, "sluice resume main"), "\tpaused", runs_again
    ),
    "deleted table": Failure(
        "OldestPendingAlarm",
        deleted_table,
        (STATUS, "sluice pause main && sluice rebuild table public.orders --yes && sluice resume main"),
        f"public.orders has no commit {INSTANT}, its last one",
        lambda shift, names: shift.state(names["first"]) == "pending" and runs_again(shift, names),
    ),
    "restored ledger": Failure(
        "LaneHaltedAlarm",
        restored_ledger,
        (STATUS, "sluice rebuild ledger --yes", "sluice resume main"),
        LEDGER_LOST,
        lambda shift, names: shift.state(names["first"]) == "committed" and runs_again(shift, names),
    ),
}


LONG = {"full quarantine": pytest.mark.long}  # hundreds of objects


@pytest.mark.parametrize(
    "name", [pytest.param(name, id=name.replace(" ", "_"), marks=LONG.get(name, ())) for name in FAILURES]
)
def test_an_alarm_leads_to_the_cause_and_the_way_out(name, stack, monkeypatch, capsys):
    failure = FAILURES[name]
    with operated(stack, monkeypatch) as system:
        shift = Shift(system, capsys)
        shift.push()
        names = failure.breaks(shift)
        shift.seen = _description(failure.alarm) if failure.alarm else f"`{STATUS}`"
        assert len(failure.commands) <= MOST
        for number, command in enumerate(failure.commands, 1):
            shift.type(command.format(**names))
            if number in failure.by_hand:
                forget_processes()
                failure.by_hand[number](shift)
        assert failure.cause in shift.seen, shift.seen
        assert failure.mended(shift, names), shift.seen


def test_a_dead_emulator_leads_to_a_new_start(monkeypatch, tmp_path, capsys):
    """Nothing answers any more at the address of a local stack, whose owner died with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.delenv("SLUICE_STACK", raising=False)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    buckets = {name: f"s-{name}" for name in ("bronze", "silver", "artifacts")}
    credentials = {"access_key_id": "x", "secret_access_key": "x"}
    process = {"owner": DEAD}
    described = Description("s", REGION, address, address, buckets, "s-ledger", credentials, "00a", "r1", process)
    (tmp_path / "local.json").write_text(json.dumps(asdict(described)))
    assert run(["status"]) != 0
    assert "sluice local up" in capsys.readouterr().err


def _description(alarm):
    """What the pager shows of an alarm."""
    template = (Path(__file__).resolve().parents[3] / "template.yaml").read_text()
    return template.split(f"\n  {alarm}:\n")[1].split('AlarmDescription: "')[1].split('"')[0]
