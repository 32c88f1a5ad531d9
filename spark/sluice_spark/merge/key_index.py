"""Keeps the keys of tables' files between the batches of a run, so that a file is read once.

A data file never changes: what was read of it holds as long as the table has the file.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import pyarrow as pa

from sluice.hudi.write_choices import MIB
from sluice_spark.hudi.logs import LogBlock

MOST_BYTES = 128 * MIB  # of all tables of a run; 10 million keys of 8 bytes, and logs


@dataclass(frozen=True)
class BaseKeys:
    """The record keys of a base file, in the order of its rows, and the highest position of a row.

    `highest` is None where a row must be read to know more of it than its key: one owes columns, its key has another
    text than Sluice makes of it, or the file doesn't tell.
    """

    keys: pa.Table
    highest: str | None


Entry = Union[BaseKeys, Sequence[LogBlock]]


@dataclass
class _TableKeys:
    entries: dict[str, Entry] = field(default_factory=dict)
    bytes: int = 0


class KeyIndex:
    """What a run has read of its tables' files, by table and file. Thread-safe.

    It takes at most `most_bytes` in memory. The table that was asked for least recently makes room.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._tables: dict[str, _TableKeys] = {}  # the least recent first
        self._lock = threading.Lock()

    def has_room(self, size: int) -> bool:
        """Whether a table of so many bytes of keys is kept whole."""
        return size <= self._most_bytes

    def take(self, table: str, files: Collection[str]) -> dict[str, Entry]:
        """What is kept of these files of a table. Others of it are gone, and forgotten."""
        with self._lock:
            entries = self._tables.pop(table, _TableKeys()).entries
            present = {file: entry for file, entry in entries.items() if file in files}
            self._tables[table] = _TableKeys(present, sum(map(_bytes_of, present.values())))
            return dict(present)

    def keep(self, table: str, entries: Mapping[str, Entry]) -> None:
        """Keep what was read of files of a table, as far as there is room."""
        with self._lock:
            own = self._tables.pop(table, _TableKeys())
            for file, entry in entries.items():
                size = _bytes_of(entry)
                while self._tables and own.bytes + size + self._bytes() > self._most_bytes:
                    del self._tables[next(iter(self._tables))]
                if own.bytes + size <= self._most_bytes:
                    own.bytes += size - (_bytes_of(own.entries[file]) if file in own.entries else 0)
                    own.entries[file] = entry
            self._tables[table] = own

    def _bytes(self) -> int:
        return sum(other.bytes for other in self._tables.values())


def _bytes_of(entry: Entry) -> int:
    return entry.keys.nbytes if isinstance(entry, BaseKeys) else sum(block.bytes for block in entry)
