"""Counts bytes written to the folders of Hudi tables since the last look, by kind of file."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

BASE, LOG, TIMELINE, METADATA = "base_files", "log_files", "timeline", "metadata_table"
KINDS = (BASE, LOG, TIMELINE, METADATA)
FILES = "files"  # how many were written
REWRITTEN = "rewritten"  # base files of file groups that already had one
ACTIONS = frozenset({"commit", "deltacommit", "replacecommit", "clean", "rollback"})


def kind_of(path: PurePosixPath) -> str:
    """The kind of a file by its path in the table's folder. All of the metadata table is one kind."""
    if path.parts[:2] == (".hoodie", "metadata"):
        return METADATA
    if path.parts[0] == ".hoodie" or path.name.startswith(".hoodie"):
        return TIMELINE
    return LOG if ".log." in path.name else BASE


class WrittenBytes:
    """Looks at the folders of tables after each step. A new or changed file was written whole.

    Files that a step writes and deletes itself aren't seen: Hudi's markers, which are empty.
    """

    def __init__(self, *tables: Path) -> None:
        self._tables = tables
        self._seen: dict[Path, tuple[int, int]] = {}
        self._groups: set[tuple[Path, str]] = set()

    def look(self) -> Counter[str]:
        """Bytes by kind and REWRITTEN, and the numbers of FILES and completed actions, since the last look."""
        counts: Counter[str] = Counter()
        began: set[tuple[Path, str]] = set()
        for table, file in self._files():
            about = file.stat()
            mark = (about.st_size, about.st_mtime_ns)
            if self._seen.get(file) == mark:
                continue
            kind = kind_of(PurePosixPath(file.relative_to(table)))
            if file not in self._seen and kind == TIMELINE and file.suffix[1:] in ACTIONS:
                counts[file.suffix[1:]] += 1
            self._seen[file] = mark
            counts[kind] += about.st_size
            counts[FILES] += 1
            if kind == BASE:
                group = (file.parent, file.name.split("_")[0])
                counts[REWRITTEN] += about.st_size if group in self._groups else 0
                began.add(group)
        self._groups |= began
        return counts

    def stored(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for _, file in self._files())

    def _files(self) -> Iterator[tuple[Path, Path]]:
        for table in self._tables:
            yield from ((table, file) for file in sorted(table.rglob("*")) if file.suffix != ".crc" and file.is_file())
