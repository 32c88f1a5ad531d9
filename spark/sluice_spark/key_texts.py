"""Refuses texts in a record key that Hudi's key generators can't tell from another key, or take for none."""
from __future__ import annotations

from functools import reduce
from typing import Dict, Optional, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluice.errors import SluiceError

# How CustomKeyGenerator writes an empty part of a key of several columns: "a:1,b:__empty__". NonpartitionedKeyGenerator of 1.0.2 refuses one.
EMPTY_PART = "__empty__"


class UnusableRecordKey(SluiceError):
    """A key that Hudi can't hold, or would take for the key of another row; facts: `column`, `record`."""

    code = "unusable_record_key"
    next_step = "Give the table a record_key whose texts are not empty and don't hold what joins the parts of a key"


def check_key_texts(key: Dict[str, pa.Array], numbers: Sequence[int], *, empty_parts: bool) -> None:
    """Raises UnusableRecordKey for the first of the records whose key, by column in its order, is one of these:

    entirely empty text, which Hudi refuses with the whole write; without `empty_parts` a key with an empty part, likewise, and with them
    the text `__empty__`, which is how an empty part is written; in a key of several columns a part with `,<the next column>:` in it, which
    ends where it says and not where the part does.
    """
    texts = {name: values for name, values in key.items() if pa.types.is_string(values.type)}
    if not texts:
        return
    names = list(key)
    empty = {name: pc.equal(pc.binary_length(values), 0) for name, values in texts.items()}
    if len(texts) == len(key):
        _refuse(reduce(pc.and_, empty.values()), numbers, names[0], "is empty")
    if len(key) == 1:
        return
    for place, name in enumerate(names):
        if name not in texts:
            continue
        if empty_parts:
            _refuse(pc.equal(texts[name], EMPTY_PART), numbers, name, f"is {EMPTY_PART}, as an empty part of a key is written")
        else:
            _refuse(empty[name], numbers, name, "is empty, and the table has no partitions")
        if place + 1 < len(names):
            joint = f",{names[place + 1]}:"
            _refuse(pc.match_substring(texts[name], joint), numbers, name, f"holds {joint}, as parts of a key are joined")


def _refuse(mask: pa.Array, numbers: Sequence[int], name: str, why: str) -> None:
    at: Optional[int] = pc.index(mask, True).as_py()
    if at is not None and at >= 0:
        raise UnusableRecordKey(f"The key column {name} {why}", column=name, record=numbers[at])
