"""How large, how deep and how wide what arrives may be before it is set aside instead of read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True)
class Limits:
    """The limits of one table's objects. An object beyond one of them is quarantined, whole.

    `object_bytes` is the size as stored, which a read task holds in memory. `decoded_bytes` is what an
    object may become: its blocks decompressed, and its rows as columns. `block_bytes` is what one block
    or row group of it may become, since its records are made one block at a time. `object_rows` are its records.
    `schema_columns`, `schema_depth` and `schema_types` (all types in it, each named one counted wherever
    it is used) bound what a writer schema costs before a single record is read. `quarantined_rows` is
    how many records of one object may be set aside while the others are merged.
    """

    object_bytes: int = 256 * MIB
    decoded_bytes: int = 1 * GIB
    block_bytes: int = 128 * MIB
    object_rows: int = 10_000_000
    schema_columns: int = 4_096
    schema_depth: int = 32
    schema_types: int = 20_000
    quarantined_rows: int = 1_000

    def changed(self) -> dict[str, int]:
        """What differs from the defaults; `of` gives the same Limits back."""
        return {name: value for name, value in asdict(self).items() if value != getattr(DEFAULTS, name)}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Limits:
        """Limits from what differs, also as written by a release that knew others."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


DEFAULTS = Limits()
