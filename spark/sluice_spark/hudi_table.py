"""One Hudi table: created and checked, rolled back, asked for a batch, written to."""
from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StructType, TimestampType

from sluice import hudi_options, index_choice, own_metadata, write_sizes
from sluice.table_config import AUTO, COW, TableConfig
from sluice_spark.hudi_errors import ClockBehind, CommitNotNewest, StillUnfinished, TableDiffers
from sluice_spark.hudi_jvm import HudiJvm, instants

# An instant that is ahead by less than this is waited for: two drivers' clocks differ by milliseconds, not minutes.
LONGEST_CLOCK_WAIT_MS = 15_000
# Each file's name is a round trip to the JVM; a table of more files gains nothing by being read by name.
MOST_FILES_BY_NAME = 200
# A batch's commit is younger than its manifest by the clock of the same driver; another driver's may differ, by less than this.
CLOCK_MARGIN_MS = 3_600_000
# For the number of rows: services commit between batches, seldom more than a few in a row. Each is a request.
COMMITS_LOOKED_AT = 5
_COMMIT, _DELTA_COMMIT, _REPLACE, _COMPACTION = "commit", "deltacommit", "replacecommit", "compaction"
_CLEAN, _ROLLBACK, _REQUESTED = "clean", "rollback", "REQUESTED"


@dataclass(frozen=True)
class TableFacts:
    """What one look at the table tells.

    `newest` is the newest instant of any kind, `schema` the columns without Hudi's own (None before the
    first commit), `commits` how many the active timeline has, `properties_added` what readers needed and the table's file lacked, `floor` the position of
    the newest truncate, `purged` the highest position of a row that was purged, `purging` whether a purge was cut off in log files, `unfinished` whether
    something on the timeline is, `record_index` whether the table has one, `rows` how many it holds, deleted ones included, as far as
    commits tell (None where none does), `meta_client` Hudi's own view of that moment.
    """

    newest: Optional[str]
    schema: Optional[StructType]
    commits: int
    properties_added: Tuple[str, ...] = ()
    floor: Optional[str] = None
    purged: Optional[str] = None
    purging: bool = False
    unfinished: bool = False
    record_index: bool = False
    rows: Optional[int] = None
    meta_client: Any = field(default=None, compare=False, repr=False)

    @property
    def empty(self) -> bool:
        """Whether nothing was ever committed."""
        return self.schema is None


@dataclass(frozen=True)
class CommitResult:
    """A commit that is on the timeline: its instant, what its write statistics count, and the table as it is after it."""

    instant: str
    counts: Mapping[str, int] = field(default_factory=dict)
    facts: Optional[TableFacts] = None


class HudiTable:
    """A table at a path, with its configuration. Not shared between threads: one per part of a batch."""

    def __init__(self, spark: SparkSession, path: str, config: TableConfig) -> None:
        self.path = path.rstrip("/")
        self.config = config
        self._spark = spark
        self._jvm = HudiJvm(spark)
        self.cores = spark.sparkContext.defaultParallelism  # tasks that run at once

    def exists(self) -> bool:
        """Whether the table has been created."""
        return self._jvm.exists(f"{self.path}/{hudi_options.PROPERTIES_FILE}")

    def ensure_created(self) -> bool:
        """Create the table if it isn't there; True if this call did. Its properties are explicit: none is left to a first write."""
        if self.exists():
            return False
        values = hudi_options.creation_properties(self.config)
        self._jvm.create_table(
            self.path, values, table_type=hudi_options.hudi_type(self.config), key_generator=hudi_options.key_generator(self.config)
        )
        return True

    def look(self) -> TableFacts:
        """Check the table's properties and read its timeline, both from one listing.

        Checked is what readers depend on (rule 8) and what can't change (rule 18). A property that some
        reader needs and the file lacks is added. Raises TableDiffers naming every difference.
        """
        meta_client = self._jvm.meta_client(self.path)
        properties, found = hudi_options.table_properties(self.config), self._jvm.table_properties(meta_client)
        differences = hudi_options.differing(properties, found)
        if differences:
            told = "; ".join(f"{name} is {had!r}, not {wanted!r}" for name, (had, wanted) in sorted(differences.items()))
            raise TableDiffers(f"{self.config.table}: {told}", table=self.config.table, differences=differences)
        missing = hudi_options.absent(properties, found)
        if missing:
            self._jvm.update_properties(meta_client, missing)
        return replace(self._facts(meta_client), properties_added=tuple(sorted(missing)))

    def _facts(self, meta_client: Any) -> TableFacts:
        timeline = meta_client.getActiveTimeline()
        commits = timeline.getCommitsTimeline().filterCompletedInstants()
        count = int(commits.countInstants())
        newest = timeline.lastInstant()
        return TableFacts(
            newest=str(newest.get().requestedTime()) if newest.isPresent() else None,
            schema=self._jvm.table_schema(meta_client) if count else None,
            commits=count,
            floor=self._jvm.table_property(meta_client, own_metadata.FLOOR_PROPERTY),
            purged=self._jvm.table_property(meta_client, own_metadata.PURGED_PROPERTY),
            purging=bool(self._jvm.table_property(meta_client, own_metadata.UNPURGED_PROPERTY)),
            unfinished=bool(timeline.filterInflightsAndRequested().countInstants()),
            record_index=self._has_record_index(meta_client),
            rows=_rows(commits) if count else 0,
            meta_client=meta_client,
        )

    def _has_record_index(self, meta_client: Any) -> bool:
        return index_choice.has_record_index(self._jvm.table_property(meta_client, hudi_options.METADATA_PARTITIONS))

    def finds_by_record_index(self, facts: TableFacts) -> bool:
        """Whether the next write finds rows by the record index. Counts the rows where no commit tells how many there are."""
        rows = facts.rows
        if rows is None and self.config.index == AUTO and not facts.record_index:
            rows = self.stored(facts, *self.config.record_key[:1]).count()
        return index_choice.wants_record_index(self.config, has=facts.record_index, rows=rows)

    def raise_floor(self, position: str, name: str = own_metadata.FLOOR_PROPERTY) -> None:
        """Remember durably that what is not newer than a position loses, also for keys that the table never had."""
        meta_client = self._jvm.meta_client(self.path)
        found = self._jvm.table_property(meta_client, name)
        if found is None or found < position:
            self._jvm.update_properties(meta_client, {name: position})

    def set_purging(self, instant: str) -> None:
        """Remember durably that log files hold rows that are being removed (empty: no longer)."""
        self._jvm.update_properties(self._jvm.meta_client(self.path), {own_metadata.UNPURGED_PROPERTY: instant})

    def stored(self, facts: TableFacts, *columns: str) -> DataFrame:
        """The table's rows as of its newest commit, deleted ones included, with only these columns.

        An unpartitioned copy-on-write table is read from its newest files directly, as the timeline that
        `facts` were taken from names them: Hudi's data source lists the whole timeline three times more.
        """
        reader = self._spark.read
        if self.config.table_type == COW and not self.config.partition_by and facts.meta_client is not None and facts.schema is not None:
            files = self._jvm.newest_files(facts.meta_client, MOST_FILES_BY_NAME)
            if files:
                return reader.schema(StructType([facts.schema[name] for name in columns])).parquet(*files)
        return reader.format("hudi").options(**hudi_options.read_options()).load(self.path).select(*columns)

    def size_bytes(self, facts: TableFacts) -> int:
        """Bytes of the newest files, old versions of rows left out."""
        return self._jvm.size_bytes(facts.meta_client)

    def rollback_unfinished(self) -> Tuple[str, ...]:
        """Undo every commit, delta commit and service instant that somebody left unfinished (rule 4).

        This fences a writer that wakes up late: its instant is gone, so it can't complete it. A requested
        compaction plan stays; one that was running goes back to requested. A cleaning that was running is
        finished, since what it deleted can't come back. Returns the instants, oldest first.
        """
        found = self._unfinished(self._jvm.meta_client(self.path))
        if not found:
            return ()
        client = self.client()
        try:
            for instant in reversed(found):  # newest first, as Hudi's own cleaning of failed writes does
                self._roll_back(client, instant)
        finally:
            client.close()
        left = self._unfinished(self._jvm.meta_client(self.path))
        if left:
            raise StillUnfinished(f"{self.config.table} still has unfinished instants", table=self.config.table, instants=[_text(item) for item in left])
        return tuple(str(instant.requestedTime()) for instant in found)

    def _unfinished(self, meta_client: Any) -> Tuple[Any, ...]:
        pending = instants(meta_client.getActiveTimeline().filterInflightsAndRequested())
        return tuple(item for item in pending if not (item.getAction() == _COMPACTION and str(item.getState()) == _REQUESTED))

    def _roll_back(self, client: Any, instant: Any) -> None:
        action = instant.getAction()
        if action in (_COMMIT, _DELTA_COMMIT, _REPLACE):
            client.rollback(instant.requestedTime())
        elif action == _COMPACTION:
            self._jvm.hudi_table(client).rollbackInflightCompaction(instant)
        elif action == _CLEAN:
            # Only what is pending: a plan of Hudi's own would take the active timeline for all there is.
            client.clean(instant.requestedTime(), False, False)
        elif action == _ROLLBACK:
            # Carried on by the rollback of the instant that it undoes; alone, that instant is gone and so is its purpose.
            timeline = self._jvm.meta_client(self.path).getActiveTimeline()
            if any(item.requestedTime() == instant.requestedTime() for item in instants(timeline.filterInflightsAndRequested())):
                timeline.deletePending(instant)

    def instant_of_batch(self, batch: str, table: str) -> Optional[str]:
        """The completed instant that holds a batch's part of this table, found by its metadata; None if there is none."""
        found = self.commit_of_batch(batch) if table == self.config.table else None
        return None if found is None else found.instant

    def commit_of_batch(self, batch: str, *, since_ms: int = 0) -> Optional[CommitResult]:
        """The completed commit that carries the batch's id and this table's name; None if there is none.

        Commits from long before `since_ms`, when the batch was made, are not opened: each is a request.
        """
        timeline = self._jvm.meta_client(self.path).getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        earliest = instant_of_ms(max(0, since_ms - CLOCK_MARGIN_MS))
        return self._find(timeline.findInstantsAfter(earliest), batch)

    def _find(self, timeline: Any, batch: str) -> Optional[CommitResult]:
        for instant in reversed(instants(timeline)):
            metadata = timeline.readCommitMetadata(instant)
            extra = metadata.getExtraMetadata()
            if extra.get(own_metadata.BATCH_KEY) == batch and extra.get(own_metadata.TABLE_KEY) == self.config.table:
                return CommitResult(str(instant.requestedTime()), _statistics(metadata))
        return None

    def wait_until_past_newest(self, newest: Optional[str], *, now_ms: Callable[[], int], wait: Callable[[float], None]) -> None:
        """Return once the clock is past the newest instant of the timeline (rule 7).

        Instants come from the driver's clock. Raises ClockBehind when it is behind by more than seconds.
        """
        if newest is None:
            return
        limit = instant_ms(newest)
        while now_ms() <= limit:
            behind = limit - now_ms()
            if behind > LONGEST_CLOCK_WAIT_MS:
                raise ClockBehind(f"{self.config.table} holds instant {newest}, {behind} ms ahead of this clock", table=self.config.table, instant=newest, behind_ms=behind)
            wait((behind + 1) / 1000)

    def write(self, rows: DataFrame, *, operation: str, batch: str, run: str, facts: TableFacts, size_bytes: int) -> CommitResult:
        """Commit rows, one per key, and return the commit once it is seen on the timeline as the newest write.

        `facts` are what was true just before. An exception doesn't say that nothing was committed: roll
        back and ask for the batch (rule 4).
        """
        options = hudi_options.write_options(
            self.config,
            operation=operation,
            parallelism=write_sizes.shuffle_tasks(size_bytes, self.cores),
            arrays=any(isinstance(field.dataType, ArrayType) for field in rows.schema.fields),
            timestamp_key=has_timestamp_key(self.config, rows),
            record_index=self.finds_by_record_index(facts),
            rows=facts.rows,
        )
        metadata = hudi_options.commit_metadata(
            batch=batch, table=self.config.table, run=run, rows_before=0 if operation == hudi_options.REWRITE else facts.rows)
        rows.write.format("hudi").options(**options).options(**metadata).mode("append").save(self.path)
        return self._committed(batch, facts.newest)

    def _committed(self, batch: str, newest_before: Optional[str]) -> CommitResult:
        meta_client = self._jvm.meta_client(self.path)
        commits = meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        found = self._find(commits.findInstantsAfter(newest_before or "0"), batch)
        if found is None:
            raise CommitNotNewest(f"{self.config.table}: no new commit carries {batch}", table=self.config.table, batch=batch, newest_before=newest_before)
        return replace(found, facts=self._facts(meta_client))

    def compact_all(self) -> Optional[str]:
        """Merge every log file into its base file now; the instant, or None if there was nothing to merge.

        For a commit that changes a column's type: older log blocks hold the old one (rule 10).
        """
        client = self.client(hudi_options.compaction_options())
        try:
            client.runAnyPendingCompactions()
            planned = client.scheduleCompaction(self._jvm.none())
            if not planned.isPresent():
                return None
            instant = planned.get()
            outcome = client.compact(instant)
            client.commitCompaction(instant, outcome.getCommitMetadata().get(), self._jvm.none())
            return str(instant)
        finally:
            client.close()

    def client(self, more: Optional[Dict[str, str]] = None) -> Any:
        """A client of Hudi's for rollback and table services, with the table's options and `more`. Close it."""
        meta_client = self._jvm.meta_client(self.path)
        options = {**hudi_options.client_options(self.config, parallelism=self.cores, record_index=self._has_record_index(meta_client)), **(more or {})}
        schema = self._jvm.avro_schema(meta_client)
        return self._jvm.write_client(self.path, self.config.name, options, schema)


def has_timestamp_key(config: TableConfig, rows: DataFrame) -> bool:
    """Whether a column of the record key is a timestamp."""
    return any(isinstance(field.dataType, TimestampType) for field in rows.schema.fields if field.name in config.record_key)


def instant_ms(instant: str) -> int:
    """Epoch milliseconds of an instant "yyyyMMddHHmmssSSS", whose time zone is UTC by the table's own property."""
    digits = re.sub(r"\D", "", instant)
    moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1000 + int((digits[14:17] or "999").ljust(3, "0"))


def instant_of_ms(epoch_ms: int) -> str:
    """The instant of a moment, in UTC."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
    return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"


def _statistics(metadata: Any) -> Dict[str, int]:
    """What Hudi counted: `rewritten` are all rows of the files that were written, changed or not."""
    return {
        "inserted": int(metadata.fetchTotalInsertRecordsWritten()),
        "updated": int(metadata.fetchTotalUpdateRecordsWritten()),
        "rewritten": int(metadata.fetchTotalRecordsWritten()),
        "bytes_written": int(metadata.fetchTotalBytesWritten()),
        "files_written": int(metadata.fetchTotalFilesInsert()) + int(metadata.fetchTotalFilesUpdated()),
    }


def _rows(commits: Any) -> Optional[int]:
    """The rows of a table by the newest commit that counts them; services' commits don't, and change none.

    An estimate: a row that moved to another partition counts as inserted, and what is purged stays counted.
    """
    for instant in reversed(instants(commits)[-COMMITS_LOOKED_AT:]):
        metadata = commits.readCommitMetadata(instant)
        before = metadata.getExtraMetadata().get(own_metadata.ROWS_KEY)
        if before is not None:
            return int(before) + int(metadata.fetchTotalInsertRecordsWritten())
    return None


def _text(instant: Any) -> str:
    return f"{instant.requestedTime()}.{instant.getAction()}.{instant.getState()}"
