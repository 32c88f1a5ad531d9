"""Files that arrive after the roll-back of their write never become rows, however long the table goes on."""

from __future__ import annotations

import fcntl
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.workbench import MOR, SCHEMA, Workbench, row, table

from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice_bench.measure.ledger_times import await_until
from sluice_spark.engine.tasks import work_on
from sluice_spark.hudi import recovery
from sluice_spark.hudi.facts import KnownTables
from sluice_spark.hudi.housekeeping import Housekept, keep_house
from sluice_spark.hudi.recovery import roll_back_unfinished

COLUMNS = ("id", "place", "name")


@pytest.fixture(autouse=True)
def short_timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi_options, "MIN_COMMITS", 2)
    monkeypatch.setattr(hudi_options, "MAX_COMMITS", 3)
    monkeypatch.setattr(hudi_options, "DELTA_COMMITS_PER_COMPACTION", 2)


def files(bench: Workbench, config: TableConfig) -> set[Path]:
    """The table's data files."""
    names = (".parquet", ".log.")
    return {
        path
        for path in bench.local_path(config).rglob("*")
        if path.is_file() and ".hoodie" not in path.parts and any(name in path.name for name in names)
        if not path.name.endswith(".crc")
    }


def late_files(bench: Workbench, config: TableConfig, objects: list[Any]) -> list[Path]:
    """Merge objects by a writer that dies before its commit, then again. The dead one's files arrive after both."""
    before = files(bench, config)
    manifest = bench.manifest(config, objects)
    died = bench.merge_manifest(manifest, config)
    contents = {path: path.read_bytes() for path in files(bench, config) - before}
    for name in (f"{died.instant}.commit", f"{died.instant}.deltacommit"):
        (bench.local_path(config) / ".hoodie" / name).unlink(missing_ok=True)
    for path in contents:
        path.unlink()
    bench.new_run()
    assert bench.resolve(manifest, config) is None
    assert bench.merge_manifest(manifest, config).instant != died.instant
    for path, content in contents.items():
        assert not path.exists()
        path.write_bytes(content)
    return sorted(contents)


def house(bench: Workbench, config: TableConfig) -> Housekept:
    return keep_house(bench.hudi(config), now_ms=0, tables=KnownTables())


@pytest.mark.whole
@MOR
def test_a_file_behind_its_roll_back_is_removed_before_archival(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    bench.apply(config, row("c", 1, 1, "A"))
    changes = [row("c", 2, 2, "B"), row("u", 3, 1, "A", "late")]
    late = late_files(bench, config, [bench.put(changes, SCHEMA)])
    assert len(late) == 2 and any(".log." in path.name for path in late) == (table_type == "mor")
    for number in range(4):
        bench.apply(config, row("u", 10 + number, 1, "A", f"at {number}"))
    whole = [(1, "A", "at 3"), (2, "B", "n")]
    assert bench.rows(config, *COLUMNS) == whole

    housekept = house(bench, config)

    assert housekept.archived > 0

    assert bench.rows(config, *COLUMNS) == whole
    assert bench.rows_by_hudi_rs(config, *COLUMNS) == whole
    assert bench.rows_by_old_bundle(config, *COLUMNS) == whole
    assert not any(path.exists() for path in late)
    assert [path.removeprefix("file:") for path in housekept.late_files] == [str(path) for path in late]


def test_a_file_that_arrives_during_a_roll_back_is_gone_when_that_ends(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, undo = table(partition_by=("place",)), recovery.roll_back_one
    manifest = bench.manifest(config, [bench.put([row("c", 1, 1, "A")], SCHEMA)])
    bench.merge_manifest(manifest, config)
    (written,) = files(bench, config)
    (commit,) = (bench.local_path(config) / ".hoodie").glob("*.commit")
    commit.unlink()

    def undo_and_write(*given: Any) -> None:
        content = written.read_bytes()
        undo(*given)
        written.write_bytes(content)  # planned without it, and its writer still found the instant

    monkeypatch.setattr(recovery, "roll_back_one", undo_and_write)
    bench.new_run()
    assert bench.resolve(manifest, config) is None
    assert files(bench, config) == set()


@pytest.mark.whole
@pytest.mark.parametrize("partition_by", [(), ("place",)], ids=["whole", "parts"])
def test_a_file_behind_the_commit_of_a_first_load_is_removed_before_the_next_merge(
    bench: Workbench, partition_by: tuple[str, ...]
) -> None:
    config = table(partition_by=partition_by)
    bench.apply(config, row("c", 1, 1, "A"), row("c", 2, 2, "B"))
    made = sorted(files(bench, config))
    for path in made:
        of_group = path.name.partition("_")[2]
        (path.parent / f"{uuid.uuid4()}-0_{of_group}").write_bytes(path.read_bytes())
    assert len(bench.rows(config, *COLUMNS)) == 4, "readers see each row twice"

    bench.apply(config, row("u", 3, 1, "A", "new"))

    assert bench.rows_by_both(config, *COLUMNS) == [(1, "A", "new"), (2, "B", "n")]
    assert bench.events.names().count("late_files_removed") == 1
    assert set(made) <= files(bench, config) and len(files(bench, config)) == len(made) + 1
    hudi = bench.hudi(config)
    assert hudi.jvm.files_like(hudi.path, "place=gone", "*.parquet") == []


def test_a_roll_back_ends_the_tasks_of_the_failed_write_first(bench: Workbench, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    config = table()
    bench.apply(config, row("c", 1, 1))
    hudi = bench.hudi(config)
    facts, before = hudi.look(), files(bench, config)
    began, goes_on = tmp_path / "began", tmp_path / "goes_on"

    def slow(name: str) -> str:
        began.touch()
        with goes_on.open() as held:
            fcntl.flock(held, fcntl.LOCK_SH)  # a process of its own: it waits until the test lets go
        return name

    def write() -> None:
        with work_on(bench.spark, config.table, "a write"):
            rows = hudi.stored(facts, *facts.schema.names).withColumn("name", F.udf(slow, "string")("name"))
            hudi.write(rows, operation=hudi_options.BULK_INSERT, batch="b", run="r", facts=facts, size_bytes=0)

    with ThreadPoolExecutor(1) as pool, goes_on.open("w") as held:  # let go first
        fcntl.flock(held, fcntl.LOCK_EX)
        writing = pool.submit(write)
        await_until(lambda: began.exists() or writing.done(), timeout_s=60, what="the write")
        assert not writing.done()
        undone = roll_back_unfinished(bench.hudi(config))
        fcntl.flock(held, fcntl.LOCK_UN)
        assert writing.exception() is not None
    assert len(undone) == 1 and files(bench, config) == before
