"""Finds a Python of a given version on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

ANSWER_SECONDS = 30.0  # a pyenv shim starts several programs, which takes long on a busy machine


def find_python(version: str, environment: Mapping[str, str], looked: list[str] | None = None) -> Path | None:
    """The first Python of `version` ("3.13"): SLUICE_PYTHON_<digits>, PATH, pyenv's or uv's. None if there is none.

    Adds the places where it looked to `looked`.
    """
    for where, candidate in _candidates(version, environment):
        if looked is not None:
            looked.append(where)
        if candidate is not None and _version(candidate) == version:
            return candidate
    return None


def _candidates(version: str, environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    variable = f"SLUICE_PYTHON_{version.replace('.', '')}"
    path = environment.get("PATH", os.defpath)
    given, on_path, uv = (
        environment.get(variable),
        shutil.which(f"python{version}", path=path),
        shutil.which("uv", path=path),
    )
    yield variable, Path(given) if given else None
    yield f"python{version} on PATH", Path(on_path) if on_path else None
    versions = (
        Path(environment.get("PYENV_ROOT") or Path(environment.get("HOME", "~")).expanduser() / ".pyenv") / "versions"
    )
    yield str(versions), max(versions.glob(f"{version}*/bin/python"), default=None)
    out = subprocess.run([uv, "python", "find", version], capture_output=True, text=True).stdout.strip() if uv else ""
    yield "uv", Path(out) if out else None


def _version(python: Path) -> str | None:
    """The version that a command reports: a pyenv shim also exists for inactive versions.

    Isolated, since PYTHONPATH may name another version's modules.
    """
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
