"""Builds the functions' package: sources, libraries and byte code in one zip, the same bytes from the same commit."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sluice_deploy.byte_code import build_of, byte_code
from sluice_deploy.release import read_packages, zip_bytes
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
    sources = read_packages(root / "functions", PARTS)
    requirements = root / "functions" / "requirements.txt"
    digest = hashlib.sha256()
    for source in (requirements, *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(source.read_bytes())
    digest.update(repr((host, build_of(python))).encode())
    for name, content in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    archive = cache / "functions" / f"{digest.hexdigest()[:20]}.zip"
    if not archive.exists():
        libraries = without_models(wheel_contents(requirements, host, cache), SERVICES)
        files = {**libraries, **sources}
        files[SBOM] = sbom("sluice-functions", listed_wheels(requirements, host, cache), {})
        files.update(byte_code(files, python))
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(f".{os.getpid()}")
        partial.write_bytes(zip_bytes(files))
        partial.replace(archive)
    return archive.read_bytes()
