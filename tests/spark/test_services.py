"""Table services on Spark: each has its effect, runs once, and changes no reader's result for any moment."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import COW, MOR, SCHEMA, Workbench, row, table

from sluice.batch.manifest import ManifestObject
from sluice.config.services import ServicePolicy
from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice.hudi.timeline import instant_ms
from sluice.services.requests import ARCHIVAL, CLEANING, CLUSTERING, COMPACTION, PURGE, SliceDone
from sluice.silver_keys import rows_key
from sluice_read.moments import Span
from sluice_spark.errors import LaneLost, ServiceNotForTable
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.hudi.table import HudiTable

COLUMNS = ("id", "place", "name", "__deleted")


def log_files(bench: Workbench, config: TableConfig) -> list[str]:
    """Log files of the newest file slices: those that a reader still has to merge."""
    logs = [path.name for path in bench.local_path(config).rglob("*.log.*") if ".hoodie" not in path.parts]
    bases = {
        path.name.split("_")[0] + path.name.rpartition("_")[2].split(".")[0]
        for path in bench.local_path(config).rglob("*.parquet")
    }
    newest = {
        file_id: max(base[len(file_id) :] for base in bases if base.startswith(file_id))
        for file_id in {base[:38] for base in bases}
    }
    return [name for name in logs if name.split("_")[1].split(".")[0] == newest.get(name[1:39])]


def logged(bench: Workbench, config: TableConfig, *, commits: int = 3) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Load three partitions, then commit log files into each of them. Returns every instant with its rows."""
    states = []
    for number in range(commits + 1):
        changes = [
            row("c" if number == 0 else "u", 10 * number + id, id, "ABC"[id % 3], f"at {number}") for id in range(6)
        ]
        outcome = bench.apply(config, *changes)
        assert outcome.instant is not None
        states.append((outcome.instant, bench.rows(config, *COLUMNS)))
    return states


@pytest.mark.whole
def test_compaction_keeps_to_its_budget_in_each_slice_and_changes_no_moment(bench: Workbench) -> None:
    config = table(table_type="mor", partition_by=("place",))
    states = logged(bench, config)
    assert len(log_files(bench, config)) == 9, "no write compacts by itself"

    done = bench.serve(config, COMPACTION)

    report = done.report
    assert (report.files_before, report.files_after, report.rows) == (12, 3, 6)
    assert (report.more["log_files"], done.more) == (9, False)
    assert report.bytes_before > report.bytes_after > 0 and report.ms > 0
    assert log_files(bench, config) == [] and f"{report.instant}.commit" in bench.timeline(config)
    assert bench.serve(config, COMPACTION).report.instant is None, "nothing is left to do"
    assert bench.rows_by_both(config, *COLUMNS) == states[-1][1]
    for instant, rows in states:
        assert bench.rows_as_of(config, instant, *COLUMNS) == rows
    # The read-optimized query shows it too, and what comes next finds the compacted rows.
    query = {"hoodie.datasource.query.type": "read_optimized"}
    assert {name for (name,) in bench.rows(config, "name", **query)} == {"at 3"}
    late = bench.apply(config, row("u", 5, 1, "B", "late"), row("u", 99, 2, "C", "newer"))
    assert (late.counts["winning"], late.counts["losing"]) == (1, 1)


def test_lists_beside_decimals_survive_a_compaction_and_the_rewrite_behind_it(bench: Workbench) -> None:
    config = table(table_type="mor")
    bench.in_tasks()
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    tags = {"type": "array", "items": ["null", "string"]}
    schema = flattened({"id": "int", "price": ["null", price], "tags": ["null", tags]})

    def put(lsn: int, *ids: int) -> None:
        rows = [change("u", lsn, id=id, price=Decimal("1.25"), tags=[str(lsn), None]) for id in ids]
        bench.apply(config, *rows, schema=schema)

    put(1, 1, 2)
    put(2, 1)
    bench.serve(config, COMPACTION)
    put(3, 3)  # into the compacted file

    columns = ("id", "price", "tags")
    expected = [(id, Decimal("1.25"), [lsn, None]) for id, lsn in ((1, "2"), (2, "1"), (3, "3"))]
    assert bench.rows_by_both(config, *columns) == expected


@pytest.mark.parametrize("dies", [pytest.param("after the plan", marks=pytest.mark.whole), "before the commit"])
def test_a_later_slice_carries_out_a_compaction_that_died_and_keeps_new_changes(bench: Workbench, dies: str) -> None:
    config = table(table_type="mor")
    for number in range(3):
        bench.apply(config, row("u", 10 + number, 1, name=f"at {number}"))
    asked = iter([True, True, False])
    if dies == "after the plan":
        client = bench.hudi(config).client(hudi_options.compaction_options(1))
        assert client.scheduleCompaction(HudiJvm(bench.spark).none()).isPresent()
        client.close()
    else:
        with pytest.raises(LaneLost):
            bench.serve(config, COMPACTION, still_held=lambda: next(asked))
    bench.new_run()
    between = bench.apply(config, row("u", 50, 1, name="between"), row("c", 51, 2, name="new"))

    done = bench.serve(config, COMPACTION)
    again = bench.serve(config, COMPACTION) if done.more else done

    assert between.counts["winning"] == 2 and done.report.instant is not None and not again.more
    assert bench.rows_by_both(config, "id", "name") == [(1, "between"), (2, "new")]
    assert log_files(bench, config) == [] and roll_back_unfinished(bench.hudi(config)) == ()


@pytest.mark.whole
@COW
def test_clustering_sorts_small_files_into_few_and_every_moment_stays_readable(
    bench: Workbench, table_type: str
) -> None:
    config = table(
        table_type=table_type,
        partition_by=("place",),
        hudi={"hoodie.parquet.small.file.limit": "0"},
        services=ServicePolicy(cluster_by=("name",)),
    )
    states = []
    for number in range(3):
        ids = range(10 * number, 10 * number + 6)
        outcome = bench.apply(config, *(row("c", id, id, "AB"[id % 2], f"{9 - id % 10}") for id in ids))
        states.append((outcome.instant, bench.rows(config, *COLUMNS)))
    bench.new_run()

    done = bench.serve(config, CLUSTERING)
    rest = bench.serve(config, CLUSTERING)

    reports = (done.report, rest.report)
    assert [sum(one.files_before for one in reports), sum(one.files_after for one in reports)] == [6, 2]
    assert sum(one.rows for one in reports) == 18 and done.report.bytes_before > 0
    last = bench.serve(config, CLUSTERING)
    assert (last.report.instant, last.more) == (None, False), "a partition of one file is left alone"
    assert bench.rows_by_both(config, *COLUMNS) == states[-1][1]
    assert bench.rows_as_of(config, states[1][0], *COLUMNS) == states[1][1]
    clustered = max(report.instant or "" for report in reports)
    for instant, rows in (*states, (clustered, states[-1][1])):
        assert bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=instant)) == rows
    third = [row_values for row_values in states[-1][1] if row_values[0] >= 20]
    changed = bench.rows_by_sluice(config, *COLUMNS, span=Span(since=states[1][0], changes=True))
    assert len(third) == 6 and changed == third, "what was moved between files didn't change"
    written = [one.instant for one in reports if one.instant]
    newest = [path for path in bench.local_path(config).rglob("*.parquet") if any(at in path.name for at in written)]
    for path in newest:
        names = [sorted_row["name"] for sorted_row in bench.spark.read.parquet(f"file:{path}").select("name").collect()]
        assert names == sorted(names)
    after = bench.apply(config, row("u", 90, 1, "A", "moved"), row("u", 1, 2, "A", "late"))
    assert (after.counts["winning"], after.counts["losing"]) == (1, 1)
    moved = (1, "A", "moved", False)
    assert moved in bench.rows(config, *COLUMNS)
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(since=clustered, changes=True)) == [moved]
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=clustered)) == states[-1][1]


def test_a_clustering_that_died_is_undone_before_the_tables_next_write(bench: Workbench) -> None:
    config = table(hudi={"hoodie.parquet.small.file.limit": "0"}, services=ServicePolicy(cluster_by=("name",)))
    for number in range(2):
        bench.apply(config, row("c", number + 1, number))
    asked = iter([True, True, False])
    with pytest.raises(LaneLost):  # its plan is on the timeline, and holds every file
        bench.serve(config, CLUSTERING, still_held=lambda: next(asked))
    assert any(name.endswith(".replacecommit.requested") for name in bench.timeline(config))

    merged = bench.apply(config, row("u", 9, 0, name="after"))

    assert merged.counts["winning"] == 1 and "rolled_back" in bench.events.names()
    assert bench.rows(config, "id", "name") == [(0, "after"), (1, "n")]
    assert bench.serve(config, CLUSTERING).report.files_after == 1


AT_ONCE = ServicePolicy(purge_horizon_s=0, cluster_by=("name",))
KINDS = [
    pytest.param("cow", (), id="cow"),
    pytest.param("mor", (), id="mor"),
    pytest.param("mor", ("place",), id="mor partitioned"),
]


def purged_table(
    bench: Workbench, table_type: str, partition_by: tuple[str, ...]
) -> tuple[TableConfig, dict[int, str]]:
    """Rows 1 to 6, of which 1 to 3 were deleted and purged; and the floors that were raised for it."""
    config = table(table_type=table_type, partition_by=partition_by, delete_mode="hard", services=AT_ONCE)
    bench.apply(config, *(row("c", id, id) for id in range(1, 7)))
    bench.apply(config, *(row("d", 10 + id, id) for id in (1, 2, 3)))
    floors: dict[int, str] = {}
    done = bench.serve(config, PURGE, raise_floor=floors.update)
    slices = [done]
    while slices[-1].more:
        slices.append(bench.serve(config, PURGE, raise_floor=floors.update))
    assert sum(one.report.rows for one in slices if not one.report.more) == 3
    return config, floors


@pytest.mark.whole
@pytest.mark.parametrize("table_type, partition_by", KINDS)
def test_a_change_older_than_a_purged_row_is_quarantined_and_never_restores_it(
    bench: Workbench, table_type: str, partition_by: tuple[str, ...]
) -> None:
    config, floors = purged_table(bench, table_type, partition_by)
    assert bench.rows_by_both(config, "id", "__deleted") == [(4, False), (5, False), (6, False)]
    before = [(id, "A" if id > 3 else None, "n" if id > 3 else None, id < 4) for id in range(1, 7)]
    deleted_at = [name for name in bench.timeline(config) if name.endswith("commit")][1].split(".")[0]
    assert bench.rows_by_sluice(config, *COLUMNS) == before[3:]
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=deleted_at)) == before
    removals = bench.rows_by_sluice(config, *COLUMNS, span=Span(since=deleted_at, changes=True))
    assert removals == [], "a removal is no change to a reader of changes"
    highest_purged = "0000.00000000000000000013."
    assert list(floors) == [0] and floors[0].startswith(highest_purged), "raised before the purge"
    instant = [name for name in bench.timeline(config) if name.endswith("commit")][-1 if table_type == "cow" else -2]
    assert f'"sluice.purged.0" : "{floors[0]}"' in (bench.local_path(config) / ".hoodie" / instant).read_text()
    assert bench.serve(config, PURGE).report.rows == 0
    late = bench.put(
        [
            row("u", 5, 1, "B", "late"),
            row("u", 3, 4, "B", "late"),
            row("c", 50, 2, "B", "again"),
            row("c", 51, 7, "B", "new"),
            row("u", 12, 6, "A", "newer"),
        ],
        SCHEMA,
    )

    outcome = bench.merge(config, [late])

    expected = {"winning": 3, "below_purge_floor": 1, "quarantined_rows": 1}
    assert outcome.counts.items() >= expected.items()
    (aside,) = outcome.quarantined_rows
    assert (aside.object, aside.rows, dict(aside.codes)) == (late.id.hash, 1, {"below_purge_floor": 1})
    lines = bench.services.objects.get(bench.silver, rows_key(outcome.batch, config.table, late.id.hash)).data.decode()
    assert '"record":0' in lines and "late" in lines
    restored = [(2, "B", "again", False), (4, "A", "n", False), (5, "A", "n", False)]
    now = [*restored, (6, "A", "newer", False), (7, "B", "new", False)]
    assert bench.rows_by_both(config, *COLUMNS) == now, "6, which is there, changes below the floor"
    assert bench.rows_by_sluice(config, *COLUMNS) == now
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=deleted_at)) == before
    if partition_by:
        bench.serve(config, COMPACTION)
        bench.serve(config, CLUSTERING)
        assert bench.rows_by_both(config, *COLUMNS) == bench.rows_by_old_bundle(config, *COLUMNS) == now


@pytest.mark.whole
def test_a_retried_object_counts_merged_rows_below_the_floor_and_sets_aside_others(bench: Workbench) -> None:
    config, _ = purged_table(bench, "cow", ())
    late = bench.put([row("c", 50, 7), row("c", 1, 1), row("c", 60, 9)], SCHEMA)
    first = bench.merge(config, [late])
    assert (first.counts["winning"], first.counts["quarantined_rows"]) == (2, 1)
    bench.apply(config, row("d", 70, 7))
    assert bench.serve(config, PURGE).report.rows == 1

    set_aside = rows_key(first.batch, config.table, late.id.hash)
    retried = dataclasses.replace(late, attempt=1, merged=True, rows_aside=set_aside)
    second = bench.merge(config, [retried])

    repeated = "row 7 was merged, deleted and purged: it is a repetition"
    assert (second.counts["winning"], second.counts["below_purge_floor"]) == (0, 2), repeated
    codes = [(rows.object, dict(rows.codes)) for rows in second.quarantined_rows]
    assert codes == [(late.id.hash, {"below_purge_floor": 1})]
    key = rows_key(second.batch, config.table, late.id.hash)
    lines = bench.services.objects.get(bench.silver, key).data.decode().splitlines()
    assert [json.loads(line)["record"] for line in lines] == [1]
    # Nothing of it is set aside: all of it is a repetition.
    third = bench.merge(config, [dataclasses.replace(late, attempt=2, merged=True)])
    assert (third.counts["below_purge_floor"], third.quarantined_rows) == (2, ())


@pytest.mark.whole
def test_rows_ordered_by_offset_alone_are_purged_only_with_one_kafka_partition(bench: Workbench) -> None:
    config = table(delete_mode="hard", services=AT_ONCE)
    schema = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "__lsn"]}

    def put(offset: int, *changes: tuple[str, int], partition: int = 0) -> ManifestObject:
        made = [{name: value for name, value in row(op, 0, id).items() if name != "__lsn"} for op, id in changes]
        key = f"topics/src.public.t/partition={partition}/src.public.t+{partition}+{offset:010d}.avro"
        return dataclasses.replace(bench.put(made, schema, key=key, offset=offset), kafka_partition=partition)

    first = bench.merge(config, [put(1_000_000, ("c", 1), ("c", 2), ("c", 3))])
    deleted = bench.merge(config, [put(1_000_010, ("d", 1))], after=first)
    assert bench.serve(config, PURGE).report.rows == 0, "which Kafka partitions there are isn't known"
    assert bench.serve(config, PURGE, watch=deleted.watch).report.rows == 1
    assert bench.properties(config)["sluice.purged_partition"] == "0"
    late, new = put(999_000, ("c", 1)), put(2_000, ("c", 7), partition=1)

    outcome = bench.merge(config, [late, new], after=deleted)

    assert [aside.object for aside in outcome.quarantined_rows] == [late.id.hash] and outcome.counts["winning"] == 1
    both = bench.merge(config, [put(1_000_020, ("d", 2))], after=outcome)
    assert bench.serve(config, PURGE, watch=both.watch).report.rows == 0, (
        "offsets of two Kafka partitions don't compare"
    )
    assert bench.rows(config, "id", "__deleted") == [(2, True), (3, False), (7, False)]
    bench.merge(config, [put(2_010, ("d", 7), partition=1)], after=both)
    assert bench.serve(config, PURGE, watch=deleted.watch).report.rows == 1, (
        "a watch that missed a batch knows one partition, and its rows alone are measured by it"
    )
    assert bench.rows(config, "id", "__deleted") == [(3, False), (7, True)]


def test_rows_deleted_within_the_horizon_or_kept_by_their_table_are_not_purged(bench: Workbench) -> None:
    config = table(delete_mode="hard")
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    bench.apply(config, row("d", 3, 1))
    assert bench.serve(config, PURGE).report.rows == 0 and len(bench.rows(config, "id")) == 2
    with pytest.raises(ServiceNotForTable):
        bench.serve(dataclasses.replace(config, delete_mode="soft"), PURGE)


@pytest.mark.whole
@MOR
def test_a_purge_that_died_is_finished_and_no_purged_row_returns(
    bench: Workbench, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(table_type=table_type, delete_mode="hard", services=AT_ONCE)
    bench.apply(config, *(row("c", id, id) for id in (1, 2)))
    bench.apply(config, row("d", 11, 1))
    # Killed between the removal and the compaction behind it, once its first logs are compacted; or behind the floor.
    if table_type == "mor":
        assert bench.serve(config, PURGE).more
        monkeypatch.setattr(HudiTable, "compact_all", lambda self: (_ for _ in ()).throw(LaneLost("killed", table="t")))
        with pytest.raises(LaneLost):
            bench.serve(config, PURGE)
        monkeypatch.undo()
    else:
        asked = iter([True, True, False])
        with pytest.raises(LaneLost):
            bench.serve(config, PURGE, still_held=lambda: next(asked))
    bench.new_run()

    first = bench.apply(config, row("u", 5, 1, name="late"), row("u", 60, 2, name="newer"))
    while bench.serve(config, PURGE).more:
        pass
    second = bench.apply(config, row("u", 6, 1, name="late, too"))

    below = 1 if table_type == "mor" else 0
    assert (first.counts["losing"], first.counts.get("below_purge_floor", 0)) == (1, below), "its tombstone or floor"
    assert (second.counts["below_purge_floor"], second.instant) == (1, None)
    bench.apply(config, row("c", 70, 1, name="born again"))
    assert bench.rows_by_both(config, "id", "name") == [(1, "born again"), (2, "newer")]


def test_cleaning_and_archival_keep_every_moment_of_the_window(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hudi_options, "MIN_COMMITS", 2)
    monkeypatch.setattr(hudi_options, "MAX_COMMITS", 3)
    config = table(time_travel_h=1)
    states = []
    for number in range(5):
        outcome = bench.apply(config, row("u", 10 + number, 1, name=f"at {number}"))
        states.append((outcome.instant, bench.rows(config, *COLUMNS)))
    archived = bench.serve(config, ARCHIVAL)
    assert archived.report.more["archived"] >= 2 and bench.serve(config, CLEANING).report.files_before == 0
    for instant, rows in states:
        assert bench.rows_as_of(config, instant, *COLUMNS) == rows

    fourth_ms = instant_ms(states[3][0]) + write_choices.HOUR_MS  # the window begins there
    monkeypatch.setattr(bench.services.clock, "now_ms", lambda: fourth_ms, raising=False)
    cleaned = bench.serve(config, CLEANING)

    assert cleaned.report.files_before >= 2 and cleaned.report.bytes_before > 0 and cleaned.report.instant is not None
    for instant, rows in states[3:]:
        assert bench.rows_as_of(config, instant, *COLUMNS) == rows


def test_a_service_is_refused_where_it_does_not_apply_and_skips_empty_tables(bench: Workbench) -> None:
    with pytest.raises(ServiceNotForTable):
        bench.serve(table(), COMPACTION)
    with pytest.raises(ServiceNotForTable):
        bench.serve(table(), CLUSTERING)
    assert bench.serve(table("none"), CLEANING) == SliceDone(bench.serve(table("none"), ARCHIVAL).report)
