"""Where in the silver bucket lies what Sluice keeps beside the tables."""

from __future__ import annotations

PREFIX = "_sluice"
REPLACED = f"{PREFIX}/replaced/"
ROW_COUNT_SUFFIX = ".rows.json"  # beside the errors of whole objects, so that one listing finds both
PARKED_SUFFIX = ".parked.json"  # likewise, of objects that are no error of theirs
BEGUN, FINISHED = (
    "rebuild.json",
    "finished.json",
)  # under replaced_prefix: who rebuilt the table, when and why; and that all of it was done


def manifest_key(lane: str, batch: str) -> str:
    """Where in the silver bucket a batch's manifest lies."""
    return f"{PREFIX}/manifests/{lane}/{batch}.json"


def outcome_key(batch: str, table: str) -> str:
    """Where in the silver bucket a part's outcome lies."""
    return f"{PREFIX}/outcomes/{batch}/{table}.json"


def error_prefix(batch: str, table: str) -> str:
    """Under which prefix read tasks leave the objects that they could not read, and how many rows of which others."""
    return f"{PREFIX}/outcomes/{batch}/errors/{table}/"


def error_key(batch: str, table: str, object_hash: str) -> str:
    """Where a read task leaves one object's error."""
    return f"{error_prefix(batch, table)}{object_hash}.json"


def parked_key(batch: str, table: str, object_hash: str) -> str:
    """Where the driver leaves why one object is parked, before the others are committed."""
    return f"{error_prefix(batch, table)}{object_hash}{PARKED_SUFFIX}"


def row_count_key(batch: str, table: str, object_hash: str) -> str:
    """Where a read task leaves how many of one object's rows can't be merged, after the rows themselves."""
    return f"{error_prefix(batch, table)}{object_hash}{ROW_COUNT_SUFFIX}"


def rows_key(batch: str, table: str, object_hash: str) -> str:
    """Where a read task leaves one object's rows that can't be merged, as JSON lines."""
    return f"{PREFIX}/outcomes/{batch}/rows/{table}/{object_hash}.jsonl"


def replaced_prefix(table: str, at: int) -> str:
    """Where in the silver bucket the data is kept that a table had before it was rebuilt at that time (epoch ms)."""
    return f"{REPLACED}{table}/{at:013d}/"


def schema_key(fingerprint: str) -> str:
    """Where in the silver bucket a writer schema lies."""
    return f"{PREFIX}/schemas/{fingerprint}.avsc"
