"""Admits announced objects to the ledger in parallel: route, head, schema, one conditional write each.

Reports the results of an invocation to the log and the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Callable

from sluice.admission.notices import LISTING, Notice
from sluice.admission.routing import AVRO, CHANGE_FILE, Route, by_time, identities, route_of
from sluice.admission.sqs_event import Unfinished
from sluice.admission.verdict import (
    FORGET_AFTER_MS,
    LATE_NOTICE,
    Verdict,
    is_outdated,
    judge_read,
    judge_unread,
    judge_unreadable,
)
from sluice.changes.dialects.registry import text_field
from sluice.config.document import Configuration
from sluice.config.limits import DEFAULTS
from sluice.config.table import TableConfig
from sluice.errors import Incompatible, SluiceError, UnsupportedType, UnusableSchema
from sluice.ledger.keys import IGNORED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import ALREADY, NEW, AdmittedObject, wakes
from sluice.objects import ObjectId
from sluice.ports import Report
from sluice.schema.avro import read_writer_schema
from sluice_aws.admission.failures import unfinished
from sluice_aws.admission.heads import FIRST_READ_BYTES, Heads, memory_of
from sluice_aws.admission.memory import Memory
from sluice_aws.admission.schema_fit import SchemaFit, schema_fit
from sluice_aws.errors import ObjectGone, facts_of
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaStore
from sluice_formats.captures.wrapped import nested_rows

THREADS = 32
# Memory of all heads that are read at the same time, of the 512 MB of reconcile, the smaller of the functions that
# admit. Other than that an invocation takes about 130 MB.
HEADS_BYTES = 192 * 1024**2


@dataclass(frozen=True)
class Admitted:
    """An object that is in the ledger: what was written, and the ledger's answer ("new", "already_pending" …)."""

    written: AdmittedObject
    admission: str
    paused: bool = False

    @property
    def wakes(self) -> str | None:
        """The lane to wake for the object, None for none.

        An object that was already pending wakes its lane too: its writer may have died before it did. A paused
        table wakes none, since no run may claim from it; ending the pause wakes the lane.
        """
        wanted = self.written.state == PENDING and wakes(self.admission) and not self.paused
        return self.written.lane if wanted else None


@dataclass(frozen=True)
class Admissions:
    """The results of an invocation: the objects that are in the ledger, and why the others are not."""

    done: Mapping[ObjectId, Admitted]
    failed: Mapping[ObjectId, Unfinished]

    @property
    def lanes(self) -> frozenset[str]:
        """The lanes to wake."""
        return frozenset(lane for lane in (admitted.wakes for admitted in self.done.values()) if lane is not None)


class Admission:
    """Admits objects, with at most three AWS calls for each table: a ranged GET, a query and a conditional write.

    Two more ask for the time of an object that is ordered by it. Two calls come on top at times: a writer schema is
    stored once per process, and the first object of a topic whose header is longer than 64 KiB is read twice.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        heads: Heads,
        schemas: SchemaStore,
        fit: SchemaFit,
        arrival: Callable[[ObjectId], int | None],
        now: Callable[[], int],
        forget_after_ms: int = FORGET_AFTER_MS,
    ) -> None:
        """`forget_after_ms`: how long the records of objects are kept that no longer exist.

        `arrival` asks S3 for an object's time (`Objects.arrival`).
        """
        self._forget_after_ms = forget_after_ms
        self._ledger = ledger
        self._heads = heads
        self._schemas = schemas
        self._fit = fit
        self._arrival = arrival
        self._now = now
        self._memory = Memory(HEADS_BYTES)

    def admit_all(
        self, notices: Sequence[Notice], configuration: Configuration | None, *, seconds: float | None = None
    ) -> Admissions:
        """Admit objects in parallel within `seconds` (None: without a limit).

        `done` has an object once for each table that its topic feeds. `failed` holds the objects, as in the notices,
        that are unfinished by then for any of them, and those whose error a retry may help against.
        Admitting such an object again has the same effect as admitting it once. Any unforeseen error counts as
        retriable for its own object: the message comes again, and ends in the dead-letter queue.
        """
        if not notices:
            return Admissions({}, {})
        pool = ThreadPoolExecutor(min(THREADS, len(notices)), thread_name_prefix="admit")
        futures: dict[Future[Admitted | Unfinished], ObjectId] = {
            pool.submit(self._admit_or_cause, replace(notice, id=identity), configuration): identity
            for notice in notices
            for identity in identities(notice.id, notice.size, configuration)
        }
        finished, late = wait(futures, timeout=seconds)
        pool.shutdown(wait=False, cancel_futures=True)
        done: dict[ObjectId, Admitted] = {}
        failed = {futures[future].of_first_rule: unfinished(None) for future in late}
        for future in finished:
            result = future.result()
            if isinstance(result, Admitted):
                done[futures[future]] = result
            else:
                failed[futures[future].of_first_rule] = result
        return Admissions(done, failed)

    def _admit_or_cause(self, notice: Notice, configuration: Configuration | None) -> Admitted | Unfinished:
        """Admit one object, or say why not. An error itself would hold its frames, and in them the object's schema."""
        try:
            return self.admit(notice, configuration)
        except Exception as error:
            return unfinished(error)

    def admit(self, notice: Notice, configuration: Configuration | None) -> Admitted:
        """Admit one object. Raises errors that a retry may help against; any other failure is a state of the object."""
        route, verdict, schema = self.judge(notice.id, notice.size, configuration)
        # What the listing showed a moment ago has never had a record.
        if verdict.code == ObjectGone.code and notice.via != LISTING:
            if is_outdated(notice.event_time_ms, self._now(), self._forget_after_ms):
                verdict = Verdict(IGNORED, rule=LATE_NOTICE)
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
            modified_at=self._arrival(notice.id) if _by_time(route, verdict, configuration, notice.id) else None,
        )
        paused = verdict.config is not None and verdict.config.paused
        generation = None if verdict.config is None else verdict.config.generation
        return Admitted(written, self._ledger.objects.admit(written, generation=generation), paused=paused)

    def judge(
        self, id: ObjectId, size: int | None, configuration: Configuration | None
    ) -> tuple[Route, Verdict, str | None]:
        """An object's route, the verdict on it, and the fingerprint of its schema. Writes nothing to the ledger.

        `size` is in bytes, None when unknown.
        """
        route = route_of(id.key, size, configuration)
        config = configuration.table_for_topic(route.topic, id.also_for) if configuration and route.topic else None
        verdict = judge_unread(route, size, config)
        if verdict is not None:
            return route, verdict, None
        with self._memory.share(memory_of(FIRST_READ_BYTES)) as resize:
            return (route, *self._judge_head(id, route, configuration, config, resize))

    def _judge_head(
        self,
        id: ObjectId,
        route: Route,
        configuration: Configuration | None,
        config: TableConfig | None,
        more_memory: Callable[[int], None],
    ) -> tuple[Verdict, str | None]:
        """Judge an object by its head. Stores the schema before the ledger names it, so that readers find it."""
        limits = DEFAULTS if config is None else config.limits
        try:
            schema = self._heads.read(id, route.topic or "", limits, route.format or AVRO, more_memory)
        except SluiceError as error:
            if error.retriable:
                raise
            return judge_unreadable(error, config), None
        verdict = judge_read(route, configuration, id.also_for)
        if schema is None:  # JSON records without a schema: the job derives one from all of them
            return verdict, None
        if verdict.config is None:
            return verdict, self._schemas.keep(schema)
        if text_field(verdict.config.dialect, route.format or "") is not None:  # so is that of rows as text
            return verdict, None
        try:
            writer = read_writer_schema(schema, verdict.config.form)
        except (UnusableSchema, UnsupportedType) as error:
            return judge_unreadable(error, config), None
        schema_id = self._schemas.keep(schema)
        wrapped = nested_rows(writer, append_only=verdict.config.append_only, rule=verdict.config.delete_when)
        if wrapped is not None:
            return judge_unreadable(wrapped, verdict.config), schema_id
        try:
            self._fit.check(writer, verdict.config)
        except Incompatible as error:
            return judge_unreadable(error, verdict.config), schema_id
        return verdict, schema_id


def _by_time(route: Route, verdict: Verdict, configuration: Configuration | None, id: ObjectId) -> bool:
    """Whether an object's time may order its rows: it waits for a merge, or may wait for one later."""
    config = None if configuration is None else configuration.table_for_topic(route.topic or "", id.also_for)
    waits = verdict.state in (PENDING, PARKED, QUARANTINED) and verdict.code != ObjectGone.code
    return waits and route.kind == CHANGE_FILE and by_time(route.offset, config)


def open_admission(
    objects: Objects,
    *,
    ledger: Ledger,
    silver_bucket: str,
    now: Callable[[], int],
    forget_after_ms: int = FORGET_AFTER_MS,
) -> Admission:
    """Make the admission of one process. `now` returns epoch ms."""
    return Admission(
        ledger=ledger,
        heads=Heads(objects),
        schemas=SchemaStore(objects, silver_bucket),
        fit=schema_fit(objects, silver_bucket, now),
        arrival=objects.arrival,
        now=now,
        forget_after_ms=forget_after_ms,
    )


METRICS = {
    PENDING: "ObjectsAdmitted",
    PARKED: "ObjectsParked",
    QUARANTINED: "ObjectsQuarantined",
    IGNORED: "ObjectsIgnored",
}


def report_admissions(report: Report, admissions: Admissions) -> None:
    """Report one event per object that needs attention, one event for all others, and a metric for each result."""
    counts: Counter[str] = Counter()
    tables: Counter[str] = Counter()
    for admitted in admissions.done.values():
        counts[_metric(admitted)] += 1
        written = admitted.written
        if admitted.admission == NEW and written.state == PENDING:
            tables[written.table or ""] += 1
        elif admitted.admission == NEW:
            _report_exception(report, written)
            counts["ObjectsLostBeforeRead"] += written.code == ObjectGone.code
        elif not admitted.admission.startswith(ALREADY):
            report.event("object_superseded", **facts_of(written.id))
    for id, cause in admissions.failed.items():
        report.warn("object_unfinished", **facts_of(id), code=cause.code, reason=cause.reason)
        counts["ObjectsUnfinished"] += 1
    if tables:
        report.event("objects_admitted", objects=sum(tables.values()), tables=dict(tables))
    for metric, n in counts.items():
        if n:
            report.count(metric, n)


def _metric(admitted: Admitted) -> str:
    if admitted.admission == NEW:
        return METRICS[admitted.written.state]
    return "ObjectsAnnouncedAgain" if admitted.admission.startswith(ALREADY) else "ObjectsSuperseded"


def _report_exception(report: Report, written: AdmittedObject) -> None:
    """Report an object that no run will claim: a warning unless it is ignored by rule."""
    report_as = report.event if written.state == IGNORED else report.warn
    report_as(
        f"object_{written.state}",
        **facts_of(written.id),
        topic=written.topic,
        code=written.code,
        reason=written.reason,
        rule=written.rule,
        via=written.via,
    )
