"""The audit that goes on by itself: some pages of a round per invocation, gauges, and a log line per contradiction.

It also admits what neither a notice nor a pass of reconcile has, since it alone asks the ledger about all of bronze.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable

from sluice.admission.routing import identities
from sluice.config.document import Configuration
from sluice.errors import UnidentifiedObject
from sluice.hudi.timeline import Timeline
from sluice.ledger.audit import LOST_RECORD, Contradiction, judge_by_other_batches, judge_by_own_batch
from sluice.ledger.audit_round import BATCHES, BRONZE, DONE, ROUND_MS, AuditRound
from sluice.objects import ObjectId
from sluice.ports import Report
from sluice_aws.audit.facts import AuditFacts, Judged
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import ListedDocument, ListedVersion, Objects, SkippedDocument
from sluice_aws.s3.past_batches import PastBatches
from sluice_aws.s3.timelines import TimelineReader

CHECKPOINT = "audit"
PAGE_VERSIONS = 200  # of bronze; each may be of a batch of its own
PAGE_MANIFESTS, PAGE_BYTES = 64, 4_000_000  # of manifests as stored; a manifest of 10,000 objects has 4 MB
KEPT_TIMELINES = 64  # of an invocation
MOST_LOGGED = 1_000  # contradictions of an invocation
#: An unknown object is a contradiction if nothing could admit it for so long.
UNKNOWN_AFTER_MS = ROUND_MS

AdmitMissing = Callable[[Sequence[ListedVersion]], int]
Page = tuple["list[Contradiction]", "tuple[str, ...] | None"]


@dataclass(frozen=True)
class Auditor:
    """Rounds over one stack. A page's contradictions are logged before the checkpoint moves behind it."""

    ledger: Ledger
    objects: Objects
    timelines: TimelineReader
    report: Report
    bronze: str
    silver: str
    grace_ms: int
    now: Callable[[], int]

    def run(
        self, seconds_left: Callable[[], float], admit: AdmitMissing, configuration: Configuration | None = None
    ) -> AuditRound:
        """Go on with the round, or begin one that is due, until it or the time ends. Gauges are written in any case.

        `admit` admits those of some versions that the ledger doesn't know, and returns their number.
        """
        at = AuditRound.from_dict(self.ledger.history.checkpoint(CHECKPOINT), self.now()).begun(self.now())
        timeline_of = lru_cache(maxsize=KEPT_TIMELINES)(self.timelines.timeline)
        logged = 0
        try:
            while at.phase != DONE and seconds_left() > 0:
                contradictions, after = self._page(at, timeline_of, admit, configuration)
                self._log(contradictions[: MOST_LOGGED - logged])
                logged += len(contradictions)
                at = at.behind(after, Counter(one.code for one in contradictions), self.now())
                self.ledger.history.put_checkpoint(at.to_dict(), self.now(), CHECKPOINT)
        finally:
            self._publish(at)
        return at

    def _page(
        self,
        at: AuditRound,
        timeline_of: Callable[[str], Timeline],
        admit: AdmitMissing,
        configuration: Configuration | None,
    ) -> Page:
        if at.phase == BRONZE:
            return self._of_bronze(at.after, admit, configuration)
        return self._of_batches(at.after, timeline_of) if at.phase == BATCHES else self._of_tables(at.after)

    def _of_bronze(
        self, after: tuple[str, ...] | None, admit: AdmitMissing, configuration: Configuration | None
    ) -> Page:
        """Admit what a page of bronze has and the ledger hasn't; compare the page with each object's own batch."""
        marker = None if after is None else (after[0], after[1])
        page = self.objects.version_page(self.bronze, marker, page_size=PAGE_VERSIONS)
        listed = self._identified(page.versions, configuration)
        facts = self._facts(listed)
        now = self.now()

        def judge(objects: Collection[ObjectId]) -> dict[ObjectId, Judged]:
            old = now - max(self.grace_ms, UNKNOWN_AFTER_MS)
            return facts.verdicts(objects, lambda one: listed[one].modified_at > old, judge_by_own_batch)

        judged = judge(listed.keys())
        unknown = [identity for identity, (_, record) in judged.items() if record is None]
        overdue = [identity for identity in unknown if listed[identity].modified_at <= now - self.grace_ms]
        if overdue:
            missed = admit([listed[identity] for identity in overdue])
            if missed:
                self.report.count("ObjectsMissed", missed)
            judged.update(judge(overdue))
        self._warn(facts.skipped)
        contradictions = [
            Contradiction.of_object(verdict.code, identity, record)
            for identity, (verdict, record) in judged.items()
            if verdict.code is not None
        ]
        return contradictions, page.next_marker

    def _of_batches(self, after: tuple[str, ...] | None, timeline_of: Callable[[str], Timeline]) -> Page:
        """Compare some batches with their named commits, with their objects' records, and those with their batches."""
        past = PastBatches(self.objects, self.silver)
        keys, is_last = _page_of(past.listed("" if after is None else after[0]))
        batches = list(past.read(keys))
        listed = {item.id for batch in batches for item in batch.manifest.objects}
        facts = self._facts(listed)
        for batch in batches:
            facts.add(batch)
        contradictions = list(facts.of_named_commits({batch.manifest.batch for batch in batches}, timeline_of))
        in_bronze = [identity for identity in sorted(listed) if identity.bucket == self.bronze]
        judged = facts.verdicts(in_bronze, lambda _: True, judge_by_other_batches)
        for identity, (verdict, record) in judged.items():
            # The record of an object that is gone is dropped after a while.
            if verdict.code is not None and (verdict.code != LOST_RECORD or self.objects.exists(identity)):
                contradictions.append(Contradiction.of_object(verdict.code, identity, record))
        self._warn((*past.skipped, *facts.skipped))
        return contradictions, None if is_last else (keys[-1],)

    def _of_tables(self, after: tuple[str, ...] | None) -> Page:
        """Compare all commits of one table with the outcomes of their batches."""
        tables = [state.table for state in self.ledger.tables.all() if after is None or state.table > after[0]]
        if not tables:
            return [], None
        facts = self._facts(())
        contradictions = list(facts.of_table(tables[0]))
        self._warn(facts.skipped)
        return contradictions, (tables[0],) if len(tables) > 1 else None

    def _facts(self, only: Iterable[ObjectId]) -> AuditFacts:
        return AuditFacts(self.ledger, self.objects, self.silver, self.timelines, only=frozenset(only))

    def _identified(
        self, versions: Iterable[ListedVersion], configuration: Configuration | None
    ) -> dict[ObjectId, ListedVersion]:
        versioned = self.objects.is_versioned(self.bronze)
        by_id = {}
        for version in versions:
            try:
                of_first_rule = version.id(versioned)
            except UnidentifiedObject as error:
                self.report.warn("version_unidentified", reason=str(error), **error.facts)
                continue
            by_id.update(dict.fromkeys(identities(of_first_rule, version.size, configuration), version))
        return by_id

    def _log(self, contradictions: Iterable[Contradiction]) -> None:
        for one in contradictions:
            identity = one.object
            self.report.warn(
                "contradiction",
                code=one.code,
                meaning=one.meaning,
                next_step=one.next_step,
                table=one.table,
                batch=one.batch,
                instant=one.instant,
                objects=one.objects,
                bucket=None if identity is None else identity.bucket,
                key=None if identity is None else identity.key,
                version=None if identity is None else identity.version,
            )

    def _warn(self, skipped: Iterable[SkippedDocument]) -> None:
        for document in skipped:
            self.report.warn("document_skipped", key=document.key, reason=document.reason)

    def _publish(self, at: AuditRound) -> None:
        """One gauge over all codes, 0 without a contradiction, and one for each code that was found."""
        counts = at.contradictions()
        self.report.count("Contradictions", sum(counts.values()))
        for code, number in counts.items():
            self.report.count("Contradictions", number, code=code)
        self.report.count("AuditAgeSeconds", at.age_s(self.now()), unit="Seconds")


def _page_of(listed: Iterator[ListedDocument]) -> tuple[list[str], bool]:
    """The keys of a page of manifests, at least one if there is one, and whether no more follow."""
    keys: list[str] = []
    size = 0
    for document in listed:
        if keys and (len(keys) == PAGE_MANIFESTS or size + document.size > PAGE_BYTES):
            return keys, False
        keys.append(document.key)
        size += document.size
    return keys, True
