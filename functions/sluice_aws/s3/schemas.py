"""Stores writer schemas in the silver bucket, each once under its fingerprint, and the schema history of each table."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable

from sluice.catalog.columns import source_comments
from sluice.schema.avro import fingerprint
from sluice.schema.evolution import INCOMPATIBLE
from sluice.schema.history import TABLES_PREFIX, SeenSchema, StoredColumns, seen_key, seen_prefix, stored_key
from sluice.silver_keys import schema_key
from sluice_aws.errors import Unchanged
from sluice_aws.s3.objects import Objects, SkippedDocument, SkippedDocuments


class SchemaStore:
    """Writer schemas by fingerprint. Writes each once per process. Safe to use from several threads."""

    def __init__(self, objects: Objects, bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket
        self._kept: set[str] = set()
        self._lock = threading.Lock()

    def keep(self, schema: Any) -> str:
        """Store a schema unless this process has done so, and return its fingerprint.

        The schema is in S3 when this returns, so the fingerprint may go into the ledger.
        """
        schema_id = fingerprint(schema)
        if schema_id in self._kept:
            return schema_id
        with self._lock:  # a burst of objects with a new schema takes one PUT
            if schema_id not in self._kept:
                # Not put_json: the stored schema must have the same fingerprint, whatever characters it has.
                text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
                self._objects.put(
                    self._bucket, schema_key(schema_id), text.encode("ascii"), content_type="application/json"
                )
                self._kept.add(schema_id)
        return schema_id

    def load(self, schema_id: str) -> Any | None:
        """The schema of a fingerprint; None when it was never stored."""
        return self._objects.get_json(self._bucket, schema_key(schema_id))


MAX_AGE_MS = 60_000  # of a table's columns, with which admission compares
_NOTED = 64  # schemas that a process remembers: one of thousands of columns takes half a megabyte


class SchemaHistory:
    """Schema history by table. Writes only news. Safe to use from several threads.

    A document that can't be read counts as missing.
    """

    def __init__(self, objects: Objects, bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket
        self._noted: dict[tuple[str, str], SeenSchema] = {}
        self._kept: dict[str, StoredColumns] = {}
        self._skipped = SkippedDocuments()
        self._lock = threading.Lock()

    @property
    def skipped(self) -> Sequence[SkippedDocument]:
        """The documents that were left out so far, since they can't be read."""
        return self._skipped.found

    def note(self, schema: SeenSchema) -> None:
        """Store a schema with its verdict. A known schema gets the verdict added if that accepts or refuses it anew."""
        place = (schema.table, schema.fingerprint)
        with self._lock:  # a burst of objects with a new schema takes one GET and one PUT
            before = self._noted.get(place) or self.schema(*place)
            now = schema if before is None else before.judged_again(schema.judged[-1])
            if now is not before:
                self._put(seen_key(*place), now.to_json())
            self._noted[place] = now
            if len(self._noted) > _NOTED:
                del self._noted[next(iter(self._noted))]

    def keep_columns(self, stored: StoredColumns) -> None:
        """Store a table's columns and the name of its history if they changed. Without one, a stored name stays."""
        if self._kept.get(stored.table) == stored:
            return
        with self._lock:
            stored_before = self.columns(stored.table)
            wanted = (
                stored if stored_before is None or stored.history else replace(stored, history=stored_before.history)
            )
            if stored_before is None or stored_before.to_json() != wanted.to_json():
                self._put(stored_key(stored.table), wanted.to_json())
            self._kept[stored.table] = stored

    def columns(self, table: str) -> StoredColumns | None:
        """A table's stored columns; None while it has none."""
        key = stored_key(table)
        return self._skipped.parsed(key, self._objects.get(self._bucket, key), StoredColumns.from_json)

    def schema(self, table: str, fingerprint: str) -> SeenSchema | None:
        """A writer schema that came for a table."""
        key = seen_key(table, fingerprint)
        return self._skipped.parsed(key, self._objects.get(self._bucket, key), SeenSchema.from_json)

    def schemas(self, table: str) -> tuple[SeenSchema, ...]:
        """Every writer schema that came for a table, oldest first."""
        prefix = seen_prefix(table)
        schemas_read = [
            self.schema(table, key[len(prefix) : -len(".json")])
            for key in self._objects.keys(self._bucket, prefix)
            if key.endswith(".json")
        ]
        return tuple(
            sorted(
                (schema for schema in schemas_read if schema is not None),
                key=lambda schema: (schema.judged[0].at, schema.fingerprint),
            )
        )

    def tables(self) -> Iterator[str]:
        """The tables with a schema history, in order."""
        names: set[str] = set()
        for key in self._objects.keys(self._bucket, TABLES_PREFIX):
            table, slash, _ = key[len(TABLES_PREFIX) :].partition("/")
            if slash and table not in names:
                names.add(table)
                yield table

    def _put(self, key: str, text: str) -> None:
        self._objects.put(self._bucket, key, text.encode("ascii"), content_type="application/json")


class ColumnsAtHand:
    """Tables' columns for admission, read at most once a minute per table and process."""

    def __init__(self, objects: Objects, bucket: str, now: Callable[[], int]) -> None:
        self._objects = objects
        self._bucket = bucket
        self._now = now
        self._held: dict[str, tuple[int, str | None, StoredColumns | None]] = {}
        self._skipped = SkippedDocuments()
        self._lock = threading.Lock()

    def of(self, table: str) -> Mapping[str, str] | None:
        """The columns (name -> Spark's type name), at most a minute old; None while there is no table."""
        with self._lock:
            at, etag, held = self._held.get(table, (None, None, None))
            if at is None or self._now() - at >= MAX_AGE_MS:
                try:
                    document = self._objects.get(self._bucket, stored_key(table), unless=etag)
                    # Columns that can't be read are not compared with: the merge compares with the table's own.
                    held = self._skipped.parsed(stored_key(table), document, StoredColumns.from_json)
                    etag = None if document is None else document.etag
                except Unchanged:
                    pass  # the columns in hand are current
                self._held[table] = (self._now(), etag, held)
            return None if held is None else held.columns


class CommentStore:
    """Column comments by table, from its newest accepted writer schema."""

    def __init__(self, s3: Any, bucket: str) -> None:
        objects = Objects(s3)
        self._history = SchemaHistory(objects, bucket)
        self._schemas = SchemaStore(objects, bucket)

    def of(self, table: str) -> Mapping[str, str]:
        """Comments by column; empty while no schema came. One LIST, and a GET per schema."""
        taken = [schema for schema in self._history.schemas(table) if schema.verdict != INCOMPATIBLE]
        try:
            return source_comments(self._schemas.load(taken[-1].fingerprint)) if taken else {}
        except ValueError:  # no JSON: another program wrote it
            return {}
