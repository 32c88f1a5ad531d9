"""S3 clients for Spark tasks, one per worker process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sluice_aws.clients import ClientOptions, Clients
from sluice_aws.s3.objects import Objects

READ_AHEAD_OBJECTS = 8  # requests of one task in flight
TASK = ClientOptions(attempts=4, read_timeout_s=30, connections=READ_AHEAD_OBJECTS + 2)


@dataclass(frozen=True)
class ObjectSource:
    """What a task needs to reach S3. Pickled into tasks; credentials come from the task's own environment.

    `endpoint_url` is an emulator's address, None on AWS. Tasks write quarantined rows into `silver_bucket`.
    """

    region: str
    silver_bucket: str
    endpoint_url: str | None = None


@lru_cache(maxsize=4)
def task_objects(source: ObjectSource) -> Objects:
    """S3 for this process. Spark reuses workers, and making a client takes as long as reading ten objects."""
    return Objects(Clients(region=source.region, endpoint_url=source.endpoint_url, options=TASK).s3)
