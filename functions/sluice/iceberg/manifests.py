"""Manifests and manifest lists of an Iceberg table (format version 2): their Avro schemas, and entries as plain values.

The table is unpartitioned for Iceberg, whatever folders Hudi has: the files hold the partition columns themselves, and
empty text and null share a folder. ColumnBounds of these columns let readers skip files as by partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

DATA, DELETES = 0, 1  # of a manifest
DATA_FILE, POSITION_DELETES = 0, 1  # of a file
EXISTING, ADDED = 0, 1
PATH_ID, POSITION_ID = 2147483546, 2147483545  # of the columns of a file of position deletes
LONGEST_BOUND_BYTES = 64
_INTEGER_BYTES = {"int": 4, "long": 8}


def _map(name: str, key: int, value: int, kind: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int", "field-id": key}, {"name": "value", "type": kind, "field-id": value}]
    items = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"name": name, "type": ["null", {"type": "array", "logicalType": "map", "items": items}], "default": None}


def _list(name: str, element: int, kind: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", {"type": "array", "items": kind, "element-id": element}], "default": None}


def _optional(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _ids(fields: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**described, "field-id": number} for number, described in fields.items()]


_DATA_FILE = {
    "type": "record",
    "name": "r2",
    "fields": _ids(
        {
            134: {"name": "content", "type": "int"},
            100: {"name": "file_path", "type": "string"},
            101: {"name": "file_format", "type": "string"},
            102: {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}},
            103: {"name": "record_count", "type": "long"},
            104: {"name": "file_size_in_bytes", "type": "long"},
            108: _map("column_sizes", 117, 118, "long"),
            109: _map("value_counts", 119, 120, "long"),
            110: _map("null_value_counts", 121, 122, "long"),
            137: _map("nan_value_counts", 138, 139, "long"),
            125: _map("lower_bounds", 126, 127, "bytes"),
            128: _map("upper_bounds", 129, 130, "bytes"),
            131: _optional("key_metadata", "bytes"),
            132: _list("split_offsets", 133, "long"),
            135: _list("equality_ids", 136, "int"),
            140: _optional("sort_order_id", "int"),
            143: _optional("referenced_data_file", "string"),
        }
    ),
}
ENTRY_SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "manifest_entry",
    "fields": _ids(
        {
            0: {"name": "status", "type": "int"},
            1: _optional("snapshot_id", "long"),
            3: _optional("sequence_number", "long"),
            4: _optional("file_sequence_number", "long"),
            2: {"name": "data_file", "type": _DATA_FILE},
        }
    ),
}
_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")
_ROW_COUNTS = ("added_rows_count", "existing_rows_count", "deleted_rows_count")
MANIFEST_SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "manifest_file",
    "fields": _ids(
        {
            500: {"name": "manifest_path", "type": "string"},
            501: {"name": "manifest_length", "type": "long"},
            502: {"name": "partition_spec_id", "type": "int"},
            517: {"name": "content", "type": "int"},
            515: {"name": "sequence_number", "type": "long"},
            516: {"name": "min_sequence_number", "type": "long"},
            503: {"name": "added_snapshot_id", "type": "long"},
            **{504 + place: {"name": name, "type": "int"} for place, name in enumerate(_COUNTS)},
            **{512 + place: {"name": name, "type": "long"} for place, name in enumerate(_ROW_COUNTS)},
        }
    ),
}


@dataclass(frozen=True)
class ColumnBounds:
    """What a file holds of a column, in Iceberg's bytes: its least and greatest value, and how many nulls."""

    least: bytes | None
    greatest: bytes | None
    nulls: int


@dataclass(frozen=True)
class SeenFile:
    """A base file as Iceberg's metadata describes it: its URI, rows and bytes, and bounds by column id.

    `deletes` is its file of position deletes, None where all of its rows are shown.
    """

    path: str
    rows: int
    bytes: int
    bounds: Mapping[int, ColumnBounds] = field(default_factory=dict, hash=False)
    deletes: SeenFile | None = None


Entry = Mapping[str, Any]


def added(file: SeenFile, *, of: str | None = None) -> Entry:
    """The entry of a file that the next snapshot adds; `of` is the base file whose rows it deletes."""
    bounds = file.bounds
    if of is not None:  # equal bounds of the paths tell readers that the deletes are of one file
        bounds = {PATH_ID: ColumnBounds(of.encode(), of.encode(), 0)}
    return {
        "status": ADDED,
        "snapshot_id": None,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {
            "content": DATA_FILE if of is None else POSITION_DELETES,
            "file_path": file.path,
            "file_format": "PARQUET",
            "partition": {},
            "record_count": file.rows,
            "file_size_in_bytes": file.bytes,
            "value_counts": _pairs({column: file.rows for column in bounds}),
            "null_value_counts": _pairs({column: made.nulls for column, made in bounds.items()}),
            "lower_bounds": _pairs({column: made.least for column, made in bounds.items()}),
            "upper_bounds": _pairs({column: made.greatest for column, made in bounds.items()}),
            "referenced_data_file": of,
        },
    }


def carried(entry: Entry, manifest: Mapping[str, Any]) -> Entry:
    """An entry of an earlier snapshot's manifest as the next snapshot has it; what it inherited is written out."""
    if entry["status"] == EXISTING:
        return entry
    sequence = manifest["sequence_number"]
    return {
        **entry,
        "status": EXISTING,
        "snapshot_id": manifest["added_snapshot_id"],
        "sequence_number": sequence,
        "file_sequence_number": sequence,
    }


def owner(entry: Entry) -> str:
    """The URI of the base file that an entry is, or whose rows it deletes."""
    file = entry["data_file"]
    return str(file["referenced_data_file"] if file["content"] == POSITION_DELETES else file["file_path"])


def manifest_file(
    path: str, length: int, entries: Sequence[Entry], *, content: int, snapshot: int, sequence: int
) -> Mapping[str, Any]:
    """A manifest's line in the manifest list of the snapshot that writes it."""
    new = [entry for entry in entries if entry["status"] == ADDED]
    old = [entry for entry in entries if entry["status"] == EXISTING]
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": content,
        "sequence_number": sequence,
        "min_sequence_number": min((int(entry["sequence_number"]) for entry in old), default=sequence),
        "added_snapshot_id": snapshot,
        **dict(zip(_COUNTS, (len(new), len(old), 0))),
        **dict(zip(_ROW_COUNTS, (rows_of(new), rows_of(old), 0))),
    }


def rows_of(entries: Iterable[Entry]) -> int:
    return sum(int(entry["data_file"]["record_count"]) for entry in entries)


def bounds_of(least: Any, greatest: Any, nulls: int, *, kind: Any) -> ColumnBounds | None:
    """The bounds of a column of Iceberg's type `kind`; None where they are of another type, or long."""
    if least is None or greatest is None:
        return ColumnBounds(None, None, nulls)
    ends = _bound(least, kind), _bound(greatest, kind)
    fits = all(end is not None and len(end) <= LONGEST_BOUND_BYTES for end in ends)
    return ColumnBounds(*ends, nulls) if fits else None


def _bound(value: Any, kind: Any) -> bytes | None:
    """The single-value serialization of Iceberg's specification."""
    if kind in _INTEGER_BYTES and isinstance(value, int):
        return value.to_bytes(_INTEGER_BYTES[kind], "little", signed=True)
    if kind == "date" and isinstance(value, date):
        return (value - date(1970, 1, 1)).days.to_bytes(4, "little", signed=True)
    return value.encode() if kind == "string" and isinstance(value, str) else None


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in values.items() if value is not None] or None
