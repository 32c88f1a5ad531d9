"""Before a run's first write: does the engine have what its Hudi bundle links to? Asked once for each bundle and engine, and remembered."""

from __future__ import annotations

import threading
import time
from typing import Optional

from pyspark.sql import SparkSession

from sluice.class_links import NotAClass
from sluice.engine_links import judge
from sluice.engine_report import EngineReport, UnreadableReport, report_key, report_of
from sluice_aws.objects import Objects
from sluice_spark.bundle_links import NotAJar, bundle_checksum, bundle_links
from sluice_spark.engine_reflection import BundleOutOfReach, EngineReflection
from sluice_spark.pinned_classes import PINNED_BUNDLE, PINNED_CLASSES, PINNED_SPARK
from sluice_spark.ports import Clock, Log
from sluice_spark.session import SparkProcess


class EngineCheck:
    """The check of one run. Safe in several threads: the first does it, the others wait."""

    def __init__(self, objects: Objects, silver_bucket: str, clock: Clock, log: Log) -> None:
        self._objects = objects
        self._bucket = silver_bucket
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._done = False
        self._report: Optional[EngineReport] = None

    def begin(self, spark: SparkProcess) -> None:
        """Check in a thread as soon as Spark is there, while what is pending is claimed. A refusal is for whoever needs the engine."""
        threading.Thread(target=self._beside, args=(spark,), name="engine-check", daemon=True).start()

    def require(self, spark: SparkSession) -> None:
        """Return once the engine is known to fit. Raises EngineDoesNotFit and NoBundle, before anything is written to a table."""
        report = self.report(spark)
        if report is not None and not report.fits:
            raise report.refusal()

    def afresh(self, spark: SparkSession) -> Optional[EngineReport]:
        """The outcome of a check made now, whatever is remembered, except that what was accepted stays so. As `report` otherwise."""
        with self._lock:
            self._report, self._done = self._made(spark, trusting=False), True
            return self._report

    def report(self, spark: SparkSession) -> Optional[EngineReport]:
        """The check's outcome, remembered or made now; None for the pinned bundle and Spark, and where the bundle can't be read, which is logged and refuses nothing. Raises NoBundle."""
        with self._lock:
            if not self._done:
                self._report = self._made(spark, trusting=True)
                self._done = True
            return self._report

    def _made(self, spark: SparkSession, *, trusting: bool) -> Optional[EngineReport]:
        began = time.monotonic()
        reflection = EngineReflection(spark)
        try:
            bundle = reflection.bundle()
            checksum, engine = bundle_checksum(bundle.path), reflection.engine()
            if trusting and (checksum, engine.spark) == (PINNED_BUNDLE, PINNED_SPARK):
                return None  # what the tests ask
            known = self._remembered(report_key(checksum, engine))
            if known is not None and trusting:
                return known
            verdict = judge(bundle_links(bundle.path), reflection.describe, baseline=PINNED_CLASSES)
        except (BundleOutOfReach, NotAJar, NotAClass) as unreadable:
            self._log.failure("engine_not_checked", unreadable)
            return None
        report = report_of(
            verdict,
            bundle=checksum,
            jar=bundle.path.name,
            hudi=bundle.version,
            engine=engine,
            checked_at=self._clock.now_ms(),
        )
        if known is not None and known.accepted is not None and known.missing == report.missing:
            report = report.accept(known.accepted)
        self._objects.put(self._bucket, report.key, report.to_json().encode("ascii"), content_type="application/json")
        self._log.event(
            "engine_checked",
            bundle=checksum,
            hudi=bundle.version,
            engine=str(engine),
            links=report.links,
            missing=len(verdict.missing) or None,
            unknown=list(report.unknown) or None,
            seconds=round(time.monotonic() - began, 3),
        )
        return report

    def _remembered(self, key: str) -> Optional[EngineReport]:
        document = self._objects.get(self._bucket, key)
        if document is None:
            return None
        try:
            return EngineReport.from_json(document.data.decode("utf-8", "replace"))
        except UnreadableReport as damaged:
            self._log.failure("engine_report_unreadable", damaged, key=key)
            return None

    def _beside(self, spark: SparkProcess) -> None:
        try:
            self.report(spark.session().result())
        except Exception as error:  # whoever needs the engine asks again, and meets it there
            self._log.failure("engine_check_failed", error)
