"""Context of a merge: the services of a run, one part of a batch with its table, and what was made of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable

from pyspark.sql import SparkSession

from sluice.batch.kafka_watch import KafkaWatch
from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import Stage
from sluice.config.table import TableConfig
from sluice.ports import Clock, Log
from sluice_aws.hash_keys import HashKeys
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_aws.s3.schemas import SchemaHistory
from sluice_spark.errors import LaneLost
from sluice_spark.hudi.facts import CommitResult, KnownTables
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.key_index import KeyIndex
from sluice_spark.merge.set_aside import Aside


@dataclass(frozen=True)
class MergeServices:
    """Passed to `merge_part` and `resolve_part`; one for a run, shared by its threads.

    `objects` is the driver's own S3. With `source` read tasks make S3 clients of their own. Tables are under
    `tables_uri` ("s3://SILVER", without a slash at the end); schemas, errors and outcomes are in `silver_bucket`. Small
    parts are merged in the driver, without a Spark job, unless `in_driver` is false. Tables with hashed columns need
    `hash_keys`.
    """

    objects: Objects
    source: ObjectSource
    silver_bucket: str
    tables_uri: str
    clock: Clock
    log: Log
    history: SchemaHistory
    tables: KnownTables = field(default_factory=KnownTables)
    keys: KeyIndex = field(default_factory=KeyIndex)
    in_driver: bool = True
    hash_keys: HashKeys | None = None

    def table_path(self, database: str, name: str) -> str:
        """The URI of a table's folder."""
        return f"{self.tables_uri}/{database}/{name}"


class Stages:
    """Records the stages of a part and their times, in order. For one thread."""

    def __init__(self, clock: Clock, before: Sequence[Stage] = ()) -> None:
        """`before` is where the part's time went so far."""
        self._clock = clock
        self._stages: list[Stage] = list(before)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note the time that passes inside, also when it raises."""
        began = self._clock.now_ms()
        try:
            yield
        finally:
            self._stages.append(Stage(name, began, self._clock.now_ms() - began))

    def note(self, stage: Stage) -> None:
        """Add a stage that another run went through."""
        self._stages.append(stage)

    def ended(self) -> tuple[Stage, ...]:
        """The stages that have ended."""
        return tuple(self._stages)


@dataclass(frozen=True)
class PartContext:
    """One table's part of a batch, with what every step of its merge needs.

    Each call of `merge_part` has one of its own, so tables are merged side by side in threads. `claimed` has the
    part's objects. `attempt` names this merge of the part: its commits have it, and what it sets aside.
    """

    spark: SparkSession
    services: MergeServices
    manifest: Manifest
    claimed: TablePart
    config: TableConfig
    hudi: HudiTable
    still_held: Callable[[], bool]
    stages: Stages
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def place(self) -> dict[str, str]:
        """The batch and the table, by which S3 keys and events name the part."""
        return {"batch": self.manifest.batch, "table": self.config.table}

    @property
    def aside(self) -> Aside:
        """Where what this merge of the part sets aside is."""
        return Aside(self.services.objects, self.services.silver_bucket, **self.place, attempt=self.attempt)

    @property
    def origin(self) -> dict[str, str]:
        """What a commit of this part says of where it comes from."""
        return {"batch": self.manifest.batch, "run": self.manifest.run, "attempt": self.attempt}

    def check_held(self) -> None:
        """Raise LaneLost where this driver no longer holds the lane."""
        if not self.still_held():
            raise LaneLost(f"The lane was taken over before {self.config.table} was committed", **self.place)

    def event(self, name: str, **fields: object) -> None:
        """Log an event of this part."""
        self.services.log.event(name, **self.place, **fields)


@dataclass(frozen=True)
class MergedPart:
    """A part whose changes were decided, and committed where rows had to be written.

    `counts` says what became of the changes and `committed` is the table's commit, None where no row changed. `watch`
    is what is known of the table's log after this part, `unexpected` counts rows by the expectation that they fail, and
    `notes` are for operators. `history_instant` is the history table's newest commit.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    committed: CommitResult | None = None
    watch: KafkaWatch | None = None
    unexpected: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    history_instant: str | None = None


def part_context(
    spark: SparkSession,
    *,
    manifest: Manifest,
    table: str,
    services: MergeServices,
    still_held: Callable[[], bool],
    before: Sequence[Stage] = (),
) -> PartContext:
    """The context of `table`'s part of the manifest."""
    claimed = manifest.tables[table]
    config = claimed.table_config
    hudi = HudiTable(spark, services.table_path(config.database, config.name), config)
    return PartContext(spark, services, manifest, claimed, config, hudi, still_held, Stages(services.clock, before))
