"""The surroundings of a driver for tests of merging: change objects in S3, a clock, batches merged as parts."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from sluice.batch.manifest import Manifest, ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import Outcome
from sluice.config.table import TableConfig
from sluice.hudi.options import REWRITE
from sluice.hudi.timeline import instant_ms
from sluice.hudi.write_choices import HOUR_MS
from sluice.schema.avro import fingerprint
from sluice.services.requests import SliceDone
from sluice.silver_keys import schema_key
from sluice_aws.clock import WallClock
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_aws.s3.schemas import SchemaHistory
from sluice_read.moments import Span
from sluice_read.reading import Shown, open_table
from sluice_spark.hudi.facts import KnownTables
from sluice_spark.hudi.housekeeping import Housekept, keep_house
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.key_index import KeyIndex
from sluice_spark.merge.part import merge_part, resolve_part
from sluice_spark.services.slice import SliceRates, serve_table
from support.builders import Events, avro_object, change, flattened

BRONZE, REGION = "bronze", "us-east-1"

NOW = Span()
READ_BY_OLD = Path(__file__).parents[1] / "spark" / "read_with_old_bundle.py"

# Both table types share most of their code: `make test` runs a test of one of them.
COW = pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.whole)])
MOR = pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.whole), "mor"])


def params(every: Iterable[tuple[Any, ...]], *, short: Collection[tuple[Any, ...]]) -> list[Any]:
    """The parameters of a test; `make test` runs those of `short` alone."""
    return [pytest.param(*values, marks=() if values in short else pytest.mark.whole) for values in every]


def row(op: str, lsn: int, id: int, place: str | None = "A", name: str | None = "n") -> dict[str, Any]:
    """One flattened change of a row with a place and a name."""
    return change(op, lsn, id=id, place=place, name=name)


# Of the rows that `row` makes.
SCHEMA = flattened({"id": "int", "place": ["null", "string"], "name": ["null", "string"]})


def plain_changes(draw: random.Random, *, moves: bool) -> list[dict[str, Any]]:
    """Changes of six keys, in the order of their positions; without `moves` each keeps its place."""
    ops = [draw.choice("cuud") for _ in range(40)]
    made = [
        row(op, 10 + number, draw.randint(1, 6), draw.choice(("A", None)), f"n{number}")
        for number, op in enumerate(ops)
    ]
    return made if moves else [{**values, "place": (None, "A")[values["id"] % 2]} for values in made]


def told(outcome: Outcome) -> dict[str, Any]:
    """What an outcome says of its changes, but for the bytes of its files."""
    counts = {name: count for name, count in outcome.counts.items() if name != "bytes_written"}
    return {"state": outcome.state, "no_change": outcome.no_change, "counts": counts, "notes": outcome.notes}


class Died(Exception):
    """The run ended, before the write that it was about to do."""


def dies(*_: Any, **__: Any) -> Any:
    """In place of a step of the run, ends it there."""
    raise Died


def dies_at(number: int) -> Callable[[], bool]:
    """A look at the lane that finds it held, until the run dies at the look of this number (from 1)."""
    looks = itertools.count(1)

    def still_held() -> bool:
        if next(looks) == number:
            raise Died
        return True

    return still_held


def table(name: str = "t", **settings: Any) -> TableConfig:
    """A table's configuration with a key `id`."""
    chosen = {"record_key": ("id",), "database": "db", "topic": f"src.public.{name}", **settings}
    return TableConfig(table=f"{chosen['database']}.{name}", name=name, **chosen)


@dataclasses.dataclass(frozen=True)
class Silver:
    """Tables on disk as the reading commands see a place."""

    silver_url: str

    def storage_options(self) -> dict[str, str]:
        return {}


@cache
def old_bundle(hudi: str) -> subprocess.Popen[str]:
    """A process that reads with another bundle of Hudi, until this one ends."""
    from sluice_local.images.jars import ensure_jars, hudi_bundle

    command = [sys.executable, str(READ_BY_OLD), str(hudi_bundle(ensure_jars(hudi)))]  # cached after one download
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Workbench:
    """Puts objects into a versioned bucket and merges them; tables are local files."""

    def __init__(self, spark: Any, endpoint: str, home: Path) -> None:
        self.spark = spark
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
        )
        self.bronze = f"bronze-{uuid.uuid4().hex[:12]}"
        self.silver = f"silver-{uuid.uuid4().hex[:12]}"
        for bucket in (self.bronze, self.silver):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_versioning(Bucket=self.bronze, VersioningConfiguration={"Status": "Enabled"})
        self.events = Events()
        self.services = MergeServices(
            objects=Objects(self.s3),
            source=ObjectSource(REGION, self.silver, endpoint),
            silver_bucket=self.silver,
            tables_uri=(home / "silver").as_uri(),
            clock=WallClock(),
            log=self.events,
            history=SchemaHistory(Objects(self.s3), self.silver),
        )
        self._offsets = itertools.count(0, 1_000)
        self._arrival = itertools.count(1)

    def put_bytes(
        self,
        body: bytes,
        *,
        key: str | None = None,
        schema: str | None = None,
        offset: int | None = None,
        format: str = "avro",
        topic: str = "src.public.t",
    ) -> ManifestObject:
        """An object as admission would have claimed it."""
        offset = next(self._offsets) if offset is None else offset
        key = key or f"topics/{topic}/partition=0/{topic}+0+{offset:010d}.avro"
        version = self.s3.put_object(Bucket=self.bronze, Key=key, Body=body)["VersionId"]
        return ManifestObject(
            self.bronze, key, version, len(body), schema, format, topic, 0, offset, next(self._arrival)
        )

    def put_file(self, body: bytes, key: str, *, modified_at: int | None = None, **what: Any) -> ManifestObject:
        """An object whose name has no offset, put at a time (epoch ms); None: where admission didn't ask for it."""
        item = self.put_bytes(body, key=key, **what)
        return dataclasses.replace(item, offset=None, kafka_partition=None, modified_at=modified_at)

    def put_schema(self, schema: Mapping[str, Any]) -> str:
        """A writer schema, stored as admission stores it; its fingerprint."""
        mark = fingerprint(schema)
        self.s3.put_object(Bucket=self.silver, Key=schema_key(mark), Body=json.dumps(schema).encode())
        return mark

    def put(self, changes: Iterable[Mapping[str, Any]], schema: Mapping[str, Any], **where: Any) -> ManifestObject:
        """Changes as an Avro object, its schema stored as admission stores it."""
        return self.put_bytes(avro_object(schema, changes), schema=self.put_schema(schema), **where)

    def manifest(
        self,
        config: TableConfig,
        objects: Sequence[ManifestObject],
        *,
        run: str = "run-main-1",
        after: Outcome | None = None,
    ) -> Manifest:
        """A batch of one table, with what is known of it after another one. The same objects give the same batch."""
        watched = ({}, None, None) if after is None else (after.watch, after.instant, after.history_instant)
        part = TablePart(config.to_dict(), tuple(objects), *watched)
        return open_manifest("main", run, self.services.clock.now_ms(), "v1", {config.table: part})

    def merge(
        self,
        config: TableConfig,
        objects: Sequence[ManifestObject],
        *,
        still_held: Callable[[], bool] = lambda: True,
        after: Outcome | None = None,
    ) -> Outcome:
        """Merge objects as one batch."""
        return self.merge_manifest(self.manifest(config, objects, after=after), config, still_held=still_held)

    def apply(
        self,
        config: TableConfig,
        *changes: Mapping[str, Any],
        schema: Mapping[str, Any] = SCHEMA,
        after: Outcome | None = None,
        still_held: Callable[[], bool] = lambda: True,
    ) -> Outcome:
        """Merge changes as a batch of one object."""
        return self.merge(config, [self.put(changes, schema)], after=after, still_held=still_held)

    def merge_manifest(
        self, manifest: Manifest, config: TableConfig, *, still_held: Callable[[], bool] = lambda: True
    ) -> Outcome:
        return merge_part(
            self.spark, manifest=manifest, table=config.table, services=self.services, still_held=still_held
        )

    def resolve(
        self, manifest: Manifest, config: TableConfig, *, still_held: Callable[[], bool] = lambda: True
    ) -> Outcome | None:
        """What a take-over does first."""
        return resolve_part(
            self.spark, manifest=manifest, table=config.table, services=self.services, still_held=still_held
        )

    def serve(
        self,
        config: TableConfig,
        service: str,
        *,
        budget_bytes: int | None = None,
        still_held: Callable[[], bool] = lambda: True,
        raise_floor: Callable[[Mapping[int, str]], Any] = lambda positions: None,
        **given: Any,
    ) -> SliceDone:
        """A slice of a table service, of as many bytes where `budget_bytes` is given; `given` goes to `serve_table`."""
        rates = SliceRates(cores=2)
        if budget_bytes is not None:
            rates.budget_bytes = lambda *_: budget_bytes  # type: ignore[method-assign]
        return serve_table(
            self.spark,
            config=config,
            service=service,
            services=self.services,
            rates=rates,
            still_held=still_held,
            slice_s=20,
            raise_floor=raise_floor,
            **given,
        )

    def keep_house(self, config: TableConfig, *, horizon: str) -> Housekept:
        """Housekeeping at the moment when the time-travel window begins at an instant, and a new run after it."""
        now_ms = instant_ms(horizon) + config.time_travel_h * HOUR_MS
        done = keep_house(self.hudi(config), now_ms=now_ms, tables=KnownTables())
        self.new_run()
        return done

    def hudi(self, config: TableConfig) -> HudiTable:
        """The table as the job sees it."""
        return HudiTable(self.spark, self.path(config), config)

    def rewrite(self, config: TableConfig) -> str | None:
        """Write the whole table again, as a change of a type does; the instant."""
        hudi = self.hudi(config)
        facts = hudi.look()
        rows = hudi.stored(facts, *facts.schema.names)
        return hudi.write(rows, operation=REWRITE, batch="b-r", run="run-1", facts=facts, size_bytes=0).instant

    def in_tasks(self) -> Workbench:
        """Merge every part in Spark tasks from now on; the workbench itself."""
        self.services = dataclasses.replace(self.services, in_driver=False)
        return self

    def in_driver(self) -> Workbench:
        """Merge small parts in the driver again; the workbench itself."""
        self.services = dataclasses.replace(self.services, in_driver=True)
        return self

    def jobs_of(self, work: Callable[[], Any]) -> tuple[Any, int]:
        """What `work` gives, and how many Spark jobs it started."""
        context, group = self.spark.sparkContext, uuid.uuid4().hex
        context.setJobGroup(group, group)
        try:
            return work(), len(context.statusTracker().getJobIdsForGroup(group))
        finally:
            context.setJobGroup("", "")

    def left_to_spark(self) -> str | None:
        """Why the newest part was left to Spark; None where nothing was said of it."""
        places = [place for place, (name, _) in enumerate(self.events.seen) if name == "merged"]
        first, last = (places[-2] if len(places) > 1 else 0), places[-1]
        told = [fields for name, fields in self.events.seen[first:last] if name == "left_to_spark"]
        return ": ".join(filter(None, (told[-1]["reason"], told[-1].get("detail")))) if told else None

    def new_run(self) -> None:
        """Forget what a run keeps in memory."""
        self.services = dataclasses.replace(
            self.services, tables=KnownTables(), keys=KeyIndex(), history=SchemaHistory(Objects(self.s3), self.silver)
        )

    def path(self, config: TableConfig) -> str:
        return self.services.table_path(config.database, config.name)

    def local_path(self, config: TableConfig) -> Path:
        return Path(self.path(config).removeprefix("file://"))

    def rows(self, config: TableConfig, *columns: str, **options: str) -> list[tuple[Any, ...]]:
        """All stored rows, deleted ones included, sorted; `options` are those of Hudi's data source."""
        frame = self.spark.read.format("hudi").options(**options).load(self.path(config)).select(*columns)
        return sorted((tuple(row) for row in frame.collect()), key=str)

    def rows_as_of(self, config: TableConfig, instant: str, *columns: str) -> list[tuple[Any, ...]]:
        """The same at the moment of an instant."""
        return self.rows(config, *columns, **{"as.of.instant": instant})

    def rows_by_both(self, config: TableConfig, *columns: str) -> list[tuple[Any, ...]]:
        """The same, which hudi-rs must read alike."""
        rows = self.rows(config, *columns)
        assert self.rows_by_hudi_rs(config, *columns) == rows, "hudi-rs reads other rows than Spark"
        return rows

    def rows_by_hudi_rs(self, config: TableConfig, *columns: str) -> list[tuple[Any, ...]]:
        """All stored rows by a reader that shares no code with Spark's."""
        return sorted(
            (tuple(row[column] for column in columns) for row in self.table_by_hudi_rs(config).to_pylist()), key=str
        )

    def table_by_hudi_rs(self, config: TableConfig) -> pa.Table:
        """The whole table by that reader."""
        return pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(self.local_path(config))).build().read())

    def rows_by_old_bundle(self, config: TableConfig, *columns: str, hudi: str = "0.15.0") -> list[tuple[Any, ...]]:
        """The same by the bundle of Athena's generation, in a process of its own: two can't share a class path."""
        reader = old_bundle(hudi)
        print(json.dumps([self.path(config), *columns]), file=reader.stdin, flush=True)
        answer = next((json.loads(line) for line in reader.stdout or () if line[:1] in '["'), None)
        assert isinstance(answer, list), answer or f"the reader ended with {reader.wait()}"
        return sorted((tuple(row) for row in answer), key=str)

    def rows_by_sluice(self, config: TableConfig, *columns: str, span: Span = NOW) -> list[tuple[Any, ...]]:
        """The same as `sluice query` reads them, without a JVM: now, as of a moment, or what changed since one."""
        rows = (
            open_table(Silver(self.services.tables_uri), config.table, span=span)
            .reader(Shown(with_deleted=True, columns=columns))
            .read_all()
        )
        return sorted((tuple(row[name] for name in columns) for row in rows.to_pylist()), key=str)

    def timeline(self, config: TableConfig) -> list[str]:
        """Names of the timeline's files."""
        folder = self.local_path(config) / ".hoodie"
        return sorted(entry.name for entry in folder.iterdir() if entry.name[0].isdigit())

    def properties(self, config: TableConfig) -> dict[str, str]:
        """The table's properties file."""
        text = (self.local_path(config) / ".hoodie" / "hoodie.properties").read_text()
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
