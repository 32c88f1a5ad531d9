"""Decides which rows a part's changes write, and counts what became of each change.

What truncates do is in `sluice_spark.merge.by_spark.truncates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.outdated import LATER, REWOUND, UNTIMED
from sluice.changes.row_history import NEVER
from sluice.changes.source_tables import Floors, concerns
from sluice.config.table import IGNORE, TableConfig
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_spark import latest, shared_keys
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.merge.by_spark.latest import (
    behind_floor,
    key_columns,
    keys_of,
    later_in_batch,
    later_than_stored,
    may_be_later,
    same_key,
)
from sluice_spark.merge.by_spark.truncates import (
    Truncate,
    floor_of,
    newest_truncates,
    owes_since_before,
    source_tables,
    truncated_rows,
)
from sluice_spark.merge.by_spark.unchanged_values import rows_from_history, unavailable_columns
from sluice_spark.merge.by_spark.working_columns import (
    BELOW_PURGE_FLOOR,
    CHANGES,
    INEXACT,
    NEEDS_HISTORY,
    NEWEST,
    OWES,
    STORED_PARTITION,
    STORED_POSITION,
    STORED_TIME,
    SUPPLIED,
    WINS,
)


@dataclass(frozen=True)
class MergeTarget:
    """The table that changes are decided against.

    `schema` has its columns after this batch. `few_keys` is true where the batch's keys are few enough to broadcast,
    `unordered` where nothing but their place in an object orders its changes, `source_clock` where the changes' times
    are the source's. `dumps` are the positions of truncates that full dumps bring. Frames that are used more than once
    stay in memory until `frames` is closed.
    """

    hudi: HudiTable
    facts: TableFacts
    schema: StructType
    few_keys: bool
    unordered: bool
    frames: ExitStack
    source_clock: bool = True
    dumps: frozenset[str] = frozenset()

    @property
    def config(self) -> TableConfig:
        """The table's configuration."""
        return self.hudi.config

    @property
    def ignores_deletes(self) -> bool:
        """True where deletes and truncates take nothing out of the table."""
        return self.config.delete_mode == IGNORE

    @property
    def key_and_hidden(self) -> tuple[str, ...]:
        """The names of the key's and the hidden columns."""
        return (*self.config.record_key, *hidden.NAMES)

    def stored(self, *columns: str) -> DataFrame:
        """The table's rows with these columns."""
        return self.hudi.stored(self.facts, *columns)

    def cached(self, frame: DataFrame) -> DataFrame:
        """Keep a frame's rows in memory, on disk where they don't fit, from when they are first computed.

        As rows and not in Spark's columnar form, which takes longer to build than a part needs to read it. Rows that
        are lost with an executor aren't computed again: the write fails, and so does the part.
        """
        rows = frame.localCheckpoint(eager=False)
        self.frames.callback(_forget, rows)
        return rows


def _forget(checkpointed: DataFrame) -> None:
    """Free the rows of a local checkpoint, which is no cached frame: `unpersist` of the frame would leave them."""
    plan: Any = checkpointed._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)


@dataclass(frozen=True)
class DecidedRows:
    """The rows to write, one per key in the table's columns, and what became of the changes.

    `truncates` are the newest of each source table. `replaced` says how many rows a full dump deletes, and how many the
    table has after it; None without one. `below_purge_floor` has the changes that must be set aside, None
    where there are none. `suspicions` counts keys that lost a change that may be later than what they hold.
    """

    rows: DataFrame
    counts: dict[str, int]
    truncates: tuple[Truncate, ...] = ()
    below_purge_floor: DataFrame | None = None
    suspicions: Mapping[str, int] = field(default_factory=dict)
    replaced: tuple[int, int] | None = None

    @property
    def keys(self) -> int:
        """How many keys the changes have."""
        return self.counts["losing"] + self.counts["winning"]

    @property
    def changes_nothing(self) -> bool:
        """True where there is nothing to commit."""
        return not self.counts["winning"] and not self.counts.get("supplied") and not self.counts.get("truncated")


def decide_rows(changes: DataFrame, *, target: MergeTarget) -> DecidedRows:
    """Decide about normalized changes.

    One Spark action, which also reads the objects; more where the batch has incomplete changes or truncates, supplies
    columns that rows owe, or loses changes that may be later than the stored rows.
    """
    floors = target.facts.floor
    beside = _beside_stored(changes, floors, target)
    decided, counted = _marked(beside, floors, target)
    anew: dict[str, int] = {}
    if target.config.append_only and (counted.stored or counted.counts["overtaken"]):
        beside = _beside_stored(_told_apart(changes, target), floors, target)
        decided, counted = _marked(beside, floors, target)
        taken_anew = decided.where(F.col(WINS) & shared_keys.is_taken_anew()).count()
        anew = {shared_keys.TAKEN_ANEW: taken_anew} if taken_anew else {}
    # Ignored with deletes: a truncate would defeat rows of its own batch, and leave those of a batch before.
    truncates = newest_truncates(decided) if counted.counts.get("truncates") and not target.ignores_deletes else ()
    raised = floors.raised((truncate.source, truncate.position) for truncate in truncates)
    if raised != floors:
        floors = raised
        if floors.by_source:  # another change of a key may be its newest now
            beside = _beside_stored(changes, floors, target)
        decided, counted = _marked(beside, floors, target)
    counts = {**counted.counts, **anew}
    rows = latest.winners(decided, target=target.schema)
    emptying = () if target.facts.empty else truncates
    if emptying:
        emptied = target.cached(_emptied(decided, emptying, floors, target))
        counts = {**counts, "truncated": emptied.count(), **_in_doubt(emptying, target)}
        rows = rows.unionByName(emptied)
    if counted.needing_history or emptying:
        completed = target.cached(_completed(decided, counted, floors, emptying, target))
        counts = _with_completed(counts, completed)
        if emptying and counts["supplied"]:  # rows without a change of the batch among them
            key = target.config.record_key
            changed = keys_of(decided, ~latest.has_no_row(), record_key=key)
            counts["losing"] += completed.join(
                changed, same_key(completed, changed, record_key=key), "left_anti"
            ).count()
        rows = rows.unionByName(completed.select(*[quoted(name) for name in target.schema.names]))
    of_dump = [truncate.position for truncate in truncates if truncate.position in target.dumps]
    return DecidedRows(
        rows,
        counts,
        truncates,
        decided.where(F.col(BELOW_PURGE_FLOOR)) if counts.get("below_purge_floor") else None,
        _suspicions(counted, decided, target),
        _replaced(decided, rows, counts, max(of_dump), target) if of_dump else None,
    )


def _replaced(
    decided: DataFrame, rows: DataFrame, counts: Mapping[str, int], floor: str, target: MergeTarget
) -> tuple[int, int]:
    """How many rows a dump that begins at `floor` deletes, those of the batch's own changes too, and how many stay."""
    lost = (
        F.col(NEWEST)
        & ~latest.has_no_row()
        & ~quoted(hidden.DELETED)
        & F.col(STORED_POSITION).isNull()
        & (quoted(hidden.POSITION) <= floor)
    )
    deleted = counts.get("truncated", 0) + decided.where(lost).count()
    left = rows.where(~quoted(hidden.DELETED)).count()
    if not target.facts.empty:
        key = target.config.record_key
        stored = target.stored(*dict.fromkeys((*key, hidden.POSITION, hidden.DELETED)))
        written = rows.select(*key_columns(key))
        others = stored.join(written, same_key(stored, written, record_key=key), "left_anti")
        left += others.where(~quoted(hidden.DELETED) & (quoted(hidden.POSITION) > floor)).count()
    return deleted, left


def _beside_stored(changes: DataFrame, floors: Floors, target: MergeTarget) -> DataFrame:
    config = target.config
    changes = shared_keys.with_snapshots(changes, config, unordered=target.unordered)
    newest = latest.latest_changes(
        changes,
        record_key=config.record_key,
        ignore_deletes=target.ignores_deletes,
        source_clock=target.source_clock,
        floor=floor_of(floors, changes.columns) if floors.by_source else None,
    )
    if not target.ignores_deletes:
        newest = latest.as_tombstones(newest, record_key=config.record_key, keep_values=config.keep_deleted_values)
    newest = target.cached(newest)
    if target.facts.empty:
        return latest.beside_stored(newest, stored=None, record_key=config.record_key, few=target.few_keys)
    # The key of a history table ends with the position.
    stored = target.stored(*dict.fromkeys((*config.record_key, hidden.POSITION, hidden.OWED)))
    return target.cached(latest.beside_stored(newest, stored=stored, record_key=config.record_key, few=target.few_keys))


def _told_apart(changes: DataFrame, target: MergeTarget) -> DataFrame:
    """Changes of an append-only table whose identities came before, or come twice in the batch."""
    facts = target.facts
    if facts.schema is None or facts.empty:
        stored = changes.select(*[quoted(name) for name in target.schema.names]).limit(0)
    else:
        stored = target.stored(*[name for name in facts.schema.names if name in set(target.schema.names)])
    changes = target.cached(changes)
    return shared_keys.told_apart(changes, stored=stored, config=target.config, target=target.schema)


def _marked(beside: DataFrame, floors: Floors, target: MergeTarget) -> tuple[DataFrame, _Counted]:
    facts, floor = target.facts, floor_of(floors, beside.columns)
    purged = facts.purged or NEVER
    decided = latest.marked(beside, floor=floor, purged=purged, purged_partition=facts.purged_partition)
    return decided, _counted(decided, floor)


@dataclass(frozen=True)
class _Counted:
    """The counts of a part's changes; keys that need their history, and those of them whose newest change loses.

    `suspects` are the keys of which a change that lost to the stored row may be later, `suspicions` counts keys that
    lost one to another change of the batch. `stored` are the keys that the table has.
    """

    counts: dict[str, int]
    stored: int
    needing_history: int
    supplying: int
    suspects: int
    suspicions: dict[str, int]


def _counted(decided: DataFrame, floor: SparkColumn) -> _Counted:
    """Count in one hash aggregation, which also computes the rows. What few batches need is asked after it."""
    wins, needs_history, newest = F.col(WINS), F.col(NEEDS_HISTORY), F.col(NEWEST)
    op, position, deleted = quoted(hidden.OP), quoted(hidden.POSITION), quoted(hidden.DELETED)
    is_row = newest & ~latest.has_no_row()
    totals = decided.agg(
        F.sum(F.when(newest, F.col(CHANGES))).alias("read"),
        F.count(F.when(is_row, 1)).alias("keys"),
        F.count(F.when(wins & ~needs_history, 1)).alias("winning"),
        F.count(F.when(wins & ~needs_history & deleted, 1)).alias("deleted"),
        F.count(F.when(is_row & (position == F.col(STORED_POSITION)), 1)).alias("repeated"),
        F.count(F.when(is_row, F.col(STORED_POSITION))).alias("stored"),
        F.sum(F.when(wins, F.col(INEXACT))).alias("inexact"),
        F.count(F.when(needs_history, 1)).alias("needing_history"),
        F.count(F.when(needs_history & ~wins, 1)).alias("supplying"),
        F.count(F.when(F.col(BELOW_PURGE_FLOOR), 1)).alias("below_purge_floor"),
        F.count(F.when(op == hidden.TRUNCATE, 1)).alias("truncates"),
        F.count(F.when(op == hidden.MESSAGE, 1)).alias("messages"),
        F.count(F.when(may_be_later(is_row & ~wins), 1)).alias("suspects"),
        F.count(F.when(behind_floor(is_row & ~wins, floor), 1)).alias(UNTIMED),
        *later_in_batch(is_row & wins),
        *shared_keys.shared_counts(newest),
    ).first()
    assert totals is not None
    read = totals["read"] or 0
    counts = {
        "read": read,
        "winning": totals["winning"],
        "deleted": totals["deleted"],
        # Changes that lost to another of the same batch.
        "overtaken": read - totals["keys"] - totals["truncates"] - totals["messages"],
        # Keys whose newest change is not newer than the table.
        "losing": totals["keys"] - totals["winning"],
        "repeated": totals["repeated"],
    }
    rare = ("truncates", "messages", "inexact", "below_purge_floor")
    counts.update({name: totals[name] for name in rare if totals[name]})
    counts.update(shared_keys.counted(totals.asDict()))
    suspicions = {word: totals[word] for word in (LATER, REWOUND, UNTIMED) if totals[word]}
    return _Counted(
        counts, totals["stored"], totals["needing_history"], totals["supplying"], totals["suspects"], suspicions
    )


def _emptied(decided: DataFrame, truncates: Sequence[Truncate], floors: Floors, target: MergeTarget) -> DataFrame:
    """The stored rows that truncates delete, but for those that the batch's own changes decide about."""
    key = target.config.record_key
    assert target.facts.schema is not None
    wanted = [
        name for name in target.facts.schema.names if target.config.keep_deleted_values or name in target.key_and_hidden
    ]
    taken = keys_of(decided, F.col(WINS) | F.col(NEEDS_HISTORY), record_key=key)
    stored = target.stored(*wanted)
    rest = stored.join(taken, same_key(stored, taken, record_key=key), "left_anti")
    return truncated_rows(
        rest,
        truncates=truncates,
        target=target.schema,
        topic=floors.topic,
        keep_positions=_is_shared(decided, floors, target),
    )


def _is_shared(decided: DataFrame, floors: Floors, target: MergeTarget) -> bool:
    """Whether the table has changes of several source tables."""
    if not floors.by_source:
        return False
    names = set(floors.by_source) | source_tables(decided) | source_tables(_stored_sources(target))
    return len(names - {None}) > 1


def _stored_sources(target: MergeTarget) -> DataFrame:
    """The table's rows with what a truncate looks at."""
    facts = target.facts
    names = (hidden.POSITION, hidden.DELETED, hidden.SOURCE)
    return target.stored(*[name for name in names if facts.schema is not None and name in facts.schema.names])


def _in_doubt(truncates: Sequence[Truncate], target: MergeTarget) -> dict[str, int]:
    """How many live rows stay that a truncate may be about: their source table isn't known, and their topic isn't
    named after the truncated one.
    """
    topic = target.config.topic
    unclear = [truncate.position for truncate in truncates if not concerns(truncate.source, None, topic)]
    if not unclear:
        return {}
    rows = _stored_sources(target).where(~quoted(hidden.DELETED) & (quoted(hidden.POSITION) < max(unclear)))
    if hidden.SOURCE in rows.columns:
        rows = rows.where(quoted(hidden.SOURCE).isNull())
    count = rows.count()
    return {"source_unknown": count} if count else {}


def _completed(
    decided: DataFrame, counted: _Counted, floors: Floors, truncates: Sequence[Truncate], target: MergeTarget
) -> DataFrame:
    """The rows that follow from their keys' histories, those equal to the stored row left out."""
    every = unavailable_columns(target.schema, target.config.record_key)
    narrow = not (counted.supplying or truncates or target.ignores_deletes)
    columns = _only_unchanged(decided, every) if narrow else every
    stored = None
    if target.facts.schema is not None:
        # A winner has all columns but these itself; a stored row that is kept is written again whole.
        wanted = [
            name for name in target.facts.schema.names if not narrow or name in {*target.key_and_hidden, *columns}
        ]
        stored = target.stored(*wanted)
    touched = None
    if truncates and stored is not None:
        touched = owes_since_before(truncates, stored.columns, floors.topic)
    return rows_from_history(
        decided,
        stored=stored,
        touched=touched,
        target=target.schema,
        record_key=target.config.record_key,
        columns=columns,
        floors=floors,
        keep_positions=_is_shared(decided, floors, target),
        ignore_deletes=target.ignores_deletes,
    )


def _only_unchanged(decided: DataFrame, columns: list[str]) -> list[str]:
    """Those of the columns that some change left unchanged."""
    collected = decided.agg(F.flatten(F.collect_set(quoted(hidden.UNCHANGED))).alias("names")).first()
    assert collected is not None
    return [name for name in columns if name in set(collected["names"])]


def _with_completed(counts: dict[str, int], completed: DataFrame) -> dict[str, int]:
    supplied = F.col(SUPPLIED)
    totals = completed.agg(
        F.count(F.when(~supplied, 1)).alias("new"),
        F.count(F.when(~supplied & quoted(hidden.DELETED), 1)).alias("deleted"),
        F.count(F.when(supplied, 1)).alias("supplied"),
        F.count(F.when(F.col(OWES), 1)).alias("owed"),
    ).first()
    assert totals is not None
    return {
        **counts,
        "winning": counts["winning"] + totals["new"],
        "deleted": counts["deleted"] + totals["deleted"],
        "losing": counts["losing"] - totals["new"] - totals["supplied"],
        "supplied": totals["supplied"],
        "owed": totals["owed"],
    }


def _suspicions(counted: _Counted, decided: DataFrame, target: MergeTarget) -> dict[str, int]:
    """How many keys lost a change that may be later, by `outdated.suspicion`.

    Reads the places of the stored rows to which such changes may have lost.
    """
    unresolved = counted.suspicions
    if not counted.suspects:
        return unresolved
    key = target.config.record_key
    lost = decided.where(may_be_later(F.col(NEWEST) & ~latest.has_no_row() & ~F.col(WINS)))
    stored = target.stored(*key, hidden.PARTITION, hidden.SOURCE_TS_MS)
    keys = keys_of(lost, F.lit(True), record_key=key)
    held = stored.join(keys, same_key(stored, keys, record_key=key), "left_semi").select(
        *key_columns(key),
        quoted(hidden.PARTITION).alias(STORED_PARTITION),
        quoted(hidden.SOURCE_TS_MS).alias(STORED_TIME),
    )
    beside = lost.join(held, same_key(lost, held, record_key=key), "inner")
    lost_to_stored = later_than_stored(beside, source_clock=target.source_clock)
    return {word: unresolved.get(word, 0) + lost_to_stored.get(word, 0) for word in {*unresolved, *lost_to_stored}}
