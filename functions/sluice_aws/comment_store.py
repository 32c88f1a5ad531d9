"""Finds what a table's source says of its columns, among the schemas that are kept in the silver bucket."""

from __future__ import annotations

from typing import Any, Mapping

from sluice.source_comments import source_comments
from sluice.table_evolution import INCOMPATIBLE
from sluice_aws.objects import Objects
from sluice_aws.schema_history_store import SchemaHistory
from sluice_aws.schema_store import SchemaStore


class CommentStore:
    """Comments by table, of the newest writer schema that was let in."""

    def __init__(self, s3: Any, bucket: str) -> None:
        objects = Objects(s3)
        self._history = SchemaHistory(objects, bucket)
        self._schemas = SchemaStore(objects, bucket)

    def of(self, table: str) -> Mapping[str, str]:
        """Comments by column, empty where no schema came. One LIST, and a GET for each schema that came."""
        taken = [schema for schema in self._history.schemas(table) if schema.verdict != INCOMPATIBLE]
        return source_comments(self._schemas.load(taken[-1].fingerprint)) if taken else {}
