"""Tells versions of one key of an append-only table apart: those of one growing object, and other objects.

Records have no key of their own there, so a row is known by its object's key and its number in it. A sink that writes
an object again, longer or shorter, repeats records. A writer that uses a name again brings others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

FIRST = ""  # the mark of the first object of a key
# A stored row's identity: what its records share (a key, or a topic and partition), a number, and the object's mark.
ROW_PARTS = r"(?s)^(.*)#([0-9]{10,20})(@[0-9a-f]{1,16})?$"
_ROW_PARTS = re.compile(ROW_PARTS)


def without_mark(row: str) -> str:
    """A row's identity as its object alone gives it; text that is no identity as it is."""
    parts = _ROW_PARTS.match(row)
    return row if parts is None or parts[3] is None else row[: parts.start(3)]


@dataclass(frozen=True)
class SharedNumbers:
    """How many record numbers two sides share, and at how many of them the records differ."""

    common: int
    differing: int


def mark_of(version: str) -> str:
    """The mark of an object that begins with this version, as it ends the identities of its rows."""
    return "@" + hashlib.sha256(version.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def parts_of(row: str) -> tuple[str, int, str]:
    """The parts of a row's identity: key, number and mark. Raises ValueError for other text."""
    parts = _ROW_PARTS.match(row)
    if parts is None:
        raise ValueError(f"{row[:200]!r} is no identity of an append-only row")
    return parts[1], int(parts[2]), parts[3] or FIRST


def marks_of_versions(
    versions: Sequence[str],
    stored: Iterable[str],
    overlaps: Mapping[tuple[str, str], SharedNumbers],
    written: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The mark of each version of one key: that of the object that it continues, repeats or cuts, else a new one.

    `stored` are the marks that the table has rows of. `overlaps` are those of a version with a mark, and of two
    versions with the first in sorted order in front; a missing one has no common record. `written` are the marks
    under which the table has rows of a version itself, however a rule would store these now. The rows that follow don't
    depend on the order of arrival: they are those of each version that no other one continues.
    """
    members: dict[str, list[str]] = {mark: [] for mark in stored}
    marks: dict[str, str] = {}
    none = SharedNumbers(0, 0)
    # The longest first: a short version that two others continue then joins one of them.
    for version in versions:
        fitting: list[tuple[bool, int, str]] = []
        for mark, own in members.items():
            sides = [overlaps.get((version, mark), none)]
            sides += [overlaps.get((min(version, other), max(version, other)), none) for other in own]
            if not any(side.differing for side in sides):
                fitting.append((mark == mark_of(version), max(side.common for side in sides), mark))
        # What is left to merge of a version comes under its own mark, though the table lacks those records.
        chosen = max(fitting)[2] if fitting else FIRST if FIRST not in members else mark_of(version)
        chosen = written.get(version, chosen)
        members.setdefault(chosen, []).append(version)
        marks[version] = chosen
    return marks
