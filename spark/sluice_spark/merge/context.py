"""What merging one table's part needs of the world around Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.ports import Clock, Log
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_aws.s3.task_objects import ObjectSource
from sluice_spark.hudi.facts import KnownTables


@dataclass(frozen=True)
class MergeServices:
    """Passed to `merge_part` and `resolve_part`; one for a run, shared by its threads.

    `objects` is the driver's own S3, `source` tells read tasks how to reach S3 (they make their own
    clients), `tables_uri` is where tables lie ("s3://SILVER", no slash at the end), `silver_bucket`
    holds schemas, errors and outcomes, `history` what is remembered of tables' schemas.
    """

    objects: Objects
    source: ObjectSource
    silver_bucket: str
    tables_uri: str
    clock: Clock
    log: Log
    history: SchemaHistory
    known: KnownTables = field(default_factory=KnownTables)

    def table_path(self, database: str, name: str) -> str:
        """Where a table lies."""
        return f"{self.tables_uri}/{database}/{name}"
