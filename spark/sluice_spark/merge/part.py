"""One table's part of a batch, whole: from its objects to its commit, or to the reason why there is none.

What a table's rows tell of where they came from, as its configuration wants it, at the moment they are written.

Writes down what a merge learns of a table's schemas: each writer schema's verdict, and the table's own columns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.batch.kafka_watch import KafkaWatch, Watched
from sluice.batch.kafka_watch import watched as judge_seen
from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMIT_STAGE, COMMITTED, QUARANTINED, ObjectError, Outcome, Stage
from sluice.changes import hidden_columns as hidden
from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.table import MOR, TableConfig
from sluice.hudi import housekeeping as housekeeping_pace
from sluice.hudi import options as hudi_options
from sluice.schema.avro import PLAIN, WriterSchema, fingerprint
from sluice.schema.evolution import DROPPED, Evolution
from sluice.schema.history import StoredColumns, seen
from sluice.schema.table_row import row_for_table
from sluice.schema.widening import NARROWER, SAME
from sluice_aws.s3.schemas import SchemaHistory
from sluice_spark.errors import CleaningUnfinished, LaneLost
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.hudi.housekeeping import keep_house
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.recovery import first_look, roll_back_unfinished
from sluice_spark.hudi.table import HudiTable
from sluice_spark.log import describe
from sluice_spark.merge import latest as merging
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.normalize import normalized, quoted
from sluice_spark.merge.plan import PlannedRead, plan_read
from sluice_spark.merge.read import SeenObjects, read_changes
from sluice_spark.merge.rows import RowMerge
from sluice_spark.merge.schemas import Scanned, WriterSchemas, scan_schemas, writer_schemas
from sluice_spark.merge.set_aside import SetAside, leave_below_floor, leave_error, leave_parked, read_set_aside

# A batch whose objects are smaller than this has keys that are sent to every task of the stored table's scan.
BROADCAST_BYTES = 32 * 1024**2


def merge_part(
    spark: SparkSession,
    *,
    manifest: Manifest,
    table: str,
    services: MergeServices,
    still_held: Callable[[], bool],
    before: Sequence[Stage] = (),
) -> Outcome:
    """Read, merge and commit one table's part. `before` is where the part's time went until now.

    `still_held` is asked immediately before the commit; LaneLost is raised when it says no. An object
    that can't be merged is in the outcome with its reason, and the rest goes on. Any other exception
    leaves open whether the commit is there: call `resolve_part` before anything else (rule 4).
    """
    return _Part(spark, manifest, table, services, still_held, before).merge()


def resolve_part(
    spark: SparkSession, *, manifest: Manifest, table: str, services: MergeServices, still_held: Callable[[], bool]
) -> Outcome | None:
    """Undo what is unfinished, then look for the batch on the table's timeline (rule 4).

    The outcome when it was committed, else None: the part has to be merged again. Raises LaneLost,
    before anything is undone, when `still_held` says no.
    """
    return _Part(spark, manifest, table, services, still_held).resolve()


class _Part:
    """One call's work; nothing of it is shared, so several tables run side by side in threads."""

    def __init__(
        self,
        spark: SparkSession,
        manifest: Manifest,
        table: str,
        services: MergeServices,
        still_held: Callable[[], bool],
        before: Sequence[Stage] = (),
    ) -> None:
        self._spark = spark
        self._manifest = manifest
        self._part: TablePart = manifest.tables[table]
        self._config: TableConfig = self._part.table_config
        self._services = services
        self._still_held = still_held
        self._stages: list[Stage] = list(before)
        self._notes: tuple[str, ...] = ()
        self._watched: Watched | None = None
        self._hudi = HudiTable(spark, services.table_path(self._config.database, self._config.name), self._config)

    def resolve(self) -> Outcome | None:
        if not self._hudi.exists():
            return None
        self._check_held()
        self._services.known.take(self._config)
        undone = roll_back_unfinished(self._hudi)
        if undone:
            self._event("rolled_back", instants=list(undone))
        found = self._hudi.commit_of_batch(self._manifest.batch, since_ms=self._manifest.created_at)
        if found is None:
            return None
        self._event("found_committed", instant=found.instant)
        # What was refused for its schema was refused before the commit, by the table's schema of then.
        return self._outcome(found, self._set_aside(), dict(found.counts))

    def merge(self) -> Outcome:
        with self._stage("table"):
            facts = self._services.known.take(self._config) or self._first_look()
        with self._stage("schemas"):
            schemas = writer_schemas(
                self._services.objects,
                self._services.silver_bucket,
                self._part.objects,
                scan=self._scan,
                stored=_types(facts.schema),
            )
        planned = self._planned(schemas, facts)
        history, clock = self._services.history, self._services.clock
        remember_schemas(
            history,
            self._config,
            writers=schemas.in_order,
            inferred=schemas.inferred.values(),
            verdicts=planned.verdicts,
            at=clock.now_ms(),
            batch=self._manifest.batch,
        )
        remember_columns(history, self._config, facts.schema)  # what a run that died after its commit didn't
        self._notes += without_position(schemas.in_order)
        refused = [*schemas.errors, *_refused(planned, self._part.objects, schemas.of_object)]
        left = [item for item in self._part.objects if item.id.hash not in {error.object for error in refused}]
        for error in refused:
            leave_error(
                self._services.objects,
                self._services.silver_bucket,
                batch=self._manifest.batch,
                table=self._config.table,
                error=error,
            )
        if not left:
            return self._outcome(None, SetAside(tuple(refused)), {})
        return self._merge_rows(planned, left, facts)

    def _planned(self, schemas: WriterSchemas, facts: TableFacts) -> PlannedRead:
        planned = plan_read(
            self._config,
            batch=self._manifest.batch,
            writers=schemas.in_order,
            stored=facts.schema,
            inferred=schemas.inferred,
        )
        if planned.rewritten and self._hudi.size_bytes(facts) > self._config.rewrite_limit_bytes:
            return plan_read(
                self._config,
                batch=self._manifest.batch,
                writers=schemas.in_order,
                stored=facts.schema,
                inferred=schemas.inferred,
                may_rewrite=False,
            )
        return planned

    def _scan(self, objects: Sequence[ManifestObject]) -> Scanned:
        return scan_schemas(self._spark, objects=objects, config=self._config, source=self._services.source)

    def _first_look(self) -> TableFacts:
        """Before a run's first write to a table, and after whatever went wrong: create it, check it, read its timeline."""
        if self._hudi.ensure_created():
            self._event("table_created")
        self._check_held()
        return first_look(self._hudi, self._services.log).facts

    def _merge_rows(self, planned: PlannedRead, objects: list[ManifestObject], facts: TableFacts) -> Outcome:
        seen = SeenObjects(self._spark.sparkContext)
        raw = read_changes(self._spark, objects=objects, plan=planned.plan, source=self._services.source, seen=seen)
        changes = normalized(raw, plan=planned.plan, target=planned.target)
        few = sum(item.size for item in objects) < BROADCAST_BYTES
        with RowMerge(self._hudi, self._config, target=planned.target, facts=facts, few=few) as merge:
            with self._stage("read"):
                merged = merge.merge(changes)
                kept = self._kept(objects, seen)
                if merged.below is not None and len(kept) == len(objects):
                    leave_below_floor(
                        merged.below,
                        objects=objects,
                        batch=self._manifest.batch,
                        table=self._config.table,
                        columns=planned.target.names,
                        limit=self._config.limits.quarantined_rows,
                        source=self._services.source,
                    )
                aside = self._set_aside()
            if len(kept) < len(objects):
                return self._merge_rows(planned, kept, facts) if kept else self._outcome(None, aside, {})
            counts = {
                **merged.counts,
                "bytes_read": sum(item.size for item in objects),
            }  # beside the changes read: what the next claim goes by
            if counts.get("mostly_losing"):
                self._notes += (LOG_BEGAN_AGAIN.format(batch=self._manifest.batch),)
            if merged.truncated_at is not None:
                self._raise_floor(merged.truncated_at, facts)
                facts = replace(facts, floor=max(facts.floor or "", merged.truncated_at))
            if merged.changes_nothing:
                self._services.known.keep(self._config, facts)
                return self._outcome(None, aside, counts)
            with self._stage(COMMIT_STAGE):
                commit = self._commit(merged.rows, planned, objects, facts)
            if commit.facts is not None:
                remember_columns(self._services.history, self._config, commit.facts.schema)
            self._keep_known(commit)
            return self._outcome(commit, aside, {**counts, **commit.counts})

    def _kept(self, objects: list[ManifestObject], seen: SeenObjects) -> list[ManifestObject]:
        """The objects that go on, by what was seen of them; why the others don't is left in S3 before anything is committed. Asked once."""
        if self._watched is not None:
            return objects
        watched = self._watched = judge_seen(KafkaWatch.from_dict(self._part.watch), seen.take(objects), self._config)
        where = {"batch": self._manifest.batch, "table": self._config.table}
        for named, refusal in watched.refused.items():
            leave_error(
                self._services.objects,
                self._services.silver_bucket,
                error=ObjectError(named, refusal.code, str(refusal)),
                **where,
            )
        for named, reason in watched.parked.items():
            leave_parked(
                self._services.objects,
                self._services.silver_bucket,
                error=ObjectError(named, LOG_RESTARTED, reason),
                **where,
            )
        if watched.parked:
            reason = watched.parked[min(watched.parked)]
            self._notes += (f"{len(watched.parked)} objects of batch {self._manifest.batch} are parked: {reason}",)
        return [item for item in objects if item.id.hash not in watched.refused and item.id.hash not in watched.parked]

    def _raise_floor(self, position: str, facts: TableFacts) -> None:
        """Before the commit: what is older than the truncate loses whether or not this attempt ends well, since the batch is merged in the end."""
        if position > (facts.floor or ""):
            self._check_held()
            self._hudi.raise_floor(position)
            self._event("floor_raised", position=position)

    def _commit(
        self, rows: DataFrame, planned: PlannedRead, objects: list[ManifestObject], facts: TableFacts
    ) -> CommitResult:
        self._check_held()
        operation = hudi_options.BULK_INSERT if facts.empty else hudi_options.UPSERT
        size_bytes = sum(item.size for item in objects)
        rows = with_lineage(rows, words=self._config.lineage, batch=self._manifest.batch)
        if planned.rewritten:
            operation, size_bytes = hudi_options.REWRITE, self._hudi.size_bytes(facts)
            rows = merging.replacing(
                self._hudi.stored(facts, *_columns_of(facts)),
                rows,
                target=planned.target,
                record_key=self._config.record_key,
            )
            self._event("table_rewritten", columns=list(planned.rewritten), bytes=size_bytes)
        elif planned.widened and self._config.table_type == MOR:
            compacted = self._hudi.compact_all()
            self._event("compacted_before_wider_types", columns=list(planned.widened), instant=compacted)
            facts = self._hudi.look()
        if planned.widened:
            self._check_held()
            self._hudi.note_widened(planned.widened, facts)
        clock = self._services.clock
        self._hudi.wait_until_past_newest(facts.newest, now_ms=clock.now_ms, wait=clock.wait)
        self._check_held()
        return self._hudi.write(
            rows,
            operation=operation,
            batch=self._manifest.batch,
            run=self._manifest.run,
            facts=facts,
            size_bytes=size_bytes,
        )

    def _keep_known(self, commit: CommitResult) -> None:
        """Remember the table as it is after the commit, with its housekeeping done if that is due.

        The rows are committed: what fails here is told and comes again with a later commit, and the
        table is looked at anew.
        """
        if commit.facts is None:
            return
        if not housekeeping_pace.housekeeping_due(self._config, commit.facts.commits):
            self._services.known.keep(self._config, commit.facts)
            return
        self._check_held()
        try:
            with self._stage("housekeeping"):
                done = keep_house(
                    self._hudi, HudiJvm(self._spark), now_ms=self._services.clock.now_ms(), known=self._services.known
                )
                self._services.known.keep(self._config, self._hudi.look())
        except (
            Py4JJavaError,
            PySparkException,
            CleaningUnfinished,
        ) as failure:  # Java's exceptions, some under Spark's own names
            self._event("housekeeping_failed", level="error", error=describe(failure))
            return
        self._event(
            "housekept", cleaning=done.cleaning, files=done.files, archived=done.archived, compacted=done.compacted
        )

    def _set_aside(self) -> SetAside:
        return read_set_aside(
            self._services.objects, self._services.silver_bucket, batch=self._manifest.batch, table=self._config.table
        )

    def _check_held(self) -> None:
        if not self._still_held():
            raise LaneLost(
                f"The lane was taken over before {self._config.table} was committed",
                table=self._config.table,
                batch=self._manifest.batch,
            )

    def _outcome(self, commit: CommitResult | None, aside: SetAside, counts: dict[str, int]) -> Outcome:
        self._event("merged", seconds={stage.name: stage.ms / 1000 for stage in self._stages}, **counts)
        for note in self._notes:
            self._event("noted", level="warning", note=note)
        errors = aside.objects
        whole = len(errors) == len(self._part.objects) and bool(errors)
        parked = {"parked_objects": len(aside.parked)} if aside.parked else {}
        return Outcome(
            batch=self._manifest.batch,
            table=self._config.table,
            state=QUARANTINED if whole and commit is None else COMMITTED,
            committed_at=self._services.clock.now_ms(),
            instant=None if commit is None else commit.instant,
            no_change=commit is None and not whole,
            counts={
                "objects": len(self._part.objects),
                "quarantined_objects": len(errors),
                "quarantined_rows": sum(found.rows for found in aside.rows),
                **parked,
                **counts,
            },
            quarantined=tuple(sorted(errors, key=lambda error: error.object)),
            reason="every object of this part was quarantined" if whole and commit is None else None,
            quarantined_rows=tuple(sorted(aside.rows, key=lambda found: found.object)),
            notes=self._notes,
            stages=tuple(self._stages),
            parked=tuple(sorted(aside.parked, key=lambda error: error.object)),
            parked_generation=self._config.generation if aside.parked else None,
            watch=self._watched.watch.to_dict() if self._watched is not None else {},
        )

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Note the time that passes inside, also when it raises: for the log, and with the outcome for whoever asks later where it went."""
        clock = self._services.clock
        began = clock.now_ms()
        try:
            yield
        finally:
            self._stages.append(Stage(name, began, clock.now_ms() - began))

    def _event(self, name: str, **fields: object) -> None:
        self._services.log.event(name, batch=self._manifest.batch, table=self._config.table, **fields)


LOG_BEGAN_AGAIN = (
    "most changes of batch {batch} lost to older records of Kafka: if the source's log began again lower (a restore, a new connector, RESET MASTER), "
    "raise this table's generation"
)


def without_position(writers: Sequence[WriterSchema]) -> tuple[str, ...]:
    """What to change at the connectors whose changes carry no log position, each once. Plain records have none to carry."""
    return tuple(
        sorted(
            {writer.meta.position.advice for writer in writers if writer.shape != PLAIN and writer.meta.position.advice}
        )
    )


def _columns_of(facts: TableFacts) -> tuple[str, ...]:
    """Every column of the table as it is."""
    return tuple(facts.schema.names) if facts.schema is not None else ()


def _refused(
    planned: PlannedRead, objects: tuple[ManifestObject, ...], schemas_of: Mapping[str, tuple[str, ...]]
) -> list[ObjectError]:
    """The objects of which a writer schema fits neither the table's nor the rest of the batch's."""
    errors = []
    for item in objects:
        refusals = [planned.refused[mark] for mark in schemas_of.get(item.id.hash, ()) if mark in planned.refused]
        if refusals:
            errors.append(ObjectError(item.id.hash, refusals[0].code, str(refusals[0])))
    return errors


def _types(stored: StructType | None) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in stored.fields} if stored is not None else {}


def with_lineage(rows: DataFrame, *, words: Collection[str], batch: str) -> DataFrame:
    """The rows to be written by `batch`, with the lineage that `words` (of `hidden_columns.LINEAGE`) name; the other is null.

    Here and not earlier: merging goes by some of these columns whether or not they are kept.
    """
    off = {column for word, column in hidden.LINEAGE.items() if word not in words}
    chosen = []
    for field in rows.schema.fields:
        value = F.lit(None) if field.name in off else F.lit(batch) if field.name == hidden.BATCH else quoted(field.name)
        chosen.append(value.cast(field.dataType).alias(field.name))
    return rows.select(*chosen)


_NOTHING_NEW = (SAME, DROPPED, NARROWER)


def remember_schemas(
    history: SchemaHistory,
    config: TableConfig,
    *,
    writers: Sequence[WriterSchema],
    inferred: Iterable[str],
    verdicts: Mapping[str, Evolution],
    at: int,
    batch: str,
) -> None:
    """Note every schema with its verdict. Before the commit: what is merged is then never without its schema.

    Of the `inferred` ones (as JSON, of records that carry none) only those that change the table: any
    selection of its columns is a schema of its own there.
    """
    made_up = {fingerprint(json.loads(text)) for text in set(inferred)}
    for writer in writers:
        if writer.fingerprint in made_up and verdicts[writer.fingerprint].verdict in _NOTHING_NEW:
            continue
        row = row_for_table(writer.row, config)
        history.note(seen(config.table, writer.fingerprint, row, verdicts[writer.fingerprint], at=at, batch=batch))


def remember_columns(history: SchemaHistory, config: TableConfig, stored: StructType | None) -> None:
    """Tell the table's columns as its newest commit has them; admission compares with them."""
    if stored is not None:
        history.keep_columns(
            StoredColumns(config.table, {field.name: field.dataType.simpleString() for field in stored.fields})
        )
