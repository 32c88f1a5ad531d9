"""The working columns have the types that their table gives, and none is left in the rows to write."""

from typing import Any

from pyspark.sql import functions as F
from support.workbench import table

from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors
from sluice_spark.merge.by_spark import latest
from sluice_spark.merge.by_spark.shared_keys import with_snapshots
from sluice_spark.merge.by_spark.unchanged_values import history, rows_from_history
from sluice_spark.merge.by_spark.working_columns import INEXACT, NEEDS_HISTORY, WINS, WORKING_COLUMNS

TYPES = {column.name: column.spark_type for column in WORKING_COLUMNS}
COLUMNS = "id bigint, name string, " + ", ".join(f"{column.name} {column.spark_type}" for column in hidden.HIDDEN)


def row(id: int, position: str, unchanged: list[str] | None = None) -> tuple[Any, ...]:
    return (id, None if unchanged else "n", position, False, "u", None, None, None, None, None, None, unchanged, 0)


def working(frame: Any) -> dict[str, str]:
    return {name: kind for name, kind in frame.dtypes if name in TYPES}


def test_each_frame_has_the_listed_types_and_the_rows_to_write_have_none(spark: Any) -> None:
    fields = f"{COLUMNS}, {hidden.UNCHANGED} array<string>, {INEXACT} int"
    changes = spark.createDataFrame([row(1, "0"), row(2, "1", ["name"]), row(2, "0")], fields)
    target = spark.createDataFrame([], COLUMNS).schema
    beside = latest.beside_stored(
        latest.latest_changes(
            with_snapshots(changes, table(), unordered=True), record_key=("id",), ignore_deletes=False
        ),
        stored=spark.createDataFrame([(1, "0", None)], f"id bigint, {hidden.POSITION} string, {hidden.OWED} string"),
        record_key=("id",),
        few=True,
    )
    decided = latest.marked(beside, floor=F.lit(""), purged="")
    of_keys = history(
        decided,
        needs_history=decided[NEEDS_HISTORY],
        decided=decided[WINS],
        stored=None,
        touched=None,
        target=target,
        record_key=("id",),
        floors=Floors(),
        keep_positions=False,
        ignore_deletes=False,
    )
    completed = rows_from_history(
        of_keys, target=target, record_key=("id",), columns=("name",), floors=Floors(), ignore_deletes=False
    )
    for frame in (decided, of_keys, completed):
        assert working(frame) and working(frame) == {name: TYPES[name] for name in working(frame)}
    assert latest.winners(decided, target=target).columns == target.names
    assert [(found["id"], found["name"]) for found in completed.collect()] == [(2, "n")]
