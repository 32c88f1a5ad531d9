"""Compiles the sources of an archive ahead, for one Python: the same sources and Python give the same bytes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sluice_deploy.errors import NotCompiled


def byte_code(files: Mapping[str, bytes], python: Path | None, *, in_zip: bool = False) -> dict[str, bytes]:
    """The byte code of the sources in `files`, by path; none without a `python`.

    It is used without a look at the sources' time stamps, and not at all by a Python of another version. `in_zip` for
    an archive that Python imports from as it is: there it looks for byte code beside the source. One process compiles
    in the order of names, with a fixed seed for hashes. Raises NotCompiled.
    """
    if python is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="sluice-byte-code-") as scratch:
        root = Path(scratch) / "package"  # not the folder in which the compiler starts, and from which it would import
        root.mkdir()
        for name, content in files.items():
            if name.endswith(".py"):
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        command = [str(python), "-m", "compileall", "-q", "-s", str(root), "--invalidation-mode", "unchecked-hash"]
        command += ["-b"] if in_zip else []
        done = subprocess.run(
            [*command, str(root)], env=_environment(), cwd=scratch, capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-500:]
            raise NotCompiled(f"{python} could not compile the sources: {said}", output=said)
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.pyc"))}


def build_of(python: Path | None) -> str:
    """The build of the compiling Python: byte code may differ between two."""
    if python is None:
        return ""
    return subprocess.run(
        [str(python), "-c", "import sys; print(sys.version)"], env=_environment(), capture_output=True, text=True
    ).stdout


def _environment() -> dict[str, str]:
    """The environment without what changes a Python's modules or its order of sets."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**variables, "PYTHONHASHSEED": "0"}
