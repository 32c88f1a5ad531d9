"""Keeps a table's active timeline short without giving up the files that time travel needs."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple

from sluice import hudi_options
from sluice_spark.hudi_errors import CleaningUnfinished
from sluice_spark.hudi_jvm import HudiJvm
from sluice_spark.hudi_table import HudiTable, instant_ms, instant_of_ms
from sluice_spark.known_tables import KnownTables


@dataclass(frozen=True)
class Housekept:
    """What was done: `cleaning` is its instant, None when none was due or there was nothing; `files` how many it deleted; `archived` how many commits left the active timeline."""

    cleaning: Optional[str]
    files: int
    archived: int


def keep_house(hudi: HudiTable, jvm: HudiJvm, *, now_ms: int, known: KnownTables) -> Housekept:
    """Clean by age if that is due, then archive by number. For the lane's holder, between two commits.

    `known` remembers cleanings that found nothing. A cut at any place is mended by what every take-over does first: a cleaning that was requested is
    carried out, and archival starts anew. Raises CleaningUnfinished.
    """
    before = jvm.meta_client(hudi.path)
    commits = _commits(before)
    cleaned = before.getActiveTimeline().getCleanerTimeline().filterCompletedInstants().lastInstant()
    done_ms = instant_ms(str(cleaned.get().requestedTime())) if cleaned.isPresent() else None
    looked_ms = known.cleaned_at(hudi.config)
    last_ms = max((moment for moment in (done_ms, looked_ms) if moment is not None), default=None)
    instant, files = None, 0
    if hudi_options.cleaning_due(hudi.config, last_cleaned_ms=last_ms, now_ms=now_ms):
        known.keep_cleaned(hudi.config, now_ms)
        instant, files = _clean(hudi, jvm, horizon=instant_of_ms(hudi_options.cleaning_horizon_ms(hudi.config, now_ms)))
    if commits > hudi_options.MAX_COMMITS:
        _archive(hudi)
    return Housekept(instant, files, commits - _commits(jvm.meta_client(hudi.path)))


def _clean(hudi: HudiTable, jvm: HudiJvm, *, horizon: str) -> Tuple[Optional[str], int]:
    client = hudi.client(hudi_options.cleaning_options())
    try:
        instant = str(client.createNewInstantTime())
        planned = jvm.save_cleaner_plan(
            jvm.hudi_table(client), client, instant, horizon=horizon, policy=hudi_options.CLEANING_POLICY, partitioned=bool(hudi.config.partition_by))
        if not planned:
            return None, 0
        client.clean(instant, False, False)
    finally:
        client.close()
    done = jvm.meta_client(hudi.path).getActiveTimeline().getCleanerTimeline().filterCompletedInstants()
    if not done.containsInstant(instant):  # Hudi logs what went wrong in a cleaning, and returns
        raise CleaningUnfinished(f"{hudi.config.table}: cleaning {instant} was requested and not completed", table=hudi.config.table, instant=instant)
    return instant, sum(planned.values())


def _archive(hudi: HudiTable) -> None:
    client = hudi.client(hudi_options.archival_options())
    try:
        client.archive()
    finally:
        client.close()


def _commits(meta_client: Any) -> int:
    return int(meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().countInstants())
