"""The configuration of a lane: how its runs are sized and when they end."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.config.limits import Limits
from sluice.config.setting import setting
from sluice.config.values import DAY_S, DURATION, GIB, HOUR_S, MIB, SIZE, choice, duration, whole

_COUNT = whole(1, 100_000_000)
# The worker sizes of EMR Serverless: cores, and the most memory in GB. It refuses the job of a larger worker.
# https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html#worker-configs
MOST_GB = {1: 8, 2: 16, 4: 30, 8: 60, 16: 120}
_CORES = choice(*MOST_GB)
_MEMORY_GB = whole(2, max(MOST_GB.values()))
# A run that ends before its first look is started again for ever and claims nothing.
_RUN_AGE = duration(60, 7 * DAY_S)
# A slice that is too short is all overhead; ingest waits for a whole one.
_SLICE = duration(5, 600)


# How many tables a run merges at the same time. Two keep two cores busy while one of them waits for S3; more were no
# faster on two cores.
TABLES_AT_ONCE = 2

# How long an idle run stays for objects that wait only for their table's freshness: about what a start costs, which
# is billed too. A run that stayed longer would cost more than the next one's start.
STAY_FOR_FRESHNESS_S = 120


@dataclass(frozen=True)
class LaneConfig:
    """The sizes of a lane's runs. Fields that end in `_s` are seconds."""

    name: str = "main"
    linger_s: int = setting(60, DURATION, "How long a run with nothing pending waits for more.", key="linger")
    max_age_s: int = setting(
        4 * HOUR_S, _RUN_AGE, "When a run ends, so that the next one uses a new release.", key="max_age"
    )
    batch_objects: int = setting(10_000, _COUNT, "Objects of a batch at most.")
    batch_bytes: int = setting(
        4 * GIB, SIZE, "Bytes of a batch's objects as stored at most. One larger object is a batch of its own."
    )
    batch_rows: int = setting(
        20_000_000, _COUNT, "Rows of a batch at most, estimated from earlier objects of the same tables."
    )
    driver_cores: int = setting(2, _CORES, "Cores of Spark's driver.")
    driver_memory_gb: int = setting(8, _MEMORY_GB, "Memory of the driver's worker in GB. Java's heap gets half of it.")
    executor_cores: int = setting(2, _CORES, "Cores of each executor.")
    executor_memory_gb: int = setting(
        8,
        _MEMORY_GB,
        "Memory of each executor's worker in GB. Java's heap gets half of it, the tasks' Python most of the rest.",
    )
    min_executors: int = setting(
        1,
        whole(0, 1_000),
        "Executors that a run keeps. With 0 none starts for batches that the driver merges alone; others wait for one.",
        page="cost.md",
    )
    max_executors: int = setting(5, whole(1, 1_000), "Executors that a run has at most.")
    service_slice_s: int = setting(
        20,
        _SLICE,
        "About how long a table service works before ingest gets its turn.",
        key="service_slice",
        page="table-services.md",
    )

    @property
    def task_bytes(self) -> int:
        """Bytes of an executor's memory that the Python process of each of its tasks may take."""
        return (self.executor_memory_gb * GIB // 2 - JAVA_BESIDE_HEAP) // self.executor_cores


# Threads, code, and buffers of Java beside its heap; and a Python process with the libraries that tasks use.
JAVA_BESIDE_HEAP, _PYTHON = 768 * MIB, 192 * MIB


def memory_mib(worker_gb: int) -> tuple[int, int]:
    """The heap of a worker's Java and what Spark calls overhead, in MiB: Python's processes and Java beside its heap.

    Spark's default, a tenth of the heap, leaves two tasks less than the limits of one object allow it to take.
    """
    whole_mib = worker_gb * GIB // MIB
    return whole_mib // 2, whole_mib - whole_mib // 2


def bytes_to_read(limits: Limits) -> int:
    """The most bytes that a task takes to read an object within these limits: as stored, and decoded."""
    return _PYTHON + limits.object_bytes + limits.decoded_bytes
