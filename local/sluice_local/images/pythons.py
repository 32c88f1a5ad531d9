"""The Pythons of functions and jobs, without access to the working tree, and the functions' package for this machine.

A developer's environment can import Sluice from its source tree. Deployed code must not: a module missing from the
release has to fail here as it would in the cloud. So these Pythons start without `site` (no .pth files, no editable
installs) and find only the packages of the real runtime's image.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_deploy.functions import build_functions
from sluice_deploy.wheels import this_host
from sluice_local.processes import bound_command

# Packages of EMR's image for Python jobs, without their requirements. The release has its own boto3.
SPARK_IMAGE = ("pyspark", "numpy", "pandas", "pyarrow")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class PythonImage:
    """A Python command without `site`, and the directory of packages for its PYTHONPATH."""

    command: Path
    packages: Path


def build_spark_image(home: Path) -> PythonImage:
    """The Python of Spark drivers and workers: links to the packages of EMR's image, and a command that uses them."""
    packages = home / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for distribution in _with_requirements(SPARK_IMAGE):
        _link_distribution(distribution, packages)
    return PythonImage(_command(home / "python", bound_command([sys.executable, "-S"], parent=0)), packages)


def site_packages() -> list[str]:
    """The directories of installed packages, for a Python without `site`."""
    return [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]


def python_without_site(path: Path) -> Path:
    """A command that runs this Python without `site`."""
    return _command(path, [sys.executable, "-S"])


def _command(path: Path, command: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
    return path


def _with_requirements(names: Sequence[str]) -> list[str]:
    """The distributions and their installed requirements: pandas needed pytz until 3.0."""
    requirements: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in requirements:
            continue
        requirements.append(name)
        for requirement in importlib.metadata.requires(name) or ():
            needed, _, marker = requirement.partition(";")
            wanted = _NAME.match(needed.strip())
            if wanted and "extra" not in marker and (not marker or _installed(wanted[0])):
                waiting.append(wanted[0])
    return requirements


def _installed(name: str) -> bool:
    return any(True for _ in importlib.metadata.distributions(name=name))


def _link_distribution(name: str, packages: Path) -> None:
    """Link the top-level files of a distribution, with its metadata."""
    distribution = importlib.metadata.distribution(name)
    root = Path(str(distribution.locate_file("")))
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__", "bin")}
    for top in tops:
        link = packages / top
        if (root / top).exists() and not link.is_symlink():
            os.symlink(root / top, link)


def function_package(root: Path, cache: Path) -> bytes:
    """A zip of functions/ and its requirements for this Python. Raises WheelsUnavailable."""
    return build_functions(root, this_host(), Path(sys.executable), cache)
