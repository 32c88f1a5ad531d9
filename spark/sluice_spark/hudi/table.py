"""One Hudi table: creates and checks it, reads its state and its rows, finds a batch's commit, writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Callable

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from sluice.changes.source_tables import Floors
from sluice.config.table import AUTO, COW, MOR, TableConfig
from sluice.errors import TableWentBack
from sluice.hudi import options as hudi_options
from sluice.hudi import own_metadata, table_properties, write_choices
from sluice.hudi.file_slices import data_file
from sluice.hudi.own_metadata import NONE_WIDENED, are_as_stored, with_widened
from sluice.hudi.timeline import COMMIT, FOLDER, Timeline, dated_too_early, instant_ms, instant_of_ms
from sluice_spark.errors import ClockBehind, CommitNotNewest, TableDiffers
from sluice_spark.hudi.data_source import append
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.hudi.jvm import HudiJvm, completion_times, instants
from sluice_spark.log import describe

# A driver waits for an instant that is ahead by less than this: drivers' clocks differ by milliseconds, not minutes.
LONGEST_CLOCK_WAIT_MS = 15_000
# Each file's name is a round trip to the JVM. A table of more files gains nothing from being read by name.
MOST_FILES_BY_NAME = 200
# By one driver's clock a batch's commit is younger than its manifest. Two drivers' clocks differ by less than this.
CLOCK_MARGIN_MS = 3_600_000


class HudiTable:
    """A table at a path, with its configuration. Not shared between threads: one per part of a batch."""

    def __init__(self, spark: SparkSession, path: str, config: TableConfig) -> None:
        self.path = path.rstrip("/")
        self.config = config
        self.jvm = HudiJvm(spark)
        self._spark = spark
        self.cores = spark.sparkContext.defaultParallelism  # tasks that run at once

    def meta_client(self) -> Any:
        """Hudi's own object for the table's present state, read from storage now. Raises TableWentBack."""
        try:
            return self.jvm.meta_client(self.path)
        except Py4JJavaError as error:
            if "TableNotFoundException" in describe(error):
                self.refuse_lost_properties()
            raise

    def exists(self) -> bool:
        """True where the table has been created."""
        return self.jvm.exists(f"{self.path}/{table_properties.PROPERTIES_FILE}")

    def ensure_created(self) -> bool:
        """Create the table if there is none; True if this call did. All properties are set explicitly.

        Raises TableWentBack where it has commits and only its properties are lost: new ones would lack its floors.
        """
        if self.jvm.file_bytes_or_none(f"{self.path}/{table_properties.PROPERTIES_FILE}"):
            return False
        self.refuse_lost_properties()
        values = table_properties.creation_properties(self.config)
        self.jvm.create_table(
            self.path,
            values,
            table_type=table_properties.hudi_type(self.config),
            key_generator=hudi_options.key_generator(self.config),
        )
        return True

    def refuse_lost_properties(self) -> None:
        """Raise TableWentBack for a table that has commits."""
        newest = Timeline.of(self.jvm.names(f"{self.path}/{FOLDER}")).newest
        if newest is not None:
            raise TableWentBack.without_properties(self.config.table, newest.time)

    def recreate_if_empty(self) -> bool:
        """Give a table without a commit the properties of its present configuration.

        Returns False, without effect, where something was or may yet be committed. A table is created before the
        schemas of its first batch are read, so a wrong key is often corrected only then.
        """
        meta_client = self.meta_client()
        timeline = meta_client.getActiveTimeline()
        if timeline.getCommitsTimeline().countInstants() or timeline.filterInflightsAndRequested().countInstants():
            return False
        self.jvm.replace_properties(
            meta_client,
            table_properties.creation_properties(self.config),
            table_type=table_properties.hudi_type(self.config),
            key_generator=hudi_options.key_generator(self.config),
            properties_kept=table_properties.kept_when_anew(self.jvm.table_properties(meta_client)),
        )
        return True

    def look(self) -> TableFacts:
        """Check the table's properties and read its timeline, both from one listing.

        Checks the properties that readers depend on and those that can't change (`pinned-settings`), and adds a missing
        one that some reader needs. Raises TableDiffers with every difference.
        """
        meta_client = self.meta_client()
        properties, properties_read = (
            table_properties.wanted_properties(self.config),
            self.jvm.table_properties(meta_client),
        )
        differences = table_properties.differing(properties, properties_read)
        if differences:
            summary = "; ".join(
                f"{name} is {value!r}, not {wanted!r}" for name, (value, wanted) in sorted(differences.items())
            )
            raise TableDiffers(f"{self.config.table}: {summary}", table=self.config.table, differences=differences)
        facts = self._facts(meta_client)
        missing = table_properties.absent(properties, properties_read)
        if facts.empty and facts.widened is None:  # from now on every change of a type is noted
            missing[own_metadata.WIDENED_PROPERTY] = NONE_WIDENED
        if missing:
            self.jvm.update_properties(meta_client, missing)
        return replace(
            facts,
            properties_added=tuple(sorted(missing)),
            widened=missing.get(own_metadata.WIDENED_PROPERTY, facts.widened),
        )

    def _facts(self, meta_client: Any) -> TableFacts:
        active = meta_client.getActiveTimeline()
        completed = completion_times(active)
        timeline = Timeline.of(completed)
        count = len(timeline.commits)
        partition = self.jvm.table_property(meta_client, own_metadata.PURGED_PARTITION_PROPERTY)
        return TableFacts(
            newest=max((instant.time for instant in timeline.instants), default=None),
            schema=self.jvm.table_schema(meta_client) if count else None,
            commits=count,
            floor=Floors.from_text(
                self.jvm.table_property(meta_client, own_metadata.FLOOR_PROPERTY), self.config.topic
            ),
            purged=self.jvm.table_property(meta_client, own_metadata.PURGED_PROPERTY),
            purged_partition=None if partition is None else int(partition),
            purging=bool(self.jvm.table_property(meta_client, own_metadata.UNPURGED_PROPERTY)),
            unfinished=bool(timeline.pending),
            misdated=dated_too_early(completed) if self.config.table_type == MOR else (),
            record_index=self._has_record_index(meta_client),
            widened=self.jvm.table_property(meta_client, own_metadata.WIDENED_PROPERTY),
            forgotten=self.jvm.table_property(meta_client, own_metadata.FORGOTTEN_PROPERTY),
            rows=row_count(active.getCommitsTimeline().filterCompletedInstants()) if count else 0,
            timeline=timeline,
            meta_client=meta_client,
        )

    def _has_record_index(self, meta_client: Any) -> bool:
        return write_choices.has_record_index(
            self.jvm.table_property(meta_client, table_properties.METADATA_PARTITIONS)
        )

    def finds_by_record_index(self, facts: TableFacts) -> bool:
        """True where the next write finds rows by the record index. Counts the rows where no commit has done so."""
        rows = facts.rows
        if rows is None and self.config.index == AUTO and not facts.record_index:
            rows = self.stored(facts, *self.config.record_key[:1]).count()
        return write_choices.wants_record_index(
            self.config, has=facts.record_index, rows=rows, table_bytes=lambda: self.size_bytes(facts)
        )

    def raise_floors(self, truncates: Iterable[tuple[str | None, str]]) -> Floors:
        """Record truncates (source table, position) in the table's properties, and return the floors that hold then.

        A change that is not newer than its floor loses, also one of a key that the table never had.
        """
        meta_client = self.meta_client()
        noted = self.jvm.table_property(meta_client, own_metadata.FLOOR_PROPERTY)
        floors = Floors.from_text(noted, self.config.topic).raised(truncates)
        if floors.to_text() != (noted or ""):
            self.jvm.update_properties(meta_client, {own_metadata.FLOOR_PROPERTY: floors.to_text()})
        return floors

    def raise_purged(self, position: str, beside: Mapping[str, str]) -> None:
        """Record the highest position of a purged row, unless a higher one is there, and properties that go with it."""
        meta_client = self.meta_client()
        noted = self.jvm.table_property(meta_client, own_metadata.PURGED_PROPERTY)
        if noted is None or noted < position:
            self.jvm.update_properties(meta_client, {own_metadata.PURGED_PROPERTY: position, **beside})

    def set_purging(self, instant: str) -> None:
        """Record that log files have rows which a purge removes, in the table's properties; "" records that none do."""
        self.jvm.update_properties(self.meta_client(), {own_metadata.UNPURGED_PROPERTY: instant})

    def note_widened(self, columns: Sequence[str], facts: TableFacts) -> None:
        """Record in the table's properties that these columns become wider. Files that stay keep the narrower type.

        For before the commit that widens them.
        """
        noted = with_widened(facts.widened, columns, newest=facts.newest or "")
        if noted is not None:
            self.jvm.update_properties(self.meta_client(), {own_metadata.WIDENED_PROPERTY: noted})

    def stored(self, facts: TableFacts, *columns: str) -> DataFrame:
        """The table's rows as of its newest commit, deleted ones included, with only these columns.

        An unpartitioned copy-on-write table is read from its newest files directly, by the timeline of `facts`: Hudi's
        data source lists the whole timeline three more times. A file that may have one of these columns in a narrower
        type is left to Hudi's reader, which casts it; Spark's own fails on it.
        """
        if (
            self.config.table_type == COW
            and not self.config.partition_by
            and facts.meta_client is not None
            and facts.schema is not None
        ):
            schema = StructType([facts.schema[name] for name in columns])
            files = self.jvm.newest_files(facts.meta_client, MOST_FILES_BY_NAME)
            if files and _are_of_one_type(schema, files, facts):
                return self._spark.read.schema(schema).parquet(*files)
        return self.rows().select(*columns)

    def rows(self) -> DataFrame:
        """The table's rows as of its newest commit, by Hudi's own reader, with Hudi's own columns."""
        return read_table(self._spark, self.path)

    def size_bytes(self, facts: TableFacts) -> int:
        """Bytes of the newest files, without those of older versions."""
        return self.jvm.size_bytes(facts.meta_client)

    def commit_of_batch(self, batch: str, *, since_ms: int = 0) -> CommitResult | None:
        """The completed commit with the batch's id and this table's name in its metadata; None where there is none.

        Commits from long before `since_ms` (epoch ms), when the batch was made, are not opened: each takes a request.
        """
        timeline = self.meta_client().getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        earliest = instant_of_ms(max(0, since_ms - CLOCK_MARGIN_MS))
        later = timeline.findInstantsAfter(earliest)
        commit = commit_of(later, batch=batch, table=self.config.table)
        return None if commit is None else replace(commit, completed_at=_completed_at(commit.instant, later))

    def newest_commit(self) -> str | None:
        """The newest completed commit; None before the first."""
        newest = Timeline.of(completion_times(self.meta_client().getActiveTimeline())).newest
        return None if newest is None else newest.time

    def wait_until_past_newest(
        self, newest: str | None, *, now_ms: Callable[[], int], wait: Callable[[float], None]
    ) -> None:
        """Wait until the clock is past the newest instant of the timeline.

        Instants come from the driver's clock, and an instant that isn't the newest would be invisible. Raises
        ClockBehind where the clock is behind by more than LONGEST_CLOCK_WAIT_MS.
        """
        if newest is None:
            return
        limit = instant_ms(newest)
        while now_ms() <= limit:
            behind = limit - now_ms()
            if behind > LONGEST_CLOCK_WAIT_MS:
                raise ClockBehind(
                    f"{self.config.table} holds instant {newest}, {behind} ms ahead of this clock",
                    table=self.config.table,
                    instant=newest,
                    behind_ms=behind,
                )
            wait((behind + 1) / 1000)

    def date_anew(self, facts: TableFacts, *, now_ms: Callable[[], int], wait: Callable[[float], None]) -> TableFacts:
        """The facts once no completed instant of a merge-on-read table is dated before its own time.

        For the lane's holder, before it reads or writes the table's logs. A base file belongs to its instant, and a log
        file to the newest base file that is not newer than the date of that instant's file (HoodieFileGroup.
        getBaseInstantTime of Hudi 1.0.2, tables of version 6). S3 dates by whole seconds. An instant that is begun and
        completed within one second is thus dated too early, and its base file's logs would go to the base file before,
        where no reader and no compaction sees them. Such a file is put again. Raises ClockBehind.
        """
        until, due = now_ms() + LONGEST_CLOCK_WAIT_MS, 0
        while facts.misdated:
            newest = facts.misdated[-1].partition(".")[0]
            due = max(due + 1000, -(-instant_ms(newest) // 1000) * 1000)  # the store's clock may be behind this one
            if due > until:
                raise ClockBehind(
                    f"{self.config.table} holds instant {newest}, and the dates of its files are before that",
                    table=self.config.table,
                    instant=newest,
                    behind_ms=due - now_ms(),
                )
            if due > now_ms():
                wait((due - now_ms()) / 1000)
            for name in facts.misdated:
                self.jvm.put_again(f"{self.path}/{FOLDER}{name}")
            facts = self.look()
        return facts

    def write(
        self,
        rows: DataFrame,
        *,
        operation: str,
        batch: str,
        run: str,
        facts: TableFacts,
        size_bytes: int,
        attempt: str | None = None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> CommitResult:
        """Commit rows, one per key, and return the commit once it is the newest on the timeline.

        `facts` is the table's state just before. What `before_commit` raises is raised without a commit; only the row
        writer of a bulk insert doesn't ask it. After another exception the commit may still be there
        (`resolve-before-write`). Raises CommitNotNewest.
        """
        options = hudi_options.write_options(
            self.config,
            operation=operation,
            parallelism=write_choices.shuffle_tasks(size_bytes, self.cores),
            kinds=[field.dataType.simpleString() for field in rows.schema.fields],
            timestamp_key=has_timestamp_key(self.config, rows),
            record_index=self.finds_by_record_index(facts),
            rows=facts.rows,
            partitions=self._partition_count(facts),
        )
        metadata = own_metadata.commit_metadata(
            batch=batch,
            table=self.config.table,
            run=run,
            attempt=attempt,
            rows_before=0 if operation == hudi_options.REWRITE else facts.rows,
        )
        append(rows, self.path, {**options, **metadata}, before_commit)
        return self.committed(batch, facts.newest)

    def _partition_count(self, facts: TableFacts) -> int:
        """How many partitions share the limit of small files; 1 where nothing shares it."""
        if self.config.table_type != MOR or not self.config.partition_by or facts.empty:
            return 1
        return max(1, len(self.jvm.partitions(facts.meta_client, self.jvm.local_context())))

    def committed(self, batch: str, newest_before: str | None) -> CommitResult:
        """The batch's commit, looked up after the write that made it. Raises CommitNotNewest."""
        meta_client = self.meta_client()
        commits = meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        commit = commit_of(commits.findInstantsAfter(newest_before or "0"), batch=batch, table=self.config.table)
        if commit is None:
            raise CommitNotNewest(
                f"{self.config.table}: no new commit carries {batch}",
                table=self.config.table,
                batch=batch,
                newest_before=newest_before,
            )
        facts = self._facts(meta_client)
        compacts = self.config.table_type == MOR  # by itself, in the same write
        later = [item for item in facts.timeline.after(commit.instant) if not (compacts and item.action == COMMIT)]
        if later:
            raise CommitNotNewest(
                f"{self.config.table}: {commit.instant} of {batch} is older than {later[-1].time}, which another "
                "writer or another clock made",
                table=self.config.table,
                batch=batch,
                newest=later[-1].time,
            )
        return replace(commit, facts=facts)

    def compact_all(self) -> str | None:
        """Compact every log file now; the instant, or None where there was none to compact."""
        with closing(self.client(hudi_options.compaction_options())) as client:
            client.runAnyPendingCompactions()
            planned = client.scheduleCompaction(self.jvm.none())
            if not planned.isPresent():
                return None
            instant = planned.get()
            self.jvm.carry_out_compaction(client, instant)
            return str(instant)

    def client(self, more: dict[str, str] | None = None, *, in_driver: bool = False) -> Any:
        """A Hudi client for roll-backs and table services, with the table's options and `more`. Close it after use.

        `in_driver`: it starts no Spark jobs, unless it has to keep up a record index.
        """
        meta_client = self.meta_client()
        record_index = self._has_record_index(meta_client)
        options = {
            **hudi_options.write_options(
                self.config, operation=hudi_options.UPSERT, parallelism=self.cores, record_index=record_index
            ),
            **(more or {}),
        }
        schema, in_driver = self.jvm.avro_schema(meta_client), in_driver and not record_index
        return self.jvm.write_client(self.path, self.config.name, options, schema, in_driver=in_driver)


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The rows of the Hudi table at a path, of Sluice or of another tool."""
    return spark.read.format("hudi").options(**hudi_options.READ_OPTIONS).load(path)


def _are_of_one_type(schema: StructType, files: Sequence[str], facts: TableFacts) -> bool:
    data_files = [data_file(path.rpartition("/")[2], 0) for path in files]
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    return are_as_stored(
        facts.widened, types, oldest_file=min("" if file is None else file.instant for file in data_files)
    )


def has_timestamp_key(config: TableConfig, rows: DataFrame) -> bool:
    """True where a column of the record key is a timestamp."""
    return any(
        isinstance(field.dataType, TimestampType) for field in rows.schema.fields if field.name in config.record_key
    )


# For the number of rows. Services commit between batches, seldom more than a few in a row. Each takes a request.
COMMITS_LOOKED_AT = 5


def _completed_at(instant: str, timeline: Any) -> int:
    """When a completed instant's file was written (epoch ms). S3's dates have whole seconds: the end of that second."""
    completed = (at for name, at in completion_times(timeline).items() if name.startswith(f"{instant}.") and at)
    dated = instant_ms(next(completed, instant))
    return max(instant_ms(instant), dated if dated % 1000 else dated + 999)


def commit_of(timeline: Any, *, batch: str, table: str) -> CommitResult | None:
    """The newest commit of a timeline with the batch's id and the table's name; None where there is none.

    Each commit that is opened takes a request.
    """
    for instant in reversed(instants(timeline)):
        metadata = timeline.readCommitMetadata(instant)
        extra = metadata.getExtraMetadata()
        if extra.get(own_metadata.BATCH_KEY) == batch and extra.get(own_metadata.TABLE_KEY) == table:
            attempt = extra.get(own_metadata.ATTEMPT_KEY)
            return CommitResult(
                str(instant.requestedTime()), statistics(metadata), attempt=None if attempt is None else str(attempt)
            )
    return None


def statistics(metadata: Any) -> dict[str, int]:
    """A commit's counts, by Hudi. `rewritten` are all rows of the files that were written, changed or not."""
    return {
        "inserted": int(metadata.fetchTotalInsertRecordsWritten()),
        "updated": int(metadata.fetchTotalUpdateRecordsWritten()),
        "rewritten": int(metadata.fetchTotalRecordsWritten()),
        "bytes_written": int(metadata.fetchTotalBytesWritten()),
        "files_written": int(metadata.fetchTotalFilesInsert()) + int(metadata.fetchTotalFilesUpdated()),
    }


def row_count(commits: Any) -> int | None:
    """The rows of a table by the newest commit that counts them; None where none does. Services' commits count none.

    An estimate: a row that moved to another partition counts as inserted, and purged rows stay counted.
    """
    for instant in reversed(instants(commits)[-COMMITS_LOOKED_AT:]):
        metadata = commits.readCommitMetadata(instant)
        before = metadata.getExtraMetadata().get(own_metadata.ROWS_KEY)
        if before is not None:
            return int(before) + int(metadata.fetchTotalInsertRecordsWritten())
    return None
