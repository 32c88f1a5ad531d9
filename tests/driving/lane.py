"""The surroundings of a run: the real ledger on an emulated DynamoDB, documents in memory, a clock, tables."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from emulation.aws import emulated_aws, emulated_session
from emulation.ledger_table_schema import create_ledger_table

from driving.clock import ManualClock
from driving.merger import FakeMerger, Tables
from driving.mortality import Killed
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.lane.machine import wanted_at
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice.silver_keys import manifest_key, manifests_prefix
from sluice_aws.ledger.ledger import Ledger
from sluice_spark.errors import SparkDied
from sluice_spark.log import RunLog
from sluice_spark.run.hold import LaneHold, RunIdentity
from sluice_spark.run.loop import RunEnd, RunLoop
from sluice_spark.run.step import Ports

LANE = "main"


class Documents:
    """The Manifests port in memory; what is put goes through its JSON form."""

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}

    def put_manifest(self, manifest: Manifest, still_held: Callable[[], bool] = lambda: True) -> str | None:
        key = manifest_key(manifest.lane, manifest.batch)
        if self.stored.get(key) not in (None, manifest.to_json()) and not still_held():
            return None
        self.stored[key] = manifest.to_json()
        return key

    def some_of(self, lane: str, most: int) -> list[Manifest]:
        keys = sorted(key for key in self.stored if key.startswith(manifests_prefix(lane)))
        return [Manifest.from_json(self.stored[key]) for key in keys[:most]]

    def manifest(self, key: str) -> Manifest | None:
        return Manifest.from_json(self.stored[key]) if key in self.stored else None

    def put_outcome(self, outcome: Outcome) -> None:
        self.stored[f"{outcome.batch}/{outcome.table}"] = outcome.to_json()

    def outcome(self, batch: str, table: str) -> Outcome | None:
        text = self.stored.get(f"{batch}/{table}")
        return None if text is None else Outcome.from_json(text)


class ConfigurationFile:
    """A file that tests change; an error in its place is raised."""

    def __init__(self, configuration: Configuration) -> None:
        self.content: Any = configuration


class ConfigurationReader:
    """The Configurations port of one run."""

    def __init__(self, file: ConfigurationFile) -> None:
        self._file = file
        self._last: Any = None

    def load_if_changed(self) -> Configuration | None:
        if isinstance(self._file.content, Exception):
            raise self._file.content
        changed = self._file.content is not self._last
        self._last = self._file.content
        return self._last if changed else None


class OneAtATime:
    """A DynamoDB client whose calls are whole: the emulator copies its tables while others write."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        call = getattr(self._client, operation)

        def locked(**arguments: Any) -> Any:
            with self._lock:
                return call(**arguments)

        return locked


class InThisThread:
    """An Executor that runs what it is given at once, so that every interleaving is the one the test wrote."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future


def configuration(freshness_s: int = 0, rules: list[TableRule] | None = None, **lane: Any) -> Configuration:
    """A rule for every topic shop.*, keyed by id."""
    rules = rules or [TableRule(table="shop.{1}", record_key=("id",), topic="shop.*", freshness_s=freshness_s)]
    return Configuration(rules=tuple(rules), lanes=(LaneConfig(LANE, **{"linger_s": 60, **lane}),))


def admitted(number: int, table: str, at: int, topic: str = "") -> AdmittedObject:
    """The record of a table's object of a number, admitted at a time (epoch ms)."""
    return AdmittedObject(
        ObjectId("bronze", f"topics/{table}/{table}+0+{number:010d}.avro", f"v{number}"),
        items.PENDING,
        at,
        **{"size": 100, "format": "avro", "etag": f"e{number}", "via": "s3", "noticed_at": at},
        **{"table": table, "lane": LANE, "topic": topic or table, "kafka_partition": 0, "offset": number},
    )


class SimulatedLane:
    """A lane and all that its runs need. Runs come and go; the ledger, documents and tables stay."""

    def __init__(
        self, client: Any, configured: Configuration, *, ledger_table: str = "ledger", threads: int = 1
    ) -> None:
        self._client = client
        self._ledger_table = ledger_table
        self._threads = threads
        self.ledger = self.ledger_through(client)
        self.clock = ManualClock()
        self.documents = Documents()
        self.tables = Tables()
        self.file = ConfigurationFile(configured)
        self.out = io.StringIO()
        self.merger = FakeMerger(self.tables, self.clock.now_ms, advance=self.clock.advance)
        self.bronze: dict[ObjectId, int] = {}  # what a listing of bronze finds, with its times
        self._runs = 0
        self._objects = 0

    def ledger_through(self, client: Any) -> Ledger:
        """The ledger as a process sees it through its own client."""
        return Ledger(client, self._ledger_table, threads=self._threads, sleep=lambda seconds: None)

    def put(self, table: str = "shop.orders", n: int = 1, wake: bool = True, topic: str = "") -> list[ObjectId]:
        """Objects arrive: admitted, and the lane woken once."""
        arrived = []
        for _ in range(n):
            self._objects += 1
            record = admitted(self._objects, table, self.clock.now_ms(), topic)
            self.ledger.objects.admit(record)
            arrived.append(record.id)
        if wake:
            self.ledger.lanes.wake(LANE)
        return arrived

    def arriving(self, seconds: float, *tables: str) -> list[ObjectId]:
        """Objects that arrive at a second of the clock, one of each table; listed once they have."""
        arrived: list[ObjectId] = []

        def arrive() -> None:
            for table in tables or ("shop.orders",):
                arrived.extend(self.put(table))

        self.clock.at(seconds, arrive)
        return arrived

    def _files(self, _: ObjectId, prefix: str) -> dict[ObjectId, int]:
        return {id: at for id, at in self.bronze.items() if id.key.startswith(prefix)}

    def start(self) -> RunIdentity:
        """The lane is asked for a run, and EMR Serverless starts its job run, which takes a second."""
        self._runs += 1
        self.clock.wait(1)
        identity = RunIdentity(LANE, f"run-{self._runs}", f"00job{self._runs}")
        assert self.ledger.lanes.request_start(LANE, identity.run, self.clock.now_ms()) is not None
        assert self.ledger.lanes.started(LANE, identity.run, identity.job_run_id)
        return identity

    def loop(
        self,
        identity: RunIdentity,
        *,
        around: Callable[[str, Any], Any] = lambda name, port: port,
        executor: Any = None,
        poll_s: float = 5.0,
        scope: str = "",
    ) -> RunLoop:
        """The run's loop; `around` may put something between it and a port, or between the ledger and its client."""
        client = around("dynamodb", self._client)
        ledger = around("ledger", self.ledger if client is self._client else self.ledger_through(client))
        ports = Ports(
            ledger=ledger,
            manifests=around("documents", self.documents),
            merger=around("merger", self.merger),
            configurations=around("file", ConfigurationReader(self.file)),
            clock=self.clock,
            log=RunLog(self.out, self.clock.now_ms, run=identity.run),
            tables_at_once=executor or InThisThread(),
            background=InThisThread(),
            files=around("files", self._files),
        )
        return RunLoop(ports, LaneHold(ledger, identity, self.clock), poll_s=poll_s, scope=scope)

    def run(self, **how: Any) -> RunEnd:
        """A whole run, from its start to its end."""
        return self.loop(self.start(), **how).run()

    def die(self, end: type[BaseException], **how: Any) -> None:
        """A whole run that ends by this error, and the lapse of its lane."""
        identity = self.start()
        try:
            self.loop(identity, **how).run()
        except end:
            return self.lapse(identity)
        raise AssertionError(f"no {end.__name__} ended the run")

    def lapse(self, identity: RunIdentity) -> None:
        """The job run is found terminal at EMR; whatever back-off follows is over."""
        lane = self.ledger.lanes.lapse(LANE, identity.run, self.clock.now_ms(), job_run_id=identity.job_run_id)
        if lane is not None and lane.backoff_until:
            self.clock.advance(max(0, lane.backoff_until - self.clock.now_ms()))

    def live_on(self, most_runs: int, around: Callable[[str, Any], Any] = lambda name, port: port) -> int:
        """Start runs as the schedule would, until nothing wants one or so many died; gives how many died."""
        died = 0
        for _ in range(most_runs):
            at = wanted_at(self.ledger.lanes.get(LANE))
            if at is None:
                return died
            self.clock.advance(max(0, at - self.clock.now_ms()))
            identity = self.start()
            try:
                self.loop(identity, around=around).run()
            except (Killed, SparkDied):
                died += 1
            self.lapse(identity)
        raise AssertionError("the lane never comes to rest")

    def record(self, identity: ObjectId) -> Any:
        return self.ledger.objects.get([identity])[identity]

    def state_of(self, identity: ObjectId) -> str:
        return self.record(identity).state

    def states(self, identities: list[ObjectId]) -> dict[str, int]:
        return dict(Counter(record.state for record in self.ledger.objects.get(identities).values()))

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was logged under a name, in order."""
        return [event for event in map(json.loads, self.out.getvalue().splitlines()) if event["event"] == name]


@contextmanager
def emulated_dynamodb() -> Iterator[Any]:
    """A DynamoDB client on an emulator with the ledger's table in it."""
    with emulated_aws():
        client = emulated_session("eu-central-1").client("dynamodb")
        create_ledger_table(client, "ledger")
        yield OneAtATime(client)


@contextmanager
def two_threads() -> Iterator[ThreadPoolExecutor]:
    """A pool as the driver has it."""
    with ThreadPoolExecutor(2) as pool:
        yield pool
