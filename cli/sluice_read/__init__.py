"""Reads silver tables from Python without a JVM: as they are, as they were, and what changed. See docs/reading.md.

    from sluice_read import Silver

    silver = Silver.of_stack("sluice")            # a deployed stack; Silver.local() is the one in this folder
    silver.snapshot("moma.artists").read_all()    # a pyarrow.Table
    for batch in silver.as_of("moma.artists", "2026-05-01T10:15:00Z"):
        ...                                       # pyarrow.RecordBatch: file by file, never the whole table
    silver.changes("moma.works", since=instant)   # rows by their last change, deleted ones included
    with silver.differences("moma.works", "20260501101500123") as found:
        for row in found: print(row.kind, row.key, row.columns)

Importing it loads Arrow, hudi-rs and DuckDB. Every error is a `sluice.errors.SluiceError` with `code`, `facts` and
`next_step`.
"""

from __future__ import annotations

from sluice.errors import NoTarget
from sluice_read.diff import ADDED, CHANGED, REMOVED, RowDifference
from sluice_read.errors import (
    InvalidMoment,
    NoCommit,
    NotRetained,
    UnknownColumn,
    UnknownTable,
    Unreadable,
    UnsettledMoment,
)
from sluice_read.place import SilverPlace
from sluice_read.silver import Silver

__all__ = [
    "ADDED",
    "CHANGED",
    "REMOVED",
    "InvalidMoment",
    "NoCommit",
    "NoTarget",
    "NotRetained",
    "RowDifference",
    "Silver",
    "SilverPlace",
    "UnknownColumn",
    "UnknownTable",
    "Unreadable",
    "UnsettledMoment",
]
