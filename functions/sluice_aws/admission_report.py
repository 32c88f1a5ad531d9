"""Says in logs and metrics what became of the objects that an invocation was told of."""

from __future__ import annotations

from collections import Counter

from sluice.ledger_items import IGNORED, PARKED, PENDING, QUARANTINED
from sluice.ledger_records import ALREADY, NEW
from sluice_aws.admission import Admissions
from sluice_aws.objects import ObjectGone
from sluice_aws.telemetry import Report

METRICS = {
    PENDING: "ObjectsAdmitted",
    PARKED: "ObjectsParked",
    QUARANTINED: "ObjectsQuarantined",
    IGNORED: "ObjectsIgnored",
}


def report_admissions(report: Report, admissions: Admissions) -> None:
    """One event for each object that somebody may have to look at, one for the rest; a metric for every outcome."""
    counts: Counter[str] = Counter()
    tables: Counter[str] = Counter()
    for admitted in admissions.done.values():
        written = admitted.written
        if admitted.admission.startswith(ALREADY):
            counts["ObjectsAnnouncedAgain"] += 1
            continue
        if admitted.admission != NEW:
            counts["ObjectsSuperseded"] += 1
            report.event("object_superseded", bucket=written.id.bucket, key=written.id.key, version=written.id.version)
            continue
        counts[METRICS[written.state]] += 1
        if written.state == PENDING:
            tables[written.table or ""] += 1
            continue
        told = report.event if written.state == IGNORED else report.warn
        told(
            f"object_{written.state}", bucket=written.id.bucket, key=written.id.key, version=written.id.version,
            topic=written.topic, code=written.code, reason=written.reason, rule=written.rule, via=written.via,
        )  # fmt: skip
        if written.code == ObjectGone.code:
            counts["ObjectsLostBeforeRead"] += 1
    for id, reason in admissions.failed.items():
        report.warn("object_unfinished", bucket=id.bucket, key=id.key, version=id.version, reason=reason)
        counts["ObjectsUnfinished"] += 1
    if tables:
        report.event("objects_admitted", objects=sum(tables.values()), tables=dict(tables))
    for metric, n in counts.items():
        report.count(metric, n)
