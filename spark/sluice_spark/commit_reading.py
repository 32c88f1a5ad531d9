"""What completed commits tell: whose batch one holds, what it counts, and how many rows its table has."""

from __future__ import annotations

from typing import Any, Dict, Optional

from sluice import own_metadata
from sluice_spark.hudi_jvm import instants
from sluice_spark.table_facts import CommitResult

# For the number of rows: services commit between batches, seldom more than a few in a row. Each is a request.
COMMITS_LOOKED_AT = 5


def commit_of(timeline: Any, *, batch: str, table: str) -> Optional[CommitResult]:
    """The newest commit of a timeline that carries the batch's id and the table's name; None if there is none. Each commit that is opened is a request."""
    for instant in reversed(instants(timeline)):
        metadata = timeline.readCommitMetadata(instant)
        extra = metadata.getExtraMetadata()
        if extra.get(own_metadata.BATCH_KEY) == batch and extra.get(own_metadata.TABLE_KEY) == table:
            return CommitResult(str(instant.requestedTime()), statistics(metadata))
    return None


def statistics(metadata: Any) -> Dict[str, int]:
    """What Hudi counted: `rewritten` are all rows of the files that were written, changed or not."""
    return {
        "inserted": int(metadata.fetchTotalInsertRecordsWritten()),
        "updated": int(metadata.fetchTotalUpdateRecordsWritten()),
        "rewritten": int(metadata.fetchTotalRecordsWritten()),
        "bytes_written": int(metadata.fetchTotalBytesWritten()),
        "files_written": int(metadata.fetchTotalFilesInsert()) + int(metadata.fetchTotalFilesUpdated()),
    }


def rows_told(commits: Any) -> Optional[int]:
    """The rows of a table by the newest commit that counts them; services' commits don't, and change none.

    An estimate: a row that moved to another partition counts as inserted, and what is purged stays counted.
    """
    for instant in reversed(instants(commits)[-COMMITS_LOOKED_AT:]):
        metadata = commits.readCommitMetadata(instant)
        before = metadata.getExtraMetadata().get(own_metadata.ROWS_KEY)
        if before is not None:
            return int(before) + int(metadata.fetchTotalInsertRecordsWritten())
    return None
