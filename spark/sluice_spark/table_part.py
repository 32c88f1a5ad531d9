"""One table's part of one batch, to its end: merged and settled, or returned to pending after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Optional, Set

from sluice.errors import SluiceError
from sluice.identity import ObjectId
from sluice.lane import backoff_ms
from sluice.manifest import Manifest
from sluice.outcome import COMMITTED, Outcome

from sluice_spark.lane_hold import LaneHold
from sluice_spark.lane_lost import LaneLost
from sluice_spark.ports import Clock, Ledger, Log, Manifests, Merger
from sluice_spark.profile import Profile
from sluice_spark.run_log import describe
from sluice_spark.spark_died import ENDS_RUN

SETTLED = "settled"
RETURNED = "returned"  # the table failed: its objects are pending again, under back-off
UNRESOLVED = "unresolved"  # not even its timeline could be read: the part stays claimed, and is resolved later


@dataclass(frozen=True)
class PartEnd:
    """How a part ended. `retry_at` (epoch ms) is when a failed table may be tried again."""

    table: str
    end: str
    outcome: Optional[Outcome] = None
    retry_at: Optional[int] = None


class TableParts:
    """Runs parts. Called from several threads, one table each; a failure stays with its table."""

    def __init__(
        self, *, ledger: Ledger, manifests: Manifests, merger: Merger, hold: LaneHold, clock: Clock, log: Log
    ) -> None:
        self._ledger = ledger
        self._manifests = manifests
        self._merger = merger
        self._hold = hold
        self._clock = clock
        self._log = log
        self._pinned: Set[str] = set()  # by this run: saves a write per commit

    def run(self, manifest: Manifest, table: str, claimed: FrozenSet[ObjectId], profile: Profile) -> PartEnd:
        """Merge a part for the first time. Raises LaneLost; a table's own failure is an end, not an error."""
        self._hold.check()
        if not claimed:  # every object of it went elsewhere between the query and the claim
            return self._settle(manifest, table, claimed, self._nothing(manifest, table), profile)
        try:
            with profile.stage("merge"):
                outcome = self._merger.merge(manifest, table, self._hold.still_held)
        except (LaneLost, *ENDS_RUN) as ended:
            raise self._noted(ended)
        except Exception as failure:  # whatever a table's data did to Spark or Hudi stops that table only (invariant 5)
            return self._after_failure(manifest, table, claimed, failure, profile)
        return self._settle(manifest, table, claimed, outcome, profile)

    def resume(self, manifest: Manifest, table: str, claimed: FrozenSet[ObjectId], profile: Profile) -> PartEnd:
        """Finish a part that an earlier run, or an earlier attempt of this one, left unsettled (rule 4).

        First roll back and look on the timeline, then settle what is there or run the part again.
        """
        self._hold.check()
        try:
            outcome = self._resolved(manifest, table, profile)
        except (LaneLost, *ENDS_RUN) as ended:
            raise self._noted(ended)
        except Exception as failure:
            return self._unresolved(manifest, table, failure)
        if outcome is None:
            return self.run(manifest, table, claimed, profile)
        return self._settle(manifest, table, claimed, outcome, profile)

    def _noted(self, ended: SluiceError) -> SluiceError:
        """What ends the whole run. A lost lane is remembered before any other thread writes."""
        if isinstance(ended, LaneLost):
            self._hold.lose()
        return ended

    def _nothing(self, manifest: Manifest, table: str) -> Outcome:
        return Outcome(manifest.batch, table, COMMITTED, self._clock.now_ms(), no_change=True)

    def _resolved(self, manifest: Manifest, table: str, profile: Profile) -> Optional[Outcome]:
        """What is known to have been committed of this part; None when it has to be run again.

        An outcome in S3 was written after its commit, or says that no commit was needed, so it stands as far as
        the timeline bears it out; the roll back comes first all the same, since it fences a writer that wakes up late.
        """
        with profile.stage("resolve"):
            found = self._merger.resolve(manifest, table, self._hold.still_held)
            stored = self._manifests.outcome(manifest.batch, table)
        if stored is not None and stored.instant == (found.instant if found is not None else None):
            return stored  # it counts more than a timeline tells, and it alone knows of a part without a commit
        return found

    def _after_failure(
        self, manifest: Manifest, table: str, claimed: FrozenSet[ObjectId], failure: Exception, profile: Profile
    ) -> PartEnd:
        """A write may fail after its commit is there: look, and only then give the objects back.

        The merge ran in this thread, so it has ended; nothing of it can still commit.
        """
        self._hold.check()
        self._log.failure("table_failed", failure, batch=manifest.batch, table=table)
        try:
            outcome = self._resolved(manifest, table, profile)
        except (LaneLost, *ENDS_RUN) as ended:
            raise self._noted(ended)
        except Exception as second:
            return self._unresolved(manifest, table, second)
        if outcome is not None:
            self._log.event("commit_found_after_failure", batch=manifest.batch, table=table, instant=outcome.instant)
            return self._settle(manifest, table, claimed, outcome, profile)
        if not self._hold.still_held():
            self._hold.check()
        retry_at = self._back_off(table, failure)  # before the objects are pending again: nothing claims them early
        me = self._hold.identity
        generation = manifest.tables[table].table_config.generation
        if (
            self._ledger.return_to_pending(
                manifest.batch, table, sorted(claimed), manifest.lane, me.run, me.job_run_id, generation
            )
            is None
        ):
            self._hold.lose()
            self._hold.check()
        self._log.event("part_returned", batch=manifest.batch, table=table, objects=len(claimed), retry_at=retry_at)
        return PartEnd(table, RETURNED, retry_at=retry_at)

    def _unresolved(self, manifest: Manifest, table: str, failure: Exception) -> PartEnd:
        self._hold.check()
        self._log.failure("resolve_failed", failure, batch=manifest.batch, table=table)
        return PartEnd(table, UNRESOLVED, retry_at=self._back_off(table, failure))

    def _back_off(self, table: str, failure: Exception) -> int:
        failures = self._ledger.table_state(table).failures + 1
        retry_at = self._clock.now_ms() + backoff_ms(failures)
        self._ledger.record_table_error(table, describe(failure), retry_at)
        return retry_at

    def _settle(
        self, manifest: Manifest, table: str, claimed: FrozenSet[ObjectId], outcome: Outcome, profile: Profile
    ) -> PartEnd:
        """Outcome to S3 first, so that the commit's record outlives the ledger; then the ledger (invariant 8)."""
        self._hold.check()
        with profile.stage("outcome"):
            self._manifests.put_outcome(outcome)
        with profile.stage("settle"):
            self._pin(manifest, table, outcome)
            self._ledger.settle(
                manifest.lane, manifest.batch, outcome, sorted(claimed), self._hold.identity.run, self._clock.now_ms()
            )
        self._log.event(
            "part_settled",
            batch=manifest.batch,
            table=table,
            state=outcome.state,
            instant=outcome.instant,
            no_change=outcome.no_change or None,
            counts=outcome.counts,
            quarantined=len(outcome.quarantined) or None,
        )
        return PartEnd(table, SETTLED, outcome)

    def _pin(self, manifest: Manifest, table: str, outcome: Outcome) -> None:
        """Remember, once there is data, what it was written with (rule 18). Not before: an empty table may still change."""
        if outcome.instant is None or table in self._pinned:
            return
        if self._ledger.pin_table(table, manifest.tables[table].table_config.pinned):
            self._pinned.add(table)
        else:
            self._log.event("pinned_differently", level="error", table=table, batch=manifest.batch)
