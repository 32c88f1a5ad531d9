"""A stack as one release left it: what it stored, written into a file, and put back for the code of today.

`python -m emulation.recorded_world VERSION`, in a checkout of that release with `PYTHONPATH=tests`, writes
`tests/data/releases/VERSION.json.gz`: the ledger's items, all objects of the buckets with their versions and times, and
the exit code of commands on them.
"""

from __future__ import annotations

import base64
import gzip
import json
import shlex
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from emulation.pinned_world import NOON, Clock, World, new_folder
from emulation.stack import BUCKETS, new_stack
from sluice_aws.stack import Target
from sluice_cli.main import run

FOLDER = Path(__file__).resolve().parents[1] / "data" / "releases"
KEY = "topics/crm.public.user/partition=0/crm.public.user+0+0000000001.avro"
LINES = (
    "status",
    "history",
    "quarantine list",
    "quarantine list --parked",
    "quarantine list --decided",
    "ops runs",
    "ops batch show",
    "ops services list crm.user",
    "audit",
    "config show",
    "wait --timeout 0",
    f"trace {KEY}",
    "row crm.user 1",
    "verify crm.user",
    "table list",
    "table schema history crm.user",
)


def record(version: str) -> Path:
    """Build a stack with everything that is stored, and write it; the file."""
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        clock, folder = Clock(), new_folder(Path(home) / "silver")
        clock.start_ids(1)
        clock.pin(patch)
        (Path(home) / "work").mkdir()
        with new_stack(patch, Path(home) / "work", anew=True) as stack:
            World(stack, clock, folder).build()
            world = {
                "version": version,
                "now": NOON,
                "ledger": stack.dynamodb.scan(TableName="s-ledger")["Items"],
                "buckets": {bucket: _versions(stack.s3, bucket) for bucket in BUCKETS.values()},
            }
            read_in_place(patch, folder)
            world["exit_codes"] = {line: run(shlex.split(line)) for line in LINES}
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{version}.json.gz"
    file.write_bytes(gzip.compress(json.dumps(world, sort_keys=True).encode(), 9, mtime=0))
    return file


def _versions(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """All versions of a bucket's objects, the oldest first."""
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
    listed = [entry for page in pages for entry in page.get("Versions", ())]
    return [
        {
            "key": entry["Key"],
            "version": entry["VersionId"],
            "put_at": int(entry["LastModified"].timestamp() * 1000),
            "body": base64.b64encode(_body(s3, bucket, entry)).decode(),
        }
        for entry in sorted(listed, key=lambda entry: (entry["LastModified"], entry["VersionId"]))
    ]


def _body(s3: Any, bucket: str, entry: dict[str, Any]) -> bytes:
    version = {} if entry["VersionId"] == "null" else {"VersionId": entry["VersionId"]}
    return bytes(s3.get_object(Bucket=bucket, Key=entry["Key"], **version)["Body"].read())


def read_world(file: Path) -> dict[str, Any]:
    """What a release stored."""
    world: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return world


def restore(world: dict[str, Any], stack: Any, clock: Clock, patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put a recorded world into an empty stack, and the files of its tables also into a folder."""
    for bucket, versions in world["buckets"].items():
        for entry in versions:
            body = base64.b64decode(entry["body"])
            clock.ms = entry["put_at"]
            patch.setattr("ministack.services.s3.new_uuid", lambda entry=entry: entry["version"])
            stack.s3.put_object(Bucket=bucket, Key=entry["key"], Body=body)
            if bucket == BUCKETS["SilverBucket"]:
                path = folder / entry["key"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
    patch.setattr("ministack.services.s3.new_uuid", clock.next_id)
    for item in world["ledger"]:
        stack.dynamodb.put_item(TableName="s-ledger", Item=item)
    clock.ms = world["now"]


def read_in_place(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have commands read tables from a folder."""
    patch.setattr(Target, "silver_url", folder.as_uri())
    patch.setattr(Target, "storage_options", lambda self: {})


if __name__ == "__main__":
    print(f"{record(sys.argv[1])} at {datetime.now(timezone.utc):%Y-%m-%d}")
