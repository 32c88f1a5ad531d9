"""A lane's whole world for the explorer: invocations of admit, EMR Serverless, drivers, the schedule, Hudi timelines.

Real code: the ledger's adapters, the waker and starter, the run loop with its steps, and the supervisor. In memory:
DynamoDB, the documents in S3, EMR Serverless's API, the clock, and Hudi, whose transitions are a look and a put.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from driving.clock import START
from driving.lane import LANE, ConfigurationFile, ConfigurationReader, Documents, InThisThread, admitted, configuration
from support.builders import JOB_ENVIRONMENT, aws_error
from support.extent import WHOLE

from exploring.memory_dynamodb import MemoryDynamoDb
from exploring.schedules import Actor, Body, Stage
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.lane.machine import IDLE, wanted_at
from sluice.ledger import keys as items
from sluice.objects import ObjectId
from sluice.services.requests import SliceDone
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.lanes.start import Starter, Waker
from sluice_aws.lanes.supervise import Supervisor
from sluice_aws.ledger.ledger import Ledger
from sluice_spark.errors import LaneLost, SparkDied
from sluice_spark.log import RunLog
from sluice_spark.run.hold import LaneHold, RunIdentity
from sluice_spark.run.loop import RunLoop
from sluice_spark.run.step import Ports

LINGER_S = 2
CALM_ROUNDS = 40  # supervisions after a schedule; back-offs and one take-over need fewer
# No protocol reads these: calls on them are no steps of a schedule.
RECORDS_ONLY = ("run#", "message#", "counter#")
# In `make test` the shards of a lane's pending objects are read in one step, with the first.
FURTHER_SHARDS = re.compile(r"pending#[^#]+#[1-9]\d*$")


@dataclass(frozen=True)
class Scenario:
    """Objects by the table that takes each, the invocations of admit, and how often the schedule comes.

    `invocations` holds indexes of `objects`. `fails` names tables whose first merge raises, `kills` indexes of objects
    that end Spark whenever they are merged. With those the schedule comes when a run is wanted.
    """

    objects: Sequence[str]
    invocations: Sequence[Sequence[int]]
    supervisions: int = 0
    fails: Sequence[str] = ()
    kills: Sequence[int] = ()
    batch_objects: int = 100


@dataclass
class Timeline:
    """A Hudi table's instants: state and batch by instant, and the objects of each commit."""

    instants: dict[int, tuple[str, str, frozenset[ObjectId]]] = field(default_factory=dict)
    newest: int = 0

    def completed(self, batch: str) -> int | None:
        return next((at for at, (state, of, _) in self.instants.items() if (state, of) == ("commit", batch)), None)


class _Stepped:
    """A port whose calls are steps of an actor."""

    def __init__(self, name: str, port: Any, actor: Actor) -> None:
        self._name, self._port, self._actor = name, port, actor

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        call = getattr(self._port, operation)

        def stepped(*given: Any, **more: Any) -> Any:
            label = f"{self._name}.{operation}"
            if self._name == "dynamodb":
                subject = _subject(more)
                if subject.startswith(RECORDS_ONLY) or (
                    operation == "query" and not WHOLE and FURTHER_SHARDS.match(subject)
                ):
                    return call(*given, **more)
                label = f"{operation} {subject}"
            return self._actor.step(label, lambda: call(*given, **more))

        return stepped


def _subject(request: Mapping[str, Any]) -> str:
    """The partition that a request is about; of a transaction, its first."""
    if "TransactItems" in request:
        ((_, action),) = request["TransactItems"][0].items()
        return _subject(action)
    if "RequestItems" in request:
        ((_, wanted),) = request["RequestItems"].items()
        return str(wanted["Keys"][0]["pk"]["S"])
    if "KeyConditionExpression" in request:
        return str(request["ExpressionAttributeValues"][":v0"]["S"])
    return str((request.get("Key") or request["Item"])["pk"]["S"])


class _Time:
    """The world's clock as one actor has it: waiting lets others act, then moves the time for all."""

    def __init__(self, world: LaneWorld, actor: Actor | None) -> None:
        self._world, self._actor = world, actor

    def now_ms(self) -> int:
        return self._world.now

    def wait(self, seconds: float) -> None:
        until = self._world.now + max(1, round(seconds * 1000))
        if self._actor is None:
            self._world.now = max(self._world.now, until)
            return
        self._actor.step(f"waits {seconds:g} s", partial(self._world.pass_until, until), waits=True)


class Emr:
    """EMR Serverless's API: job runs by client token, and their drivers."""

    def __init__(self, world: LaneWorld) -> None:
        self._world = world
        self.runs: dict[str, dict[str, Any]] = {}

    def start_job_run(self, **request: Any) -> dict[str, Any]:
        token = request["clientToken"]
        if token not in self.runs:
            number = len(self.runs) + 1
            created = datetime.fromtimestamp(self._world.now / 1000, timezone.utc)
            described = {"name": request["name"], "state": "RUNNING", "createdAt": created}
            self.runs[token] = {"id": f"00job{number}", **described}
            self._world.launch(RunIdentity(LANE, request["name"], f"00job{number}"))
        return {"jobRunId": self.runs[token]["id"]}

    def get_job_run(self, *, applicationId: str, jobRunId: str) -> dict[str, Any]:
        for run in self.runs.values():
            if run["id"] == jobRunId:
                return {"jobRun": {"name": run["name"], "state": run["state"], "stateDetails": ""}}
        raise aws_error("ResourceNotFoundException", "GetJobRun")

    def list_job_runs(self, **_: Any) -> dict[str, Any]:
        return {"jobRuns": list(self.runs.values())}

    def ended(self, job_run_id: str, state: str) -> None:
        for run in self.runs.values():
            if run["id"] == job_run_id:
                run["state"] = state


class _Report:
    """The Report port, of which the explorer keeps only that a lane was forgotten."""

    def __init__(self, world: LaneWorld) -> None:
        self._world = world

    def event(self, name: str, /, **fields: Any) -> None: ...

    def warn(self, name: str, /, **fields: Any) -> None:
        if name == "lane_was_forgotten":
            self._world.forgotten.append(str(fields))

    def count(self, metric: str, value: float, /, **dimensions: Any) -> None: ...


class HudiModel:
    """The Merger port of one driver: each transition of a table's timeline is a look and a put."""

    def __init__(self, world: LaneWorld, actor: Actor | None) -> None:
        self._world, self._actor = world, actor

    def prepare(self) -> None: ...

    def merge_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome:
        timeline = self._world.timelines.setdefault(table, Timeline())
        objects = frozenset(item.id for item in manifest.tables[table].objects)
        if table in self._world.failing:
            self._world.failing.remove(table)
            raise ValueError("a failure on purpose")
        instant = self._step(table, "take an instant", lambda: self._begin(timeline, manifest.batch, objects))
        self._step(table, "put inflight", lambda: self._advance(timeline, instant, "requested", "inflight"))
        if objects & self._world.killers:
            raise SparkDied("an object on purpose")
        if not still_held():
            raise LaneLost("not held", table=table)
        there = self._step(table, "look before the commit", lambda: instant in timeline.instants)
        if not there:
            raise ValueError(f"{table}: the instant {instant} was rolled back")
        self._step(table, "put the commit", lambda: self._complete(timeline, table, instant, manifest.batch, objects))
        return self._outcome(manifest, table, instant)

    def resolve_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome | None:
        if not still_held():
            raise LaneLost("not held", table=table)
        timeline = self._world.timelines.setdefault(table, Timeline())
        self._step(table, "roll back", lambda: self._roll_back(timeline))
        instant = self._step(table, "look for the batch", lambda: timeline.completed(manifest.batch))
        return None if instant is None else self._outcome(manifest, table, instant)

    def serve_table(self, *given: Any) -> SliceDone:
        raise NotImplementedError("no scenario asks for a table service")

    def abandon(self) -> None: ...

    def keep_warm(self) -> None: ...

    def _step(self, table: str, what: str, call: Callable[[], Any]) -> Any:
        return call() if self._actor is None else self._actor.step(f"{table}: {what}", call)

    @staticmethod
    def _begin(timeline: Timeline, batch: str, objects: frozenset[ObjectId]) -> int:
        timeline.newest += 1
        timeline.instants[timeline.newest] = ("requested", batch, objects)
        return timeline.newest

    @staticmethod
    def _advance(timeline: Timeline, instant: int, before: str, after: str) -> None:
        state, batch, objects = timeline.instants.get(instant, ("", "", frozenset()))
        if state != before:
            raise ValueError(f"the instant {instant} was rolled back")
        timeline.instants[instant] = (after, batch, objects)

    def _complete(self, timeline: Timeline, table: str, instant: int, batch: str, objects: frozenset[ObjectId]) -> None:
        for at, (state, _, committed) in timeline.instants.items():
            if state == "commit" and committed & objects:  # the run would handle an exception as the table's failure
                self._world.doubled.append(f"{table}: instants {at} and {instant} have the same objects")
        timeline.instants[instant] = ("commit", batch, objects)

    @staticmethod
    def _roll_back(timeline: Timeline) -> None:
        for instant in [at for at, (state, _, _) in timeline.instants.items() if state != "commit"]:
            del timeline.instants[instant]

    def _outcome(self, manifest: Manifest, table: str, instant: int) -> Outcome:
        counts = {"objects": len(manifest.tables[table].objects)}
        return Outcome(manifest.batch, table, COMMITTED, self._world.now, instant=str(instant), counts=counts)


class LaneWorld:
    """The World port of the explorer for one scenario."""

    def __init__(self, scenario: Scenario, stage: Stage) -> None:
        self._scenario = scenario
        self._stage = stage
        self.now = START
        self.dynamodb = MemoryDynamoDb(page=1)
        self.documents = Documents()
        self.timelines: dict[str, Timeline] = {}
        self.failing = list(scenario.fails)
        self.emr = Emr(self)
        self.forgotten: list[str] = []
        self.doubled: list[str] = []
        self._unheard = {f"admit {n}": numbers for n, numbers in enumerate(scenario.invocations, 1)}
        self._drivers: dict[str, RunIdentity] = {}
        self._queued: list[RunIdentity] = []  # after the schedule drivers run one after the other
        self._calm = False
        self._entropy = 0
        self._configuration = configuration(linger_s=LINGER_S, batch_objects=scenario.batch_objects, max_age_s=3600)
        self.objects = [admitted(number, table, START) for number, table in enumerate(scenario.objects)]
        self.killers = frozenset(self.objects[number].id for number in scenario.kills)

    def actors(self) -> list[tuple[str, Body]]:
        invocations = [(name, partial(self._admit, name, numbers)) for name, numbers in self._unheard.items()]
        schedule = [(f"schedule {n}", self._supervise) for n in range(1, self._scenario.supervisions + 1)]
        return [*invocations, *schedule]

    def fingerprint(self) -> int:
        timelines = tuple((table, repr(timeline)) for table, timeline in sorted(self.timelines.items()))
        runs = tuple((run["id"], run["state"]) for run in self.emr.runs.values())
        stored = frozenset(self.documents.stored.items())
        return hash((self.dynamodb.fingerprint(), timelines, runs, stored, self.now, len(self.failing)))

    def crashed(self, actor: str) -> None:
        if actor in self._drivers:
            self.emr.ended(self._drivers[actor].job_run_id, "FAILED")

    def pass_until(self, moment: int) -> None:
        self.now = max(self.now, moment)

    def launch(self, identity: RunIdentity) -> None:
        """EMR Serverless starts a driver."""
        if self._calm:
            self._queued.append(identity)
            return
        name = f"driver {len(self._drivers) + 1}"
        self._drivers[name] = identity
        self._stage.enter(name, partial(self._drive, identity))

    def complete(self) -> None:
        """Messages come again, the schedule comes, drivers run: everything is committed once, and the lane is idle."""
        self._calm = True
        for name, numbers in list(self._unheard.items()):
            self._admit(name, numbers, None)
        for _ in range(CALM_ROUNDS):
            while self._queued:
                self._drive(self._queued.pop(0), None)
            if self._at_rest():
                break
            lane = self._ledger(None).lanes.get(LANE)
            self.now = max(self.now + 60_000, wanted_at(lane) or 0)
            self._supervise(None)
        self._check()

    def _admit(self, name: str, numbers: Sequence[int], actor: Actor | None) -> None:
        """One invocation of admit: each object into the ledger, then the lane is woken."""
        ledger = self._ledger(actor)
        for number in numbers:
            ledger.objects.admit(replace(self.objects[number], admitted_at=self.now, noticed_at=self.now))
        self._waker(ledger, actor).wake({LANE}, self._configuration)
        self._unheard.pop(name, None)

    def _supervise(self, actor: Actor | None) -> None:
        ledger = self._ledger(actor)
        if actor is not None and self.killers:
            actor.step("the schedule comes", self._pass_until_wanted, waits=True)
        supervisor = Supervisor(
            ledger=ledger,
            job_runs=self._job_runs(actor),
            starter=self._starter(ledger, actor),
            report=_Report(self),
            now=lambda: self.now,
        )
        lanes = supervisor.lanes(self._configuration)
        supervisor.supervise(lanes, self._configuration)
        if actor is None:
            supervisor.wake_forgotten(supervisor.lanes(self._configuration), self._configuration)

    def _pass_until_wanted(self) -> None:
        self.pass_until(wanted_at(self._ledger(None).lanes.get(LANE)) or 0)

    def _drive(self, identity: RunIdentity, actor: Actor | None) -> None:
        ledger = self._ledger(actor)
        clock = _Time(self, actor)
        ports = Ports(
            ledger=ledger,
            manifests=self.documents if actor is None else _Stepped("documents", self.documents, actor),  # type: ignore[arg-type]
            merger=HudiModel(self, actor),
            configurations=ConfigurationReader(ConfigurationFile(self._configuration)),
            clock=clock,
            log=RunLog(io.StringIO(), clock.now_ms, run=identity.run),
            tables_at_once=InThisThread(),  # type: ignore[arg-type]
            background=InThisThread(),  # type: ignore[arg-type]
        )
        try:
            RunLoop(ports, LaneHold(ledger, identity, clock), poll_s=5.0).run()
        except SparkDied:
            self.emr.ended(identity.job_run_id, "FAILED")
        else:
            self.emr.ended(identity.job_run_id, "SUCCESS")

    def _at_rest(self) -> bool:
        ledger = self._ledger(None)
        lane = ledger.lanes.get(LANE)
        states = {record.state for record in ledger.objects.get([one.id for one in self.objects]).values()}
        return lane.state == IDLE and states <= {items.COMMITTED, items.QUARANTINED} and wanted_at(lane) is None

    def _check(self) -> None:
        ledger = self._ledger(None)
        records = ledger.objects.get([one.id for one in self.objects])
        states = {one.id.key: records[one.id].state if one.id in records else "absent" for one in self.objects}
        wanted = {one.id.key: items.QUARANTINED if one.id in self.killers else items.COMMITTED for one in self.objects}
        assert states == wanted, f"not as they should be in the end: {states}"
        assert not self.doubled, f"committed twice: {self.doubled}"
        assert not self.forgotten, f"a wake-up was lost: {self.forgotten}"
        for table, timeline in self.timelines.items():
            commits = [(batch, of) for state, batch, of in timeline.instants.values() if state == "commit"]
            assert all(state == "commit" for state, _, _ in timeline.instants.values()), f"{table}: an instant is left"
            for batch, objects in commits:
                assert {records[one].batch for one in objects} == {batch}, f"{table}: the ledger names another batch"
        for one in self.objects:
            batch, table = records[one.id].batch or "", one.table or ""
            times = sum(one.id in of for state, _, of in self.timelines[table].instants.values() if state == "commit")
            assert times == (one.id not in self.killers), f"{one.id.key} was committed {times} times"
            assert (ledger.batches.get(batch) or {}).get("state") == items.COMMITTED, f"{batch} is not committed"
            assert self.documents.outcome(batch, table) is not None, f"{batch} has no outcome of {table}"
        assert ledger.batches.unsettled(LANE) == []
        assert ledger.lanes.get(LANE).state == IDLE, "the lane is not idle"

    def _ledger(self, actor: Actor | None) -> Ledger:
        client: Any = self.dynamodb if actor is None else _Stepped("dynamodb", self.dynamodb, actor)
        return Ledger(client, "ledger", threads=1, sleep=lambda _: None)

    def _job_runs(self, actor: Actor | None) -> JobRuns:
        return JobRuns(self.emr if actor is None else _Stepped("emr", self.emr, actor), JOB_ENVIRONMENT.application_id)

    def _starter(self, ledger: Ledger, actor: Actor | None) -> Starter:
        return Starter(
            ledger=ledger,
            job_runs=self._job_runs(actor),
            environment=JOB_ENVIRONMENT,
            report=_Report(self),
            now=lambda: self.now,
            entropy=self._next_entropy,
        )

    def _waker(self, ledger: Ledger, actor: Actor | None) -> Waker:
        return Waker(ledger=ledger, starter=self._starter(ledger, actor), report=_Report(self), now=lambda: self.now)

    def _next_entropy(self) -> str:
        self._entropy += 1
        return f"{self._entropy:08x}"
