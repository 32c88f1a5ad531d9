"""The bill of materials of a package: a CycloneDX document of its wheels and files, without a date or a random number.

Source of the format: https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from sluice_deploy.wheels import Wheel

SBOM = "sbom.cdx.json"


def sbom(name: str, wheels: Iterable[Wheel], files: Mapping[str, bytes]) -> bytes:
    """The document of a package `name` that contains `wheels`; `files` are its own, by name. Sorted: same input, same
    bytes.
    """
    components = [_library(wheel) for wheel in sorted(wheels, key=lambda wheel: wheel.file)]
    components += [_file(file, content) for file, content in sorted(files.items())]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": name, "name": name}},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def _library(wheel: Wheel) -> dict[str, Any]:
    url = f"pkg:pypi/{wheel.name}@{wheel.version}?file_name={quote(wheel.file)}"
    return {
        "type": "library",
        "bom-ref": url,
        "name": wheel.name,
        "version": wheel.version,
        "purl": url,
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
    }


def _file(name: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
