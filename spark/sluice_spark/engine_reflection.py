"""Asks the driver's JVM, by reflection, what the engine is and what its classes declare. Initializes no class."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Dict, FrozenSet, Optional, Tuple
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice.class_links import CONSTRUCTOR
from sluice.engine_links import Described, Member, constructors_in, fields_in, interfaces_in, methods_in
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
        # Py4J asks the JVM for each part of a name each time that it is written: what is called thousands of times is named once.
        self._for_name: Callable[..., Any] = self._jvm.java.lang.Class.forName
        self._string_of: Callable[[Any], Any] = self._jvm.scala.runtime.ScalaRunTime.stringOf
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

    def describe(self, name: str) -> Optional[Described]:
        """A class by its name in a class file's form; None when there is no such class."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._described(name)
            return self._known[name]

    def _described(self, name: str) -> Optional[Described]:
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
    def parents(self) -> Tuple[str, ...]:
        superclass = self._found.getSuperclass()
        above = (str(superclass.getName()).replace(".", "/"),) if superclass is not None else ()
        return above + interfaces_in(self._text(self._found.getInterfaces()))

    def declares(self, name: str, descriptor: str) -> Optional[bool]:
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
    def _methods(self) -> FrozenSet[Member]:
        return methods_in(self._text(self._found.getDeclaredMethods()))

    @cached_property
    def _constructors(self) -> FrozenSet[Member]:
        return constructors_in(self._text(self._found.getDeclaredConstructors()))

    @cached_property
    def _fields(self) -> FrozenSet[Member]:
        return fields_in(self._text(self._found.getDeclaredFields()))

    def _text(self, array: Any) -> str:
        """An array as java.util.Arrays would tell it."""
        return f"[{str(self._string_of(array))[len('Array(') : -1]}]"
