"""Merges and serves one table as a driver does, in this process.

Objects are in an emulated S3, and the table in local files. Time advances by the minute."""

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from sluice.batch.claim import TableState
from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import Outcome
from sluice.config.table import TableConfig
from sluice.services.policy import CATALOG, ServiceFacts, due
from sluice.services.requests import SERVICES, ServiceReport
from sluice_aws.clock import WallClock
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_aws.s3.schemas import SchemaHistory
from sluice_bench.tables.in_process_world import BRONZE, REGION, RUN, SILVER, Quiet, make_buckets, s3_client
from sluice_bench.tables.index_costs import CORES
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.part import merge_part
from sluice_spark.services.slice import SliceRates, serve_table

SLICE_S = 20  # the default of `service_slice`
MINUTE_MS = 60_000  # between two batches, the default freshness


class InProcessTable:
    """A table under its own configuration.

    After each batch a minute passes, and services that are due run slice by slice.
    """

    def __init__(self, spark, endpoint: str, home: Path, config: TableConfig) -> None:
        self._spark = spark
        self._config = config
        self._s3 = s3_client(endpoint)
        make_buckets(self._s3)
        objects = Objects(self._s3)
        self._services = MergeServices(
            objects=objects,
            source=ObjectSource(REGION, SILVER, endpoint),
            silver_bucket=SILVER,
            tables_uri=home.as_uri(),
            clock=WallClock(),
            log=Quiet(),
            history=SchemaHistory(objects, SILVER),
        )
        self._rates = SliceRates(cores=CORES)
        self._arrivals, self._last, self._commits, self._now_ms = count(1), None, 0, 0
        self._done: dict[str, ServiceFacts] = {name: ServiceFacts() for name in SERVICES}
        self.path = home / config.database / config.name

    def merge(self, bodies: Mapping[str, bytes], first_offset: int) -> tuple[Outcome, int]:
        """Commit objects, by key, as one batch. Returns its outcome, and the bytes of manifest and outcome."""
        objects = [self._put(key, body, first_offset + number) for number, (key, body) in enumerate(bodies.items())]
        part = TablePart(self._config.to_dict(), tuple(objects), self._last.watch if self._last is not None else {})
        manifest = open_manifest("main", RUN, self._services.clock.now_ms(), "v1", {self._config.table: part})
        self._last = outcome = merge_part(
            self._spark, manifest=manifest, table=self._config.table, services=self._services, still_held=lambda: True
        )
        if outcome.instant is None or outcome.quarantined:
            raise AssertionError(f"{self._config.table}: not everything was committed: {outcome.to_json()}")
        self._commits += 1
        self._now_ms += MINUTE_MS
        return outcome, len(manifest.to_json().encode()) + len(outcome.to_json().encode())

    def serve(self) -> Iterator[tuple[str, ServiceReport]]:
        """Run the services that are due. Yields each slice's service and report."""
        facts = {
            name: ServiceFacts(commits=self._commits - last.commits, done_at=last.done_at, ended_at=last.ended_at)
            for name, last in self._done.items()
        }
        instant = self._last and self._last.instant
        state = TableState(self._config.table, self._now_ms, instant, services_since=0)
        for one in due(state, facts, self._config, self._now_ms):
            if one.service == CATALOG:
                continue
            more = True
            while more:
                done = serve_table(
                    self._spark,
                    config=self._config,
                    service=one.service,
                    services=self._services,
                    rates=self._rates,
                    still_held=lambda: True,
                    slice_s=SLICE_S,
                    raise_floor=lambda positions: None,
                )
                more = done.more
                yield one.service, done.report
            self._done[one.service] = ServiceFacts(commits=self._commits, done_at=self._now_ms, ended_at=self._now_ms)

    def _put(self, key: str, body: bytes, offset: int) -> ManifestObject:
        version = self._s3.put_object(Bucket=BRONZE, Key=key, Body=body)["VersionId"]
        return ManifestObject(
            BRONZE, key, version, len(body), None, "avro", self._config.topic, 0, offset, next(self._arrivals)
        )
