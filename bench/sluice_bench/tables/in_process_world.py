"""Surroundings of a merge in this process: an emulated S3 with both buckets, and a silent log."""

import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice_aws.clients import COMMAND, Clients, Credentials

REGION, BRONZE, SILVER, RUN = "us-east-1", "bronze", "silver", "run-bench-1"


class Quiet:
    """A log that keeps no events."""

    def event(self, name: str, **fields: object) -> None:
        """Ignore the event."""


@contextmanager
def emulated_s3(*, logged: bool = False) -> Iterator[str]:
    """Run an S3 on this machine, also for Spark's tasks. Yields its address. `logged`: a line a request, to stderr."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.INFO if logged else logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@dataclass(frozen=True)
class OwnS3:
    """An emulated S3 in a process of its own: its address, and the file of its requests."""

    endpoint: str
    process_id: int
    log: Path

    def requests(self) -> int:
        """How many it got so far."""
        return self.log.read_bytes().count(b" HTTP/1.")


@contextmanager
def own_s3() -> Iterator[OwnS3]:
    """Run an S3 whose work isn't this process's."""
    with tempfile.TemporaryDirectory(prefix="sluice-s3-") as folder, (Path(folder) / "log").open("wb") as log:
        command = [sys.executable, "-m", __name__]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            assert process.stdin and process.stdout
            try:
                yield OwnS3(process.stdout.readline().strip(), process.pid, Path(log.name))
            finally:
                process.stdin.close()  # it ends


def s3_client(endpoint: str):
    """A client of the emulated S3, which accepts any credentials."""
    return Clients(region=REGION, endpoint_url=endpoint, options=COMMAND, credentials=Credentials("test", "test")).s3


def make_buckets(s3) -> None:
    """Create both buckets, bronze with versions, unless they exist."""
    for bucket in (BRONZE, SILVER):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})


if __name__ == "__main__":
    with emulated_s3(logged=True) as address:
        print(address, flush=True)
        sys.stdin.read()
