"""A purge raises both of its floors, the ledger's and the table's, before it removes a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.workbench import SCHEMA, Died, Workbench, dies, row, table

from sluice.hudi.own_metadata import PURGED_PROPERTY
from sluice.services.requests import PURGE
from sluice_spark.services import purge


def test_a_purge_that_dies_before_it_removes_a_row_has_raised_both_floors(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table("purged", delete_mode="hard")
    config = replace(config, services=replace(config.services, purge_horizon_s=0))
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    deleted = bench.apply(config, row("d", 3, 1))
    bench.services.clock.wait(0.01)  # the horizon is later than the deletion
    floors: list[Any] = []
    removed = purge._remove

    monkeypatch.setattr(purge, "_remove", dies)
    with pytest.raises(Died):
        bench.serve(config, PURGE, raise_floor=floors.append)
    position = dict(bench.rows(config, "id", "_sluice_position"))[1]
    assert floors == [{0: position}] and bench.properties(config)[PURGED_PROPERTY] == position

    monkeypatch.setattr(purge, "_remove", removed)
    assert bench.serve(config, PURGE, raise_floor=floors.append).report.rows == 1
    late = bench.apply(config, row("u", 2, 1, name="late"), after=deleted)
    assert late.counts["below_purge_floor"] == 1 and [id for (id,) in bench.rows(config, "id")] == [2]


def test_no_floor_of_one_log_keeps_the_new_rows_of_another_out(bench: Workbench) -> None:
    config = table("shards", delete_mode="hard", merged=True)
    config = replace(config, services=replace(config.services, purge_horizon_s=0))
    high = bench.apply(config, row("c", 9_000, 1), row("d", 9_001, 1))
    low = [replace(bench.put([row("c", 5, 2)], SCHEMA, offset=100), topic="other.public.shards")]
    both = bench.merge(config, low, after=high)
    bench.services.clock.wait(0.01)
    assert bench.serve(config, PURGE, watch=both.watch).report.rows == 0
    more = replace(bench.put([row("c", 6, 3)], SCHEMA, offset=101), topic="other.public.shards")
    assert bench.merge(config, [more], after=both).counts["winning"] == 1
    assert bench.serve(config, PURGE, watch=high.watch).report.rows == 1  # of one log
