"""What a reader needs to know of the table and the batch, in Spark's tasks and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.config import placeholders as unavailable
from sluice.config.limits import DEFAULTS, Limits
from sluice.config.table import TableConfig
from sluice.schema.columns import Column


@dataclass(frozen=True)
class ReaderPlan:
    """Pickled into read tasks. `columns` are those of the batch; a writer's columns are matched by name."""

    batch: str
    table: str
    record_key: tuple[str, ...]
    generation: int
    columns: tuple[Column, ...]
    limits: Limits = DEFAULTS
    # Inferred schemas (Avro form, as JSON) of objects that carry none, by the object's hash.
    inferred: Mapping[str, str] = field(default_factory=dict)
    position: str | None = None  # the column that orders rows, for sources without a log position
    append_only: bool = False
    unavailable_value: str = unavailable.DEFAULT
    coordinates: tuple[str, ...] = ()  # columns with the record's Kafka partition and offset
    topic: str = ""
    partition_by: tuple[str, ...] = ()


def reader_plan(
    config: TableConfig, *, batch: str, columns: tuple[Column, ...], inferred: Mapping[str, str]
) -> ReaderPlan:
    """The plan of reading one batch into a table."""
    return ReaderPlan(
        batch,
        config.table,
        config.record_key,
        config.generation,
        columns,
        config.limits,
        inferred,
        config.position,
        config.append_only,
        config.unavailable_value,
        config.coordinates,
        config.topic,
        config.partition_by,
    )
