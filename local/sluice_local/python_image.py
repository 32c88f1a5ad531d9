"""The Pythons that functions and jobs run on: the runtime's own packages, with the working tree out of reach.

A developer's environment can import Sluice from its source tree. What is deployed must not: a module that was left out of
the release has to fail here as it would in the cloud. So a runtime's Python starts without `site` (no .pth files, no editable
installs) and finds only the packages that the real runtime's image holds.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from sluice_local.children import bound_command

# What EMR's image holds for Python jobs, besides what these need. boto3 is there too, but the release brings its own.
SPARK_IMAGE = ("pyspark", "numpy", "pandas", "pyarrow")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class PythonImage:
    """A Python command that runs without `site`, and the directory of packages to put on its PYTHONPATH."""

    command: Path
    packages: Path


def build_spark_image(home: Path) -> PythonImage:
    """The Python of Spark drivers and workers: a directory of links to the packages of EMR's image, and a command that uses it."""
    packages = home / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for distribution in _with_requirements(SPARK_IMAGE):
        _link_distribution(distribution, packages)
    return PythonImage(_command(home / "python", bound_command([sys.executable, "-S"], parent=0)), packages)


def site_packages() -> list[str]:
    """The directories that installed packages live in, for a Python that runs without `site`."""
    return [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]


def python_without_site(path: Path) -> Path:
    """A command that is this Python without `site`."""
    return _command(path, [sys.executable, "-S"])


def _command(path: Path, command: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
    return path


def _with_requirements(names: Sequence[str]) -> list[str]:
    """The distributions and what they need, as installed: pandas needed pytz until 3.0."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.append(name)
        for requirement in importlib.metadata.requires(name) or ():
            needed, _, marker = requirement.partition(";")
            wanted = _NAME.match(needed.strip())
            if wanted and "extra" not in marker and (not marker or _installed(wanted[0])):
                waiting.append(wanted[0])
    return found


def _installed(name: str) -> bool:
    return any(True for _ in importlib.metadata.distributions(name=name))


def _link_distribution(name: str, packages: Path) -> None:
    """Link what a distribution put at the top of site-packages, its metadata included."""
    distribution = importlib.metadata.distribution(name)
    root = Path(str(distribution.locate_file("")))
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__", "bin")}
    for top in tops:
        link = packages / top
        if (root / top).exists() and not link.is_symlink():
            os.symlink(root / top, link)
