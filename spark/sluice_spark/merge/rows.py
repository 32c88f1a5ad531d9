"""The rows that a part's changes make of a table: what wins, what is folded, what a truncate empties, each counted.

What a truncate of the source's table does to the stored rows: those that are older become deleted rows at its position.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.position import BEFORE_THE_LOG
from sluice.changes.row_history import NEVER
from sluice.config.table import IGNORE, TableConfig
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge import incomplete as filling
from sluice_spark.merge import latest as merging
from sluice_spark.merge.normalize import UNHELD, quoted

_STORED_OFFSET = "_sluice_stored_offset"


def is_mostly(some: int, all_of_them: int) -> bool:
    """Whether they are more than half."""
    return 2 * some > all_of_them


@dataclass(frozen=True)
class MergedRows:
    """What a part comes to. `rows` has one row per key in the table's columns; `truncated_at` is the batch's newest truncate.

    `below` are changes that must be set aside: of rows that were purged, at or below the purge floor (None: there are none).
    """

    rows: DataFrame
    counts: dict[str, int]
    truncated_at: str | None
    below: DataFrame | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether there is nothing to commit."""
        return not self.counts["winning"] and not self.counts.get("supplied") and not self.counts.get("truncated")


class RowMerge:
    """One part's merge up to the rows. A context: frames are cached inside it, and computed when they are first counted."""

    def __init__(
        self, hudi: HudiTable, config: TableConfig, *, target: StructType, facts: TableFacts, few: bool
    ) -> None:
        """`few` says that the batch's keys are few enough to send them to every task of a scan."""
        self._hudi = hudi
        self._key = config.record_key
        self._keep_values = config.keep_deleted_values
        self._ignore = config.delete_mode == IGNORE
        self._target = target
        self._facts = facts
        self._few = few
        self._held: list[DataFrame] = []

    def __enter__(self) -> RowMerge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in self._held:
            frame.unpersist()

    def merge(self, changes: DataFrame) -> MergedRows:
        """Decide about normalized changes. One action, and a second for a batch that owes, supplies or truncates."""
        latest = merging.latest_changes(changes, record_key=self._key, ignore_deletes=self._ignore)
        if not self._ignore:
            latest = merging.as_tombstones(latest, record_key=self._key, keep_values=self._keep_values)
        latest = self._cached(latest)
        floor = self._facts.floor or NEVER
        if self._facts.empty:
            beside = merging.beside_stored(latest, stored=None, record_key=self._key, few=self._few)
        else:
            stored = self._hudi.stored(self._facts, *self._key, hidden.POSITION, hidden.OWED)
            beside = self._cached(merging.beside_stored(latest, stored=stored, record_key=self._key, few=self._few))
        purged = self._facts.purged or NEVER
        decided = merging.marked(beside, floor=floor, purged=purged, purged_partition=self._facts.purged_partition)
        counts, found, truncate = _counted(decided)
        if truncate is not None and truncate.position > floor:
            decided = merging.marked(
                beside, floor=truncate.position, purged=purged, purged_partition=self._facts.purged_partition
            )
            counts, found, _ = _counted(decided)
            floor = truncate.position
        rows = merging.winners(decided, target=self._target)
        # Ignored like a delete: values stay, and what is older loses. An empty table has nothing to empty.
        emptying = None if self._ignore or self._facts.empty else truncate
        if emptying is not None:
            emptied = self._cached(self._emptied(decided, emptying))
            counts["truncated"] = emptied.count()
            rows = rows.unionByName(emptied)
        if found.filling or emptying is not None:
            rows, counts = self._with_folded(rows, decided, counts, found, floor, emptying)
        lost = counts["losing"] - counts["repeated"] - counts.get("below_purge_floor", 0)
        if is_mostly(lost, counts["losing"] + counts["winning"]):
            counts = self._with_outdated(beside, counts, floor)
        below = decided.where(F.col(merging.BELOW)) if counts.get("below_purge_floor") else None
        return MergedRows(rows, counts, truncate.position if truncate is not None else None, below)

    def _with_outdated(self, beside: DataFrame, counts: dict[str, int], floor: str) -> dict[str, int]:
        """Most of the batch lost: count the changes that lost although they were written to Kafka after what they lost to.

        A replay, and objects that come late, bring what was written before. Where the newer has the lower position,
        the source's log began again lower. Rows of a snapshot that stand before the log mean to lose.
        """
        placed = ~F.coalesce(
            (quoted(hidden.OP) == hidden.SNAPSHOT_READ) & quoted(hidden.POSITION).rlike(BEFORE_THE_LOG), F.lit(False)
        )
        lost = beside.where(F.col(merging.NEWEST) & ~merging.of_no_row() & placed)
        lost = lost.where(
            (quoted(hidden.POSITION) < F.col(merging.STORED_POSITION)) | (quoted(hidden.POSITION) <= F.lit(floor))
        )
        newer = F.when(F.col(merging.STORED_POSITION).isNull(), True).otherwise(
            quoted(hidden.OFFSET) > F.col(_STORED_OFFSET)
        )
        if self._facts.empty:
            outdated = lost.count()
        else:
            stored = self._hudi.stored(self._facts, *self._key, hidden.OFFSET)
            held = stored.select(*[quoted(name) for name in self._key], quoted(hidden.OFFSET).alias(_STORED_OFFSET))
            keys = merging.keys_of(lost, F.lit(True), record_key=self._key)
            held = held.join(keys, merging.same_key(held, keys, record_key=self._key), "left_semi")
            renamed = merging.keys_of(
                held.withColumn(merging.NEWEST, F.lit(True)),
                F.lit(True),
                record_key=self._key,
                beside=(_STORED_OFFSET,),
            )
            outdated = (
                lost.join(renamed, merging.same_key(lost, renamed, record_key=self._key), "left").where(newer).count()
            )
        mostly = is_mostly(outdated, counts["losing"] + counts["winning"])
        return {**counts, "outdated": outdated, **({"mostly_losing": 1} if mostly else {})}

    def _with_folded(
        self,
        rows: DataFrame,
        decided: DataFrame,
        counts: dict[str, int],
        found: _Found,
        floor: str,
        truncate: Truncate | None,
    ) -> tuple[DataFrame, dict[str, int]]:
        every = filling.unavailable_columns(self._target, self._key)
        narrow = not (found.supplying or truncate is not None or self._ignore)
        columns = [name for name in every if name in found.unchanged] if narrow else every
        stored = None
        if not self._facts.empty and self._facts.schema is not None:
            # A winner tells all columns but these itself; a stored row that is kept is written again whole.
            wanted = [
                name for name in self._facts.schema.names if not narrow or name in {*self._key, *hidden.NAMES, *columns}
            ]
            stored = self._hudi.stored(self._facts, *wanted)
        history = filling.history(
            decided,
            fills=F.col(merging.FILLS),
            taken=F.col(merging.FILLS) | F.col(merging.WINS),
            stored=stored,
            touched=None if truncate is None else owing_from_before(truncate),
            target=self._target,
            record_key=self._key,
            floor=floor,
            ignore_deletes=self._ignore,
        )
        folded = self._cached(
            filling.folded(
                history,
                target=self._target,
                record_key=self._key,
                columns=columns,
                floor=floor,
                ignore_deletes=self._ignore,
            )
        )
        done = folded.agg(
            F.count(F.when(~F.col(filling.SUPPLIED), 1)).alias("new"),
            F.count(F.when(~F.col(filling.SUPPLIED) & quoted(hidden.DELETED), 1)).alias("deleted"),
            F.count(F.when(F.col(filling.SUPPLIED), 1)).alias("supplied"),
            F.count(F.when(F.col(filling.OWES), 1)).alias("owed"),
        ).first()
        assert done is not None
        counts = {
            **counts,
            "winning": counts["winning"] + done["new"],
            "deleted": counts["deleted"] + done["deleted"],
            "losing": counts["losing"] - done["new"] - done["supplied"],
            "supplied": done["supplied"],
            "owed": done["owed"],
        }
        return rows.unionByName(folded.select(*[quoted(name) for name in self._target.names])), counts

    def _emptied(self, decided: DataFrame, truncate: Truncate) -> DataFrame:
        taken = merging.keys_of(decided, F.col(merging.WINS) | F.col(merging.FILLS), record_key=self._key)
        assert self._facts.schema is not None
        wanted = [name for name in self._facts.schema.names if self._keep_values or name in {*self._key, *hidden.NAMES}]
        stored = self._hudi.stored(self._facts, *wanted)
        rest = stored.join(taken, merging.same_key(stored, taken, record_key=self._key), "left_anti")
        return tombstones(rest, truncate=truncate, target=self._target)

    def _cached(self, frame: DataFrame) -> DataFrame:
        self._held.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._held[-1]


@dataclass(frozen=True)
class _Found:
    """What a count tells beside the counts: keys whose history is needed, those of them that lose, and columns that changes came without."""

    filling: int
    supplying: int
    unchanged: tuple[str, ...]


def _counted(decided: DataFrame) -> tuple[dict[str, int], _Found, Truncate | None]:
    """What the part's changes came to, in one pass that also computes the rows."""
    wins, fills, deleted, newest = (
        F.col(merging.WINS),
        F.col(merging.FILLS),
        quoted(hidden.DELETED),
        F.col(merging.NEWEST),
    )
    op, position = quoted(hidden.OP), quoted(hidden.POSITION)
    row, truncates = newest & ~merging.of_no_row(), op == hidden.TRUNCATE
    found = decided.agg(
        F.sum(F.when(newest, F.col(merging.CHANGES))).alias("read"),
        F.count(F.when(row, 1)).alias("keys"),
        F.count(F.when(wins & ~fills, 1)).alias("winning"),
        F.count(F.when(wins & ~fills & deleted, 1)).alias("deleted"),
        F.count(F.when(row & (position == F.col(merging.STORED_POSITION)), 1)).alias("repeated"),
        F.sum(F.when(wins, F.col(UNHELD))).alias("inexact"),
        F.count(F.when(fills, 1)).alias("filling"),
        F.count(F.when(fills & ~wins, 1)).alias("supplying"),
        F.count(F.when(F.col(merging.BELOW), 1)).alias("below_purge_floor"),
        F.count(F.when(truncates, 1)).alias("truncates"),
        F.count(F.when(op == hidden.MESSAGE, 1)).alias("messages"),
    ).first()
    assert found is not None
    of_no_row = found["truncates"] + found["messages"]
    read, keys, winning = found["read"] or 0, found["keys"], found["winning"]
    counts = {
        # Changes that lost to another of the same batch, and keys whose latest change was not newer than the table's.
        "read": read,
        "winning": winning,
        "deleted": found["deleted"],
        "overtaken": read - keys - of_no_row,
        "losing": keys - winning,
        "repeated": found["repeated"],
    }
    # Values of the written rows that no date or timestamp holds: infinities, stored as null, and digits below a microsecond, cut.
    counts.update(
        {name: found[name] for name in ("truncates", "messages", "inexact", "below_purge_floor") if found[name]}
    )
    # Only counts in the first pass, one hash aggregation; what batches of every day don't need is asked for after it.
    unchanged = _unchanged(decided) if found["filling"] else ()
    return (
        counts,
        _Found(found["filling"], found["supplying"], unchanged),
        _newest_truncate(decided) if found["truncates"] else None,
    )


def _unchanged(decided: DataFrame) -> tuple[str, ...]:
    """The columns that some change came without."""
    found = decided.agg(F.flatten(F.collect_set(quoted(hidden.UNCHANGED))).alias("names")).first()
    assert found is not None
    return tuple(sorted(set(found["names"])))


def _newest_truncate(decided: DataFrame) -> Truncate:
    chosen = [
        quoted(hidden.POSITION).alias("position"),
        quoted(hidden.SOURCE_TS_MS).alias("source_ts_ms"),
        quoted(hidden.OBJECT).alias("object"),
        quoted(hidden.OFFSET).alias("offset"),
        (quoted(hidden.PARTITION) if hidden.PARTITION in decided.columns else F.lit(None)).alias("partition"),
    ]
    found = decided.where(quoted(hidden.OP) == hidden.TRUNCATE).select(*chosen).orderBy(F.desc("position")).first()
    assert found is not None
    return Truncate(**found.asDict())


@dataclass(frozen=True)
class Truncate:
    """A truncate: its position and where it came from."""

    position: str
    source_ts_ms: int | None
    object: str | None
    offset: int | None
    partition: int | None  # Kafka's


def tombstones(stored: DataFrame, *, truncate: Truncate, target: StructType) -> DataFrame:
    """The stored rows that a truncate deletes, as it leaves them: what `stored` has of values is kept, the rest is null."""
    own: dict[str, Any] = {
        hidden.POSITION: truncate.position,
        hidden.DELETED: True,
        hidden.OP: hidden.TRUNCATE,
        hidden.SOURCE_TS_MS: truncate.source_ts_ms,
        hidden.OBJECT: truncate.object,
        hidden.OFFSET: truncate.offset,
        hidden.PARTITION: truncate.partition,
        hidden.OWED: None,
    }
    present = set(stored.columns)
    chosen = [
        (F.lit(own[field.name]) if field.name in own else quoted(field.name) if field.name in present else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in target.fields
    ]
    return stored.where((quoted(hidden.POSITION) < F.lit(truncate.position)) & ~quoted(hidden.DELETED)).select(*chosen)


def owing_from_before(truncate: Truncate) -> SparkColumn:
    """Stored rows that are newer than the truncate and owe columns: what they hold of these may be from before it."""
    return (quoted(hidden.POSITION) > F.lit(truncate.position)) & quoted(hidden.OWED).isNotNull()
