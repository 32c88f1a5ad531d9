"""Measures how fast objects are admitted, and by how many AWS calls, on the emulator and on a fake.

python -m sluice_bench.pipeline.admit [--objects 10,1000,10000] [--on emulator,fake]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from emulation.ledger_table_schema import create_ledger_table

from sluice.admission.notices import Notice
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.objects import ObjectId
from sluice_aws.admission.admit import THREADS, open_admission
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_bench.data.debezium_objects import SOURCES, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import Sizes, row
from sluice_bench.measure.results import keep, say
from sluice_local.emulators.choose import start_emulator
from sluice_local.emulators.emulator import ACCESS_KEY, REGION, SECRET_KEY

CAVEATS = (
    (
        "The function's admission runs in this process: 500 notices per invocation, in 32 threads. A deployment "
        "runs up to ten invocations at once."
    ),
    "The emulator serves one request at a time. The fake answers at once, which leaves Sluice's own work.",
    "Each invocation makes a few more calls: it reads the configuration, wakes each lane and starts a run.",
)
BRONZE, SILVER, LEDGER = "bench-bronze", "bench-silver", "bench-ledger"
PER_INVOCATION = 500
TABLE, ROW = "listing", 1


@dataclass
class Calls:
    """Counts AWS calls by name. Thread-safe."""

    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, operation: str) -> None:
        with self._lock:
            self.counts[operation] += 1


class FakeS3:
    """Has one small object under every key of bronze and none elsewhere. Accepts every write."""

    def __init__(self, body: bytes, calls: Calls) -> None:
        self._body = body
        self._calls = calls

    def get_object(self, *, Bucket: str, **_: Any) -> dict[str, Any]:
        self._calls.note("GetObject")
        if Bucket != BRONZE:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {
            "Body": StreamingBody(BytesIO(self._body), len(self._body)),
            "ContentLength": len(self._body),
            "ETag": '"e"',
        }

    def put_object(self, **_: Any) -> dict[str, Any]:
        self._calls.note("PutObject")
        return {}


class FakeDynamoDB:
    """Holds nothing and accepts every write."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def query(self, **_: Any) -> dict[str, Any]:
        self._calls.note("Query")
        return {"Items": [], "Count": 0}

    def transact_write_items(self, **_: Any) -> dict[str, Any]:
        self._calls.note("TransactWriteItems")
        return {}


@contextmanager
def emulator(calls: Calls) -> Iterator[tuple[Any, Any]]:
    """S3 and DynamoDB clients of an emulator that runs for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        running = start_emulator(Path(folder), environment=os.environ)
        try:
            session = boto3.Session(region_name=REGION, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
            config = Config(max_pool_connections=THREADS, s3={"addressing_style": "path"})
            clients = [
                session.client(service, endpoint_url=running.endpoint, config=config) for service in ("s3", "dynamodb")
            ]
            for bucket in (BRONZE, SILVER):
                clients[0].create_bucket(Bucket=bucket)
            clients[0].put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
            create_ledger_table(clients[1], LEDGER)
            for client in clients:
                client.meta.events.register("before-call", lambda model, **_: calls.note(model.name))
            yield clients[0], clients[1]
        finally:
            running.stop()


def measure(s3: Any, dynamodb: Any, notices: Sequence[Notice], calls: Calls) -> dict[str, Any]:
    """Admit the notices in batches of one invocation. Raises RuntimeError if one wasn't admitted."""
    objects, ledger = Objects(s3), Ledger(dynamodb, LEDGER)
    admission = open_admission(objects, ledger=ledger, silver_bucket=SILVER, now=epoch_ms)
    source = SOURCES[TABLE]
    configuration = Configuration((TableRule(f"bench.{TABLE}", (source.key,), topic=source.topic),))
    calls.counts.clear()
    began, cpu = time.perf_counter(), time.process_time()
    for first in range(0, len(notices), PER_INVOCATION):
        done = admission.admit_all(notices[first : first + PER_INVOCATION], configuration)
        if done.failed or any(admitted.written.state != "pending" for admitted in done.done.values()):
            reasons = list(done.failed.values()) or [admitted.written.reason for admitted in done.done.values()]
            raise RuntimeError(f"not admitted: {reasons[:3]}")
    seconds = time.perf_counter() - began
    counted = dict(sorted(calls.counts.items()))
    return {
        "objects": len(notices),
        "seconds": round(seconds, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "objects_per_second": round(len(notices) / seconds, 1),
        "calls_per_object": round(sum(counted.values()) / len(notices), 3),
        "calls": counted,
    }


def run(where: str, count: int) -> dict[str, Any]:
    """One measurement of `count` new objects, put before the clock starts."""
    body = object_bytes(TABLE, [record(TABLE, row(TABLE, ROW, seed=1, sizes=Sizes.scaled(0.01)), op="u", change=1)])
    calls = Calls()
    keys = [object_key(TABLE, number) for number in range(count)]
    if where == "fake":
        return {
            "on": where,
            **measure(FakeS3(body, calls), FakeDynamoDB(calls), [_notice(key, "v1", len(body)) for key in keys], calls),
        }
    with emulator(calls) as (s3, dynamodb):
        notices = [
            _notice(key, s3.put_object(Bucket=BRONZE, Key=key, Body=body)["VersionId"], len(body)) for key in keys
        ]
        return {"on": where, **measure(s3, dynamodb, notices, calls)}


def _notice(key: str, version: str, size: int) -> Notice:
    return Notice(
        id=ObjectId(BRONZE, key, version),
        size=size,
        etag="e",
        event_time_ms=None,
        sequencer=None,
        event_name="ObjectCreated:Put",
        via="s3",
    )


def main() -> None:
    """Measure, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", default="10,1000,10000")
    parser.add_argument("--on", default="emulator,fake")
    given = parser.parse_args()
    values = []
    for where in given.on.split(","):
        for count in map(int, given.objects.split(",")):
            values.append(run(where, count))
            print(f"admit on the {where}: {values[-1]['objects_per_second']} objects/s of {count} (local)", flush=True)
    results = {
        f"{value['objects']} on the {value['on']}": {
            name: value[name] for name in ("objects_per_second", "cpu_s", "calls_per_object")
        }
        for value in values
    }
    file = keep("admit", parameters=vars(given), caveats=CAVEATS, values=values, summary=results)
    say("Admit", CAVEATS, results, file)


if __name__ == "__main__":
    main()
