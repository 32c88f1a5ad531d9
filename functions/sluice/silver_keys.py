"""Keys of the objects that Sluice keeps in the silver bucket beside the tables."""

from __future__ import annotations

from functools import partial

PREFIX = "_sluice"
REPLACED = f"{PREFIX}/replaced/"
ROW_COUNT_SUFFIX = ".rows.json"  # under the prefix of object errors, so that one listing finds both
PARKED_SUFFIX = ".parked.json"  # likewise, of objects without an error of their own
# Under replaced_prefix: who rebuilt the table, when and why; and the mark that the rebuild is complete.
BEGUN, FINISHED = "rebuild.json", "finished.json"


def manifests_prefix(lane: str) -> str:
    return f"{PREFIX}/manifests/{lane}/"


def manifest_key(lane: str, batch: str) -> str:
    return f"{manifests_prefix(lane)}{batch}.json"


def outcome_key(batch: str, table: str) -> str:
    return f"{PREFIX}/outcomes/{batch}/{table}.json"


def error_prefix(batch: str, table: str, attempt: str | None = None) -> str:
    """Prefix of the objects that one merge of a part could not read, and of the counts of rows that can't be merged.

    Merges of one part may differ in them: its objects may come again under other settings. None stands for a merge by a
    release that named none.
    """
    return f"{PREFIX}/outcomes/{batch}/errors/{table}/" + (f"{attempt}/" if attempt else "")


def _key_of_object(end: str, batch: str, table: str, object_hash: str, attempt: str | None = None) -> str:
    return f"{error_prefix(batch, table, attempt)}{object_hash}{end}"


error_key = partial(_key_of_object, ".json")  # of one object's error, written by a read task
parked_key = partial(_key_of_object, PARKED_SUFFIX)  # of why it is parked, written by the driver before the commit
row_count_key = partial(_key_of_object, ROW_COUNT_SUFFIX)  # of its rows that can't be merged, written after the rows


def rows_key(batch: str, table: str, object_hash: str) -> str:
    """Key of one object's rows that can't be merged, as JSON lines."""
    return f"{PREFIX}/outcomes/{batch}/rows/{table}/{object_hash}.jsonl"


def replaced_prefix(table: str, at: int) -> str:
    """Prefix of the data that a table had before its rebuild at that time (epoch ms)."""
    return f"{REPLACED}{table}/{at:013d}/"


def schema_key(fingerprint: str) -> str:
    return f"{PREFIX}/schemas/{fingerprint}.avsc"
