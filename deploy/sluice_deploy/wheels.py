"""Fetches the wheels of a pinned list with hashes, for another machine too, and reads their files."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice_deploy.errors import WheelsUnavailable

# Platform tags for EMR's and Lambda's Linux: Amazon Linux 2023 has glibc 2.34.
_PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Host:
    """The target of wheels: a Python version ("3.9") and an architecture (x86_64 or arm64)."""

    python: str
    architecture: str
    this_machine: bool = False


def this_host() -> Host:
    """This Python and processor."""
    machine = platform.machine().lower()
    return Host(
        f"{sys.version_info.major}.{sys.version_info.minor}",
        "arm64" if machine in ("arm64", "aarch64") else "x86_64",
        this_machine=True,
    )


@dataclass(frozen=True)
class Wheel:
    """A wheel by its file name, and its SHA-256 in hexadecimal digits."""

    file: str
    sha256: str

    @property
    def name(self) -> str:
        """The package's normalized name."""
        return self.file.split("-")[0].replace("_", "-").lower()

    @property
    def version(self) -> str:
        return self.file.split("-")[1]


def listed_wheels(requirements: Path, host: Host, cache: Path) -> tuple[Wheel, ...]:
    """The wheels of `requirements`, as `wheel_contents` reads them. Raises WheelsUnavailable."""
    return tuple(
        Wheel(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(_wheels(requirements, host, cache).glob("*.whl"))
    )


def wheel_contents(requirements: Path, host: Host, cache: Path) -> dict[str, bytes]:
    """The files of the wheels of `requirements`, a complete list with hashes, by their path in site-packages.

    `cache` keeps wheels by the content of the list and the host. Raises WheelsUnavailable.
    """
    content: dict[str, bytes] = {}
    for wheel in sorted(_wheels(requirements, host, cache).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                # Scripts and headers don't belong into a package directory. No wheel of the list has data files.
                if not entry.is_dir() and ".data/" not in entry.filename:
                    content[entry.filename] = archive.read(entry)
    return content


_MODELS = "botocore/data/"


def without_models(files: Mapping[str, bytes], services: Collection[str]) -> dict[str, bytes]:
    """`files` of wheels without what no program reads: other services' models in botocore, and lists made by pip.

    The models of all 400 services are 20 MB.
    """
    return {name: content for name, content in files.items() if _is_read(name, services)}


def _is_read(name: str, services: Collection[str]) -> bool:
    if name.endswith(("/RECORD", "/INSTALLER")):
        return False
    if not name.startswith(_MODELS):
        return True
    service, separator, _ = name[len(_MODELS) :].partition("/")
    return not separator or service in services


def _wheels(requirements: Path, host: Host, cache: Path) -> Path:
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    here = f"-{sys.platform}" if host.this_machine else ""
    folder = cache / "wheels" / f"{digest}-{host.python}-{host.architecture}{here}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A folder of its own: another process may fetch the same wheels.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fetched = Path(scratch) / "wheels"
        fetched.mkdir()
        _download(requirements, host, fetched)
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def _download(requirements: Path, host: Host, folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--dest",
        str(folder),
        "--requirement",
        str(requirements),
    ]
    if not host.this_machine:
        command += ["--implementation", "cp", "--python-version", host.python]
        command += [f"--platform={tag}_{_MACHINES[host.architecture]}" for tag in _PLATFORMS]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise WheelsUnavailable(
            f"The wheels of {requirements.name} for Python {host.python} on {host.architecture} couldn't be fetched: "
            f"{done.stderr.strip()[-500:]}",
            output=done.stderr,
        )
