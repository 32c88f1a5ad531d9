"""Which columns of a table may have another type in its older files than in its schema: those that became wider, and since when."""

from __future__ import annotations

import json
import re
from typing import Dict, Mapping, Optional, Sequence

from sluice.hidden_columns import NAMES

# What a table says in whose columns nothing changed yet. A table that says nothing is of a release that didn't note it.
NONE_WIDENED = "{}"
# Types that a column may have become: what is of another type now was of that type from the start.
_WIDER = re.compile(r"(array<)*(bigint|double|decimal\(\d+,\d+\))>*")


def with_widened(noted: Optional[str], columns: Sequence[str], *, newest: str) -> Optional[str]:
    """The note of a table some of whose columns are about to become wider; `newest` is its newest instant before that.

    None where there is none yet: what became wider before isn't known, and a note would deny it.
    """
    if noted is None:
        return None
    return json.dumps({**_instants(noted), **dict.fromkeys(columns, newest)}, sort_keys=True)


def are_as_stored(noted: Optional[str], types: Mapping[str, str], *, oldest_file: str) -> bool:
    """Whether these columns (name -> Spark's name of the type in the table's schema) have that type in every file.

    `oldest_file` is the instant of the commit that wrote the oldest of the files. A file that was written after a column became
    wider has the wider type, whatever it was written for.
    """
    if noted is None:
        return not any(_WIDER.fullmatch(kind) for name, kind in types.items() if name not in NAMES)
    return all(oldest_file > instant for name, instant in _instants(noted).items() if name in types)


def _instants(noted: str) -> Dict[str, str]:
    return {str(name): str(instant) for name, instant in json.loads(noted).items()}
