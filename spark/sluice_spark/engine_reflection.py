"""Asks the driver's JVM, by reflection, what the engine is and what its classes declare. Initializes no class."""
from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice.engine_links import Described, described
from sluice.engine_report import Engine, NoBundle
from sluice.errors import SluiceError

# In every bundle that Sluice works with, and the first of it that Spark loads.
BUNDLE_CLASS = "org.apache.hudi.DefaultSource"
_ABSENT = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")


class BundleOutOfReach(SluiceError):
    """The Hudi bundle is there, and the driver can't read it as a file; facts: `found`."""

    code = "bundle_out_of_reach"
    next_step = "Runs go on; give HudiJars as a file of the image or an object in S3 to have it checked"


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
        self._loader = self._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        self._known: Dict[str, Optional[Described]] = {}
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
            raise BundleOutOfReach(f"Hudi's classes come from {place[:300]!r}, which is no file of this machine", found=place[:300])
        return Bundle(path, str((package.getImplementationVersion() if package is not None else None) or ""))

    def engine(self) -> Engine:
        """The versions of what jobs run on."""
        return Engine(
            spark=str(self._spark.version), hadoop=str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()),
            scala=str(self._jvm.scala.util.Properties.versionNumberString()), java=str(self._jvm.java.lang.System.getProperty("java.version")),
        )

    def describe(self, name: str) -> Optional[Described]:
        """A class by its name in a class file's form; None when there is no such class."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._described(name)
            return self._known[name]

    def _described(self, name: str) -> Optional[Described]:
        try:
            found = self._class(name.replace("/", "."))
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) in _ABSENT:
                return None
            raise
        superclass, interfaces = found.getSuperclass(), self._text(found.getInterfaces())
        # "class a.B" and "interface a.B" are how a class is written, "[interface a.B, interface a.C]" how several are.
        above = [str(superclass.getName())] if superclass is not None else []
        parents = above + [item.rpartition(" ")[2] for item in interfaces[1:-1].split(", ") if item]
        try:
            return described(
                interface=bool(found.isInterface()), methods=self._text(found.getDeclaredMethods()), constructors=self._text(found.getDeclaredConstructors()),
                fields=self._text(found.getDeclaredFields()), parents=parents)
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) not in _ABSENT:
                raise
            return Described(bool(found.isInterface()), None, tuple(parent.replace(".", "/") for parent in parents))

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name, False, self._loader)

    def _text(self, array: Any) -> str:
        """All of an array in one answer: asking for each item costs as much as for all."""
        return str(self._jvm.java.util.Arrays.toString(array))
