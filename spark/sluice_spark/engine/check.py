"""Before a run's first write: does the engine have what its Hudi bundle links to? Asked once for each bundle and engine, and remembered.

Reads a Hudi bundle's jar: what tells it from every other, and what its own classes link to.

Asks the driver's JVM, by reflection, what the engine is and what its classes declare. Initializes no class.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Callable
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice.engine.links import (
    CONSTRUCTOR,
    ENGINE,
    Described,
    Link,
    Member,
    constructors_in,
    fields_in,
    interfaces_in,
    judge,
    links_of,
    methods_in,
    needed,
)
from sluice.engine.report import Engine, EngineReport, report_key, report_of
from sluice.errors import NoBundle, NotAClass, UnreadableReport
from sluice_aws.s3.objects import Objects
from sluice_spark.engine.pinned_classes import PINNED_BUNDLE, PINNED_CLASSES, PINNED_SPARK
from sluice_spark.engine.session import SparkProcess
from sluice_spark.errors import BundleOutOfReach, NotAJar
from sluice_spark.ports import Clock, Log


class EngineCheck:
    """The check of one run. Safe in several threads: the first does it, the others wait."""

    def __init__(self, objects: Objects, silver_bucket: str, clock: Clock, log: Log) -> None:
        self._objects = objects
        self._bucket = silver_bucket
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._done = False
        self._report: EngineReport | None = None

    def begin(self, spark: SparkProcess) -> None:
        """Check in a thread as soon as Spark is there, while what is pending is claimed. A refusal is for whoever needs the engine."""
        threading.Thread(target=self._beside, args=(spark,), name="engine-check", daemon=True).start()

    def require(self, spark: SparkSession) -> None:
        """Return once the engine is known to fit. Raises EngineDoesNotFit and NoBundle, before anything is written to a table."""
        report = self.report(spark)
        if report is not None and not report.fits:
            raise report.refusal()

    def afresh(self, spark: SparkSession) -> EngineReport | None:
        """The outcome of a check made now, whatever is remembered, except that what was accepted stays so. As `report` otherwise."""
        with self._lock:
            self._report, self._done = self._made(spark, trusting=False), True
            return self._report

    def report(self, spark: SparkSession) -> EngineReport | None:
        """The check's outcome, remembered or made now; None for the pinned bundle and Spark, and where the bundle can't be read, which is logged and refuses nothing. Raises NoBundle."""
        with self._lock:
            if not self._done:
                self._report = self._made(spark, trusting=True)
                self._done = True
            return self._report

    def _made(self, spark: SparkSession, *, trusting: bool) -> EngineReport | None:
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

    def _remembered(self, key: str) -> EngineReport | None:
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


# The bundle's own classes, and those of it in Spark's packages. What else is in the jar are other projects' under other names.
_OWN = ("org/apache/hudi/", "org/apache/spark/")
_OTHERS = ("org/apache/hudi/org/", "org/apache/hudi/com/", "org/apache/hudi/javax/")
_SUFFIX = ".class"
# The record that ends a zip (APPNOTE.TXT of the format, 4.3.16): its signature, its length, and that with the longest comment.
_END, _END_BYTES, _LONGEST_END = b"PK\x05\x06", 22, 22 + 65_535
_ZIP64 = 0xFFFFFFFF  # the directory's place is told elsewhere: then the whole file is hashed


def bundle_checksum(jar: Path) -> str:
    """Sixteen hexadecimal digits for what is in a jar: a hash of its directory, which has every file's name, size and CRC-32.

    Each start of a run asks for it, and hashing 100 MB would delay each by as long as all else that this check does. Raises NotAJar.
    """
    with jar.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _LONGEST_END))
        tail = file.read()
        end = tail.rfind(_END)
        if end < 0 or len(tail) < end + _END_BYTES:
            raise NotAJar(f"{jar} doesn't end as a jar does", jar=str(jar))
        size, offset = struct.unpack_from("<LL", tail, end + 12)
        file.seek(0 if offset == _ZIP64 or size == _ZIP64 else offset)
        return hashlib.sha256(file.read(length if offset == _ZIP64 or size == _ZIP64 else size)).hexdigest()[:16]


def bundle_links(jar: Path) -> Mapping[Link, list[str]]:
    """What the bundle's own classes need of the engine, each with the classes that do. Raises NotAClass for a damaged one."""
    users: dict[Link, list[str]] = {}
    with zipfile.ZipFile(jar) as archive:
        names = [entry.filename for entry in archive.infolist() if entry.filename.endswith(_SUFFIX)]
        held: set[str] = {name[: -len(_SUFFIX)] for name in names}
        for name in names:
            if name.startswith(_OWN) and not name.startswith(_OTHERS):
                for link in needed(links_of(archive.read(name), ENGINE), held):
                    users.setdefault(link, []).append(name[: -len(_SUFFIX)])
    return users


# In every bundle that Sluice works with, and the first of it that Spark loads.
BUNDLE_CLASS = "org.apache.hudi.DefaultSource"
_ABSENT = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")


@dataclass(frozen=True)
class Bundle:
    """The jar that Hudi's classes come from, and the version that it calls itself (empty: none)."""

    path: Path
    version: str


class EngineReflection:
    """The engine's classes as its own class loader finds them. Each is asked for once; safe in several threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        # Py4J asks the JVM for each part of a name each time that it is written: what is called thousands of times is named once.
        self._for_name: Callable[..., Any] = self._jvm.java.lang.Class.forName
        self._string_of: Callable[[Any], Any] = self._jvm.scala.runtime.ScalaRunTime.stringOf
        self._loader = self._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        self._known: dict[str, Described | None] = {}
        self._lock = threading.Lock()

    def bundle(self) -> Bundle:
        """Where Hudi's classes come from. Raises NoBundle and BundleOutOfReach."""
        try:
            found = self._class(BUNDLE_CLASS)
        except Py4JJavaError as error:
            raise NoBundle(f"No jar on Spark's class path has {BUNDLE_CLASS}") from error
        source, package = found.getProtectionDomain().getCodeSource(), found.getPackage()
        place = "" if source is None else str(source.getLocation().toString())
        path = Path(unquote(urlsplit(place).path))
        if not path.is_file():
            raise BundleOutOfReach(
                f"Hudi's classes come from {place[:300]!r}, which is no file of this machine", found=place[:300]
            )
        return Bundle(path, str((package.getImplementationVersion() if package is not None else None) or ""))

    def engine(self) -> Engine:
        """The versions of what jobs run on."""
        return Engine(
            spark=str(self._spark.version),
            hadoop=str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()),
            scala=str(self._jvm.scala.util.Properties.versionNumberString()),
            java=str(self._jvm.java.lang.System.getProperty("java.version")),
        )

    def describe(self, name: str) -> Described | None:
        """A class by its name in a class file's form; None when there is no such class."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._described(name)
            return self._known[name]

    def _described(self, name: str) -> Described | None:
        try:
            return _ReflectedClass(self._class(name.replace("/", ".")), self._string_of)
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) in _ABSENT:
                return None
            raise

    def _class(self, name: str) -> Any:
        return self._for_name(name, False, self._loader)


class _ReflectedClass:
    """A class in the JVM; what was asked for once is kept. All of an array comes in one answer: each item would cost as much as all."""

    def __init__(self, found: Any, string_of: Callable[[Any], Any]) -> None:
        """`string_of` is Scala's: java.util.Arrays has one for arrays of objects, for which Py4J takes no other array."""
        self._found = found
        self._string_of = string_of

    @cached_property
    def interface(self) -> bool:
        return bool(self._found.isInterface())

    @cached_property
    def parents(self) -> tuple[str, ...]:
        superclass = self._found.getSuperclass()
        above = (str(superclass.getName()).replace(".", "/"),) if superclass is not None else ()
        return above + interfaces_in(self._text(self._found.getInterfaces()))

    def declares(self, name: str, descriptor: str) -> bool | None:
        try:
            members = (
                self._constructors
                if name == CONSTRUCTOR
                else self._methods
                if descriptor.startswith("(")
                else self._fields
            )
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) not in _ABSENT:
                raise
            return None
        return (name, descriptor) in members

    @cached_property
    def _methods(self) -> frozenset[Member]:
        return methods_in(self._text(self._found.getDeclaredMethods()))

    @cached_property
    def _constructors(self) -> frozenset[Member]:
        return constructors_in(self._text(self._found.getDeclaredConstructors()))

    @cached_property
    def _fields(self) -> frozenset[Member]:
        return fields_in(self._text(self._found.getDeclaredFields()))

    def _text(self, array: Any) -> str:
        """An array as java.util.Arrays would tell it."""
        return f"[{str(self._string_of(array))[len('Array(') : -1]}]"
