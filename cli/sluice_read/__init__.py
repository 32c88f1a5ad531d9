"""Reads silver tables from Python without a JVM: as they are, as they were, and what changed. See docs/reading.md.

    from sluice_read import Silver

    silver = Silver.of_stack("sluice")            # a deployed stack; Silver.local() is the one in this folder
    silver.snapshot("moma.artists").read_all()    # a pyarrow.Table
    for batch in silver.as_of("moma.artists", "2026-05-01T10:15:00Z"):
        ...                                       # pyarrow.RecordBatch: file by file, never the whole table
    silver.changes("moma.works", since=instant)   # rows by their last change, deleted ones included
    with silver.query("select id, name from moma.artists where nationality = 'German'") as rows:
        rows.read_all()
    with silver.differences("moma.works", "20260501101500123") as found:
        for row in found: print(row.kind, row.key, row.columns)

Arrow, hudi-rs and DuckDB are loaded by the first use of `Silver`, and come with the extra `read`. Every error is a
`SluiceError` with `code`, `facts` and `next_step`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sluice.errors import NoTarget, SluiceError
from sluice_read.errors import (
    AwsCallFailed,
    InvalidMoment,
    InvalidQuery,
    NoCommit,
    NotRetained,
    UnknownColumn,
    UnknownTable,
    Unreadable,
    UnsettledMoment,
)
from sluice_read.place import SilverPlace

if TYPE_CHECKING:
    from sluice_read.diff import ADDED, CHANGED, REMOVED, RowDifference
    from sluice_read.silver import CommitTime, Silver

__all__ = [
    "ADDED",
    "AwsCallFailed",
    "CHANGED",
    "REMOVED",
    "CommitTime",
    "InvalidMoment",
    "InvalidQuery",
    "NoCommit",
    "NoTarget",
    "NotRetained",
    "RowDifference",
    "Silver",
    "SilverPlace",
    "SluiceError",
    "UnknownColumn",
    "UnknownTable",
    "Unreadable",
    "UnsettledMoment",
]

# Names whose modules take longer to load than the rest of a command.
_HEAVY = {
    **dict.fromkeys(("ADDED", "CHANGED", "REMOVED", "RowDifference"), "sluice_read.diff"),
    **dict.fromkeys(("CommitTime", "Silver"), "sluice_read.silver"),
}


def __dir__() -> list[str]:
    """The names that are documented."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Load a heavy name from its module (PEP 562). Raises AttributeError, ModuleNotFoundError without the extra."""
    if name not in _HEAVY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HEAVY[name]), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"sluice_read.{name} needs {error.name}. Install Sluice with its extra `read` "
            "(docs/deploying.md, Install the command)",
            name=error.name,
        ) from error
