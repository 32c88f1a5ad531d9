"""What a fault has at hand: the tables, the proxy, the job runs' processes, the lane, and the moment of the strike."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging.patience import patient
from judging.running_stack import RunningStack

from faulting.proxy import DYNAMODB, S3, FaultProxy, Request, Trap
from faulting.world import Put, World
from sluice.lane.machine import LaneState, wants_run
from sluice_aws.ledger.ledger import Ledger
from sluice_bench.measure.ledger_times import await_until

CAUGHT_S = 240.0  # a start of Spark on a busy machine, and a batch
SETTLED_S = 600.0


@dataclass
class Scene:
    """One fault's surroundings. `hurried`: no back-off of the lane and no schedule is waited for."""

    stack: RunningStack
    proxy: FaultProxy
    world: World
    hurried: bool = False
    struck_at: float = 0.0
    struck_epoch_s: float = 0.0
    ended_at: float | None = None
    judged_paused: bool = False  # the lane was paused for the verdict, so that no table service is under way
    expected_codes: frozenset[str] = frozenset()  # of quarantined objects

    # ---------------------------------------------------------------- time
    def struck(self) -> None:
        """Note the strike. The time to recovery counts from it, or from `ended` for faults that last."""
        if not self.struck_at:
            self.struck_at, self.struck_epoch_s = time.monotonic(), time.time()

    def ended(self) -> None:
        """Note the end of a fault that lasts."""
        self.ended_at = time.monotonic()

    @property
    def recovery_begins(self) -> float:
        """From when on the time to recovery counts."""
        return self.ended_at if self.ended_at is not None else self.struck_at

    def until(self, condition: Callable[[], Any], what: str, timeout_s: float = CAUGHT_S) -> Any:
        """Wait until a condition is true."""
        return await_until(condition, timeout_s=timeout_s, what=what)

    # ---------------------------------------------------------------- the ledger and the lane
    @property
    def ledger(self) -> Ledger:
        """The stack's ledger."""
        return self.stack.target.ledger

    def lane(self) -> LaneState:
        """The world's lane."""
        return self.ledger.lanes.get(self.world.lane)

    def supervise(self) -> None:
        """Have the lanes looked at, as the schedule does once a minute."""
        self.invoke("SuperviseFunction", {})

    def invoke(self, output: str, event: Mapping[str, Any]) -> Any:
        """Call one of the stack's functions by the name of its output, and return its answer."""
        answer = self.stack.target.client("lambda").invoke(
            FunctionName=self.stack.target.outputs[output], Payload=json.dumps(event).encode()
        )
        return json.loads(answer["Payload"].read() or b"null")

    def end_run(self) -> None:
        """Pause the lane, and wait for the end of its run."""
        self.stack.sluice("pause", self.world.lane)
        self.until(lambda: self.lane().state == "paused", "the end of the run before")

    def fresh_run(self) -> None:
        """Have the lane's next run be a new one: a living run ends between two batches."""
        self.end_run()
        self.stack.sluice("resume", self.world.lane)

    def change_lane(self, **numbers: int) -> None:
        """Write numbers into the lane's item, behind the product's back."""
        self.stack.target.client("dynamodb").update_item(
            TableName=self.stack.target.ledger_table,
            Key={"pk": {"S": f"lane#{self.world.lane}"}, "sk": {"S": "lane"}},
            UpdateExpression="SET " + ", ".join(f"{name} = :{name}" for name in numbers),
            ExpressionAttributeValues={f":{name}": {"N": str(value)} for name, value in numbers.items()},
        )

    # ---------------------------------------------------------------- job runs
    def behave(self, **behaviour: Any) -> None:
        """Make the stand-in misbehave from now on. Drivers reach AWS through the proxy in any case."""
        body = json.dumps({"endpoint": self.proxy.endpoint, **behaviour}).encode()
        _put(f"{self.stack.target.emr_endpoint}/_stand-in/behaviour", body)

    @contextmanager
    def behind_proxy(self) -> Iterator[None]:
        """Have a new run reach AWS through the proxy for the length of a block, and another one by itself after it."""
        self.behave()
        try:
            self.fresh_run()
            yield
        finally:
            _put(f"{self.stack.target.emr_endpoint}/_stand-in/behaviour", b"{}")
            self.fresh_run()

    def job_run(self, job_run: str) -> dict[str, Any]:
        """A job run as EMR Serverless describes it."""
        target = self.stack.target
        answer = target.client("emr-serverless").get_job_run(
            applicationId=target.outputs["ApplicationId"], jobRunId=job_run
        )
        return dict(answer["jobRun"])

    def processes(self, job_run: str) -> list[int]:
        """The driver, its JVM and its workers: a job run's session. Workers have a group of their own."""
        leader = int((self.stack.home / "runs" / job_run / "pid").read_text())
        processes = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with suppress(OSError, IndexError):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == leader and fields[0] not in "ZX":
                        processes.append(int(process.name))
        return processes

    def kill_driver(self, job_run: str | None = None) -> str:
        """kill -9 of everything that a job run has started; returns its id."""
        job_run = job_run or self.held_by()
        self.struck()
        send(self.processes(job_run), signal.SIGKILL)
        return job_run

    def held_by(self) -> str:
        """The job run that holds the lane."""
        job_run = self.lane().job_run_id
        assert job_run is not None, self.lane()
        return job_run

    def events(self, since: float = 0.0) -> list[dict[str, Any]]:
        """What the drivers logged since then (epoch seconds)."""
        events = []
        for file in (self.stack.home / "runs").glob("*/stdout"):
            if file.stat().st_mtime >= since:
                for line in file.read_text(errors="replace").splitlines():
                    with suppress(ValueError):
                        event = json.loads(line)
                        if isinstance(event, dict) and event.get("at", 0) >= since * 1000:
                            events.append(event)
        return sorted(events, key=lambda event: event["at"])

    def seen(self) -> list[str]:
        """The names of the events that drivers have logged since the strike."""
        return [str(event.get("event")) for event in self.events(self.struck_epoch_s)]

    def looked_at(self, arrivals: int) -> bool:
        """Whether a driver that has seen so many arrivals in the lane found nothing to claim, since the strike."""
        return any(
            event.get("event") == "nothing_claimable" and event.get("arrivals", 0) >= arrivals
            for event in self.events(self.struck_epoch_s - 1000)
        )

    def release(self) -> str:
        """The release of the job that the next run gets."""
        (stack,) = self.stack.target.client("cloudformation").describe_stacks(StackName=self.stack.target.stack)[
            "Stacks"
        ]
        return next(one["OutputValue"] for one in stack["Outputs"] if one["OutputKey"] == "Release")

    def failed_tables(self) -> set[str]:
        """The tables whose last attempt failed, by the ledger: a driver on a full disk can't log."""
        return {table for table in self.world.tables if self.ledger.tables.get(table).failures}

    def committed(self, tables: Collection[str]) -> bool:
        """Whether every object of these tables that was put is committed."""
        return self.in_state([put for put in self.world.puts if put.table in tables], "committed")

    def in_state(self, puts: Iterable[Put], *states: str) -> bool:
        """Whether the ledger has these objects in one of the states."""
        items = self.stack.ledger_objects(self.stack.target.bronze, prefix=self.world.prefix)
        stored = {(item["key"], item["sk"]) for item in items if item["state"] in states}
        return {(put.key, put.version) for put in puts} <= stored

    # ---------------------------------------------------------------- traps
    @contextmanager
    def trap(
        self, matches: Callable[[Request], bool], *, after: bool = False, skip: int = 0, go_on: bool = False
    ) -> Iterator[Trap]:
        """Hold the first matching request for the length of a block, or with `after` its answer.

        It is cut off then; with `go_on` it is forwarded, however late.
        """
        trap = Trap()
        how = {"after": trap} if after else {"before": trap}
        with self.proxy.rule(matches, skip=skip, times=1, **how):
            try:
                yield trap
            finally:
                trap.let_go(forward=go_on)

    def caught(self, trap: Trap) -> Request:
        """Wait for a trap's request, and call supervise meanwhile where it is needed."""
        return trap.wait(patient(CAUGHT_S))

    def wait_settled(self) -> None:
        """Wait until everything in bronze is committed, or set aside as expected."""
        if self.hurried:
            self.until(self._hurry, "an empty lane", SETTLED_S)
        self.stack.wait(SETTLED_S, strict=False)  # other tests of the stack left what is quarantined

    def _hurry(self) -> bool:
        """Whether nothing wants a run any more; else the lane's back-off is cut short, and supervise is called."""
        lane, now = self.lane(), int(time.time() * 1000)
        if lane.state == "idle" and (lane.backoff_until or 0) > now:
            self.change_lane(backoff_until=now)
        if wants_run(lane, now):
            self.supervise()
        return lane.state in ("idle", "running") and not self.ledger.batches.unsettled(lane.lane)

    # ---------------------------------------------------------------- what requests are
    def timeline_put(self, suffix: str, *tables: str) -> Callable[[Request], bool]:
        """The PUT of an instant's file on a timeline: of these tables, or of any of the world, history tables too."""
        places = "|".join(re.escape(table.replace(".", "/")) for table in tables)
        where = f"(?:{places})" if tables else rf"{self.world.database}/\w+"
        pattern = re.compile(rf"/{self.stack.target.silver}/{where}/\.hoodie/\d+\.{suffix}$")
        return lambda request: request.service == S3 and request.method == "PUT" and bool(pattern.match(request.path))

    def data_put(self) -> Callable[[Request], bool]:
        """The PUT of a base file or a log file of the world's tables, in one part."""
        pattern = re.compile(rf"/{self.stack.target.silver}/{self.world.database}/\w+/(?!\.hoodie/)(?:[^/]+/)*[^/]+$")
        names = re.compile(r"\.parquet$|\.log\.\d+_")
        return lambda request: (
            request.service == S3
            and request.method in ("PUT", "POST")
            and bool(pattern.match(request.path))
            and bool(names.search(request.path))
        )

    def bronze_get(self) -> Callable[[Request], bool]:
        """A driver's or a task's GET of one of the world's objects."""
        start = f"/{self.stack.target.bronze}/{self.world.prefix}"
        return lambda request: request.service == S3 and request.method == "GET" and request.path.startswith(start)

    def silver_put(self, prefix: str) -> Callable[[Request], bool]:
        """The PUT of one of Sluice's documents in silver, by its prefix."""
        start = f"/{self.stack.target.silver}/{prefix}"
        return lambda request: request.service == S3 and request.method == "PUT" and request.path.startswith(start)

    def written(self, *operations: str, holding: str = "") -> Callable[[Request], bool]:
        """A call of DynamoDB by the names of its operations, whose body holds a text."""
        text = holding.encode()
        return lambda request: request.service == DYNAMODB and request.operation in operations and text in request.body


def command(pid: int) -> bytes:
    """A process's command line; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def send(pids: list[int], number: int) -> None:
    """Send a signal to processes, some of which may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _put(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, data=body, method="PUT")
    with urllib.request.urlopen(request, timeout=30):
        pass
