"""Keeps every distinct writer schema once in the silver bucket, under its fingerprint.

Keeps what is remembered of tables' schemas in the silver bucket.

Finds what a table's source says of its columns, among the schemas that are kept in the silver bucket.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from sluice.catalog.columns import source_comments
from sluice.schema.avro import fingerprint
from sluice.schema.evolution import INCOMPATIBLE
from sluice.schema.history import TABLES_PREFIX, SeenSchema, StoredColumns, seen_key, seen_prefix, stored_key
from sluice.silver_keys import schema_key
from sluice_aws.errors import Unchanged
from sluice_aws.s3.objects import Objects


class SchemaStore:
    """Writer schemas by fingerprint. Writes each once per process; safe to use from several threads."""

    def __init__(self, objects: Objects, bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket
        self._kept: set[str] = set()
        self._lock = threading.Lock()

    def keep(self, schema: Any) -> str:
        """Store a schema unless this process did already, and return its fingerprint.

        It is there when this returns: who puts the fingerprint into the ledger may rely on it.
        """
        named = fingerprint(schema)
        if named in self._kept:
            return named
        with self._lock:  # a burst of objects with one new schema is one PUT
            if named not in self._kept:
                # Not put_json: what is read back must have the same fingerprint, whatever characters it holds.
                text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
                self._objects.put(
                    self._bucket, schema_key(named), text.encode("ascii"), content_type="application/json"
                )
                self._kept.add(named)
        return named

    def load(self, named: str) -> Any | None:
        """The schema of a fingerprint, None when it was never kept."""
        return self._objects.get_json(self._bucket, schema_key(named))


LOOK_AGAIN_MS = 60_000  # admission compares with a table's columns that are at most so old


class SchemaHistory:
    """Schemas by table. Writes what is new only, once per process; safe to use from several threads."""

    def __init__(self, objects: Objects, bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket
        self._noted: dict[tuple[str, str], SeenSchema] = {}
        self._columns: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()

    def note(self, schema: SeenSchema) -> None:
        """Remember a schema with its verdict; one that is known gets the verdict added if it changed sides."""
        place = (schema.table, schema.fingerprint)
        with self._lock:  # a burst of objects with one new schema is one look and one PUT
            known = self._noted.get(place) or self.schema(*place)
            now = schema if known is None else known.judged_again(schema.judged[-1])
            if now is not known:
                self._put(seen_key(*place), now.to_json())
            self._noted[place] = now

    def keep_columns(self, stored: StoredColumns) -> None:
        """Tell a table's own columns, if they are not what is told already."""
        if self._columns.get(stored.table) == stored.columns:
            return
        with self._lock:
            found = self.columns(stored.table)
            if found is None or list(found.columns.items()) != list(stored.columns.items()):
                self._put(stored_key(stored.table), stored.to_json())
            self._columns[stored.table] = stored.columns

    def columns(self, table: str) -> StoredColumns | None:
        """A table's own columns; None while it has none."""
        document = self._objects.get(self._bucket, stored_key(table))
        return None if document is None else StoredColumns.from_json(document.data.decode("utf-8"))

    def schema(self, table: str, fingerprint: str) -> SeenSchema | None:
        """One schema that came for a table."""
        document = self._objects.get(self._bucket, seen_key(table, fingerprint))
        return None if document is None else SeenSchema.from_json(document.data.decode("utf-8"))

    def schemas(self, table: str) -> tuple[SeenSchema, ...]:
        """Every schema that came for a table, oldest first."""
        prefix = seen_prefix(table)
        found = [
            self.schema(table, key[len(prefix) : -len(".json")])
            for key in self._objects.keys(self._bucket, prefix)
            if key.endswith(".json")
        ]
        return tuple(
            sorted(
                (schema for schema in found if schema is not None),
                key=lambda schema: (schema.judged[0].at, schema.fingerprint),
            )
        )

    def tables(self) -> Iterator[str]:
        """The tables of which something is remembered, in order."""
        summary: set[str] = set()
        for key in self._objects.keys(self._bucket, TABLES_PREFIX):
            table = key[len(TABLES_PREFIX) :].split("/", 1)[0]
            if table not in summary:
                summary.add(table)
                yield table

    def _put(self, key: str, text: str) -> None:
        self._objects.put(self._bucket, key, text.encode("ascii"), content_type="application/json")


class ColumnsAtHand:
    """Tables' own columns for admission: looked up at most once a minute per table and process."""

    def __init__(self, objects: Objects, bucket: str, now: Callable[[], int]) -> None:
        self._objects = objects
        self._bucket = bucket
        self._now = now
        self._held: dict[str, tuple[int, str | None, StoredColumns | None]] = {}
        self._lock = threading.Lock()

    def of(self, table: str) -> Mapping[str, str] | None:
        """The columns (name -> Spark's type name), at most a minute old; None where there is no table yet."""
        with self._lock:
            at, etag, held = self._held.get(table, (None, None, None))
            if at is None or self._now() - at >= LOOK_AGAIN_MS:
                try:
                    document = self._objects.get(self._bucket, stored_key(table), unless=etag)
                    held = None if document is None else StoredColumns.from_json(document.data.decode("utf-8"))
                    etag = None if document is None else document.etag
                except Unchanged:
                    pass  # what is held is what is there
                self._held[table] = (self._now(), etag, held)
            return None if held is None else held.columns


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
