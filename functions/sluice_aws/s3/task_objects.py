"""S3 as a Spark task reaches it: a client of its own, made once per worker process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import boto3
from botocore.config import Config

from sluice_aws.s3.objects import Objects

READ_AHEAD_OBJECTS = 8  # requests of one task under way at a time
ATTEMPTS = 4
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30


@dataclass(frozen=True)
class ObjectSource:
    """How a task reaches S3. Pickled into tasks: credentials come from the task's own surroundings.

    `endpoint_url` is an emulator's address, None on AWS. `silver_bucket` is where a task leaves the
    reasons for what it could not read.
    """

    region: str
    silver_bucket: str
    endpoint_url: str | None = None


@lru_cache(maxsize=4)
def task_objects(source: ObjectSource) -> Objects:
    """S3 for this process. Spark keeps a worker from task to task, and making a client takes as long as reading ten objects."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=READ_AHEAD_OBJECTS + 2,
        s3={"addressing_style": "path"} if source.endpoint_url else None,
    )
    session = boto3.Session(region_name=source.region)
    return Objects(session.client("s3", endpoint_url=source.endpoint_url, config=config))
