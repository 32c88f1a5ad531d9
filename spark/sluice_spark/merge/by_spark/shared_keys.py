"""Finds keys that stand for several rows of one snapshot: a record key that isn't unique, which would lose rows.

A snapshot reads each row once, at one place of the source's log, so two of its rows with one key and different values
are two rows of the source. Repetitions are alike, and rows of another snapshot are at another place.

In an append-only table, where rows are known by their place, `told_apart` looks whether they are the same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.position import AMONG_TIES, BEFORE_THE_LOG, BY_ARRIVAL, BY_OFFSET_ALONE
from sluice.changes.recurring_keys import FIRST, ROW_PARTS, SharedNumbers, marks_of_versions
from sluice.config.table import TableConfig
from sluice_spark.errors import KeyNotUnique
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.merge.by_spark.working_columns import SHARED, SNAPSHOT, SNAPSHOT_ROWS

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
    place = F.regexp_replace(position.substr(F.lit(1), F.length(position) - _OFFSET_LENGTH), AMONG_TIES, "")
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


def counted(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of a part from the aggregates; none where no key is shared."""
    names = (_SURE, _POSSIBLE, _ROWS, _KEYS)
    return {name: counts[name] for name in names if counts[name]} if counts[_SURE] or counts[_POSSIBLE] else {}


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


def notes(counts: Mapping[str, int], record_key: Sequence[str], batch: str) -> Iterator[str]:
    """What to tell the operator of a part that was committed with shared keys, or keys that came again."""
    if counts.get(_SURE) or counts.get(_POSSIBLE):
        described = _described(counts, record_key)
        yield f"batch {batch}: {described}, and one row of each was kept. Look whether the record key is unique"
    if counts.get(TAKEN_ANEW):
        rows = f"{counts[TAKEN_ANEW]:,} records"
        yield f"batch {batch}: {rows} came under keys or coordinates of other records, and are rows of their own"


def _described(counts: Mapping[str, int], record_key: Sequence[str]) -> str:
    shared = counts.get(_SURE, 0) or counts[_POSSIBLE]
    return (
        f"{counts[_ROWS]:,} rows of a snapshot have {counts[_KEYS]:,} values of {', '.join(record_key)}: "
        f"{shared:,} of them stand{'s' if shared == 1 else ''} for several rows"
    )


# How many rows were taken under keys that came again with other records.
TAKEN_ANEW = "taken_anew"
_KEY, _NUMBER, _MARK, _VALUES, _VERSION = "came_key", "came_number", "came_mark", "came_values", "came_version"
_HEAD = 100  # records by which most objects that differ are told apart
_MOST_PREFIXES = 50  # keys by which the scan of the table passes over files


def told_apart(changes: DataFrame, *, stored: DataFrame, config: TableConfig, target: StructType) -> DataFrame:
    """The changes of an append-only table under the identities of their rows, where a key came before.

    `stored` has the table's columns. Compares the changes of each object with the stored rows of its key, and with
    the other versions of the key in the batch, by number (`sluice.changes.recurring_keys`). A record that carries
    its Kafka coordinates is compared by itself: sinks divide a log into objects anew. Rows that an object itself wrote
    are its own whatever they hold: a rule may store their values otherwise now.
    """
    is_row = ~F.coalesce(quoted(hidden.OP).isin(hidden.TRUNCATE, hidden.MESSAGE), F.lit(False))
    arrived = _compared(changes.where(is_row), target).drop(_MARK)
    keys = arrived.select(_KEY).distinct()
    held = _compared(_beginning_with(keys, stored).where(~quoted(hidden.DELETED)), target)
    held = held.join(F.broadcast(keys), _KEY, "left_semi")
    marks = _marks_of_records(arrived, held) if config.coordinates else _marks_of_objects(arrived, held)
    on = [quoted(hidden.ROW) == F.col(_KEY), quoted(hidden.OBJECT) == F.col(_VERSION)]
    if not config.coordinates:
        on = on[1:]
    marked = changes.join(F.broadcast(marks), reduce(lambda one, other: one & other, on), "left")
    row = F.concat(quoted(hidden.ROW), F.coalesce(F.col(_MARK), F.lit(FIRST)))
    return marked.select(*[row.alias(name) if name == hidden.ROW else quoted(name) for name in changes.columns])


def is_taken_anew() -> SparkColumn:
    """True for a row whose identity has a mark."""
    return F.regexp_extract(quoted(hidden.ROW), ROW_PARTS, 3) != FIRST


def _compared(rows: DataFrame, target: StructType) -> DataFrame:
    """The parts of the rows' identities and a hash of what they hold, as the table's types have it."""
    present, row = set(rows.columns), quoted(hidden.ROW)
    values: list[SparkColumn] = []
    for field in target.fields:
        if field.name in hidden.NAMES or field.name == hidden.ROW or field.name not in present:
            continue
        value = quoted(field.name).cast(field.dataType)
        if not isinstance(field.dataType, AtomicType):
            value = F.to_json(F.struct(value), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"})
        # The hash passes over nulls. The name tells which value it is.
        values += [F.when(value.isNotNull(), F.lit(field.name)), value]
    position = quoted(hidden.POSITION)
    log_place = F.when(~position.rlike(BY_OFFSET_ALONE), position.substr(F.lit(6), F.length(position)))
    return rows.select(
        F.regexp_extract(row, ROW_PARTS, 1).alias(_KEY),
        F.regexp_extract(row, ROW_PARTS, 2).cast("decimal(20,0)").alias(_NUMBER),
        F.regexp_extract(row, ROW_PARTS, 3).alias(_MARK),
        F.xxhash64(F.lit(0), *values, F.lit(""), log_place).alias(_VALUES),
        quoted(hidden.OBJECT).alias(_VERSION),
    )


def _beginning_with(keys: DataFrame, stored: DataFrame) -> DataFrame:
    """The stored rows of few keys, found by the least and greatest identity in files where that is possible."""
    few = keys.take(_MOST_PREFIXES + 1)
    if not few or len(few) > _MOST_PREFIXES:
        return stored
    return stored.where(reduce(or_, (quoted(hidden.ROW).startswith(f"{row[_KEY]}#") for row in few)))


def _marks_of_objects(arrived: DataFrame, held: DataFrame) -> DataFrame:
    versions: dict[str, list[str]] = {}
    for row in arrived.groupBy(_KEY, _VERSION).count().orderBy(F.desc("count"), _VERSION).collect():
        versions.setdefault(row[_KEY], []).append(row[_VERSION])
    stored: dict[str, list[str]] = {}
    for row in held.select(_KEY, _MARK).distinct().collect():
        stored.setdefault(row[_KEY], []).append(row[_MARK])
    one = arrived.select(_KEY, _NUMBER, F.col(_VERSION).alias("one"), F.col(_VALUES).alias("one_values"))
    sides = held.select(_KEY, _NUMBER, F.col(_MARK).alias("other"), _VALUES)
    if any(len(of_key) > 1 for of_key in versions.values()):
        sides = sides.unionByName(arrived.select(_KEY, _NUMBER, F.col(_VERSION).alias("other"), _VALUES))
    # A mark begins with @ or is empty, and a version has its bucket in front: versions are paired once.
    is_pair = (F.length("other") <= 17) | (F.col("one") < F.col("other"))
    counts = (F.count(F.lit(1)).alias("common"), F.sum((F.col("one_values") != F.col(_VALUES)).cast("int")).alias("no"))

    def overlaps(of: DataFrame, beside: DataFrame) -> DataFrame:
        return of.join(beside, [_KEY, _NUMBER]).where(is_pair).groupBy("one", "other").agg(*counts)

    is_head = F.col(_NUMBER) < _HEAD
    heads = {
        (row["one"], row["other"]): SharedNumbers(row["common"], row["no"])
        for row in overlaps(one.where(is_head), sides).collect()
    }
    alike = [pair for pair, head in heads.items() if not head.differing]
    session = arrived.sparkSession
    if alike:
        pairs = F.broadcast(session.createDataFrame(alike, "one string, other string"))
        beside = one.join(F.broadcast(pairs), "one").withColumnRenamed("other", "wanted")
        whole = beside.join(sides, [_KEY, _NUMBER]).where(F.col("wanted") == F.col("other"))
        for row in whole.groupBy("one", "other").agg(*counts).collect():
            heads[(row["one"], row["other"])] = SharedNumbers(row["common"], row["no"])
    written = held.join(arrived.select(_KEY, _VERSION).distinct(), [_KEY, _VERSION]).groupBy(_VERSION, _MARK).count()
    own = {row[_VERSION]: row[_MARK] for row in written.orderBy("count").collect()}
    marks: dict[str, str] = {}
    for key, of_key in versions.items():
        marks.update(marks_of_versions(of_key, stored.get(key, ()), heads, own))
    marks_by_version = [(version, mark) for version, mark in marks.items() if mark]
    return session.createDataFrame(marks_by_version, f"{_VERSION} string, {_MARK} string")


def _marks_of_records(arrived: DataFrame, held: DataFrame) -> DataFrame:
    place = [_KEY, _NUMBER]
    same = held.groupBy(*place, _VALUES).agg(F.min(_MARK).alias("same"))
    written = held.groupBy(*place, _VERSION).agg(F.min(_MARK).alias("written"))
    taken = held.groupBy(*place).agg(F.max(F.col(_MARK) == FIRST).alias("taken"))
    beside = arrived.join(same, [*place, _VALUES], "left").join(taken, place, "left")
    beside = beside.join(written, [*place, _VERSION], "left").withColumn("same", F.coalesce("written", "same"))
    of_place = Window.partitionBy(*place)
    first = F.min(F.when(F.col("same").isNull(), F.col(_VALUES))).over(of_place)
    is_first = ~F.coalesce(F.col("taken"), F.lit(False)) & (F.col(_VALUES) == first)
    own = F.when(is_first, F.lit(FIRST)).otherwise(F.concat(F.lit("@"), F.lower(F.hex(F.col(_VALUES)))))
    row = F.concat_ws("#", F.col(_KEY), F.lpad(F.col(_NUMBER).cast("string"), 20, "0"))
    record_marks = beside.select(row.alias(_KEY), _VERSION, F.coalesce(F.col("same"), own).alias(_MARK))
    return record_marks.where(F.col(_MARK) != FIRST).distinct()
