"""Checks at admission whether an object's schema can be merged into its table."""

from __future__ import annotations

from typing import Callable

from sluice.config.table import TableConfig
from sluice.errors import Incompatible
from sluice.schema.avro import WriterSchema
from sluice.schema.evolution import evolve_table, refused
from sluice.schema.history import seen
from sluice.schema.table_row import row_with_types
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import ColumnsAtHand, SchemaHistory


class SchemaFit:
    """The first of two checks; the merge makes the second, against the table's schema of that time.

    A table's types only widen, so a schema that doesn't fit now never will. One that fits now may not fit after
    another evolution.
    """

    def __init__(self, columns: ColumnsAtHand, history: SchemaHistory, now: Callable[[], int]) -> None:
        self._columns = columns
        self._history = history
        self._now = now

    def check(self, writer: WriterSchema, config: TableConfig) -> None:
        """Raises Incompatible for a schema that can't be merged, and notes it in the table's schema history."""
        stored = self._columns.of(config.table)
        row = row_with_types(writer, config, stored or {})
        try:
            evolve_table(stored, row, config, untyped=writer.untyped, of_changes=writer.of_changes)
        except Incompatible as error:
            self._history.note(seen(config.table, writer.fingerprint, row, refused(error), at=self._now()))
            raise


def schema_fit(objects: Objects, silver_bucket: str, now: Callable[[], int]) -> SchemaFit:
    """Make the check of one process."""
    return SchemaFit(ColumnsAtHand(objects, silver_bucket, now), SchemaHistory(objects, silver_bucket), now)
