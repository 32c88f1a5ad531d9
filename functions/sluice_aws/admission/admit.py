"""Brings announced objects into the ledger: route, head, schema, one conditional write each, many at a time.

Says in logs and metrics what became of the objects that an invocation was told of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.admission.notices import Notice
from sluice.admission.routing import AVRO, Route, classify
from sluice.admission.verdict import Verdict, judge_read, judge_unread, judge_unreadable
from sluice.config.document import Configuration
from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import Incompatible, SluiceError, UnsupportedType, UnusableSchema
from sluice.ledger.keys import IGNORED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import ALREADY, NEW, AdmittedObject, wakes
from sluice.objects import ObjectId
from sluice.schema.avro import read_writer_schema
from sluice_aws.admission.heads import Heads
from sluice_aws.admission.schema_fit import SchemaFit
from sluice_aws.errors import ObjectGone
from sluice_aws.s3.schemas import SchemaStore
from sluice_aws.telemetry import Report

THREADS = 32


@dataclass(frozen=True)
class Admitted:
    """An object that is in the ledger: what was written, and the ledger's answer ("new", "already_pending" …)."""

    written: AdmittedObject
    admission: str
    paused: bool = False

    @property
    def wakes(self) -> str | None:
        """The lane that must be woken for it; also when it was pending already, since whoever wrote it may have died.

        Not for a paused table, which no run may claim: taking the pause back wakes the lane.
        """
        return (
            self.written.lane if self.written.state == PENDING and wakes(self.admission) and not self.paused else None
        )


@dataclass(frozen=True)
class Admissions:
    """What became of the objects of an invocation: in the ledger, or not, and then why."""

    done: Mapping[ObjectId, Admitted]
    failed: Mapping[ObjectId, str]

    @property
    def lanes(self) -> frozenset[str]:
        """The lanes to wake."""
        return frozenset(lane for lane in (admitted.wakes for admitted in self.done.values()) if lane is not None)

    def tables(self, lane: str) -> frozenset[str]:
        """The tables on whose account a lane is to be woken."""
        return frozenset(
            admitted.written.table
            for admitted in self.done.values()
            if admitted.wakes == lane and admitted.written.table
        )


class Admission:
    """Admits objects. Three AWS calls for each at most (a ranged GET, a query and a conditional write).

    Beside them: a writer schema is stored once per process, and the first object of a topic whose
    header is longer than 64 KiB is read a second time.
    """

    def __init__(
        self, *, ledger: Any, heads: Heads, schemas: SchemaStore, fit: SchemaFit, now: Callable[[], int]
    ) -> None:
        self._ledger = ledger
        self._heads = heads
        self._schemas = schemas
        self._fit = fit
        self._now = now

    def admit_all(
        self, notices: Sequence[Notice], configuration: Configuration | None, *, seconds: float | None = None
    ) -> Admissions:
        """Admit objects in parallel within `seconds` (None: as long as it takes).

        An object that isn't finished by then, or that met an error which may pass, is in `failed`; it can
        be admitted again with the same effect.
        """
        if not notices:
            return Admissions({}, {})
        pool = ThreadPoolExecutor(min(THREADS, len(notices)), thread_name_prefix="admit")
        asked: dict[Future[Admitted], ObjectId] = {
            pool.submit(self.admit, notice, configuration): notice.id for notice in notices
        }
        finished, late = wait(asked, timeout=seconds)
        pool.shutdown(wait=False, cancel_futures=True)
        done: dict[ObjectId, Admitted] = {}
        failed = {asked[future]: "the invocation's time was over" for future in late}
        for future in finished:
            error = future.exception()
            if error is None:
                done[asked[future]] = future.result()
            elif isinstance(error, (ClientError, BotoCoreError, SluiceError)):
                failed[asked[future]] = f"{getattr(error, 'code', type(error).__name__)}: {error}"[:500]
            else:
                # Not known: still this object's trouble alone. Its message comes again, and ends with the dead letters.
                failed[asked[future]] = f"unexpected {type(error).__name__}: {error}"[:500]
        return Admissions(done, failed)

    def admit(self, notice: Notice, configuration: Configuration | None) -> Admitted:
        """Admit one object. Raises what a retry may help against; what none helps against is a state of the object."""
        route, verdict, schema = self.judge(notice.id, notice.size, configuration)
        written = AdmittedObject(
            id=notice.id,
            state=verdict.state,
            admitted_at=self._now(),
            size=notice.size or 0,
            noticed_at=notice.event_time_ms,
            table=verdict.table,
            lane=verdict.lane,
            topic=route.topic,
            etag=notice.etag,
            sequencer=notice.sequencer,
            kafka_partition=route.kafka_partition,
            offset=route.offset,
            format=route.format,
            schema=schema,
            via=notice.via,
            reason=verdict.reason,
            rule=verdict.rule,
            code=verdict.code,
        )
        return Admitted(
            written, self._ledger.admit(written), paused=verdict.config is not None and verdict.config.paused
        )

    def judge(
        self, id: ObjectId, size: int | None, configuration: Configuration | None
    ) -> tuple[Route, Verdict, str | None]:
        """What an object is: where its key leads, the verdict on it, and its schema's fingerprint. Writes nothing to the ledger."""
        route = classify(id.key, size)
        config = configuration.table_for_topic(route.topic) if configuration is not None and route.topic else None
        limits = DEFAULTS if config is None else config.limits
        verdict = judge_unread(route, size, limits)
        if verdict is not None:
            return route, verdict, None
        return (route, *self._judge_head(id, route, configuration, limits))

    def _judge_head(
        self, id: ObjectId, route: Route, configuration: Configuration | None, limits: Limits
    ) -> tuple[Verdict, str | None]:
        """Read the head. The schema is stored before the ledger names it, so whoever reads the ledger finds it."""
        try:
            schema = self._heads.read(id, route.topic or "", limits, route.format or AVRO).schema
        except SluiceError as error:
            if error.retriable:
                raise
            return judge_unreadable(error), None
        verdict = judge_read(route, configuration)
        if schema is None:  # of JSON whose records carry none: the job reads them all for it
            return verdict, None
        if verdict.config is None:
            return verdict, self._schemas.keep(schema)
        try:
            writer = read_writer_schema(schema)
        except (UnusableSchema, UnsupportedType) as error:
            return judge_unreadable(error), None
        kept = self._schemas.keep(schema)
        try:
            self._fit.check(writer, verdict.config)
        except Incompatible as error:
            return judge_unreadable(error, verdict.config), kept
        return verdict, kept


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
        report_as = report.event if written.state == IGNORED else report.warn
        report_as(
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
