"""Rules for the names of tables, lanes, columns and topics, and the known name that a mistyped one means.

A source column is stored under a valid Avro name, because Hudi keeps its schemas in Avro.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache

# Lower case only: Glue folds case, and a name becomes part of S3 paths, Hudi names and SQL. Names that begin with _ are
# reserved: a database `_sluice` would be written among manifests and outcomes.
NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")
LANE = re.compile(r"[a-z0-9-]{1,32}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")  # Avro's own rule for names
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule

_SHORTEST_PART = 3  # characters of a name that are taken for a part of it: fewer are in nearly every name
_BEYOND = 0x10000  # from here on a character is two Java chars, neither of them a letter


@lru_cache(maxsize=8192)
def stored_name(name: str) -> str:
    """The name of a source column in its table: `_` replaces what Avro doesn't allow, and precedes a first digit.

    Debezium's `field.name.adjustment.mode=avro` does the same: `dash-col` becomes `dash_col`, `1digit` becomes
    `_1digit`. Only JSON and Parquet have such names; Avro's Java writers refuse them.
    https://avro.apache.org/docs/1.11.1/specification/#names
    """
    adjusted = "".join(character if _may_follow(character) else "_" for character in name)
    return f"_{adjusted}" if not adjusted or adjusted[0].isdecimal() else adjusted


def _may_follow(character: str) -> bool:
    """The test of Avro's Java library: `Character.isLetterOrDigit` of one char, true for letters of any script."""
    return ord(character) < _BEYOND and (character == "_" or character.isalpha() or character.isdecimal())


def did_you_mean(given: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """The end of a message about an unknown name: `; did you mean crm.user?`, or nothing where no name is like it.

    `meant_name` says which name is meant.
    """
    meant = meant_name(given, known, likeness=likeness)
    return "" if meant is None else f"; did you mean {meant}?"


def meant_name(given: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The known name that a mistyped one means; None where no name is like it.

    A name that begins with what was given comes first, then one that contains it, the shortest of several. Failing
    these it is the closest one whose ratio, by difflib's SequenceMatcher, is at least `likeness`. Case doesn't count.
    """
    folded = {name: name.casefold() for name in sorted(known)}
    part = given.casefold()
    containing = [name for name in folded if len(part) >= _SHORTEST_PART and part in folded[name]]
    if containing:
        return min(containing, key=lambda name: (not folded[name].startswith(part), len(name)))
    close = difflib.get_close_matches(part, folded.values(), n=1, cutoff=likeness)
    return next((name for name in folded if close and folded[name] == close[0]), None)
