"""Takes out of a chunk of records those that can't be merged, so that each costs itself and not its object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import pyarrow as pa

from sluice.errors import ExpansionLimit, SluiceError
from sluice_spark.records import BrokenRecord

Record = Union[Dict[str, Any], BrokenRecord]
Make = Callable[[Sequence[Dict[str, Any]], Sequence[int]], pa.RecordBatch]


class UndecodableValue(SluiceError):
    """A record of which a value is not what its schema says; facts: `record`, `cause`."""

    code = "undecodable_value"
    next_step = "Correct the value at the source; the record's bytes are kept with it"


class TooManyBadRows(SluiceError):
    """An object of which more records than the limit can't be merged; facts: `limit`, `last_code`."""

    code = "too_many_bad_rows"
    next_step = "Mend what the message says, then `sluice quarantine retry`; the table's limit is quarantined_rows"


@dataclass(frozen=True)
class BadRow:
    """A record that can't be merged: its place in the object, and why. `value` is the record, or its bytes if it isn't one."""

    record: int
    error: SluiceError
    value: Any


def sound_batch(
    records: Sequence[Record], numbers: Sequence[int], make: Make, *, limit: int, before: int = 0
) -> Tuple[Optional[pa.RecordBatch], List[BadRow]]:
    """The batch of all records that `make` takes, and the others. `numbers` are the records' places in the object.

    A chunk without trouble costs one call. Else halves are tried, so that one bad record costs about two
    calls more. Raises TooManyBadRows beyond `limit`, of which the object's earlier chunks had `before`,
    and what may pass by itself.
    """
    broken = [
        BadRow(number, record.error, record.content)
        for record, number in zip(records, numbers)
        if isinstance(record, BrokenRecord)
    ]
    _within(broken, before, limit)
    if broken:
        pairs = [(record, number) for record, number in zip(records, numbers) if not isinstance(record, BrokenRecord)]
        records, numbers = [record for record, _ in pairs], [number for _, number in pairs]
    sound: Sequence[Dict[str, Any]] = records  # type: ignore[assignment]  # what is broken has been taken out
    if not sound:
        return None, broken
    made = _made(sound, numbers, make)
    if isinstance(made, pa.RecordBatch):
        return made, broken
    bad = broken + _bad(sound, numbers, make, before + len(broken), limit)
    taken = {row.record for row in bad}
    kept = [(record, number) for record, number in zip(sound, numbers) if number not in taken]
    if not kept:
        return None, bad
    return make([record for record, _ in kept], [number for _, number in kept]), bad


def _bad(
    records: Sequence[Dict[str, Any]], numbers: Sequence[int], make: Make, before: int, limit: int
) -> List[BadRow]:
    """The bad ones among records of which at least one is bad."""
    found: List[BadRow] = []
    pending = [(0, len(records))]
    while pending:
        start, end = pending.pop()
        made = _made(records[start:end], numbers[start:end], make)
        if isinstance(made, pa.RecordBatch):
            continue
        if end - start == 1:
            found.append(BadRow(numbers[start], made, records[start]))
            _within(found, before, limit)
        else:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
    return found


def _made(records: Sequence[Dict[str, Any]], numbers: Sequence[int], make: Make) -> Union[pa.RecordBatch, SluiceError]:
    """The batch, or why there is none. What may pass by itself is raised."""
    try:
        return make(records, numbers)
    except SluiceError as error:
        if error.retriable or isinstance(error, ExpansionLimit):  # of all of them together: no single one is to blame
            raise
        return error
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, pa.ArrowException) as error:
        # Whatever a conversion makes of a value that isn't what the schema says: it is the same at every attempt.
        return UndecodableValue("A value is not what its schema says", record=numbers[0], cause=repr(error)[:200])


def _within(found: Sequence[BadRow], before: int, limit: int) -> None:
    if found and before + len(found) > limit:
        last = found[-1]
        raise TooManyBadRows(
            f"More than {limit} records can't be merged; one of them: {last.error.message}",
            limit=limit,
            last_code=last.error.code,
            record=last.record,
        )
