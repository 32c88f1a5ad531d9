"""What a read task is told of the table and the batch; whoever reads objects without Spark makes one, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.config import placeholders as unavailable
from sluice.config.limits import DEFAULTS, Limits
from sluice.config.table import TableConfig
from sluice.schema.columns import Column


@dataclass(frozen=True)
class ReaderPlan:
    """Pickled into read tasks. `columns` are the batch's, by name; order and nullability of a writer don't matter."""

    batch: str
    table: str
    record_key: tuple[str, ...]
    generation: int
    columns: tuple[Column, ...]
    limits: Limits = DEFAULTS
    # Schemas (Avro form, as JSON) that the objects themselves don't tell, inferred before the read; by the object's hash.
    inferred: Mapping[str, str] = field(default_factory=dict)
    position: str | None = None  # the column that orders rows, where the source's log doesn't
    append_only: bool = False
    unavailable_value: str = unavailable.DEFAULT
    coordinates: tuple[str, ...] = ()  # the columns of the Kafka partition and offset that records carry
    topic: str = ""
    partition_by: tuple[str, ...] = ()


def reader_plan(
    config: TableConfig, *, batch: str, columns: tuple[Column, ...], inferred: Mapping[str, str]
) -> ReaderPlan:
    """The plan of one batch's read into a table."""
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
