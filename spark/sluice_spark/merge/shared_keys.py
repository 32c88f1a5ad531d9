"""Finds keys that stand for several rows of one snapshot: a record key that isn't unique, which would lose rows.

A snapshot reads each row once, at one place of the source's log, so two of its rows with one key and different values
are two rows of the source. Repetitions are alike, and rows of another snapshot are at another place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, WindowSpec
from pyspark.sql import functions as F

from sluice.changes import hidden_columns as hidden
from sluice.changes.position import BEFORE_THE_LOG, BY_ARRIVAL, BY_OFFSET_ALONE
from sluice.config.table import TableConfig
from sluice_spark.errors import KeyNotUnique
from sluice_spark.merge.normalize import quoted
from sluice_spark.merge.working_columns import SHARED, SNAPSHOT, SNAPSHOT_ROWS

MAYBE, SURELY = 1, 2  # values of SHARED
# The counts of a part, present where a key is shared.
_SURE, _POSSIBLE, _ROWS, _KEYS = "shared_keys", "possibly_shared_keys", "snapshot_rows", "snapshot_keys"
_OFFSET_LENGTH = 21  # of a position's last part, with its dot
# SNAPSHOT from the highest bit: 0, surely, 30 bits of the snapshot's hash, 32 bits of the values' hash.
_SURELY_BIT, _PLACE_BITS, _VALUE_BITS = 2**62, 2**30 - 1, 2**32 - 1


def with_snapshots(changes: DataFrame, config: TableConfig, *, unordered: bool) -> DataFrame:
    """Add SNAPSHOT, null for rows that no snapshot read: a number for its snapshot and for its values.

    One snapshot is surely that of an operation "read" at one place of the log. So are plain rows of one object where
    nothing orders them, neither a position column nor an offset (`unordered`), and the rows of a full load, which have
    no place in the log. Possibly of one snapshot are other rows of one object at one place: the clock of a query may
    stand still, and an incremental snapshot names no place.
    """
    position = quoted(hidden.POSITION)
    place = position.substr(F.lit(1), F.length(position) - _OFFSET_LENGTH)
    own = {*hidden.NAMES, hidden.UNCHANGED}
    values = F.xxhash64(*[quoted(name) for name in changes.columns if name not in own]).bitwiseAND(_VALUE_BITS)

    def possibly(*parts: SparkColumn) -> SparkColumn:
        return F.shiftleft(F.xxhash64(*parts).bitwiseAND(_PLACE_BITS), 32).bitwiseOR(values)

    def surely(*parts: SparkColumn) -> SparkColumn:
        return possibly(*parts).bitwiseOR(_SURELY_BIT)

    in_object = (place, quoted(hidden.OBJECT))
    read, bare = quoted(hidden.OP) == hidden.SNAPSHOT_READ, quoted(hidden.OP).isNull()
    by_offset = position.rlike(BY_OFFSET_ALONE) | position.rlike(BY_ARRIVAL)
    before = position.rlike(BEFORE_THE_LOG)
    if config.append_only:
        snapshot = F.lit(None).cast("bigint")
    elif config.position is not None:
        # The place of a row of a full load may have the time at which the row was read.
        snapshot = F.when(read | bare, F.when(before, surely(quoted(hidden.OBJECT))).otherwise(possibly(*in_object)))
    else:
        of_read = F.when(by_offset | before, possibly(*in_object)).otherwise(surely(place))
        of_bare = F.when(~by_offset, possibly(*in_object))
        snapshot = F.when(read, of_read).when(bare, of_bare.otherwise(surely(*in_object)) if unordered else of_bare)
    return changes.withColumn(SNAPSHOT, snapshot)


def shared_columns(of_key: WindowSpec) -> dict[str, SparkColumn]:
    """SHARED and SNAPSHOT_ROWS over the rows of each key: of one snapshot, the highest hash of values and the lowest.

    In constant memory, however many rows share a key.
    """
    snapshot = F.col(SNAPSHOT)
    highest, lowest = F.max(snapshot).over(of_key), F.max(snapshot.bitwiseXOR(_VALUE_BITS)).over(of_key)
    surely = F.when(highest >= _SURELY_BIT, SURELY).otherwise(MAYBE)
    return {
        SHARED: F.when(highest.bitwiseXOR(_VALUE_BITS) != lowest, surely),
        SNAPSHOT_ROWS: F.count(snapshot).over(of_key),
    }


def shared_counts(newest: SparkColumn) -> list[SparkColumn]:
    """The aggregates of `counted`; `newest` is true for one row of each key."""
    shared, rows = F.col(SHARED), F.col(SNAPSHOT_ROWS)
    return [
        F.count(F.when(newest & (shared == SURELY), 1)).alias(_SURE),
        F.count(F.when(newest & (shared == MAYBE), 1)).alias(_POSSIBLE),
        F.sum(F.when(newest, rows)).alias(_ROWS),
        F.count(F.when(newest & (rows > 0), 1)).alias(_KEYS),
    ]


def counted(found: Mapping[str, int]) -> dict[str, int]:
    """The counts of a part from the aggregates; none where no key is shared."""
    names = (_SURE, _POSSIBLE, _ROWS, _KEYS)
    return {name: found[name] for name in names if found[name]} if found[_SURE] or found[_POSSIBLE] else {}


def refusal(counts: Mapping[str, int], record_key: Sequence[str]) -> KeyNotUnique | None:
    """The reason not to make a table with this key; None where no key is surely shared."""
    if not counts.get(_SURE):
        return None
    return KeyNotUnique(
        f"{_described(counts, record_key)}, so rows would be lost",
        record_key=list(record_key),
        rows=counts[_ROWS],
        keys=counts[_KEYS],
    )


def note(counts: Mapping[str, int], record_key: Sequence[str], batch: str) -> str | None:
    """What to tell the operator of a part that was committed; None where no key is shared."""
    if not counts.get(_SURE) and not counts.get(_POSSIBLE):
        return None
    described = _described(counts, record_key)
    return f"batch {batch}: {described}, and one row of each was kept. Look whether the record key is unique"


def _described(counts: Mapping[str, int], record_key: Sequence[str]) -> str:
    shared = counts.get(_SURE, 0) or counts[_POSSIBLE]
    return (
        f"{counts[_ROWS]:,} rows of a snapshot have {counts[_KEYS]:,} values of {', '.join(record_key)}: "
        f"{shared:,} of them stand{'s' if shared == 1 else ''} for several rows"
    )
