"""How much work merges are, counted where the machine doesn't matter: Spark jobs, requests to S3, files and bytes.

Each number is what was counted when it was written. A higher count is a step back; after an improvement, lower it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.extent import WHOLE
from support.workbench import SCHEMA, Workbench, row, table

from sluice.config.table import TableConfig

pytestmark = pytest.mark.skipif(WHOLE, reason="counted with one core and without generated code, as in `make test`")

ROWS, OBJECTS, TABLES = 200, 10, 3
METHOD = re.compile(r"\b(GET|PUT|HEAD|POST|DELETE) /")  # of a line of the emulated S3's log


@dataclass
class Work:
    """What a block took: Spark jobs, requests to S3 by method, files of the table's folder, and their bytes."""

    jobs: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    files: int = 0
    bytes: int = 0


class Requests(logging.Handler):
    """Counts the requests that the emulated S3 logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.counted: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        request = METHOD.search(record.getMessage())
        if request:
            self.counted[request[1]] += 1


@contextmanager
def counted(bench: Workbench, *configs: TableConfig) -> Iterator[Work]:
    """Count the work of a block that merges into these tables."""
    work, requests, logger = Work(), Requests(), logging.getLogger("werkzeug")
    level, scheduler = logger.level, bench.spark.sparkContext._jsc.sc().dagScheduler()
    files, size = stored(bench, configs)
    jobs = scheduler.numTotalJobs()
    logger.setLevel(logging.INFO)
    logger.addHandler(requests)
    try:
        yield work
    finally:
        logger.removeHandler(requests)
        logger.setLevel(level)
    work.jobs, work.requests = scheduler.numTotalJobs() - jobs, requests.counted
    files_after, size_after = stored(bench, configs)
    work.files, work.bytes = files_after - files, size_after - size


def stored(bench: Workbench, configs: tuple[TableConfig, ...]) -> tuple[int, int]:
    files = [path for config in configs for path in bench.local_path(config).rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def objects(bench: Workbench) -> list[Any]:
    """A load of ROWS rows in OBJECTS objects."""
    share = ROWS // OBJECTS
    return [bench.put([row("r", 1 + n, first + n) for n in range(share)], SCHEMA) for first in range(0, ROWS, share)]


@pytest.fixture
def loaded(bench: Workbench) -> tuple[TableConfig, Any]:
    config = table("loaded")
    return config, bench.merge(config, objects(bench))


def within(work: Work, most: Work) -> None:
    """Compare with what was counted before: at most as much, bytes a tenth more, and not so little as to be wrong."""
    assert most.jobs / 3 <= work.jobs <= most.jobs
    assert work.requests.keys() <= most.requests.keys() and work.requests <= most.requests, work.requests
    assert work.requests.total() >= most.requests.total() / 3
    assert most.files / 3 <= work.files <= most.files
    assert most.bytes / 3 <= work.bytes <= 1.1 * most.bytes


def test_a_first_load_reads_each_object_once(bench: Workbench) -> None:
    config = table("first")
    items = objects(bench)
    with counted(bench, config) as work:
        bench.merge(config, items)
    within(work, Work(0, Counter(GET=14, PUT=2), files=11, bytes=11_700))


@pytest.mark.parametrize(
    ("ids", "files", "size"), [([7], 8, 10_700), (range(ROWS + 20), 7, 10_600)], ids=["one", "by pyarrow"]
)
def test_changes_into_a_table_that_a_run_knows_take_as_much_as_one(
    bench: Workbench, loaded: tuple[TableConfig, Any], ids: Sequence[int], files: int, size: int
) -> None:
    config, before = loaded
    changes = bench.put([row("u", 1_000 + number, id, name="new") for number, id in enumerate(ids)], SCHEMA)
    bench.apply(config, row("u", 999, 8, name="new"), after=before)
    with counted(bench, config) as work:
        bench.merge(config, [changes], after=before)
    within(work, Work(0, Counter(GET=3), files=files, bytes=size))


def test_many_tables_take_each_as_much_as_one(bench: Workbench) -> None:
    configs = [table(f"many{number}") for number in range(TABLES)]
    for config in configs:
        bench.apply(config, row("r", 1, 1))
    changes = [bench.put([row("u", 2, 1, name="new")], SCHEMA) for _ in configs]
    with counted(bench, *configs) as work:
        for config, change in zip(configs, changes):
            bench.merge(config, [change])
    within(work, Work(0, Counter(GET=TABLES * 3), files=TABLES * 8, bytes=TABLES * 8_900))
