"""The Pythons of functions and jobs, without access to the working tree, and the functions' package for this machine.

A developer's environment can import Sluice from its source tree. Deployed code must not: a module missing from the
release has to fail here as it would in the cloud. So these Pythons start without `site` (no .pth files, no editable
installs) and find only the packages of the real runtime's image.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.metadata
import os
import py_compile
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_deploy.release import read_tree, zip_bytes
from sluice_deploy.wheels import this_host, wheel_contents
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
    """Link the top-level files of a distribution, with its metadata."""
    distribution = importlib.metadata.distribution(name)
    root = Path(str(distribution.locate_file("")))
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__", "bin")}
    for top in tops:
        link = packages / top
        if (root / top).exists() and not link.is_symlink():
            os.symlink(root / top, link)


_PARTS = (
    "sluice",
    "sluice_formats",
    "sluice_aws",
    "admit",
    "supervise",
    "reconcile",
    "announce",
    "sync_catalog",
    "plan_services",
)


def function_package(root: Path, cache: Path) -> bytes:
    """A zip of functions/ and its requirements for this Python. boto3 is the runtime's own, as in Lambda.

    Compiled ahead, because an emulator unpacks and imports it for every process that it starts. Raises
    WheelsUnavailable.
    """
    sources = read_tree(root / "functions", _PARTS)
    requirements = root / "functions" / "requirements.txt"
    digest = hashlib.sha256(requirements.read_bytes() + Path(__file__).read_bytes() + sys.version.encode())
    for name, content in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    kept = cache / "functions" / f"{digest.hexdigest()[:20]}.zip"
    if not kept.exists():
        packed = zip_bytes(_compiled({**wheel_contents(requirements, this_host(), cache), **sources}))
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_bytes(packed)
        partial.replace(kept)
    return kept.read_bytes()


def _compiled(files: dict[str, bytes]) -> dict[str, bytes]:
    """`files` with their byte code, valid for any time stamps of the unpacked sources."""
    with tempfile.TemporaryDirectory(prefix="sluice-functions-") as scratch:
        root = Path(scratch)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        compileall.compile_dir(
            root, quiet=2, stripdir=scratch, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
