"""Java properties files, read as Java reads them: `hoodie.properties` of a table, and configurations of Hudi Streamer.

https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html#load-java.io.Reader-
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines knows more, which are characters to Java
_BLANK = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The entries of a file, by name. Of a name that is repeated, the last value counts."""
    properties: dict[str, str] = {}
    logical = ""
    for raw in [*_LINE_END.split(text), ""]:
        line = raw.lstrip(_BLANK)
        if not logical and line[:1] in ("#", "!"):
            continue
        logical += line
        if (len(logical) - len(logical.rstrip("\\"))) % 2:  # an unescaped backslash continues the line
            logical = logical[:-1]
            continue
        if logical.strip():
            name, value = _split(logical)
            properties[name] = value
        logical = ""
    return properties


def properties_text(entries: Mapping[str, str]) -> str:
    """A file of these entries, by name. Characters beyond ASCII, line ends and backslashes are escaped."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in sorted(entries.items()))


def _escaped(text: str) -> str:
    return "".join(
        character if " " <= character <= "~" and character != "\\" else f"\\u{ord(character):04x}" for character in text
    )


def _split(line: str) -> tuple[str, str]:
    """Name and value, split at the first =, : or blank that no backslash precedes."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANK:
        at += 2 if line[at] == "\\" else 1
    name, rest = line[:at], line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescaped(name), _unescaped(rest)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) == 5 else _CONTROLS.get(match[1], match[1]), text
    )
