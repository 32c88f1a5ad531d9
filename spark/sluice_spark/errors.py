"""The errors of a run: a lost lane, a Spark that ended or doesn't fit, and failures of a Hudi table or a commit.

ENDS_RUN are the errors that no table causes: they end the run, and no table backs off for them. After one of
BLOCKS_TABLE no run writes the table until an operator decides what it shall hold.
"""

from __future__ import annotations

from sluice.errors import SluiceError, TableWentBack


class LaneLost(SluiceError):
    """This job run no longer holds its lane. It stops without another write, and the holder takes over."""

    code = "lane_lost"
    next_step = "Nothing to do: the run that holds the lane takes over"


class SparkDied(SluiceError):
    """The JVM or its Spark context has ended under the driver. The run dies; the next one takes over."""

    code = "spark_died"
    retriable = True
    next_step = "Look at the driver's stderr for the end of the JVM; too little memory is the usual cause"


class WriteUndone(SluiceError):
    """A write met another writer, who rolled it back or made an instant beside it; it is undone. Facts: `instant`."""

    code = "write_undone"
    retriable = True
    next_step = "Nothing to do: the part is merged again"


class NoBundle(SluiceError):
    """Spark's class path has no Hudi bundle."""

    code = "no_hudi_bundle"
    next_step = "Set the parameter HudiJars to a Hudi bundle for this Spark, and deploy again"


class InstantCameBack(SluiceError):
    """A stopped writer completed an instant after its roll-back, rows are there twice, and it can't be undone alone.

    Facts: `table`, `instant`.
    """

    code = "instant_came_back"
    next_step = "Rebuild the table: `sluice pause LANE`, `sluice rebuild table TABLE`, `sluice resume LANE`"


ENDS_RUN = (SparkDied, NoBundle)


class TableDiffers(SluiceError):
    """A table's own properties differ from its configuration; facts: `differences`."""

    code = "table_differs"
    next_step = (
        "Restore the table's configuration, or rebuild the table, with --history if it is a history table: "
        "`sluice pause LANE`, `sluice rebuild table TABLE`, `sluice resume LANE`"
    )


class ClockBehind(SluiceError):
    """The table has an instant that this driver's clock has not reached: a commit would be invisible."""

    code = "clock_behind"
    retriable = True
    next_step = "Wait until the clock passes the instant, or correct the clock of the machine that wrote it"


class CommitNotNewest(SluiceError):
    """A commit returned, and it is not the newest instant of its table or not on the timeline: rows may be hidden."""

    code = "commit_not_newest"
    next_step = (
        "Compare the clocks of the machines that wrote both instants. Then rebuild the table (`sluice rebuild table"
        " TABLE`), or run `sluice table accept TABLE` if it has the rows of the batch"
    )


BLOCKS_TABLE = (TableWentBack, InstantCameBack, CommitNotNewest)


class StillUnfinished(SluiceError):
    """An instant is still unfinished after its roll-back; facts: `instants`."""

    code = "still_unfinished"
    retriable = True
    next_step = "The next attempt rolls back again. If it persists, look at the table's timeline"


class RowsNotWritten(SluiceError):
    """Hudi did not write all rows that it was given, so they were not committed; facts: `path`."""

    code = "rows_not_written"
    retriable = True
    next_step = "The next attempt writes them again. If it persists, look at the driver's log for the cause"


class TasksLeft(SluiceError):
    """Tasks of a failed write did not end, so it is not rolled back yet; facts: `table`, `tasks`."""

    code = "tasks_left"
    retriable = True
    next_step = "The next attempt looks again. If it persists, cancel the job run: the next one takes over"


class CleaningUnfinished(SluiceError):
    """A cleaning was requested and did not complete; facts: `instant`."""

    code = "cleaning_unfinished"
    retriable = True
    next_step = "The next run carries it out. If it persists, look for files of the table that can't be deleted"


class IcebergRaced(SluiceError):
    """Somebody else wrote the Iceberg table beside a table, which only the lane's holder does; facts: `table`."""

    code = "iceberg_raced"
    retriable = True
    next_step = "Nothing to do: the next look at the table writes what is missing"


class ServiceUnfinished(SluiceError):
    """A table service was carried out and its commit is not on the timeline; facts: `instant`."""

    code = "service_unfinished"
    retriable = True
    next_step = "The next slice begins with a roll-back. If it persists, look at the table's timeline"


class ServiceNotForTable(SluiceError):
    """A service was requested that doesn't apply to this table; facts: `service`, `table`."""

    code = "service_not_for_table"
    next_step = (
        "Request it where it applies: compaction for merge-on-read, clustering with cluster_by, "
        "purge with delete_mode hard, adoption for a table with a record key and without history"
    )


class RowRemains(SluiceError):
    """A forgotten row is still in a file of its table; facts: `table`, `rows`."""

    code = "row_remains"
    retriable = True
    next_step = "The next slice removes it again. If it persists, look for files of the table that can't be deleted"


class TooManyForgotten(SluiceError):
    """A table's properties have no room for the mark of another forgotten row; facts: `table`."""

    code = "too_many_forgotten"
    next_step = (
        "Delete the objects of forgotten rows from bronze, and rebuild the table: a new table has no marks. "
        "`sluice rebuild table`"
    )


class BelowPurgeFloor(SluiceError):
    """A change at or below the purge floor, of a row that the table doesn't have: its newer deletion may be purged."""

    code = "below_purge_floor"
    next_step = "The change was later than the table's purge horizon. If the source has the row, update it there"


class RowsDiffer(SluiceError):
    """Files got other rows than were counted. They are rolled back. Facts: `table`, `counted`, `written`."""

    code = "rows_differ"
    retriable = True
    next_step = "Nothing to do: the part is merged again, by Spark"


class KeyNotUnique(SluiceError):
    """A new table's record key that rows of a snapshot share; facts: `record_key`, `rows`, `keys` (distinct)."""

    code = "key_not_unique"
    next_step = (
        "Correct the rule's record_key and push it, then "
        "`sluice quarantine retry --code key_not_unique`. Where the key is right, the rows are versions of one and"
        " need the column that orders them as `position`, or two tables share the topic, or a snapshot was read twice:"
        " `sluice quarantine discard` the objects of one"
    )


class UnknownJobRun(SluiceError):
    """The driver doesn't know the id of its job run, so it can't hold a lane."""

    code = "unknown_job_run"
    next_step = "Start the driver with StartJobRun, or pass --job-run-id"


class ManifestMissing(SluiceError):
    """The ledger names a manifest that is not in S3; facts: `key`, `batch`."""

    code = "manifest_missing"
    next_step = "Restore the object in the silver bucket from its versions or a backup; the lane then resumes"
