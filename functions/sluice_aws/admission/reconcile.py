"""Admits the objects that no notice announced: compares the bronze listing with the ledger, a page at a time.

A pass resumes at the checkpoint of the invocation before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from sluice.admission.notices import LISTING, Notice
from sluice.config.document import Configuration
from sluice.errors import UnidentifiedObject
from sluice.objects import ObjectId
from sluice.ports import Report
from sluice_aws.admission.admit import Admission, report_admissions
from sluice_aws.lanes.start import Waker
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import ListedVersion, Objects

CHECKPOINT = "listing"


@dataclass(frozen=True)
class Pass:
    """Counts of one invocation. `complete` is set when it reached the end of the listing."""

    listed: int
    missing: int
    admitted: int
    failed: int
    complete: bool


class Reconciler:
    """Passes over one bronze bucket.

    The checkpoint moves on only after a page's objects are in the ledger and their lanes are woken.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        objects: Objects,
        admission: Admission,
        waker: Waker,
        report: Report,
        bucket: str,
        grace_ms: int,
        now: Callable[[], int],
    ) -> None:
        """`grace_ms`: a version younger than this doesn't count as missing, since its notice may still arrive."""
        self._ledger = ledger
        self._objects = objects
        self._admission = admission
        self._waker = waker
        self._report = report
        self._bucket = bucket
        self._grace_ms = grace_ms
        self._now = now

    def run(self, configuration: Configuration | None, *, seconds_left: Callable[[], float]) -> Pass:
        """List from the checkpoint until the listing or the time ends.

        Objects that can't be admitted don't hold the pass up: the next pass finds them missing again.
        """
        versioned = self._objects.is_versioned(self._bucket)
        marker = _marker(self._ledger.history.checkpoint(CHECKPOINT))
        listed = missing = admitted = failed = 0
        while seconds_left() > 0:
            page = self._objects.version_page(self._bucket, marker)
            lost = self._missing(page.versions, versioned)
            if lost:
                admissions = self._admission.admit_all(lost, configuration, seconds=seconds_left())
                report_admissions(self._report, admissions)
                self._waker.wake(admissions.lanes, configuration)
                admitted += len(admissions.done)
                failed += len(admissions.failed)
            listed += len(page.versions)
            missing += len(lost)
            marker = page.next_marker
            self._ledger.history.put_checkpoint(
                {"key": marker[0], "version": marker[1]} if marker else {}, self._now(), CHECKPOINT
            )
            if marker is None:
                return Pass(listed, missing, admitted, failed, True)
        return Pass(listed, missing, admitted, failed, False)

    def _missing(self, versions: tuple[ListedVersion, ...], versioned: bool) -> list[Notice]:
        old = self._now() - self._grace_ms
        due: dict[ObjectId, Notice] = {}
        for version in versions:
            if version.modified_at <= old:
                notice = self._notice(version, versioned)
                if notice is not None:
                    due[notice.id] = notice
        known = self._ledger.objects.get(due) if due else {}
        return [notice for id, notice in due.items() if id not in known]

    def _notice(self, version: ListedVersion, versioned: bool) -> Notice | None:
        """A listed version as the notice that should have arrived; None (with a warning) without version and ETag."""
        try:
            return notice_of(version, versioned)
        except UnidentifiedObject as error:
            self._report.warn("version_unidentified", reason=str(error), **error.facts)
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


def _marker(stored: Mapping[str, Any] | None) -> tuple[str, str] | None:
    if not stored or not stored.get("key"):
        return None
    return stored["key"], stored.get("version", "")
