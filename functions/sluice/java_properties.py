"""Reads the text of a Java properties file: its entries, by name."""

from __future__ import annotations

import re
from typing import Dict, Tuple


def parse_properties(text: str) -> Dict[str, str]:
    """The entries of a Java properties file; the last of a name counts. https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html#load-java.io.Reader-"""
    found: Dict[str, str] = {}
    logical = ""
    for raw in [*text.splitlines(), ""]:
        line = raw.lstrip(" \t\f")
        if not logical and line[:1] in ("#", "!"):
            continue
        logical += line
        if (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]
            continue
        if logical.strip():
            name, value = _split(logical)
            found[name] = value
        logical = ""
    return found


def _split(line: str) -> Tuple[str, str]:
    """Name and value: parted by the first =, : or blank that no backslash precedes."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    name, rest = line[:at], line[at:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescaped(name), _unescaped(rest)


def _unescaped(text: str) -> str:
    simple = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return re.sub(
        r"\\(u[0-9A-Fa-f]{4}|.)",
        lambda found: chr(int(found[1][1:], 16)) if len(found[1]) == 5 else simple.get(found[1], found[1]),
        text,
    )
