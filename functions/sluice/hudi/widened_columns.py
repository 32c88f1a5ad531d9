"""Columns whose type is wider in the table's schema than in its older files, and since when."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from sluice.changes.hidden_columns import NAMES

# The note of a table whose columns never changed. A table without a note is of a release that wrote none.
NONE_WIDENED = "{}"
# Types to which a column can be widened. A column of any other type always had it.
_WIDER = re.compile(r"(array<)*(bigint|double|decimal\(\d+,\d+\))>*")


def with_widened(noted: str | None, columns: Sequence[str], *, newest: str) -> str | None:
    """The table's note once `columns` are widened; `newest` is its newest instant before that.

    None where there is no note: earlier widenings aren't known, and a note would deny them.
    """
    if noted is None:
        return None
    return json.dumps({**_instants(noted), **dict.fromkeys(columns, newest)}, sort_keys=True)


def are_as_stored(noted: str | None, types: Mapping[str, str], *, oldest_file: str) -> bool:
    """Whether columns (name -> Spark's type name in the table's schema) have that type in every file.

    `oldest_file` is the instant of the commit that wrote the oldest file. Files written after a column became wider
    have the wider type.
    """
    if noted is None:
        return not any(_WIDER.fullmatch(kind) for name, kind in types.items() if name not in NAMES)
    return all(oldest_file > instant for name, instant in _instants(noted).items() if name in types)


def _instants(noted: str) -> dict[str, str]:
    return {str(name): str(instant) for name, instant in json.loads(noted).items()}
