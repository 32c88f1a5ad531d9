"""The local stack of a benchmark: the running one, or its own for the length of the benchmark."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judging.running_stack import RunningStack, local_stack

from sluice_aws.stack import local_file


@contextmanager
def bench_stack() -> Iterator[RunningStack]:
    """The running stack of SLUICE_HOME or the working directory, or else a temporary one."""
    file = local_file(os.environ, Path.cwd())
    if file is not None:
        yield RunningStack(file.parent)
        return
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as home, local_stack(Path(home)) as stack:
        yield stack


def table_rules(prefix: str, database: str, table_type: str = "cow") -> list[dict]:
    """tables.yaml rules of the generated tables under a topic prefix, unpartitioned, in their own database."""
    from sluice_bench.data.debezium_objects import SOURCES

    return [
        {
            "topic": prefix + source.topic,
            "table": f"{database}.{table}",
            "record_key": [source.key],
            "partition_by": [],
            "table_type": table_type,
        }
        for table, source in SOURCES.items()
    ]


def table_rule(prefix: str, database: str, table: str, table_type: str = "cow") -> dict:
    """The rule of one of them."""
    (rule,) = [rule for rule in table_rules(prefix, database, table_type) if rule["table"] == f"{database}.{table}"]
    return rule
