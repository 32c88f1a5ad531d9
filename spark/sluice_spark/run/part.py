"""Runs one table's part of a batch: merges and settles it, or returns its objects to pending, or isolates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sluice.batch.isolation import DIVIDE, RETURN, SET_ASIDE, TOGETHER, Cohort, after_failure, divided
from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import Outcome
from sluice.errors import FailsItsMerge, GivenUp, KillsItsRun, SluiceError
from sluice.lane.machine import backoff_ms
from sluice.objects import ObjectId
from sluice_spark.errors import BLOCKS_TABLE, ENDS_RUN, LaneLost, SparkDied
from sluice_spark.log import Profile, describe
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.step import Ports, RunStep

SETTLED = "settled"
# Its objects are pending again: the table failed and backs off, or the part was divided, or it had no object.
RETURNED = "returned"
# Its timeline could not be read either: the part stays claimed, and is resolved later.
UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class PartEnd:
    """How a part ended. `retry_at` (epoch ms) is when a failed table may be tried again, unless it is blocked."""

    table: str
    end: str
    outcome: Outcome | None = None
    retry_at: int | None = None


@dataclass(frozen=True)
class Part:
    """A table's part of a batch: the objects of it that were claimed, and the profile of its batch."""

    manifest: Manifest
    table: str
    claimed: frozenset[ObjectId]
    profile: Profile

    @property
    def place(self) -> dict[str, str]:
        """The part in events."""
        return {"batch": self.manifest.batch, "table": self.table}

    @property
    def own(self) -> TablePart:
        """What the manifest says of it."""
        return self.manifest.tables[self.table]

    @property
    def listed(self) -> list[ObjectId]:
        """Its objects in the manifest."""
        return [item.id for item in self.own.objects]


class TableParts(RunStep):
    """Runs parts of batches. Called from several threads, one table each; a failure stays with its table."""

    def __init__(self, ports: Ports, hold: LaneHold) -> None:
        super().__init__(ports, hold)
        self._pinned: set[str] = set()  # tables that this run has pinned: saves a write per commit

    def run(self, part: Part) -> PartEnd:
        """Merge a part for the first time. Raises LaneLost and ENDS_RUN; a table's own failure is a PartEnd."""
        self._hold.check()
        if not part.claimed:  # all of its objects changed their state between the query and the claim
            return self._return(part)
        try:
            with part.profile.stage("merge"):
                outcome = self._merger.merge_part(part.manifest, part.table, self._hold.still_held)
        except (LaneLost, *ENDS_RUN) as ended:
            self._note_lost(ended)
            raise
        except Exception as failure:  # any failure of Spark or Hudi stops this table only (`failures-stay-apart`)
            return self._after_failure(part, failure)
        return self._settle(part, outcome)

    def resume(self, part: Part, how: str = TOGETHER, given_up: str | None = None) -> PartEnd:
        """Finish a part that an earlier run, or an earlier attempt of this one, left unsettled.

        Rolls back, looks on the timeline, then settles what is there (`resolve-before-write`). If there is nothing,
        treats the part as `how` says (`sluice.batch.isolation`); `given_up` is the operator's reason. Counts an attempt
        before it begins, and takes it back unless the part was settled or Spark died.
        """
        self._hold.check()
        self._ledger.batches.begin_attempt(part.manifest.batch, part.table, self._clock.now_ms())
        try:
            end = self._resume(part, how, given_up)
        except (LaneLost, SparkDied):
            raise
        except Exception:
            self._take_back(part)
            raise
        if end.end == UNRESOLVED:
            self._take_back(part)
        return end

    def _resume(self, part: Part, how: str, given_up: str | None) -> PartEnd:
        end = self._found(part)
        if end is not None:
            return end
        if how == DIVIDE:
            return self._return(part, cohorts=divided(part.listed, part.own.cohort, self._clock.now_ms()))
        if how == SET_ASIDE and part.claimed:
            error: SluiceError = KillsItsRun("Runs that merged this object died, the last ones with nothing beside it")
            return self._set_aside(part, error if given_up is None else GivenUp(given_up))
        return self.run(part)

    def _take_back(self, part: Part) -> None:
        """Take an attempt back. If that fails, the part is only treated with more caution than it needs."""
        try:
            self._ledger.batches.end_attempt(part.manifest.batch, part.table)
        except Exception as failure:
            self._log.failure("attempt_not_taken_back", failure, **part.place)

    def _note_lost(self, ended: SluiceError) -> None:
        """Remember a lost lane before any other thread writes."""
        if isinstance(ended, LaneLost):
            self._hold.lose()

    def _found(self, part: Part, *, after_failure: bool = False) -> PartEnd | None:
        """Settle what was committed of this part; None where nothing was, and it has to be run again."""
        try:
            outcome = self._resolved(part)
        except (LaneLost, *ENDS_RUN) as ended:
            self._note_lost(ended)
            raise
        except Exception as failure:
            self._hold.check()
            self._log.failure("resolve_failed", failure, **part.place)
            return PartEnd(part.table, UNRESOLVED, retry_at=self._back_off(part.table, failure))
        if outcome is None:
            return None
        if after_failure:
            self._log.event("commit_found_after_failure", **part.place, instant=outcome.instant)
        return self._settle(part, outcome)

    def _resolved(self, part: Part) -> Outcome | None:
        """The outcome of what was committed of this part.

        An outcome in S3 was written after its commit, or says that none was needed, so it holds where the timeline
        agrees. The roll-back comes first all the same, since it fences a writer that wakes up late.
        """
        with part.profile.stage("resolve"):
            merged = self._merger.resolve_part(part.manifest, part.table, self._hold.still_held)
            stored = self._manifests.outcome(part.manifest.batch, part.table)
        if stored is not None and stored.instant == (merged.instant if merged is not None else None):
            return stored  # it has more counts than a timeline, and alone knows of a part without a commit
        return merged

    def _after_failure(self, part: Part, failure: Exception) -> PartEnd:
        """Look for the commit, since a write may fail after it, and only then return the objects to pending.

        The merge ran in this thread, so it has ended and can no longer commit.
        """
        self._hold.check()
        self._log.failure("table_failed", failure, **part.place)
        blocked = False
        if isinstance(failure, BLOCKS_TABLE) and self._hold.still_held():
            blocked = True  # before the objects are pending, and also where a commit is found
            self._ledger.tables.block(part.table, failure, self._clock.now_ms())
        end = self._found(part, after_failure=True)
        if end is not None:
            return end
        if not self._hold.still_held():
            self._hold.check()
        return self._after_nothing_committed(part, failure, blocked=blocked)

    def _after_nothing_committed(self, part: Part, failure: Exception, *, blocked: bool) -> PartEnd:
        """Return a failed part's objects to pending, or isolate the one that its merge fails with.

        An error of Sluice names its cause, which is no single object: those are left out before the merge.
        """
        now, how, cohort = self._clock.now_ms(), RETURN, part.own.cohort
        if not isinstance(failure, SluiceError):
            state = self._ledger.tables.get(part.table)
            how, cohort = after_failure(
                len(part.claimed), cohort, failures=state.failures + 1, last_commit_at=state.last_commit_at, now=now
            )
        if how == SET_ASIDE:
            reason = f"The merge fails with nothing but this object: {describe(failure)}"
            return self._set_aside(part, FailsItsMerge(reason))
        # The back-off is written before the objects are pending, so that nothing claims them early.
        retry_at = None if blocked else self._back_off(part.table, failure, at_once=how == DIVIDE)
        cohorts = divided(part.listed, part.own.cohort, now) if how == DIVIDE else {}
        if how == RETURN and cohort is not None:
            cohorts = dict.fromkeys(part.listed, cohort)
        return self._return(part, retry_at, cohorts)

    def _set_aside(self, part: Part, error: SluiceError) -> PartEnd:
        outcome = Outcome.set_aside(part.manifest.batch, part.table, part.claimed, error, self._clock.now_ms())
        return self._settle(part, outcome)

    def _return(
        self, part: Part, retry_at: int | None = None, cohorts: Mapping[ObjectId, Cohort] = MappingProxyType({})
    ) -> PartEnd:
        """Give a part's objects back to pending, in `cohorts` if there are any. A part without objects ends so, too.

        Nothing of such a part is merged, and its objects may come in another part of a batch with the same id.
        """
        me, manifest, claimed = self._hold.identity, part.manifest, sorted(part.claimed)
        generation = part.own.table_config.generation
        returned = self._ledger.batches.return_to_pending(
            manifest.batch, part.table, claimed, manifest.lane, me.run, me.job_run_id, generation, cohorts
        )
        if returned is None:
            self._hold.lose()
            self._hold.check()
        self._log.event(
            "part_returned",
            **part.place,
            objects=len(claimed),
            cohorts=len(set(cohorts.values())) or None,
            retry_at=retry_at,
        )
        return PartEnd(part.table, RETURNED, retry_at=retry_at)

    def _back_off(self, table: str, failure: Exception, *, at_once: bool = False) -> int:
        failures = self._ledger.tables.get(table).failures + 1
        retry_at = self._clock.now_ms() + (0 if at_once else backoff_ms(failures))
        self._ledger.tables.record_error(table, describe(failure), retry_at)
        return retry_at

    def _settle(self, part: Part, outcome: Outcome) -> PartEnd:
        """Write the outcome to S3, then the ledger: a lost ledger is rebuilt from it (`outcome-before-ledger`).

        The lane is looked at first: a run that lost it would write its own outcome over that of its successor.
        """
        if not self._hold.still_held():
            self._hold.check()
        with part.profile.stage("outcome"):
            self._manifests.put_outcome(outcome)
        with part.profile.stage("settle"):
            self._pin(part, outcome)
            self._ledger.batches.settle(
                part.manifest.lane,
                part.manifest.batch,
                outcome,
                sorted(part.claimed),
                self._hold.identity.run,
                self._clock.now_ms(),
            )
        self._log.event(
            "part_settled",
            **part.place,
            state=outcome.state,
            instant=outcome.instant,
            no_change=outcome.no_change or None,
            counts=outcome.counts,
            quarantined=len(outcome.quarantined) or None,
        )
        return PartEnd(part.table, SETTLED, outcome)

    def _pin(self, part: Part, outcome: Outcome) -> None:
        """Record the settings that data was written with (`pinned-settings`); those of an empty table may change."""
        if outcome.instant is None or part.table in self._pinned:
            return
        if self._ledger.tables.pin(part.table, part.own.table_config.pinned):
            self._pinned.add(part.table)
        else:
            self._log.event("pinned_differently", level="error", table=part.table, batch=part.manifest.batch)
