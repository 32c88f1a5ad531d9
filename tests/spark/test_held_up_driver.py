"""A driver that is held up between its look at the lane and its first instant, and goes on beside its successor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from support.workbench import MOR, SCHEMA, Workbench, params, row, table

from sluice_spark.errors import LaneLost, WriteUndone
from sluice_spark.hudi import table as tables
from sluice_spark.hudi.facts import KnownTables
from sluice_spark.merge.by_arrow import commit

WHOLE = pytest.mark.whole
WAYS = {"files": (commit, "commit_own_files"), "spark": (tables, "append")}
RIGHT = [(1, "z"), (2, "later"), (3, "n"), (4, "n"), (9, "new")]


def held_up(monkeypatch: pytest.MonkeyPatch, way: str, meanwhile: Callable[[], None]) -> None:
    """Run `meanwhile` when the way of committing is called for the first time, before it does anything."""
    module, name = WAYS[way]
    whole, calls = getattr(module, name), []

    def late(*given: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            meanwhile()
        return whole(*given, **more)

    monkeypatch.setattr(module, name, late)


def by(way: str, bench: Workbench) -> None:
    """Have small parts committed this way."""
    if way == "spark":
        bench.in_tasks()


EVERY = product(WAYS, ("cow", "mor"))


@pytest.mark.parametrize(("way", "table_type"), params(EVERY, short={("files", "cow")}))
def test_a_held_up_driver_commits_nothing_once_another_run_has_committed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, way: str, table_type: str
) -> None:
    config = table("held", table_type=table_type)
    one = bench.apply(config, *(row("c", n, n) for n in range(1, 5)))
    by(way, bench)
    changes = [row("u", 10, 1, name="z"), row("c", 11, 9, name="new")]
    zombie = bench.manifest(config, [bench.put(changes, SCHEMA)], after=one)
    own, held = bench.services, [True]

    def successor() -> None:
        held[0] = False
        bench.services = replace(bench.services, tables=KnownTables())
        assert bench.resolve(zombie, config) is None
        again = bench.merge_manifest(zombie, config)
        bench.apply(config, row("u", 20, 2, name="later"), after=again)
        bench.services = own

    held_up(monkeypatch, way, successor)
    with pytest.raises(LaneLost):
        bench.merge_manifest(zombie, config, still_held=lambda: held[0])

    assert bench.rows_by_both(config, "id", "name") == RIGHT
    bench.new_run()
    bench.apply(config, row("u", 30, 3, name="next"))
    assert bench.rows(config, "id", "name") == [(1, "z"), (2, "later"), (3, "next"), (4, "n"), (9, "new")]


@MOR
def test_a_held_up_first_load_commits_nothing_beside_another_one(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    config = table("first", table_type=table_type)
    zombie = bench.manifest(config, [bench.put([row("c", n, n) for n in range(1, 4)], SCHEMA)])
    own, held = bench.services, [True]

    def successor() -> None:
        held[0] = False
        bench.services = replace(bench.services, tables=KnownTables())
        assert bench.resolve(zombie, config) is None
        bench.merge_manifest(zombie, config)
        bench.services = own

    held_up(monkeypatch, "files", successor)
    with pytest.raises(LaneLost):
        bench.merge_manifest(zombie, config, still_held=lambda: held[0])
    rows = [(1, "n"), (2, "n"), (3, "n")]
    assert bench.rows_by_both(config, "id", "name") == rows


@pytest.mark.parametrize("way", ["files", "spark"])
def test_a_lane_that_is_lost_while_a_write_goes_on_leaves_no_commit(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The last look is right before the commit: here the lane is lost once Hudi's first instant is there."""
    config = table("lost")
    bench.apply(config, row("c", 1, 1))
    by(way, bench)
    before = bench.timeline(config)
    part = bench.manifest(config, [bench.put([row("u", 2, 1, name="x")], SCHEMA)])
    with pytest.raises(LaneLost):
        bench.merge_manifest(part, config, still_held=lambda: len(bench.timeline(config)) == len(before))
    completed = [name for name in bench.timeline(config) if name.endswith(".commit")]
    assert completed == [name for name in before if name.endswith(".commit")]
    assert bench.rows(config, "id", "name") == [(1, "n")]
    assert bench.resolve(part, config) is None
    bench.merge_manifest(part, config)
    assert bench.rows_by_both(config, "id", "name") == [(1, "x")]


@pytest.mark.parametrize("way", ["files", pytest.param("spark", marks=WHOLE)])
def test_what_another_writer_commits_beside_a_write_undoes_that_write_alone(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A driver that was replaced before goes on while this run, the lane's holder, is about to write."""
    config = table("beside")
    bench.apply(config, *(row("c", n, n) for n in (1, 2)))
    by(way, bench)
    own = bench.services

    def another() -> None:
        bench.services = replace(bench.services, tables=KnownTables())
        bench.apply(config, row("u", 20, 2, name="other"))
        bench.services = own

    part = bench.manifest(config, [bench.put([row("u", 10, 1, name="own")], SCHEMA)])
    held_up(monkeypatch, way, another)
    with pytest.raises(WriteUndone):
        bench.merge_manifest(part, config)
    assert bench.resolve(part, config) is None
    bench.merge_manifest(part, config)
    right = [(1, "own"), (2, "other")]
    assert bench.rows_by_both(config, "id", "name") == right
