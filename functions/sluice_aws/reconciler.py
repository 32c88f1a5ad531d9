"""Compares the bronze listing with the ledger, a page at a time, and goes on where the last pass stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from sluice.configuration import Configuration
from sluice.errors import UnidentifiedObject
from sluice.events import Notice
from sluice.identity import ObjectId, identify
from sluice_aws.admission import Admission
from sluice_aws.admission_report import report_admissions
from sluice_aws.objects import ListedVersion, Objects
from sluice_aws.telemetry import Report
from sluice_aws.waking import Waker

LISTING = "listing"  # an object's `via` when no notice announced it
CHECKPOINT = "listing"


@dataclass(frozen=True)
class Pass:
    """What one invocation's part of a pass came to; `complete` when the listing's end was reached."""

    listed: int
    missing: int
    admitted: int
    failed: int
    complete: bool


class Reconciler:
    """Passes over one bronze bucket. The checkpoint moves on only after a page's objects were written and their lanes woken."""

    def __init__(
        self,
        *,
        ledger: Any,
        objects: Objects,
        admission: Admission,
        waker: Waker,
        report: Report,
        bucket: str,
        grace_ms: int,
        now: Callable[[], int],
    ) -> None:
        """`grace_ms`: a version younger than this is not missing, its notice may still be under way."""
        self._ledger = ledger
        self._objects = objects
        self._admission = admission
        self._waker = waker
        self._report = report
        self._bucket = bucket
        self._grace_ms = grace_ms
        self._now = now

    def run(self, configuration: Optional[Configuration], *, seconds_left: Callable[[], float]) -> Pass:
        """List from the checkpoint until the end or until the time is over.

        A page whose objects can't all be admitted doesn't hold the pass up: they are missing still
        when the next pass comes by.
        """
        versioned = self._objects.is_versioned(self._bucket)
        marker = _marker(self._ledger.checkpoint(CHECKPOINT))
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
            self._ledger.put_checkpoint(
                {"key": marker[0], "version": marker[1]} if marker else {}, self._now(), CHECKPOINT
            )
            if marker is None:
                return Pass(listed, missing, admitted, failed, True)
        return Pass(listed, missing, admitted, failed, False)

    def _missing(self, versions: Tuple[ListedVersion, ...], versioned: bool) -> List[Notice]:
        old = self._now() - self._grace_ms
        due: Dict[ObjectId, Notice] = {}
        for version in versions:
            if version.modified_at <= old:
                notice = self._notice(version, versioned)
                if notice is not None:
                    due[notice.id] = notice
        known = self._ledger.get_objects(due) if due else {}
        return [notice for id, notice in due.items() if id not in known]

    def _notice(self, version: ListedVersion, versioned: bool) -> Optional[Notice]:
        """A listed version as the notice that should have come."""
        try:
            id = identify(version.bucket, version.key, version.version_id, version.etag, bucket_versioned=versioned)
        except UnidentifiedObject as error:
            self._report.warn("version_unidentified", reason=str(error), **error.facts)
            return None
        return Notice(
            id=id, size=version.size, sequencer=None, event_time_ms=version.modified_at,
            event_name="listed", via=LISTING, etag=version.etag,
        )  # fmt: skip


def _marker(stored: Optional[Mapping[str, Any]]) -> Optional[Tuple[str, str]]:
    if not stored or not stored.get("key"):
        return None
    return stored["key"], stored.get("version", "")
