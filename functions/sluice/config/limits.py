"""Limits of one table's objects: an object beyond one of them is quarantined whole instead of read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.config.setting import setting
from sluice.config.values import GIB, MIB, SIZE, whole
from sluice.errors import ExpansionLimit, SchemaTooComplex

_COUNT = whole(1, 100_000_000)
_MOST = {"schema_columns": 4_096, "schema_depth": 32, "schema_types": 1_000_000}  # of the limits of a schema


@dataclass(frozen=True)
class Limits:
    """How large, deep and wide an object may be before it is quarantined instead of read."""

    # A read task holds the object as stored in memory, then its blocks decompressed and its rows as columns.
    object_bytes: int = setting(256 * MIB, SIZE, "Size of an object as stored.")
    decoded_bytes: int = setting(
        1 * GIB, SIZE, "Size of an object once decoded to rows; its text, for JSON and CSV, may take half of it."
    )
    block_bytes: int = setting(128 * MIB, SIZE, "Size of one block or row group once decompressed.")
    object_rows: int = setting(10_000_000, _COUNT, "Records of an object.")
    object_seconds: int = setting(300, whole(1, 3_600), "Processor seconds that decoding an object takes.")
    # These three bound the cost of a writer schema before a record is read.
    schema_columns: int = setting(4_096, whole(1, _MOST["schema_columns"]), "Fields of one record.")
    schema_depth: int = setting(32, whole(2, _MOST["schema_depth"]), "Depth to which types are nested.")
    schema_types: int = setting(
        20_000, whole(1, _MOST["schema_types"]), "Types of a schema; a named type counts wherever it is used."
    )
    quarantined_rows: int = setting(
        1_000, whole(0, 100_000), "Rows of an object that may be quarantined while the others are merged."
    )

    def check_rows(self, rows: int) -> None:
        """Raise ExpansionLimit for an object with so many records."""
        if rows > self.object_rows:
            message = f"The object holds more than {self.object_rows:,} records"
            raise ExpansionLimit.beyond("object_rows", message, self.object_rows, "records")

    def too_complex(self, setting: str, message: str, what: str, **facts: Any) -> SchemaTooComplex:
        """The error of a schema beyond a limit, whose next step names that limit if it can be raised."""
        limit, most, error = getattr(self, setting), _MOST[setting], SchemaTooComplex
        retry = f"and push it, then `sluice quarantine retry --code {error.code}`"
        step = f"{error.next_step}, or raise the table's limit {setting} (at most {most:,}) {retry}"
        return error(message, next_step=step if limit < most else None, limit=limit, what=what, **facts)


DEFAULTS = Limits()
