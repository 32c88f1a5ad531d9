"""Admits the objects that no notice announced: compares the bronze listing with the ledger, a page at a time.

A pass resumes at the checkpoint of the invocation before, and asks the ledger about what was put since the last whole
pass. The round of the audit asks about everything, and has admitted here what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Callable

from sluice.admission.listing_pass import ListingPass
from sluice.admission.notices import LISTING, Notice
from sluice.admission.routing import identities
from sluice.config.document import Configuration
from sluice.errors import UnidentifiedObject
from sluice.objects import ObjectId
from sluice.ports import Report
from sluice_aws.admission.admit import Admission, Admissions, report_admissions
from sluice_aws.lanes.start import Waker
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import ListedVersion, Objects

CHECKPOINT = "listing"


@dataclass(frozen=True)
class Pass:
    """Counts of one invocation: `asked` are versions looked up in the ledger, `complete` the end of the listing."""

    listed: int = 0
    asked: int = 0
    missing: int = 0
    admitted: int = 0
    failed: int = 0
    complete: bool = False


@dataclass(frozen=True)
class Reconciler:
    """Passes over one bronze bucket.

    The checkpoint moves on only after a page's objects are in the ledger and their lanes are woken.

    `grace_ms`: a version younger than this doesn't count as missing, since its notice may still arrive.
    """

    ledger: Ledger
    objects: Objects
    admission: Admission
    waker: Waker
    report: Report
    bucket: str
    grace_ms: int
    now: Callable[[], int]

    def run(self, configuration: Configuration | None, *, seconds_left: Callable[[], float]) -> Pass:
        """List from the checkpoint until the listing or the time ends.

        Objects that can't be admitted don't hold the pass up: the next pass finds them missing again.
        """
        versioned = self.objects.is_versioned(self.bucket)
        stored = self.ledger.history.checkpoint(CHECKPOINT) or {}
        if stored.get("bucket") != self.bucket:
            stored = {}  # of another bucket, or of an earlier release
        current = ListingPass.resumed(stored, self.now())
        done = Pass()
        while seconds_left() > 0 and not done.complete:
            page = self.objects.version_page(self.bucket, current.after)
            old = self.now() - self.grace_ms
            due = [version for version in page.versions if version.modified_at <= old]
            overdue = [version for version in due if current.is_due(version.modified_at)]
            missing, admissions = self._admit_missing(overdue, versioned, configuration, seconds_left())
            failed = [version.modified_at for version in overdue if version.id(versioned) in admissions.failed]
            current = current.behind(page.next_marker, min(failed, default=None))
            done = Pass(
                done.listed + len(page.versions),
                done.asked + len(overdue),
                done.missing + len(missing),
                done.admitted + len(admissions.done),
                done.failed + len(admissions.failed),
                current.after is None,
            )
            stored = {"bucket": self.bucket, **current.stored(self.grace_ms)}
            self.ledger.history.put_checkpoint(stored, self.now(), CHECKPOINT)
        return done

    def admit_missing(
        self, versions: Sequence[ListedVersion], configuration: Configuration | None, *, seconds: float
    ) -> int:
        """Admit those of these versions that the ledger doesn't know, and return their number."""
        versioned = self.objects.is_versioned(self.bucket)
        return len(self._admit_missing(versions, versioned, configuration, seconds)[0])

    def _admit_missing(
        self, versions: Sequence[ListedVersion], versioned: bool, configuration: Configuration | None, seconds: float
    ) -> tuple[dict[ObjectId, Notice], Admissions]:
        """Admit what the ledger doesn't know, or not for each table of its topic; returns the former."""
        notices = [self._notice(version, versioned) for version in versions]
        by_id = {notice.id: notice for notice in notices if notice is not None}
        of_tables = {id: identities(id, notice.size, configuration) for id, notice in by_id.items()}
        in_ledger = self.ledger.objects.get(chain.from_iterable(of_tables.values())) if by_id else {}
        wanted = [by_id[id] for id, ids in of_tables.items() if not in_ledger.keys() >= set(ids)]
        missing = {id: notice for id, notice in by_id.items() if id not in in_ledger}
        if not wanted:
            return {}, Admissions({}, {})
        admissions = self.admission.admit_all(wanted, configuration, seconds=seconds)
        report_admissions(self.report, admissions)
        self.waker.wake(admissions.lanes, configuration)
        return missing, admissions

    def _notice(self, version: ListedVersion, versioned: bool) -> Notice | None:
        """A listed version as the notice that should have arrived; None (with a warning) without version and ETag."""
        try:
            return notice_of(version, versioned)
        except UnidentifiedObject as error:
            self.report.warn("version_unidentified", reason=str(error), **error.facts)
            return None


def notice_of(version: ListedVersion, versioned: bool) -> Notice:
    """A listed version as the notice that should have arrived. Raises UnidentifiedObject."""
    return Notice(
        id=version.id(versioned),
        size=version.size,
        sequencer=None,
        event_time_ms=version.modified_at,
        event_name="listed",
        via=LISTING,
        etag=version.etag,
    )
