"""What a merge in this process needs around it: an emulated S3 with both buckets, and a log that keeps nothing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

REGION, BRONZE, SILVER, RUN = "us-east-1", "bronze", "silver", "run-bench-1"


class Quiet:
    """A log that keeps nothing."""

    def event(self, name: str, **fields: object) -> None:
        """Forget it."""


@contextmanager
def emulated_s3() -> Iterator[str]:
    """An S3 on this machine, for tasks of Spark too; its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def s3_client(endpoint: str):
    """A client of the emulated S3, which takes any credentials."""
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )


def make_buckets(s3) -> None:
    """The two buckets, bronze with versions; what is there stays."""
    for bucket in (BRONZE, SILVER):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
