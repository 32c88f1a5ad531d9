"""What keeps a table's timeline in order: the driver's clock, the newest instant, and batch ids beside compactions."""

from __future__ import annotations

import dataclasses
import shutil
import time
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench, table

from sluice.batch.outcome import COMMITTED
from sluice.errors import TableWentBack
from sluice.hudi.java_properties import parse_properties, properties_text
from sluice.services.requests import CLEANING
from sluice_aws.s3.lost_properties import lost_properties, restored_content
from sluice_read.place import SilverFolder
from sluice_spark.errors import ClockBehind, CommitNotNewest, WriteUndone

SCHEMA = flattened({"id": "int", "name": ["null", "string"]})
HOUR_MS = 3_600_000
END_OF_TIME = "99991231235959999"
AHEAD = "29990101000000000"


def row(lsn: int, id: int = 1) -> dict[str, Any]:
    return change("u", lsn, id=id, name=f"at {lsn}")


class Behind:
    """A clock that is an hour behind another."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return int(self._clock.now_ms()) - HOUR_MS

    def wait(self, seconds: float) -> None:
        raise AssertionError(f"nobody waits {seconds} s for a clock")


def test_a_driver_whose_clock_is_behind_the_newest_instant_commits_nothing(bench: Workbench) -> None:
    config = table()
    bench.apply(config, row(1), schema=SCHEMA)
    before = bench.timeline(config)
    bench.services = dataclasses.replace(bench.services, clock=Behind(bench.services.clock))
    with pytest.raises(ClockBehind):
        bench.apply(config, row(2), schema=SCHEMA)
    assert bench.timeline(config) == before


def test_a_commit_whose_instant_is_not_the_newest_is_an_error_and_not_a_success(bench: Workbench) -> None:
    config = table()
    bench.apply(config, row(1), schema=SCHEMA)
    hudi = bench.hudi(config)
    facts = hudi.look()
    rows, late = hudi.stored(facts, *facts.schema.names), dataclasses.replace(facts, newest=END_OF_TIME)
    with pytest.raises(CommitNotNewest):
        hudi.write(rows, operation="upsert", batch="b-late", run="run-1", facts=late, size_bytes=0)


def test_a_commit_below_an_instant_that_its_run_did_not_know_is_an_error(bench: Workbench) -> None:
    config = table()
    bench.apply(config, row(1), schema=SCHEMA)
    folder = bench.local_path(config) / ".hoodie"
    (commit,) = folder.glob("*.commit")
    for path in folder.glob(f"{commit.stem}.*"):  # a writer whose clock is ahead
        shutil.copy(path, folder / path.name.replace(commit.stem, AHEAD))
    manifest = bench.manifest(config, [bench.put([row(2)], SCHEMA)])
    with pytest.raises(WriteUndone, match=AHEAD):
        bench.merge_manifest(manifest, config)
    assert bench.resolve(manifest, config) is None
    with pytest.raises(ClockBehind):
        bench.merge_manifest(manifest, config)


def test_the_batch_id_is_on_delta_commits_and_not_on_compactions(bench: Workbench) -> None:
    config = table(table_type="mor")
    bench.apply(config, row(1), schema=SCHEMA)
    manifest = bench.manifest(config, [bench.put([row(2)], SCHEMA)])
    committed = bench.merge_manifest(manifest, config)
    hudi = bench.hudi(config)

    compaction = hudi.compact_all()

    commit = bench.local_path(config) / ".hoodie" / f"{compaction}.commit"
    assert commit.exists() and manifest.batch not in commit.read_text(errors="replace")
    resolved = bench.resolve(manifest, config)
    assert resolved is not None and (resolved.state, resolved.instant) == (COMMITTED, committed.instant)


@pytest.mark.parametrize("restored", [False, True], ids=["deleted", "restored"])
def test_a_table_that_was_deleted_or_restored_is_not_written_by_the_next_run(bench: Workbench, restored: bool) -> None:
    config = table()
    bench.apply(config, row(1), schema=SCHEMA)
    folder = bench.local_path(config)
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    last = bench.apply(config, row(2), schema=SCHEMA)
    shutil.rmtree(folder)
    if restored:
        copy.rename(folder)
    before = bench.timeline(config) if restored else []

    bench.new_run()
    with pytest.raises(TableWentBack, match=last.instant):
        bench.apply(config, row(3, id=2), schema=SCHEMA, after=last)
    with pytest.raises(TableWentBack, match=last.instant):
        bench.serve(config, CLEANING, last_instant=last.instant)
    assert folder.exists() == restored and (not restored or bench.timeline(config) == before)


@pytest.mark.parametrize(
    ("kind", "lost"), [("cow", "gone"), ("mor", "empty"), pytest.param("cow", "backup", marks=pytest.mark.whole)]
)
def test_lost_properties_stop_a_table_until_they_are_restored(bench: Workbench, kind: str, lost: str) -> None:
    config = table(f"t_{kind}_{lost}", table_type=kind)
    bench.apply(config, row(1), row(2, id=2), schema=SCHEMA)
    last = bench.apply(config, row(5, id=2), schema=SCHEMA)
    floor = "0000.00000000000000000004.00000000000000000004"
    bench.hudi(config).raise_floors([(None, floor)])
    bench.new_run()
    last = bench.apply(config, row(7, id=1), schema=SCHEMA, after=last)
    file = bench.local_path(config) / ".hoodie" / "hoodie.properties"
    before = parse_properties(file.read_text())
    assert before["sluice.truncated_at"] == floor
    if lost == "backup":  # of a time before the floor
        older = {name: value for name, value in before.items() if name != "sluice.truncated_at"}
        file.with_name("hoodie.properties.backup").write_text(properties_text(older))
    file.with_name(".hoodie.properties.crc").unlink(missing_ok=True)
    file.unlink() if lost != "empty" else file.write_bytes(b"")

    bench.new_run()
    late = bench.put([row(3, id=9)], SCHEMA)
    for after in (last, None):  # the ledger may be lost too
        with pytest.raises(TableWentBack, match="hoodie.properties is gone or empty"):
            bench.merge(config, [late], after=after)
    files = SilverFolder(bench.local_path(config).parents[1])
    assert lost_properties(files, config.table)
    content = restored_content(files, config, floors={})
    assert parse_properties(content.decode()) == before
    file.write_bytes(content)
    assert not lost_properties(files, config.table)
    assert bench.merge(config, [late], after=last).counts["losing"] == 1, "the floor is there again"
    bench.apply(config, row(9, id=2), schema=SCHEMA)
    rows = [(1, "at 7"), (2, "at 9")]
    assert bench.rows_by_both(config, "id", "name") == rows


@pytest.mark.whole
def test_no_job_runs_between_the_last_look_at_the_lane_and_the_first_instant(bench: Workbench) -> None:
    """With adaptive execution, as large lanes have it: it runs the shuffles of a plan before the plan is asked to."""
    config = table(hudi={"hoodie.parquet.compression.codec": "gzip"})  # Spark's own writer alone knows it
    bench.in_tasks()
    columns = {"id": "int", "name": ["null", "string"]}
    narrow = flattened({**columns, "ints": ["null", {"type": "array", "items": "int"}]})
    wide = flattened({**columns, "ints": ["null", {"type": "array", "items": "long"}]})
    bench.spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        # Two first loads, an upsert, a rewrite.
        batches = [(table("by_arrow"), flattened(columns)), (config, narrow), (config, narrow), (config, wide)]
        for batch, (config, schema) in enumerate(batches):
            looks: list[int] = []
            item = bench.put([{**row(10 * batch + id, id), "ints": [batch]} for id in (1, 2, 3)], schema)
            before = {one.split(".")[0] for one in bench.timeline(config)} if batch > 1 else set()

            def still_held(looks: list[int] = looks) -> bool:
                looks.append(int(time.time() * 1000))
                return True

            bench.merge_manifest(bench.manifest(config, [item]), config, still_held=still_held)
            begun = requested_at(bench, config, before)
            last_look = max(at for at in looks if at <= begun)
            between = [name for name, at in jobs(bench) if last_look < at < begun]
            assert between == [], f"batch {batch}, {begun - last_look} ms"
        assert "table_rewritten" in bench.events.names()
        assert [fields["table"] for name, fields in bench.events.seen if name == "left_to_spark"] == [config.table]
    finally:
        bench.spark.conf.unset("spark.sql.adaptive.enabled")


def requested_at(bench: Workbench, config: Any, before: set[str]) -> int:
    """When the commit that isn't of the instants `before` was requested (epoch ms)."""
    requested = (bench.local_path(config) / ".hoodie").glob("*commit.requested")
    return int(min(path.stat().st_mtime_ns for path in requested if path.name.split(".")[0] not in before) / 1e6)


def jobs(bench: Workbench) -> list[tuple[str, int]]:
    """Spark's jobs so far: description, and when each was submitted (epoch ms)."""
    bench.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    listed = bench.spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    listed_jobs = [listed.apply(place) for place in range(listed.size())]
    return [(f"{job.jobId()} {job.name()}", job.submissionTime().get().getTime()) for job in listed_jobs]
