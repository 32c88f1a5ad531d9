"""Rules for the names of tables, lanes, columns and topics, the known name of a mistyped one, and short forms.

A source column is stored under a valid Avro name, because Hudi keeps its schemas in Avro.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import lru_cache

# Lower case only: Glue folds case, and a name becomes part of S3 paths, Hudi names and SQL. Names that begin with _ are
# reserved: a database `_sluice` would be written among manifests and outcomes.
NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")
LANE = re.compile(r"[a-z0-9-]{1,32}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")  # Avro's own rule for names
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule
TOPIC_REFUSED = "the topic that the key names is not one that Kafka allows (letters a to z, digits, `.`, `_` and `-`)"

_HUDI_MARK = "_hoodie_is_deleted"
_SHORTEST_PART = 3  # characters of a name that are taken for a part of it: fewer are in nearly every name


@lru_cache(maxsize=8192)
def stored_name(name: str) -> str:
    """The name of a source column in its table, which Avro allows: letters and digits of ASCII, and `_`.

    A letter or digit beyond ASCII becomes `_u` and its hexadecimal code, so that names of another script stay
    distinct: `größe` becomes `gr_u00f6_u00dfe`, as with Debezium's `field.name.adjustment.mode=avro_unicode`. `_`
    replaces any other character, and precedes a first digit, as with its `avro`: `dash-col` becomes `dash_col`,
    `1digit` becomes `_1digit`. Avro's Java library takes letters of any script; other readers refuse the whole table.
    https://avro.apache.org/docs/1.11.1/specification/#names
    The mark of deletions that Hudi's own writers take, `_hoodie_is_deleted`, loses its first `_`: Hudi keeps the name.
    """
    if name == _HUDI_MARK:
        return name.lstrip("_")
    adjusted = "".join(map(_adjusted, name))
    return f"_{adjusted}" if not adjusted or adjusted[0].isdecimal() else adjusted


def _adjusted(character: str) -> str:
    if not (character.isalpha() or character.isdecimal()):
        return "_"
    return character if character.isascii() else f"_u{ord(character):04x}"


def not_a_column(name: str) -> str:
    return f"{name!r} is not a column name (letters of ASCII, digits and _)"


def did_you_mean(given: str, choices: Iterable[str], *, likeness: float = 0.6) -> str:
    """The end of a message about an unknown name: `; did you mean crm.user?`, or nothing where no name is like it.

    A name that begins with what was given comes first, then one that contains it, the shortest of several. Failing
    these it is the closest one whose ratio, by difflib's SequenceMatcher, is at least `likeness`. Case doesn't count.
    The name under which a table has a column goes before all of them.
    """
    folded = {name: name.casefold() for name in sorted(choices)}
    part = given.casefold()
    containing = [name for name in folded if len(part) >= _SHORTEST_PART and part in folded[name]]
    close = difflib.get_close_matches(part, folded.values(), n=1, cutoff=likeness)
    if stored_name(given) in folded:
        meant = stored_name(given)
    elif containing:
        meant = min(containing, key=lambda name: (not folded[name].startswith(part), len(name)))
    else:
        meant = next((name for name in folded if close and folded[name] == close[0]), "")
    return f"; did you mean {meant}?" if meant else ""


def timed_id(begin: str, now: int, entropy: str) -> str:
    """`<begin>-<yyyymmddThhmmssZ>-<8 hexadecimal digits>`.

    `now` is epoch ms; `entropy` is at least 8 random hexadecimal digits.
    """
    return f"{begin}-{datetime.fromtimestamp(now / 1000, tz=timezone.utc):%Y%m%dT%H%M%SZ}-{entropy[:8]}"


def counted(count: int, noun: str) -> str:
    """(2, "row") -> "2 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """(["a", "b", "c"], 2) -> "a, b and 1 more"."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def shortened(text: str, length: int) -> str:
    """Shorten to `length` characters. The middle is left out, since keys differ at their ends."""
    if len(text) <= length:
        return text
    head = (length - 1) // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
