"""The error that ends a run at once: another run holds the lane.

The errors that end a run because Spark is gone or isn't fit for it: no table's fault, so no table is blamed for them.

What can be wrong with a Hudi table or a commit to it.
"""

from __future__ import annotations

from sluice.errors import SluiceError


class LaneLost(SluiceError):
    """This job run no longer holds its lane: it stops without another write, and the holder takes over."""

    code = "lane_lost"
    next_step = "Nothing to do: the run that holds the lane takes over"


class SparkDied(SluiceError):
    """The JVM or its Spark context has ended under the driver. The run dies; the next one takes over."""

    code = "spark_died"
    retriable = True
    next_step = "Look at the driver's stderr for the end of the JVM; too little memory is the usual cause"


class NoBundle(SluiceError):
    """Spark's class path has no Hudi bundle."""

    code = "no_hudi_bundle"
    next_step = "Set the parameter HudiJars to a Hudi bundle for this Spark, and deploy again"


ENDS_RUN = (SparkDied, NoBundle)


class TableDiffers(SluiceError):
    """A table's own properties say otherwise than its configuration; facts: `differences`."""

    code = "table_differs"
    next_step = "Put the table's configuration back, or write the table anew: `sluice pause LANE`, `sluice rebuild table TABLE`, `sluice resume LANE`"


class ClockBehind(SluiceError):
    """The table holds an instant that this driver's clock has not reached: a commit would be invisible (rule 7)."""

    code = "clock_behind"
    retriable = True
    next_step = "Wait until the clock passes the instant, or correct the clock of what wrote it"


class CommitNotNewest(SluiceError):
    """A commit returned and is not the newest instant of its table, or not there at all (rule 7)."""

    code = "commit_not_newest"
    next_step = "Stop the lane and compare the driver's clock with the table's timeline"


class StillUnfinished(SluiceError):
    """A rollback left an instant unfinished."""

    code = "still_unfinished"
    retriable = True
    next_step = "The next attempt rolls back again; if it persists, look at the table's timeline"


class CleaningUnfinished(SluiceError):
    """A cleaning was requested and did not complete; facts: `instant`."""

    code = "cleaning_unfinished"
    retriable = True
    next_step = "The next run carries it out; if it persists, look for a table's files that can't be deleted"


class ServiceUnfinished(SluiceError):
    """A table service was carried out and its commit is not on the timeline; facts: `instant`."""

    code = "service_unfinished"
    retriable = True
    next_step = "The next slice begins with a roll-back; if it persists, look at the table's timeline"


class ServiceNotForTable(SluiceError):
    """A service was asked for that has nothing to do with a table of this kind; facts: `service`, `table`."""

    code = "service_not_for_table"
    next_step = "Ask for it where it applies: compaction for merge-on-read, clustering with cluster_by, purge with delete_mode hard"


class BelowPurgeFloor(SluiceError):
    """A change of a row that the table no longer has, at or below the position of what was purged: its deletion may be what is newer."""

    code = "below_purge_floor"
    next_step = "The table's horizon for purging is shorter than this change was late; read the row at the source and write it there again if it is to be there"


class UnknownJobRun(SluiceError):
    """The driver can't tell which job run it is, so it can't hold a lane."""

    code = "unknown_job_run"
    next_step = "Start the driver by StartJobRun, or give --job-run-id"


class ManifestMissing(SluiceError):
    """The ledger names a manifest that is not in S3, though it is written there first; facts: `key`, `batch`."""

    code = "manifest_missing"
    next_step = "Restore the object in the silver bucket, whose versions or backup hold it; the lane goes on from there"
