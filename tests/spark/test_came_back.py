"""A writer that was stopped inside a transition of the timeline, rolled back and replaced, goes on with its commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.workbench import MOR, SCHEMA, Workbench, row, table

from sluice.config.table import TableConfig
from sluice_spark.errors import WriteUndone
from sluice_spark.hudi import came_back
from sluice_spark.hudi.table import HudiTable

COLUMNS = ("id", "place", "name")


class Sleeper:
    """A writer that dies before its commit, and whose part is rolled back. What it wrote can arrive later.

    In the order of its requests: `.inflight`, whose look at `.requested` came before the roll-back, data files, commit.
    """

    def __init__(self, bench: Workbench, config: TableConfig, *changes: dict[str, Any]) -> None:
        folder = bench.local_path(config)
        before = _content(folder)
        self.manifest = bench.manifest(config, [bench.put(changes, SCHEMA)])
        self.instant = bench.merge_manifest(self.manifest, config).instant or ""
        wrote = {path: body for path, body in _content(folder).items() if path not in before}
        self._commit = {path: body for path, body in wrote.items() if path.suffix in (".commit", ".deltacommit")}
        self._rest = {
            path: body for path, body in wrote.items() if path not in self._commit and path.suffix != ".requested"
        }
        for path in self._commit:
            path.unlink()
        bench.new_run()
        assert bench.resolve(self.manifest, config) is None

    def wakes_up(self, *, and_commits: bool = True) -> None:
        for path, body in {**self._rest, **(self._commit if and_commits else {})}.items():
            path.write_bytes(body)


def _content(folder: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".crc", ".properties")
    }


@pytest.mark.whole
@MOR
def test_what_was_completed_after_its_roll_back_is_undone_by_the_next_run(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    bench.apply(config, row("c", 1, 1, "A"))
    sleeper = Sleeper(bench, config, row("c", 2, 2, "B"), row("u", 3, 1, "A", "new"))
    again = bench.merge_manifest(sleeper.manifest, config)
    sleeper.wakes_up()
    assert len(bench.rows(config, "id")) == 3  # the row of a new file group is there twice

    bench.new_run()
    bench.apply(config, row("u", 4, 2, "B", "next"), after=again)

    assert bench.rows(config, *COLUMNS) == [(1, "A", "new"), (2, "B", "next")]
    assert bench.rows_by_hudi_rs(config, *COLUMNS) == [(1, "A", "new"), (2, "B", "next")]
    assert not any(name.startswith(sleeper.instant) for name in bench.timeline(config))


def test_a_write_that_another_one_completed_beside_looks_again_and_undoes_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(partition_by=("place",))
    bench.apply(config, row("c", 1, 1, "A"))
    sleeper = Sleeper(bench, config, row("c", 2, 2, "B"))
    look = HudiTable.committed

    def wakes_first(self: HudiTable, *given: Any) -> Any:
        sleeper.wakes_up()
        return look(self, *given)

    monkeypatch.setattr(HudiTable, "committed", wakes_first)
    again = bench.merge_manifest(sleeper.manifest, config)
    assert bench.rows(config, *COLUMNS) == [(1, "A", "n"), (2, "B", "n")]
    assert again.instant != sleeper.instant and "instant_came_back" in bench.events.names()


@pytest.mark.whole
def test_an_instant_that_came_back_beside_a_write_is_undone(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(came_back, "LATE_WRITER_MS", 0)  # long after the roll-back nobody looks before each merge
    config = table(partition_by=("place",))
    bench.apply(config, row("c", 1, 1, "A"))
    sleeper = Sleeper(bench, config, row("c", 2, 2, "B"))
    again = bench.merge_manifest(sleeper.manifest, config)
    sleeper.wakes_up()
    bench.services.tables.leave_to_spark(config)  # Arrow works on the files that the run knows, Spark lists them anew
    manifest = bench.manifest(config, [bench.put([row("u", 4, 2, "B", "next")], SCHEMA)], after=again)
    with pytest.raises(WriteUndone):
        bench.merge_manifest(manifest, config)
    assert bench.resolve(manifest, config) is None
    bench.new_run()
    assert bench.merge_manifest(manifest, config).counts["winning"] == 1
    assert bench.rows(config, *COLUMNS) == [(1, "A", "n"), (2, "B", "next")]


@pytest.mark.whole
@MOR
def test_what_came_back_and_was_not_completed_is_rolled_back_below_later_commits(
    bench: Workbench, table_type: str
) -> None:
    config = table(table_type=table_type)
    bench.apply(config, row("c", 1, 1))
    sleeper = Sleeper(bench, config, row("u", 2, 1, name="new"))
    again = bench.merge_manifest(sleeper.manifest, config)
    sleeper.wakes_up(and_commits=False)
    bench.new_run()
    bench.apply(config, row("c", 3, 2), after=again)
    assert bench.rows(config, "id", "name") == [(1, "new"), (2, "n")]
    assert not any(name.startswith(sleeper.instant) for name in bench.timeline(config))


@pytest.mark.whole
def test_the_only_commit_of_a_batch_is_kept_though_it_came_back(bench: Workbench) -> None:
    config = table(partition_by=("place",))
    bench.apply(config, row("c", 1, 1, "A"))
    sleeper = Sleeper(bench, config, row("c", 2, 2, "B"))
    sleeper.wakes_up()  # before its part is merged again, which finds its rows
    assert bench.merge_manifest(sleeper.manifest, config).no_change
    bench.new_run()
    bench.apply(config, row("u", 3, 1, "A", "next"))
    assert bench.rows(config, *COLUMNS) == [(1, "A", "next"), (2, "B", "n")]
