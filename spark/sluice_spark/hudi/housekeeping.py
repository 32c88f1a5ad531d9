"""Keeps a table's active timeline short, by cleaning and archival, and keeps the files that time travel needs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, Callable

from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice.hudi.timeline import instant_ms, instant_of_ms
from sluice_spark.errors import CleaningUnfinished
from sluice_spark.hudi.facts import KnownTables
from sluice_spark.hudi.late_files import remove_late_files
from sluice_spark.hudi.table import HudiTable

# Files whose deletion is not worth a Spark job, which may have to wait for an executor to start.
CLEANED_IN_DRIVER = 200


@dataclass(frozen=True)
class Cleaned:
    """A cleaning: its instant (None where there was nothing to delete), and the files and bytes that it deleted."""

    instant: str | None = None
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Housekept:
    """The housekeeping that was done.

    `cleaning` is the cleaning's instant, None where none was due or nothing was to be deleted, and `files` how many it
    deleted. `archived` is how many commits left the active timeline. `compacted` is the instant of a compaction that no
    service has done. `late_files` were removed: they came after the roll-back of their write.
    """

    cleaning: str | None
    files: int
    archived: int
    compacted: str | None = None
    late_files: tuple[str, ...] = ()


# Called before a cleaning with its instant and its horizon.
BeforeDelete = Callable[[str, str], None]


def _nothing(instant: str, horizon: str) -> None:
    """Nobody else reads the table's files."""


def keep_house(
    hudi: HudiTable,
    *,
    now_ms: int,
    tables: KnownTables,
    check_held: Callable[[], None] = lambda: None,
    before_delete: BeforeDelete = _nothing,
) -> Housekept:
    """Clean by age where that is due, then archive by number. For the lane's holder, between two commits.

    The services of the same names do this on request; here it bounds a table that commits faster than they run.
    `tables` keeps when a cleaning found nothing. A crash at any point is made good by the table's next write: a
    requested cleaning is carried out, and archival starts again. Raises CleaningUnfinished.
    """
    before = hudi.meta_client()
    timeline = before.getActiveTimeline()
    compacted = (
        hudi.compact_all()
        if hudi.config.table_type == MOR and write_choices.served(hudi.config) and _unserved(timeline)
        else None
    )
    last = timeline.getCleanerTimeline().filterCompletedInstants().lastInstant()
    done_ms = instant_ms(str(last.get().requestedTime())) if last.isPresent() else None
    looked_ms = tables.cleaned_at(hudi.config)
    last_ms = max((moment for moment in (done_ms, looked_ms) if moment is not None), default=None)
    cleaned = Cleaned()
    if write_choices.cleaning_due(hudi.config, last_cleaned_ms=last_ms, now_ms=now_ms):
        tables.keep_cleaned(hudi.config, now_ms)
        cleaned = clean(hudi, horizon=horizon_at(hudi, now_ms), check_held=check_held, before_delete=before_delete)
    archived, late_files = archive(hudi, check_held)
    return Housekept(cleaned.instant, cleaned.files, archived, compacted, late_files)


def horizon_at(hudi: HudiTable, now_ms: int) -> str:
    """The instant from which time travel must work."""
    return instant_of_ms(write_choices.cleaning_horizon_ms(hudi.config, now_ms))


def clean(
    hudi: HudiTable,
    *,
    horizon: str,
    check_held: Callable[[], None] = lambda: None,
    before_delete: BeforeDelete = _nothing,
) -> Cleaned:
    """Delete the files that no reader as of the instant `horizon` or later needs. Raises CleaningUnfinished."""
    with closing(hudi.client(hudi_options.CLEANING_OPTIONS, in_driver=True)) as client:
        instant = str(client.createNewInstantTime(True))
        check_held()
        before_delete(instant, horizon)
        planned = hudi.jvm.save_cleaner_plan(
            hudi.jvm.hudi_table(client),
            client,
            instant,
            horizon=horizon,
            policy=hudi_options.CLEANING_POLICY,
            partitioned=bool(hudi.config.partition_by),
        )
        if not planned:
            return Cleaned()
        size = hudi.jvm.cleaner_plan_bytes(hudi.meta_client(), instant)
        if sum(planned.values()) <= CLEANED_IN_DRIVER:
            hudi.jvm.carry_out_cleaning(client, instant)
        else:
            with closing(hudi.client(hudi_options.CLEANING_OPTIONS)) as spark_client:
                hudi.jvm.carry_out_cleaning(spark_client, instant)
    done = hudi.meta_client().getActiveTimeline().getCleanerTimeline().filterCompletedInstants()
    if not done.containsInstant(instant):  # Hudi logs a failure of a cleaning, and returns
        raise CleaningUnfinished(
            f"{hudi.config.table}: cleaning {instant} was requested and not completed",
            table=hudi.config.table,
            instant=instant,
        )
    return Cleaned(instant, sum(planned.values()), size)


def archive(hudi: HudiTable, check_held: Callable[[], None]) -> tuple[int, tuple[str, ...]]:
    """Shorten the active timeline where it is longer than MAX_COMMITS. Returns how many commits left it.

    First removes the files that came after the roll-back of their write: archival would make rows of them. These are
    returned, too.
    """
    before = _commits(hudi.meta_client())
    if before <= hudi_options.MAX_COMMITS:
        return 0, ()
    late = remove_late_files(hudi, check_held)
    check_held()
    with closing(hudi.client(hudi_options.archival_options(), in_driver=True)) as client:
        client.archive()
    return before - _commits(hudi.meta_client()), late


def _unserved(timeline: Any) -> bool:
    """True where so many delta commits came since the last compaction that no service seems to do it."""
    compacted = timeline.getCommitTimeline().filterCompletedInstants().lastInstant()
    since = timeline.getDeltaCommitTimeline().filterCompletedInstants()
    if compacted.isPresent():
        since = since.findInstantsAfter(compacted.get().requestedTime())
    return int(since.countInstants()) >= write_choices.UNSERVED_DELTA_COMMITS


def _commits(meta_client: Any) -> int:
    return int(meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().countInstants())
