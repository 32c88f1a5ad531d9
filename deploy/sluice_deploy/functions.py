"""Builds the functions' package: sources, libraries and byte code in one zip, the same bytes from the same commit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sluice_deploy.errors import NotCompiled
from sluice_deploy.release import read_tree, zip_bytes
from sluice_deploy.sbom import SBOM, sbom
from sluice_deploy.wheels import Host, listed_wheels, wheel_contents, without_models

PARTS = (
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
# The services that the functions call.
SERVICES = ("s3", "dynamodb", "emr-serverless", "events", "glue")


def build_functions(root: Path, host: Host, python: Path | None, cache: Path) -> bytes:
    """The zip of functions/ under `root` and of its requirements for `host`, with a bill of materials.

    `python` compiles ahead and must have the host's version; None leaves the byte code out. `cache` keeps the package
    by its inputs. Raises WheelsUnavailable and NotCompiled.
    """
    sources = read_tree(root / "functions", PARTS)
    requirements = root / "functions" / "requirements.txt"
    digest = hashlib.sha256()
    for each in (requirements, *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(each.read_bytes())
    digest.update(repr((host, _build_of(python))).encode())
    for name, content in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    kept = cache / "functions" / f"{digest.hexdigest()[:20]}.zip"
    if not kept.exists():
        libraries = without_models(wheel_contents(requirements, host, cache), SERVICES)
        files = {**libraries, **sources}
        files[SBOM] = sbom("sluice-functions", listed_wheels(requirements, host, cache), {})
        if python is not None:
            files.update(byte_code(files, python))
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(zip_bytes(files))
        partial.replace(kept)
    return kept.read_bytes()


def byte_code(files: Mapping[str, bytes], python: Path) -> dict[str, bytes]:
    """The byte code of the sources in `files`, which is used without a look at the sources' time stamps.

    One process compiles in the order of names, with a fixed seed for hashes: the same sources give the same bytes.
    Raises NotCompiled.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-functions-") as scratch:
        root = Path(scratch) / "package"  # not the folder in which the compiler starts, and from which it would import
        for name, content in files.items():
            if name.endswith(".py"):
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        command = [str(python), "-m", "compileall", "-q", "-s", str(root), "--invalidation-mode", "unchecked-hash"]
        done = subprocess.run(
            [*command, str(root)], env=_environment(), cwd=scratch, capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-500:]
            raise NotCompiled(f"{python} could not compile the functions: {said}", output=said)
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.pyc"))}


def _environment() -> dict[str, str]:
    """The environment without what changes a Python's modules or its order of sets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONHASHSEED": "0"}


def _build_of(python: Path | None) -> str:
    """The build of the compiling Python: byte code may differ between two."""
    if python is None:
        return ""
    return subprocess.run(
        [str(python), "-c", "import sys; print(sys.version)"], env=_environment(), capture_output=True, text=True
    ).stdout
