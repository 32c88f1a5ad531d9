"""What a lane is configured to be: how its runs are sized and when they end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaneConfig:
    """How a lane's runs are sized: times in seconds, a batch's budget, Spark's driver and executors.

    `service_slice_s` is about how long a slice of a table service takes, and so how long ingest may wait for one.
    """

    name: str = "main"
    linger_s: int = 60
    max_age_s: int = 14_400
    batch_objects: int = 5_000
    batch_bytes: int = 4 * 1024**3
    batch_rows: int = 20_000_000
    driver_cores: int = 2
    driver_memory_gb: int = 6
    executor_cores: int = 2
    executor_memory_gb: int = 6
    min_executors: int = 1
    max_executors: int = 5
    service_slice_s: int = 20
