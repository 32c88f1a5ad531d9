"""What the work of one slice needs, and how services remove rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.table import HudiTable, has_timestamp_key
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.merge.context import MergeServices

RaiseFloor = Callable[[Mapping[int, str]], None]


@dataclass(frozen=True)
class ServiceSlice:
    """What the work of one slice needs. `check_held` raises LaneLost.

    `raise_floor` writes the highest positions of rows about to be purged, by generation, into the ledger. `arguments`
    are those of the request.
    """

    hudi: HudiTable
    facts: TableFacts
    services: MergeServices
    budget_bytes: int
    check_held: Callable[[], None]
    raise_floor: RaiseFloor
    watch: KafkaWatch
    arguments: Mapping[str, str]


@contextmanager
def purging(hudi: HudiTable, facts: TableFacts, check_held: Callable[[], None]) -> Iterator[None]:
    """A removal of rows: a merge-on-read table is compacted after it, also by the next run where this one dies."""
    merges = hudi.config.table_type == MOR
    if merges:
        hudi.set_purging(facts.newest or "")
    check_held()
    yield
    if merges:
        hudi.compact_all()
        hudi.set_purging("")


def write_removal(
    hudi: HudiTable,
    rows: DataFrame,
    facts: TableFacts,
    metadata: Mapping[str, str],
    *,
    size_bytes: int = 0,
    record_index: bool = False,
) -> None:
    """Remove rows in one commit, each at its own position, so that nothing newer is removed."""
    assert facts.schema is not None  # there are rows
    options = hudi_options.write_options(
        hudi.config,
        operation=hudi_options.UPSERT,
        parallelism=write_choices.shuffle_tasks(size_bytes, hudi.cores),
        timestamp_key=has_timestamp_key(hudi.config, rows),
        record_index=record_index,
    )
    marked = rows.select(
        *[
            (F.lit(hudi_options.PURGED_OP) if name == hidden.OP else quoted(name)).alias(name)
            for name in facts.schema.names
        ]
    )
    writer = marked.write.format("hudi").options(**options).options(**hudi_options.PURGE_OPTIONS)
    writer.options(**metadata).mode("append").save(hudi.path)
