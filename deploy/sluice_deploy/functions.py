"""Builds the functions' package: sources, libraries and byte code in one zip, the same bytes from the same commit."""

from __future__ import annotations

from pathlib import Path

from sluice_deploy.byte_code import byte_code
from sluice_deploy.release import packed_once, read_packages, zip_bytes
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
# The services that the functions call; supervise asks for the prices of its Region.
SERVICES = ("s3", "dynamodb", "emr-serverless", "events", "glue", "pricing")


def build_functions(root: Path, host: Host, python: Path | None, cache: Path) -> bytes:
    """The zip of functions/ under `root` and of its requirements for `host`, with a bill of materials.

    `python` compiles ahead and must have the host's version; None leaves the byte code out. `cache` keeps the package
    by its inputs. Raises WheelsUnavailable and NotCompiled.
    """
    sources = read_packages(root / "functions", PARTS)
    requirements = root / "functions" / "requirements.txt"

    def pack() -> bytes:
        files = {**without_models(wheel_contents(requirements, host, cache), SERVICES), **sources}
        files[SBOM] = sbom("sluice-functions", listed_wheels(requirements, host, cache), {})
        return zip_bytes({**files, **byte_code(files, python)})

    return packed_once(cache / "functions", ".zip", pack, requirements, [host], python, sources)
