"""Keeps the keys of tables' files between the batches of a run, so that a file is read once.

A data file never changes: what was read of it holds as long as the table has the file.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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


class KeyIndex:
    """What a run has read of its tables' files, by table and file. Thread-safe.

    It takes at most `most_bytes` in memory. The table that was asked for least recently makes room.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._tables: dict[str, dict[str, Entry]] = {}  # the least recent first
        self._lock = threading.Lock()

    def has_room(self, size: int) -> bool:
        """Whether a table of so many bytes of keys is kept whole."""
        return size <= self._most_bytes

    def take(self, table: str, files: Collection[str]) -> dict[str, Entry]:
        """What is kept of these files of a table. Others of it are gone, and forgotten."""
        with self._lock:
            entries = self._tables.pop(table, {})
            present = {file: entry for file, entry in entries.items() if file in files}
            self._tables[table] = present
            return dict(present)

    def keep(self, table: str, entries: Mapping[str, Entry]) -> None:
        """Keep what was read of files of a table, as far as there is room."""
        with self._lock:
            own = self._tables.pop(table, {})
            left = self._most_bytes - _bytes_of(own)
            for file, entry in entries.items():
                left -= _bytes(entry)
                if left < 0:
                    break
                own[file] = entry
            self._tables[table] = own
            while sum(map(_bytes_of, self._tables.values())) > self._most_bytes:
                del self._tables[next(iter(self._tables))]


def _bytes_of(entries: Mapping[str, Entry]) -> int:
    return sum(map(_bytes, entries.values()))


def _bytes(entry: Entry) -> int:
    return entry.keys.nbytes if isinstance(entry, BaseKeys) else sum(block.bytes for block in entry)
