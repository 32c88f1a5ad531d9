"""Small parts of merge-on-read tables are merged without a Spark job: rows, counts and files as Spark makes them."""

from __future__ import annotations

import dataclasses
import os
import random
from typing import Any

import pytest
from support.builders import flattened
from support.change_histories import deliveries
from support.workbench import SCHEMA, Died, Workbench, dies, plain_changes, row, table, told

from sluice.changes.hidden_columns import HIDDEN
from sluice.config.table import TableConfig
from sluice.hudi import write_choices
from sluice.hudi.timeline import instant_ms
from sluice.services.requests import COMPACTION
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.merge.by_arrow import covers, rewrite

STORED = ("id", "place", "name", *(column.name for column in HIDDEN))


def mor(name: str = "here", **settings: Any) -> TableConfig:
    return table(name, table_type="mor", **settings)


def files(bench: Workbench, config: TableConfig) -> dict[str, int]:
    """How many base files and log files the table has, of all commits."""
    paths = bench.local_path(config).rglob("*")
    names = [path.name for path in paths if ".hoodie" not in str(path) and path.suffix != ".crc"]
    return {kind: sum(mark in name for name in names) for kind, mark in (("base", ".parquet"), ("logs", ".log."))}


def date_by_whole_seconds(bench: Workbench, config: TableConfig) -> None:
    """Date the newest instant as S3 does one that is begun and completed within a second."""
    newest = max(name for name in bench.timeline(config) if name.endswith(".deltacommit"))
    began = (instant_ms(newest.partition(".")[0]) - 1) // 1000
    os.utime(bench.local_path(config) / ".hoodie" / newest, (began, began))


@pytest.mark.parametrize(
    "same_run", [pytest.param(True, marks=pytest.mark.whole), False], ids=["of_the_same_run", "of_another_run"]
)
@pytest.mark.parametrize(
    "in_driver", [True, pytest.param(False, marks=pytest.mark.whole)], ids=["in_driver", "by_spark"]
)
def test_updates_of_a_file_that_is_made_within_one_second_are_read(
    bench: Workbench, same_run: bool, in_driver: bool
) -> None:
    config = mor()
    if not in_driver:
        bench.services.tables.leave_to_spark(config)
    for new in ((1, 2), (3, 4)):  # two base files of one file group: logs of the second one must not go to the first
        bench.apply(config, *(row("c", number, number) for number in new))
        date_by_whole_seconds(bench, config)
        facts = bench.hudi(config).look()
        assert facts.misdated
        bench.services.tables.take(config)
        if same_run:
            bench.services.tables.keep(config, facts)
    for position, name in ((10, "second"), (11, "third")):
        bench.apply(config, row("u", position, 3, name=name), row("d", position + 10, 4, None, None))
    assert not bench.hudi(config).look().misdated
    expected = [(1, "n"), (2, "n"), (3, "third"), (4, None)]
    assert bench.rows_by_both(config, "id", "name") == expected
    bench.serve(config, COMPACTION)
    assert bench.rows(config, "id", "name") == expected


def test_updates_go_into_logs_and_new_rows_into_files_as_by_spark(bench: Workbench) -> None:
    here, spark = mor(), mor("there")
    bench.services.tables.leave_to_spark(spark)
    steps = (
        [row("u", 11, 1, name="first"), row("d", 12, 2)],
        [
            row("u", 13, 1, name="second"),
            row("u", 10, 2, name="late"),
            row("c", 15, 9),
            row("u", 16, 4),
            row("c", 17, 8),
        ],
        [row("u", 20, 9, name="of a new file"), row("u", 21, 1, name="third"), row("c", 22, 10)],
    )
    item = [bench.put([row("c", number, number) for number in range(1, 6)], SCHEMA)]
    for config in (here, spark):
        bench.merge(config, item)
    for step in steps:
        item = [dataclasses.replace(bench.put(step, SCHEMA), first_batch="b-1" if step is steps[0] else None)]
        outcome, jobs = bench.jobs_of(lambda item=item: bench.merge(here, item))  # type: ignore[misc]
        assert (jobs, bench.left_to_spark()) == (0, None)
        assert told(outcome) == told(bench.merge(spark, item))
        assert files(bench, here) == files(bench, spark)
        assert bench.rows_by_hudi_rs(here, *STORED) == bench.rows_by_hudi_rs(spark, *STORED)
    assert bench.rows(here, *STORED) == bench.rows(spark, *STORED)
    tokens = {path.name.rpartition("_")[2] for path in bench.local_path(here).glob(".*.log.*") if path.suffix != ".crc"}
    assert len(tokens) == files(bench, here)["logs"] > 2, "no log is put over another, however late"
    bench.new_run()
    again = bench.merge(here, item)
    assert (again.instant, again.counts["repeated"], bench.left_to_spark()) == (None, 3, None)


@pytest.mark.parametrize(
    "seed, settings",
    [
        pytest.param(4, {"partition_by": ("place",)}, id="partitions", marks=pytest.mark.whole),
        pytest.param(10, {"keep_deleted_values": True}, id="kept values", marks=pytest.mark.whole),
        *(pytest.param(seed, {}, id=f"tombstones {seed}", marks=pytest.mark.whole) for seed in (4, 18, 22)),
    ],
)
def test_any_order_gives_the_same_rows_and_counts_also_behind_a_compaction(
    bench: Workbench, seed: int, settings: dict[str, Any]
) -> None:
    draw = random.Random(seed)
    here, spark = (mor(name, lineage=("object", "offset"), **settings) for name in ("here", "there"))
    bench.services.tables.leave_to_spark(spark)
    merged = []
    for number, objects in enumerate(deliveries(draw, plain_changes(draw, moves=True), objects_at_once=6)):  # type: ignore[arg-type]
        items = [bench.put(changes, SCHEMA) for changes in objects]  # type: ignore[arg-type]
        wanted = bench.merge(spark, items)
        merged_here = bench.merge(here, items)
        merged.append(bench.left_to_spark() is None and merged_here.instant is not None)
        assert told(merged_here) == told(wanted)
        if number == 2:
            bench.serve(here, COMPACTION)
            bench.new_run()
            bench.services.tables.leave_to_spark(spark)
        assert bench.rows_by_hudi_rs(here, *STORED) == bench.rows_by_hudi_rs(spark, *STORED)
    assert sum(merged) > 1, "a seed whose history shows something"
    assert bench.rows(here, *STORED) == bench.rows(spark, *STORED)


@pytest.mark.parametrize(
    "at",
    [(rewrite, "refuse_undone"), pytest.param((HudiJvm, "commit_files"), marks=pytest.mark.whole)],
    ids=["written", "before the commit"],
)
def test_a_log_of_a_driver_that_died_is_rolled_back_and_written_again(
    bench: Workbench, at: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = mor()
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    bench.apply(config, row("u", 3, 1, name="before"))
    manifest = bench.manifest(config, [bench.put([row("u", 4, 1, name="new")], SCHEMA)])
    with monkeypatch.context() as broken:
        broken.setattr(*at, dies)
        with pytest.raises(Died):
            bench.merge_manifest(manifest, config)
    hudi = bench.hudi(config)
    assert bench.rows(config, "id", "name") == [(1, "before"), (2, "n")]
    written = {
        path.name: path.read_bytes() for path in bench.local_path(config).glob(".*.log.*") if path.suffix != ".crc"
    }

    assert bench.resolve(manifest, config) is None
    assert "rolled_back" in bench.events.names() and roll_back_unfinished(hudi) == ()
    bench.new_run()
    assert bench.merge_manifest(manifest, config).counts["winning"] == 1
    assert bench.left_to_spark() is None
    bench.apply(config, row("u", 5, 2, name="after"))
    assert bench.left_to_spark() is None
    assert all((bench.local_path(config) / name).read_bytes() == body for name, body in written.items())
    assert bench.rows_by_both(config, "id", "name") == [(1, "new"), (2, "after")]


@pytest.mark.whole
def test_what_the_driver_does_not_write_into_logs_is_left_to_spark(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = mor(partition_by=("place",))
    bench.apply(config, row("c", 1, 1, "A"), row("c", 2, 2, "B"))
    bench.apply(config, row("u", 4, 1, "A", "stays"), row("u", 5, 2, "B"))
    assert bench.left_to_spark() is None
    for name, value, why in (("MOST_LOG_BYTES", 10, "logs"), ("MOST_FILES", 1, "files: 2")):
        with monkeypatch.context() as small:
            small.setattr(covers, name, value)
            bench.apply(config, row("u", 10, 1, "A", why), row("u", 11, 2, "B", why))
        assert bench.left_to_spark() == why
    assert bench.rows(config, "id", "place", "name") == [(1, "A", "files: 2"), (2, "B", "files: 2")]


def test_a_table_of_many_rows_is_not_listed_again_for_its_index(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = mor()
    bench.apply(config, row("c", 1, 1))
    monkeypatch.setattr(write_choices, "RECORD_INDEX_ROWS", 1)
    monkeypatch.setattr(HudiJvm, "size_bytes", dies)
    bench.apply(config, row("u", 2, 1, name="new"))
    assert (bench.left_to_spark(), bench.rows(config, "id", "name")) == (None, [(1, "new")])


TAGGED = flattened(
    {"id": "int", **dict.fromkeys(("place", "name"), ["null", "string"])}
    | {"tags": ["null", {"type": "array", "items": ["null", "string"]}]}
)


def test_rows_and_lists_move_between_partitions_and_back_as_every_reader_sees_them(bench: Workbench) -> None:
    config = mor(partition_by=("place",))

    def merge(*changes: dict[str, Any]) -> None:
        tagged = [{**values, "tags": values["name"] and [values["name"], None]} for values in changes]
        bench.apply(config, *tagged, schema=TAGGED)
        assert bench.left_to_spark() is None

    merge(row("c", 1, 1, "A"), row("c", 2, 2, "B"), row("c", 3, 3, "A"))
    steps = (
        [row("u", 10, 1, "B", "moved"), row("u", 11, 2, "C", "started a partition")],
        [row("u", 20, 1, "B", "stays")],
        [row("u", 30, 1, "A", "back"), row("d", 31, 2, None, None), row("u", 5, 3, "B", "late, and newer")],
        [row("u", 25, 1, "C", "too late"), row("u", 40, 3, "A", "back, too")],
    )
    columns = ("id", "place", "name", "tags")
    texts = (
        [(1, "B", "moved"), (2, "C", "started a partition"), (3, "A", "n")],
        [(1, "B", "stays"), (2, "C", "started a partition"), (3, "A", "n")],
        [(1, "A", "back"), (2, None, None), (3, "B", "late, and newer")],
        [(1, "A", "back"), (2, None, None), (3, "A", "back, too")],
    )
    expected = [[(*text, text[2] and [text[2], None]) for text in rows] for rows in texts]
    for step, rows in zip(steps, expected, strict=True):
        merge(*step)
        assert bench.rows_by_both(config, *columns) == rows
    assert [tuple(values) for values in bench.rows_by_old_bundle(config, *columns)] == expected[-1]
    bench.serve(config, COMPACTION)
    assert bench.rows_by_both(config, *columns) == expected[-1]
