"""Keeps every distinct writer schema once in the silver bucket, under its fingerprint."""

from __future__ import annotations

import json
import threading
from typing import Any, Optional, Set

from sluice.avro_schema import fingerprint
from sluice.silver_keys import schema_key
from sluice_aws.objects import Objects


class SchemaStore:
    """Writer schemas by fingerprint. Writes each once per process; safe to use from several threads."""

    def __init__(self, objects: Objects, bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket
        self._kept: Set[str] = set()
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

    def load(self, named: str) -> Optional[Any]:
        """The schema of a fingerprint, None when it was never kept."""
        return self._objects.get_json(self._bucket, schema_key(named))
