"""Small parts are merged by Arrow: rows, counts, files and commits as Spark makes them, in the driver or in tasks."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.builders import avro_object
from support.change_histories import deliveries
from support.extent import WHOLE
from support.workbench import SCHEMA, Died, Workbench, dies, plain_changes, row, table, told

from sluice.batch.outcome import Outcome
from sluice.changes.hidden_columns import HIDDEN
from sluice.config.services import ServicePolicy
from sluice.config.table import TableConfig
from sluice.hudi.timeline import instant_ms
from sluice.hudi.write_choices import HOUR_MS
from sluice.schema.avro import fingerprint
from sluice.services.requests import CLUSTERING
from sluice.silver_keys import error_prefix, rows_key
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi import needed_members
from sluice_spark.hudi.facts import KnownTables
from sluice_spark.hudi.housekeeping import keep_house
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.merge import driver_limits
from sluice_spark.merge.by_arrow import attempt as merging
from sluice_spark.merge.by_arrow import covers, driver_merge, driver_read, placement, rewrite, stored
from sluice_spark.merge.key_index import KeyIndex

STORED = ("id", "place", "name", *(column.name for column in HIDDEN))


def commit_file(bench: Workbench, config: TableConfig, outcome: Outcome) -> dict[str, Any]:
    """The metadata of a commit."""
    return json.loads((bench.local_path(config) / ".hoodie" / f"{outcome.instant}.commit").read_text())


def test_a_few_changes_are_merged_without_a_job_as_spark_merges_them(bench: Workbench) -> None:
    driver, tasks = table(), table("tasks")
    first = [bench.put([row("c", number, number) for number in range(1, 6)], SCHEMA)]
    for config in (driver, tasks):
        bench.merge(config, first)
    bench.services.tables.leave_to_spark(tasks)
    changes = [row("u", 11, 1, name="new"), row("d", 12, 2), row("c", 13, 9), row("u", 10, 9), row("u", 1, 3)]
    objects = [bench.put(changes, SCHEMA), bench.put([row("u", 14, 4, name=None)], SCHEMA)]

    here, jobs = bench.jobs_of(lambda: bench.merge(driver, objects))
    assert (jobs, bench.left_to_spark()) == (0, None)
    there, jobs = bench.jobs_of(lambda: bench.merge(tasks, objects))
    assert jobs > 5

    assert told(here) == told(there)
    assert bench.rows(driver, *STORED) == bench.rows(tasks, *STORED)
    wrote, wanted = commit_file(bench, driver, here), commit_file(bench, tasks, there)
    assert wrote["operationType"] == wanted["operationType"] == "UPSERT"
    assert set(wrote["extraMetadata"]) == set(wanted["extraMetadata"])
    assert wrote["extraMetadata"]["sluice.rows_before"] == wanted["extraMetadata"]["sluice.rows_before"]
    written, expected = (json.loads(commit["extraMetadata"]["schema"])["fields"] for commit in (wrote, wanted))
    assert written == expected

    again, jobs = bench.jobs_of(lambda: bench.merge(driver, objects))
    assert (jobs, again.instant, again.counts["repeated"]) == (0, None, 4)


Ways = Callable[[str], None]
WAYS = ("pyarrow in the driver", "pyarrow in tasks")


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """Sets which of WAYS writes parts from the call on."""

    def leave(way: str) -> None:
        in_tasks = way == "pyarrow in tasks"
        monkeypatch.setattr(KeyIndex, "has_room", lambda index, size: not in_tasks)
        monkeypatch.setattr(stored, "READ_IN_DRIVER", 0 if in_tasks else 2**26)
        monkeypatch.setattr(driver_merge, "WRITTEN_IN_DRIVER", 0 if in_tasks else covers.WRITTEN_IN_DRIVER)
        monkeypatch.setattr(driver_limits, "OBJECTS_IN_DRIVER", 0 if in_tasks else 25)

    return leave


@pytest.mark.parametrize(
    "seed, settings",
    [
        pytest.param(4, {}, id="tombstones", marks=pytest.mark.whole),
        pytest.param(4, {"keep_deleted_values": True}, id="kept values", marks=pytest.mark.whole),
        pytest.param(
            4, {"keep_deleted_values": True, "partition_by": ("place",)}, id="partitions", marks=pytest.mark.whole
        ),
        pytest.param(4, {"partition_by": ("place",)}, id="moves", marks=pytest.mark.whole),
        *(pytest.param(seed, {}, id=f"tombstones {seed}", marks=pytest.mark.whole) for seed in (10, 18, 22)),
    ],
)
def test_any_order_gives_the_same_rows_and_counts_by_each_way(
    bench: Workbench, seed: int, settings: dict[str, Any], by: Ways
) -> None:
    draw = random.Random(seed)
    spark, *others = (table(name, lineage=("object", "offset"), **settings) for name in "shdt")
    bench.services.tables.leave_to_spark(spark)
    merged = []
    made = plain_changes(draw, moves=len(settings) < 2)
    for objects in deliveries(draw, made, objects_at_once=6):  # type: ignore[arg-type]
        items = [bench.put(changes, SCHEMA) for changes in objects]  # type: ignore[arg-type]
        wanted = bench.merge(spark, items)
        rows = bench.rows_by_hudi_rs(spark, *STORED)
        for way, config in zip(WAYS, others):
            by(way)
            merged_here = bench.merge(config, items)
            merged.append(bench.left_to_spark() is None and merged_here.instant is not None)
            assert (way, told(merged_here)) == (way, told(wanted))
            assert bench.rows_by_hudi_rs(config, *STORED) == rows
    assert sum(merged) > 3 * len(WAYS) - 3, "a seed whose history shows something"


@pytest.mark.parametrize("way", [pytest.param("pyarrow in the driver", marks=pytest.mark.whole), "pyarrow in tasks"])
def test_what_cant_be_merged_is_set_aside_without_spark_as_by_spark(bench: Workbench, by: Ways, way: str) -> None:
    driver, tasks = table(), table("tasks")
    first = [bench.put([row("c", number, number) for number in range(1, 6)], SCHEMA)]
    for config in (driver, tasks):
        bench.merge(config, first)
    bench.services.tables.leave_to_spark(tasks)
    mark, body = fingerprint(SCHEMA), avro_object(SCHEMA, [row("u", 30, 3)])
    damaged = [bench.put_bytes(body[:-20], schema=mark), bench.put_bytes(b"not avro", schema=mark)]
    partly = bench.put([row("u", 20, 1, name="new"), row("unknown", 21, 2), row("d", 22, 3)], SCHEMA)
    good = bench.put([row("u", 23, 4, name="new")], SCHEMA)
    by(way)

    def merge(*items: Any) -> dict[str, bytes]:
        (here, jobs), why = bench.jobs_of(lambda: bench.merge(driver, items)), bench.left_to_spark()
        there = bench.merge(tasks, items)
        assert why is None and (way == "pyarrow in tasks" or jobs <= 1)
        assert told(here) == told(there)
        assert (here.quarantined, here.quarantined_rows) == (there.quarantined, there.quarantined_rows)
        left, wanted = (kept_aside(bench, outcome) for outcome in (here, there))
        assert left == wanted
        assert bench.rows(driver, *STORED) == bench.rows(tasks, *STORED)
        return left

    left = merge(partly, damaged[0], good, damaged[1])
    assert sorted(key.partition(".")[2] for key in left) == ["json", "json", "jsonl", "rows.json"]
    assert len(merge(damaged[1])) == 1, "nothing to commit"


def kept_aside(bench: Workbench, outcome: Outcome) -> dict[str, bytes]:
    """The objects beside a batch that tell what its part set aside, by the ends of their keys."""
    return {
        key.rpartition("/")[2]: bench.s3.get_object(Bucket=bench.silver, Key=key)["Body"].read()
        for prefix in (error_prefix(outcome.batch, outcome.table), rows_key(outcome.batch, outcome.table, "")[:-6])
        for key in Objects(bench.s3).keys(bench.silver, prefix)
    }


def test_an_object_that_the_driver_cannot_read_is_read_in_tasks(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    bench.apply(config, row("c", 1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(driver_limits, "MOST_CHANGES", 3)
        many = bench.apply(config, *(row("c", 10 + number, number) for number in range(2, 7)))
    assert (bench.left_to_spark(), many.counts["winning"], many.quarantined) == (None, 5, ())
    assert "left_to_tasks" in bench.events.names()
    whole, failures = Objects.whole, iter([ConnectionError("no answer")])

    def refused_once(self: Objects, *arguments: Any) -> bytes:
        for failure in failures:
            raise failure
        return whole(self, *arguments)

    monkeypatch.setattr(Objects, "whole", refused_once)
    later = bench.apply(config, row("c", 30, 9))
    assert (bench.left_to_spark() or "").startswith("failed: ConnectionError")
    assert (later.counts["winning"], later.quarantined) == (1, ())


@pytest.mark.whole
def test_thousands_of_changes_are_read_in_tasks_and_merged_as_by_spark(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, tasks, large = (table(name) for name in "dtl")
    bench.services.tables.leave_to_spark(tasks)
    first = [bench.put([row("c", number, number) for number in range(1, 3_001)], SCHEMA)]
    changes = [row("cud"[at % 3], 4_000 + at, 1 + at * 7 % 6_000, name=f"n{at}") for at in range(6_000)]
    # One after the other in time, not in the order of their changes.
    later = [bench.put(changes[at::30], SCHEMA) for at in range(30)]
    for config in (driver, tasks):
        bench.merge(config, first)
    here, why = bench.merge(driver, later), bench.left_to_spark()
    there = bench.merge(tasks, later)
    assert why is None and told(here) == told(there)
    assert here.counts["read"] == here.counts["winning"] == 6_000
    assert bench.rows(driver, *STORED) == bench.rows(tasks, *STORED) == bench.rows_by_hudi_rs(driver, *STORED)

    bench.merge(large, first)
    monkeypatch.setattr(driver_read, "MOST_DECODED_BYTES", 64 * 1024)
    bench.merge(large, later[:26])
    assert bench.left_to_spark() is None
    assert ("left_to_tasks", "size") in [(name, fields.get("reason")) for name, fields in bench.events.seen]


@pytest.mark.parametrize("way", [pytest.param("pyarrow in the driver", marks=pytest.mark.whole), "pyarrow in tasks"])
def test_rows_that_stay_move_and_start_partitions_are_merged_as_by_spark(bench: Workbench, way: str, by: Ways) -> None:
    driver, tasks = (table(name, partition_by=("place",), keep_deleted_values=True) for name in "dt")
    bench.services.tables.leave_to_spark(tasks)
    first = [bench.put([row("c", id, id, place) for id, place in enumerate(("A/B", "A/B", None, "", "C"), 1)], SCHEMA)]
    for config in (driver, tasks):
        bench.merge(config, first)
    by(way)

    def merge(*changes: dict[str, Any]) -> Any:
        item = bench.put(changes, SCHEMA)
        here, why = bench.merge(driver, [item]), bench.left_to_spark()
        there = bench.merge(tasks, [item])
        assert told(here) == told(there)
        columns = ("_hoodie_partition_path", "_hoodie_record_key", *STORED)
        batch = columns.index("_sluice_batch")
        here_rows, wanted = (
            [(*stored[:batch], *stored[batch + 1 :]) for stored in bench.rows(config, *columns)]
            for config in (driver, tasks)
        )
        assert here_rows == wanted and bench.rows_by_both(driver, *columns)
        return why, {item[2]: item[0].partition("=")[2] for item in here_rows}

    none = "__HIVE_DEFAULT_PARTITION__"
    wanted = {1: "C", 2: "A%2FB", 3: none, 4: none, 5: "C", 7: "C", 8: "new"}
    changes = [row("u", 11, 1, "C", "moved"), row("d", 12, 4, ""), row("c", 13, 7, "C"), row("c", 14, 8, "new")]
    assert merge(*changes) == (None, wanted)
    steps: tuple[dict[int, str], ...] = ({2: "A/B", 9: "new"}, {2: "C", 8: "C", 9: "C"}, {2: "A/B", 9: "new"})
    for number, step in enumerate(steps if WHOLE else ()):  # staying, leaving two partitions empty, coming back
        wanted.update({id: place.replace("/", "%2F") for id, place in step.items()})
        assert merge(*(row("u", 20 + number, id, place, "later") for id, place in step.items())) == (None, wanted)


@pytest.mark.parametrize(
    "way, settings",
    [
        pytest.param("pyarrow in tasks", {}, id="pyarrow in tasks", marks=pytest.mark.whole),
        pytest.param("pyarrow in the driver", {"partition_by": ("place",)}, id="moves", marks=pytest.mark.whole),
    ],
)
def test_three_readers_and_hudis_own_writer_take_what_was_written(
    bench: Workbench, way: str, settings: dict[str, Any], by: Ways
) -> None:
    config = table(**settings)
    bench.apply(config, *(row("r", 10, id) for id in range(6)), row("r", 11, 8, "Z"))
    by(way)
    changes = [row("u", 30, 1, "C", "newest"), row("d", 31, 2, None, None), row("u", 32, 8, "A")]
    bench.apply(config, *changes)
    assert bench.left_to_spark() is None
    columns = ("id", "place", "name", "_sluice_position", "__deleted")
    here = bench.rows(config, *columns)
    assert [item[:3] for item in here[1:3]] == [(1, "C", "newest"), (2, None, None)]
    assert bench.rows_by_hudi_rs(config, *columns) == here
    assert bench.rows_by_old_bundle(config, *columns) == here

    bench.in_tasks().apply(config, row("u", 40, 1, "D", "spark"), row("c", 41, 7))
    rows = bench.rows(config, "id", "place", "name")
    assert rows[1] == (1, "D", "spark") and len(rows) == 8
    assert bench.rows_by_hudi_rs(config, "id", "place", "name") == rows


def between_files(patch: pytest.MonkeyPatch) -> None:
    written, begun = rewrite.write_base, threading.Lock()

    def once(*given: Any, **more: Any) -> Any:
        return written(*given, **more) if begun.acquire(blocking=False) else dies()

    patch.setattr(rewrite, "write_base", once)


AT_FILES = {
    "before the markers": lambda patch: patch.setattr(rewrite, "write_base", dies),
    "between the files": between_files,
    "before the statistics": lambda patch: patch.setattr(HudiJvm, "commit_files", dies),
}


@pytest.mark.parametrize(
    "at, settings",
    [
        *(pytest.param(at, {}, marks=() if at == "between the files" else pytest.mark.whole) for at in AT_FILES),
        pytest.param("between the files", {"partition_by": ("place",)}, id="partitions", marks=pytest.mark.whole),
    ],
)
def test_a_rewrite_that_died_is_rolled_back_and_runs_again(
    bench: Workbench, at: str, settings: dict[str, Any], by: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = two_files(bench, monkeypatch, **settings)
    files, rows = base_files(bench, config), bench.rows(config, "id", "name")
    manifest = bench.manifest(config, [bench.put([row("u", 50, id, name="new") for id in range(21)], SCHEMA)])
    by("pyarrow in the driver")
    AT_FILES[at](monkeypatch)
    with pytest.raises(Died):
        bench.merge_manifest(manifest, config)
    monkeypatch.undo()
    assert bench.rows(config, "id", "name") == rows

    assert bench.resolve(manifest, config) is None
    assert base_files(bench, config) == files
    assert bench.services.tables.is_left_to_spark(config), "by the same run"
    again = bench.merge_manifest(manifest, config)
    assert (again.counts["winning"], again.counts["inserted"]) == (21, 1)
    assert bench.rows(config, "id", "name") == [(id, "new") for id in sorted(range(21), key=lambda id: f"({id},")]


def two_files(bench: Workbench, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> TableConfig:
    """A table of twenty rows in two files."""
    config = table(**settings)
    with monkeypatch.context() as small:
        small.setattr(merging, "part_count", lambda _, **__: 2)
        bench.apply(config, *(row("c", 1 + id, id) for id in range(20)))
    assert len(base_files(bench, config)) == 2
    return config


def base_files(bench: Workbench, config: TableConfig) -> list[str]:
    """The names of the table's base files of all commits."""
    return sorted(path.name for path in bench.local_path(config).rglob("*.parquet"))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="plain"),
        pytest.param({"partition_by": ("place",)}, id="a row that moves", marks=pytest.mark.whole),
    ],
)
def test_a_rewritten_file_and_its_commit_are_like_hudis_own(
    bench: Workbench, settings: dict[str, Any], by: Ways
) -> None:
    arrow, hudi = table(**settings), table(database="other", **settings)
    first = [bench.put([row("c", id, id) for id in range(1, 30)], SCHEMA)]
    changes = [bench.put([row("u", 50, 3, name="new"), row("d", 51, 4), row("c", 52, 40), row("u", 53, 5)], SCHEMA)]
    bench.services.tables.leave_to_spark(hudi)
    by("pyarrow in tasks")
    files = []
    for config in (arrow, hudi):
        loaded = bench.merge(config, first)
        merged = bench.merge(config, changes, after=loaded)
        stats = commit_file(bench, config, merged)["partitionToWriteStats"]
        (old, *_) = sorted(base_files(bench, config), key=lambda name: name.rpartition("_")[2])
        files.append([like_hudis(bench, config, stat, loaded.instant, old) for _, (stat,) in sorted(stats.items())])
    assert files[0] == files[1] and len(files[0]) == 1 + len(settings)
    assert [sorted(file["commits"]) for file in files[0]] == [["new", "old"]] + [["new"]] * len(settings)


def like_hudis(
    bench: Workbench, config: TableConfig, stat: dict[str, Any], loaded: str | None, old: str
) -> dict[str, Any]:
    """What a file that a merge wrote has in common with Hudi's own; `old` is the one of the commit `loaded`."""
    place, _, name = stat["path"].rpartition("/")
    assert stat["partitionPath"] == place and stat["prevCommit"] in (loaded, "null")
    assert stat.get("prevBaseFile") == (old if stat["prevCommit"] == loaded else None)
    own = ("fileId", "path", "prevCommit", "prevBaseFile", "totalWriteBytes", "fileSizeInBytes", "runtimeStats")
    file = pq.ParquetFile(bench.local_path(config) / stat["path"])
    rows = file.read()
    assert {*rows.column("_hoodie_file_name").to_pylist()} == {name}
    other = ["_hoodie_commit_seqno", "_hoodie_file_name", "_hoodie_commit_time", "_sluice_batch"]
    columns = [file.metadata.row_group(0).column(number) for number in range(file.metadata.num_columns)]
    return {
        "stat": {name: value for name, value in stat.items() if name not in own},
        "rows": rows.drop_columns(other).to_pylist(),  # in the same order
        "footer": file.metadata.metadata,
        "schema": str(file.schema).splitlines()[2:],  # but for the record's name
        "columns": [(column.path_in_schema, column.compression, column.num_values) for column in columns],
        "commits": {"old" if at == loaded else "new" for at in rows.column("_hoodie_commit_time").to_pylist()},
    }


@pytest.mark.whole
def test_new_rows_without_a_small_file_start_one(bench: Workbench, by: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    config = table()
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    by("pyarrow in the driver")
    monkeypatch.setattr(placement, "SMALL_FILE_BYTES", 0)
    merged = bench.apply(config, row("u", 3, 1, name="new"), row("c", 4, 3))
    assert (merged.counts["inserted"], merged.counts["files_written"], bench.left_to_spark()) == (1, 2, None)
    assert bench.rows_by_hudi_rs(config, "id", "name") == bench.rows(config, "id", "name")
    bench.in_tasks().apply(config, row("u", 5, 3, name="later"), row("u", 6, 1))
    assert bench.rows(config, "id", "name") == [(1, "n"), (2, "n"), (3, "later")]


@pytest.mark.whole
def test_hudi_cleans_and_clusters_what_pyarrow_rewrote(
    bench: Workbench, by: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = two_files(bench, monkeypatch, services=ServicePolicy(cluster_by=("name",)))
    by("pyarrow in the driver")
    for at in (50, 100):
        last = bench.apply(config, *(row("u", at + id, id, name=f"n{at}") for id in range(22)))
        assert bench.left_to_spark() is None and last.instant is not None
    rows = bench.rows(config, "id", "name")
    assert len(base_files(bench, config)) == 6

    hudi = bench.hudi(config)
    now_ms = instant_ms(last.instant) + config.time_travel_h * HOUR_MS
    cleaned = keep_house(hudi, now_ms=now_ms, tables=KnownTables()).files
    assert cleaned and len(base_files(bench, config)) == 6 - cleaned
    assert sum(name.endswith(f"_{last.instant}.parquet") for name in base_files(bench, config)) == 2
    bench.new_run()
    served = bench.serve(config, CLUSTERING)
    assert served.report.files_after == 1
    assert bench.rows_by_both(config, "id", "name") == rows
    bench.apply(config, *(row("u", 200 + id, id, name="after") for id in range(22)))
    assert bench.left_to_spark() is None
    assert {name for _, name in bench.rows(config, "id", "name")} == {"after"}


def test_an_engine_without_a_needed_method_merges_in_tasks_and_says_so(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    bench.apply(config, row("c", 1, 1))
    monkeypatch.setattr(needed_members, "_NEEDED", ((".client.SparkRDDWriteClient", "startCommit", ("String",) * 9),))
    needed_members.missing_in_engine.cache_clear()
    try:
        bench.apply(config, row("u", 2, 1, name="new"))
        assert bench.left_to_spark() == "engine: client.SparkRDDWriteClient.startCommit"
    finally:
        needed_members.missing_in_engine.cache_clear()
    assert bench.rows(config, "id", "name") == [(1, "new")]
