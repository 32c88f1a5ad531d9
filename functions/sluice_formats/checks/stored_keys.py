"""Refuses values of keys and partition columns that Hudi can't store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from sluice.errors import SluiceError
from sluice.schema.meaning import MEANINGS
from sluice.schema.temporal import BELOW_A_MICROSECOND
from sluice_formats.errors import InexactRecordKey, UnusablePartitionValue, UnusableRecordKey

# CustomKeyGenerator writes an empty part of a key of several columns so: "a:1,b:__empty__".
# NonpartitionedKeyGenerator of 1.0.2 refuses an empty part.
EMPTY_PART = "__empty__"
MAX_KEY_BYTES = 16 * 1024  # of one text; the record index holds 32 KiB, and database indexes hold less than this
MAX_FOLDER_BYTES = 255  # of one "column=value": the limit of file systems
# Of all folders: S3's keys of 1,024 bytes also hold the table's name, the file's and Hudi's marks.
MAX_FOLDERS_BYTES = 512
_INEXACT = rf"infinity|^[+-]\d{{6}}|{BELOW_A_MICROSECOND}"  # of a date or timestamp as text
# Hudi's PartitionPathEncodeUtils escapes each of these to three bytes.
ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(1, 32)))


def check_key_texts(key: dict[str, pa.Array], numbers: Sequence[int], *, empty_parts: bool) -> None:
    """Raises UnusableRecordKey for the first record whose key can't be stored.

    `key` are the values by column, in the key's order. Refused are: text that is longer than any index holds; a key
    of empty text only, for which Hudi fails the whole write; an empty part, likewise, unless `empty_parts`; with
    `empty_parts` the text `__empty__`, which stands for an empty part; and in a key of several columns a part that
    contains `,<next column>:`, which joins the parts.
    """
    texts = {name: values for name, values in key.items() if pa.types.is_string(values.type)}
    if not texts:
        return
    names = list(key)
    for name, values in texts.items():
        is_long = pc.greater(pc.binary_length(values), MAX_KEY_BYTES)
        _refuse(is_long, numbers, name, f"is longer than {MAX_KEY_BYTES:,} bytes")
    empty = {name: pc.equal(pc.binary_length(values), 0) for name, values in texts.items()}
    if len(texts) == len(key):
        _refuse(reduce(pc.and_, empty.values()), numbers, names[0], "is empty")
    if len(key) == 1:
        return
    for place, name in enumerate(names):
        if name not in texts:
            continue
        if empty_parts:
            stands_for_empty = pc.equal(texts[name], EMPTY_PART)
            _refuse(stands_for_empty, numbers, name, f"is {EMPTY_PART}, which stands for an empty part of a key")
        else:
            _refuse(empty[name], numbers, name, "is empty, and the table, or its history, has no partitions")
        if place + 1 < len(names):
            joint = f",{names[place + 1]}:"
            holds_joint = pc.match_substring(texts[name], joint)
            _refuse(holds_joint, numbers, name, f"holds {joint}, which joins the parts of a key")


def check_key_times(key: dict[str, tuple[pa.Array, str]], numbers: Sequence[int]) -> None:
    """Raises InexactRecordKey for the first record whose key has an infinity or digits below a microsecond.

    `key` are the raw values and their kind, by column.
    """
    for name, (values, kind) in key.items():
        meaning = MEANINGS[kind]
        if meaning.real is not None:
            inexact = pc.or_(pc.less(values, meaning.real[0]), pc.greater(values, meaning.real[1]))
            if meaning.is_cut:
                inexact = pc.or_(inexact, pc.not_equal(pc.multiply(pc.divide(values, 1_000), 1_000), values))
        elif meaning.is_parsed:
            inexact = pc.match_substring_regex(values, _INEXACT)
        else:
            continue
        _refuse(inexact, numbers, name, "is an infinity or has digits below a microsecond", InexactRecordKey)


def check_folder_texts(partition: dict[str, pa.Array], numbers: Sequence[int]) -> None:
    """Raises UnusablePartitionValue for the first record whose folder's name would be too long or hold a NUL.

    `partition` are the values by partition column. Such a name fails the whole write each time.
    """
    lengths: list[pa.Array] = []
    for name, values in partition.items():
        if not pa.types.is_string(values.type):
            continue
        _refuse(pc.match_substring(values, "\0"), numbers, name, "holds a NUL", UnusablePartitionValue)
        length = _folder_bytes(name, values)
        why = f"makes a folder's name of more than {MAX_FOLDER_BYTES} bytes"
        _refuse(pc.greater(length, MAX_FOLDER_BYTES), numbers, name, why, UnusablePartitionValue)
        lengths.append(length)
    if len(lengths) > 1:
        together = reduce(pc.add, (pc.fill_null(length, 0) for length in lengths))
        name, why = next(iter(partition)), f"and the others make folders' names of more than {MAX_FOLDERS_BYTES} bytes"
        _refuse(pc.greater(together, MAX_FOLDERS_BYTES), numbers, name, why, UnusablePartitionValue)


def _folder_bytes(name: str, values: pa.Array) -> pa.Array:
    """The length of each "column=value", escaped."""
    bytes_ = pc.add(pc.binary_length(values), len(name) + 1)
    if (pc.max(bytes_).as_py() or 0) * 3 <= MAX_FOLDER_BYTES:
        return bytes_
    marks = [
        None if value is None else 2 * sum(map(ESCAPED.__contains__, value[:MAX_FOLDER_BYTES]))
        for value in values.to_pylist()
    ]
    return pc.add(bytes_, pa.array(marks, pa.int32()))


def _refuse(
    mask: pa.Array, numbers: Sequence[int], name: str, why: str, error: type[SluiceError] = UnusableRecordKey
) -> None:
    at: int | None = pc.index(mask, True).as_py()
    if at is not None and at >= 0:
        what = "partition" if error is UnusablePartitionValue else "key"
        raise error(f"The {what} column {name} {why}", column=name, record=numbers[at])
