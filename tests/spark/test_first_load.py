"""First loads by Arrow: equal to Spark's row for row, in files that Hudi and its readers take for Hudi's own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.fixture_sets import PLANS, Delivered, SetMissing, find_set
from pyspark import cloudpickle
from support.builders import avro_object, change, flattened
from support.workbench import Workbench, table

from sluice.admission.routing import classify
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMITTED, QUARANTINED, Outcome
from sluice.config.services import ServicePolicy
from sluice.config.table import TableConfig
from sluice.schema.avro import fingerprint
from sluice.services.requests import CLUSTERING, COMPACTION
from sluice_bench.measure.ledger_times import await_until
from sluice_spark.errors import LaneLost
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.merge.by_arrow import attempt as merging
from sluice_spark.merge.by_arrow import table_plans
from sluice_spark.merge.by_arrow.large import destinations as large_destinations
from sluice_spark.merge.by_arrow.large import merge as large
from sluice_spark.merge.by_arrow.large import plan as large_plan
from sluice_spark.merge.rows import LeftToSpark

TYPES: dict[str, Any] = {
    "b": "bytes",
    "f": "float",
    "d": "double",
    "ok": "boolean",
    "big": "long",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "exact": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4},
    "day": {"type": "int", "connect.name": "io.debezium.time.Date"},
    "at": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
    "nanos": {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"},
    "zoned": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
    "time": {"type": "long", "connect.name": "io.debezium.time.MicroTime"},
    "tags": {"type": "array", "items": ["null", "string"]},
    "days": {"type": "array", "items": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
    "grid": {"type": "array", "items": {"type": "array", "items": ["null", "long"]}},
}
SCHEMA = flattened(
    {
        "id": "int",
        "code": "string",
        "name": ["null", "string"],
        **{name: ["null", kind] for name, kind in TYPES.items()},
    }
)
# What differs between two loads of the same objects.
OWN = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
SECOND = 1_000_000


def row(op: str, lsn: int, id: int, **values: Any) -> dict[str, Any]:
    """A change of a row with a value of every type; in every seventh row they are null."""
    full: dict[str, Any] = {
        "b": bytes([id % 256]),
        "f": id / 3,
        "d": -id / 7,
        "ok": id % 2 == 0,
        "big": id * 2**40,
        "price": (id * 100 - 50).to_bytes(5, "big", signed=True),
        "exact": (-id * 10**20).to_bytes(13, "big", signed=True),
        "day": id * 1_000 - 10_000,
        "at": (id - 5) * 10_000 * SECOND + 1,
        "nanos": id * 10**17 + 1,
        "zoned": f"20{id % 100:02d}-02-03T04:05:06.123456+01:00",
        "time": id * SECOND,
        "tags": [f"t{id % 3}", None][: id % 4],
        "days": [id, None],
        "grid": [[id, None], []],
    }
    values = {"name": f"n{id}\u00e9", **(dict.fromkeys(full) if id % 7 == 0 else full), **values}
    return change(op, lsn, id=id, code=f"c{id}, d:{id}", **values)


def objects(bench: Workbench, rows: int = 40) -> list[ManifestObject]:
    """Objects with changes of so many rows: updated, deleted, created again, out of order and twice delivered."""
    later = [row("u", 300 + id, id, name="later") for id in range(0, rows, 3)]
    later += [row("d", 400 + id, id) for id in range(5)] + [row("c", 500, 2, name="again")]
    later += [row("u", 600, 6, day=-622191234)]  # an infinity
    first = [row("c", 10 + id, id) for id in range(rows)]
    return [bench.put(later, SCHEMA), bench.put(first, SCHEMA), bench.put([row("u", 200, 39, name="late")], SCHEMA)]


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Leaves every load to Spark from the call on."""

    def leave(*_: Any) -> None:
        raise LeftToSpark("test")

    return lambda: monkeypatch.setattr(table_plans, "check_first_load", leave)


TEXTS = ["A", "", None, "a/b", "50%", "x=y:z", "\u00e9 \u00fc", " ", "..", "__HIVE_DEFAULT_PARTITION__", "\t\x7f"]
TEXTS += ["{[^]}", "#?*'\"\\", "\U0001f40c"]
DAYS = (-2_440_588, -719_529, -719_528, -141_428, 2_932_896, 2_932_897, None)


def stored(bench: Workbench, config: TableConfig) -> pa.Table:
    """All rows of the newest files with all columns but those of one commit alone."""
    rows = pa.concat_tables(pq.ParquetFile(file).read() for file in base_files(bench, config))
    return rows.drop_columns(list(OWN)).sort_by([(name, "ascending") for name in config.record_key])


def base_files(bench: Workbench, config: TableConfig) -> list[Path]:
    """The base files of all partitions and commits."""
    return sorted(bench.local_path(config).rglob("*.parquet"))


def left_for(bench: Workbench) -> list[str]:
    """Why loads were left to Spark."""
    return [fields["reason"] for name, fields in bench.events.seen if name == "left_to_spark"]


def counts(outcome: Outcome) -> dict[str, int]:
    """The counts of an outcome but those of files."""
    return {name: count for name, count in outcome.counts.items() if name not in ("bytes_written", "files_written")}


LOADS: dict[str, dict[str, Any]] = {
    "plain": {},
    "key of two columns": {"record_key": ("code", "id"), "keep_deleted_values": True},
    "long key, little lineage": {"record_key": ("big",), "lineage": ("batch", "operation")},
    "no lineage": {"lineage": ()},
    "merge-on-read": {"table_type": "mor"},
    "partitions of texts and dates": {"partition_by": ("name", "day")},
    "partitions of numbers": {"partition_by": ("big", "id"), "keep_deleted_values": True, "table_type": "mor"},
    "partitions, key of two columns": {"partition_by": ("code",), "record_key": ("id", "name")},
}
IN_SHORT = {("plain", "driver"), ("partitions of texts and dates", "tasks")}


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        pytest.param(settings, way, id=f"{name}-{way}", marks=() if (name, way) in IN_SHORT else pytest.mark.whole)
        for name, settings in LOADS.items()
        for way in ("tasks", "driver")
    ],
)
def test_a_load_by_arrow_equals_the_one_by_spark(
    bench: Workbench, settings: dict[str, Any], way: str, by_spark: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "tasks":
        monkeypatch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)
    items = objects(bench, rows=8 if "partition_by" in settings else 40)
    if settings.get("record_key") == ("big",):
        items = [bench.put([row("c", id, id) for id in range(1, 7)], SCHEMA)]
    if "name" in settings.get("partition_by", ()):
        items.append(bench.put([row("c", 700 + id, 50 + id, name=TEXTS[id]) for id in range(14)], SCHEMA))
        items.append(bench.put([row("c", 800 + at, 80 + at, name="A", day=day) for at, day in enumerate(DAYS)], SCHEMA))
    arrow, spark = table("t", **settings), table("u", topic="src.public.t", **settings)
    before = len(own_jobs(bench))
    by_arrow = bench.merge(arrow, items)
    assert left_for(bench) == []
    assert len(own_jobs(bench)) - before == (2 if way == "tasks" else 0)

    by_spark()
    of_spark = bench.merge(spark, items)

    assert left_for(bench) == ["test"]
    assert by_arrow.state == COMMITTED and counts(by_arrow) == counts(of_spark)
    assert by_arrow.watch == of_spark.watch
    rows, wanted = stored(bench, arrow), stored(bench, spark)
    batch = rows.schema.get_field_index("_sluice_batch")
    assert set(rows.column(batch).to_pylist()) <= {by_arrow.batch, None}
    assert rows.remove_column(batch).equals(wanted.remove_column(batch))
    assert metadata(bench, arrow, "t") == metadata(bench, spark, "u")


def metadata(bench: Workbench, config: TableConfig, name: str) -> Any:
    """What a table's only commit says beside its files, with the table's name left out."""
    (commit,) = (bench.local_path(config) / ".hoodie").glob("*commit")
    described = json.loads(commit.read_text())
    folder, of_partitions = bench.local_path(config), described["partitionToWriteStats"]
    stats = [stat for of_partition in of_partitions.values() for stat in of_partition]
    assert {folder / stat["path"] for stat in stats} == set(base_files(bench, config))
    for stat in stats:
        place, _, file = stat["path"].rpartition("/")
        assert file.startswith(stat["fileId"]) and stat["numInserts"] == stat["numWrites"]
        assert (stat["fileSizeInBytes"], stat["partitionPath"]) == ((folder / stat["path"]).stat().st_size, place)
    marks = {
        str(path.parent.relative_to(folder)): sorted(path.read_text().replace(commit.stem, "").splitlines())
        for path in folder.rglob(".hoodie_partition_metadata")
    }
    assert {place or "." for place in of_partitions} == set(marks)
    shared = {
        "keys": sorted(stats[0]),
        "extra": described["extraMetadata"],
        "type": described["operationType"],
        "partitions": {place: [line for line in marks[place] if line[0] != "#"] for place in sorted(marks)},
    }
    text = json.dumps(shared)
    described = json.loads(text.replace(f"hoodie.{name}", "").replace(f"{name}_record", "").replace(f"db.{name}", ""))
    for own in ("sluice.batch", "sluice.attempt"):
        del described["extra"][own]
    return described


def test_a_base_file_is_like_that_of_hudis_own_writer(bench: Workbench, by_spark: Callable[[], None]) -> None:
    changes = [bench.put([row("c", id, id) for id in range(1, 30)], SCHEMA)]
    arrow, hudi = table("t"), table("t", database="other", hudi={"hoodie.datasource.write.row.writer.enable": "false"})
    bench.merge(arrow, changes)
    by_spark()
    bench.merge(hudi, changes)

    made, wanted = (pq.ParquetFile(base_files(bench, config)[0]) for config in (arrow, hudi))

    assert made.metadata.metadata == wanted.metadata.metadata
    assert str(made.schema).splitlines()[2:] == str(wanted.schema).splitlines()[2:]  # but for the record's name
    assert made.metadata.format_version == wanted.metadata.format_version
    for place in range(made.metadata.num_columns):
        column, other = (file.metadata.row_group(0).column(place) for file in (made, wanted))
        assert [getattr(column, name) for name in ALIKE] == [getattr(other, name) for name in ALIKE]
        limits = [(of.statistics.min, of.statistics.max, of.statistics.null_count) for of in (column, other)]
        assert column.path_in_schema in OWN + ("_sluice_batch",) or limits[0] == limits[1]


ALIKE = ("path_in_schema", "compression", "physical_type", "has_column_index", "has_offset_index", "num_values")


def test_an_object_that_cant_be_read_is_set_aside_and_the_rest_is_loaded(bench: Workbench) -> None:
    schema, body = fingerprint(SCHEMA), avro_object(SCHEMA, [row("c", 900, 90)])
    broken = [bench.put_bytes(b"not avro"), bench.put_bytes(body[:-20], schema=schema)]
    outcome = bench.merge(table(), [*objects(bench), *broken])
    assert [error.object for error in outcome.quarantined] == sorted(item.id.hash for item in broken)
    assert (outcome.counts["winning"], left_for(bench)) == (40, [])
    assert "left_to_tasks" not in bench.events.names()


def test_a_first_part_without_a_row_to_merge_is_ended_without_a_job(bench: Workbench) -> None:
    config, body = table(), avro_object(SCHEMA, [row("c", 900, 90)])
    damaged = [bench.put_bytes(body[:-20], schema=fingerprint(SCHEMA))]
    outcome, jobs = bench.jobs_of(lambda: bench.merge(config, damaged))
    assert (outcome.state, outcome.instant, jobs, left_for(bench)) == (QUARANTINED, None, 0, [])
    assert [error.object for error in outcome.quarantined] == [damaged[0].id.hash]
    assert bench.timeline(config) == []
    assert bench.merge(config, objects(bench)).counts["winning"] == 40


@pytest.mark.whole
@pytest.mark.parametrize(
    "settings, service",
    [
        pytest.param({}, CLUSTERING, id="copy-on-write"),
        pytest.param({"table_type": "mor"}, COMPACTION, id="merge-on-read"),
        pytest.param({"partition_by": ("name",)}, CLUSTERING, id="copy-on-write, partitions"),
        pytest.param({"table_type": "mor", "partition_by": ("name",)}, COMPACTION, id="merge-on-read, partitions"),
    ],
)
def test_three_readers_agree_after_a_load_an_upsert_and_a_service(
    bench: Workbench, settings: dict[str, Any], service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)
    monkeypatch.setattr(large_destinations, "tasks_of", lambda sizes, _, whole: dict.fromkeys(sizes, range(2)))
    config = table(services=ServicePolicy(cluster_by=("name",)), **settings)
    columns = ("id", "name", "d", "ok", "big", "_sluice_position", "__deleted")
    bench.merge(config, objects(bench))
    assert left_for(bench) == []

    def readers_agree() -> list[tuple[Any, ...]]:
        here = bench.rows(config, *columns)
        assert bench.rows_by_hudi_rs(config, *columns) == here
        assert bench.rows_by_old_bundle(config, *columns) == here
        assert len(here) == len({item[0] for item in here})
        return here

    assert len(readers_agree()) == 40
    later = [row("u", 700 + id, id, name="upserted") for id in (1, 7, 8, 50)]
    bench.apply(config, *later, row("d", 760, 9), schema=SCHEMA)
    assert [item[1] for item in readers_agree() if item[1] == "upserted"] == ["upserted"] * 4
    served = bench.serve(config, service)
    assert served.report.instant is not None
    assert served.report.files_after == 1 or service == COMPACTION or settings
    assert len(readers_agree()) == 41
    bench.apply(config, row("u", 800, 7, name="after"), schema=SCHEMA)
    assert [item[1] for item in readers_agree() if item[0] == 7] == ["after"]


def test_a_load_in_tasks_runs_two_jobs_of_its_own(bench: Workbench, in_tasks: None) -> None:
    before = len(own_jobs(bench))
    bench.merge(table(), objects(bench))
    assert own_jobs(bench)[before:] == [2, 2]  # reading and counting; writing, whose first stage is skipped


def own_jobs(bench: Workbench) -> list[int]:
    """The numbers of stages of the loads' own jobs."""
    return [stages for name, stages in jobs(bench) if "runJob" in name and "PythonRDD" in name]


def jobs(bench: Workbench) -> list[tuple[str, int]]:
    """Spark's jobs so far in order: name, and number of stages."""
    bench.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    listed = bench.spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    listed_jobs = [listed.apply(place) for place in range(listed.size())]
    return [(job.name(), job.stageIds().size()) for job in sorted(listed_jobs, key=lambda job: job.jobId())]


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loads few objects in tasks, too, and sends them this module's functions, which they can't import."""
    monkeypatch.setattr(merging, "are_few", lambda _: False)
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def attempts(folder: Path, number: int) -> bool:
    """Whether this is one of the first attempts at something, over all processes."""
    folder.mkdir(exist_ok=True)
    for attempt in range(number):
        with suppress(FileExistsError):
            (folder / str(attempt)).touch(exist_ok=False)
            return True
    return False


def test_a_task_that_writes_twice_leaves_one_file_that_counts(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_tasks: None
) -> None:
    config, written = table(), large.written_files

    def twice(*given: Any, **more: Any) -> Any:
        messages = list(given[0])
        if attempts(tmp_path / "tries", 1):  # as an attempt whose result is lost
            written(messages, *given[1:], **{**more, "token": "0-0-99"})
        return written(messages, *given[1:], **more)

    monkeypatch.setattr(large, "written_files", twice)
    bench.merge(config, objects(bench))
    (file,) = base_files(bench, config)
    assert "_0-0-99_" not in file.name
    assert len(bench.rows_by_hudi_rs(config, "id")) == len(bench.rows(config, "id")) == 40


Fail = Callable[[pytest.MonkeyPatch, Path], None]


def die(*_: Any, **__: Any) -> Any:
    raise RuntimeError("killed here")


def before_markers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(large, "written_files", die)


def between_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    written = large.written_files

    def once(*given: Any, **more: Any) -> Any:
        return written(*given, **more) if attempts(folder / "files", 1) else die()

    monkeypatch.setattr(large, "written_files", once)


def behind_the_roll_back(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """One task fails, and the Python worker of another writes its file once the load is rolled back."""
    written = large.written_files

    def late(messages: Any, plan: Any, *given: Any, **more: Any) -> Any:
        if not attempts(folder / "files", 1):
            die()
        timeline = Path(plan.table_uri.removeprefix("file:")) / ".hoodie"
        until = time.monotonic() + 60
        while not list(timeline.glob("*.rollback")) and time.monotonic() < until:
            time.sleep(0.02)
        try:
            return written(messages, plan, *given, **more)
        finally:
            (folder / "written").touch()

    monkeypatch.setattr(large, "written_files", late)


def with_other_rows(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    read = merging.read_in_tasks

    def miscounted(*given: Any, **more: Any) -> Any:
        load = read(*given, **more)
        return replace(load, counts={**load.counts, "winning": 41})

    monkeypatch.setattr(merging, "read_in_tasks", miscounted)


def before_the_commit(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(HudiJvm, "commit_files", die)


@pytest.mark.parametrize(
    "fail, settings",
    [
        pytest.param(before_markers, {}, marks=pytest.mark.whole),
        (between_files, {"table_type": "mor"}),
        pytest.param(between_files, {"table_type": "mor", "partition_by": ("name",)}, marks=pytest.mark.whole),
        pytest.param(with_other_rows, {}, marks=pytest.mark.whole),
        (before_the_commit, {}),
        pytest.param(before_the_commit, {"partition_by": ("name",)}, marks=pytest.mark.whole),
    ],
)
def test_a_load_that_died_is_rolled_back_and_done_again_by_spark(
    bench: Workbench,
    fail: Fail,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    in_tasks: None,
) -> None:
    monkeypatch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)
    config = table(**settings)
    manifest = bench.manifest(config, objects(bench))
    with monkeypatch.context() as broken:
        fail(broken, tmp_path)
        with pytest.raises(Exception, match="killed here|40 rows were written, and 41 counted"):
            bench.merge_manifest(manifest, config)
    assert bench.resolve(manifest, config) is None
    assert base_files(bench, config) == []
    again = bench.merge_manifest(manifest, config)
    assert (again.counts["winning"], left_for(bench)) == (40, ["instants"])
    assert len(bench.rows_by_hudi_rs(config, "id")) == 40


@pytest.mark.whole  # two tasks at the same time
def test_a_file_that_arrives_behind_the_roll_back_of_its_load_gives_no_row(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_tasks: None
) -> None:
    monkeypatch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)
    config = table()
    manifest = bench.manifest(config, objects(bench))
    with monkeypatch.context() as broken:
        behind_the_roll_back(broken, tmp_path)
        with pytest.raises(Exception, match="killed here"):
            bench.merge_manifest(manifest, config)
    assert bench.resolve(manifest, config) is None
    await_until((tmp_path / "written").exists, timeout_s=60, what="the file of a worker that was not killed")
    assert base_files(bench, config) == []
    assert bench.merge_manifest(manifest, config).counts["winning"] == 40
    assert len(bench.rows_by_hudi_rs(config, "id")) == 40


def test_a_load_commits_nothing_once_the_lane_is_lost(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    config, held = table(), [True]
    write = large.LargeMerge.write

    def lost(self: large.LargeMerge, new: Any) -> Any:
        held.clear()
        return write(self, new)

    monkeypatch.setattr(large.LargeMerge, "write", lost)
    with pytest.raises(LaneLost):
        bench.merge(config, objects(bench), still_held=lambda: bool(held))
    assert not [name for name in bench.timeline(config) if name.endswith("commit")]


@pytest.mark.whole
@pytest.mark.parametrize("name", list(PLANS))
def test_recorded_objects_are_loaded_equally_by_arrow_and_by_spark(
    bench: Workbench, name: str, by_spark: Callable[[], None]
) -> None:
    """Of each recorded set that is here: its first phase, and all phases as one batch."""
    try:
        fixtures = find_set(name, os.environ)
    except SetMissing as missing:
        pytest.skip(str(missing))
    loads = []
    for label, phase in (("first", fixtures.phases[0]), ("all", None)):
        by_topic = recorded(bench, fixtures.delivery("in_order", phase))
        for topic, items in by_topic.items():
            keyed = fixtures.plan.topics.get(topic)
            if keyed is not None:
                settings = {"topic": topic, "record_key": keyed.record_key, "json_types": keyed.json_types}
                loads.append((f"{label}_{topic.rpartition('.')[2]}", settings, items))
    by_arrow = [bench.merge(table(f"a_{label}", **settings), items) for label, settings, items in loads]
    left = left_for(bench)
    by_spark()
    for (label, settings, items), outcome in zip(loads, by_arrow):
        arrow, spark = table(f"a_{label}", **settings), table(f"s_{label}", **settings)
        other = bench.merge(spark, items)
        assert (outcome.state, counts(outcome), outcome.watch) == (other.state, counts(other), other.watch), label
        if outcome.instant is not None:
            rows, wanted = (stored(bench, config).drop_columns(["_sluice_batch"]) for config in (arrow, spark))
            assert rows.schema.equals(wanted.schema), label
            for column in rows.schema.names:  # as text, where NaN equals itself and -0.0 isn't 0.0
                made, other_values = rows.column(column), wanted.column(column)
                assert made.equals(other_values) or str(made.to_pylist()) == str(other_values.to_pylist()), column
    print(f"{name}: {len(loads)} loads, left to Spark: {left}")


def recorded(bench: Workbench, delivered: Sequence[Delivered]) -> dict[str, list[ManifestObject]]:
    """Recorded objects in the bench's bucket, by topic."""
    by_topic: dict[str, list[ManifestObject]] = {}
    for item in delivered:
        body = item.file.read_bytes()
        route = classify(item.key, len(body))
        if route.kind == "change_file" and route.topic is not None and route.format is not None:
            put = bench.put_bytes(body, key=item.key, offset=route.offset, format=route.format)
            put = replace(put, topic=route.topic, kafka_partition=route.kafka_partition, offset=route.offset)
            by_topic.setdefault(route.topic, []).append(put)
    return by_topic
