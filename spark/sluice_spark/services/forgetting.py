"""Forgets a row: removes its key from the table's files and from the history table's, with all older versions of them.

The key itself is nowhere in the request, only its hash (`sluice.changes.forgotten`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Callable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.forgotten import marks, with_mark
from sluice.config.table import MOR
from sluice.hudi import own_metadata
from sluice.hudi.own_metadata import are_as_stored
from sluice.hudi.timeline import instant_ms, instant_of_ms
from sluice.services.requests import ServiceReport, SliceDone
from sluice_spark.errors import RowRemains, TooManyForgotten
from sluice_spark.hudi import housekeeping
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import instants
from sluice_spark.hudi.late_files import remove_late_files
from sluice_spark.hudi.recovery import recovered_facts
from sluice_spark.hudi.table import HudiTable
from sluice_spark.iceberg.follow import IcebergTable
from sluice_spark.iceberg.keep_up import before_cleaning, has_iceberg
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.merge.by_spark.latest import key_hash_column
from sluice_spark.services.work import ServiceSlice, purging, write_removal

_KEY, _FILE = "_hoodie_record_key", "_hoodie_file_name"


@dataclass(frozen=True)
class _Removed:
    """What was removed of one table: rows, the files that held them, and older files. `position` is the highest."""

    rows: int = 0
    files: int = 0
    cleaned: int = 0
    bytes: int = 0
    position: str | None = None
    instant: str | None = None


def forget(given: ServiceSlice) -> SliceDone:
    """Remove the row whose key has the hash of the request. Repeating it after a crash at any point finishes the work.

    A mark is kept in the table's properties first, so that no older change of the key comes back, not even in a replay.
    Then every file that no reader of the present needs is deleted, whether or not the table has the row: there is no
    time travel to before. Raises RowRemains, TooManyForgotten.
    """
    hudi, config, services, key = given.hudi, given.hudi.config, given.services, given.arguments["key"]
    of_key = key_hash_column(config.table, config.record_key) == F.lit(key)
    noted = given.facts.forgotten

    def mark(position: str) -> None:
        nonlocal noted
        longer = with_mark(noted, key, position)
        if longer is None:
            raise TooManyForgotten(f"{config.table} has no room for another mark", table=config.table)
        given.check_held()
        hudi.jvm.update_properties(hudi.meta_client(), {own_metadata.FORGOTTEN_PROPERTY: longer})
        noted = longer

    of_history = _Removed()
    if config.history:
        own = config.history_table
        services.tables.take(own)
        history = HudiTable(hudi.jvm.spark, services.table_path(own.database, own.name), own)
        if history.exists():
            held = recovered_facts(history, services.log)
            held = history.date_anew(held, now_ms=services.clock.now_ms, wait=services.clock.wait)
            if not held.empty:
                # Marked too: a purge may have left the row to the history alone, which has no floor against a replay.
                of_history = _remove(history, held, given, of_key=of_key, mark=mark)
    removed = _remove(hudi, given.facts, given, of_key=of_key, mark=mark)
    services.log.event("forgotten", table=config.table, rows=removed.rows, history_rows=of_history.rows)
    return SliceDone(
        ServiceReport(
            files_before=removed.files + removed.cleaned + of_history.files + of_history.cleaned,
            bytes_before=removed.bytes + of_history.bytes,
            rows=removed.rows,
            instant=removed.instant,
            more={
                "history_rows": of_history.rows,
                "older_files": removed.cleaned + of_history.cleaned,
                "marked": int(key in marks(noted)),
            },
        )
    )


def _remove(
    hudi: HudiTable, facts: TableFacts, given: ServiceSlice, *, of_key: SparkColumn, mark: Callable[[str], None]
) -> _Removed:
    """Remove the rows that `of_key` selects, and every older file. `mark` is called before.

    Where there is no row, the counts are those of the commit that has removed it: an attempt before may have died.
    """
    check_held, key = given.check_held, given.arguments["key"]
    if hudi.config.table_type == MOR:  # no row may be left in a log
        check_held()
        hudi.compact_all()
        facts = hudi.look()
    rows = hudi.rows().where(of_key)
    rows_found = rows.select(_KEY, _FILE, quoted(hidden.POSITION).alias("position")).collect()
    removed = _Removed(len(rows_found), len({row[_FILE] for row in rows_found}))
    if rows_found:
        removed = replace(removed, position=max(row["position"] for row in rows_found))
        mark(str(removed.position))
        metadata = own_metadata.forgotten_metadata(hudi.config.table, key, rows=removed.rows, files=removed.files)
        # A record index holds keys, so it is left out: Hudi then deletes the metadata table, and a later write makes it
        # anew.
        with purging(hudi, facts, check_held):
            write_removal(hudi, rows, facts, metadata)
    else:
        removed = _removed_before(hudi, key)
    check_held()
    remove_late_files(hudi, check_held)
    newest = hudi.look().newest or ""
    # Just after the newest instant: as of the instant itself, a reader needs the files from before it too.
    horizon = instant_of_ms(instant_ms(newest) + 1)
    before_delete = before_cleaning(hudi, given.services, check_held)
    cleaned = housekeeping.clean(hudi, horizon=horizon, check_held=check_held, before_delete=before_delete)
    if not has_iceberg(hudi):  # of a time when its rule said so
        IcebergTable(given.services.objects, hudi.path, hudi.config).remove()
    names = given.hudi.config.record_key
    _require_gone(hudi, facts, of_key=of_key, names=names, keys=sorted({row[_KEY] for row in rows_found}))
    return replace(
        removed,
        cleaned=cleaned.files,
        bytes=cleaned.bytes,
        instant=cleaned.instant or (newest if rows_found else removed.instant),
    )


def _removed_before(hudi: HudiTable, key: str) -> _Removed:
    """What the newest commit that forgot this key removed; nothing where the timeline has none."""
    timeline = hudi.meta_client().getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    for instant in reversed(instants(timeline)):
        noted = timeline.readCommitMetadata(instant).getExtraMetadata().get(own_metadata.FORGOTTEN_KEY)
        counts = own_metadata.forgotten_counts(noted, key)
        if counts is not None:
            return _Removed(*counts, instant=str(instant.requestedTime()))
    return _Removed()


def _require_gone(
    hudi: HudiTable, facts: TableFacts, *, of_key: SparkColumn, names: Sequence[str], keys: Sequence[str]
) -> None:
    """Look for the key in every base file that is left, also one that no reader uses.

    By the columns of the key; where a file may have one of them in a narrower type, by the record keys that were found.
    """
    assert facts.schema is not None
    key = StructType([facts.schema[name] for name in names])
    files = hudi.jvm.spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    if are_as_stored(
        facts.widened, {field.name: field.dataType.simpleString() for field in key.fields}, oldest_file=""
    ):
        left = files.schema(key).parquet(hudi.path).where(of_key).count()
    else:
        left = files.schema(f"{_KEY} string").parquet(hudi.path).where(F.col(_KEY).isin(list(keys))).count()
    if left:
        raise RowRemains(
            f"{hudi.config.table} still has {left} rows of the key in its files", table=hudi.config.table, rows=left
        )
