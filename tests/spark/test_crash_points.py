"""Where a writer dies: what it left is undone, what it committed is found, and nothing is written twice."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import IllegalArgumentException
from support.workbench import MOR, SCHEMA, Workbench, row, table

from sluice.batch.outcome import COMMITTED
from sluice.hudi import options as hudi_options
from sluice.hudi.timeline import instant_ms, instant_of_ms
from sluice_spark.errors import ClockBehind, LaneLost, TableDiffers
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_arrow.large import merge as large


def boom(frame: Any) -> Any:
    """The same rows from a task that dies while Hudi writes them."""
    from pyspark.sql import functions as F

    return frame.withColumn("name", F.expr("raise_error('killed here')").cast("string"))


@MOR
def test_a_write_that_died_is_rolled_back_and_the_part_runs_again(
    bench: Workbench, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(table_type=table_type)
    bench.in_tasks().apply(config, row("c", 1, 1))
    manifest = bench.manifest(config, [bench.put([row("u", 2, 1, name="new"), row("c", 3, 2)], SCHEMA)])
    from sluice_spark.merge.by_spark import latest

    whole = latest.winners
    monkeypatch.setattr(latest, "winners", lambda marked, **more: boom(whole(marked, **more)))
    with pytest.raises(Exception, match="killed here"):
        bench.merge_manifest(manifest, config)
    monkeypatch.undo()
    instants = {name.split(".")[0] for name in bench.timeline(config) if name.endswith("requested")}
    assert any(f"{instant}.commit" not in bench.timeline(config) for instant in instants)

    assert bench.resolve(manifest, config) is None
    assert "rolled_back" in bench.events.names()
    assert roll_back_unfinished(bench.hudi(config)) == ()
    again = bench.merge_manifest(manifest, config)
    assert (again.state, again.counts["winning"]) == (COMMITTED, 2)
    assert bench.rows(config, "id", "name") == [(1, "new"), (2, "n")]


def kept_rdds(bench: Workbench) -> list[Any]:
    """What Spark keeps in memory."""
    return list(bench.spark.sparkContext._jsc.getPersistentRDDs().values())


def test_a_part_whose_rows_were_lost_with_an_executor_fails_and_runs_again(bench: Workbench) -> None:
    config = table()
    bench.in_tasks().apply(config, row("c", 1, 1), row("c", 2, 2))
    before = bench.rows(config, "id", "name")
    manifest = bench.manifest(config, [bench.put([row("u", 3, 1, name="new"), row("c", 4, 3)], SCHEMA)])
    blocks = bench.spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().blockManager()

    def lost_before_the_write() -> bool:
        for rdd in kept_rdds(bench):
            blocks.removeRdd(rdd.id())
        return True

    with pytest.raises(Exception, match="Checkpoint block"):
        bench.merge_manifest(manifest, config, still_held=lost_before_the_write)

    assert bench.resolve(manifest, config) is None
    assert bench.rows(config, "id", "name") == before
    assert bench.merge_manifest(manifest, config).counts["winning"] == 2
    assert bench.rows(config, "id", "name") == [(1, "new"), (2, "n"), (3, "n")]


@pytest.mark.whole
def test_a_part_leaves_no_rows_in_memory(bench: Workbench) -> None:
    config = table()
    already = len(kept_rdds(bench))
    bench.in_tasks().apply(config, row("c", 1, 1))
    bench.merge(config, [bench.put([row("u", 2, 1), row("t", 3, 1)], SCHEMA), bench.put([row("c", 4, 2)], SCHEMA)])
    assert len(kept_rdds(bench)) == already


@MOR
def test_a_commit_whose_writer_died_after_it_is_found_and_not_written_again(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type)
    manifest = bench.manifest(config, [bench.put([row("c", 1, 1)], SCHEMA), bench.put_bytes(b"not avro")])
    assert bench.resolve(manifest, config) is None  # no table yet
    first = bench.merge_manifest(manifest, config)
    before = bench.timeline(config)

    resolved = bench.resolve(manifest, config)

    assert resolved is not None
    assert (resolved.instant, resolved.state, resolved.quarantined) == (first.instant, COMMITTED, first.quarantined)
    committed_ms = instant_ms(str(resolved.instant))
    assert committed_ms <= resolved.readable_at <= first.readable_at + 999 < resolved.committed_at + 999
    assert bench.hudi(config).commit_of_batch("b-other") is None
    assert bench.timeline(config) == before


def test_a_writer_that_wakes_up_after_the_rollback_commits_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    bench.apply(config, row("c", 1, 1))
    manifest = bench.manifest(config, [bench.put([row("u", 2, 1, name="sleeper")], SCHEMA)])
    client = bench.hudi(config).client({})
    instant = client.startCommit()
    try:
        assert roll_back_unfinished(bench.hudi(config)) == (instant,)
        bench.merge_manifest(manifest, config)
        with pytest.raises(IllegalArgumentException, match="does not exist"):
            client.commit(instant, bench.spark.sparkContext._jsc.emptyRDD())
    finally:
        client.close()
    assert bench.rows(config, "id", "name") == [(1, "sleeper")]


def test_a_requested_compaction_plan_stays_and_a_running_one_becomes_requested(bench: Workbench) -> None:
    config = table(table_type="mor")
    bench.apply(config, row("c", 1, 1))
    bench.apply(config, row("u", 2, 1, name="log"))
    hudi = bench.hudi(config)
    client = hudi.client(hudi_options.compaction_options())
    plan = client.scheduleCompaction(hudi.jvm.none())
    client.close()
    assert plan.isPresent() and roll_back_unfinished(hudi) == ()

    timeline = hudi.jvm.meta_client(hudi.path).getActiveTimeline()
    timeline.transitionCompactionRequestedToInflight(timeline.filterPendingCompactionTimeline().firstInstant().get())
    assert roll_back_unfinished(hudi) == (plan.get(),)
    left = [name for name in bench.timeline(config) if name.startswith(plan.get())]
    assert left == [f"{plan.get()}.compaction.requested"]

    bench.apply(config, row("u", 3, 1, name="after"))
    assert bench.rows(config, "id", "name") == [(1, "after")]


def test_nothing_is_undone_by_a_run_that_lost_the_lane(bench: Workbench) -> None:
    config = table()
    manifest = bench.manifest(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    bench.merge_manifest(manifest, config)
    with pytest.raises(LaneLost):
        bench.resolve(manifest, config, still_held=lambda: False)


def test_a_lane_that_is_lost_while_a_commit_waits_for_its_instant_commits_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    bench.apply(config, row("c", 1, 1))
    before, held = bench.timeline(config), [True]
    waits = HudiTable.wait_until_past_newest

    def lost_while_it_waits(hudi: HudiTable, newest: str | None, **how: Any) -> None:
        waits(hudi, newest, **how)
        held.clear()

    monkeypatch.setattr(HudiTable, "wait_until_past_newest", lost_while_it_waits)
    with pytest.raises(LaneLost):
        bench.apply(config, row("u", 2, 1, name="late"), still_held=lambda: bool(held))
    assert bench.timeline(config) == before


def test_the_properties_file_names_the_ordering_field_for_old_and_new_readers(bench: Workbench) -> None:
    config = table(table_type="mor", partition_by=("place",))
    bench.apply(config, row("c", 1, 1))
    bench.apply(config, row("u", 2, 1))
    properties = bench.properties(config)
    names = ("hoodie.table.precombine.field", "hoodie.table.ordering.fields")
    assert {properties[name] for name in names} == {"_sluice_position"}
    assert (properties["hoodie.table.version"], properties["hoodie.table.timeline.timezone"]) == ("6", "UTC")


def test_a_property_that_a_reader_needs_is_added_before_the_first_write(bench: Workbench) -> None:
    config = table()
    bench.apply(config, row("c", 1, 1))
    file = bench.local_path(config) / ".hoodie" / "hoodie.properties"
    lines = file.read_text().splitlines(True)
    file.write_text("".join(line for line in lines if "ordering" not in line and "precombine" not in line))
    (file.parent / ".hoodie.properties.crc").unlink()
    bench.new_run()
    bench.apply(config, row("u", 2, 1))
    added = [fields["properties"] for name, fields in bench.events.seen if name == "properties_added"]
    assert ["hoodie.table.ordering.fields", "hoodie.table.precombine.field"] in added
    assert {"hoodie.table.precombine.field", "hoodie.table.ordering.fields"} <= set(bench.properties(config))


def test_a_table_of_another_key_is_refused(bench: Workbench) -> None:
    bench.apply(table(), row("c", 1, 1))
    with pytest.raises(TableDiffers, match="recordkey"):
        bench.apply(table(record_key=("name",)), row("c", 2, 1))


def test_a_table_without_a_commit_takes_another_key_type_and_partitions(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, right = table(record_key=("idd",), partition_by=("place",)), table()
    other = table(table_type="mor", partition_by=("name",))
    objects = [bench.put([row("c", 1, 1)], SCHEMA)]
    refused = bench.merge(wrong, objects)
    assert (refused.state, refused.quarantined[0].code) == ("quarantined", "incompatible_schema")
    bench.hudi(wrong).raise_floors([(None, "0")])  # as a truncate does, which needs no commit

    bench.new_run()
    dying = bench.manifest(other, [bench.put([row("c", 1, 1)], SCHEMA)])
    monkeypatch.setattr(large, "written_files", Mock(side_effect=RuntimeError("killed here")))
    with pytest.raises(RuntimeError, match="killed here"):
        bench.merge_manifest(dying, other)
    monkeypatch.undo()
    with pytest.raises(TableDiffers):  # its writer may still wake up
        bench.merge(right, objects)
    assert bench.resolve(dying, other) is None

    bench.merge(right, objects)
    bench.merge(table("fresh"), objects)
    assert bench.rows(right, "id", "name") == [(1, "n")] and bench.events.names().count("table_made_anew") == 2
    made, fresh = bench.properties(right), bench.properties(table("fresh"))
    of_itself = {"hoodie.table.name", "hoodie.table.checksum"}
    assert made.pop("sluice.truncated_at") == "0"
    assert {name for name in {*made, *fresh} if made.get(name) != fresh.get(name)} == of_itself


def test_an_instant_in_the_future_is_waited_for_or_refused(bench: Workbench) -> None:
    config = table()
    hudi = bench.hudi(config)
    newest = "20260102030405678"
    at = instant_ms(newest)
    assert (at, instant_of_ms(at)) == (1_767_323_045_678, newest)
    clock = {"now": at - 40}

    def wait(seconds: float) -> None:
        clock["now"] += round(seconds * 1000)

    hudi.wait_until_past_newest(newest, now_ms=lambda: clock["now"], wait=wait)
    assert clock["now"] > at
    with pytest.raises(ClockBehind) as refused:
        hudi.wait_until_past_newest(newest, now_ms=lambda: at - 3_600_000, wait=wait)
    assert refused.value.retriable and refused.value.facts["behind_ms"] == 3_600_000
