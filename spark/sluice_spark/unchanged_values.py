"""Finds the columns of each raw row that its change left unchanged without telling their value, and makes them null."""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

import pyarrow as pa
import pyarrow.compute as pc

from sluice.unavailable import Placeholders


def without_placeholders(
    arrays: Sequence[pa.Array], names: Sequence[str], *, found: Placeholders, never: Collection[str]
) -> Tuple[List[pa.Array], Optional[pa.Array]]:
    """The arrays with null for every placeholder, and per row the names of its unchanged columns; None when there is none.

    Columns in `never` (the record key) hold values only. Nearly all batches have no placeholder: one look at
    the lengths of a column's values tells.
    """
    kept: List[pa.Array] = []
    masks: Dict[str, pa.Array] = {}
    for name, array in zip(names, arrays):
        mask = None if name in never else _mask(array, found)
        if mask is not None and pc.any(mask).as_py():
            masks[name] = mask
            array = pc.if_else(mask, pa.nulls(len(array), array.type), array)
        kept.append(array)
    return kept, _named(masks, len(arrays[0])) if masks else None


def _mask(array: pa.Array, found: Placeholders) -> Optional[pa.Array]:
    """Which values are the placeholder; None when it is clear that none is."""
    kind = array.type
    if pa.types.is_string(kind):
        return _among(array, found.text_lengths, found.texts)
    if pa.types.is_binary(kind):
        return _among(array, {len(value) for value in found.bytes_}, found.bytes_)
    if pa.types.is_map(kind):
        return _whole(array, [[found.pair]]) if _any_of_length(array, 1) else None
    if pa.types.is_list(kind):
        if pa.types.is_integer(kind.value_type):
            return _whole(array, [list(found.codes)]) if _any_of_length(array, len(found.codes)) else None
        items = _mask(array.flatten(), found)
        if items is None or not pc.any(items).as_py():
            return None
        return _whole(array, [[value] for value in (*found.texts, *found.bytes_)])
    return None


def _among(array: pa.Array, lengths: Collection[int], values: Collection[Any]) -> Optional[pa.Array]:
    if not pc.any(pc.is_in(pc.binary_length(array), pa.array(sorted(lengths), pa.int32()))).as_py():
        return None
    return pc.is_in(array, pa.array(sorted(values), array.type))


def _any_of_length(array: pa.Array, length: int) -> bool:
    offsets = array.offsets  # maps have no function for their lengths
    return bool(pc.any(pc.equal(pc.subtract(offsets[1:], offsets[:-1]), length)).as_py())


def _whole(array: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    return pa.array([value is not None and value in wanted for value in array.to_pylist()], pa.bool_())


def _named(masks: Dict[str, pa.Array], rows: int) -> pa.Array:
    flags = [(name, mask.to_pylist()) for name, mask in masks.items()]
    named = [[name for name, of_rows in flags if of_rows[row]] or None for row in range(rows)]
    return pa.array(named, pa.list_(pa.string()))
