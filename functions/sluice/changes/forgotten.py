"""Marks of forgotten rows: the hash of each key, and the position up to which its changes stay out of the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

SEPARATOR = "\x1f"
MOST_MARKS = 500  # about 50 KB of the table's properties, which each run reads


def key_hash(table: str, key: Sequence[str]) -> str:
    """SHA-256 of a table's name and the texts of a key's values, in the order of the record key.

    Texts are those of Spark's cast: `5`, `true`, `2024-01-31`, `2024-01-31 12:00:00.5`. The hash names a key and does
    not hide one that can be guessed.
    """
    return hashlib.sha256(SEPARATOR.join((table, *key)).encode("utf-8")).hexdigest()


def marks(noted: str | None) -> Mapping[str, str]:
    """The positions by hash of a table's note; empty without one."""
    return {str(name): str(position) for name, position in json.loads(noted).items()} if noted else {}


def with_mark(noted: str | None, hash: str, position: str) -> str | None:
    """The note with one more mark, or with a higher position of the same; None where there is no room for it."""
    found = dict(marks(noted))
    found[hash] = max(position, found.get(hash, ""))
    return json.dumps(found, sort_keys=True, separators=(",", ":")) if len(found) <= MOST_MARKS else None
