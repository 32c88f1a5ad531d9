"""Where a writer dies: what it left is undone, what it committed is found, and nothing is written twice."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import IllegalArgumentException
from support.builders import flattened
from support.workbench import Workbench, row, table

from sluice.batch.outcome import COMMITTED
from sluice.hudi import options as hudi_options
from sluice.hudi.timeline import instant_ms, instant_of_ms
from sluice_spark.errors import ClockBehind, LaneLost, TableDiffers
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_arrow.large import merge as large

SCHEMA = flattened({"id": "int", "place": ["null", "string"], "name": ["null", "string"]})
KINDS = pytest.mark.parametrize("table_type", ["cow", "mor"])


def boom(frame: Any) -> Any:
    """The same rows from a task that dies while Hudi writes them."""
    from pyspark.sql import functions as F

    return frame.withColumn("name", F.expr("raise_error('killed here')").cast("string"))


def hudi_table(bench: Workbench, config: Any) -> HudiTable:
    return HudiTable(bench.spark, bench.path(config), config)


@KINDS
def test_a_write_that_died_is_rolled_back_and_the_part_runs_again(
    bench: Workbench, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(table_type=table_type)
    bench.in_tasks().merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    manifest = bench.manifest(config, [bench.put([row("u", 2, 1, name="new"), row("c", 3, 2)], SCHEMA)])
    from sluice_spark.merge.by_spark import latest

    whole = latest.winners
    monkeypatch.setattr(latest, "winners", lambda marked, **named: boom(whole(marked, **named)))
    with pytest.raises(Exception, match="killed here"):
        bench.merge_manifest(manifest, config)
    monkeypatch.undo()
    assert any(
        name.endswith("requested") and name.split(".")[0] + ".commit" not in bench.timeline(config)
        for name in bench.timeline(config)
    )

    assert bench.resolve(manifest, config) is None
    assert "rolled_back" in bench.events.names()
    assert roll_back_unfinished(hudi_table(bench, config)) == ()
    again = bench.merge_manifest(manifest, config)
    assert (again.state, again.counts["winning"]) == (COMMITTED, 2)
    assert bench.rows(config, "id", "name") == [(1, "new"), (2, "n")]


def kept_rdds(bench: Workbench) -> list[Any]:
    """What Spark keeps in memory."""
    return list(bench.spark.sparkContext._jsc.getPersistentRDDs().values())


def test_a_part_whose_rows_were_lost_with_an_executor_fails_and_runs_again(bench: Workbench) -> None:
    config = table()
    bench.in_tasks().merge(config, [bench.put([row("c", 1, 1), row("c", 2, 2)], SCHEMA)])
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
    bench.in_tasks().merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    bench.merge(config, [bench.put([row("u", 2, 1), row("t", 3, 1)], SCHEMA), bench.put([row("c", 4, 2)], SCHEMA)])
    assert len(kept_rdds(bench)) == already


@KINDS
def test_a_commit_whose_writer_died_after_it_is_found_and_not_written_again(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type)
    manifest = bench.manifest(config, [bench.put([row("c", 1, 1)], SCHEMA), bench.put_bytes(b"not avro")])
    assert bench.resolve(manifest, config) is None  # no table yet
    first = bench.merge_manifest(manifest, config)
    before = bench.timeline(config)

    found = bench.resolve(manifest, config)

    assert found is not None
    assert (found.instant, found.state, found.quarantined) == (first.instant, COMMITTED, first.quarantined)
    assert instant_ms(str(found.instant)) <= found.readable_at <= first.readable_at + 999 < found.committed_at + 999
    assert hudi_table(bench, config).commit_of_batch("b-other") is None
    assert bench.timeline(config) == before


def test_a_writer_that_wakes_up_after_the_rollback_commits_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    bench.merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    manifest = bench.manifest(config, [bench.put([row("u", 2, 1, name="sleeper")], SCHEMA)])
    client = hudi_table(bench, config).client({})
    instant = client.startCommit()
    try:
        assert roll_back_unfinished(hudi_table(bench, config)) == (instant,)
        bench.merge_manifest(manifest, config)
        with pytest.raises(IllegalArgumentException, match="does not exist"):
            client.commit(instant, bench.spark.sparkContext._jsc.emptyRDD())
    finally:
        client.close()
    assert bench.rows(config, "id", "name") == [(1, "sleeper")]


def test_a_requested_compaction_plan_stays_and_a_running_one_becomes_requested(bench: Workbench) -> None:
    config = table(table_type="mor")
    bench.merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    bench.merge(config, [bench.put([row("u", 2, 1, name="log")], SCHEMA)])
    hudi = hudi_table(bench, config)
    client = hudi.client(hudi_options.compaction_options())
    plan = client.scheduleCompaction(hudi.jvm.none())
    client.close()
    assert plan.isPresent() and roll_back_unfinished(hudi) == ()

    timeline = hudi.jvm.meta_client(hudi.path).getActiveTimeline()
    timeline.transitionCompactionRequestedToInflight(timeline.filterPendingCompactionTimeline().firstInstant().get())
    assert roll_back_unfinished(hudi) == (plan.get(),)
    left = [name for name in bench.timeline(config) if name.startswith(plan.get())]
    assert left == [f"{plan.get()}.compaction.requested"]

    bench.merge(config, [bench.put([row("u", 3, 1, name="after")], SCHEMA)])
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
    bench.merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    before, held = bench.timeline(config), [True]
    waits = HudiTable.wait_until_past_newest

    def lost_while_it_waits(hudi: HudiTable, newest: str | None, **how: Any) -> None:
        waits(hudi, newest, **how)
        held.clear()

    monkeypatch.setattr(HudiTable, "wait_until_past_newest", lost_while_it_waits)
    with pytest.raises(LaneLost):
        bench.merge(config, [bench.put([row("u", 2, 1, name="late")], SCHEMA)], still_held=lambda: bool(held))
    assert bench.timeline(config) == before


def test_the_properties_file_names_the_ordering_field_for_old_and_new_readers(bench: Workbench) -> None:
    config = table(table_type="mor", partition_by=("place",))
    bench.merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    bench.merge(config, [bench.put([row("u", 2, 1)], SCHEMA)])
    kept = bench.properties(config)
    assert (kept["hoodie.table.precombine.field"], kept["hoodie.table.ordering.fields"]) == (
        "_sluice_position",
        "_sluice_position",
    )
    assert (kept["hoodie.table.version"], kept["hoodie.table.timeline.timezone"]) == ("6", "UTC")


def test_a_property_that_a_reader_needs_is_added_before_the_first_write(bench: Workbench) -> None:
    config = table()
    bench.merge(config, [bench.put([row("c", 1, 1)], SCHEMA)])
    file = bench.local_path(config) / ".hoodie" / "hoodie.properties"
    file.write_text(
        "".join(
            line for line in file.read_text().splitlines(True) if "ordering" not in line and "precombine" not in line
        )
    )
    (file.parent / ".hoodie.properties.crc").unlink()
    bench.new_run()
    bench.merge(config, [bench.put([row("u", 2, 1)], SCHEMA)])
    assert ("properties_added", ["hoodie.table.ordering.fields", "hoodie.table.precombine.field"]) in [
        (name, fields.get("properties")) for name, fields in bench.events.seen
    ]
    assert {"hoodie.table.precombine.field", "hoodie.table.ordering.fields"} <= set(bench.properties(config))


def test_a_table_of_another_key_is_refused(bench: Workbench) -> None:
    bench.merge(table(), [bench.put([row("c", 1, 1)], SCHEMA)])
    with pytest.raises(TableDiffers, match="recordkey"):
        bench.merge(table(record_key=("name",)), [bench.put([row("c", 2, 1)], SCHEMA)])


def test_a_table_without_a_commit_takes_another_key_type_and_partitions(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, other, right = (
        table(record_key=("idd",), partition_by=("place",)),
        table(table_type="mor", partition_by=("name",)),
        table(),
    )
    objects = [bench.put([row("c", 1, 1)], SCHEMA)]
    refused = bench.merge(wrong, objects)
    assert (refused.state, refused.quarantined[0].code) == ("quarantined", "incompatible_schema")
    hudi_table(bench, wrong).raise_floors([(None, "0")])  # as a truncate does, which needs no commit

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
    assert (
        made.pop("sluice.truncated_at") == "0"
        and {name for name in {*made, *fresh} if made.get(name) != fresh.get(name)} == of_itself
    )


def test_an_instant_in_the_future_is_waited_for_or_refused(bench: Workbench) -> None:
    config = table()
    hudi = hudi_table(bench, config)
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
