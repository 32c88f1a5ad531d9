"""Manifests and manifest lists as Avro files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro

from sluice.iceberg.manifests import DATA, ENTRY_SCHEMA, MANIFEST_SCHEMA, Entry


def manifest_bytes(entries: Sequence[Entry], *, content: int, schema: Mapping[str, Any]) -> bytes:
    """A manifest; `schema` is that of the table."""
    words = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data" if content == DATA else "deletes",
    }
    return _written(ENTRY_SCHEMA, entries, words)


def manifest_list_bytes(manifests: Iterable[Mapping[str, Any]], *, snapshot: int, sequence: int) -> bytes:
    """The list of a snapshot's manifests."""
    words = {"snapshot-id": str(snapshot), "sequence-number": str(sequence), "format-version": "2"}
    return _written(MANIFEST_SCHEMA, manifests, words)


def records_of(body: bytes) -> list[Any]:
    """The records of a manifest or a manifest list."""
    return list(fastavro.reader(io.BytesIO(body)))


def _written(schema: Mapping[str, Any], records: Iterable[Any], words: Mapping[str, str]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, dict(schema), records, codec="deflate", metadata=dict(words))
    return sink.getvalue()
