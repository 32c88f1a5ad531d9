"""The local stand-in of EMR's image: Java, Spark's jars, S3A, the Python of jobs, and an archive of class data.

Half of a cold start is the JVM reading and verifying the same 15,000 classes. The first job of a (Java, class path)
lists the classes that it loads. When it has ended, another JVM turns the list into an archive in the cache, and every
later job maps that archive into memory. No job waits for the archive. A stack that ends first leaves the list for the
next one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_local.cache import only_one
from sluice_local.images.java import Java
from sluice_local.images.pythons import PythonImage, build_spark_image
from sluice_local.processes import bound_command, signal_of

# Spark's launcher adds these for Java 17 (org.apache.spark.launcher.JavaModuleOptions of 3.5).
_MODULES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={module}=ALL-UNNAMED" for module in _MODULES),
    "-Djdk.reflect.useDirectMethodHandle=false",
)
MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"

# Warnings and errors to stderr, without Hadoop's notes on its native library and its metrics at every start.
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.metrics.name = org.apache.hadoop.metrics2
logger.metrics.level = error
"""


@dataclass(frozen=True)
class SparkImage:
    """Shared by every job on this machine."""

    java: Java
    python: PythonImage
    spark_jars: tuple[Path, ...]
    file_system_jars: tuple[Path, ...]  # S3A and its SDK
    logging: Path

    def class_path(self, job_jars: Sequence[Path]) -> tuple[Path, ...]:
        """Jars in order: Spark's own first, as with `spark.jars`, the SDK with its 100,000 entries last.

        Without directories: class data can't be shared over a class path with directories.
        """
        return (*self.spark_jars, *job_jars, *self.file_system_jars)


def build_image(home: Path, java: Java, jars: Sequence[Path]) -> SparkImage:
    """The image under `home` with the jars of `ensure_jars`. Each job names its Hudi bundle itself."""
    home.mkdir(parents=True, exist_ok=True)
    logging = home / "log4j2.properties"
    logging.write_text(_LOGGING)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    spark = tuple(sorted((Path(spec.origin).parent / "jars").glob("*.jar")))
    file_system = sorted((jar for jar in jars if "hudi" not in jar.name), key=lambda jar: jar.stat().st_size)
    return SparkImage(java, build_spark_image(home / "python"), spark, tuple(file_system), logging)


_LOG = logging.getLogger(__name__)
_FEWEST_CLASSES = 8_000  # a job that wrote to no table loads fewer classes, and its list would make a poor archive

# By default Java maps an archive at another address at each start, and corrects every pointer in its 120 MB.
_AT_ITS_ADDRESS = ("-Xshare:auto", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one Java and one class path. `home` is in the cache."""

    java: Java
    class_path: tuple[Path, ...]
    home: Path

    @property
    def path(self) -> Path:
        """The file of the archive."""
        return self.home / f"classes-{self._key()}.jsa"

    @property
    def classes(self) -> Path:
        """The file of the list of classes."""
        return self.path.with_suffix(".lst")

    def options(self, scratch: Path) -> list[str]:
        """JVM options that use the archive, or write the list of classes into `scratch`."""
        if self.path.exists():
            return [f"-XX:SharedArchiveFile={self.path}", *_AT_ITS_ADDRESS]
        return [f"-XX:DumpLoadedClassList={_list(scratch)}"]

    def remember(self, scratch: Path) -> bool:
        """Keep the list that a job left in `scratch`. Returns whether an archive can be built."""
        if self.path.exists() or self.classes.exists() or not _list(scratch).exists():
            return self.classes.exists()
        if _list(scratch).read_bytes().count(b"\n") < _FEWEST_CLASSES:
            return False
        # In a file of its own: the JVM refuses a list with a line this long, even as a comment.
        _beside(self.classes).write_text(json.dumps([str(jar) for jar in self.class_path]))
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        shutil.move(_list(scratch), partial)
        partial.replace(self.classes)
        return True

    def build(self) -> bool:
        """Build the archive from the kept list, in some 20 s of one core. Returns whether there is an archive."""
        with only_one(self.home / "lock"):
            return self.path.exists() or (self.classes.exists() and self._dump())

    def _dump(self) -> bool:
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        # G1, so that the archive holds heap objects, which the jobs' collector can map. At low priority.
        command = [
            "nice",
            "-n",
            "19",
            str(self.java.binary),
            "-Xshare:dump",
            "-XX:+UseG1GC",
            f"-XX:SharedClassListFile={self.classes}",
            f"-XX:SharedArchiveFile={partial}",
            *MODULE_OPTIONS,
            "-cp",
            join(self.class_path),
        ]
        done = subprocess.run(
            bound_command(command, parent=os.getpid()), capture_output=True, text=True, errors="replace", check=False
        )
        if signal_of(done.returncode) is not None:
            partial.unlink(missing_ok=True)
            return False  # the stack ended first, by Ctrl-C for example; the list stays for the next one
        if done.returncode != 0 or not partial.exists():
            log = self.path.with_suffix(".log")
            log.write_text(done.stdout + done.stderr)
            _LOG.warning("Jobs start slower: no archive of class data was built, see %s", log)
            partial.unlink(missing_ok=True)
            self._forget()  # a second build would fail, too
            return False
        partial.replace(self.path)
        self._forget()
        return True

    def _forget(self) -> None:
        self.classes.unlink()
        _beside(self.classes).unlink()

    def _key(self) -> str:
        """Hashes what the JVM checks of each jar: path, size and time."""
        parts = [str(self.java.home), self.java.version, sys.platform]
        for jar in self.class_path:
            status = jar.stat()
            parts.append(f"{jar}:{status.st_size}:{status.st_mtime_ns}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def build_remembered(java: Java, home: Path) -> None:
    """Build the archives for lists left by an earlier stack."""
    for classes in home.glob("classes-*.lst"):
        class_path = tuple(Path(jar) for jar in json.loads(_beside(classes).read_text()))
        if all(jar.exists() for jar in class_path):
            archive = ClassArchive(java, class_path, home)
            if archive.classes == classes:  # otherwise another Java's, or of changed jars
                archive.build()


def _beside(classes: Path) -> Path:
    """The file with the class path of a kept list."""
    return classes.with_suffix(".json")


def _list(scratch: Path) -> Path:
    return scratch / "loaded-classes.lst"


def join(class_path: Sequence[Path]) -> str:
    """A class path for the JVM."""
    return os.pathsep.join(str(jar) for jar in class_path)
