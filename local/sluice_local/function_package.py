"""Packs the functions for this machine, as `sam build` packs them for Lambda."""

from __future__ import annotations

import compileall
import hashlib
import py_compile
import sys
import tempfile
from pathlib import Path

from sluice_cli.archives import read_tree, zip_bytes
from sluice_cli.wheels import this_host, wheel_contents

_PARTS = ("sluice", "sluice_aws", "admit", "supervise", "reconcile", "announce", "sync_catalog", "plan_services")


def function_package(root: Path, cache: Path) -> bytes:
    """A zip of functions/ and its requirements for this Python; boto3 is the runtime's own, as in Lambda. Raises WheelsUnavailable.

    Compiled ahead, because an emulator unpacks and imports it anew for every process that it starts.
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
    """`files` with their byte code, valid whatever the time stamps of the unpacked sources are."""
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
