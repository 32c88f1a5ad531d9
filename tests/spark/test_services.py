"""Table services on Spark: each has its effect, runs once, and changes no reader's result for any moment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench, row, table

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
from sluice_spark.services.slice import SliceRates, serve_table

SCHEMA = flattened({"id": "int", "place": ["null", "string"], "name": ["null", "string"]})
COLUMNS = ("id", "place", "name", "__deleted")


def serve(
    bench: Workbench,
    config: TableConfig,
    service: str,
    *,
    held: Any = lambda: True,
    budget: int | None = None,
    floors: Any = lambda positions: None,
    watch: Mapping[str, Any] = MappingProxyType({}),
) -> SliceDone:
    rates = SliceRates(cores=2)
    if budget is not None:
        rates.budget_bytes = lambda *_: budget  # type: ignore[method-assign]
    return serve_table(
        bench.spark,
        config=config,
        service=service,
        services=bench.services,
        rates=rates,
        still_held=held,
        slice_s=20,
        raise_floor=floors,
        watch=watch,
    )


def as_of(bench: Workbench, config: TableConfig, instant: str) -> list[tuple[Any, ...]]:
    frame = bench.spark.read.format("hudi").option("as.of.instant", instant).load(bench.path(config)).select(*COLUMNS)
    return sorted((tuple(found) for found in frame.collect()), key=str)


def log_files(bench: Workbench, config: TableConfig) -> list[str]:
    """Log files of the newest file slices: those that a reader still has to merge."""
    found = [path.name for path in bench.local_path(config).rglob("*.log.*") if ".hoodie" not in path.parts]
    bases = {
        path.name.split("_")[0] + path.name.rpartition("_")[2].split(".")[0]
        for path in bench.local_path(config).rglob("*.parquet")
    }
    newest = {
        file_id: max(base[len(file_id) :] for base in bases if base.startswith(file_id))
        for file_id in {base[:38] for base in bases}
    }
    return [name for name in found if name.split("_")[1].split(".")[0] == newest.get(name[1:39])]


def logged(bench: Workbench, config: TableConfig, *, commits: int = 3) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Load three partitions, then commit log files into each of them. Returns every instant with its rows."""
    states = []
    for number in range(commits + 1):
        changes = [
            row("c" if number == 0 else "u", 10 * number + id, id, "ABC"[id % 3], f"at {number}") for id in range(6)
        ]
        outcome = bench.merge(config, [bench.put(changes, SCHEMA)])
        assert outcome.instant is not None
        states.append((outcome.instant, bench.rows(config, *COLUMNS)))
    return states


@pytest.mark.whole
def test_compaction_keeps_to_its_budget_in_each_slice_and_changes_no_moment(bench: Workbench) -> None:
    config = table(table_type="mor", partition_by=("place",))
    states = logged(bench, config)
    assert len(log_files(bench, config)) == 9, "no write compacts by itself"

    done = serve(bench, config, COMPACTION)

    report = done.report
    assert (report.files_before, report.files_after, report.rows, report.more["log_files"], done.more) == (
        12,
        3,
        6,
        9,
        False,
    )
    assert report.bytes_before > report.bytes_after > 0 and report.ms > 0
    assert log_files(bench, config) == [] and f"{report.instant}.commit" in bench.timeline(config)
    assert serve(bench, config, COMPACTION).report.instant is None, "nothing is left to do"
    assert bench.rows(config, *COLUMNS) == states[-1][1] == bench.rows_by_hudi_rs(config, *COLUMNS)
    for instant, rows in states:
        assert as_of(bench, config, instant) == rows
    # The read-optimized query shows it too, and what comes next finds the compacted rows.
    optimized = (
        bench.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "read_optimized")
        .load(bench.path(config))
    )
    assert {found["name"] for found in optimized.select("name").collect()} == {"at 3"}
    late = bench.merge(config, [bench.put([row("u", 5, 1, "B", "late"), row("u", 99, 2, "C", "newer")], SCHEMA)])
    assert (late.counts["winning"], late.counts["losing"]) == (1, 1)


def test_lists_beside_decimals_survive_a_compaction_and_the_rewrite_behind_it(bench: Workbench) -> None:
    config = table(table_type="mor")
    bench.in_tasks()
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    tags = {"type": "array", "items": ["null", "string"]}
    schema = flattened({"id": "int", "price": ["null", price], "tags": ["null", tags]})

    def put(lsn: int, *ids: int) -> None:
        rows = [change("u", lsn, id=id, price=Decimal("1.25"), tags=[str(lsn), None]) for id in ids]
        bench.merge(config, [bench.put(rows, schema)])

    put(1, 1, 2)
    put(2, 1)
    serve(bench, config, COMPACTION)
    put(3, 3)  # into the compacted file

    columns = ("id", "price", "tags")
    expected = [(id, Decimal("1.25"), [lsn, None]) for id, lsn in ((1, "2"), (2, "1"), (3, "3"))]
    assert bench.rows(config, *columns) == expected == bench.rows_by_hudi_rs(config, *columns)


@pytest.mark.parametrize("dies", [pytest.param("after the plan", marks=pytest.mark.whole), "before the commit"])
def test_a_later_slice_carries_out_a_compaction_that_died_and_keeps_new_changes(bench: Workbench, dies: str) -> None:
    config = table(table_type="mor")
    for number in range(3):
        bench.merge(config, [bench.put([row("u", 10 + number, 1, name=f"at {number}")], SCHEMA)])
    asked = iter([True, True, False])
    if dies == "after the plan":
        client = HudiTable(bench.spark, bench.path(config), config).client(hudi_options.compaction_options(1))
        assert client.scheduleCompaction(HudiJvm(bench.spark).none()).isPresent()
        client.close()
    else:
        with pytest.raises(LaneLost):
            serve(bench, config, COMPACTION, held=lambda: next(asked))
    bench.new_run()
    between = bench.merge(config, [bench.put([row("u", 50, 1, name="between"), row("c", 51, 2, name="new")], SCHEMA)])

    done = serve(bench, config, COMPACTION)
    again = serve(bench, config, COMPACTION) if done.more else done

    assert between.counts["winning"] == 2 and done.report.instant is not None and not again.more
    assert (
        bench.rows(config, "id", "name") == [(1, "between"), (2, "new")] == bench.rows_by_hudi_rs(config, "id", "name")
    )
    assert (
        log_files(bench, config) == []
        and roll_back_unfinished(HudiTable(bench.spark, bench.path(config), config)) == ()
    )


@pytest.mark.whole
@pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.whole)])
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
        outcome = bench.merge(
            config,
            [
                bench.put(
                    [row("c", 10 * number + id, 10 * number + id, "AB"[id % 2], f"{9 - id}") for id in range(6)], SCHEMA
                )
            ],
        )
        states.append((outcome.instant, bench.rows(config, *COLUMNS)))
    bench.new_run()

    done = serve(bench, config, CLUSTERING)
    rest = serve(bench, config, CLUSTERING)

    assert (done.report.files_before + rest.report.files_before, done.report.files_after + rest.report.files_after) == (
        6,
        2,
    )
    assert done.report.rows + rest.report.rows == 18 and done.report.bytes_before > 0
    last = serve(bench, config, CLUSTERING)
    assert (last.report.instant, last.more) == (None, False), "a partition of one file is left alone"
    assert bench.rows(config, *COLUMNS) == states[-1][1] == bench.rows_by_hudi_rs(config, *COLUMNS)
    assert as_of(bench, config, states[1][0]) == states[1][1]
    clustered = max(report.instant or "" for report in (done.report, rest.report))
    for instant, rows in (*states, (clustered, states[-1][1])):
        assert bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=instant)) == rows
    third = [found for found in states[-1][1] if found[0] >= 20]
    assert (
        len(third) == 6 and bench.rows_by_sluice(config, *COLUMNS, span=Span(since=states[1][0], changes=True)) == third
    ), "what was moved between files didn't change"
    newest = [
        path
        for path in bench.local_path(config).rglob("*.parquet")
        if (done.report.instant or "") in path.name or (rest.report.instant or "x") in path.name
    ]
    for path in newest:
        names = [found["name"] for found in bench.spark.read.parquet(f"file:{path}").select("name").collect()]
        assert names == sorted(names)
    after = bench.merge(config, [bench.put([row("u", 90, 1, "A", "moved"), row("u", 1, 2, "A", "late")], SCHEMA)])
    assert (after.counts["winning"], after.counts["losing"]) == (1, 1) and (1, "A", "moved", False) in bench.rows(
        config, *COLUMNS
    )
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(since=clustered, changes=True)) == [
        (1, "A", "moved", False)
    ]
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=clustered)) == states[-1][1]


def test_a_clustering_that_died_is_undone_before_the_tables_next_write(bench: Workbench) -> None:
    config = table(hudi={"hoodie.parquet.small.file.limit": "0"}, services=ServicePolicy(cluster_by=("name",)))
    for number in range(2):
        bench.merge(config, [bench.put([row("c", number + 1, number)], SCHEMA)])
    asked = iter([True, True, False])
    with pytest.raises(LaneLost):  # its plan is on the timeline, and holds every file
        serve(bench, config, CLUSTERING, held=lambda: next(asked))
    assert any(name.endswith(".replacecommit.requested") for name in bench.timeline(config))

    merged = bench.merge(config, [bench.put([row("u", 9, 0, name="after")], SCHEMA)])

    assert merged.counts["winning"] == 1 and "rolled_back" in bench.events.names()
    assert bench.rows(config, "id", "name") == [(0, "after"), (1, "n")]
    assert serve(bench, config, CLUSTERING).report.files_after == 1


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
    bench.merge(config, [bench.put([row("c", id, id) for id in range(1, 7)], SCHEMA)])
    bench.merge(config, [bench.put([row("d", 10 + id, id) for id in (1, 2, 3)], SCHEMA)])
    floors: dict[int, str] = {}
    done = serve(bench, config, PURGE, floors=floors.update)
    slices = [done]
    while slices[-1].more:
        slices.append(serve(bench, config, PURGE, floors=floors.update))
    assert sum(one.report.rows for one in slices if not one.report.more) == 3
    return config, floors


@pytest.mark.whole
@pytest.mark.parametrize("table_type, partition_by", KINDS)
def test_a_change_older_than_a_purged_row_is_quarantined_and_never_restores_it(
    bench: Workbench, table_type: str, partition_by: tuple[str, ...]
) -> None:
    config, floors = purged_table(bench, table_type, partition_by)
    assert (
        bench.rows(config, "id", "__deleted")
        == [(4, False), (5, False), (6, False)]
        == bench.rows_by_hudi_rs(config, "id", "__deleted")
    )
    before = [(id, "A" if id > 3 else None, "n" if id > 3 else None, id < 4) for id in range(1, 7)]
    deleted_at = [name for name in bench.timeline(config) if name.endswith("commit")][1].split(".")[0]
    assert (
        bench.rows_by_sluice(config, *COLUMNS) == before[3:]
        and bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=deleted_at)) == before
    )
    assert bench.rows_by_sluice(config, *COLUMNS, span=Span(since=deleted_at, changes=True)) == [], (
        "a removal is no change to a reader of changes"
    )
    assert list(floors) == [0] and floors[0].startswith("0000.00000000000000000013."), (
        "the highest purged position, before the purge"
    )
    instant = [name for name in bench.timeline(config) if name.endswith("commit")][-1 if table_type == "cow" else -2]
    assert f'"sluice.purged.0" : "{floors[0]}"' in (bench.local_path(config) / ".hoodie" / instant).read_text()
    assert serve(bench, config, PURGE).report.rows == 0
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

    assert (outcome.counts["winning"], outcome.counts["below_purge_floor"], outcome.counts["quarantined_rows"]) == (
        3,
        1,
        1,
    )
    (found,) = outcome.quarantined_rows
    assert (found.object, found.rows, dict(found.codes)) == (late.id.hash, 1, {"below_purge_floor": 1})
    lines = bench.services.objects.get(bench.silver, rows_key(outcome.batch, config.table, late.id.hash)).data.decode()
    assert '"record":0' in lines and "late" in lines
    now = [
        (2, "B", "again", False),
        (4, "A", "n", False),
        (5, "A", "n", False),
        (6, "A", "newer", False),
        (7, "B", "new", False),
    ]
    assert bench.rows(config, *COLUMNS) == now == bench.rows_by_hudi_rs(config, *COLUMNS), (
        "never skipped by the floor: 6 is there and changes below it"
    )
    assert (
        bench.rows_by_sluice(config, *COLUMNS) == now
        and bench.rows_by_sluice(config, *COLUMNS, span=Span(as_of=deleted_at)) == before
    )
    if partition_by:
        serve(bench, config, COMPACTION)
        serve(bench, config, CLUSTERING)
        assert (
            bench.rows_by_old_bundle(config, *COLUMNS)
            == now
            == bench.rows(config, *COLUMNS)
            == bench.rows_by_hudi_rs(config, *COLUMNS)
        )


@pytest.mark.whole
def test_a_retried_object_counts_merged_rows_below_the_floor_and_sets_aside_others(
    bench: Workbench,
) -> None:
    config, _ = purged_table(bench, "cow", ())
    late = bench.put([row("c", 50, 7), row("c", 1, 1), row("c", 60, 9)], SCHEMA)
    first = bench.merge(config, [late])
    assert (first.counts["winning"], first.counts["quarantined_rows"]) == (2, 1)
    bench.merge(config, [bench.put([row("d", 70, 7)], SCHEMA)])
    assert serve(bench, config, PURGE).report.rows == 1

    retried = dataclasses.replace(
        late, attempt=1, merged=True, rows_aside=rows_key(first.batch, config.table, late.id.hash)
    )
    second = bench.merge(config, [retried])

    assert (second.counts["winning"], second.counts["below_purge_floor"]) == (0, 2), (
        "row 7 was merged, deleted and purged: it is a repetition"
    )
    assert [(found.object, dict(found.codes)) for found in second.quarantined_rows] == [
        (late.id.hash, {"below_purge_floor": 1})
    ]
    lines = (
        bench.services.objects.get(bench.silver, rows_key(second.batch, config.table, late.id.hash))
        .data.decode()
        .splitlines()
    )
    assert [json.loads(line)["record"] for line in lines] == [1]
    # Nothing of it is set aside: all of it is a repetition.
    third = bench.merge(config, [dataclasses.replace(late, attempt=2, merged=True)])
    assert (third.counts["below_purge_floor"], third.quarantined_rows) == (2, ())


@pytest.mark.whole
def test_rows_ordered_by_offset_alone_are_purged_only_with_one_kafka_partition(
    bench: Workbench,
) -> None:
    config = table(delete_mode="hard", services=AT_ONCE)
    schema = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "__lsn"]}

    def put(offset: int, *changes: tuple[str, int], partition: int = 0) -> ManifestObject:
        made = [{name: value for name, value in row(op, 0, id).items() if name != "__lsn"} for op, id in changes]
        key = f"topics/src.public.t/partition={partition}/src.public.t+{partition}+{offset:010d}.avro"
        return dataclasses.replace(bench.put(made, schema, key=key, offset=offset), kafka_partition=partition)

    first = bench.merge(config, [put(1_000_000, ("c", 1), ("c", 2), ("c", 3))])
    deleted = bench.merge(config, [put(1_000_010, ("d", 1))], after=first)
    assert serve(bench, config, PURGE).report.rows == 0, "which Kafka partitions there are isn't known"
    assert serve(bench, config, PURGE, watch=deleted.watch).report.rows == 1
    assert bench.properties(config)["sluice.purged_partition"] == "0"
    late, new = put(999_000, ("c", 1)), put(2_000, ("c", 7), partition=1)

    outcome = bench.merge(config, [late, new], after=deleted)

    assert [found.object for found in outcome.quarantined_rows] == [late.id.hash] and outcome.counts["winning"] == 1
    both = bench.merge(config, [put(1_000_020, ("d", 2))], after=outcome)
    assert serve(bench, config, PURGE, watch=both.watch).report.rows == 0, (
        "offsets of two Kafka partitions don't compare"
    )
    assert bench.rows(config, "id", "__deleted") == [(2, True), (3, False), (7, False)]
    bench.merge(config, [put(2_010, ("d", 7), partition=1)], after=both)
    assert serve(bench, config, PURGE, watch=deleted.watch).report.rows == 1, (
        "a watch that missed a batch knows one partition, and its rows alone are measured by it"
    )
    assert bench.rows(config, "id", "__deleted") == [(3, False), (7, True)]


def test_rows_deleted_within_the_horizon_or_kept_by_their_table_are_not_purged(
    bench: Workbench,
) -> None:
    config = table(delete_mode="hard")
    bench.merge(config, [bench.put([row("c", 1, 1), row("c", 2, 2)], SCHEMA)])
    bench.merge(config, [bench.put([row("d", 3, 1)], SCHEMA)])
    assert serve(bench, config, PURGE).report.rows == 0 and len(bench.rows(config, "id")) == 2
    with pytest.raises(ServiceNotForTable):
        serve(bench, dataclasses.replace(config, delete_mode="soft"), PURGE)


@pytest.mark.whole
@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.whole), "mor"])
def test_a_purge_that_died_is_finished_and_no_purged_row_returns(
    bench: Workbench, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(table_type=table_type, delete_mode="hard", services=AT_ONCE)
    bench.merge(config, [bench.put([row("c", id, id) for id in (1, 2)], SCHEMA)])
    bench.merge(config, [bench.put([row("d", 11, 1)], SCHEMA)])
    if (
        table_type == "mor"
    ):  # killed between the removal and the compaction behind it, once its first logs are compacted
        assert serve(bench, config, PURGE).more
        monkeypatch.setattr(HudiTable, "compact_all", lambda self: (_ for _ in ()).throw(LaneLost("killed", table="t")))
        with pytest.raises(LaneLost):
            serve(bench, config, PURGE)
        monkeypatch.undo()
    else:  # killed behind the floor
        asked = iter([True, True, False])
        with pytest.raises(LaneLost):
            serve(bench, config, PURGE, held=lambda: next(asked))
    bench.new_run()

    first = bench.merge(config, [bench.put([row("u", 5, 1, name="late"), row("u", 60, 2, name="newer")], SCHEMA)])
    while serve(bench, config, PURGE).more:
        pass
    second = bench.merge(config, [bench.put([row("u", 6, 1, name="late, too")], SCHEMA)])

    assert first.counts["losing"] == 1 and first.counts.get("below_purge_floor", 0) == (
        1 if table_type == "mor" else 0
    ), "its tombstone is there, or its floor"
    assert (second.counts["below_purge_floor"], second.instant) == (1, None)
    bench.merge(config, [bench.put([row("c", 70, 1, name="born again")], SCHEMA)])
    assert (
        bench.rows(config, "id", "name")
        == [(1, "born again"), (2, "newer")]
        == bench.rows_by_hudi_rs(config, "id", "name")
    )


def test_cleaning_and_archival_keep_every_moment_of_the_window(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hudi_options, "MIN_COMMITS", 2)
    monkeypatch.setattr(hudi_options, "MAX_COMMITS", 3)
    config = table(time_travel_h=1)
    states = []
    for number in range(5):
        outcome = bench.merge(config, [bench.put([row("u", 10 + number, 1, name=f"at {number}")], SCHEMA)])
        states.append((outcome.instant, bench.rows(config, *COLUMNS)))
    archived = serve(bench, config, ARCHIVAL)
    assert archived.report.more["archived"] >= 2 and serve(bench, config, CLEANING).report.files_before == 0
    for instant, rows in states:
        assert as_of(bench, config, instant) == rows

    class Later:
        """A clock at which the window begins at the fourth commit."""

        def now_ms(self) -> int:
            return instant_ms(states[3][0]) + write_choices.HOUR_MS

    monkeypatch.setattr(bench.services.clock, "now_ms", Later().now_ms, raising=False)
    cleaned = serve(bench, config, CLEANING)

    assert cleaned.report.files_before >= 2 and cleaned.report.bytes_before > 0 and cleaned.report.instant is not None
    for instant, rows in states[3:]:
        assert as_of(bench, config, instant) == rows


def test_a_service_is_refused_where_it_does_not_apply_and_skips_empty_tables(
    bench: Workbench,
) -> None:
    with pytest.raises(ServiceNotForTable):
        serve(bench, table(), COMPACTION)
    with pytest.raises(ServiceNotForTable):
        serve(bench, table(), CLUSTERING)
    assert serve(bench, table("none"), CLEANING) == SliceDone(serve(bench, table("none"), ARCHIVAL).report)
