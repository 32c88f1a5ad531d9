"""Builders of the values that many tests need."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import fastavro
from botocore.exceptions import ClientError

from sluice.batch.outcome import Outcome
from sluice.lane.job_request import JobEnvironment
from sluice.lane.machine import HALT_AFTER_FAILURES, HALTED
from sluice.ledger.recovery import KnownTable
from sluice_aws.ledger.ledger import Ledger

JOB_ENVIRONMENT = JobEnvironment(
    application_id="00f1982r1uukb925",
    job_role_arn="arn:aws:iam::123456789012:role/sluice-job",
    region="us-east-1",
    release="abc123",
    ledger_table="ledger",
    bronze_bucket="bronze",
    silver_bucket="silver",
    artifact_bucket="artifacts",
    hudi_jars="file:///usr/lib/hudi/hudi-spark-bundle.jar",
    architecture="X86_64",
)


def note_commit(ledger: Ledger, outcome: Outcome, counts: Mapping[str, int]) -> None:
    """A commit in the table's item, later than the ones before, without a batch. `counts` are added to its totals."""
    before = ledger.tables.get(outcome.table)
    totals = Counter(before.totals)
    totals.update(counts)
    state = KnownTable(last=outcome, noted=outcome, committed=outcome, pinned=before.pinned or {}, totals=totals)
    assert ledger.recovery.restore_table(outcome.table, state, purge_floors={}), "a later commit is known"


def halt(ledger: Ledger, lane: str, *, first_at: int = 0) -> None:
    """Halt a lane: as many runs as that takes end without progress, from `first_at` (epoch ms) on, one an hour."""
    for number in range(HALT_AFTER_FAILURES):
        run, now = f"run-{lane}-{number}", first_at + number * 3_600_000  # back-off has passed
        assert ledger.lanes.request_start(lane, run, now)
        ledger.lanes.lapse(lane, run, now, job_run_id=None)
    assert ledger.lanes.get(lane).state == HALTED


def avro_record(columns: Mapping[str, Any], *, name: str = "Value", **more: Any) -> dict[str, Any]:
    """An Avro schema of records; `columns` are types by name, `more` other attributes of the record."""
    fields = [{"name": column, "type": kind} for column, kind in columns.items()]
    return {"type": "record", "name": name, **more, "fields": fields}


def flattened(columns: Mapping[str, Any], *, name: str = "Value") -> dict[str, Any]:
    """A writer schema of flattened changes of PostgreSQL; `columns` are Avro types by name."""
    meta = {"__op": "string", "__deleted": "string", "__lsn": "long", "__source_ts_ms": "long"}
    return avro_record({**columns, **{column: ["null", kind] for column, kind in meta.items()}}, name=name)


def envelope(columns: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """A writer schema of Debezium envelopes, by the Avro types of a row's `columns` and of its `source`."""

    def record(name: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "record",
            "name": name,
            "fields": [{"name": part, "type": kind} for part, kind in kinds.items()],
        }

    value = {**record("Value", columns), "namespace": "src.public.t"}
    after, place = ["null", "src.public.t.Value"], record("Source", source)
    sides = {"before": ["null", value], "after": after, "source": place, "op": "string"}
    return {**record("Envelope", sides), "namespace": "src.public.t"}


def change(op: str = "c", lsn: Any = 7, *, source_ts_ms: int = 1_700_000_000_000, **values: Any) -> dict[str, Any]:
    """One flattened change of PostgreSQL."""
    deleted = "true" if op == "d" else "false"
    return {**values, "__op": op, "__deleted": deleted, "__lsn": lsn, "__source_ts_ms": source_ts_ms}


def avro_object(
    schema: Any,
    rows: Iterable[Mapping[str, Any]],
    *,
    codec: str = "null",
    block: int = 16_000,
    marker: bytes = bytes(16),
) -> bytes:
    """An Avro container in blocks of some `block` bytes. The same rows give the same bytes."""
    body = io.BytesIO()
    # A parsed copy, since fastavro marks the schema that it parses.
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    fastavro.writer(body, parsed, rows, codec=codec, sync_interval=block, sync_marker=marker)
    return body.getvalue()


def to_a_terminal(monkeypatch: Any, columns: int = 80) -> None:
    """Make stdout a terminal of so many columns."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))


def unstyled(text: str) -> list[str]:
    """The lines of what a terminal shows, without styles and blanks at their ends."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


def in_a_terminal(monkeypatch: Any, answer: bool) -> list[str]:
    """Make stdin a terminal whose user gives this answer. Returns the questions, which grow."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(" ".join(question.split()))  # without its breaks
        return answer

    monkeypatch.setattr("typer.confirm", confirm)
    return asked


def aws_error(code: str, operation: str = "Call") -> ClientError:
    """What a call raises that AWS answers with this code."""
    return ClientError({"Error": {"Code": code, "Message": "on purpose"}}, operation)


def failing_for(holds: Callable[[Any], bool], error: Exception, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which raises the error where its first argument is such a one."""

    def called(self: Any, first: Any, *rest: Any, **more: Any) -> Any:
        if holds(first):
            raise error
        return method(self, first, *rest, **more)

    return called


class Events:
    """A log that keeps its events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def event(self, name: str, /, **fields: Any) -> None:
        self.seen.append((name, fields))

    def failure(self, name: str, error: BaseException, /, **fields: Any) -> None:
        self.event(name, error=error, **fields)

    def names(self) -> list[str]:
        return [name for name, _ in self.seen]
