"""Surroundings of a merge in this process: an emulated S3 with both buckets, and a silent log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sluice_aws.clients import COMMAND, Clients, Credentials

REGION, BRONZE, SILVER, RUN = "us-east-1", "bronze", "silver", "run-bench-1"


class Quiet:
    """A log that keeps no events."""

    def event(self, name: str, **fields: object) -> None:
        """Ignore the event."""


@contextmanager
def emulated_s3() -> Iterator[str]:
    """Run an S3 on this machine, also for Spark's tasks. Yields its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it logs each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def s3_client(endpoint: str):
    """A client of the emulated S3, which accepts any credentials."""
    return Clients(region=REGION, endpoint_url=endpoint, options=COMMAND, credentials=Credentials("test", "test")).s3


def make_buckets(s3) -> None:
    """Create both buckets, bronze with versions, unless they exist."""
    for bucket in (BRONZE, SILVER):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
