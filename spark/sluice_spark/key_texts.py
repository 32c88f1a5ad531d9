"""Refuses values that a row can't be found or a folder be named by: keys that Hudi takes for another or for none, and folders that no store holds."""

from __future__ import annotations

from functools import reduce
from typing import Dict, List, Optional, Sequence, Tuple, Type

import pyarrow as pa
import pyarrow.compute as pc

from sluice import column_types as kinds
from sluice.errors import SluiceError
from sluice.temporal_bounds import REAL

# How CustomKeyGenerator writes an empty part of a key of several columns: "a:1,b:__empty__". NonpartitionedKeyGenerator of 1.0.2 refuses one.
EMPTY_PART = "__empty__"
MAX_KEY_BYTES = 16 * 1024  # of one text; the record index holds 32 KiB, and no database's own index as much as this
MAX_FOLDER_BYTES = 255  # of one "column=value", as file systems have it
MAX_FOLDERS_BYTES = (
    512  # of all of them: S3's keys of 1,024 bytes hold the table's name, the file's and Hudi's marks, too
)
_INEXACT = r"infinity|^[+-]\d{6}|\.\d{6}\d*[1-9]"  # of a date or timestamp as text
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(
    map(chr, range(1, 32))
)  # to three bytes each, by Hudi's PartitionPathEncodeUtils


class UnusableRecordKey(SluiceError):
    """A key that Hudi can't hold, or would take for the key of another row; facts: `column`, `record`."""

    code = "unusable_record_key"
    next_step = "Give the table a record_key whose texts are not empty and don't hold what joins the parts of a key"


class InexactRecordKey(SluiceError):
    """A date or timestamp in a key that its stored type doesn't hold: stored as null or cut, it would be another row's key; facts: `column`, `record`."""

    code = "inexact_record_key"
    next_step = "Give the topic a table that has the column in its `raw`, as the connector counts it"


class UnusablePartitionValue(SluiceError):
    """A value of a partition column that can't be the name of a folder; facts: `column`, `record`."""

    code = "unusable_partition_value"
    next_step = "Partition the table by a column of shorter values"


def check_key_texts(key: Dict[str, pa.Array], numbers: Sequence[int], *, empty_parts: bool) -> None:
    """Raises UnusableRecordKey for the first of the records whose key, by column in its order, is one of these:

    text that is longer than any index holds; entirely empty text, which Hudi refuses with the whole write; without `empty_parts` a key with an empty part, likewise, and with them
    the text `__empty__`, which is how an empty part is written; in a key of several columns a part with `,<the next column>:` in it, which
    ends where it says and not where the part does.
    """
    texts = {name: values for name, values in key.items() if pa.types.is_string(values.type)}
    if not texts:
        return
    names = list(key)
    for name, values in texts.items():
        _refuse(
            pc.greater(pc.binary_length(values), MAX_KEY_BYTES),
            numbers,
            name,
            f"is longer than {MAX_KEY_BYTES:,} bytes",
        )
    empty = {name: pc.equal(pc.binary_length(values), 0) for name, values in texts.items()}
    if len(texts) == len(key):
        _refuse(reduce(pc.and_, empty.values()), numbers, names[0], "is empty")
    if len(key) == 1:
        return
    for place, name in enumerate(names):
        if name not in texts:
            continue
        if empty_parts:
            _refuse(
                pc.equal(texts[name], EMPTY_PART),
                numbers,
                name,
                f"is {EMPTY_PART}, as an empty part of a key is written",
            )
        else:
            _refuse(empty[name], numbers, name, "is empty, and the table has no partitions")
        if place + 1 < len(names):
            joint = f",{names[place + 1]}:"
            _refuse(
                pc.match_substring(texts[name], joint), numbers, name, f"holds {joint}, as parts of a key are joined"
            )


def check_key_times(key: Dict[str, Tuple[pa.Array, str]], numbers: Sequence[int]) -> None:
    """Raises InexactRecordKey for the first of the records whose key, by column its raw values and their kind, has an infinity or digits below a microsecond."""
    for name, (values, kind) in key.items():
        if kind in REAL:
            low, high = REAL[kind]
            inexact = pc.or_(pc.less(values, low), pc.greater(values, high))
            if kind == kinds.TIMESTAMP_NANOS:
                inexact = pc.or_(inexact, pc.not_equal(pc.multiply(pc.divide(values, 1_000), 1_000), values))
        elif kind in (kinds.ZONED_TIMESTAMP, kinds.ISO_DATE):
            inexact = pc.match_substring_regex(values, _INEXACT)
        else:
            continue
        _refuse(inexact, numbers, name, "is an infinity or has digits below a microsecond", InexactRecordKey)


def check_folder_texts(partition: Dict[str, pa.Array], numbers: Sequence[int]) -> None:
    """Raises UnusablePartitionValue for the first of the records whose values, by partition column, make a folder's name too long or hold a NUL.

    Such a name fails the whole write, each time.
    """
    lengths: List[pa.Array] = []
    for name, values in partition.items():
        if not pa.types.is_string(values.type):
            continue
        _refuse(pc.match_substring(values, "\0"), numbers, name, "holds a NUL", UnusablePartitionValue)
        length = _folder_bytes(name, values)
        _refuse(
            pc.greater(length, MAX_FOLDER_BYTES),
            numbers,
            name,
            f"makes a folder's name of more than {MAX_FOLDER_BYTES} bytes",
            UnusablePartitionValue,
        )
        lengths.append(length)
    if len(lengths) > 1:
        together = reduce(pc.add, (pc.fill_null(length, 0) for length in lengths))
        _refuse(
            pc.greater(together, MAX_FOLDERS_BYTES),
            numbers,
            next(iter(partition)),
            f"and those beside it make folders' names of more than {MAX_FOLDERS_BYTES} bytes",
            UnusablePartitionValue,
        )


def _folder_bytes(name: str, values: pa.Array) -> pa.Array:
    """The length of each "column=value", whose marks are escaped."""
    bytes_ = pc.add(pc.binary_length(values), len(name) + 1)
    if (pc.max(bytes_).as_py() or 0) * 3 <= MAX_FOLDER_BYTES:
        return bytes_
    marks = [
        None if value is None else 2 * sum(map(_ESCAPED.__contains__, value[:MAX_FOLDER_BYTES]))
        for value in values.to_pylist()
    ]
    return pc.add(bytes_, pa.array(marks, pa.int32()))


def _refuse(
    mask: pa.Array, numbers: Sequence[int], name: str, why: str, error: Type[SluiceError] = UnusableRecordKey
) -> None:
    at: Optional[int] = pc.index(mask, True).as_py()
    if at is not None and at >= 0:
        what = "partition" if error is UnusablePartitionValue else "key"
        raise error(f"The {what} column {name} {why}", column=name, record=numbers[at])
